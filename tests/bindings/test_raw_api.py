"""The raw objects: what they compute, what they own, and that they stop what the library would not."""

import gc
import mmap

import numpy as np
import pytest
from children import check_faulty_cases, child
from concurrently import in_threads
from differences import TABLE, fact
from reference.conv_transpose import forward
from reference.data import integers

from dnnl_graph_ops import _core, errors
from dnnl_graph_ops._core import (
    DataType,
    EngineKind,
    LayoutType,
    LogicalTensor,
    OpAttr,
    OpKind,
    PartitionPolicy,
)
from dnnl_graph_ops.runtime.cpu import name_of

from . import raw
from .raw import bind, engine, library, make_op, partitions, relu, tensor

STREAM = _core.Stream(engine())


def test_conv_transpose(seed):
    rng = np.random.default_rng(seed)
    part, sources, y = raw.deconv()
    assert part.is_supported and part.engine_kind is EngineKind.cpu and part.op_count == len(part.op_ids) == 1
    assert [lt.id for lt in part.input_ports] == [lt.id for lt in sources]
    assert [lt.id for lt in part.output_ports] == [y.id]
    compiled = part.compile(sources, [y], engine())
    x, w = (integers(rng, lt.dims) for lt in sources)
    out = np.full(y.dims, np.nan, np.float32)
    compiled.execute(STREAM, [bind(sources[0], x), bind(sources[1], w)], [bind(y, out)])
    STREAM.wait()
    np.testing.assert_array_equal(out, forward(x, w, strides=2, pads_begin=1, pads_end=1))


@pytest.mark.parametrize("dims", [None, (None, None, None, None)])
def test_unknown_output_shapes_are_inferred(dims):
    part, sources, y = raw.deconv(LogicalTensor(next(raw.ids), DataType.f32, dims))
    compiled = part.compile(sources, [y], engine())
    assert compiled.outputs[0].dims == compiled.query(y.id).dims == (2, 10, 8, 6)
    assert compiled.outputs[0].strides == (480, 48, 6, 1)
    assert compiled.outputs[0].mem_size(library()) == 2 * 10 * 8 * 6 * 4


def test_any_layout_is_resolved_by_compile():
    x, w = tensor(2, 3, 5, 5), tensor(4, 4, 6, 3)
    y = tensor(2, 6, 10, 10, layout=LayoutType.any)
    op = make_op(OpKind.conv_transpose, [x, w], [y], raw.DECONV)
    op.set_attr(OpAttr.data_format, "string", "NCX")
    (part,) = partitions(op)
    (out,) = part.compile([x, w], [y], engine()).outputs
    assert out.layout_type is not LayoutType.any
    assert out.mem_size(library()) >= 2 * 6 * 10 * 10 * 4


def test_one_op_alone_makes_a_partition():
    x, y = tensor(7), tensor(7)
    part = _core.Partition.create_with_op(make_op(OpKind.tanh, [x], [y]), EngineKind.cpu)
    out, data = np.empty(7, np.float32), np.linspace(-1, 1, 7, dtype=np.float32)
    part.compile([x], [y], engine()).execute(STREAM, [bind(x, data)], [bind(y, out)])
    np.testing.assert_allclose(out, np.tanh(data), rtol=1e-5)


def test_policies():
    x, y, z = tensor(2, 3), tensor(2, 3), tensor(2, 3)
    a, b, c = tensor(3, 3), tensor(2, 3), tensor(2, 3)
    ops = [make_op(OpKind.matmul, [x, a], [y]), make_op(OpKind.relu, [y], [z])]
    assert [sorted(p.op_ids) for p in partitions(*ops)] == [sorted(op.id for op in ops)]
    ops = [make_op(OpKind.matmul, [x, a], [b]), make_op(OpKind.relu, [b], [c])]
    assert [p.op_ids for p in partitions(*ops, policy=PartitionPolicy.debug)] == [[op.id] for op in ops]


def test_a_graph_without_ops_has_no_partitions():
    assert partitions() == []


def test_inplace_ports_name_tensors_of_the_partition():
    x, y, r, z = (tensor(8, 16) for _ in range(4))
    w = tensor(16, 16)
    (part,) = partitions(make_op(OpKind.matmul, [x, w], [y]), make_op(OpKind.add, [y, r], [z]))
    pairs = part.compile([x, w, r], [z], engine()).inplace_ports
    assert pairs == [] or pairs == [(r.id, z.id)]


def test_bf16_runs_or_says_that_it_cannot():
    part, sources, y = raw.deconv(dtype=DataType.bf16)
    try:
        compiled = part.compile(sources, [y], engine())
    except errors.UnsupportedError as error:
        assert fact("who refuses bf16 on AVX2") in str(error) and name_of(library().effective_cpu_isa()) == "avx2"
    else:
        assert compiled.outputs[0].dtype is DataType.bf16


def test_tensors_keep_their_arrays():
    compiled, x, y = relu(64)
    for round in range(200):
        data = np.full(64, round, np.float32)
        source = bind(x, data)
        del data
        gc.collect(0)
        out = np.empty(64, np.float32)
        compiled.execute(STREAM, [source], [bind(y, out)])
        assert (out == round).all()


def test_a_tensor_holds_its_buffer():
    """What has handed out its memory may not move it."""
    description = tensor(4)
    for data, drop in ((bytearray(16), bytearray.clear), (mmap.mmap(-1, 16), mmap.mmap.close)):
        for _ in range(2):
            bound = bind(description, data)
            with pytest.raises(BufferError):
                drop(data)
            bound.set_data_handle(np.zeros(4, np.float32))
        bound.set_data_handle(data)
        with pytest.raises(BufferError):
            drop(data)
        del bound
        drop(data)


def test_many_ports_take_linear_time():
    """Refusing them took minutes."""
    (part,) = partitions(make_op(OpKind.relu, [tensor(2)], [tensor(2)]))
    many = [tensor(2) for _ in range(100_000)]
    with pytest.raises(errors.InvalidArgumentError, match="missing"):
        part.compile(many, many, engine())


NONE = """
from dnnl_graph_ops import _core

classes = [item for module in (_core, _core.kernels) for item in vars(module).values() if isinstance(item, type)]
for name, member in ((name, member) for item in classes for name, member in vars(item).items()):
    accessors = (member.fget, member.fset) if isinstance(member, property) else (getattr(member, "__func__", None),)
    for function in filter(callable, accessors):
        try:
            function(None)
        except (TypeError, AttributeError):
            pass
print("done")
"""


@pytest.mark.child
def test_methods_and_properties_of_none():
    """They read an object at address 0."""
    done = child("-c", NONE)
    assert done.returncode == 0 and done.stdout == "done\n", done.stderr[-2000:]


@pytest.mark.child
def test_hostile_calls(seed, amount):
    """Every raw function and method, with values that fit its signature, and others."""
    for start in range(0, amount(1000, 10_000, 20_000), 1000):
        check_faulty_cases("bindings.hostile", seed, start, start + 1000)


def test_tensors_can_be_rebound():
    compiled, x, y = relu(4)
    first, second = np.full(4, 1, np.float32), np.full(4, 2, np.float32)
    source, out = bind(x, first), np.empty(4, np.float32)
    assert source.data_handle == first.ctypes.data and source.writable
    source.set_data_handle(second)
    second.flags.writeable = False
    compiled.execute(STREAM, [source], [bind(y, out.ctypes.data)])
    np.testing.assert_array_equal(out, second)


def test_threads_may_share_a_compiled_partition(seed):
    part, sources, y = raw.deconv()
    compiled = part.compile(sources, [y], engine())
    rng = np.random.default_rng(seed)
    w = integers(rng, sources[1].dims)
    inputs = [integers(rng, sources[0].dims) for _ in range(4)]
    results = [np.empty(y.dims, np.float32) for _ in inputs]

    def run(x, out):
        stream = _core.Stream(engine())
        for _ in range(20):
            out.fill(np.nan)
            compiled.execute(stream, [bind(sources[0], x), bind(sources[1], w)], [bind(y, out)])
            stream.wait()

    in_threads(4, lambda index: run(inputs[index], results[index]))
    for x, out in zip(inputs, results, strict=True):
        np.testing.assert_array_equal(out, forward(x, w, strides=2, pads_begin=1, pads_end=1))


def test_an_engine_with_an_allocator():
    allocator = getattr(_core.Allocator, fact("the CPU engine's allocator"))(library())
    own = _core.Engine(library(), EngineKind.cpu, allocator=allocator)
    part, sources, y = raw.deconv()
    compiled = part.compile(sources, [y], own)
    arrays = [np.ones(lt.dims, np.float32) for lt in (*sources, y)]
    bound = [_core.Tensor(lt, own, a) for lt, a in zip((*sources, y), arrays, strict=True)]
    compiled.execute(_core.Stream(own), bound[:2], bound[2:])
    assert arrays[2][0, 5, 4, 0] == 12


def test_descriptions():
    lt = LogicalTensor(5, DataType.f32, (2, None, 3))
    assert lt.dims == (2, None, 3) and lt.strides == (None, None, None)
    assert LogicalTensor(5, DataType.f32).dims is None
    assert tensor(2, 0, 3).strides == (3, 3, 1) and tensor(2, 0, 3).mem_size(library()) == 0
    assert LogicalTensor(5, DataType.s8, ()).mem_size(library()) == 1
    assert LogicalTensor(5, DataType.s4, (3,)).mem_size(library()) == 2
    strided = LogicalTensor(5, DataType.bf16, (2, 3), (8, 2))
    assert strided.mem_size(library()) == (8 + 2 * 2 + 1) * 2
    assert strided.is_equal(library(), LogicalTensor(5, DataType.bf16, (2, 3), (8, 2)))
    assert not strided.is_equal(library(), LogicalTensor(5, DataType.bf16, (2, 3)))
    assert tensor(1, dtype=DataType.f8_e4m3).dtype is DataType.f8_e4m3


def finalized():
    graph = _core.Graph(library(), EngineKind.cpu)
    graph.add_op(make_op(OpKind.relu, [tensor(2)], [tensor(2)]))
    graph.finalize()
    return graph


def two_ops_of_one_id():
    graph = _core.Graph(library(), EngineKind.cpu)
    for name in ("first", "second"):
        op = _core.Op(library(), 10**9, OpKind.relu, name)
        op.add_input(tensor(2))
        op.add_output(tensor(2))
        graph.add_op(op)


def attr(code, type, value):
    return lambda: _core.Op(library(), 1, OpKind.conv_transpose, "up").set_attr(code, type, value)


def compile_relu(make_input=tensor, make_output=tensor, missing=False, surplus=False, on=None):
    def call():
        x, y = make_input(2, 3), make_output(2, 3)
        known = [LogicalTensor(lt.id, DataType.f32, (2, 3)) for lt in (x, y)]
        (part,) = partitions(make_op(OpKind.relu, known[:1], known[1:]))
        inputs = [] if missing else [x, tensor(2, 3)] if surplus else [x]
        part.compile(inputs, [y], on or engine())

    return call


def dims(*values, strides=None, layout=LayoutType.strided):
    return lambda *_: LogicalTensor(next(raw.ids), DataType.f32, values, strides, layout)


def execute(inputs=None, outputs=None, stream=STREAM):
    def call():
        compiled, x, y = relu(4)
        source, target = bind(x, np.zeros(4, np.float32)), bind(y, np.zeros(4, np.float32))
        compiled.execute(
            stream() if callable(stream) else stream,
            [source] if inputs is None else inputs(x, source),
            [target] if outputs is None else outputs(y, target),
        )

    return call


def frozen(count):
    array = np.zeros(count, np.float32)
    array.flags.writeable = False
    return array


def other_engine():
    return _core.Engine(library(), EngineKind.cpu)


INVALID, SHAPE, UNSUPPORTED = errors.InvalidArgumentError, errors.ShapeError, errors.UnsupportedError
UNAVAILABLE = errors.RuntimeUnavailableError

MISTAKES = {
    "negative dim": (dims(2, -1), SHAPE, "-1"),
    "13 dims": (dims(*[1] * 13), SHAPE, "13 values, at most 12"),
    "64-bit size": (dims(2**40, 2**40), SHAPE, "64 bits"),
    "2^64 bits": (dims(2**59), SHAPE, "64 bits"),
    "2^64 bits by strides": (dims(2, strides=(2**59,)), SHAPE, "64 bits"),
    "2^63 bits of bytes": (lambda: LogicalTensor(1, DataType.s8, (2**60,)), SHAPE, "64 bits"),
    "64-bit extent": (dims(2, 2, strides=(2**62, 2**62)), SHAPE, "64 bits"),
    "strides of another rank": (dims(2, 2, strides=(1,)), SHAPE, "1 strides for 2 dims"),
    "negative stride": (dims(2, strides=(-1,)), SHAPE, "-1"),
    "strides with layout any": (dims(2, strides=(1,), layout=LayoutType.any), INVALID, "strided"),
    "opaque layout": (dims(2, layout=LayoutType.opaque), INVALID, "compiled partition"),
    "data type": (lambda: LogicalTensor(1, 99, (2,)), INVALID, "99"),
    "property": (lambda: LogicalTensor(1, 3, (2,), property=9), INVALID, "9"),
    "size of an unknown shape": (lambda: tensor(None).mem_size(library()), SHAPE, "unknown"),
    "engine kind": (lambda: _core.Engine(library(), 7), INVALID, "7"),
    "absent engine": (lambda: _core.Engine(library(), EngineKind.gpu), UNAVAILABLE, "gpu:0"),
    "engine index": (lambda: _core.Engine(library(), EngineKind.cpu, 5), UNAVAILABLE, "cpu:5"),
    "op kind": (lambda: _core.Op(library(), 1, 500, "x"), INVALID, "500"),
    "negative op kind": (lambda: _core.Op(library(), 1, -1, "x"), INVALID, "-1"),
    "op kind of a later release": (lambda: _core.Op(library(), 1, OpKind.rms_norm, "x"), UNSUPPORTED, "3.11"),
    "NUL in a name": (lambda: _core.Op(library(), 1, OpKind.relu, "a\0b"), INVALID, "NUL"),
    "attribute": (attr(0xFE0, "s64", 1), INVALID, "4064"),
    "attribute type": (attr(OpAttr.groups, "s64[]", [1]), INVALID, "type s64, not s64[]"),
    "empty attribute": (attr(OpAttr.strides, "s64[]", []), INVALID, "empty"),
    "empty string": (attr(OpAttr.auto_pad, "string", ""), INVALID, "empty"),
    "NUL in a string": (attr(OpAttr.auto_pad, "string", "a\0"), INVALID, "NUL"),
    "attribute of a wrong Python type": (attr(OpAttr.strides, "s64[]", "ab"), TypeError, "s64[]"),
    "fraction for an integer": (attr(OpAttr.groups, "s64", 1.5), TypeError, "s64"),
    "two ops of one id": (two_ops_of_one_id, INVALID, "'first'"),
    "op that breaks its schema": (lambda: partitions(make_op(OpKind.relu, [], [])), INVALID, "schema"),
    "add after finalize": (
        lambda: finalized().add_op(make_op(OpKind.relu, [tensor(2)], [tensor(2)])),
        INVALID,
        "finalized",
    ),
    "filter before finalize": (
        lambda: _core.Graph(library(), EngineKind.cpu).filter(PartitionPolicy.fusion),
        INVALID,
        "finalize first",
    ),
    "policy": (lambda: finalized().filter(0), INVALID, "policy 0"),
    "partitions before filter": (lambda: finalized().partitions(), INVALID, "filter first"),
    "fpmath mode": (lambda: _core.Graph(library(), EngineKind.cpu, 77), INVALID, "77"),
    "function of a later release": (lambda: library().set_dump_mode(1), UNSUPPORTED, "3.11"),
    "negative cache": (lambda: library().set_compiled_partition_cache_capacity(-1), INVALID, "capacity"),
    "compile without an input": (compile_relu(missing=True), INVALID, "missing"),
    "compile with a surplus input": (compile_relu(surplus=True), INVALID, "has no input"),
    "input of layout any": (compile_relu(dims(2, 3, layout=LayoutType.any)), INVALID, "layout any"),
    "input of unknown shape": (compile_relu(dims(2, None)), SHAPE, "known dims"),
    "output of half known shape": (compile_relu(make_output=dims(2, None)), SHAPE, "or none"),
    "output that overlaps itself": (compile_relu(make_output=dims(2, 3, strides=(0, 1))), SHAPE, "stride 0"),
    "too few inputs": (execute(inputs=lambda *_: []), INVALID, "got 0 inputs"),
    "too many outputs": (execute(outputs=lambda _, t: [t, t]), INVALID, "got 2 outputs"),
    "None for a tensor": (execute(inputs=lambda *_: [None]), TypeError, "None"),
    "tensors in another order": (
        execute(outputs=lambda *_: [bind(tensor(4), frozen(4))]),
        INVALID,
        "compiled was",
    ),
    "read-only output": (execute(outputs=lambda y, _: [bind(y, frozen(4))]), INVALID, "read-only"),
    "stream of another engine": (
        execute(stream=lambda: _core.Stream(other_engine())),
        INVALID,
        "another engine",
    ),
    "tensor of another engine": (
        execute(inputs=lambda x, _: [_core.Tensor(x, other_engine(), frozen(4))]),
        INVALID,
        "another engine",
    ),
    "small buffer": (
        lambda: bind(tensor(4), np.zeros(3, np.float32)),
        SHAPE,
        "needs 16 bytes, the buffer has 12",
    ),
    "small view": (lambda: bind(tensor(4), np.zeros(8, np.float32)[5:]), SHAPE, "12"),
    "reversed view": (lambda: bind(tensor(4), np.zeros(4, np.float32)[::-1]), SHAPE, "negative stride"),
    "null address": (lambda: bind(tensor(4), 0), INVALID, "null"),
    "no buffer": (lambda: bind(tensor(4), "text"), TypeError, "str"),
    "scalar in an old library": (
        lambda: _core.Tensor.scalar(tensor(), engine(), frozen(1)),
        UNSUPPORTED,
        "3.9",
    ),
}


@pytest.mark.parametrize("name", [n for n in MISTAKES if f"mistake: {n}" not in TABLE or fact(f"mistake: {n}")])
def test_mistakes(name):
    call, kind, text = MISTAKES[name]
    with pytest.raises(kind) as caught:
        call()
    assert type(caught.value) is kind
    assert text in str(caught.value)


def test_none_is_no_handle():
    with pytest.raises(TypeError):
        _core.Graph(None, EngineKind.cpu)
    with pytest.raises(TypeError):
        _core.Stream(None)
    for make in (_core.Allocator.host, _core.Allocator.sycl):
        with pytest.raises(TypeError):
            make(None)


def test_elements_without_bytes():
    nothing = np.zeros(2, "V0")
    with pytest.raises(errors.InvalidArgumentError, match="bytes"):
        _core.dlpack_export(nothing, 2, 32, True)
    with pytest.raises(errors.InvalidArgumentError, match="bytes"):
        _core.register_dtype(nothing.dtype, 5000)
    with pytest.raises(errors.InvalidArgumentError, match="strides"):
        _core.dlpack_export_memory(None, 0, (2, 3), (1,), (2, 32), (1, 0), True, True)


def test_empty_tensors_need_no_memory():
    compiled, x, y = relu(0, 4)
    compiled.execute(STREAM, [bind(x, 0)], [bind(y, 0)])


def test_a_library_is_quiet_and_keeps_no_partitions():
    assert library().get_compiled_partition_cache_capacity() == 0
