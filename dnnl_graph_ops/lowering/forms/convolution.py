"""The family as ops of the Convolution family on the same buffers."""

from __future__ import annotations

from .. import tail as post
from ..problem import Problem
from ..program import NativeOp, Operand, Program
from .deconvolution import attributes, finish_weights, library_weights, trimmed, weights_target
from .views import channels_last, result_view


def backward_data(program: Program, problem: Problem) -> None:
    """Backward data is the Convolution of diff_dst: IC is its output channel axis, (IC, OC/G, k...) its OIX."""
    ends, diff_dst = trimmed(problem)
    weights = library_weights(program, problem.weights)
    attrs = {**attributes(problem, ends), "weights_format": "OIX"}
    inputs = (diff_dst, weights) if problem.bias is None else (diff_dst, weights, problem.bias)

    def head(output: Operand) -> NativeOp:
        return NativeOp("Convolution", attrs, inputs, (output,))

    program.native(post.fused(head, problem.tail, problem.src), "Convolution")


def backward_weights(program: Program, problem: Problem) -> None:
    """Backward weights is ConvolutionBackwardWeights with the roles of src and diff_dst swapped."""
    ends, diff_dst = trimmed(problem)
    result, target = weights_target(program, problem)
    attrs = {**attributes(problem, ends), "weights_format": "OIX", "weights_shape": target.shape}
    op = NativeOp("ConvolutionBackwardWeights", attrs, (diff_dst, problem.src), (target,))
    program.native([op], "ConvolutionBackwardWeights")
    finish_weights(program, result, problem)


def backward_data_aside(program: Program, problem: Problem) -> None:
    """`backward_data` on channels-last copies: the library's kernels for channels first are slower than the copies."""
    target = result_view(program, problem.src)
    dst = channels_last(program, problem.dst, "diff_dst to channels last")
    backward_data(program, problem.with_views(src=target, dst=dst))
    if target is not problem.src:
        program.copy(target, problem.src, "diff_src from channels last")


def backward_weights_aside(program: Program, problem: Problem) -> None:
    """`backward_weights` on channels-last copies."""
    src = channels_last(program, problem.src, "src to channels last")
    dst = channels_last(program, problem.dst, "diff_dst to channels last")
    backward_weights(program, problem.with_views(src=src, dst=dst))
