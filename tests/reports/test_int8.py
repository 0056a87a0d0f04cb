"""Ops that leave 8 bits between a Dequantize and a Quantize, as `explain` lists them."""

from __future__ import annotations

import numpy as np

import dnnl_graph_ops as dgo
from dnnl_graph_ops import ops


def floats(g: dgo.Graph, *outputs: dgo.Value) -> dict[str, str]:
    net = g.compile(outputs)
    net(*(np.ones(value.shape, np.uint8) for value in g.inputs))  # type: ignore[arg-type]
    told = net.explain()
    assert ("floats between integers" in str(told)) == bool(told.floats)
    return dict(told.floats)


def source(g: dgo.Graph) -> dgo.Value:
    return ops.dequantize(g.input("x", (1, 4, 4, 8), "u8"), scales=[0.5], zps=[3])


def quantized(value: dgo.Value, scale: float = 0.25) -> dgo.Value:
    return ops.quantize(value, scales=[scale], zps=[1], dtype="u8")


def test_element_wise_ops_and_moves_stay_in_integers() -> None:
    g = dgo.Graph()
    x = source(g)
    parts = ops.concat(ops.relu(x), ops.dequantize(g.input("z", (1, 4, 4, 8), "u8"), scales=[2.0], zps=[0]), axis=3)
    assert floats(g, quantized(parts.reshape(1, 16, 16))) == {}


def test_a_gate_of_channels_stays_in_integers() -> None:
    g = dgo.Graph()
    gate = ops.dequantize(g.input("gate", (1, 1, 1, 8), "u8"), scales=[0.5], zps=[1])
    assert floats(g, quantized(source(g) * gate)) == {}


def test_means_pools_and_resampling_stay_in_integers() -> None:
    g = dgo.Graph()
    x = source(g)
    windows = {"kernel": [2, 2], "strides": [2, 2], "pads_begin": [0, 0], "pads_end": [0, 0]}
    mean = ops.reduce_mean(x, axes=(1, 2), keep_dims=True)
    pools = ops.max_pool(x, **windows), ops.avg_pool(x, **windows, exclude_pad=True)
    larger = ops.interpolate(x, mode="linear", sizes=[7, 9])
    assert floats(g, quantized(mean), *map(quantized, pools), quantized(larger), quantized(ops.relu(x))) == {}


def test_a_mean_of_what_is_computed_in_floats() -> None:
    g = dgo.Graph()
    y = ops.relu(source(g), name="relu")
    reasons = floats(g, quantized(ops.reduce_mean(y, axes=(1, 2), keep_dims=True, name="mean")))
    assert reasons == {
        "relu": "ReduceMean is not computed in integers there",
        "mean": "no group of both is formed",
    }


def test_a_kind_without_a_kernel_of_8_bits() -> None:
    g = dgo.Graph()
    norm = ops.reduce_l2(ops.relu(source(g)), axes=(1, 2), keep_dims=True, name="norm")
    reasons = floats(g, quantized(norm))
    assert (
        "norm" in reasons and set(reasons.values()) == {"no kernel of 8 bits computes ReduceL2"} and len(reasons) == 2
    )


def test_floats_before_the_first_and_behind_the_last_integers_are_not_meant() -> None:
    g = dgo.Graph()
    x = g.input("x", (1, 4, 4, 8), "u8")
    mean = ops.reduce_mean(ops.dequantize(x, scales=[0.5], zps=[3]), axes=(1, 2))
    first = ops.quantize(g.constant(np.ones((2, 3), np.float32)) + 1.0, scales=[1.0], zps=[0], dtype="u8")
    assert floats(g, mean, first) == {}


def test_floats_that_several_ops_read() -> None:
    g = dgo.Graph()
    y = ops.exp(source(g), name="shared")
    reasons = floats(g, quantized(y), quantized(y, 0.5))
    assert reasons == {"shared": "several ops read the floats"}
