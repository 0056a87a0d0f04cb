"""Packs the weights of a module in eval mode, once for each of their values."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ... import ops as builders
from ..._core import TensorMarks
from ...errors import Error, InvalidArgumentError
from ...frontends.torch_export.build import held
from ...graph import Graph
from ...net.net import Net
from ...runtime.dlpack import from_dlpack
from .conv_params import ConvParams

Array = np.ndarray[Any, Any]


def marks_of(tensors: Sequence[Tensor]) -> TensorMarks | None:
    """Returns marks of the tensors' memory, versions, and elements at some places; None if memory cannot be read.

    Changes that no version counts (through `.data` or another view of the memory, of inference tensors, of running
    statistics in training) are seen if they change one of these elements.
    """
    try:
        return TensorMarks(tensors)
    except (RuntimeError, BufferError):
        return None


def reading(holder: Any, tensor_of: Callable[[Any], Tensor]) -> Callable[[], Array]:
    """Returns a function that reads a tensor of a holder, without a reference to either.

    Graphs refer to their constants, and the garbage collector frees graphs later than weights should be freed.
    """
    reference = weakref.ref(holder)

    def read() -> Array:
        alive = reference()
        if alive is None:
            raise InvalidArgumentError("the parameters of the net are gone")
        return from_dlpack(tensor_of(alive).detach())

    return read


class Packed:
    """A value of weights and bias, and a net that packs them for each size at its first call."""

    def __init__(
        self, spec: ConvParams, seen: TensorMarks, w: Tensor, b: Tensor | None, asked: torch.dtype | None
    ) -> None:
        """`asked`: the dtype to compute in, if it is not the parameters' dtype."""
        self.seen, self.asked = seen, asked
        # parameters themselves, not their memory, which may be replaced
        self.weight, self.bias = w, b
        self.reused = False
        graph = Graph(name=spec.kind)
        # no copies of the weights: only their packed form stays
        readers = [reading(self, lambda packed: packed.weight), reading(self, lambda packed: packed.bias)]
        constants = [graph._keep(held(read)) for read in readers[: 1 if b is None else 2]]
        source = graph.input("input", (None,) * w.ndim, constants[0].dtype)
        self.net: Net | None = None
        # PyTorch reports shapes that do not fit
        with suppress(Error):
            self.net = graph.compile(getattr(builders, spec.kind)(source, *constants, **spec.attributes))
