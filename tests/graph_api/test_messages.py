"""Messages and texts of help say which name, description or call was meant."""

import inspect

import numpy as np
import pytest
from bindings.headers import declared

import dnnl_graph_ops as dgo
from dnnl_graph_ops import graph_api
from dnnl_graph_ops.graph_api import dump_mode, engine, graph, op, partition, status, stream, tensor

from .common import LT, cpu, relu, runtime_or_skip, strided


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: LT(0, "f32", [2]), r"must be a logical_tensor\.data_type, .*write logical_tensor\.data_type\.f32$"),
        (lambda: op(0, "ReLU"), r"must be an op\.kind, .*write op\.kind\.ReLU$"),
        (lambda: relu().set_attr("strides", [1]), r"must be an op\.attr, .*write op\.attr\.strides$"),
        (lambda: engine("cpu"), r"must be an engine\.kind, .*write engine\.kind\.cpu$"),
        (lambda: engine("fpga"), r"got 'fpga'$"),
    ],
)
def test_a_name_in_the_place_of_an_enumerator(call, message):
    with pytest.raises(TypeError, match=message):
        call()


def test_properties_are_told():
    assert repr(strided(0, [2], ptype=LT.constant)) == "logical_tensor(0:f32:(2) strides (1) constant)"
    assert repr(strided(0, [2], ptype=LT.pt_undef)) == "logical_tensor(0:f32:(2) strides (1))"
    g = graph(engine.cpu)
    g.add_op(relu(0, 0, 1))
    with pytest.raises(dgo.InvalidArgumentError, match=r"constant\) here and .* variable\) elsewhere"):
        g.add_op(op(1, op.ReLU, [strided(0, [4], ptype=LT.constant)], [strided(2, [4])]))


@pytest.mark.parametrize(
    "lt",
    [LT(3, LT.f32, [4], LT.any), LT(3, LT.f32, [4]), LT(3, LT.f32, [-1], LT.strided), LT(3, LT.f32, LT.strided)],
)
@pytest.mark.parametrize("arrays", [(), (np.zeros(4, np.float32),)])
def test_a_tensor_of_a_description_that_is_open(lt, arrays):
    with pytest.raises(dgo.ShapeError, match=r"query_logical_tensor\(3\)"):
        tensor(lt, cpu(), *arrays)


def test_an_array_of_other_strides():
    array = np.zeros((2, 3), np.float32)
    with pytest.raises(dgo.ShapeError, match="ascontiguousarray"):
        tensor(strided(0, [3, 2]), cpu(), array.T)
    lt = LT(0, LT.f32, [2, 3], [1, 2])
    with pytest.raises(dgo.ShapeError, match=r"t = tensor\(lt, e\); t\.to_numpy\(\)\[\.\.\.\] = array"):
        tensor(lt, cpu(), array)
    t = tensor(lt, cpu())
    t.to_numpy()[...] = [[1, 2, 3], [4, 5, 6]]
    assert np.array_equal(t.to_numpy(), [[1, 2, 3], [4, 5, 6]])


def test_builders_are_named_where_they_compute_it():
    x, w, y = (strided(i, [-1] * 4) for i in range(3))
    attrs = {"strides": [1, 1], "pads_begin": [0, 0], "pads_end": [0, 0], "dilations": [1, 1]}
    for name, value, said in (
        ("weights_format", "OIX", True),
        ("weights_format", "HWIO", True),
        ("data_format", "NHCW", False),
        ("auto_pad", "SMAE", False),
    ):
        o = op(0, op.ConvTranspose, [x, w], [y])
        for key, item in {**attrs, name: value}.items():
            o.set_attr(op.attr[key], item)
        with pytest.raises(dgo.InvalidArgumentError, match=f"{name} must be one of") as error:
            graph(engine.cpu).add_op(o)
        assert ("computes it" in str(error.value)) is said


def test_scalars_that_do_not_fit():
    runtime = runtime_or_skip("sycl")
    for dtype, value in ((LT.s32, 2.5), (LT.s8, 300), (LT.u8, -1), (LT.s32, float("nan"))):
        with pytest.raises(dgo.InvalidArgumentError, match="does not fit"):
            tensor.make_scalar_tensor(LT(0, dtype, [], LT.strided, LT.host_scalar), value, runtime)
    lt = LT(0, LT.s32, [], LT.strided, LT.host_scalar)
    assert tensor.make_scalar_tensor(lt, 2.0, runtime).to_numpy() == 2
    with pytest.raises(dgo.InvalidArgumentError, match="make_scalar_tensor"):
        tensor(lt, cpu(runtime), np.zeros((), np.int32))


def test_sizes_and_strides_in_arrays():
    assert LT(0, LT.f32, np.array([2, 3]), np.array([1, 2])) == LT(0, LT.f32, [2, 3], [1, 2])


def test_enumerations_name_those_of_cpp():
    names = set(declared("3.13")["cpp"])
    scopes = [graph_api.cpu_isa, graph_api.cpu_isa_hints, graph_api.fpmath_mode, dump_mode, status, op.kind, op.attr]
    for enumeration in (*scopes, engine.kind, stream.flags, partition.policy, LT.data_type, LT.layout_type):
        name = enumeration.__doc__.removeprefix("C++: ").removesuffix(".")
        assert name in names


def test_help_shows_no_address():
    assert "<new memory>" in str(inspect.signature(tensor))


@pytest.mark.parametrize("kind", ["Quantize", "Dequantize"])
def test_scales_and_zero_points(kind):
    real, narrow = LT.f32, LT.u8
    types = (real, narrow) if kind == "Quantize" else (narrow, real)
    x, y = strided(0, [2, 3], types[0]), strided(1, [2, 3], types[1])

    def quantized(**attrs):
        o = op(0, op.kind[kind], [x], [y])
        for name, value in attrs.items():
            o.set_attr(op.attr[name], value)
        return o

    for attrs, message in (
        ({"scales": [1.0, 2.0, 3.0], "zps": [0, 0, 0]}, "qtype='per_channel'"),
        ({"scales": [1.0], "zps": [0, 0], "qtype": "per_tensor"}, "1 scales and 2 zps"),
        ({"scales": [1.0, 2.0, 3.0], "zps": [0], "qtype": "per_channel"}, "3 scales and 1 zps"),
    ):
        with pytest.raises(dgo.InvalidArgumentError, match=message):
            graph(engine.cpu).add_op(quantized(**attrs))
    channels = {"scales": [1.0, 2.0, 4.0], "zps": [0, 0, 0], "qtype": "per_channel"}
    with pytest.raises(dgo.UnsupportedError, match="give axis = 1"):
        partition(quantized(**channels, axis=-1), engine.cpu).compile([x], [y], cpu())
    p = partition(quantized(**channels, axis=1), engine.cpu)
    result = tensor(y, cpu())
    eights = np.full((2, 3), 8, "f" if kind == "Quantize" else "B")
    p.compile([x], [y], cpu()).execute(stream(cpu()), [tensor(x, cpu(), eights)], [result])
    assert result.to_numpy().tolist() == ([[8, 4, 2]] if kind == "Quantize" else [[8, 16, 32]]) * 2


def test_an_op_that_the_library_refuses():
    g = graph(engine.cpu)
    same = op(0, op.TypeCast, [strided(0, [2])], [strided(1, [2])], "cast")
    for call in (lambda: g.add_op(same), lambda: partition(same, engine.cpu)):
        with pytest.raises(dgo.InvalidArgumentError, match=r"op 0 \(TypeCast 'cast'\): .* f32 -> f32 .*op_typecast"):
            call()
    assert g.add_op(same, allow_exception=False) == status.invalid_graph_op
    mixed = op(0, op.Add, [strided(0, [2]), strided(1, [2], LT.bf16)], [strided(2, [2])], "sum")
    if dgo.engine().runtime.version_info < (3, 8):
        with pytest.raises(dgo.UnsupportedError, match=r"op 0 \(Add 'sum'\): .* needs oneDNN 3\.8"):
            g.add_op(mixed)
    g.finalize()
    with pytest.raises(dgo.InvalidArgumentError, match="finalized"):
        g.add_op(relu())


def test_a_tensor_that_two_inputs_read_is_named_once():
    x, y = strided(0, [4]), strided(1, [4])
    p = partition(op(0, op.Add, [x, x], [y]), engine.cpu)
    with pytest.raises(dgo.InvalidArgumentError, match="name it once"):
        p.compile([x, x], [y], cpu())
    p.compile([x], [y], cpu())


def test_scalars_of_a_library_that_has_none():
    with pytest.raises(dgo.UnsupportedError, match=r"needs oneDNN 3\.9, 'omp' is 3\..* runtime="):
        tensor.make_scalar_tensor(LT(0, LT.f32, [], LT.strided, LT.host_scalar), 2.0)


def test_an_array_for_a_type_that_no_op_takes():
    with pytest.raises(dgo.InvalidArgumentError, match="no op takes f64"):
        tensor(strided(0, [2], LT.f64), cpu(), np.zeros(2))
