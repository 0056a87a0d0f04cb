"""Offers modules with weights and gradients, on NumPy arrays."""

from typing import TYPE_CHECKING

from ..ops.annotations import unquote
from ..schema.arguments import no_attribute
from .layers import Conv1d, Conv2d, Conv3d, ConvTranspose1d, ConvTranspose2d, ConvTranspose3d

__all__ = ["Conv1d", "Conv2d", "Conv3d", "ConvTranspose1d", "ConvTranspose2d", "ConvTranspose3d"]

unquote(globals())

_ELSEWHERE = {"Linear": "dgo.ops.matmul computes it in a graph; nn has Conv1d to Conv3d and ConvTranspose1d to 3d"}

# not for type checkers: they would take any name for one of the module
if not TYPE_CHECKING:

    def __getattr__(name: str) -> object:
        raise no_attribute(__name__, name, __all__, _ELSEWHERE)
