"""The weights of a module in eval mode, packed once for each of their values."""

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
from .spec import Spec


def marks_of(tensors: Sequence[Tensor]) -> TensorMarks | None:
    """Tensors as they are now; None where their memory cannot be read.

    What no version tells is not seen: writing through `.data` or `.detach()` to the same memory of a tensor whose
    versions are counted apart, and everything that happens to inference tensors.
    """
    try:
        return TensorMarks(tensors)
    except (RuntimeError, BufferError):
        return None


class Packed:
    """One value of weights and bias, and a net over them that packs them for each size as it comes."""

    def __init__(self, spec: Spec, seen: TensorMarks, w: Tensor, b: Tensor | None, asked: torch.dtype | None) -> None:
        """`asked`: the dtype to compute in, if that is not the parameters' own."""
        self.seen, self.asked = seen, asked
        self.weight, self.bias = w, b
        self.reused = False
        graph = Graph(name=spec.kind)
        # no copies: all that stays is what is packed of them
        constants = [graph._keep(self._constant(which)) for which in ("weight", "bias")[: 1 if b is None else 2]]
        source = graph.input("input", (None,) * w.ndim, constants[0].dtype)
        self.net: Net | None = None
        # PyTorch says what does not fit
        with suppress(Error):
            self.net = graph.compile(getattr(builders, spec.kind)(source, *constants, **spec.attributes))

    def _constant(self, which: str) -> Constant:
        # graphs live until they are collected: longer than the weights should
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
