"""The arrays, layouts and steps that an executor refuses, and those that look as if it had to."""

import numpy as np
import pytest
from reference.data import integers

from dnnl_graph_ops import _core, dtypes
from dnnl_graph_ops.errors import InvalidArgumentError, ShapeError, UnsupportedError
from dnnl_graph_ops.runtime.engines import default_engine

from .plans import (
    F32,
    callback_plan,
    declare,
    double_plan,
    relu_partition,
    relu_plan,
)

# -- what run() refuses --------------------------------------------------------


def good():
    return np.ones((2, 3), np.float32)


def read_only():
    array = good()
    array.setflags(write=False)
    return array


def transposed():
    return np.ones((3, 2), np.float32).T


def unaligned():
    return np.frombuffer(bytearray(25), np.float32, 6, 1).reshape(2, 3)


class Subclass(np.ndarray):
    pass


@pytest.mark.parametrize(
    ("inputs", "outputs", "error", "text"),
    [
        ([], [good()], InvalidArgumentError, "expected 1 arrays, got 0"),
        ([good(), good()], [good()], InvalidArgumentError, "expected 1 arrays, got 2"),
        ([good()], [], InvalidArgumentError, "outputs: expected 1"),
        ([[1.0, 2.0]], [good()], TypeError, "numpy.ndarray, got list"),
        ([None], [good()], TypeError, "NoneType"),
        ([good().view(Subclass)], [good()], TypeError, "Subclass"),
        (None, [good()], TypeError, "list or tuple"),
        ("ab", [good()], TypeError, "list or tuple"),
        ([good().astype(np.float64)], [good()], InvalidArgumentError, "dtype f32, got float64"),
        ([good().astype(np.float16)], [good()], InvalidArgumentError, "dtype f32, got f16"),
        ([good().astype(">f4")], [good()], InvalidArgumentError, "dtype f32, got >f4"),
        ([good().astype(object)], [good()], InvalidArgumentError, "dtype f32, got object"),
        ([np.ones((3, 2), np.float32)], [good()], ShapeError, r"shape \(2, 3\), got \(3, 2\)"),
        ([np.ones(6, np.float32)], [good()], ShapeError, r"shape \(2, 3\), got \(6,\)"),
        ([np.ones((), np.float32)], [good()], ShapeError, r"got \(\)"),
        ([transposed()], [good()], InvalidArgumentError, r"strides \(12, 4\) bytes, got \(4, 8\)"),
        ([good()[::-1]], [good()], InvalidArgumentError, r"got \(-12, 4\)"),
        ([unaligned()], [good()], InvalidArgumentError, "item size"),
        ([good()], [read_only()], InvalidArgumentError, "output 0 must be writable"),
        ([good()], [np.ones((2, 3), np.float64)], InvalidArgumentError, "output 0 must have dtype"),
    ],
)  # fmt: skip
def test_refused(inputs, outputs, error, text):
    plan = relu_plan((2, 3), name="relu 'act1'")
    for run in (plan.run, lambda a, b: plan.benchmark(a, b, 3), lambda a, b: plan.profile(a, b, 3)):
        with pytest.raises(error, match=text) as caught:
            run(inputs, outputs)
        assert "relu 'act1'" in str(caught.value)


@pytest.mark.parametrize("letter", "ilq")
def test_integers_of_every_c_type_are_taken(letter):
    x = np.arange(6, dtype=letter)
    array = declare((6,), dtype=dtypes.canonical(x.dtype))
    plan, out = callback_plan(lambda a, b: np.copyto(b, a), [array], [array]), np.zeros(6, letter)
    plan.run([x], [out])
    assert out.dtype.char == letter and out.tolist() == x.tolist()


def test_overlaps():
    plan = callback_plan(lambda a, b, c: None, [declare((4,))], [declare((4,)), declare((4,))])
    memory = np.zeros(12, np.float32)
    plan.run([memory[:4]], [memory[4:8], memory[8:]])
    for x, y, z in [(0, 3, 8), (0, 0, 8), (0, 4, 7), (6, 0, 8)]:
        with pytest.raises(InvalidArgumentError, match="shares memory with"):
            plan.run([memory[x : x + 4]], [memory[y : y + 4], memory[z : z + 4]])


def test_views_that_interleave_do_not_overlap(rng):
    both = integers(rng, (4, 6))
    expected = both.copy()
    expected[:, 3:] = 2 * both[:, :3]
    double_plan((4, 3), (6, 1), (6, 1)).run([both[:, :3]], [both[:, 3:]])
    np.testing.assert_array_equal(both, expected)


def test_empty_arrays_never_overlap():
    memory = np.zeros(4, np.float32)
    plan = callback_plan(lambda *views: None, [declare((0,))], [declare((4,))])
    plan.run([memory[2:2]], [memory])


def test_axes_of_one_may_have_any_stride():
    x = np.lib.stride_tricks.as_strided(np.ones(4, np.float32), (1, 4), (-40, 4))
    y = np.empty((1, 4), np.float32)
    double_plan((1, 4)).run([x], [y])
    assert y.tolist() == [[2] * 4]


# -- what building refuses -----------------------------------------------------


def test_bad_layouts():
    plan = _core.Executor(None, "plan p")
    for arguments, error, text in [
        ((99, [2], [1]), InvalidArgumentError, "code 99"),
        ((-1, [2], [1]), InvalidArgumentError, "code -1"),
        ((F32, [-2], [1]), ShapeError, "never negative"),
        ((F32, [2], [-1]), ShapeError, "never negative"),
        ((F32, [2, 2], [1]), ShapeError, "one stride per dim"),
        ((F32, [1] * 13, [1] * 13), ShapeError, "at most 12"),
        ((F32, [2**40, 2**40], [2**40, 1]), ShapeError, "64 bits"),
        ((F32, [2**62], [1]), ShapeError, "64 bits"),
    ]:
        for add in (plan.add_input, plan.add_output):
            with pytest.raises(error, match=text):
                add(*arguments)
    with pytest.raises(InvalidArgumentError, match="over each other"):
        plan.add_output(F32, [2, 3], [2, 1])
    with pytest.raises(InvalidArgumentError, match="over each other"):
        plan.add_output(F32, [2, 3], [0, 1])
    assert plan.add_input(F32, [2, 3], [0, 1]) == 0  # a broadcast view may be read


def test_bad_steps():
    plan = _core.Executor(default_engine()._native, "p")
    src, dst = plan.add_input(*declare((4,))), plan.add_output(*declare((4,)))
    constant = plan.add_constant(np.zeros(4, np.float32))
    relu = relu_partition((4,))
    for inputs, outputs, text in [
        ([(src, 4)], [(dst, 0)], "16 bytes at offset 4 do not fit into slot 0 of 16 bytes"),
        ([(src, -4)], [(dst, 0)], "offset -4"),
        ([(src, 2**62)], [(dst, 0)], "do not fit"),
        ([(src, 0)], [(dst, 1)], "do not fit"),
        ([(7, 0)], [(dst, 0)], "no slot 7"),
        ([(-1, 0)], [(dst, 0)], "no slot -1"),
        ([(src, 0)], [(src, 0)], "slot 0 may only be read"),
        ([(src, 0)], [(constant, 0)], "may only be read"),
        ([(src, 0), (src, 0)], [(dst, 0)], "1 inputs, got 2"),
        ([(src, 0)], [], "1 outputs, got 0"),
    ]:
        with pytest.raises(InvalidArgumentError, match=text):
            plan.add_partition(relu, inputs, outputs, "step")
    copy = _core.kernels.copy([4], F32, [1], F32, [1])
    for refs, text in [
        ([(src, 0)], "2 operands, got 1"),
        ([(src, 0), (src, 0)], "may only be read"),
        ([], "got 0"),
    ]:
        with pytest.raises(InvalidArgumentError, match=text):
            plan.add_kernel(copy, refs)
    with pytest.raises(TypeError):
        plan.add_kernel(None, [])
    with pytest.raises(TypeError):
        plan.add_partition(None, [], [])
    with pytest.raises(TypeError, match="callable"):
        plan.add_callback(3, [])
    with pytest.raises(InvalidArgumentError, match="do not fit"):
        plan.add_callback(print, [(src, 0, *declare((5,)))])
    with pytest.raises(UnsupportedError, match="no NumPy dtype"):
        plan.add_callback(print, [(src, 0, 13, [1], [1])])
    with pytest.raises(InvalidArgumentError, match="multiple of 64"):
        plan.add_scratch(32, 64)
    with pytest.raises(ShapeError, match="too large"):
        plan.add_scratch(0, 2**63 - 1)
    with pytest.raises(InvalidArgumentError, match="contiguous"):
        plan.add_constant(np.zeros((4, 4), np.float32).T[:2])
    with pytest.raises(TypeError, match="Python objects"):
        plan.add_constant(np.array([None]))
    with pytest.raises(TypeError):
        plan.add_constant([1.0])
    with pytest.raises(InvalidArgumentError, match="threads"):
        plan.finalize(False, -1)
    # none of the failed steps is left behind
    plan.add_partition(relu, [(src, 0)], [(dst, 0)])
    with pytest.raises(InvalidArgumentError, match="finalize"):
        plan.run([np.ones(4, np.float32)], [np.ones(4, np.float32)])
    plan.finalize(False)
    with pytest.raises(InvalidArgumentError, match="finalized"):
        plan.add_input(*declare((1,)))
    with pytest.raises(InvalidArgumentError, match="finalized"):
        plan.finalize(False)
    y = np.empty(4, np.float32)
    plan.run([np.array([-1, 2, -3, 4], np.float32)], [y])
    assert y.tolist() == [0, 2, 0, 4]


def test_partition_of_another_engine():
    other = _core.Engine(default_engine()._native.library, _core.EngineKind.cpu)
    for owner in (other, None):
        plan = _core.Executor(owner)
        src, dst = plan.add_input(*declare((4,))), plan.add_output(*declare((4,)))
        with pytest.raises(InvalidArgumentError, match="another engine"):
            plan.add_partition(relu_partition((4,)), [(src, 0)], [(dst, 0)])


@pytest.mark.parametrize("repeat", [0, -1, 10**12])
def test_bad_repeat(repeat):
    plan = relu_plan((2,))
    arrays = [np.ones(2, np.float32)], [np.ones(2, np.float32)]
    for timing in (plan.benchmark, plan.profile):
        with pytest.raises(InvalidArgumentError, match="repeat"):
            timing(*arrays, repeat)
