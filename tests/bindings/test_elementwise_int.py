"""Element-wise ops on numbers and truth values as they are, against NumPy."""

from typing import Any

import numpy as np
import pytest

import dnnl_graph_ops as dgo
from dnnl_graph_ops._core import kernels
from dnnl_graph_ops.dtypes import CODES, canonical

TYPES = (np.float32, np.int32, np.int64, np.int8, np.uint8, np.bool_)
ARITHMETIC = {
    "add": np.add, "subtract": np.subtract, "multiply": np.multiply, "maximum": np.maximum, "minimum": np.minimum,
}  # fmt: skip
COMPARISONS = {
    "equal": np.equal, "greater": np.greater, "greater_equal": np.greater_equal, "less": np.less,
    "less_equal": np.less_equal,
}  # fmt: skip
LOGIC = {"and": np.logical_and, "or": np.logical_or, "xor": np.logical_xor}


def numbers(rng: np.random.Generator, shape: tuple[int, ...], kind: Any) -> np.ndarray:
    if kind in (np.int32, np.int64):
        # so large that sums and products overflow
        found = rng.integers(np.iinfo(kind).min, np.iinfo(kind).max, shape, kind, endpoint=True)
        return np.where(rng.random(shape) < 0.5, found, rng.integers(-3, 3, shape, kind))
    found = rng.integers(0 if kind is np.uint8 else -3, 3, shape).astype(kind)
    if kind is np.float32:
        found[rng.random(shape) < 0.2] = np.nan
    return found


def strides(array: np.ndarray, shape: tuple[int, ...]) -> list[int]:
    return [step // array.itemsize for step in np.broadcast_to(array, shape).strides]


def run(op: str, sources: list[np.ndarray], kind: Any) -> np.ndarray:
    shape = np.broadcast_shapes(*(source.shape for source in sources))
    made = np.zeros(shape, kind)
    steps = [strides(array, shape) for array in (*sources, made)]
    codes = CODES[canonical(sources[0].dtype)], CODES[canonical(made.dtype)]
    kernels.elementwise_int(op, shape, steps, *codes).run(*sources, made)
    return made


PAIRS = [
    *((op, kind) for op in ARITHMETIC for kind in (np.int32, np.int64)),
    *((op, kind) for op in COMPARISONS for kind in TYPES),
    *((op, np.bool_) for op in LOGIC),
]


@pytest.mark.sweep(1)
@pytest.mark.parametrize(("op", "kind"), PAIRS)
@pytest.mark.parametrize(
    "shapes", [((40,), (40,)), ((3, 9), (3, 1)), ((1, 4), (5, 1)), ((2, 3, 4), (3, 4)), ((0,), (0,))]
)
def test_pairs(op: str, kind: Any, shapes: tuple[tuple[int, ...], tuple[int, ...]]) -> None:
    rng = np.random.default_rng(6)
    sources = [numbers(rng, shape, kind) for shape in shapes]
    with np.errstate(all="ignore"):
        want = {**ARITHMETIC, **COMPARISONS, **LOGIC}[op](*sources)
    np.testing.assert_array_equal(run(op, sources, want.dtype), want)


@pytest.mark.parametrize("source", TYPES)
@pytest.mark.parametrize("target", TYPES)
def test_casts(source: Any, target: Any) -> None:
    values = numbers(np.random.default_rng(7), (5, 9), source)
    if source is np.float32 and target in (np.int8, np.uint8):
        with pytest.raises(dgo.Error, match="no 'cast'"):
            run("cast", [values], target)
        return
    if source is np.float32 and target is not np.bool_:
        values = np.nan_to_num(values) * 1.75
    made = run("cast", [values.T], target)
    np.testing.assert_array_equal(made, values.T.astype(target))


def test_floats_that_no_integer_holds() -> None:
    values = np.asarray([np.nan, np.inf, -np.inf, 2.0**31, 2.0**63, -(2.0**63), -1.5, 2.0**30], np.float32)
    least = np.iinfo(np.int64).min
    made = run("cast", [values], np.int64)
    np.testing.assert_array_equal(made, [least, least, least, 2**31, least, least, -1, 2**30])
    least = np.iinfo(np.int32).min
    made = run("cast", [values], np.int32)
    np.testing.assert_array_equal(made, [least, least, least, least, least, least, -1, 2**30])


def test_one_operand() -> None:
    truth = np.random.default_rng(8).random((4, 5)) < 0.5
    np.testing.assert_array_equal(run("not", [truth], np.bool_), ~truth)
    floats = np.asarray([0, np.nan, -np.nan, np.inf], np.float32)
    np.testing.assert_array_equal(run("is_nan", [floats], np.bool_), np.isnan(floats))


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"op": "power"}, "no 'power'"),
        ({"src_dtype": CODES["bf16"]}, "no 'add' of data type"),
        ({"strides": [[1], [1]]}, "strides of 3 operands"),
        ({"strides": [[1], [1, 1], [1]]}, "need 1 entries"),
        ({"strides": [[1], [1 << 60], [1]]}, "reaches beyond any array"),
        ({"shape": [], "strides": [[], [], []]}, "must have an axis"),
        ({"shape": [-1]}, "at least 0"),
    ],
)
def test_refusals(change: dict[str, Any], said: str) -> None:
    code = CODES["s64"]
    good: dict[str, Any] = {"op": "add", "shape": [4], "strides": [[1]] * 3, "src_dtype": code, "dst_dtype": code}
    kernels.elementwise_int(**good)
    with pytest.raises(dgo.Error, match=said):
        kernels.elementwise_int(**{**good, **change})
