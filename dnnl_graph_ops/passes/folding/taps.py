"""Sums the taps of a convolution's weights: the weights of a layer that computes a convolution and its neighbour.

Along each axis the new taps are M times the old ones, where M (new taps x old taps) has small whole numbers: its row t
tells how often each old tap is part of the new tap t. Weights of several axes are multiplied by the M of each.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from math import prod
from typing import Any

import numpy as np

from ... import dtypes
from ...graph import Node, Value
from ...graph.constants import Constant
from ...ir import UNSEEN, GraphView, dims, like, linked
from ...shapes import Attributes
from ...shapes.attributes import Geometry, Ints
from ...shapes.common import channel_axes

Array = np.ndarray[Any, Any]
# The longest kernel of an axis, the largest scale next to a kernel, how many times as many taps there may be, and how
# many numbers in the matrix of all axes: more would fill the memory. For example, a 3x3x3 kernel after an upsampling
# by 4 has 8 times as many taps.
_LONGEST, _MOST_MORE, _MOST_NUMBERS = 64, 16, 1 << 18
_LARGEST = float(np.finfo(np.float16).max)
# rows of M
Matrix = tuple[tuple[float, ...], ...]


@dataclass(frozen=True)
class Axis:
    """The window of a convolution along one axis, whose source has `size` elements, and what becomes of the window.

    `scale`: how often the source's elements are repeated, or how many results are averaged, of which `count` averages
    are taken, every `step` results.
    """

    scale: int
    kernel: int
    stride: int
    dilation: int
    begin: int
    end: int
    size: int
    step: int = 1
    count: int = 0


@dataclass(frozen=True)
class Folded:
    """The window of the layer that computes both ops along one axis, and the matrix that sums the taps."""

    matrix: Matrix
    stride: int
    dilation: int
    begin: int
    end: int


def windows(g: Geometry, scales: Sequence[int], begin: Ints, end: Ints, sizes: Ints) -> list[Axis]:
    """Returns the axes of a convolution of this geometry with other pads."""
    columns = scales, g.kernel, g.strides, g.dilations, begin, end, sizes
    return [Axis(*(0 if number is None else number for number in column)) for column in zip(*columns, strict=True)]


def folded(axes: Sequence[Axis], form: Callable[[Axis], Folded | None]) -> list[Folded] | None:
    """Returns the windows that a form has for all axes; None if it has none for one, or far more taps than before."""
    if any(a.kernel > _LONGEST or (a.kernel > 1 and a.scale > _LONGEST) for a in axes):
        return None
    windows = [window for a in axes if (window := form(a)) is not None]
    if len(windows) < len(axes):
        return None
    old, new = prod(a.kernel for a in axes), prod(len(window.matrix) for window in windows)
    return windows if new <= _MOST_MORE * old and new * old <= _MOST_NUMBERS else None


def transposed(a: Axis) -> Folded | None:
    """Returns the window of the ConvTranspose that computes repetition and convolution; None if there is none.

    The tap at k reads the repeated source at i = o - begin + dilation * k for the result o, which is the element
    i // scale. So it is part of those new taps t that reach from this element to o.
    """
    reach = a.dilation * (a.kernel - 1)
    if a.stride != 1 or max(a.begin, a.end) > reach:
        return None
    if a.scale == 1:
        flipped = _matrix(a.kernel, lambda t, k: t == a.kernel - 1 - k, a.kernel)
        return Folded(flipped, 1, a.dilation, reach - a.begin, reach - a.end)
    if a.dilation > a.scale and a.kernel > 1:
        # taps in between would be zeros, which spread Inf and NaN
        return None
    matrix = _matrix(reach + a.scale, lambda t, k: 0 <= t - reach + a.dilation * k < a.scale, a.kernel)
    return Folded(matrix, a.scale, 1, reach - a.begin, reach - a.end)


def strided(a: Axis) -> Folded | None:
    """Returns the window of the Convolution of the source that computes both; None unless scale divides the stride."""
    if a.scale == 1:
        return Folded(_identity(a.kernel), a.stride, a.dilation, a.begin, a.end)
    if a.stride % a.scale:
        return None
    places = [(a.dilation * k - a.begin) // a.scale for k in range(a.kernel)]
    count = places[-1] - places[0] + 1
    if len(set(places)) < count:
        return None
    stride, begin = a.stride // a.scale, -places[0]
    results = (a.size * a.scale + a.begin + a.end - a.dilation * (a.kernel - 1) - 1) // a.stride + 1
    end = max((results - 1) * stride + count - a.size - begin, 0)
    if begin < 0 or max(begin, end) >= count or (a.size + begin + end - count) // stride + 1 != results:
        return None
    return Folded(_matrix(count, lambda t, k: t == places[k] - places[0], a.kernel), stride, 1, begin, end)


def commuted(a: Axis) -> Folded | None:
    """Returns the window of the Convolution that computes both if the repetition follows it; None if there is none.

    A tap then reads as many elements of the source further as the dilation is multiples of the scale. Pads are those of
    the source: the caller cuts off results if they repeat to more than the pads were.
    """
    if a.scale > 1 and (a.stride != 1 or (a.kernel > 1 and a.dilation % a.scale)):
        return None
    dilation = a.dilation if a.kernel == 1 else max(a.dilation // a.scale, 1)
    begin, end = (-(-pad // a.scale) for pad in (a.begin, a.end))
    if max(begin, end) > dilation * (a.kernel - 1):
        return None
    return Folded(_identity(a.kernel), a.stride, dilation, begin, end)


def averaged(a: Axis) -> Folded | None:
    """Returns the window of the convolution that sums `scale` results, `count` times, every `step` results.

    The tap at k of the i-th result of a sum is the new tap stride * i + dilation * k. Returns None where a new tap
    would be a zero, which spreads Inf and NaN, and for long averages: they even out rounding errors of results, which
    one sum does not.
    """
    if a.scale > 1 and 2 * a.scale > a.kernel + 1:
        return None
    places = {(a.stride * i + a.dilation * k, k) for i in range(a.scale) for k in range(a.kernel)}
    number, stride = max(places)[0] + 1, a.stride * a.step
    end = max((a.count - 1) * stride + number - a.size - a.begin, 0)
    if len({t for t, _ in places}) < number or (a.size + a.begin + end - number) // stride + 1 != a.count:
        return None
    return Folded(_matrix(number, lambda t, k: (t, k) in places, a.kernel), stride, 1, a.begin, end)


def attributes(windows: Sequence[Folded]) -> dict[str, Any]:
    """Returns the attributes of a convolution that has these windows."""
    columns = zip(*((w.stride, w.dilation, w.begin, w.end) for w in windows), strict=True)
    names = "strides", "dilations", "pads_begin", "pads_end"
    return {"auto_pad": "None", **dict(zip(names, columns, strict=True))}


def scaled(matrix: Matrix, factor: float) -> Matrix:
    """Returns a matrix with each number multiplied by a factor; the matrix itself if the factor is 1."""
    return matrix if factor == 1 else tuple(tuple(n * factor for n in row) for row in matrix)


def _identity(count: int) -> Matrix:
    return _matrix(count, lambda t, k: t == k, count)


def _matrix(rows: int, holds: Callable[[int, int], bool], columns: int) -> Matrix:
    return tuple(tuple(int(holds(t, k)) for k in range(columns)) for t in range(rows))


def kernel_axes(attrs: Attributes, rank: int) -> list[int]:
    return [axis for axis in range(rank) if axis not in channel_axes(attrs.weights_format, rank)]


def summed(weights: Value, attrs: Attributes, matrices: Sequence[Matrix]) -> Value:
    """Returns weights whose kernel is multiplied by a matrix on each axis, summed in float64 and rounded once.

    The sums of weights that are not constant have to be added to the graph by `add_sums`.
    """
    if all(m == _identity(len(m)) for m in matrices):
        return weights
    axes, shape = kernel_axes(attrs, weights.ndim), list(dims(weights))
    for axis, matrix in zip(axes, matrices, strict=True):
        shape[axis] = len(matrix)
    sums = like(weights, shape=tuple(shape))
    if weights._held is not None:
        sums._held = summed_constant(weights._held, tuple(axes), tuple(matrices))
    return sums


def summed_constant(weights: Constant, axes: Ints, matrices: tuple[Matrix, ...]) -> Constant:
    """Returns weights multiplied by a matrix along each of the axes, computed when their elements are needed."""
    shape = list(weights.shape)
    for axis, matrix in zip(axes, matrices, strict=True):
        shape[axis] = len(matrix)
    products = partial(_multiplied, axes=axes, matrices=matrices)
    return weights.derived(("summed", axes, matrices), products, tuple(shape), weights.dtype)


def channels_constant(weights: Constant, axis: int, ranges: tuple[tuple[int, int], ...]) -> Constant:
    """Returns the channels of weights from first to last of each range, taken when their elements are needed."""
    indices = [index for first, last in ranges for index in range(first, last)]
    shape = tuple(len(indices) if a == axis else n for a, n in enumerate(weights.shape))
    return weights.derived(
        ("channels", axis, ranges), partial(np.take, indices=indices, axis=axis), shape, weights.dtype
    )


def whole(matrices: Sequence[Matrix]) -> Array:
    """Returns the matrix (new taps, old taps) of all axes, whose taps are numbered row-major."""
    product: Array = np.ones((1, 1))
    for matrix in matrices:
        product = np.kron(product, np.asarray(matrix, np.float64))
    return product


def overflow(weights: Value, matrices: Sequence[Matrix]) -> bool:
    """Whether sums of taps may be too large for f16, which ends at 65504; weights that vary may be any number."""
    if weights.dtype != "f16":
        return False
    most = prod(max(map(sum, matrix)) for matrix in matrices)
    return weights._held is None or float(np.abs(weights._held.array).max(initial=0)) * most > _LARGEST


def add_sums(
    graph: GraphView, before: Node, weights: Value, sums: Value, attrs: Attributes, matrices: Sequence[Matrix]
) -> None:
    """Adds a MatMul, and reshapes around it, that compute `sums` of weights which vary, before a node."""
    first = kernel_axes(attrs, weights.ndim)[0] == 0
    matrix = whole(matrices)
    (new, old), others = matrix.shape, prod(dims(weights)) // matrix.shape[1]
    factor = like(weights, shape=(new, old) if first else (old, new))
    factor.constant = np.ascontiguousarray(matrix if first else matrix.T, dtypes.numpy_dtype(weights.dtype))
    flat = like(weights, shape=(old, others) if first else (others, old))
    products = like(weights, shape=(new, others) if first else (others, new))
    operands = (factor, flat) if first else (flat, factor)
    _add(graph, before, "StaticReshape", (weights,), {"shape": flat.shape, "special_zero": False}, flat)
    _add(graph, before, "MatMul", operands, {"transpose_a": False, "transpose_b": False}, products)
    _add(graph, before, "StaticReshape", (products,), {"shape": sums.shape, "special_zero": False}, sums)


def _add(
    graph: GraphView, before: Node, kind: str, inputs: tuple[Value, ...], attrs: dict[str, Any], result: Value
) -> None:
    graph.insert(linked(Node(UNSEEN, kind, f"{result.name} summed", inputs, attrs), [result]), before)


def _multiplied(array: Array, axes: Sequence[int], matrices: Sequence[Matrix]) -> Array:
    """Multiplies by the product of the matrices, of all axes at once: these are few elements of many rows."""
    last = range(-len(axes), 0)
    moved = np.moveaxis(array, axes, last)
    flat = moved.reshape(-1, prod(moved.shape[moved.ndim - len(axes) :])).astype(np.float64)
    sums = (flat @ whole(matrices).T.astype(np.float64)).astype(array.dtype)
    shape = *moved.shape[: moved.ndim - len(axes)], *map(len, matrices)
    return np.ascontiguousarray(np.moveaxis(sums.reshape(shape), last, axes))
