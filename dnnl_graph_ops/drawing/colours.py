"""A colour for each partition: hues a golden angle apart, light enough for black text."""

from __future__ import annotations

from colorsys import hls_to_rgb

_GOLDEN = 0.381966


def fill(part: int) -> str:
    """Light; white for no partition."""
    return _hex(part, 0.84, 0.65) if part else "#ffffff"


def stroke(part: int) -> str:
    return _hex(part, 0.38, 0.55) if part else "#333333"


def _hex(part: int, lightness: float, saturation: float) -> str:
    red, green, blue = hls_to_rgb((0.55 + part * _GOLDEN) % 1.0, lightness, saturation)
    return "#" + "".join(f"{round(255 * channel):02x}" for channel in (red, green, blue))
