"""Execution: exact results, in any thread, and what execute refuses."""

import numpy as np
import pytest
from concurrently import in_threads
from reference.conv_transpose import backward_data, backward_weights, forward
from reference.data import integers, unwritten

import dnnl_graph_ops as dgo
from dnnl_graph_ops.graph_api import engine, op, stream, tensor

from .common import LT, compiled, cpu, partitions, relu, run, single, strided

DOUBLE = {"strides": [2, 2], "pads_begin": [1, 1], "pads_end": [1, 1], "dilations": [1, 1]}
SHAPES = {"x": (2, 5, 4, 3), "w": (4, 4, 6, 3), "y": (2, 10, 8, 6)}


def family(kind, dtype=LT.f32):
    """The op of a kind with the tensors x, w, y or their gradients."""
    x, w, y = (strided(i, SHAPES[name], dtype) for i, name in enumerate("xwy"))
    tensors = {
        "ConvTranspose": ([x, w], [y]),
        "ConvTransposeBackwardData": ([y, w], [x]),
        "ConvTransposeBackwardWeights": ([x, y], [w]),
    }[kind]
    o = op(0, op.kind[kind], *tensors)
    for name, value in DOUBLE.items():
        o.set_attr(op.attr[name], value)
    if kind.endswith("Weights"):
        o.set_attr(op.attr.filter_shape, SHAPES["w"])
    return o, tensors


def truth(kind, arrays):
    x, w, y = (arrays.get(i) for i in range(3))
    attrs = {name: value[0] for name, value in DOUBLE.items()}
    if kind == "ConvTranspose":
        return forward(x, w, **attrs)
    if kind == "ConvTransposeBackwardData":
        return backward_data(y, w, **attrs)
    return backward_weights(x, y, (4, 4), **attrs)


KINDS = ("ConvTranspose", "ConvTransposeBackwardData", "ConvTransposeBackwardWeights")


@pytest.mark.parametrize("kind", KINDS)
def test_from_several_threads(kind, rng):
    """Gradients bind to the thread that compiles in the library; each thread has its own tensors and stream."""
    o, lts = family(kind)
    cp = compiled(o)
    cases = [{t.get_id(): integers(rng, t.get_dims()) for t in lts[0]} for _ in range(4)]
    expected = [truth(kind, arrays) for arrays in cases]

    def call(k):
        for _ in range(5):
            (result,) = run(cp, cases[k], lts)
            np.testing.assert_array_equal(result, expected[k])

    call(0)
    in_threads(4, call)


@pytest.mark.parametrize("kind", KINDS)
def test_compiled_in_a_thread_that_is_gone(kind, rng):
    o, lts = family(kind)
    made = []
    in_threads(1, lambda _: made.append(compiled(o)))
    arrays = {t.get_id(): integers(rng, t.get_dims()) for t in lts[0]}
    np.testing.assert_array_equal(run(made[0], arrays, lts)[0], truth(kind, arrays))


def test_compiling_in_several_threads(rng):
    o, lts = family("ConvTransposeBackwardWeights")
    part = single(o)
    arrays = {t.get_id(): integers(rng, t.get_dims()) for t in lts[0]}
    expected = truth("ConvTransposeBackwardWeights", arrays)

    def call(_):
        for _ in range(3):
            np.testing.assert_array_equal(run(part.compile(*lts, cpu()), arrays, lts)[0], expected)

    in_threads(4, call)


def test_one_stream_in_several_threads(rng):
    cp, s, e = compiled(relu()), stream(cpu()), cpu()
    arrays = [integers(rng, 4) for _ in range(4)]

    def call(k):
        y = unwritten(4)
        for _ in range(50):
            cp.execute(s, [tensor(strided(0, [4]), e, arrays[k])], [tensor(strided(1, [4]), e, y)])
            s.wait()
        np.testing.assert_array_equal(y, np.maximum(arrays[k], 0))

    in_threads(4, call)


def operands():
    e = cpu()
    x, y = np.array([-1, 2, -3, 4], np.float32), unwritten(4)
    return stream(e), tensor(strided(0, [4]), e, x), tensor(strided(1, [4]), e, y), y


def test_lists_and_tuples():
    s, tx, ty, y = operands()
    cp = compiled(relu())
    for sequence in (list, tuple):
        y[...] = np.nan
        assert cp.execute(s, sequence([tx]), sequence([ty])) is None
        np.testing.assert_array_equal(y, [0, 2, 0, 4])
    assert s.wait() is s and s.get_engine() == cpu()


def test_wrong_tensors_are_refused():
    s, tx, ty, y = operands()
    cp, e = compiled(relu()), cpu()
    other = tensor(strided(5, [4]), e, np.zeros(4, np.float32))
    longer = tensor(strided(1, [5]), e, np.zeros(5, np.float32))
    gaps = tensor(LT(1, LT.f32, [4], [2]), e, np.zeros(8, np.float32)[::2])
    bits = tensor(strided(1, [4], LT.bf16), e)
    constant = np.zeros(4, np.float32)
    constant.flags.writeable = False
    for inputs, outputs in (
        ([], [ty]),
        ([tx], []),
        ([tx, tx], [ty]),
        ([ty], [tx]),
        ([other], [ty]),
        ([tx], [longer]),
        ([tx], [gaps]),
        ([tx], [bits]),
        ([tx], [tensor(strided(1, [4]), e, constant)]),
        ([tx], [tensor(strided(1, [4]), e, tx.to_numpy())]),
    ):
        with pytest.raises(dgo.InvalidArgumentError, match="execute"):
            cp.execute(s, inputs, outputs)
    for arguments in (
        (s, tx, [ty]),
        (s, [tx], None),
        (s, [None], [ty]),
        (s, [tx], [y]),
        (None, [tx], [ty]),
        (e, [tx], [ty]),
        (cp, [tx], [ty]),
        (s, iter([tx]), [ty]),
    ):
        with pytest.raises(TypeError):
            cp.execute(*arguments)
    assert np.isnan(y).all()


def test_in_place_pairs(rng):
    """A residual that the library adds in place: the sum's memory is the residual's."""
    a, b, c, r, y = (strided(i, d) for i, d in enumerate([(8, 16), (16, 16), (8, 16), (8, 16), (8, 16)]))
    ops = op(0, op.MatMul, [a, b], [c]), op(1, op.Add, [c, r], [y])
    (part,) = partitions(*ops)
    cp = part.compile([a, b, r], [y], cpu())
    assert cp.get_inplace_ports() == [(3, 4)]
    e, s = cpu(), stream(cpu())
    arrays = [integers(rng, t.get_dims()) for t in (a, b, r)]
    expected = arrays[0] @ arrays[1] + arrays[2]
    tensors = [tensor(t, e, array) for t, array in zip((a, b, r), arrays, strict=True)]
    with pytest.raises(dgo.InvalidArgumentError, match="shares memory with input 0"):
        cp.execute(s, [tensor(a, e, arrays[2]), *tensors[1:]], [tensor(y, e, arrays[2])])
    cp.execute(s, tensors, [tensor(y, e, arrays[2])])
    np.testing.assert_array_equal(arrays[2], expected)


def test_layouts_from_partition_to_partition(rng):
    """A layout that the library chose for an output is the input's of the next partition."""
    x, w = strided(0, (1, 3, 8, 8)), strided(1, (3, 4, 3, 3))
    o = op(0, op.ConvTranspose, [x, w], [LT(2, LT.f32, 4, LT.any)])
    for name in ("strides", "dilations"):
        o.set_attr(op.attr[name], [1, 1])
    for name in ("pads_begin", "pads_end"):
        o.set_attr(op.attr[name], [1, 1])
    o.set_attr(op.attr.data_format, "NCX").set_attr(op.attr.weights_format, "IOX")
    cp = single(o).compile([x, w], [LT(2, LT.f32, 4, LT.any)], cpu())
    told = cp.query_logical_tensor(2)
    assert told.get_dims() == [1, 4, 8, 8]
    relu_after = op(1, op.ReLU, [told], [LT(3, LT.f32, [1, 4, 8, 8], LT.any)])
    after = single(relu_after).compile([told], [LT(3, LT.f32, [1, 4, 8, 8], LT.any)], cpu())
    e, s = cpu(), stream(cpu())
    arrays = [integers(rng, t.get_dims()) for t in (x, w)]
    between, result = tensor(told, e), tensor(after.query_logical_tensor(3), e)
    cp.execute(s, [tensor(t, e, array) for t, array in zip((x, w), arrays, strict=True)], [between])
    after.execute(s, [between], [result])
    expected = forward(*arrays, pads_begin=1, pads_end=1, data_format="NCX", weights_format="IOX")
    np.testing.assert_array_equal(result.to_numpy(), np.maximum(expected, 0))


@pytest.mark.parametrize("dtype", ["bf16", "f16"])
def test_narrow_types(dtype, rng):
    o, lts = family("ConvTranspose", LT.data_type[dtype])
    try:
        cp = compiled(o)
    except dgo.UnsupportedError as error:
        pytest.skip(str(error))
    arrays = {t.get_id(): integers(rng, t.get_dims(), dtype, 2) for t in lts[0]}
    (result,) = run(cp, arrays, lts)
    np.testing.assert_array_equal(result.astype(np.float64), truth("ConvTranspose", arrays))


def test_streams():
    for flags in (stream.default_flags, stream.flags.in_order, stream.out_of_order):
        try:
            assert stream(cpu(), flags).get_engine() == cpu()
        except dgo.UnsupportedError:
            assert flags == stream.out_of_order
    for arguments in ((), (None,), (engine.cpu,), (cpu(), "in_order"), (cpu(), engine.cpu)):
        with pytest.raises(TypeError):
            stream(*arguments)
