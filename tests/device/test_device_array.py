"""Arrays in memory of an engine: to and from NumPy, in and out of nets, and between libraries."""

import copy
import ctypes
import gc
import multiprocessing
import pickle
import weakref

import ml_dtypes
import numpy as np
import pytest

import dnnl_graph_ops as dgo
from dnnl_graph_ops import _core
from dnnl_graph_ops.runtime import sycl

from .engines import ENGINES, open_engine

TYPES = [np.float32, np.float16, ml_dtypes.bfloat16, np.int8, np.uint8, np.int32, np.int64, np.bool_]
TYPES += [ml_dtypes.float8_e5m2, ml_dtypes.float8_e4m3fn]


@pytest.fixture(params=ENGINES)
def engine(request):
    return open_engine(request.param)


@pytest.fixture
def device():
    return open_engine("device")


def values(shape, dtype=np.float32):
    return (np.arange(np.prod(shape)) % 7).reshape(shape).astype(dtype)


def doubled(engine, shape=(2, 3, 4)):
    graph = dgo.Graph(engine)
    x = graph.input("x", shape)
    return graph.compile(x + x)


@pytest.mark.parametrize("dtype", TYPES, ids=lambda t: np.dtype(t).name)
def test_round_trip(engine, dtype):
    for shape in ((2, 3, 5), (1,), (), (0, 4)):
        array = np.asarray(values(shape, dtype))
        held = dgo.DeviceArray.from_numpy(array, engine)
        assert (held.shape, held.dtype) == (array.shape, array.dtype)
        assert held.strides == array.strides or not array.size
        assert (held.ndim, held.size, held.nbytes, held.engine) == (array.ndim, array.size, array.nbytes, engine)
        for back in (held.to_numpy(), np.asarray(held), pickle.loads(pickle.dumps(held)).to_numpy()):
            assert back.dtype == array.dtype and back.tobytes() == array.tobytes()
        assert copy.copy(held).address != held.address or not array.size


@pytest.mark.parametrize("dtype", TYPES, ids=lambda t: np.dtype(t).name)
def test_round_trip_with_gaps(engine, dtype):
    array = np.asarray(values((2, 3), dtype))
    held = dgo.DeviceArray.strided(array.shape, array.dtype, (7, 2), engine)
    held.copy_from(array)
    back = held.to_numpy()
    assert back.dtype == array.dtype and back.tobytes() == array.tobytes()


def test_a_copy_is_apart(engine):
    array = values((4, 5))
    held = dgo.DeviceArray.from_numpy(array[:, ::2], engine)
    array[...] = -1
    np.testing.assert_array_equal(held.to_numpy(), values((4, 5))[:, ::2])
    held.copy_from(array[:, ::2])
    assert (held.to_numpy() == -1).all()


def test_nets_read_and_write_in_place(engine):
    net, data = doubled(engine), values((2, 3, 4))
    held = dgo.DeviceArray.from_numpy(data, engine)
    twice = net(held)
    assert isinstance(twice, dgo.DeviceArray) and twice.engine is engine
    four = net(twice)
    np.testing.assert_array_equal(four.to_numpy(), 4 * data)
    np.testing.assert_array_equal(held.to_numpy(), data)
    out = dgo.DeviceArray((2, 3, 4), "f32", engine)
    assert net(data, out=out) is out
    np.testing.assert_array_equal(out.to_numpy(), 2 * data)
    host = np.empty_like(data)
    assert net(four, out=host) is host
    np.testing.assert_array_equal(host, 8 * data)
    (named,) = net.run({"x": held}).values()
    np.testing.assert_array_equal(named.to_numpy(), 2 * data)
    np.testing.assert_array_equal(net.submit(four).result(60).to_numpy(), 8 * data)


def test_steps_of_the_host_between(engine):
    """A conversion and a transposition on arrays that are nowhere but on the device."""
    graph = dgo.Graph(engine)
    x = graph.input("x", (4, 6), "bf16")
    net = graph.compile(dgo.ops.static_transpose(dgo.ops.relu(x), order=(1, 0)))
    data = np.arange(-12, 12).reshape(4, 6).astype(ml_dtypes.bfloat16)
    result = net(dgo.DeviceArray.from_numpy(data, engine))
    np.testing.assert_array_equal(result.to_numpy(), np.maximum(data, 0).T)


def test_mistakes(engine):
    net, data = doubled(engine), values((2, 3, 4))
    held = dgo.DeviceArray.from_numpy(data, engine)
    other = dgo.DeviceArray.from_numpy(data, open_engine("omp" if engine.runtime.name == "sycl" else "sycl"))
    with pytest.raises(dgo.InvalidArgumentError, match=r"(?s)input 'x'.*in memory of.*to_numpy"):
        net(other)
    with pytest.raises(dgo.InvalidArgumentError, match="in memory of"):
        net(data, out=other)
    with pytest.raises(dgo.InvalidArgumentError, match="overlaps"):
        net(held, out=held)
    with pytest.raises(dgo.InvalidArgumentError, match="dtype"):
        net(dgo.DeviceArray((2, 3, 4), "f16", engine))
    with pytest.raises(dgo.ShapeError, match="shape"):
        net(dgo.DeviceArray((2, 3, 5), "f32", engine))
    with pytest.raises(dgo.InvalidArgumentError, match="copy_from"):
        held.copy_from(data[:1])
    with pytest.raises(dgo.ShapeError):
        dgo.DeviceArray((2, -1), "f32", engine)
    with pytest.raises(dgo.InvalidArgumentError):
        dgo.DeviceArray((2,), "f64", engine)
    with pytest.raises(TypeError, match="NumPy array"):
        dgo.DeviceArray.from_numpy([1.0], engine)
    with pytest.raises(TypeError, match=r"dgo\.engine"):
        dgo.DeviceArray((2,), "f32", "cpu")


def test_out_of_memory(engine):
    with pytest.raises(dgo.Error, match=r"no room for \d+ bytes; drop arrays") as raised:
        dgo.DeviceArray((1 << 45,), "f32", engine)
    assert not isinstance(raised.value, dgo.InvalidArgumentError)
    with pytest.raises(dgo.ShapeError, match="64 bits"):
        dgo.DeviceArray((1 << 40, 1 << 40), "f32", engine)


def test_owners(engine):
    held = dgo.DeviceArray.from_numpy(values((3, 3)), engine)
    dead = weakref.ref(held)
    taken = dgo.DeviceArray.from_dlpack(Producer(held, engine), engine, copy=False)
    assert taken.address == held.address
    del held
    gc.collect()
    assert dead() is not None
    np.testing.assert_array_equal(taken.to_numpy(), values((3, 3)))
    del taken
    gc.collect()
    assert dead() is None


def _in_child(held, pipe):
    try:
        pipe.send(repr(held.to_numpy()))
    except dgo.Error as error:
        pipe.send(str(error))


@pytest.mark.child
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_forked_child_computes_or_is_told(engine):
    """On the CPU it reads the array with one thread; a library with threads of its own is refused."""
    held = doubled(engine)(dgo.DeviceArray.from_numpy(values((2, 3, 4)), engine))
    context = multiprocessing.get_context("fork")
    ours, theirs = context.Pipe()
    child = context.Process(target=_in_child, args=(held, theirs))
    child.start()
    assert ours.poll(60), "the child hangs"
    threadless = engine.runtime.name == "omp"
    assert ours.recv() == repr(held.to_numpy()) if threadless else "spawn" in ours.recv()
    child.join(60)
    assert child.exitcode == 0
    np.testing.assert_array_equal(held.to_numpy(), 2 * values((2, 3, 4)))


# -- other libraries ---


class Producer:
    """Another library's tensor with nothing but DLPack."""

    def __init__(self, held, engine):
        self.held = held
        self.device = held.__dlpack_device__()

    def __dlpack_device__(self):
        return self.device

    def __dlpack__(self, **options):
        return self.held.__dlpack__(**options)


class Usm:
    """Another library's array with nothing but __sycl_usm_array_interface__."""

    def __init__(self, held, **changes):
        self.held = held
        self.__sycl_usm_array_interface__ = {**held.__sycl_usm_array_interface__, **changes}


class Queue:
    """What dpctl calls a queue."""

    class Part:
        def __init__(self, address):
            self.address = address

        def addressof_ref(self):
            return self.address

    def __init__(self, engine):
        self.sycl_device = self.Part(engine._native.sycl_device)
        self.sycl_context = self.Part(engine._native.sycl_context)


def test_torch_on_the_cpu():
    torch = pytest.importorskip("torch")
    omp = open_engine("omp")
    tensor = torch.arange(12, dtype=torch.bfloat16).reshape(3, 4)
    held = dgo.DeviceArray.from_dlpack(tensor, omp)
    assert held.address == tensor.data_ptr() and held.shape == (3, 4)
    back = torch.from_dlpack(held)
    assert back.data_ptr() == tensor.data_ptr() and back.dtype == torch.bfloat16
    column = dgo.DeviceArray.from_dlpack(tensor[:, 1], omp, copy=False)
    assert column.strides == (8,)
    np.testing.assert_array_equal(column.to_numpy(), np.array([1, 5, 9], ml_dtypes.bfloat16))
    column.copy_from(np.array([-1, -2, -3], ml_dtypes.bfloat16))
    assert tensor.tolist() == [[0, -1, 2, 3], [4, -2, 6, 7], [8, -3, 10, 11]]
    copied = dgo.DeviceArray.from_dlpack(tensor, omp, copy=True)
    assert copied.address != tensor.data_ptr()


def test_torch_to_a_device(device):
    torch = pytest.importorskip("torch")
    tensor = torch.arange(12, dtype=torch.float32).reshape(3, 4)
    held = dgo.DeviceArray.from_dlpack(tensor, device)
    np.testing.assert_array_equal(held.to_numpy(), tensor.numpy())
    with pytest.raises(dgo.InvalidArgumentError, match=r"copy=False.*from_sycl"):
        dgo.DeviceArray.from_dlpack(tensor, device, copy=False)
    net = doubled(device, (3, 4))
    result = net(tensor)
    np.testing.assert_array_equal(result, 2 * tensor.numpy())


def test_memory_of_the_same_context(device):
    data = values((2, 3, 4))
    held = dgo.DeviceArray.from_numpy(data, device)
    net = doubled(device)
    for foreign in (Producer(held, device), Usm(held)):
        taken = dgo.DeviceArray.from_dlpack(foreign, device, copy=False)
        assert taken.address == held.address and taken.dtype == data.dtype
        result = net(foreign)
        assert isinstance(result, dgo.DeviceArray)
        np.testing.assert_array_equal(result.to_numpy(), 2 * data)
        copied = dgo.DeviceArray.from_dlpack(foreign, device, copy=True)
        assert copied.address != held.address
        np.testing.assert_array_equal(copied.to_numpy(), data)


def test_parts_of_foreign_arrays(device):
    data = values((6, 4))
    held = dgo.DeviceArray.from_numpy(data, device)
    part = Usm(held, shape=(3, 2), strides=(8, 2), offset=5)
    taken = dgo.DeviceArray.from_dlpack(part, device, copy=False)
    np.testing.assert_array_equal(taken.to_numpy(), data[1::2, 1::2])
    graph = dgo.Graph(device)
    net = graph.compile(dgo.ops.relu(graph.input("x", (3, 2))) + 1.0)
    np.testing.assert_array_equal(net(taken).to_numpy(), data[1::2, 1::2] + 1)
    out = dgo.DeviceArray.from_dlpack(part, device)
    net(dgo.DeviceArray.from_numpy(np.full((3, 2), 40, np.float32), device), out=out)
    expected = data.copy()
    expected[1::2, 1::2] = 41
    np.testing.assert_array_equal(held.to_numpy(), expected)
    read_only = dgo.DeviceArray.from_dlpack(Usm(held, data=(held.address, True)), device)
    with pytest.raises(dgo.InvalidArgumentError, match="read-only"):
        read_only.copy_from(data)
    with pytest.raises(dgo.InvalidArgumentError, match="negative strides"):
        dgo.DeviceArray.from_dlpack(Usm(held, strides=(-4, 1)), device)


def test_memory_of_another_context(device):
    """Never used where it lies: copied by its owner, or refused with a way out."""
    data = values((2, 3, 4))
    twin = dgo.Engine.from_sycl(Queue(dgo.engine("cpu", runtime="sycl")), memory="device")
    held = dgo.DeviceArray.from_numpy(data, twin)
    copied = dgo.DeviceArray.from_dlpack(Producer(held, twin), device)
    assert copied.address != held.address
    np.testing.assert_array_equal(copied.to_numpy(), data)
    with pytest.raises(dgo.InvalidArgumentError, match=r"copy=False.*from_sycl"):
        dgo.DeviceArray.from_dlpack(Producer(held, twin), device, copy=False)
    with pytest.raises(dgo.InvalidArgumentError, match="another SYCL context"):
        dgo.DeviceArray.from_dlpack(Usm(held), device)
    with pytest.raises(dgo.InvalidArgumentError, match="copy=False"):
        doubled(device)(Usm(held))
    malloced = ctypes.create_string_buffer(4 * data.size)
    with pytest.raises(dgo.InvalidArgumentError):
        dgo.DeviceArray.from_dlpack(Usm(held, data=(ctypes.addressof(malloced), False)), device)


def test_engines_of_queues(device):
    stream = _core.Stream(device._native)
    data = values((2, 3, 4))
    for queue in (Queue(device), stream.sycl_queue):
        engine = dgo.Engine.from_sycl(queue, memory="device")
        assert engine.kind == "cpu" and engine is not device
        assert engine._native.sycl_identity == device._native.sycl_identity
        held = dgo.DeviceArray.from_numpy(data, device)
        taken = dgo.DeviceArray.from_dlpack(Producer(held, device), engine, copy=False)
        assert taken.address == held.address, "the context of the queue is that of the engine"
        np.testing.assert_array_equal(doubled(engine)(taken).to_numpy(), 2 * data)
        assert dgo.Engine.from_sycl(queue, memory="device") is engine
        with pytest.raises(TypeError, match="pickled"):
            pickle.dumps(engine)
    with pytest.raises(TypeError, match=r"dpctl\.SyclQueue"):
        dgo.Engine.from_sycl("queue")


def test_two_sycl_runtimes(device, tmp_path, monkeypatch):
    """PyTorch brings its own: a queue of that one must not reach oneDNN."""
    (own,) = sycl.sycl_runtimes()
    assert own.startswith(str(device.runtime.path).rsplit("/", 1)[0])
    maps = tmp_path / "maps"
    maps.write_text(f"7f00-7f01 r-xp 0000 00:00 1 {own}\n7f02-7f03 r-xp 0000 00:00 2 /torch/lib/libsycl.so.8.0.0\n")
    monkeypatch.setattr(sycl, "_MAPS", maps)
    with pytest.raises(dgo.UnsupportedError, match=r"2 SYCL runtimes.*/torch/lib"):
        dgo.Engine.from_sycl(Queue(device), memory="device")


def test_protocols_out(device):
    data = values((2, 3))
    held = dgo.DeviceArray.from_numpy(data, device)
    assert held.__dlpack_device__() == (14, 0)
    usm = held.__sycl_usm_array_interface__
    assert usm["data"] == (held.address, False) and usm["typestr"] == "<f4" and usm["shape"] == (2, 3)
    with pytest.raises(dgo.InvalidArgumentError, match="not in CPU memory"):
        dgo.from_dlpack(held)
    # asked for memory of the CPU it gives a copy
    np.testing.assert_array_equal(_core.dlpack_import(held.__dlpack__(dl_device=(1, 0)), {(2, 32): data.dtype}), data)
    with pytest.raises(BufferError, match="without a copy"):
        held.__dlpack__(dl_device=(1, 0), copy=False)
    assert not hasattr(dgo.DeviceArray((2,), "bf16", device), "__sycl_usm_array_interface__")
    assert not hasattr(dgo.DeviceArray((2,), "f32", open_engine("omp")), "__sycl_usm_array_interface__")


def test_addresses_are_usm_of_the_device(device):
    """What partitions get; memory of the host is told apart."""
    held = dgo.DeviceArray((100,), "f32", device)
    assert device._native.reaches(held.address) and device._native.reaches(held.address + 396)
    assert not device._native.reaches(np.empty(100, np.float32).ctypes.data)
    assert not dgo.engine("cpu", runtime="sycl")._native.reaches(held.address)
    assert not open_engine("omp")._native.reaches(held.address)
