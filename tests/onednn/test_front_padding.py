"""Gradients of 3-D weights whose windows are in the padding in front: oneDNN 3.2 gets them wrong on AVX-512."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from children import child
from reference import conv_transpose as truth
from reference.data import integers
from reference.graph import evaluate_built

import dnnl_graph_ops as dgo
from dnnl_graph_ops.dtypes import numpy_dtype

# sizes of src and of the kernel, stride, pads of the first axis; the first of these ends the process
CASES = [(4, 8, 1, 7, 2), (4, 8, 1, 7, 1), (3, 6, 3, 4, 1), (3, 9, 4, 8, 1), (2, 5, 1, 1, 1), (4, 9, 3, 5, 3)]
RUN = """
import sys
from onednn.test_front_padding import CASES, check
for case in CASES:
    for tune in ("off", "heuristic"):
        print(case, tune, flush=True)
        check(case, *sys.argv[1:], tune)
"""


def check(case: tuple[int, ...], kind: str, layout: str, dtype: str, tune: str) -> None:
    """The gradient that one of the two kinds of op makes, against the evaluation."""
    size, kernel, stride, begin, end = case
    moved = stride * (size - 1) + kernel - begin - end
    attrs = {
        "strides": (stride, 1, 1),
        "pads_begin": (begin, 0, 0),
        "pads_end": (end, 0, 0),
        "weights_shape": (16, 16, kernel, 1, 1),
        "data_format": layout,
    }
    shapes = [(2, 16, n, 3, 3) if layout == "NCX" else (2, n, 3, 3, 16) for n in (size, moved)]
    graph = dgo.Graph()
    if kind == "conv_transpose":
        values = [graph.input(f"x{i}", shape, dtype) for i, shape in enumerate(shapes)]
        made = dgo.ops.conv_transpose_backward_weights(*values, weights_format="IOX", **attrs)
    else:
        values = [graph.input(f"x{i}", shape, dtype) for i, shape in enumerate(shapes[::-1])]
        made = dgo.ops.convolution_backward_weights(*values, weights_format="OIX", dilations=(1, 1, 1), **attrs)
    rng = np.random.default_rng(0)
    arrays = [integers(rng, value.shape, dtype, limit=1) for value in values]
    want = evaluate_built(graph, dict(zip(values, arrays, strict=True)))[made]
    assert want.dtype == numpy_dtype(dtype)
    net = graph.compile(made, tune=tune)
    for _ in range(10):
        np.testing.assert_array_equal(net(*arrays), want)


@pytest.mark.child
@pytest.mark.parametrize("kind", ["conv_transpose", "convolution"])
@pytest.mark.parametrize("layout", ["NCX", "NXC"])
@pytest.mark.parametrize("dtype", ["f32", "bf16"])
def test_exact(kind: str, layout: str, dtype: str) -> None:
    done = child("-c", RUN, kind, layout, dtype)
    assert done.returncode == 0, (done.stdout.splitlines()[-1:], done.returncode, done.stderr[-1500:])


def test_a_constant_gets_its_zeros_once(rng: np.random.Generator) -> None:
    """Two steps write the copy with zeros in front: both run when the net is compiled."""
    attrs: dict[str, Any] = {
        "strides": [2, 3, 2],
        "pads_begin": [4, 2, 2],
        "pads_end": [1, 1, 1],
        "dilations": [1, 1, 2],
    }
    x, dy = (rng.integers(-2, 3, shape).astype(np.float32) for shape in ((3, 3, 4, 3, 8), (3, 4, 9, 8, 2)))
    graph = dgo.Graph()
    y = dgo.ops.conv_transpose_backward_weights(
        graph.input("x", x.shape, "f32"), graph.constant(dy), weights_shape=(5, 3, 4, 2, 8), **attrs
    )
    want = truth.backward_weights(x, dy, (5, 3, 4), **attrs)
    for tune in ("off", "heuristic"):
        np.testing.assert_array_equal(graph.compile(y, tune=tune)(x), want)
