"""What libraries after 3.2 have: scratchpads, scalars, modes of a graph; skipped where none is installed."""

import numpy as np
import pytest
from reference.data import integers, unwritten

import dnnl_graph_ops as dgo
from dnnl_graph_ops.graph_api import engine, graph, op, stream, tensor

from .common import LT, RUNTIMES, compiled, cpu, partitions, run, runtime_or_skip, strided


@pytest.fixture(scope="module")
def sycl():
    return runtime_or_skip("sycl")


def conv(dtype=LT.f32):
    x, w, y = strided(0, [1, 6, 6, 16], dtype), strided(1, [3, 3, 16, 16], dtype), strided(2, [1, 6, 6, 16], dtype)
    o = op(0, op.ConvTranspose, [x, w], [y])
    for name, value in {"strides": 1, "dilations": 1, "pads_begin": 1, "pads_end": 1}.items():
        o.set_attr(op.attr[name], [value] * 2)
    return o, [x, w], [y]


def test_scratchpads(sycl, rng):
    o, inputs, outputs = conv()
    cp = compiled(o, sycl)
    lt, e = cp.get_scratchpad_logical_tensor(), cpu(sycl)
    assert lt.get_data_type() is LT.u8 and lt.get_mem_size(sycl) == lt.get_dims()[0] > 0
    arrays = {t.get_id(): integers(rng, t.get_dims()) for t in inputs}
    (expected,) = run(cp, arrays, (inputs, outputs), sycl)
    out, s = unwritten(expected.shape), stream(e)
    tensors = [tensor(t, e, arrays[t.get_id()]) for t in inputs], [tensor(outputs[0], e, out)]
    cp.execute(s, *tensors, tensor(lt, e))
    s.wait()
    np.testing.assert_array_equal(out, expected)
    for wrong in (tensors[1][0], tensor(LT(lt.get_id(), LT.u8, [1], LT.strided), e)):
        with pytest.raises(dgo.InvalidArgumentError, match="scratchpad"):
            cp.execute(s, *tensors, wrong)
    with pytest.raises(TypeError, match="scratchpad"):
        cp.execute(s, *tensors, "memory")


def test_scratchpads_do_not_lie_in_other_tensors(sycl):
    o, inputs, outputs = conv()
    cp, e = compiled(o, sycl), cpu(sycl)
    lt = cp.get_scratchpad_logical_tensor()
    room = np.zeros(lt.get_dims()[0] + 4096, np.uint8)
    out = room[:2304].view(np.float32).reshape(1, 6, 6, 16)
    tensors = [tensor(t, e) for t in inputs], [tensor(outputs[0], e, out)]
    with pytest.raises(dgo.InvalidArgumentError, match="scratchpad shares memory with output 0"):
        cp.execute(stream(e), *tensors, tensor(lt, e, room[: lt.get_dims()[0]]))


@pytest.mark.parametrize("value", [2.0, np.float32(2), np.ones((1, 1)) * 2, 2])
def test_scalars(sycl, value):
    lt = LT(0, LT.f32, [], LT.strided, LT.host_scalar)
    t = tensor.make_scalar_tensor(lt, value, sycl)
    assert t.to_numpy() == 2 and t.to_numpy().shape == () and t.get_logical_tensor() == lt
    assert t.get_engine() == cpu(sycl)
    with pytest.raises(dgo.InvalidArgumentError):
        t.set_data_handle(np.ones((), np.float32))


@pytest.mark.parametrize("apply_to_int", [False, True])
def test_fpmath_mode(sycl, apply_to_int):
    g = graph(engine.cpu, runtime=sycl)
    g.set_fpmath_mode(graph.bf16, apply_to_int)
    assert g.get_fpmath_mode() == (graph.bf16, apply_to_int)
    again = graph.from_json(g.to_json(), sycl)
    assert again.get_fpmath_mode() == (graph.bf16, apply_to_int)
    g.finalize()
    with pytest.raises(dgo.InvalidArgumentError, match="finalized"):
        g.set_fpmath_mode(graph.strict)


def test_later_ops(sycl, rng):
    x, gamma, y = strided(0, [2, 8]), strided(1, [8]), strided(2, [2, 8])
    o = op(0, op.RMSNorm, [x, gamma], [y]).set_attr(op.epsilon, 1e-5)
    data, scale = rng.standard_normal((2, 8), np.float32), rng.standard_normal(8, np.float32)
    (result,) = run(compiled(o, sycl), {0: data, 1: scale}, ([x, gamma], [y]), sycl)
    expected = data / np.sqrt((data.astype(float) ** 2).mean(-1, keepdims=True) + 1e-5) * scale
    np.testing.assert_allclose(result, expected, rtol=1e-5, atol=1e-6)


def test_a_circle_is_refused_by_both(sycl):
    t = [strided(i, [4]) for i in range(2)]
    for name in ("omp", sycl):
        g = graph(engine.cpu, runtime=name)
        g.add_op(op(0, op.ReLU, [t[0]], [t[1]]))
        g.add_op(op(1, op.Tanh, [t[1]], [t[0]]))
        with pytest.raises(dgo.InvalidArgumentError, match="circle"):
            g.finalize()


def test_bf16_and_fusion(sycl, rng):
    o, inputs, outputs = conv(LT.bf16)
    end = strided(3, [1, 6, 6, 16], LT.bf16)
    (part,) = partitions(o, op(1, op.ReLU, outputs, [end]), runtime=sycl)
    assert part.get_ops_num() == 2
    arrays = {t.get_id(): integers(rng, t.get_dims(), "bf16", 1) for t in inputs}
    (result,) = run(part.compile(inputs, [end], cpu(sycl)), arrays, (inputs, [end]), sycl)
    assert not np.isnan(result.astype(np.float32)).any() and result.astype(np.float32).min() == 0


@pytest.mark.parametrize("kind", ["Add", "Maximum", "Multiply"])
def test_a_result_with_itself_before_an_operand_of_channels(sycl, kind):
    """oneDNN 3.13 reads another channel's element there."""
    o, inputs, outputs = conv()
    y = outputs[0]
    own, z = strided(3, [1, 6, 6, 16]), strided(5, [1, 6, 6, 16])
    ops = o, op(1, op.kind[kind], [y, y], [own]), op(2, op.Add, [own, strided(4, [1, 1, 1, 16])], [z])
    (part,) = partitions(*ops, runtime=sycl)
    with pytest.raises(dgo.UnsupportedError, match="known to read an operand"):
        part.compile([*inputs, strided(4, [1, 1, 1, 16])], [z], cpu(sycl))


@pytest.mark.parametrize("shape", [[1, 4], [2, 1], [4], [2, 4]])
@pytest.mark.parametrize("runtime", RUNTIMES)
def test_products_with_operands_of_each_axis(runtime, shape, rng):
    runtime_or_skip(runtime)
    a, b, y = strided(0, [2, 3]), strided(1, [3, 4]), strided(2, [2, 4])
    c, z = strided(3, shape), strided(4, [2, 4])
    (part,) = partitions(op(0, op.MatMul, [a, b], [y]), op(1, op.Add, [y, c], [z]), runtime=runtime)
    arrays = {t.get_id(): integers(rng, t.get_dims()) for t in (a, b, c)}
    (result,) = run(part.compile([a, b, c], [z], cpu(runtime)), arrays, ([a, b, c], [z]), runtime)
    np.testing.assert_array_equal(result, arrays[0] @ arrays[1] + arrays[3])
