"""Pairs turned by angles and rows divided by roots of mean squares, against NumPy."""

from typing import Any

import numpy as np
import pytest

import dnnl_graph_ops as dgo
from dnnl_graph_ops._core import kernels
from dnnl_graph_ops.dtypes import CODES, numpy_dtype

pytestmark = pytest.mark.isa


def strides(array: Any, axes: int) -> list[int]:
    return [step // array.itemsize for step in array.strides[:axes]]


def turned(x: Any, cos: Any, sin: Any, interleaved: bool, whole: bool) -> Any:
    half = x.shape[-1] // 2
    first = slice(0, None, 2) if interleaved else slice(0, half)
    second = slice(1, None, 2) if interleaved else slice(half, None)
    a, b = x[..., first], x[..., second]
    pairs = [(each[..., :half], each[..., half:]) if whole else (each, each) for each in (cos, sin)]
    made = np.empty_like(x)
    made[..., first] = a * pairs[0][0] - b * pairs[1][0]
    made[..., second] = b * pairs[0][1] + a * pairs[1][1]
    return made


@pytest.mark.parametrize("half", [1, 3, 8, 32])
@pytest.mark.parametrize(("interleaved", "whole"), [(False, False), (True, False), (False, True)])
@pytest.mark.parametrize("shape", [(5,), (2, 3, 40)])
def test_rotary(half: int, interleaved: bool, whole: bool, shape: tuple[int, ...]) -> None:
    rng = np.random.default_rng(9)
    # exact on small integers
    x = rng.integers(-9, 9, (*shape, 2 * half)).astype(np.float32)
    tables = [rng.integers(-9, 9, (shape[-1], (1 + whole) * half)).astype(np.float32) for _ in range(2)]
    wide = [np.broadcast_to(table, (*shape, table.shape[-1])) for table in tables]
    made = np.full((*shape, 2 * half + 1), 7, np.float32)
    steps = [strides(each, len(shape)) for each in (x, *wide, made)]
    kernels.rotary(shape, half, steps, interleaved, whole).run(x, *tables, made)
    np.testing.assert_array_equal(made[..., :-1], turned(x, *wide, interleaved, whole))
    assert (made[..., -1] == 7).all()


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"strides": [[4]] * 3}, "strides of 4 operands"),
        ({"strides": [[4], [4, 1], [4], [4]]}, "cos has 2 entries, 1 are needed"),
        ({"shape": [], "strides": [[]] * 4}, "shape must have an axis"),
        ({"half": -1}, "at least 0"),
        ({"interleaved": True, "whole": True}, "are not whole"),
        ({"strides": [[1 << 60]] * 4}, "reaches beyond any array"),
    ],
)
def test_rotary_refuses(change: dict[str, Any], said: str) -> None:
    good: dict[str, Any] = {"shape": [3], "half": 2, "strides": [[4]] * 4}
    kernels.rotary(**good)
    with pytest.raises(dgo.Error, match=said):
        kernels.rotary(**{**good, **change})


@pytest.mark.parametrize("dtype", ["f32", "bf16", "f16"])
@pytest.mark.parametrize(("rows", "width"), [(1, 1), (3, 7), (40, 64), (17, 300)])
@pytest.mark.parametrize("scaled", [False, True])
def test_rms_norm(dtype: str, rows: int, width: int, scaled: bool) -> None:
    rng = np.random.default_rng(10)
    room = rng.standard_normal((rows, width + 3)).astype(numpy_dtype(dtype))
    scale = rng.standard_normal(width).astype(np.float32)
    made = np.full((rows, width + 2), 7, numpy_dtype(dtype))
    code = CODES[dtype]
    kernel = kernels.rms_norm(rows, width, code, width + 3, code, width + 2, 1e-3, scaled)
    kernel.run(room, *([scale] if scaled else []), made)
    x = room[:, :width].astype(np.float64)
    want = x / np.sqrt(np.square(x).mean(-1, keepdims=True) + 1e-3) * (scale if scaled else 1)
    bound = {"f32": 2e-6, "bf16": 1e-2, "f16": 1e-3}[dtype]
    np.testing.assert_allclose(made[:, :width].astype(np.float64), want, rtol=bound, atol=bound)
    assert (made[:, width:] == 7).all()


def test_rms_norm_of_what_is_not_finite() -> None:
    x = np.ones((3, 20), np.float32)
    x[0, 3], x[1, 4] = np.nan, np.inf
    made = np.empty_like(x)
    kernels.rms_norm(3, 20, 3, 20, 3, 20, 0.0).run(x, made)
    assert np.isnan(made[0]).all()
    assert np.isnan(made[1, 4]) and not made[1, :4].any()
    np.testing.assert_allclose(made[2], 1, rtol=1e-6)


@pytest.mark.parametrize(
    "change", [{"width": 0}, {"rows": -1}, {"src_pitch": -1}, {"rows": 1 << 30, "dst_pitch": 1 << 30}]
)
def test_rms_norm_refuses(change: dict[str, Any]) -> None:
    good: dict[str, Any] = {
        "rows": 2, "width": 4, "src_dtype": 3, "src_pitch": 4, "dst_dtype": 3, "dst_pitch": 4, "epsilon": 0.1,
    }  # fmt: skip
    kernels.rms_norm(**good)
    with pytest.raises(dgo.Error):
        kernels.rms_norm(**{**good, **change})
