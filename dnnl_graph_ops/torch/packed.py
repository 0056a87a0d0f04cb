"""The weights of a module in eval mode, packed once for each of their values."""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from .. import ops as builders
from .._core import TensorMarks, lent_array
from ..compile.net import Net
from ..errors import InvalidArgumentError
from ..graph import Graph
from ..graph.constants import Constant, Meta
from ..runtime.locks import Builds
from .spec import Ints, Spec, is_sound

# so many shapes get a net that is chosen for just that shape, the others share one for all
_SHAPES = 4
_MOST_LEFT = 256


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
    """Nets over one value of weights and bias."""

    def __init__(self, spec: Spec, seen: TensorMarks, w: Tensor, b: Tensor | None, asked: torch.dtype | None) -> None:
        """`asked`: the dtype to compute in, if that is not the parameters' own."""
        self.seen, self.asked = seen, asked
        self.weight, self.bias = w, b
        self.reused = False
        self._spec = spec
        self._graph = Graph(name=spec.kind)
        # no copies: all that stays is what is packed of them
        self._constants = [self._graph._keep(self._constant(t)) for t in (w, b) if t is not None]
        self._nets: dict[tuple[Ints, Ints], Net] = {}
        self._any: Net | None = None
        self._left: set[tuple[Ints, Ints]] = set()
        self._builds = Builds()

    def _constant(self, tensor: Tensor) -> Constant:
        # graphs live until they are collected: longer than the weights should
        reference = weakref.ref(self)
        which = "weight" if tensor is self.weight else "bias"

        def make() -> np.ndarray[Any, Any]:
            packed = reference()
            if packed is None:
                raise InvalidArgumentError(f"{which}: the module's packed weights are gone")
            array = np.ascontiguousarray(lent_array(getattr(packed, which)))
            array.flags.writeable = False
            return array

        like = lent_array(tensor)
        assert like is not None
        return Constant(None, make, Meta(like.shape, like.dtype))

    def net(self, x: Tensor) -> Net | None:
        """For such an input; None: it does not fit, or is left to PyTorch."""
        key = x.shape, x.stride()
        found = self._nets.get(key)
        if found is not None:
            return found
        if key in self._left:
            return None
        if self._any is not None:
            return self._any
        return self._builds.once(lambda: self._nets.get(key) or self._any, lambda: self._new(x))

    def leave(self, x: Tensor) -> None:
        """Such inputs to PyTorch, which is faster: no memory for what nobody calls."""
        key = x.shape, x.stride()
        if self._nets.pop(key, None) is not None:
            self._left.add(key)
            if len(self._left) > _MOST_LEFT:
                self._left = {key}

    def _new(self, x: Tensor) -> Net | None:
        if not is_sound(self._spec, x.shape, self.weight.shape, None if self.bias is None else self.bias.shape):
            return None
        if len(self._nets) < _SHAPES:
            net = self._nets[x.shape, x.stride()] = self._compiled(tuple(x.shape), tuple(x.stride()))
            return net
        self._any = self._compiled((None, x.shape[1], *[None] * (x.ndim - 2)), None)
        return self._any

    def _compiled(self, shape: Any, strides: Any) -> Net:
        # one thread at a time adds to the graph
        source = self._graph.input(f"input_{len(self._graph.inputs)}", shape, self._constants[0].dtype, strides)
        build = getattr(builders, self._spec.kind)
        return self._graph.compile(build(source, *self._constants, **self._spec.attributes))
