"""Gradients of weights that the library gets wrong when it computes in bf16: small layers whose windows reach far."""

from __future__ import annotations

import sys

import numpy as np
import pytest
from children import child
from reference.data import integers
from reference.graph import evaluate_built

import dnnl_graph_ops as dgo

CASES = 400


def check(seed: int, dtype: str, fpmath_mode: str) -> None:
    """Random layers of one to three axes, exact on small integers."""
    rng = np.random.default_rng([seed, 5])
    done = 0
    while done < CASES:
        rank = int(rng.integers(1, 4))
        size, kernel, stride = (rng.integers(1, most, rank).tolist() for most in (5, 7, 4))
        begin, end = ([int(rng.integers(0, k)) for k in kernel] for _ in range(2))
        room = [n + b + e - k for n, b, e, k in zip(size, begin, end, kernel, strict=True)]
        if min(room) < 0:
            continue
        places = [r // s + 1 for r, s in zip(room, stride, strict=True)]
        groups, ic, oc = int(rng.integers(1, 4)), int(rng.choice([1, 3, 11])), int(rng.choice([1, 4]))
        case = f"size {size} kernel {kernel} stride {stride} pads {begin} {end} groups {groups} ic {ic} oc {oc}"
        print(f"case {done}: {case}", flush=True)
        graph = dgo.Graph(fpmath_mode=fpmath_mode)
        src = graph.input("src", (2, groups * ic, *size), dtype)
        diff_dst = graph.input("diff_dst", (2, groups * oc, *places), dtype)
        made = dgo.ops.convolution_backward_weights(
            src,
            diff_dst,
            weights_shape=(groups * oc, ic, *kernel),
            strides=stride,
            pads_begin=begin,
            pads_end=end,
            dilations=[1] * rank,
            groups=groups,
            data_format="NCX",
            weights_format="OIX",
        )
        arrays = [integers(rng, value.shape, dtype, limit=1) for value in (src, diff_dst)]
        want = evaluate_built(graph, dict(zip((src, diff_dst), arrays, strict=True)))[made]
        np.testing.assert_array_equal(graph.compile(made)(*arrays), want, err_msg=case)
        done += 1


@pytest.mark.child
@pytest.mark.parametrize(("dtype", "fpmath_mode"), [("bf16", "strict"), ("f32", "bf16"), ("f16", "strict")])
def test_exact(dtype: str, fpmath_mode: str, seed: int) -> None:
    done = child("-m", "algorithms.test_narrow_gradients", str(seed), dtype, fpmath_mode)
    assert done.returncode == 0, (done.stdout.splitlines()[-1:], done.returncode, done.stderr[-1500:])


if __name__ == "__main__":
    check(int(sys.argv[1]), *sys.argv[2:])
