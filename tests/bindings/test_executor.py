"""The executor: what it computes and keeps alive, and that runs do not disturb each other."""

import gc
import os
import sys
import textwrap
import threading
import time
import weakref
from itertools import pairwise

import numpy as np
import pytest
from children import child
from concurrently import in_threads
from reference.data import integers

from dnnl_graph_ops import _core, dtypes
from dnnl_graph_ops.errors import InvalidArgumentError
from dnnl_graph_ops.runtime.engines import default_engine
from dnnl_graph_ops.strides import dense_strides

from .plans import (
    F32,
    callback_plan,
    declare,
    deconv_partition,
    deconv_plan,
    deconv_truth,
    relu_partition,
    relu_plan,
)

# -- results -------------------------------------------------------------------


@pytest.mark.parametrize("release_gil", [False, True])
def test_partition(rng, release_gil):
    plan = relu_plan((3, 5), release_gil=release_gil)
    for _ in range(3):  # new addresses each time
        x, y = integers(rng, (3, 5)), np.full((3, 5), np.nan, np.float32)
        assert plan.run([x], [y]) is None
        np.testing.assert_array_equal(y, np.maximum(x, 0))


def test_constant_and_variable_weights_agree(rng):
    weights, x = integers(rng, (4, 4, 8, 16)), integers(rng, (2, 5, 5, 16))
    truth = deconv_truth(x, weights)
    for plan, inputs in [
        (deconv_plan(2, 5, 16, 8, weights), [x]),
        (deconv_plan(2, 5, 16, 8, None), [x, weights]),
    ]:
        y = np.full(truth.shape, np.nan, np.float32)
        plan.run(inputs, [y])
        np.testing.assert_array_equal(y, truth)


def test_kernel_partition_and_callback_through_scratch(rng):
    shape = (4, 6)
    plan = _core.Executor(default_engine()._native, "mixed")
    src = plan.add_input(*declare(shape, (1, 4)))
    dst = plan.add_output(*declare(shape))
    gap = plan.add_constant(np.array([10.0], np.float32))
    first, second = plan.add_scratch(0, 96), plan.add_scratch(128, 96)
    copy = _core.kernels.copy(list(shape), F32, [1, 4], F32, list(dense_strides(shape)))
    plan.add_kernel(copy, [(src, 0), (first, 0)], "copy")
    plan.add_partition(relu_partition(shape), [(first, 0)], [(second, 0)], "relu")

    def add(values, constant, result):
        assert (values.flags.writeable, constant.flags.writeable, result.flags.writeable) == (
            True,
            False,
            True,
        )
        np.add(values, constant, out=result)

    plan.add_callback(add, [(second, 0, *declare(shape)), (gap, 0, *declare((1,))), (dst, 0, *declare(shape))], "add")
    plan.finalize(False)
    x = np.asfortranarray(integers(rng, shape))
    y = np.empty(shape, np.float32)
    plan.run([x], [y])
    np.testing.assert_array_equal(y, np.maximum(x, 0) + 10)
    assert [(row["label"], row["kind"]) for row in plan.describe()] == [
        ("copy", "kernel"),
        ("relu", "partition"),
        ("add", "callback"),
    ]
    assert plan.steps == 3
    assert plan.arena_bytes == 256  # 224 rounded up to whole lines of 64
    assert plan.constant_bytes == 4


def test_offsets_reach_parts_of_a_slot(rng):
    plan = _core.Executor(default_engine()._native, "halves")
    src, dst = plan.add_input(*declare((2, 8))), plan.add_output(*declare((2, 8)))
    for half in (0, 32):
        plan.add_partition(relu_partition((8,)), [(src, half)], [(dst, half)])
    plan.finalize(False)
    x, y = integers(rng, (2, 8)), np.empty((2, 8), np.float32)
    plan.run([x], [y])
    np.testing.assert_array_equal(y, np.maximum(x, 0))


def test_large_scratch_is_shared_between_plans(rng):
    count = 100_000
    _core.drop_idle_scratch()
    for _ in range(5):
        plan = _core.Executor(None)
        src, dst = plan.add_input(*declare((count,))), plan.add_output(*declare((count,)))
        middle = plan.add_scratch(0, 4 * count)
        copy = _core.kernels.copy([count], F32, [1], F32, [1])
        plan.add_kernel(copy, [(src, 0), (middle, 0)])
        plan.add_kernel(copy, [(middle, 0), (dst, 0)])
        plan.finalize(True)
        x, y = integers(rng, (count,)), np.empty(count, np.float32)
        plan.run([x], [y])
        np.testing.assert_array_equal(x, y)
    assert _core.idle_scratch_bytes() == 4 * count
    _core.drop_idle_scratch()
    assert _core.idle_scratch_bytes() == 0


@pytest.mark.parametrize("name", sorted(dtypes.CODES))
def test_every_dtype_reaches_a_callback(name):
    x = np.array([[0, 1, 1], [1, 0, 0]]).astype(dtypes.numpy_dtype(name))
    seen = []
    plan = callback_plan(lambda src, dst: seen.append((src.dtype, src.copy())), [declare((2, 3), None, name)],
                         [declare((1,))])  # fmt: skip
    plan.run([x], [np.empty(1, np.float32)])
    assert seen[0][0] == x.dtype
    np.testing.assert_array_equal(seen[0][1], x)


def test_empty_outputs_run_nothing():
    called = []
    plan = callback_plan(lambda *views: called.append(views), [declare((0, 3))], [declare((0, 3))])
    plan.run([np.empty((0, 3), np.float32)], [np.empty((0, 3), np.float32)])
    assert called == []
    assert plan.benchmark([np.empty((0, 3), np.float32)], [np.empty((0, 3), np.float32)], 3) == [0.0] * 3


def test_empty_input_of_a_partition_has_an_address(rng):
    plan = _core.Executor(default_engine()._native, "empty")
    src, dst = plan.add_input(*declare((0, 3))), plan.add_output(*declare((2,)))
    nothing = plan.add_input(*declare((2,)))
    plan.add_partition(relu_partition((2,)), [(nothing, 0)], [(dst, 0)])
    plan.add_callback(lambda view: None, [(src, 0, *declare((0, 3)))])
    plan.finalize(False)
    y = np.empty(2, np.float32)
    plan.run([np.empty((0, 3), np.float32), np.array([-1, 1], np.float32)], [y])
    assert y.tolist() == [0, 1]


def test_no_steps():
    plan = _core.Executor(None)
    plan.finalize(True)
    plan.run([], [])
    assert plan.describe() == []


def test_steps_that_are_the_same_for_all_sizes():
    """A plan is filled at once with what depends on sizes: shapes, scratch, kernels, offsets and extents."""
    steps = _core.PlanSteps([F32], [F32], [0], [("first", [0, 2], None), ("second", [2, 1], None)])

    def filled(size: int, sized: list) -> _core.Executor:
        plan = _core.Executor(None, "p")
        steps.fill(plan, [((size,), (1,))], [((size,), (1,))], [4 * size], [0], [], sized)
        plan.finalize(False)
        return plan

    for size in (4, 7):
        sized = [(_core.kernels.copy([size], F32, [1], F32, [1]), (0, 0), [4 * size, 4 * size]) for _ in range(2)]
        x, y = np.arange(size, dtype=np.float32), np.empty(size, np.float32)
        filled(size, sized).run([x], [y])
        np.testing.assert_array_equal(y, x)
    kernel, _, extents = sized[0]
    for wrong, text in [
        ([], "has 2 steps, got 0"),
        ([(kernel, (4, 0), extents)] * 2, "28 bytes at offset 4 do not fit into slot 0"),
        ([(kernel, (0, 0), [32, 28])] * 2, "32 bytes at offset 0 do not fit"),
    ]:
        with pytest.raises(InvalidArgumentError, match=text):
            filled(size, wrong)
    for wrong, error in [
        ([(kernel, (0,), extents)] * 2, IndexError),
        ([(None, (0, 0), extents)] * 2, InvalidArgumentError),
    ]:
        with pytest.raises(error):
            filled(size, wrong)


# -- callbacks -----------------------------------------------------------------


@pytest.mark.parametrize("release_gil", [False, True])
def test_error_in_a_callback(release_gil):
    calls = []

    def fail_once(src, dst):
        calls.append(None)
        if len(calls) == 1:
            raise KeyError("from the callback")
        dst[...] = src

    plan = callback_plan(fail_once, [declare((3,))], [declare((3,))], release_gil=release_gil)
    x, y = np.arange(3, dtype=np.float32), np.zeros(3, np.float32)
    with pytest.raises(KeyError, match="from the callback"):
        plan.run([x], [y])
    plan.run([x], [y])
    assert y.tolist() == x.tolist()


def test_callback_cannot_write_inputs():
    def write(src, dst):
        src[...] = 0

    plan = callback_plan(write, [declare((3,))], [declare((3,))])
    with pytest.raises(ValueError, match="read-only"):
        plan.run([np.ones(3, np.float32)], [np.ones(3, np.float32)])


def test_views_kept_by_a_callback_are_emptied():
    kept = []
    plan = callback_plan(lambda *views: kept.extend(views), [declare((3,)), declare(())], [declare((1,))])
    plan.run([np.ones(3, np.float32), np.ones((), np.float32)], [np.ones(1, np.float32)])
    assert [view.size for view in kept] == [0, 1, 0]
    assert kept[1] == 0


def test_callback_may_run_the_plan_again():
    depth = []

    def descend(src, dst):
        depth.append(None)
        if len(depth) < 5:
            inner = np.empty(2, np.float32)
            plan.run([src + 1], [inner])
            dst[...] = inner
        else:
            dst[...] = src

    plan = callback_plan(descend, [declare((2,))], [declare((2,))], release_gil=True)
    y = np.empty(2, np.float32)
    plan.run([np.zeros(2, np.float32)], [y])
    assert y.tolist() == [4, 4]


# -- lifetime ------------------------------------------------------------------


class Owned(np.ndarray):
    """A weakly referable array."""


def test_constants_live_as_long_as_the_plan():
    array = np.full((4, 4, 8, 16), 1.0, np.float32).view(Owned)
    alive = weakref.ref(array)
    plan = deconv_plan(1, 2, 16, 8, array)
    del array
    gc.collect()
    assert alive() is not None
    y = np.empty((1, 4, 4, 8), np.float32)
    plan.run([np.ones((1, 2, 2, 16), np.float32)], [y])
    assert y[0, 1, 1, 0] == 64
    del plan
    gc.collect()
    assert alive() is None


def test_cycle_through_a_callback_is_collected():
    class Holder:
        plan = None

        def step(self, src, dst):
            dst[...] = src

    holder = Holder()
    holder.plan = callback_plan(holder.step, [declare((1,))], [declare((1,))])
    alive = weakref.ref(holder)
    del holder
    gc.collect()
    assert alive() is None


def test_references_are_balanced(rng):
    plan = relu_plan((2, 3), release_gil=True)
    x, y = integers(rng, (2, 3)), np.empty((2, 3), np.float32)
    before = sys.getrefcount(x), sys.getrefcount(y)
    for _ in range(100):
        plan.run([x], (y,))
        with pytest.raises(TypeError):
            plan.run([x], [x, None][1:])
    assert (sys.getrefcount(x), sys.getrefcount(y)) == before


# -- threads -------------------------------------------------------------------


def test_four_threads_one_plan(seed):
    weights = integers(np.random.default_rng(seed), (4, 4, 8, 16))
    plan = _core.Executor(default_engine()._native, "threads")
    src, dst = plan.add_input(*declare((2, 6, 6, 16))), plan.add_output(*declare((2, 12, 12, 8)))
    middle = plan.add_scratch(64, 100_000)
    filters = plan.add_constant(weights)
    plan.add_partition(deconv_partition(2, 6, 16, 8), [(src, 0), (filters, 0)], [(middle, 64)], "up")
    plan.add_partition(relu_partition((2, 12, 12, 8)), [(middle, 64)], [(dst, 0)], "relu")
    plan.finalize(True, 1)

    def work(index):
        rng = np.random.default_rng((seed, index))
        for _ in range(50):
            x, y = integers(rng, (2, 6, 6, 16)), np.full((2, 12, 12, 8), np.nan, np.float32)
            plan.run([x], [y])
            np.testing.assert_array_equal(y, np.maximum(deconv_truth(x, weights), 0))

    in_threads(4, work)
    assert 1 <= plan.idle_contexts <= 4


def test_runs_overlap_in_time():
    meet = threading.Barrier(4, timeout=20)
    plan = callback_plan(lambda *views: meet.wait(), [declare((1,))], [declare((1,))], release_gil=True)
    in_threads(4, lambda index: plan.run([np.ones(1, np.float32)], [np.ones(1, np.float32)]))
    # kept: one, and one for each core
    assert plan.idle_contexts == min(4, len(os.sched_getaffinity(0)) + 1)


def test_thread_count_is_restored():
    before = _core.get_num_threads()
    seen = []
    plan = _core.Executor(None)
    dst = plan.add_output(*declare((1,)))
    plan.add_callback(lambda view: seen.append(_core.get_num_threads()), [(dst, 0, *declare((1,)))])
    plan.finalize(True, before + 2)
    assert plan.threads == before + 2
    plan.run([], [np.empty(1, np.float32)])
    plan.benchmark([], [np.empty(1, np.float32)], 2)
    assert set(seen) == {before + 2}
    assert _core.get_num_threads() == before


@pytest.mark.parametrize("threads", [1, 2, 3])
def test_a_team_stands_between_neighbouring_kernels(rng, threads):
    count, copies = 1 << 16, 3
    copy = _core.kernels.copy([count], F32, [1], F32, [1])
    plan = _core.Executor(None)
    buffers = [plan.add_input(*declare((count,))), *(plan.add_scratch(4 * count * i, 4 * count) for i in range(4))]
    seen = []
    # a callback, copies, a callback, and one copy, for which a region does
    plan.add_callback(lambda view: seen.append(view[0]), [(buffers[0], 0, *declare((count,)))])
    for begin, end in pairwise(buffers[: copies + 1]):
        plan.add_kernel(copy, [(begin, 0), (end, 0)])
    plan.add_callback(lambda view: seen.append(view[0]), [(buffers[copies], 0, *declare((count,)))])
    plan.add_kernel(copy, [(buffers[copies], 0), (plan.add_output(*declare((count,))), 0)])
    plan.finalize(True, threads)
    assert plan.standing == []
    for number in range(4):
        x, y = integers(rng, (count,)), np.full(count, np.nan, np.float32)
        plan.run([x], [y])
        np.testing.assert_array_equal(y, x)
        assert seen[-2:] == [x[0], x[0]]
        assert plan.standing == ([(1, 1 + copies)] if threads > 1 else []), number
    assert len(plan.benchmark([x], [y], 2)) == 2
    assert len(plan.profile([x], [y], 2)) == 3 + copies


# -- timing --------------------------------------------------------------------


def test_benchmark_and_profile(rng):
    weights = integers(rng, (4, 4, 16, 16))
    plan = deconv_plan(1, 4, 16, 16, weights)
    x, y = integers(rng, (1, 4, 4, 16)), np.empty((1, 8, 8, 16), np.float32)
    began = time.perf_counter()
    times = plan.benchmark([x], [y], 20)
    took = time.perf_counter() - began
    np.testing.assert_array_equal(y, deconv_truth(x, weights))
    assert len(times) == 20
    assert min(times) > 0
    assert sum(times) <= took
    ((label, seconds),) = plan.profile([x], [y], 20)
    assert label == "deconv"
    assert 0 < seconds <= time.perf_counter() - began


def test_benchmark_of_a_failing_plan():
    def fail(view):
        raise KeyError("step")

    plan = callback_plan(fail, [], [declare((1,))], release_gil=True)
    for timing in (plan.benchmark, plan.profile):
        with pytest.raises(KeyError, match="step"):
            timing([], [np.empty(1, np.float32)], 3)


# -- fork ----------------------------------------------------------------------

FORK = """
    import os
    import numpy as np
    from dnnl_graph_ops import _core, errors
    from dnnl_graph_ops.runtime.engines import default_engine

    engine = default_engine()._native
    tensors = [_core.LogicalTensor(i, _core.DataType.f32, [8]) for i in range(2)]
    op = _core.Op(engine.library, 1, _core.OpKind.relu, "relu")
    op.add_input(tensors[0])
    op.add_output(tensors[1])
    partition = _core.Partition.create_with_op(op, engine.kind)
    array = np.zeros(8, np.float32)
    fill = _core.kernels.fill([8], _core.DataType.f32, [1], 1.0)
    plan = _core.Executor(engine)
    plan.add_kernel(fill, [(plan.add_output(_core.DataType.f32, [8], [1]), 0)])
    plan.finalize(True)
    uses = [
        lambda: plan.run([], [array]),
        lambda: fill.run(array),
        lambda: partition.compile(tensors[:1], tensors[1:], engine),
        _core.check_fork,
    ]
    {before}
    child = os.fork()
    if child == 0:
        refused = 0
        for use in uses:
            try:
                use()
            except errors.Error as error:
                refused += "spawn" in str(error)
        os._exit(refused)
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""


@pytest.mark.child
@pytest.mark.parametrize(
    ("before", "refused"),
    [
        ("plan.run([], [array])", 0),
        ("fill.run(array)", 0),
        ("pass", 0),
        ("plan.run([], [array]); uses.append(lambda: _core.require_threads(2))", 1),
    ],
)
def test_a_forked_child_computes_with_one_thread(before, refused):
    script = textwrap.dedent(FORK).format(before=before)
    done = child("-c", script, seconds=60)
    assert done.stdout.strip() == str(refused), done.stderr
