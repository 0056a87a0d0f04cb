"""Packs the weights of a module in eval mode, once for each of their values."""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import numpy as np
import torch
from torch import Tensor

from .. import ops as builders
from .._core import TensorMarks, lent_array
from ..compile.net import Net
from ..errors import Error, InvalidArgumentError
from ..graph import Graph
from ..graph.constants import Constant, Meta
from .conv_params import ConvParams


def marks_of(tensors: Sequence[Tensor]) -> TensorMarks | None:
    """Returns marks of the tensors' memory and versions; None if their memory cannot be read.

    Changes that no version counts are not seen: writes through `.data` or `.detach()`, whose versions are counted
    apart, and all changes of inference tensors.
    """
    try:
        return TensorMarks(tensors)
    except (RuntimeError, BufferError):
        return None


class Packed:
    """A value of weights and bias, and a net that packs them for each size at its first call."""

    def __init__(
        self, spec: ConvParams, seen: TensorMarks, w: Tensor, b: Tensor | None, asked: torch.dtype | None
    ) -> None:
        """`asked`: the dtype to compute in, if it is not the parameters' dtype."""
        self.seen, self.asked = seen, asked
        self.weight, self.bias = w, b
        self.reused = False
        graph = Graph(name=spec.kind)
        # no copies of the weights: only their packed form stays
        constants = [graph._keep(self._constant(which)) for which in ("weight", "bias")[: 1 if b is None else 2]]
        source = graph.input("input", (None,) * w.ndim, constants[0].dtype)
        self.net: Net | None = None
        # PyTorch reports shapes that do not fit
        with suppress(Error):
            self.net = graph.compile(getattr(builders, spec.kind)(source, *constants, **spec.attributes))

    def _constant(self, which: str) -> Constant:
        # the garbage collector frees graphs later than the weights should be freed
        reference = weakref.ref(self)

        def make() -> np.ndarray[Any, Any]:
            packed = reference()
            if packed is None:
                raise InvalidArgumentError(f"{which}: the module's packed weights are gone")
            array = np.ascontiguousarray(lent_array(getattr(packed, which)))
            array.flags.writeable = False
            return array

        like = lent_array(getattr(self, which))
        assert like is not None
        return Constant(None, make, Meta(like.shape, like.dtype))
