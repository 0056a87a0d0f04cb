"""Runs pooling, resampling and reductions by kernels of the package; pooling and resampling need channels last."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from itertools import takewhile
from math import prod
from typing import Any

from .. import dtypes
from ..algorithms.views import FROM_CHANNELS_LAST, as_channels_last, result_view
from ..convolution.problem import data_view
from ..graph import Node, Value
from ..program.element_ops import FLOATS
from ..program.program import Program, View
from ..schema import OPS
from ..shapes.common import channels_of, per_axis, spatial_of
from ..shapes.windows import resolve
from ..symbolic import kernels
from .layout import Vote

Ints = tuple[int, ...]
Views = Sequence[View]
# scale and zero point of integers that a kernel reads, and of its results: 1.0 and 0 of floats
Scales = tuple[float, int, float, int]
# up to so many taps of a window the library's kernels, which stay in registers, are faster
_FEW_TAPS = 9
# channels by which the library's vector code takes images of last channels
VECTOR = 16
# from so many channels on own linear interpolation is as fast as the library's also where channels are last
_MANY_CHANNELS = 8
# The library, as PyTorch, computes places in f32, whose last bit is 2^-11 of an element after so many.
_LONG_AXIS = 4096


def is_float(node: Node) -> bool:
    return node.inputs[0].dtype in FLOATS


def fills_no_vectors(node: Node) -> bool:
    """Whether the channels of a node's first input are known and not a multiple of what the library takes at once."""
    channels = channels_of(node.inputs[0].shape, node.attrs["data_format"])
    return channels is not None and channels % VECTOR != 0


def signal_of_first_channels(node: Node) -> bool:
    """Whether the first input is (N, C, L), which the library's pooling in f32 and f16 treats number by number."""
    return node.attrs["data_format"] == "NCX" and node.inputs[0].ndim == 3


def pools_faster(node: Node) -> bool:
    """Whether the package's kernel goes before the library's for a pooling, as it is faster or keeps NaN.

    It does for MaxPool, where the library's kernel loses NaN; for dilated windows, for which the library has reference
    kernels only; for windows of many taps, as overlapping windows share partial results; for signals with channels
    first; and for images of one channel if the windows leave their last axes as they are: such axes run as channels.
    """
    attrs = node.attrs
    if node.kind == "MaxPool":
        return True
    if has_many_taps(node) or max(attrs.get("dilations") or (1,)) > 1 or signal_of_first_channels(node):
        return True
    return channels_of(node.inputs[0].shape, attrs["data_format"]) == 1 and _untouched(node) > 0


def has_many_taps(node: Node) -> bool:
    return prod(node.attrs["kernel"]) > _FEW_TAPS


def _untouched(node: Node) -> int:
    """Returns how many of the last spatial axes a pooling leaves as they are, the first spatial axis not counted.

    Along such an axis the kernel and the stride are 1, and nothing is padded or cropped.
    """
    attrs, values = node.attrs, (node.inputs[0], node.outputs[0])
    source, result = (spatial_of(value.shape, attrs["data_format"]) for value in values)

    def plain(axis: int) -> bool:
        same = attrs["kernel"][axis] == attrs["strides"][axis] == 1 and source[axis] == result[axis]
        return same and not attrs["pads_begin"][axis] and not attrs["pads_end"][axis]

    return len(list(takewhile(plain, range(len(source) - 1, 0, -1))))


def resamples_many(node: Node) -> bool:
    """Whether an Interpolate has three spatial axes, or so many channels that the package's linear kernel is faster."""
    shape = node.inputs[0].shape
    return len(shape) > 4 or (channels_of(shape, node.attrs["data_format"]) or 0) >= _MANY_CHANNELS


def resamples_long(node: Node) -> bool:
    """Whether an Interpolate has a spatial axis so long that the library rounds places on it."""
    spatial = (
        n for value in (node.inputs[0], node.outputs[0]) for n in spatial_of(value.shape, node.attrs["data_format"])
    )
    return any(size is not None and size > _LONG_AXIS for size in spatial)


def resamples_better(node: Node) -> bool:
    """Whether the package's kernel goes before the library's for an Interpolate.

    It does for all but floats, which the library does not take, for long axes, and in linear modes for three spatial
    axes, with eight sources a result, or for many channels, which the library fetches one by one unless they are last.
    To the nearest it does for last channels, and for channels that fill a vector: it is as fast as the library's, of
    which some sizes have only a reference kernel, and no new size waits for the library to compile.
    """
    form, channels = node.attrs["data_format"], channels_of(node.inputs[0].shape, node.attrs["data_format"]) or 0
    nearest = node.attrs["mode"] == "nearest"
    better = form == "NXC" or channels >= VECTOR if nearest else resamples_many(node)
    return not is_float(node) or better or resamples_long(node)


def layout(head: Node, source: Value, result: Value) -> Iterator[Vote]:
    """Yields the layouts that pooling and resampling by `head` need of what they read and write: channels last."""
    for value in (source, result):
        yield Vote(value, head.attrs["data_format"] == "NCX")


def _on_channels_last(
    program: Program, node: Node, source: View, target: View, make: Callable[[View, View], Any]
) -> None:
    """Appends the kernel that `make` returns for source and target (N, C, spatial...), whose channels have stride 1.

    A source or target with other strides is replaced by a copy in channels-last order.
    """
    source, written = as_channels_last(program, source), result_view(program, target)
    program.kernel(make(source, written), [source], [written], node.kind)
    if written is not target:
        program.copy(written, target, FROM_CHANNELS_LAST)


def pool(program: Program, node: Node, sources: Views, targets: Views, scales: Scales | None = None) -> None:
    attrs, average = node.attrs, node.kind == "AvgPool"
    kernel, excluded = attrs["kernel"], average and attrs["exclude_pad"]
    source, target = (data_view(view, attrs["data_format"]) for view in (sources[0], targets[0]))
    resolved = resolve(node.kind, attrs, source.shape[2:], kernel, crops=True)
    windows = [one for one in resolved if one is not None]
    dilations = per_axis(node.kind, attrs, "dilations", len(kernel), 1, 1)

    def make(source: View, target: View) -> Any:
        rank = source.ndim - 2
        strides, begins, ends = zip(
            *((window.stride, window.begin, window.end) for window in windows[:rank]), strict=True
        )
        taps = kernel[:rank], strides, begins, ends, dilations[:rank]
        return kernels.pool(*_sizes(source, target), *taps, *_layouts(source, target), average, excluded, scales)

    turned = [_as_channels(view, _untouched(node)) for view in (source, target)]
    if source.shape[1] == 1 and turned[0] is not None and turned[1] is not None:
        source, target = turned[0], turned[1]
    _on_channels_last(program, node, source, target, make)


def _sizes(source: View, target: View) -> tuple[int, int, Ints, Ints]:
    """Returns N, C and the spatial sizes of source and target (N, C, spatial...)."""
    return source.shape[0], source.shape[1], source.shape[2:], target.shape[2:]


def _layouts(source: View, target: View) -> tuple[int, Ints, int, Ints]:
    return dtypes.CODES[source.dtype], source.strides, dtypes.CODES[target.dtype], target.strides


def _as_channels(view: View, count: int) -> View | None:
    """Returns a view (N, 1, spatial...) whose last `count` spatial axes are merged into the channel axis.

    Returns None where `count` is 0 or strides do not allow the merge. Example: (N, 1, H, W) becomes (N, W, H).
    """
    if not count:
        return None
    view = replace(view, shape=(view.shape[0], *view.shape[2:]), strides=(view.strides[0], *view.strides[2:]))
    while count > 1:
        if not view.can_merge(view.ndim - 2):
            return None
        view, count = view.merge(view.ndim - 2), count - 1
    return view.permute((0, view.ndim - 1, *range(1, view.ndim - 1)))


def repeats(node: Node) -> bool:
    """Whether an Interpolate repeats each element a whole number of times along each axis, so that a copy suffices."""
    if node.kind != "Interpolate" or node.attrs["mode"] != "nearest":
        return False
    whole = all(n and m and m % n == 0 for n, m in zip(node.inputs[0].shape, node.outputs[0].shape, strict=True))
    return whole and node.attrs["coordinate_transformation_mode"] == "half_pixel"


def _repeat(program: Program, node: Node, source: View, target: View) -> None:
    """Appends a copy that repeats elements: source (n, ...) to target (m, ...), both seen as (n, m / n, ...).

    The axis of m / n repeats has stride 0 in the source; likewise for each further axis.
    """
    shape: list[int] = []
    strides: list[int] = []
    for axis, (n, m) in enumerate(zip(source.shape, target.shape, strict=True)):
        target = target.split(len(shape), (n, m // n))
        shape += (n, m // n)
        strides += (source.strides[axis], 0)
    program.copy(View(source.buffer, tuple(shape), tuple(strides), source.offset), target, node.kind)


def resample(program: Program, node: Node, sources: Views, targets: Views, scales: Scales | None = None) -> None:
    if not is_float(node):
        _repeat(program, node, sources[0], targets[0])
        return
    linear = node.attrs["mode"] != "nearest"
    align = node.attrs["coordinate_transformation_mode"] == "align_corners"

    def make(source: View, target: View) -> Any:
        return kernels.resample(*_sizes(source, target), *_layouts(source, target), linear, align, scales)

    source, target = (data_view(view, node.attrs["data_format"]) for view in (sources[0], targets[0]))
    _on_channels_last(program, node, source, target, make)


REDUCTIONS = {
    "ReduceL1": partial(kernels.reduce, "l1"),
    "ReduceL2": partial(kernels.reduce, "l2"),
    "ReduceMax": partial(kernels.reduce, "max"),
    "ReduceMean": partial(kernels.reduce, "mean"),
    "ReduceMin": partial(kernels.reduce, "min"),
    "ReduceProd": partial(kernels.reduce, "prod"),
    "ReduceSum": partial(kernels.reduce, "sum"),
}


def reduces(node: Node) -> bool:
    """Whether a reduction is of floats, with its axes as an attribute rather than a second input."""
    return is_float(node) and len(node.inputs) == 1


def reduce(program: Program, node: Node, sources: Views, targets: Views, scales: Scales | None = None) -> None:
    source, target = sources[0], targets[0]
    axes = {axis % source.ndim for axis in node.attrs["axes"]}
    if source.size == 0:
        empty = OPS[node.kind].empty
        assert empty is not None
        program.fill(target, empty)
        return
    if not node.attrs["keep_dims"]:
        for axis in sorted(axes):
            target = target.insert(axis)
    fold(program, node.kind, source, target, scales)


def fold(program: Program, kind: str, source: View, target: View, scales: Scales | None = None) -> None:
    """Appends a reduction over the axes on which `target`, in f32 or the dtype of `source`, has one element.

    With `scales` the source is of integers, and the target too or f32.
    """
    reduced = [size == 1 for size in target.shape]
    kernel = REDUCTIONS[kind](source.shape, reduced, *_layouts(source, target), scales)
    program.kernel(kernel, [source], [target], kind)
