"""Returns activations and weights in the layout that an algorithm needs: views where strides allow it, else copies."""

from __future__ import annotations

from ..convolution.problem import ConvProblem, is_channels_last
from ..program.program import Program, View
from ..strides import channels_last, dense_strides
from ..symbolic import kernels

# labels of steps, which say nothing of directions: fprop and dgrad compute ordinary and transposed convolutions
MULTIPLY = "multiply"
TO_CHANNELS_LAST, FROM_CHANNELS_LAST = "to channels last", "from channels last"


def layer_sizes(problem: ConvProblem) -> kernels.LayerSizes:
    """Returns the problem's geometry as builtin kernels take it, with the channels of x."""
    g = problem.geometry
    return kernels.LayerSizes(g.batch, g.x_channels, g.y, g.x, g.kernel, g.strides, g.pads_begin, g.dilations)


def met(shift: int, y: int, x: int, stride: int) -> range:
    """Returns the positions i in range(y) for which i * stride + shift is in range(x)."""
    return range(max(-(shift // stride), 0), min((x - 1 - shift) // stride, y - 1) + 1)


def as_channels_last(program: Program, view: View) -> View:
    """Returns the activation (N, C, spatial...) itself if its channels are contiguous, else a channels-last copy."""
    if is_channels_last(view):
        return view
    return program.copied(view, view.dtype, channels_last(view.ndim), TO_CHANNELS_LAST)


def channels_last_strides(view: View) -> tuple[int, ...]:
    """Returns the strides of a dense channels-last view of the same shape (N, C, spatial...)."""
    images, channels, *sizes = view.shape
    first, *steps, last = dense_strides((images, *sizes, channels))
    return first, last, *steps


def result_view(program: Program, view: View) -> View:
    """Returns a channels-last view for a kernel to write the result `view` (N, C, spatial...) to.

    This is `view` itself if its channels are contiguous, else scratch, which the caller copies to `view` afterwards.
    """
    if is_channels_last(view):
        return view
    return program.scratch(view.shape, view.dtype, channels_last(view.ndim))


def merged_weights(program: Program, weights: View) -> View:
    """Returns weights (G, K/G, C/G, kernel...) as (K, C/G, kernel...), copied where strides forbid a view."""
    if not weights.can_merge(0):
        dense = program.scratch(weights.shape, weights.dtype)
        program.copy(weights, dense, "weights in rows")
        weights = dense
    return weights.merge(0)


def weights_target(program: Program, problem: ConvProblem) -> tuple[View, View]:
    """Returns where to write w: a view (G, K/G, C/G, kernel...), and the same as (K, C/G, kernel...).

    Both are views of the problem's weights, or of scratch if the weights' strides forbid the second one; call
    `finish_weights` with the first view afterwards.
    """
    weights = problem.w
    if not weights.can_merge(0):
        weights = program.scratch(weights.shape, weights.dtype)
    return weights, weights.merge(0)


def finish_weights(program: Program, result: View, problem: ConvProblem) -> None:
    """Appends the copy of `result` to the problem's weights if `weights_target` returned scratch."""
    if result is not problem.w:
        program.copy(result, problem.w, "weights to the asked shape")
