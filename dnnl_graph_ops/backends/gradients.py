"""Runs gradients of pooling and resampling by kernels of the package, which need channels last.

The gradients of averages and of resampling are weighted sums along one spatial axis after the other.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import numpy as np

from .. import dtypes
from ..algorithms.views import FROM_CHANNELS_LAST, TO_CHANNELS_LAST, as_channels_last
from ..convolution.problem import data_view
from ..graph import Node
from ..program.program import Program, View
from ..shapes.common import per_axis, spatial_of
from ..shapes.windows import resolve
from ..strides import channels_last
from ..symbolic import kernels
from .host_ops.common import Array
from .host_ops.windows import pool_axes, taps_of
from .window import fills_no_vectors, has_many_taps, is_float, signal_of_first_channels

Views = Sequence[View]

# elements of windows along all axes that are listed
_MOST_SHARES = 1 << 18


def averages_faster(node: Node) -> bool:
    """Whether builtin code goes before the library's for an AvgPoolBackward: where the library goes number by number.

    It does so for channels that fill no vectors and for signals with channels first. Windows of many taps are shared
    out along one axis after the other by builtin code.
    """
    return averages(node) and (fills_no_vectors(node) or has_many_taps(node) or signal_of_first_channels(node))


def largest_faster(node: Node) -> bool:
    """Whether builtin code goes before the library's for a MaxPoolBackward.

    It does for channels first or such as fill no vectors, and for dilated windows: the library's kernel is a reference.
    """
    dilated = max(node.attrs.get("dilations") or (1,)) > 1
    return is_float(node) and (dilated or node.attrs["data_format"] == "NCX" or fills_no_vectors(node))


def averages(node: Node) -> bool:
    """Whether builtin code computes an AvgPoolBackward: of floats, with the shape of its result as an attribute.

    It lists which window has which element, along each axis, and leaves windows of very many to the library.
    """
    if not is_float(node) or len(node.inputs) > 1:
        return False
    windows = spatial_of(node.inputs[0].shape, node.attrs["data_format"])
    return sum((n or 0) * k for n, k in zip(windows, node.attrs["kernel"], strict=True)) <= _MOST_SHARES


def resamples(node: Node) -> bool:
    """Whether builtin code computes an InterpolateBackward: of floats, with sizes or scales as attributes."""
    return is_float(node) and len(node.inputs) == 2


def max_pool(program: Program, node: Node, sources: Views, targets: Views) -> None:
    """Appends the gradient of the largest elements of windows."""
    attrs = node.attrs
    src, diff, target = (data_view(view, attrs["data_format"]) for view in (*sources, targets[0]))
    windows = [window for window in resolve(node.kind, attrs, src.shape[2:], attrs["kernel"], crops=True) if window]
    strides, begins, ends = zip(*((window.stride, window.begin, window.end) for window in windows), strict=True)
    dilations = per_axis(node.kind, attrs, "dilations", len(windows), 1, 1)
    src, diff = (as_channels_last(program, view) for view in (src, diff))
    direct = target.dtype == "f32" and target.strides[1] == 1
    result = target if direct else program.scratch(target.shape, "f32", channels_last(target.ndim))
    kernel = kernels.max_pool_gradient(
        src.shape[0], src.shape[1], src.shape[2:], diff.shape[2:], attrs["kernel"], strides, begins, ends, dilations,
        dtypes.CODES[src.dtype], src.strides, diff.strides, result.strides,
    )  # fmt: skip
    program.kernel(kernel, [src, diff], [result], node.kind)
    if not direct:
        program.copy(result, target, FROM_CHANNELS_LAST)


def average_pool(program: Program, node: Node, sources: Views, targets: Views) -> None:
    """Appends the gradient of the averages of windows, each of which is shared by the elements of the window."""
    attrs = node.attrs
    axes = pool_axes(attrs, targets[0].shape, sources[0].shape)
    _along_axes(program, node, sources[0], targets[0], [axis.shares(attrs["exclude_pad"]) for axis in axes])


def resample(program: Program, node: Node, sources: Views, targets: Views) -> None:
    """Appends the gradient of a resampling: each element gets from its readers, by the weights they had."""
    src, diff = (data_view(view, node.attrs["data_format"]) for view in sources)
    axes = []
    for size, results in zip(src.shape[2:], diff.shape[2:], strict=True):
        taps = taps_of(size, results, node.attrs)
        places = np.concatenate([np.arange(results)[tap.targets] for tap in taps])
        weights = [np.ones(len(tap.sources)) if tap.weights is None else tap.weights for tap in taps]
        axes.append((np.concatenate([tap.sources for tap in taps]), places, np.concatenate(weights)))
    _along_axes(program, node, sources[1], targets[0], axes)


def _along_axes(
    program: Program, node: Node, source: View, target: View, axes: Sequence[tuple[Array, Array, Array]]
) -> None:
    """Appends weighted sums along each spatial axis: target[t[i]] += source[s[i]] * w[i] for (t, s, w) of the axis."""
    source, target = (data_view(view, node.attrs["data_format"]) for view in (source, target))
    order = channels_last(source.ndim)
    step = source.permute(order)
    if not step.row_major:
        step = program.copied(source, source.dtype, order, TO_CHANNELS_LAST).permute(order)
    last = target.permute(order)
    for axis, (size, (targets, sources, weights)) in enumerate(zip(target.shape[2:], axes, strict=True), start=1):
        shape = (*step.shape[:axis], size, *step.shape[axis + 1 :])
        ready = axis == len(axes) and last.dtype == "f32" and last.row_major
        result = last if ready else program.scratch(shape, "f32")
        by_target = np.argsort(targets, kind="stable")
        starts = np.concatenate([[0], np.cumsum(np.bincount(targets, minlength=size))])
        kernel = kernels.mix_axis(
            prod(step.shape[:axis]), step.shape[axis], prod(step.shape[axis + 1 :]), dtypes.CODES[step.dtype],
            starts.tolist(), sources[by_target].tolist(), weights[by_target].tolist(),
        )  # fmt: skip
        program.kernel(kernel, [step], [result], node.kind)
        step = result
    if step is not last:
        program.copy(step, last, FROM_CHANNELS_LAST)
