"""Tells where 16 bits are slower than f32: CPUs without units for them convert to f32, or multiply by other units."""

from __future__ import annotations

from functools import cache

import torch

from ...frontends.torch_export.host import stated
from ...log import logger
from ...runtime import rates
from ...runtime.engines import default_engine

_LOGGER = logger("torch.choice")
_WIDE = "f32"


def slowness(dtype: torch.dtype) -> str:
    """Returns that the rates of this CPU in a dtype are below those in f32; "": they are not, or nothing is known."""
    known, name = rates.of(default_engine()), stated(dtype)
    if known is None or name == _WIDE:
        return ""
    narrow, wide = (
        max((r for unit, r in known.rates.items() if unit.endswith(f" {end}")), default=0) for end in (name, _WIDE)
    )
    if narrow >= wide:
        return ""
    much = f": {narrow:.0f} against {wide:.0f} GMAC/s of one thread" if narrow else ", which has no unit for it"
    return f"{name} is slower than f32 on this CPU{much}"


@cache
def tell_if_slow(dtype: torch.dtype) -> None:
    """Logs, once in a process, that calls in a dtype are slower than calls in f32."""
    if text := slowness(dtype):
        _LOGGER.info("%s", text)
