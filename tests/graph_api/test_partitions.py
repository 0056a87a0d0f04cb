"""Partitions: what they tell, what compile refuses, and what compiled ones tell."""

import numpy as np
import pytest
from reference.data import integers

import dnnl_graph_ops as dgo
from dnnl_graph_ops.graph_api import compiled_partition, engine, op, partition

from .common import LT, compiled, cpu, partitions, relu, run, single, strided


def multiply(a=0, b=1, y=2, n=4):
    return op(0, op.Multiply, [strided(a, [n]), strided(b, [n])], [strided(y, [n])])


def test_what_it_tells():
    part = single(relu(5, 3, 4))
    assert part.get_ops() == [5] and part.get_ops_num() == 1 and part.is_supported()
    assert part.get_engine_kind() is engine.kind.cpu
    assert part.get_input_ports() == [strided(3, [4])] and part.get_output_ports() == [strided(4, [4])]
    assert part.get_id() != single(relu(5, 3, 4)).get_id()
    assert repr(part) == f"<partition {part.get_id()} of ReLU>"


def test_an_op_alone():
    part = partition(relu(7), engine.cpu)
    assert part.get_ops() == [7] and part.is_supported() and part.get_engine_kind() is engine.cpu
    with pytest.raises(dgo.InvalidArgumentError, match="takes 1 output "):
        partition(op(0, op.ReLU, [strided(0, [4])]), engine.cpu)
    with pytest.raises(dgo.UnsupportedError, match=r"3\.11"):
        partition(op(0, op.RMSNorm, [strided(0, [4])], [strided(1, [4])]), engine.cpu)
    for arguments in [(), (relu(),), ("op", engine.cpu), (relu(), "cpu"), (relu(), op.Add)]:
        with pytest.raises(TypeError):
            partition(*arguments)


def test_layouts_that_no_partition_has_told():
    """The library reads past its list of layouts, and ends the process."""
    o = op(0, op.SoftPlus, [LT(0, LT.f32, [4], 5)], [strided(1, [4])])
    for call in (lambda: partition(o, engine.cpu), lambda: single(o)):
        with pytest.raises(dgo.InvalidArgumentError, match="has told the layout id 5"):
            call()


@pytest.mark.parametrize(
    ("inputs", "outputs", "message"),
    [
        ([strided(0, [4])], [strided(0, [4])], "both an input and an output"),
        ([strided(0, [4])], [strided(1, [4]), strided(1, [4])], "more than one output"),
        ([strided(0, [4]), strided(0, [5])], [strided(1, [4])], "tensor 0 is"),
    ],
)
def test_an_op_that_contradicts_itself(inputs, outputs, message):
    """A circle of one op ends the process in oneDNN 3.13."""
    kind = op.Wildcard if len(inputs) == 1 else op.Add
    for call in (partition, lambda o, _: single(o)):
        with pytest.raises(dgo.InvalidArgumentError, match=message):
            call(op(0, kind, inputs, outputs), engine.cpu)


def test_the_kind_of_a_partition():
    with pytest.raises(dgo.InvalidArgumentError, match=r"engine\.kind\.gpu, got any"):
        partition(relu(), engine.any)


def test_an_op_alone_computes(rng):
    part = partition(relu(), engine.cpu)
    x = integers(rng, 4)
    lts = [strided(0, [4])], [strided(1, [4])]
    (y,) = run(part.compile(*lts, cpu()), {0: x}, lts)
    np.testing.assert_array_equal(y, np.maximum(x, 0))


@pytest.mark.parametrize("kind", ["Wildcard", "End", "BiasAddBackward", "Reciprocal", "Pow"])
def test_what_the_library_lacks(kind):
    outputs = [] if kind == "End" else [strided(1, [4])]
    o = op(0, op.kind[kind], [strided(0, [2, 4] if kind == "BiasAddBackward" else [4])], outputs)
    if kind == "Pow":
        o.set_attr(op.beta, 2.0)
    part = single(o)
    assert not part.is_supported() and "not supported" in repr(part)
    with pytest.raises(dgo.UnsupportedError, match="no implementation"):
        part.compile(part.get_input_ports(), part.get_output_ports(), cpu())


def test_ports_in_any_order(rng):
    part = single(multiply())
    a, b = integers(rng, 4), integers(rng, 4)
    for ids in ([0, 1], [1, 0]):
        lts = [strided(i, [4]) for i in ids], [strided(2, [4])]
        (y,) = run(part.compile(*lts, cpu()), {0: a, 1: b}, lts)
        np.testing.assert_array_equal(y, a * b)


def test_a_tensor_that_is_read_twice(rng):
    part = single(multiply(0, 0, 2))
    x = integers(rng, 4)
    lts = [strided(0, [4])], [strided(2, [4])]
    (y,) = run(part.compile(*lts, cpu()), {0: x}, lts)
    np.testing.assert_array_equal(y, x * x)


X, Y = strided(0, [4]), strided(1, [4])
REFUSED = [
    ([], [Y], dgo.InvalidArgumentError, "input 0 of the partition is missing; its inputs are 0"),
    ([X], [], dgo.InvalidArgumentError, "output 1 of the partition is missing"),
    ([X, X], [Y], dgo.InvalidArgumentError, "names tensor 0 twice"),
    ([X], [Y, Y], dgo.InvalidArgumentError, "names tensor 1 twice"),
    ([X, strided(5, [4])], [Y], dgo.InvalidArgumentError, "no input 5; its inputs are 0"),
    ([X], [Y, strided(5, [4])], dgo.InvalidArgumentError, "no output 5"),
    ([Y], [X], dgo.InvalidArgumentError, "missing"),
    ([LT(0, LT.f32, [4], LT.any)], [Y], dgo.InvalidArgumentError, "strided"),
    ([LT(0, LT.f32, [4])], [Y], dgo.InvalidArgumentError, "needs a layout"),
    ([LT(0, LT.f32, [4], 3)], [Y], dgo.InvalidArgumentError, "layout id 3"),
    ([strided(0, [-1])], [Y], dgo.ShapeError, "must be known"),
    ([LT(0, LT.f32, LT.strided)], [Y], dgo.ShapeError, "must be known"),
    ([strided(0, [4], LT.bf16)], [strided(1, [4], LT.bf16)], dgo.InvalidArgumentError, "the ops have f32"),
    ([X], [strided(1, [4], LT.s8)], dgo.InvalidArgumentError, "the ops have f32"),
    ([X], [strided(1, [5])], dgo.ShapeError, r"shape \(4,\)"),
    ([X], [strided(1, [2, 2])], dgo.ShapeError, r"shape \(4,\)"),
    ([X], [LT(1, LT.f32, [4])], dgo.InvalidArgumentError, "needs a layout"),
    ([X], [LT(1, LT.f32, [4], 3)], dgo.InvalidArgumentError, "layout id 3"),
    ([X], [LT(1, LT.f32, [4], [0])], dgo.ShapeError, "overlap"),
    (X, [Y], TypeError, "list or tuple"),
    ([X], ["y"], TypeError, "logical_tensor"),
    (None, [Y], TypeError, "list or tuple"),
]


@pytest.mark.parametrize(("inputs", "outputs", "error", "message"), REFUSED)
def test_refused(inputs, outputs, error, message):
    with pytest.raises(error, match=message):
        single(relu()).compile(inputs, outputs, cpu())


def test_other_engines_are_refused():
    for e in (None, "cpu", engine.cpu, engine):
        with pytest.raises(TypeError, match="engine"):
            single(relu()).compile([X], [Y], e)


@pytest.mark.parametrize(
    "y",
    [
        LT(1, LT.f32, LT.strided),
        LT(1, LT.f32, -1, LT.any),
        LT(1, LT.f32, 1, LT.strided),
        LT(1, LT.f32, [-1], LT.any),
        LT(1, LT.f32, [4], LT.any),
        LT(1, LT.f32, [4], [1]),
        LT(1, LT.f32, [4], [3]),
    ],
    ids=repr,
)
def test_outputs_left_open(y, rng):
    x = integers(rng, 4)
    cp = single(relu()).compile([X], [y], cpu())
    told = cp.query_logical_tensor(1)
    assert told.get_dims() == [4] and told.get_layout_type() is LT.strided
    if y.get_layout_type() is LT.strided and y != LT(1, LT.f32, [4], [3]):
        assert told.get_strides() == [1]
    if told.get_strides() == [1]:
        (result,) = run(cp, {0: x}, ([X], [told]))
        np.testing.assert_array_equal(result, np.maximum(x, 0))


def test_sizes_left_open_in_part(rng):
    item = op(0, op.MatMul, [strided(0, [2, 3]), strided(1, [3, 4])], [LT(2, LT.f32, 2, LT.strided)])
    lts = [strided(0, [2, 3]), strided(1, [3, 4])], [LT(2, LT.f32, [2, -1], LT.strided)]
    a, b = integers(rng, (2, 3)), integers(rng, (3, 4))
    cp = single(item).compile(*lts, cpu())
    assert cp.query_logical_tensor(2).get_dims() == [2, 4]
    np.testing.assert_array_equal(run(cp, {0: a, 1: b}, lts)[0], a @ b)


def test_what_a_compiled_partition_tells():
    cp = compiled(relu())
    assert cp.query_logical_tensor(0) == X and cp.query_logical_tensor(1) == Y
    assert cp.get_scratchpad_logical_tensor() is None and cp.get_inplace_ports() == []
    with pytest.raises(dgo.InvalidArgumentError, match="no tensor 7"):
        cp.query_logical_tensor(7)
    with pytest.raises(TypeError):
        cp.query_logical_tensor("0")
    for arguments in [(), (None,), (relu(), cpu())]:
        with pytest.raises(TypeError, match="makes it"):
            compiled_partition(*arguments)


def test_shapes_that_contradict_the_ops():
    item = op(0, op.MatMul, [LT(0, LT.f32, 2), LT(1, LT.f32, 2)], [LT(2, LT.f32, 2)])
    with pytest.raises(dgo.ShapeError, match=r"partition\.compile, op 0"):
        single(item).compile([strided(0, [2, 3]), strided(1, [4, 4])], [LT(2, LT.f32, LT.strided)], cpu())


def test_partitions_outlive_their_graph(rng):
    x = integers(rng, 4)
    parts = partitions(relu(0, 0, 1), op(1, op.Wildcard, [strided(1, [4])], [strided(2, [4])]), relu(2, 2, 3))
    assert [p.get_ops() for p in parts] == [[0], [1], [2]] and [p.is_supported() for p in parts] == [True, False, True]
    lts = [strided(2, [4])], [strided(3, [4])]
    cp = parts[2].compile(*lts, cpu())
    del parts
    np.testing.assert_array_equal(run(cp, {2: x}, lts)[0], np.maximum(x, 0))


@pytest.mark.parametrize("kind", ["MaxPool", "AvgPool"])
def test_operands_that_the_library_misreads(kind, rng):
    """Behind a pooling one element of each vector stands for all."""
    x, y, a, z = strided(0, [1, 4, 4, 3]), strided(1, [1, 2, 2, 3]), strided(2, [1, 2, 2, 3]), strided(3, [1, 2, 2, 3])
    pool = op(0, op.kind[kind], [x], [y])
    for name, value in {"kernel": 3, "strides": 1, "pads_begin": 0, "pads_end": 0}.items():
        pool.set_attr(op.attr[name], [value] * 2)
    if kind == "AvgPool":
        pool.set_attr(op.exclude_pad, True)
    ops = pool, op(1, op.Add, [y, a], [z])
    (fused,) = partitions(*ops)
    with pytest.raises(dgo.UnsupportedError, match=rf"operand of {kind} and Add .*partition\.debug"):
        fused.compile([x, a], [z], cpu())
    first, second = partitions(*ops, policy=partition.debug)
    data, more = integers(rng, (1, 4, 4, 3)), integers(rng, (1, 2, 2, 3))
    (pooled,) = run(first.compile([x], [y], cpu()), {0: data}, ([x], [y]))
    (result,) = run(second.compile([y, a], [z], cpu()), {1: pooled, 2: more}, ([y, a], [z]))
    windows = np.lib.stride_tricks.sliding_window_view(data, (3, 3), (1, 2))
    expected = windows.max((-1, -2)) if kind == "MaxPool" else windows.mean((-1, -2))
    np.testing.assert_allclose(result, expected + more, rtol=1e-6, atol=1e-6)
