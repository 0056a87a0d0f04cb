"""Own vector code for one kernel a channel: groups = IC = OC, any layout."""

from __future__ import annotations

from ... import dtypes
from ..._core import kernels
from ..problem import BACKWARD_DATA, FORWARD, Problem
from ..program import Program, View

# the kernels that gather taps keep a list for each phase of dst, which takes more memory than a plane of dst does
MOST_PHASES = 1 << 16

_Ints = tuple[int, ...]
_Arguments = tuple[kernels.LayerSizes, int, _Ints, _Ints, _Ints]


def applies(problem: Problem) -> bool:
    g = problem.geometry
    return g.groups == g.in_channels == g.out_channels and g.groups > 1 and max(g.strides) <= MOST_PHASES


def _arguments(problem: Problem, weights: View, dst: View) -> _Arguments:
    g = problem.geometry
    layer = kernels.LayerSizes(g.batch, g.groups, g.src, g.dst, g.kernel, g.strides, g.pads_begin, g.dilations)
    weights_strides = weights.strides[0], *weights.strides[3:]
    return layer, dtypes.CODES[problem.dtype], problem.src.strides, weights_strides, dst.strides


def build(program: Program, problem: Problem) -> None:
    """Append the steps of any direction."""
    src, weights, dst, bias = problem.src, problem.weights, problem.dst, problem.bias
    added = [] if bias is None else [bias]
    bias_dtype = None if bias is None else dtypes.CODES[bias.dtype]
    if problem.direction == FORWARD:
        arguments = _arguments(problem, weights, dst)
        kernel = kernels.depthwise_forward(*arguments, has_bias=bias is not None, bias_dtype=bias_dtype)
        program.kernel(kernel, [src, weights, *added], [dst], "own depthwise forward")
    elif problem.direction == BACKWARD_DATA:
        arguments = _arguments(problem, weights, dst)
        kernel = kernels.depthwise_backward_data(*arguments, has_bias=bias is not None, bias_dtype=bias_dtype)
        program.kernel(kernel, [dst, weights, *added], [src], "own depthwise backward data")
    else:
        kernel = kernels.depthwise_backward_weights(*_arguments(problem, weights, dst))
        program.kernel(kernel, [src, dst], [weights], "own depthwise backward weights")
