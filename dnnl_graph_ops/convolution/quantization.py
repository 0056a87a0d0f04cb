"""Describes the integers of a quantized convolution: scales and zero points of what is read and written."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from .. import dtypes, schema
from ..program.epilogue import Epilogue, EpilogueOp
from ..program.program import Program, View

Array = np.ndarray[Any, Any]
Take = Callable[[View], View]
Partition = Callable[[Program, Take], None]
# scale, zero point, the lowest and the highest
Integers = tuple[float, int, int, int]

BOUNDING = schema.kinds("bounds")


@dataclass(frozen=True)
class Residual:
    """A tensor of 8 bits that is added to a layer's result, after this became integers of 8 bits itself.

    `view`: the tensor, which has the shape of the result (N, C, spatial...). `of_view`, `of_result`: scale and zero
    point of both. `dtype`: of the integers of the result, which no view has. `bound`: the ReLU or Clamp of the sum.
    """

    view: View
    of_view: tuple[float, int]
    of_result: tuple[float, int]
    dtype: str
    bound: EpilogueOp | None = None


@dataclass(frozen=True)
class Quantization:
    """The scales and zero points of a convolution of 8-bit integers, each of which is a value / scale + zero point.

    `scale`, `zero`: views of one element with the numbers of the source that the call tells, instead of `src_scale`
    and `src_zero`. `weights_scales`, `weights_zeros`: of all channels of the result, of those of one group, or a single
    one. `dst`: scale and zero point of an integer result; None for a result in f32, or in s32: those are plain sums.
    `residual`: what is added to the result, after the post-ops.
    `partition`: appends the layer as one partition of the library, which reads and writes what the given function
    returns for each of the layer's views; None where the library has none that is known to be exact.
    """

    src_scale: float = 1.0
    src_zero: int = 0
    weights_scales: tuple[float, ...] = (1.0,)
    weights_zeros: tuple[int, ...] = (0,)
    dst: tuple[float, int] | None = None
    scale: tuple[View, ...] = ()
    zero: tuple[View, ...] = ()
    residual: Residual | None = None
    partition: Partition | None = field(default=None, compare=False)

    @property
    def is_dynamic(self) -> bool:
        """Whether the call tells the scale of the source."""
        return bool(self.scale)

    @property
    def key(self) -> Hashable:
        """The numbers on which the choice and the times of algorithms depend."""
        flags = self.is_dynamic, bool(self.zero), self.partition is not None, self.residual is not None
        return self.src_zero, self.weights_zeros, self.dst and self.dst[1], flags

    def scales(self, size: int) -> Array:
        """Returns the factors (OC) of sums in f32: those of the weights, times the source's where that is known."""
        scales = _of_channels(size, self.weights_scales, np.float32)
        return scales if self.is_dynamic else scales * np.float32(self.src_scale)

    def zeros(self, size: int) -> Array:
        """Returns the zero points (OC) of the weights, in s32."""
        return _of_channels(size, self.weights_zeros, np.int32)

    def of_weights(self, shape: Sequence[int], axis: int) -> tuple[Array, Array]:
        """Returns scales and zero points in f32 that broadcast over weights (G, K/G, C/G, kernel...) of this shape.

        `axis`: of the channels of the result.
        """
        size, sides = shape[0] * shape[axis], [n if at in (0, axis) else 1 for at, n in enumerate(shape)]
        numbers = self.weights_scales, self.weights_zeros
        if all(len(some) == 1 for some in numbers):
            size, sides = 1, []
        scales, zeros = (_of_channels(size, some, np.float32).reshape(sides) for some in numbers)
        return scales, zeros

    def bounded(self, epilogue: Epilogue, dtype: str) -> tuple[Epilogue, Integers | None]:
        """Returns post-ops without a last ReLU or Clamp, and the integers of a result in `dtype`, None of floats.

        Rounding is monotonic, so clamping before or after it gives the same. Of other post-ops all stay, and the
        integers are those of the dtype. A result that a residual is added to has the dtype of `Residual`.
        """
        if self.dst is None:
            return epilogue, None
        # each post-op's result is read inside of the group, so the last post-op reads the one before it
        last = epilogue[-1] if epilogue and epilogue[-1].kind in BOUNDING else None
        of = self.residual
        result = _bounded(self.dst, dtype, last) if of is None else _bounded(of.of_result, of.dtype, last)
        return epilogue if last is None else epilogue[:-1], result

    def of_sum(self, dtype: str) -> Integers:
        """Returns the integers of a result in `dtype` that has a residual."""
        assert self.dst is not None
        assert self.residual is not None
        return _bounded(self.dst, dtype, self.residual.bound)

    def without_residual(self) -> Quantization:
        """Returns the quantization of the layer whose result the residual is added to."""
        return self if self.residual is None else replace(self, dst=self.residual.of_result, residual=None)

    def on_views(self, take: Take) -> Quantization:
        """Returns the quantization of the same layer on other views: `take` returns one for each view."""
        scale, zero = (tuple(map(take, views)) for views in (self.scale, self.zero))
        inner = self.partition
        partition = inner and (lambda program, outer: inner(program, lambda view: outer(take(view))))
        residual = self.residual and replace(self.residual, view=take(self.residual.view))
        return replace(self, scale=scale, zero=zero, residual=residual, partition=partition)


def _bounded(to: tuple[float, int], dtype: str, op: EpilogueOp | None) -> Integers:
    """Returns the integers that are quotients by a scale, with a zero point, after a ReLU or Clamp or none."""
    kinds, (scale, zero) = np.iinfo(dtypes.numpy_dtype(dtype)), map(np.float32, to)
    attrs = {"min": -np.inf} if op is None else op.attrs
    limits = attrs.get("min", 0.0), attrs.get("max", np.inf)
    low, high = (int(np.clip(np.rint(np.float32(limit) / scale) + zero, kinds.min, kinds.max)) for limit in limits)
    return *to, low, high


def _of_channels(size: int, values: Sequence[float], dtype: Any) -> Array:
    array = np.asarray(values, dtype)
    # several values are those of one group's channels, or of all
    return np.broadcast_to(array, (size,)).copy() if array.size == 1 else np.tile(array, size // array.size)
