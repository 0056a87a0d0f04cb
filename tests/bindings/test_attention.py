"""Attention by the builtin kernel, against NumPy in float64."""

from typing import Any

import numpy as np
import pytest

import dnnl_graph_ops as dgo
from dnnl_graph_ops._core import kernels
from dnnl_graph_ops.runtime import threads

pytestmark = pytest.mark.isa


def expected(q: Any, k: Any, v: Any, masks: Any, scale: float, zeros: str) -> Any:
    scores = scale * q.astype(np.float64) @ k.swapaxes(-1, -2)
    for mask in masks:
        scores = scores + mask
    with np.errstate(invalid="ignore"):
        shares = np.exp(scores - scores.max(-1, keepdims=True))
        shares /= shares.sum(-1, keepdims=True)
    empty = {"none": False, "nan": np.isnan(shares), "unseen": np.isneginf(scores).all(-1, keepdims=True)}
    return np.where(empty[zeros], 0, shares) @ v


def strides(array: Any) -> list[int]:
    return [step // array.itemsize for step in array.strides]


def run(q: Any, k: Any, v: Any, masks: Any = (), scale: float = 0.5, zeros: str = "none", seen: Any = ()) -> Any:
    made = np.full((*q.shape[:-1], v.shape[-1]), 7, np.float32)
    wide = [np.broadcast_to(mask, (*q.shape[:-1], k.shape[-2])) for mask in masks]
    sizes = q.shape[:-2], q.shape[-2], k.shape[-2], q.shape[-1], v.shape[-1]
    kernel = kernels.attention(
        *sizes, strides(q), strides(k), strides(v), [strides(m) for m in wide], strides(made), scale, zeros, seen
    )
    kernel.run(q, k, v, *wide, made)
    np.testing.assert_allclose(made, expected(q, k, v, wide, scale, zeros), rtol=2e-5, atol=2e-6)
    return made


def floats(rng: np.random.Generator, *shape: int) -> Any:
    return rng.standard_normal(shape).astype(np.float32)


@pytest.mark.sweep(every=4)
@pytest.mark.parametrize("number", range(60))
def test_random_sizes(number: int, seed: int) -> None:
    print(f"--seed={seed} number {number}")
    rng = np.random.default_rng([seed, number])
    batch = [int(n) for n in rng.integers(1, 4, rng.integers(0, 4))]
    rows, keys, depth, width = (int(n) for n in rng.integers(1, (70, 90, 40, 40)))
    rows = 1 if rng.random() < 0.2 else rows
    q = floats(rng, *batch, rows, depth)
    k = floats(rng, *batch, keys, depth) if rng.random() < 0.5 else floats(rng, *batch, depth, keys).swapaxes(-1, -2)
    v = floats(rng, *batch, keys, width)
    if batch and rng.random() < 0.3:
        k, v = (np.broadcast_to(each[..., :1, :, :], each.shape) for each in (k, v))
    masks = []
    for _ in range(rng.integers(0, 3)):
        mask = floats(rng, rows if rng.random() < 0.5 else 1, keys if rng.random() < 0.8 else 1)
        masks.append(np.where(rng.random(mask.shape) < 0.1, np.float32(-np.inf), mask))
    run(q, k, v, masks, float(rng.random()), "nan" if rng.random() < 0.5 else "unseen")


def test_heads_that_stand_side_by_side() -> None:
    rng = np.random.default_rng(3)
    q, k, v = floats(rng, 2, 13, 3, 4, 9).transpose(2, 0, 3, 1, 4)
    run(q, k, v)


@pytest.mark.parametrize("keys", [40, 300])
def test_keys_that_no_row_sees_do_not_count(keys: int) -> None:
    rng = np.random.default_rng(4)
    q, k, v = floats(rng, 3, 40, 8), floats(rng, 3, keys, 8), floats(rng, 3, keys, 8)
    mask = np.where(np.tri(40, keys, 1) > 0, np.float32(0), np.float32(-np.inf))
    whole = run(q, k, v, [mask])
    seen = np.minimum(np.arange(40) + 2, keys)
    np.testing.assert_array_equal(run(q, k, v, [mask], seen=seen.tolist()), whole)


@pytest.mark.parametrize("rows", [1, 9])
def test_what_is_not_finite(rows: int) -> None:
    q, k, v = np.ones((rows, 3), np.float32), np.ones((11, 3), np.float32), np.ones((11, 5), np.float32)
    hidden = np.full((rows, 11), -np.inf, np.float32)
    assert np.isnan(run(q, k, v, [hidden])).all()
    assert not run(q, k, v, [hidden], zeros="nan").any()
    assert not run(q, k, v, [hidden], zeros="unseen").any()
    k[4, 1] = np.nan
    assert np.isnan(run(q, k, v)).all()
    assert not run(q, k, v, zeros="nan").any()
    assert np.isnan(run(q, k, v, [hidden], zeros="unseen")).all()
    k[4, 1] = 0
    v[2, 2] = np.inf
    assert np.isinf(run(q, k, v)[:, 2]).all()


def test_threads_do_not_change_the_bits(threads: Any = (1, 2, 3)) -> None:
    rng = np.random.default_rng(5)
    q, k, v = (floats(rng, 4, 100, 16) for _ in range(3))
    before = dgo.get_num_threads()
    try:
        found = []
        for count in threads:
            dgo.set_num_threads(count)
            found.append(run(q, k, v))
    finally:
        dgo.set_num_threads(before)
    assert all(np.array_equal(one, found[0]) for one in found)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"q": [6, 1]}, "q has 2 entries, 3 are needed"),
        ({"q": [30, 6, 2]}, "elements of q, v and dst must be neighbours"),
        ({"dst": [30, 6, 2]}, "elements of q, v and dst must be neighbours"),
        ({"masks": [[0, 0, 2]]}, "elements of a mask must be neighbours"),
        ({"masks": [[0, 0, 1]] * 3}, "at most 2 masks"),
        ({"keys": 0}, "at least 1"),
        ({"batch": [-1]}, "at least 0"),
        ({"zeros": "rows"}, "none, nan or unseen"),
        ({"seen": [1]}, "a number for each row"),
        ({"seen": [1, 0, 2]}, "at least 1"),
        ({"v": [1 << 60, 6, 1], "batch": [9]}, "reaches beyond any array"),
    ],
)
def test_refusals(change: dict[str, Any], said: str) -> None:
    good: dict[str, Any] = {
        "batch": [2], "rows": 3, "keys": 5, "depth": 6, "width": 6, "q": [18, 6, 1], "k": [30, 6, 1],
        "v": [30, 6, 1], "masks": [], "dst": [18, 6, 1],
    }  # fmt: skip
    kernels.attention(**good)
    with pytest.raises(dgo.Error, match=said):
        kernels.attention(**{**good, **change})


@pytest.mark.parametrize(("heads", "rows"), [(1, 300), (3, 70), (1, 5)])
def test_bits_do_not_depend_on_threads(heads: int, rows: int) -> None:
    """Tasks of many threads have fewer rows."""
    rng = np.random.default_rng(5)
    q, k, v = floats(rng, heads, rows, 8), floats(rng, heads, 90, 8), floats(rng, heads, 90, 24)
    seen = [int(n) for n in rng.integers(1, 91, rows)]
    mask = np.where(np.arange(90) < np.array(seen)[:, None], np.float32(0), np.float32(-np.inf))
    results = []
    for count in (1, 3, 16, 40):
        with threads.using(count):
            results.append([run(q, k, v), run(q, k, v, [mask], seen=seen)])
    for result in results[1:]:
        np.testing.assert_array_equal(result, results[0])
