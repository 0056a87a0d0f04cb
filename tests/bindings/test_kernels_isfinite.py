"""The scan for Inf and NaN, and steps that run where it says so."""

import numpy as np
import pytest

from dnnl_graph_ops import _core, dtypes
from dnnl_graph_ops.errors import InvalidArgumentError, ShapeError
from dnnl_graph_ops.runtime.engines import default_engine

from .kernel_cases import code, element_strides
from .plans import declare

pytestmark = pytest.mark.isa

kernels = _core.kernels
FLAG = (dtypes.CODES["s32"], [1], [1])


def scanned(*arrays):
    items = [(array.shape, code(dtypes.canonical(array.dtype)), element_strides(array)) for array in arrays]
    flag = np.full(1, -1, np.int32)
    kernels.isfinite(items).run(*arrays, flag)
    return int(flag[0])


@pytest.mark.parametrize("dtype", ["f32", "bf16", "f16"])
def test_scans_of_random_layouts(dtype, seed):
    for case in range(120):
        rng = np.random.default_rng([seed, case])
        shape = [int(n) for n in rng.choice([1, 2, 3, 5, 8, 17, 40], rng.integers(1, 5))]
        room = np.full([2 * n + 1 for n in shape], np.nan).astype(dtypes.numpy_dtype(dtype))
        steps = [int(step) for step in rng.integers(1, 3, len(shape))]
        view = room[tuple(slice(0, step * n, step) for n, step in zip(shape, steps, strict=True))]
        view = view.transpose(rng.permutation(len(shape)))
        view[...] = rng.choice([0, 1, -3, 65504 if dtype == "f16" else 3e38, 6e-8], view.shape).astype(room.dtype)
        print(f"seed {seed} case {case}: {view.shape} {view.strides}")
        assert scanned(view) == 0
        view[tuple(int(rng.integers(n)) for n in view.shape)] = rng.choice([np.inf, -np.inf, np.nan])
        assert scanned(view) == 1


@pytest.mark.parametrize("place", [0, 1, 8191, 8192, 500_000, 999_999])
def test_a_large_array_is_seen_to_its_end(place):
    array = np.zeros(1_000_000, np.float32)
    array[place] = -np.nan
    assert scanned(array) == 1
    assert scanned(np.zeros(3, np.float32), array) == 1
    assert scanned(np.lib.stride_tricks.as_strided(array[place:], (5, 4), (0, 0))) == 1


def test_nothing_holds_nothing():
    assert scanned() == 0
    assert scanned(np.zeros((3, 0), np.float32)) == 0


def test_what_a_scan_refuses():
    with pytest.raises(InvalidArgumentError, match="not f32, bf16 or f16"):
        kernels.isfinite([((2,), code("s32"), (1,))])
    with pytest.raises(InvalidArgumentError, match="an operand has 0 entries, 1 are needed"):
        kernels.isfinite([((2,), code("f32"), ())])
    with pytest.raises(ShapeError, match="stride"):
        kernels.isfinite([((2, 2), code("f32"), (2**62, 1))])


def branches():
    """dst = 1 where src is finite, else 2."""
    plan = _core.Executor(default_engine()._native, "branches")
    src, dst = plan.add_input(*declare((4,))), plan.add_output(*declare((4,)))
    flag = plan.add_scratch(0, 4)
    plan.add_kernel(kernels.isfinite([((4,), code("f32"), (1,))]), [(src, 0), (flag, 0)])
    for wanted, value in ((False, 1.0), (True, 2.0)):
        plan.add_kernel(kernels.fill((4,), code("f32"), (1,), value), [(dst, 0)])
        plan.only_if((flag, 0), wanted)
    return plan, dst


def test_steps_run_where_the_flag_says_so():
    plan, _ = branches()
    plan.finalize(False)
    src, dst = np.zeros(4, np.float32), np.zeros(4, np.float32)
    for value, want in ((0, 1), (np.inf, 2), (5, 1), (np.nan, 2)):
        src[2] = value
        plan.run([src], [dst])
        assert (dst == want).all()
    assert len(plan.profile([src], [dst], 2)) == 3


def test_a_condition_needs_a_step_and_a_flag():
    empty = _core.Executor(None, "empty")
    with pytest.raises(InvalidArgumentError, match="no step yet"):
        empty.only_if((0, 0), True)
    plan, dst = branches()
    with pytest.raises(InvalidArgumentError, match="no slot 9"):
        plan.only_if((9, 0), True)
    with pytest.raises(InvalidArgumentError, match="do not fit"):
        plan.only_if((dst, 13), True)
    plan.finalize(False)
    with pytest.raises(InvalidArgumentError, match="finalized"):
        plan.only_if((dst, 0), True)
