"""Slice as ONNX's text clamps its bounds: of three elements [-5:-9:-1] takes the first, where NumPy takes none."""

import numpy as np
import pytest

pytest.importorskip("onnx", reason="needs the extra 'onnx'")
pytest.importorskip("onnxruntime", reason="the reference")

from .one_node import WAYS, agree, node, proto_of, run

MOST = 2**63 - 1
NUMBERS = [*range(-7, 8), MOST, -MOST, -MOST - 1]


def taken(size, start, end, step):
    """The places of an axis, by the operator's text."""
    start, end = (bound + size if bound < 0 else bound for bound in (start, end))
    low, high = (0, size) if step > 0 else (-1, size - 1)
    start = min(max(start, 0), high)
    return [*range(start, min(max(end, low), high), step)] if size else []


BEYOND = [(-5, -9, -1), (-4, -MOST, -2), (-MOST, -9, -1), (-1, -MOST, -1), (5, 0, -1)]


@pytest.mark.parametrize("start, end, step", BEYOND)
def test_from_beyond_the_axis(start, end, step):
    given = {"s": np.int64([start]), "e": np.int64([end]), "a": np.int64([0]), "t": np.int64([step])}
    agree([node("Slice", "x s e a t")], {"x": np.arange(3, dtype=np.float32)}, given)


@pytest.mark.parametrize("way", WAYS)
def test_by_definition(way, rng, seed):
    for number in range(20):
        size, start, end = int(rng.integers(0, 5)), *(int(rng.choice(NUMBERS)) for _ in "se")
        step = int(rng.choice([1, 2, -1, -2, -3, MOST, -MOST]))
        x = np.arange(2 * size, dtype=rng.choice([np.float32, np.int64])).reshape(2, size)
        given = {"s": np.int64([start]), "e": np.int64([end]), "a": np.int64([-1]), "t": np.int64([step])}
        print(f"--seed {seed}, case {number}: {size} [{start}:{end}:{step}]")
        proto = proto_of([node("Slice", "x s e a t")], {"x": x}, given, way=way)
        (result,) = run(proto, {"x": x})
        np.testing.assert_array_equal(result, x[:, taken(size, start, end, step)])


@pytest.mark.parametrize("first", [(0, 2), (8, 4)])
def test_backwards_to_one_element_or_none(first):
    """The stride below zero means nothing: NumPy counts such arrays as in order."""
    x, by = np.arange(16, dtype=np.float32).reshape(4, 4), {"b": (-(2**31), 3), "c": (0, 1), "d": (-1, 1)}
    nodes = [node("Slice", "x a b c d", "r"), node("Transpose", "r", perm=[1, 0])]
    known = {name: np.int64(bounds) for name, bounds in by.items()}
    agree(nodes, {"x": x, "a": np.int64(first)}, known, ["sizes", "symbolic"])
