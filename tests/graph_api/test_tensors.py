"""Tensors over NumPy arrays, DLPack objects, addresses and memory of their own."""

import gc

import ml_dtypes
import numpy as np
import pytest
from reference.data import integers
from reference.data import strided as stored
from reference.rounding import DTYPES

import dnnl_graph_ops as dgo
from dnnl_graph_ops.graph_api import engine, op, stream, tensor

from .common import LT, compiled, cpu, strided

NUMPY = [name for name in DTYPES if name not in ("s4", "u4")]


@pytest.mark.parametrize("dtype", NUMPY)
def test_over_an_array(dtype):
    array = np.arange(6).reshape(2, 3).astype(DTYPES[dtype])
    t = tensor(strided(3, [2, 3], LT.data_type[dtype]), cpu(), array)
    assert t.get_data_handle() == array.ctypes.data and t.get_engine() == cpu()
    assert t.get_logical_tensor() == strided(3, [2, 3], LT.data_type[dtype])
    assert np.shares_memory(t.to_numpy(), array) and t.to_numpy().dtype == array.dtype
    array[0, 0] = 1
    assert t.to_numpy()[0, 0] == 1


@pytest.mark.parametrize("dtype", NUMPY)
def test_from_numpy_on_the_class(dtype):
    array = np.arange(6).reshape(2, 3).astype(DTYPES[dtype])
    t = tensor.from_numpy(array, id=7)
    lt = t.get_logical_tensor()
    assert (lt.get_id(), lt.get_data_type().name, lt.get_dims(), lt.get_strides()) == (7, dtype, [2, 3], [3, 1])
    np.testing.assert_array_equal(t.to_numpy(), array)
    assert tensor.from_numpy(array).get_logical_tensor().get_id() == 0


@pytest.mark.parametrize("dtype", ["f32", "bf16", "f16", "s8"])
@pytest.mark.parametrize("order", [(0, 1, 2), (2, 0, 1), (1, 2, 0)])
@pytest.mark.parametrize("gap", [0, 5])
def test_strides(dtype, order, gap, rng):
    values = integers(rng, (2, 3, 4), dtype)
    bits = stored(values.view(f"u{values.itemsize}"), order, gap)
    array = bits.view(values.dtype)
    t = tensor.from_numpy(array)
    assert t.get_logical_tensor().get_strides() == [n // array.itemsize for n in array.strides]
    np.testing.assert_array_equal(t.to_numpy(), values)
    assert tensor(t.get_logical_tensor(), cpu(), array).get_data_handle() == array.ctypes.data


@pytest.mark.parametrize("shape", [(1, 3, 8, 8), (8, 8, 3), (3, 64), (192, 1), (1, 8, 8, 3, 1)], ids=str)
def test_arrays_of_other_axes_are_refused(shape):
    """With as many elements: NCHW for NHWC, for one. An array of one axis is the memory itself."""
    described = strided(0, [1, 8, 8, 3])
    array = np.arange(192, dtype=np.float32)
    t = tensor(described, cpu(), array)
    np.testing.assert_array_equal(t.to_numpy(), array.reshape(1, 8, 8, 3))
    for take in (lambda other: tensor(described, cpu(), other), t.from_numpy, t.set_data_handle):
        with pytest.raises(dgo.ShapeError, match="takes an array of shape"):
            take(array.reshape(shape))


def test_from_numpy_on_a_tensor():
    first, second = np.zeros((2, 3), np.float32), np.ones((2, 3), np.float32)
    t = tensor.from_numpy(first)
    assert t.from_numpy(second) is t
    assert t.get_data_handle() == second.ctypes.data
    np.testing.assert_array_equal(t.to_numpy(), second)
    with pytest.raises(dgo.ShapeError):
        t.from_numpy(np.ones((3, 3), np.float32))
    with pytest.raises(dgo.InvalidArgumentError, match="f32"):
        t.from_numpy(np.ones((2, 3)))
    assert t.get_data_handle() == second.ctypes.data


def test_arrays_live_as_long_as_tensors():
    t = tensor.from_numpy(np.full(1000, 5, np.float32))
    view = t.to_numpy()
    del t
    gc.collect()
    np.full(1000, 6, np.float32)
    assert (view == 5).all()


def test_views_by_another_description_live_as_long_as_the_memory():
    """Also of arrays with gaps, which nothing but their own strides spans."""
    t = tensor.from_numpy(np.full((500, 10), 5, np.float32)[:, ::2])
    span = t.get_logical_tensor().get_mem_size() // 4
    view = t.to_numpy(LT(0, LT.f32, [span], LT.strided))
    del t
    gc.collect()
    again = [np.full((500, 10), 6, np.float32) for _ in range(20)]
    assert (view == 5).all() and len(again) == 20


@pytest.mark.parametrize("dtype", ["f32", "bf16"])
@pytest.mark.parametrize("step", [1, 2])
def test_views_of_read_only_memory_are_read_only(step, dtype):
    array = np.ones(8, DTYPES[dtype])[::step]
    array.flags.writeable = False
    t = tensor.from_numpy(array)
    assert not t.to_numpy().flags.writeable
    assert not t.to_numpy(LT(0, LT.data_type[dtype], [4], [1])).flags.writeable


def test_to_numpy_by_another_description():
    t = tensor.from_numpy(np.arange(6, dtype=np.float32).reshape(2, 3))
    np.testing.assert_array_equal(t.to_numpy(LT(0, LT.f32, [3, 2], [1, 3])), np.arange(6).reshape(2, 3).T)
    np.testing.assert_array_equal(t.to_numpy(LT(0, LT.f32, [2], LT.strided)), [0, 1])
    assert t.to_numpy(LT(0, LT.u8, [24], LT.strided)).nbytes == 24
    with pytest.raises(dgo.ShapeError, match="28 bytes"):
        t.to_numpy(LT(0, LT.f32, [7], LT.strided))
    with pytest.raises(dgo.InvalidArgumentError):
        t.to_numpy(LT(0, LT.f32, [6], LT.any))
    with pytest.raises(TypeError):
        t.to_numpy("lt")
    with pytest.raises(dgo.UnsupportedError, match="4"):
        t.to_numpy(LT(0, LT.s4, [6], LT.strided))


def test_memory_of_its_own():
    t = tensor(strided(0, [3, 5]), cpu())
    assert t.get_data_handle() % 64 == 0
    t.to_numpy()[...] = 7
    assert (t.to_numpy() == 7).all() and t.to_numpy().shape == (3, 5)
    packed = tensor(LT(0, LT.u4, [8], LT.strided), cpu(), np.zeros(4, np.uint8))
    assert packed.get_logical_tensor().get_mem_size() == 4


@pytest.mark.parametrize("shape", [(0,), (2, 0, 3), ()])
def test_empty_and_scalar_tensors(shape):
    array = np.zeros(shape, np.float32)
    for t in (tensor.from_numpy(array), tensor(strided(0, shape), cpu(), array), tensor(strided(0, shape), cpu())):
        assert t.to_numpy().shape == shape


def test_sizes_beyond_those_of_numpy():
    t = tensor(strided(0, [0, 2**62]), cpu())
    with pytest.raises(dgo.ShapeError, match="NumPy has no such array"):
        t.to_numpy()


def test_a_dense_array_of_another_shape():
    array = np.arange(6, dtype=np.float32)
    t = tensor(strided(0, [2, 3]), cpu(), array)
    np.testing.assert_array_equal(t.to_numpy(), array.reshape(2, 3))
    assert np.shares_memory(t.to_numpy(), array)


def test_addresses():
    array = np.ones(4, np.float32)
    t = tensor(strided(0, [4]), cpu(), array.ctypes.data)
    assert (t.to_numpy() == 1).all() and t.get_data_handle() == array.ctypes.data
    t.set_data_handle(array[1:].ctypes.data)
    assert t.get_data_handle() == array.ctypes.data + 4
    with pytest.raises(dgo.InvalidArgumentError, match="null"):
        t.set_data_handle(0)
    for address in (-1, 2**64):
        with pytest.raises(dgo.InvalidArgumentError, match="address"):
            tensor(strided(0, [4]), cpu(), address)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16", "int8", "uint8", "bool"])
def test_dlpack(dtype):
    torch = pytest.importorskip("torch")
    source = torch.ones((2, 3), dtype=getattr(torch, dtype))
    t = tensor.from_numpy(source)
    assert t.get_data_handle() == source.data_ptr()
    source[0, 0] = 0
    assert t.to_numpy()[0, 0] == 0 and t.to_numpy()[1, 1] == 1
    assert t.from_numpy(torch.ones_like(source)).to_numpy()[0, 0] == 1


def test_dlpack_strides_and_results():
    torch = pytest.importorskip("torch")
    source = torch.arange(-6.0, 6.0).reshape(3, 4).t()
    result = torch.full((3, 4), float("nan")).t()
    lts = [LT(i, LT.f32, [4, 3], [1, 4]) for i in range(2)]
    cp = compiled(op(0, op.ReLU, [lts[0]], [lts[1]]))
    s = stream(cpu())
    cp.execute(s, [tensor(lts[0], cpu(), source)], [tensor(lts[1], cpu(), result)])
    assert torch.equal(result, source.relu())
    with pytest.raises((dgo.Error, BufferError, RuntimeError, TypeError)):
        tensor.from_numpy(torch.ones(2, requires_grad=True))


X = strided(0, [4])
REFUSED = [
    ((X, np.zeros(5, np.float32)), dgo.ShapeError),
    ((X, np.zeros((4, 1), np.float64)), dgo.InvalidArgumentError),
    ((X, np.zeros(4, ml_dtypes.bfloat16)), dgo.InvalidArgumentError),
    ((X, np.zeros(4, ">f4")), dgo.InvalidArgumentError),
    ((X, np.zeros(8, np.float32)[::2]), dgo.ShapeError),
    ((X, np.zeros(4, np.float32)[::-1]), dgo.InvalidArgumentError),
    ((X, np.zeros(4, object)), dgo.InvalidArgumentError),
    ((X, [1.0, 2.0, 3.0, 4.0]), TypeError),
    ((X, None), TypeError),
    ((X, True), TypeError),
    ((X, "memory"), TypeError),
    ((X, 1.0), TypeError),
    ((LT(0, LT.f32, [4], LT.any),), dgo.ShapeError),
    ((LT(0, LT.f32, [4], LT.any), np.zeros(4, np.float32)), dgo.InvalidArgumentError),
    ((LT(0, LT.f32, 1),), dgo.ShapeError),
    ((LT(0, LT.f32), np.zeros(4, np.float32)), dgo.InvalidArgumentError),
    ((LT(0, LT.f32, [-1], LT.strided), np.zeros(4, np.float32)), dgo.InvalidArgumentError),
    ((LT(0, LT.f32, [4], 99),), dgo.InvalidArgumentError),
    ((LT(0, LT.f32, [4], 99), np.zeros(16, np.uint8)), dgo.InvalidArgumentError),
    ((LT(0, LT.u4, [8], LT.strided), np.zeros(3, np.uint8)), dgo.ShapeError),
    ((LT(0, LT.u4, [8], LT.strided), np.zeros(8, ml_dtypes.uint4)), dgo.InvalidArgumentError),
    (("lt", np.zeros(4, np.float32)), TypeError),
]


@pytest.mark.parametrize(("arguments", "error"), REFUSED)
def test_refused(arguments, error):
    lt, *array = arguments
    with pytest.raises(error):
        tensor(lt, cpu(), *array)


@pytest.mark.parametrize("e", [None, "cpu", engine.cpu])
def test_engines_of_other_types(e):
    with pytest.raises(TypeError):
        tensor(X, e, np.zeros(4, np.float32))
    if e is not None:
        with pytest.raises(TypeError):
            tensor.from_numpy(np.zeros(4, np.float32), 0, e)


@pytest.mark.parametrize("array", [np.zeros(2, np.int16), np.zeros(2), np.zeros((2, 2), np.float32)[::-1], 3, None, []])
def test_from_numpy_refuses(array):
    with pytest.raises((TypeError, dgo.InvalidArgumentError)):
        tensor.from_numpy(array)


def test_scalars():
    lt = LT(0, LT.f32, [], LT.strided, LT.host_scalar)
    with pytest.raises(dgo.UnsupportedError, match=r"3\.9"):
        tensor.make_scalar_tensor(lt, 2.0)
    with pytest.raises(dgo.InvalidArgumentError, match="host_scalar"):
        tensor.make_scalar_tensor(strided(0, []), 2.0)
    for value in ("2", None, [1, 2], np.ones(2)):
        with pytest.raises(TypeError):
            tensor.make_scalar_tensor(lt, value)
    with pytest.raises(TypeError):
        tensor.make_scalar_tensor("lt", 2.0)


@pytest.mark.parametrize("dtype", ["s8", "boolean", "u8", "f8_e5m2", "f8_e4m3"])
def test_elements_of_a_byte_in_memory_of_the_module(dtype):
    flat, square = (tensor(LT(0, LT.data_type[dtype], dims, LT.strided), cpu()) for dims in ([4], [2, 2]))
    assert flat.to_numpy().dtype == square.to_numpy().dtype == DTYPES[dtype]


def test_negative_elements_of_s8_in_memory_of_the_module():
    x, y = strided(0, [4]), strided(1, [4], LT.s8)
    o = op(0, op.Quantize, [x], [y]).set_attr(op.attr.scales, [1.0]).set_attr(op.attr.zps, [0])
    result = tensor(y, cpu())
    source = np.array([-1, -2, 3, -128], np.float32)
    compiled(o).execute(stream(cpu()), [tensor(x, cpu(), source)], [result])
    assert result.to_numpy().tolist() == source.tolist()


def test_numpy_takes_a_tensor():
    held = tensor.from_numpy(integers(np.random.default_rng(0), (3, 4)))
    np.testing.assert_array_equal(np.asarray(held), held.to_numpy())
    assert np.asarray(held, np.float64).dtype == np.float64
    assert np.shares_memory(np.asarray(held), held.to_numpy())
    assert not np.shares_memory(np.array(held, copy=True), held.to_numpy())
