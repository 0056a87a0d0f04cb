"""Offers modules with weights and gradients, on NumPy arrays."""

from typing import TYPE_CHECKING

from ..ops.annotations import unquote
from ..schema import BUILDERS
from ..schema.arguments import no_attribute
from ..words import MEMBERS, OPS
from .layers import Conv1d, Conv2d, Conv3d, ConvTranspose1d, ConvTranspose2d, ConvTranspose3d

__all__ = ["Conv1d", "Conv2d", "Conv3d", "ConvTranspose1d", "ConvTranspose2d", "ConvTranspose3d"]

unquote(globals())

# not for type checkers: they would take any name for one of the module
if not TYPE_CHECKING:

    def __getattr__(name: str) -> object:
        meant = OPS.get(name.lower(), name.lower())
        op = next((builder for builder in BUILDERS if builder.replace("_", "") == meant.replace("_", "")), None)
        others = (
            {name: f"dgo.ops.{op} computes it in a graph"} if op and name.lower() not in MEMBERS[__name__] else None
        )
        raise no_attribute(__name__, name, __all__, others)
