"""pads_end and output_padding of a transposed convolution, as the library's ops take them."""

from __future__ import annotations

from ..shapes.attributes import Geometry

Ints = tuple[int, ...]


def forward(g: Geometry) -> tuple[Ints, Ints, Ints]:
    """Per axis: pads_end and output_padding as the library takes them, and the rows of dst that no tap reaches.

    dst ends output_padding rows behind the plain result; pads_end trims as many first. Beyond that the rows are
    never written by a tap, and only fewer than a stride of them can be had from the library.
    """
    ends, paddings, surplus = [], [], []
    for pe, op, s in zip(g.pads_end, g.output_padding, g.strides, strict=True):
        right = pe - op
        ends.append(max(right, 0))
        fits = -right < s
        paddings.append(max(-right, 0) if fits else 0)
        surplus.append(0 if fits else -right)
    return tuple(ends), tuple(paddings), tuple(surplus)


def backward(g: Geometry) -> tuple[Ints, Ints]:
    """Per axis: pads_end, and the last rows of diff_dst, which never met the kernel: output_padding beyond pads_end."""
    pairs = list(zip(g.pads_end, g.output_padding, strict=True))
    return tuple(max(pe - op, 0) for pe, op in pairs), tuple(max(op - pe, 0) for pe, op in pairs)
