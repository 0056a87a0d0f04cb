"""Attentions in graphs: which nodes are one step, and that the numbers stay."""

from typing import Any

import numpy as np
import pytest

import dnnl_graph_ops as dgo
from dnnl_graph_ops import ops


def softmax(scores: Any) -> Any:
    powers = np.exp(scores - scores.max(-1, keepdims=True))
    return powers / powers.sum(-1, keepdims=True)


def floats(*shape: int) -> Any:
    return np.random.default_rng(shape).standard_normal(shape).astype(np.float32)


def compiled(arrays: dict[str, Any], build: Any, **options: Any) -> dgo.Net:
    graph = dgo.Graph()
    kinds = {"b": "boolean", "f": "f32"}
    values = [graph.input(name, array.shape, kinds[array.dtype.kind]) for name, array in arrays.items()]
    made = build(*values)
    return graph.compile(list(made) if isinstance(made, tuple) else [made], **options)


def steps(net: dgo.Net) -> list[str]:
    return [step.step for step in net.explain().steps]


def reshaped(value: Any, shape: list[int]) -> Any:
    return ops.static_reshape(value, shape=shape, special_zero=False)


BATCH = (2, 3)


def heads(rows: int = 7, keys: int = 9, depth: int = 5, width: int = 6) -> dict[str, Any]:
    return {"q": floats(*BATCH, rows, depth), "k": floats(*BATCH, keys, depth), "v": floats(*BATCH, keys, width)}


def attended(q: Any, k: Any, v: Any, change: Any = lambda scores: scores) -> Any:
    return softmax(change(q.astype(np.float64) @ k.swapaxes(-1, -2))) @ v


def check(arrays: dict[str, Any], build: Any, want: Any, alone: bool = True) -> dgo.Net:
    net = compiled(arrays, build)
    np.testing.assert_allclose(net(*arrays.values()), want, rtol=1e-5, atol=1e-6)
    assert ("attention" in steps(net)) is alone
    literal = compiled(arrays, build, tune="off")
    assert "attention" not in steps(literal)
    np.testing.assert_allclose(literal(*arrays.values()), want, rtol=1e-5, atol=1e-6)
    return net


def test_scaled_and_masked() -> None:
    arrays = heads() | {"m": floats(2, 1, 7, 9)}

    def build(q: Any, k: Any, v: Any, m: Any) -> Any:
        scores = ops.multiply(ops.matmul(q, k, transpose_b=True), np.float32(0.3))
        return ops.matmul(ops.softmax(ops.add(m, scores), axis=-1), v)

    want = attended(*heads().values(), lambda scores: scores * 0.3 + arrays["m"])
    net = check(arrays, build, want)
    assert steps(net) == ["attention"]


def test_constants_are_added_before_and_behind_a_reshape() -> None:
    """Of shapes that do not broadcast with each other."""
    first, second = floats(1, 3, 1, 9), floats(6, 7, 9)

    def build(q: Any, k: Any, v: Any) -> Any:
        scores = reshaped(ops.add(ops.matmul(q, k, transpose_b=True), first), [6, 7, 9])
        return ops.matmul(ops.softmax(ops.add(scores, second), axis=-1), reshaped(v, [6, 9, 6]))

    want = attended(*heads().values(), lambda scores: scores + first + second.reshape(2, 3, 7, 9))
    check(heads(), build, want.reshape(6, 7, 6))


def test_rows_that_two_conditions_hide() -> None:
    """Keys that either hides have equal shares in rows without any other."""
    arrays = heads() | {"a": np.arange(7)[:, None] > np.arange(9), "b": np.arange(9) > 3}

    def build(q: Any, k: Any, v: Any, a: Any, b: Any) -> Any:
        scores = ops.matmul(q, k, transpose_b=True)
        for condition in (a, b):
            scores = ops.select(condition, np.float32(-1e30), scores)
        return ops.matmul(ops.softmax(scores, axis=-1), v)

    hidden = arrays["a"] | arrays["b"]
    check(arrays, build, attended(*heads().values(), lambda scores: np.where(hidden, -1e30, scores)))


@pytest.mark.parametrize("where", [True, False])
def test_hidden_where_a_condition_says(where: bool) -> None:
    shown = np.random.default_rng(1).random((2, 1, 1, 9)) < 0.5
    shown[..., 0] = True
    arrays = heads() | {"c": shown if not where else ~shown}

    def build(q: Any, k: Any, v: Any, c: Any) -> Any:
        scores = ops.divide(ops.matmul(q, k, transpose_b=True), np.float32(2))
        least = np.float32(np.finfo(np.float32).min)
        chosen = ops.select(c, least, scores) if where else ops.select(c, scores, least)
        return ops.matmul(ops.softmax(chosen, axis=-1), v)

    check(arrays, build, attended(*heads().values(), lambda scores: np.where(shown, scores / 2, -np.inf)))


@pytest.mark.parametrize("hidden", [-np.inf, -3e38])
def test_causal(hidden: float) -> None:
    arrays = heads(40, 40)
    mask = np.where(np.tri(40) > 0, np.float32(0), np.float32(hidden))

    def build(q: Any, k: Any, v: Any) -> Any:
        return ops.matmul(ops.softmax(ops.add(ops.matmul(q, k, transpose_b=True), mask), axis=-1), v)

    check(arrays, build, attended(*arrays.values(), lambda scores: scores + mask))


def test_two_masks_of_which_one_is_known() -> None:
    """What one hides in finite numbers is no less than what the other leaves."""
    arrays = heads(6, 6) | {"m": np.full((2, 1, 1, 6), -3e38, np.float32)}
    mask = np.where(np.tri(6) > 0, np.float32(0), np.float32(-3e38))

    def build(q: Any, k: Any, v: Any, m: Any) -> Any:
        scores = ops.add(ops.matmul(q, k, transpose_b=True), mask)
        return ops.matmul(ops.softmax(ops.add(scores, m), axis=-1), v)

    with np.errstate(over="ignore"):
        single = (arrays["q"] @ arrays["k"].swapaxes(-1, -2) + mask) + arrays["m"]
    check(arrays, build, attended(*heads(6, 6).values(), lambda scores: single))


def test_heads_share_keys() -> None:
    arrays = {"q": floats(2, 6, 5, 8), "k": floats(2, 2, 9, 8), "v": floats(2, 2, 9, 8)}

    def repeated(x: Any) -> Any:
        one = reshaped(x, [2, 2, 1, 9, 8])
        more = ops.pad(one, pads_begin=[0] * 5, pads_end=[0, 0, 2, 0, 0], mode="edge")
        return reshaped(more, [2, 6, 9, 8])

    def build(q: Any, k: Any, v: Any) -> Any:
        turned = ops.static_transpose(repeated(k), order=[0, 1, 3, 2])
        scores = ops.matmul(ops.multiply(q, np.float32(0.5)), ops.multiply(turned, np.float32(0.5)))
        return ops.matmul(ops.softmax(scores, axis=-1), repeated(v))

    more = [arrays["q"], *(np.repeat(arrays[name], 3, 1) for name in "kv")]
    net = check(arrays, build, attended(*more, lambda scores: scores / 4))
    assert steps(net) == ["attention"]


def test_heads_stand_side_by_side() -> None:
    arrays = {name: floats(2, 7, 12) for name in "qkv"}

    def parted(x: Any) -> Any:
        return ops.static_transpose(reshaped(x, [2, 7, 3, 4]), order=[0, 2, 1, 3])

    def build(q: Any, k: Any, v: Any) -> Any:
        scores = ops.matmul(parted(q), parted(k), transpose_b=True)
        made = ops.matmul(ops.softmax(scores, axis=-1), parted(v))
        joined = reshaped(ops.static_transpose(made, order=[0, 2, 1, 3]), [2, 7, 12])
        return ops.relu(joined)

    apart = [each.reshape(2, 7, 3, 4).swapaxes(1, 2) for each in arrays.values()]
    net = check(arrays, build, np.maximum(attended(*apart).swapaxes(1, 2).reshape(2, 7, 12), 0))
    assert steps(net) == ["attention", "ReLU"]


@pytest.mark.parametrize("way", ["turned shares", "turned product", "turned values"])
def test_turned(way: str) -> None:
    """Values by columns, as attention between the positions of an image has them."""
    given = {"q": floats(2, 7, 5), "k": floats(2, 5, 9), "v": floats(2, 6, 9)}

    def build(q: Any, k: Any, v: Any) -> Any:
        shares = ops.softmax(ops.multiply(ops.matmul(q, k), np.float32(0.5)), axis=2)
        if way == "turned values":
            return ops.relu(ops.matmul(shares, v, transpose_b=True))
        if way == "turned shares":
            made = ops.matmul(v, ops.static_transpose(shares, order=[0, 2, 1]))
        else:
            made = ops.matmul(v, shares, transpose_b=True)
        return ops.relu(made)

    want = attended(given["q"], given["k"].swapaxes(1, 2), given["v"].swapaxes(1, 2), lambda scores: scores / 2)
    want = want if way == "turned values" else want.swapaxes(1, 2)
    check(given, build, np.maximum(want, 0))


def test_batches_in_one_axis_and_masks_by_head() -> None:
    arrays = {"q": floats(6, 7, 5), "k": floats(6, 5, 9), "v": floats(6, 9, 6), "m": floats(2, 1, 1, 9)}

    def build(q: Any, k: Any, v: Any, m: Any) -> Any:
        scores = ops.add(reshaped(ops.matmul(q, k), [2, 3, 7, 9]), m)
        return ops.matmul(ops.softmax(reshaped(scores, [6, 7, 9]), axis=-1), v)

    mask = np.repeat(arrays["m"], 3, 1).reshape(6, 1, 9)
    check(arrays, build, attended(arrays["q"], arrays["k"].swapaxes(1, 2), arrays["v"], lambda s: s + mask))


def test_what_others_read_is_not_hidden() -> None:
    arrays = heads()

    def build(q: Any, k: Any, v: Any) -> Any:
        shares = ops.softmax(ops.matmul(q, k, transpose_b=True), axis=-1)
        return ops.matmul(shares, v), shares

    net = compiled(arrays, build)
    made, shares = net(*arrays.values())
    assert "attention" not in steps(net)
    np.testing.assert_allclose(made, attended(*arrays.values()), rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(shares.sum(-1), 1, rtol=1e-5)


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("a softmax of another axis", {"axis": 2}),
        ("numbers behind the mask", {"late": True}),
        ("a mask of other numbers", {"hidden": -50.0}),
    ],
)
def test_others_stay_as_they_are(name: str, change: dict[str, Any]) -> None:
    arrays = heads() | {"m": floats(7, 9)}
    axis, late, hidden = change.get("axis", 3), change.get("late"), change.get("hidden")

    def build(q: Any, k: Any, v: Any, m: Any) -> Any:
        scores = ops.add(ops.matmul(q, k, transpose_b=True), m)
        if late:
            scores = ops.multiply(scores, np.float32(0.5))
        if hidden is not None:
            scores = ops.select(np.tri(7, 9) > 0, scores, np.float32(hidden))
        return ops.matmul(ops.softmax(scores, axis=axis), v)

    scores = arrays["q"].astype(np.float64) @ arrays["k"].swapaxes(-1, -2) + arrays["m"]
    scores = scores * 0.5 if late else scores if hidden is None else np.where(np.tri(7, 9) > 0, scores, hidden)
    shares = softmax(scores) if axis == 3 else softmax(scores.swapaxes(2, 3)).swapaxes(2, 3)
    check(arrays, build, shares @ arrays["v"], alone=False)


@pytest.mark.parametrize("which", ["q", "k", "v"])
def test_elements_that_stand_for_the_last_axis(which: str) -> None:
    """Arrays of a call may be stretched in any axis."""
    arrays = {name: floats(*BATCH, 7, 6) for name in ("q", "k", "v")}

    def attention(q: Any, k: Any, v: Any) -> Any:
        return ops.matmul(ops.softmax(ops.matmul(q, k, transpose_b=True), axis=-1), v)

    net = compiled(arrays, attention)
    arrays[which] = np.broadcast_to(arrays[which][..., :1], arrays[which].shape)
    q, k, v = arrays.values()
    np.testing.assert_allclose(net(**arrays), softmax(q @ k.swapaxes(-1, -2)) @ v, rtol=1e-5, atol=1e-6)
