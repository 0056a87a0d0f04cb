"""DynamicQuantize and DynamicDequantize with one scale, by builtin code."""

from __future__ import annotations

import numpy as np
import pytest

import dnnl_graph_ops as dgo
from dnnl_graph_ops import ops


@pytest.mark.parametrize("shape", [(5,), (2, 3, 4), (2, 5, 3, 4)])
@pytest.mark.parametrize("point", ["", "same", "s32"])
@pytest.mark.parametrize("dtype", ["u8", "s8"])
def test_there_and_back(dtype: str, point: str, shape: tuple[int, ...], rng: np.random.Generator) -> None:
    """Ties go to the even quotient, before the zero point is added; results end at the bounds of the type."""
    g = dgo.Graph()
    kind = {"u8": np.uint8, "s8": np.int8}[dtype]
    x, scale = g.input("x", shape), g.input("scale", (1,))
    zero = [g.input("zero", (1,), "s32" if point == "s32" else dtype)] if point else []
    q = ops.dynamic_quantize(x, scale, *zero, dtype=dtype)
    net = g.compile((q, ops.dynamic_dequantize(q, scale, *zero)))
    shift = 7 if point else 0
    given = {"x": (rng.integers(-300, 301, shape) / 2).astype(np.float32), "scale": np.float32([0.5])}
    given |= {"zero": np.array([7], np.int32 if point == "s32" else kind)} if point else {}
    given["x"].flat[0] = 0.75
    got = net.run(given)
    levels = np.clip(np.rint(given["x"] / 0.5) + shift, np.iinfo(kind).min, np.iinfo(kind).max)
    for array, want in zip(got.values(), (levels, (levels - shift) * 0.5), strict=True):
        np.testing.assert_array_equal(array, want)
    assert not any("NumPy" in step.implementation for step in net.explain().steps)


@pytest.mark.parametrize("point", [-(2**30), -40000, -32500, 300, 40000, 2**24])
@pytest.mark.parametrize("dtype", ["u8", "s8"])
def test_zero_points_far_beyond_8_bits(dtype: str, point: int) -> None:
    """With quotients as far, results are as exact as f32 sums."""
    g = dgo.Graph()
    x = np.float32([-1e9, -70000, -40000.5, -32600, -1, 0, 1, 32600, 40000.5, 70000, 1e9] * 9)
    q = ops.dynamic_quantize(g.input("x", x.shape), g.input("s", (1,)), g.input("z", (1,), "s32"), dtype=dtype)
    limits = np.iinfo({"u8": np.uint8, "s8": np.int8}[dtype])
    want = np.clip(np.rint(x) + np.float32(point), limits.min, limits.max)
    got = g.compile(q).run({"x": x, "s": np.float32([1]), "z": np.int32([point])})[q.name]
    np.testing.assert_array_equal(got, want)
