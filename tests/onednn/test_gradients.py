"""Which gradients of weights oneDNN 3.2 computes by im2col and a GEMM, as its log said on CPUs with AVX-512 and AMX."""

from __future__ import annotations

import math

import pytest

import dnnl_graph_ops as dgo
from dnnl_graph_ops.algorithms import table
from dnnl_graph_ops.bench.problem import Problem
from dnnl_graph_ops.convolution.nodes import make_problem
from dnnl_graph_ops.convolution.problem import WGRAD, ConvProblem
from dnnl_graph_ops.ir.env import Env
from dnnl_graph_ops.onednn import gradients
from dnnl_graph_ops.program.program import Buffer, Place, View
from dnnl_graph_ops.strides import dense_strides

# axes, taps, stride, dilation, padding; in f32 and in bf16
SEEN = [
    (2, 3, 1, 1, 1, False, False),
    (2, 3, 1, 1, 2, False, True),
    (2, 4, 2, 1, 2, False, False),
    (2, 4, 2, 1, 3, False, True),
    (2, 5, 1, 1, 2, False, False),
    (2, 5, 1, 1, 3, False, True),
    (2, 3, 1, 2, 2, False, False),
    (2, 3, 1, 2, 3, True, True),
    (2, 2, 1, 2, 2, True, True),
    (2, 4, 1, 2, 3, False, False),
    (2, 3, 2, 2, 0, True, True),
    (3, 3, 1, 1, 1, False, False),
    (3, 3, 1, 1, 2, True, True),
    (3, 4, 2, 1, 2, False, False),
    (3, 5, 2, 1, 3, True, True),
    (3, 3, 1, 2, 0, True, False),
    (3, 3, 1, 2, 2, True, True),
    (3, 3, 2, 2, 0, True, True),
]


@pytest.mark.parametrize(("axes", "taps", "stride", "dilation", "pad", "f32", "bf16"), SEEN)
def test_as_the_log_says(axes: int, taps: int, stride: int, dilation: int, pad: int, f32: bool, bf16: bool) -> None:
    windows = [(taps, stride, dilation, pad, pad)] * axes
    assert gradients.by_gemm(windows, narrow=False) == f32
    assert gradients.by_gemm(windows, narrow=True) == bf16


def _problem(pad: int, dtype: str, rank: int = 2) -> ConvProblem:
    layer = Problem("layer", 2, 24, 24, (16,) * rank, (3,) * rank, pads_begin=(pad,) * rank, op="conv")
    shapes = layer.src_shape("NXC"), layer.dst_shape("NXC"), layer.weights_shape
    places = Place.INPUT, Place.INPUT, Place.OUTPUT
    x, y, w = (
        View(Buffer(place, dtype, math.prod(shape)), shape, dense_strides(shape))
        for place, shape in zip(places, shapes, strict=True)
    )
    attrs = {**layer.attributes("NXC"), "weights_shape": w.shape, "auto_pad": "None"}
    return make_problem("ConvolutionBackwardWeights", attrs, [x, y], w)


@pytest.mark.parametrize(("pad", "factor"), [(0, True), (1, False)])
def test_unpadded_layers_cost_more_by_phases(pad: int, factor: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """By phases the roles of x and y are exchanged: padding is what the layer lacks of a full convolution."""
    wide, narrow = (_problem(pad, dtype) for dtype in ("f32", "bf16"))
    env = Env(dgo.engine("cpu"), 1)
    phases = table.named("phases", WGRAD)
    assert phases is not None
    monkeypatch.setattr(Env, "compute_dtype", lambda env, dtype, *ops: dtype)
    assert (phases.work(narrow, env).products > phases.work(wide, env).products) == factor


@pytest.mark.parametrize("dtype", ["f32", "bf16"])
def test_phases_of_unpadded_layers_of_three_axes_cost_more_than_of_padded_ones(
    dtype: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    unpadded, padded = (_problem(pad, dtype, rank=3) for pad in (0, 1))
    env = Env(dgo.engine("cpu"), 1)
    phases = table.named("phases", WGRAD)
    assert phases is not None
    monkeypatch.setattr(Env, "compute_dtype", lambda env, dtype, *ops: dtype)
    assert phases.work(unpadded, env).products / unpadded.macs > 2 * phases.work(padded, env).products / padded.macs
