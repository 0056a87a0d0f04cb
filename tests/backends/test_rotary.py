"""Rotary embeddings and norms by root mean squares in graphs: one step each, whichever way they are written."""

from typing import Any

import numpy as np
import pytest

import dnnl_graph_ops as dgo
from dnnl_graph_ops import ops

from .test_attention import check as checked
from .test_attention import compiled, floats, reshaped, steps


def check(arrays: dict[str, Any], build: Any, want: Any, step: str) -> None:
    net = checked(arrays, build, want, alone=False)
    assert steps(net) == [step]


def part(value: Any, start: int, end: int, by: int = 1) -> Any:
    return ops.slice(value, starts=[start], ends=[end], axes=[3], steps=[by])


def turned(x: Any, cos: Any, sin: Any, first: slice, second: slice) -> Any:
    made = np.empty_like(x)
    made[..., first] = x[..., first] * cos - x[..., second] * sin
    made[..., second] = x[..., first] * sin + x[..., second] * cos
    return made


def arrays(width: int = 6) -> dict[str, Any]:
    return {"x": floats(2, 3, 5, 12), "c": floats(1, 1, 5, width), "s": floats(5, width)}


@pytest.mark.parametrize("swapped", [False, True])
def test_halves(swapped: bool) -> None:
    def build(x: Any, c: Any, s: Any) -> Any:
        a, b = part(x, 0, 6), part(x, 6, 12)
        real = ops.subtract(ops.multiply(c, a), ops.multiply(b, s))
        terms = ops.multiply(s, a), ops.multiply(b, c)
        return ops.concat(real, ops.add(*(terms[::-1] if swapped else terms)), axis=-1)

    want = turned(*arrays().values(), slice(0, 6), slice(6, 12))
    check(arrays(), build, want, "rotary embedding")


def test_neighbours() -> None:
    def build(x: Any, c: Any, s: Any) -> Any:
        a, b = part(x, 0, 12, 2), part(x, 1, 12, 2)
        real = ops.subtract(ops.multiply(a, c), ops.multiply(b, s))
        other = ops.add(ops.multiply(a, s), ops.multiply(b, c))
        pairs = [reshaped(each, [2, 3, 5, 6, 1]) for each in (real, other)]
        return reshaped(ops.concat(*pairs, axis=4), [2, 3, 5, 12])

    want = turned(*arrays().values(), slice(0, None, 2), slice(1, None, 2))
    check(arrays(), build, want, "rotary embedding")


def test_the_first_part_of_more() -> None:
    given = arrays(4)

    def build(x: Any, c: Any, s: Any) -> Any:
        a, b = part(x, 0, 4), part(x, 4, 8)
        real = ops.subtract(ops.multiply(a, c), ops.multiply(b, s))
        other = ops.add(ops.multiply(a, s), ops.multiply(b, c))
        return ops.concat(ops.concat(real, other, axis=-1), part(x, 8, 12), axis=-1)

    x, c, s = given.values()
    want = np.concatenate([turned(x[..., :8], c, s, slice(0, 4), slice(4, 8)), x[..., 8:]], -1)
    net = checked(given, build, want, alone=False)
    assert "rotary embedding" in steps(net)


@pytest.mark.parametrize("order", [(0, 1, 2, 3), (0, 2, 1, 3)])
def test_rotated_by_halves(order: tuple[int, ...]) -> None:
    """Of heads that stand side by side as well."""
    given = arrays(12)
    given["x"] = given["x"].transpose(order).copy()
    back = [order.index(axis) for axis in range(4)]

    def build(x: Any, c: Any, s: Any) -> Any:
        x = ops.static_transpose(x, order=back)
        rotated = ops.concat(ops.multiply(part(x, 6, 12), np.float32([-1])), part(x, 0, 6), axis=3)
        return ops.add(ops.multiply(x, c), ops.multiply(rotated, s))

    x, c, s = (given["x"].transpose(back), given["c"], given["s"])
    want = x * c + np.concatenate([-x[..., 6:], x[..., :6]], -1) * s
    check(given, build, want, "rotary embedding")


@pytest.mark.parametrize("cut", [(0, 6, 6, 12), (0, 5, 7, 12)])
def test_other_parts_stay(cut: tuple[int, ...]) -> None:
    given = arrays(cut[1])

    def build(x: Any, c: Any, s: Any) -> Any:
        a, b = part(x, *cut[:2]), part(x, *cut[2:])
        # the sine has the wrong sign for an embedding
        real = ops.add(ops.multiply(c, a), ops.multiply(b, s))
        return ops.concat(real, ops.add(ops.multiply(s, a), ops.multiply(b, c)), axis=-1)

    x, c, s = given.values()
    a, b = x[..., cut[0] : cut[1]], x[..., cut[2] : cut[3]]
    net = checked(given, build, np.concatenate([c * a + b * s, s * a + b * c], -1), alone=False)
    assert "rotary embedding" not in steps(net)


def rms(x: Any, epsilon: float = 1e-3) -> Any:
    return x / np.sqrt(np.square(x.astype(np.float64)).mean(-1, keepdims=True) + epsilon)


@pytest.mark.parametrize("way", ["divided", "reciprocal", "power", "product"])
@pytest.mark.parametrize("scaled", ["", "known", "given"])
def test_root_mean_square(way: str, scaled: str) -> None:
    given = {"x": floats(2, 5, 12)} | ({"w": floats(12)} if scaled == "given" else {})
    weights = floats(1, 1, 12)

    def build(x: Any, w: Any = None) -> Any:
        square = ops.multiply(x, x) if way == "product" else ops.square(x)
        total = ops.add(ops.reduce_mean(square, axes=[-1], keep_dims=True), np.float32(1e-3))
        if way == "power":
            made = ops.multiply(ops.pow(total, beta=-0.5), x)
        elif way == "divided":
            made = ops.divide(x, ops.sqrt(total))
        else:
            made = ops.multiply(x, ops.reciprocal(ops.sqrt(total)))
        scale = {"": None, "known": weights, "given": w}[scaled]
        return made if scale is None else ops.multiply(scale, made)

    scale = {"": 1, "known": weights, "given": given.get("w")}[scaled]
    check(given, build, rms(given["x"]) * scale, "RMSNorm")


@pytest.mark.parametrize("dtype", ["f32", "bf16"])
def test_the_op(dtype: str) -> None:
    kind = dgo.dtypes.numpy_dtype(dtype)
    x, w = floats(3, 40).astype(kind), floats(40).astype(kind)
    graph = dgo.Graph()
    value = ops.rms_norm(graph.input("x", x.shape, dtype), graph.input("w", w.shape, dtype), epsilon=1e-3)
    net = graph.compile([value])
    made = net(x, w).astype(np.float64)
    bound = 1e-5 if dtype == "f32" else 2e-2
    np.testing.assert_allclose(made, rms(x.astype(np.float32)) * w.astype(np.float64), rtol=bound, atol=bound)
    assert {step.implementation.partition(",")[0] for step in net.explain().steps} == {"builtin"}


def test_of_another_axis_stays() -> None:
    x = floats(2, 5, 12)

    def build(x: Any) -> Any:
        total = ops.add(ops.reduce_mean(ops.square(x), axes=[1], keep_dims=True), np.float32(1e-3))
        return ops.divide(x, ops.sqrt(total))

    want = rms(x.swapaxes(1, 2)).swapaxes(1, 2)
    net = compiled({"x": x}, build)
    np.testing.assert_allclose(net(x), want, rtol=1e-5, atol=1e-6)
    assert "RMSNorm" not in steps(net)
