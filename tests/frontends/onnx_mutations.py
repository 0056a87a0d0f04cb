"""Broken ONNX models: small faults in good ones, as bytes and as messages. Run as a child process.

python -m frontends.onnx_mutations SEED START STOP
"""

import copy
import signal
import sys
import traceback

import numpy as np
from google.protobuf.message import DecodeError
from onnx import AttributeProto, ModelProto, helper, numpy_helper

import dnnl_graph_ops as dgo
from dnnl_graph_ops import dtypes
from dnnl_graph_ops.frontends.reading.stages import SEQUENCE, UNKNOWN, StagedNet

from .hostile_models import branches, call, function, limit_memory, model, whole

# seconds of work, and of the clock, for one case; the system ends the process after them
WORK, PATIENCE = 5, 60
# models whose tensors are larger are read, not run
SMALL = 1 << 16
# what a size that only a call knows is there
OPEN = 6
INTEGERS = [0, 1, -1, 2, 3, 7, 11, 64, 255, 2**16, 2**31 - 1, -(2**31), 2**31, 2**40, 2**62, 2**63 - 1, -(2**63)]
FLOATS = [0.0, -0.0, 1.0, -1.0, 0.5, 1e30, 1e-30, float("inf"), float("-inf"), float("nan")]
NAMES = ("name", "input", "output", "op_type", "domain", "node", "graph", "initializer")
STRINGS = [
    "",
    "x",
    "y",
    "t0",
    "f",
    "ai.onnx",
    "com.example",
    "\0",
    "SAME_UPPER",
    "linear",
    "Relu",
    "If",
    "F0",
    "é" * 300,
]


def node(kind, inputs, outputs, **attrs):
    """A node with names in one string; - is an input that is left out."""
    return helper.make_node(kind, ["" if name == "-" else name for name in inputs.split()], outputs.split(), **attrs)


def originals():
    """Good models that meet every file of the reader."""
    rng = np.random.default_rng(1)

    def noise(*shape):
        return rng.standard_normal(shape).astype(np.float32)

    yield model(
        [
            node("ConvTranspose", "x w b", "t0", strides=[2, 2], pads=[1, 1, 1, 1], group=2, output_padding=[1, 0]),
            node("BatchNormalization", "t0 g b v g", "t1"),
            node("LeakyRelu", "t1", "t2", alpha=0.2),
            node("Conv", "t2 k", "y", auto_pad="SAME_UPPER", dilations=[1, 2]),
        ],
        {"w": noise(4, 3, 3, 3), "b": noise(6), "g": abs(noise(6)), "v": noise(6), "k": noise(2, 6, 3, 2)},
        shape=(1, 4, 5, 4),
    )
    yield model(
        [
            node("QuantizeLinear", "x s z", "t0"),
            node("DequantizeLinear", "t0 s z", "t1"),
            node("DequantizeLinear", "w ws wz", "t2", axis=1),
            node("DequantizeLinear", "b bs", "t3", axis=0),
            node("ConvTranspose", "t1 t2 t3", "y", strides=[2]),
        ],
        {
            "s": np.float32([0.1]), "z": np.uint8(120), "w": rng.integers(-9, 9, (3, 2, 2)).astype(np.int8),
            "ws": abs(noise(2)), "wz": np.zeros(2, np.int8), "b": np.int32([5, 6]), "bs": abs(noise(2)),
        },
        shape=(1, 3, 6),
    )  # fmt: skip
    yield model(
        [
            node("Shape", "x", "s", start=0, end=3),
            node("Gather", "s first", "t0", axis=0),
            node("Unsqueeze", "t0 axes", "t1"),
            node("Mul", "t1 two", "t2"),
            node("Div", "t2 two", "t3"),
            node("Concat", "t3 rest", "t4", axis=0),
            node("Reshape", "x t4", "t5"),
            node("Range", "first last one", "r"),
            node("Cast", "r", "rf", to=1),
            node("ConstantOfShape", "t1", "c", value=numpy_helper.from_array(np.float32([2]))),
            node("Expand", "c wide", "e"),
            node("Slice", "e axes one1 axes one1", "sl"),
            node("Max", "sl rf sl", "m"),
            node("Where", "yes m m", "q"),
            node("Equal", "two two", "eq"),
            node("ReduceProd", "wide", "p", keepdims=0),
            node("Squeeze", "two axes", "sq"),
            node("Transpose", "e", "tr", perm=[1, 0]),
            node("Add", "t5 q", "y"),
        ],
        {
            "first": whole(0)[0], "last": whole(2)[0], "one": whole(1)[0], "one1": whole(1), "axes": whole(0),
            "two": whole(2), "rest": whole(-1, 2), "wide": whole(12, 2), "yes": np.array([True]),
        },
        shape=(2, 3, 4),
    )  # fmt: skip
    slope = node("LeakyRelu", "a", "b")
    slope.attribute.append(AttributeProto(name="alpha", ref_attr_name="s", type=AttributeProto.FLOAT))
    yield model(
        [call("F0", "x", "t0", s=0.5), call("F1", "t0", "t1"), call("F2", "t1", "y")],
        functions=[
            function("F0", slope, attributes=["s"]),
            function("F1", call("F0", "a", "m", s=0.25), call("F0", "m", "b")),
            function("F2", call("F1", "a", "m"), node("Add", "m a", "b")),
            function("F3", branches("F1")),
        ],
    )
    yield model(
        [
            node("Resize", "x - scales", "t0", mode="linear"),
            node("MaxPool", "t0", "t1", kernel_shape=[3, 2], strides=[2, 2], ceil_mode=1, pads=[1, 0, 1, 0]),
            node("AveragePool", "t1", "t2", kernel_shape=[2, 2], count_include_pad=1),
            node("InstanceNormalization", "t2 s b", "t3"),
            node("GroupNormalization", "t3 s2 b2", "t4", num_groups=2),
            node("PRelu", "t4 slope", "t5"),
            node("LayerNormalization", "t5 ln", "t6", axis=-1),
            node("GlobalAveragePool", "t6", "t7"),
            node("Flatten", "t7", "t8"),
            node("Gemm", "t8 w c", "t9", transB=1, alpha=0.5),
            node("Softmax", "t9", "y", axis=-1),
        ],
        {
            "scales": np.float32([1, 1, 2, 2]), "s": noise(4), "b": noise(4), "s2": noise(2), "b2": noise(2),
            "slope": noise(4, 1, 1), "ln": noise(4), "w": noise(3, 4), "c": noise(3),
        },
        shape=(1, 4, 6, 5),
    )  # fmt: skip
    yield model(
        [
            node("Slice", "x from to axes by", "t0"),
            node("Pad", "t0 pads - axes", "t1", mode="reflect"),
            node("Split", "t1 sizes", "t2 t3", axis=1),
            node("Gather", "t2 places", "t4", axis=1),
            node("Tile", "t4 times", "t5"),
            node("Expand", "t5 wide", "t6"),
            node("Erf", "t6", "t7"),
            node("Greater", "t7 half", "t8"),
            node("Where", "t8 t7 t6", "t9"),
            node("Einsum", "t9 w", "t10", equation="bij,jk->bik"),
            node("Sin", "t10", "y"),
        ],
        {
            "from": whole(0, -1), "to": whole(4, -9), "axes": whole(1, 2), "by": whole(1, -1),
            "pads": whole(1, 0, 1, 2), "sizes": whole(3, 2), "places": whole(0, 2, 1, -1), "times": whole(1, 1, 1),
            "wide": whole(2, 4, 6),
            "half": np.float32(0.5), "w": noise(6, 3),
        },
        shape=(2, 3, 4),
    )  # fmt: skip
    yield model(
        [
            node("Clip", "x low high", "t0"),
            node("Pow", "t0 two", "t1"),
            node("ReduceMean", "x axes", "t2", keepdims=1),
            node("ReduceLogSumExp", "x axes", "t3"),
            node("Sub", "t1 t2", "t4"),
            node("Sum", "t4 t3 x", "t5"),
            node("MatMul", "t5 w", "t6"),
            node("Transpose", "t6", "t7", perm=[1, 0]),
            node("Concat", "t7 t7", "t8", axis=1),
            node("Cast", "t8", "t9", to=10),
            node("Dropout", "t9", "t10"),
            node("Identity", "t10", "y"),
        ],
        {"low": np.float32(-1), "high": np.float32(1), "two": np.float32(2), "axes": whole(1), "w": noise(3, 5)},
    )
    yield model(
        [
            node("Shape", "x", "s"),
            node("Gather", "s last", "w"),
            node("Gather", "s third", "h"),
            node("Mod", "w four", "m"),
            node("Sub", "four m", "r"),
            node("Concat", "zeros m r", "p", axis=0),
            node("Pad", "x p", "t0"),
            node("Mul", "s two", "d"),
            node("Slice", "d from to", "hw"),
            node("Slice", "s to0 from", "nc"),
            node("Concat", "nc hw", "sizes", axis=0),
            node("Resize", "x - - sizes", "t1", mode="nearest"),
            node("Concat", "nc minus", "flat", axis=0),
            node("Reshape", "x flat", "t2"),
            node("DepthToSpace", "t1", "t3", blocksize=2),
            node("Range", "first h0 one", "range"),
            node("Squeeze", "h", "h0"),
            node("Cast", "range", "f", to=1),
            node("Unsqueeze", "f minus", "g"),
            node("ConstantOfShape", "s", "c"),
            node("Expand", "g s", "e"),
            node("Sum", "x c e", "t4"),
            node("Split", "t4", "a b", axis=3),
            node("Tile", "b times", "t5"),
            node("MaxPool", "t5", "t6", kernel_shape=[2, 2], strides=[5, 5], ceil_mode=1),
            node("Softmax", "t6", "y", axis=-1),
        ],
        {
            "last": whole(3), "third": whole(2), "four": whole(4), "zeros": whole(0, 0, 0, 0, 0, 0),
            "two": whole(1, 1, 2, 2),
            "from": whole(2), "to": whole(4), "to0": whole(0), "minus": whole(-1), "first": whole(0)[0],
            "one": whole(1)[0], "times": whole(1, 1, 2, 1),
        },
        outputs=("y", "t0", "t2", "t3"),
        shape=(None, 4, None, "w"),
    )  # fmt: skip


def fields(message, found):
    """Every field that is set in the message and below: (message, descriptor)."""
    stack = [message]
    while stack:
        item = stack.pop()
        for descriptor, value in item.ListFields():
            found.append((item, descriptor))
            if descriptor.message_type is not None:
                stack += [value] if hasattr(value, "ListFields") else list(value)
    return found


def items(places, like):
    """What all repeated fields of the same kind of message hold."""
    lists = (getattr(message, found.name) for message, found in places if found.message_type == like.message_type)
    return [item for each in lists if hasattr(each, "extend") for item in each]


def one(rng, choices):
    return choices[int(rng.integers(0, len(choices)))]


def odd(rng, descriptor):
    """A value that the field can hold."""
    kind = descriptor.cpp_type
    if kind in (descriptor.CPPTYPE_INT32, descriptor.CPPTYPE_ENUM):
        return one(rng, [item for item in INTEGERS if -(2**31) <= item < 2**31])
    if kind == descriptor.CPPTYPE_INT64:
        return one(rng, INTEGERS)
    if kind == descriptor.CPPTYPE_UINT64:
        return abs(one(rng, INTEGERS))
    if kind in (descriptor.CPPTYPE_FLOAT, descriptor.CPPTYPE_DOUBLE):
        return one(rng, FLOATS)
    if descriptor.type == descriptor.TYPE_BYTES:
        return rng.bytes(int(rng.integers(0, 70)))
    return one(rng, STRINGS)


def change(rng, proto):
    """One fault: a value, a part that is gone, doubled, moved or taken from elsewhere."""
    places = fields(proto, [])
    # a wrong name is refused before anything else is looked at
    deep = [place for place in places if place[1].name not in NAMES]
    message, descriptor = one(rng, deep if rng.random() < 0.8 else places)
    name, value = descriptor.name, getattr(message, descriptor.name)
    what = rng.random()
    if hasattr(value, "extend"):
        if not len(value):
            return
        at = int(rng.integers(0, len(value)))
        if what < 0.25:
            del value[at]
        elif what < 0.45:
            value.extend([value[at]] * int(one(rng, [1, 2, 30])))
        elif descriptor.message_type is None:
            value[at] = odd(rng, descriptor)
        else:
            # a copy first: it may lie within the message that it replaces
            value[at].CopyFrom(copy.deepcopy(one(rng, items(places, descriptor))))
    elif descriptor.message_type is not None:
        if what < 0.3:
            message.ClearField(name)
    elif what < 0.15:
        message.ClearField(name)
    elif what < 0.5 and descriptor.cpp_type == descriptor.CPPTYPE_STRING:
        same = [getattr(other, d.name) for other, d in places if d.type == descriptor.type]
        setattr(message, name, one(rng, [item for item in same if isinstance(item, type(value))]))
    else:
        setattr(message, name, odd(rng, descriptor))


def mutated(rng, content):
    """The content with one to three faults."""
    count = int(rng.integers(1, 4))
    if rng.random() < 0.3:
        damaged = bytearray(content[: int(rng.integers(1, len(content)))] if rng.random() < 0.2 else content)
        for _ in range(count):
            if not damaged:
                break
            at, other = (int(rng.integers(len(damaged))) for _ in range(2))
            length = int(rng.integers(1, 9))
            kind = rng.random()
            if kind < 0.5:
                damaged[at] = int(rng.integers(256))
            elif kind < 0.7:
                damaged[at : at + length] = damaged[other : other + length]
            elif kind < 0.85:
                damaged[at:at] = rng.bytes(length)
            else:
                del damaged[at : at + length]
        return bytes(damaged)
    proto = ModelProto.FromString(content)
    for _ in range(count):
        try:
            change(rng, proto)
        except (ValueError, TypeError, UnicodeDecodeError, DecodeError):
            # the field cannot hold it
            continue
    return proto.SerializeToString()


def given(value):
    """For an input of any kind."""
    if value.dtype == SEQUENCE:
        return []
    shape = () if value.shape == UNKNOWN else [OPEN if dim is None else dim for dim in value.shape]
    return np.ones(shape, dtypes.numpy_dtype(value.dtype) if value.dtype in dtypes.CODES else value.dtype)


def attempt(content):
    """Whether the model was refused: the package's errors, and a lack of memory."""
    try:
        graph = dgo.from_onnx(content)
        values = [*graph.inputs, *graph.constants, *(value for item in graph.nodes for value in item.outputs)]
        if any(np.prod([dim or 1 for dim in value.shape], dtype=float) > SMALL for value in values):
            return False
        net = graph.compile()
        if isinstance(net, StagedNet):
            net.run({value.name: given(value) for value in net.inputs})
            return False
        shapes = [tuple(OPEN if dim is None else dim for dim in value.shape) for value in net.inputs]
        if any(np.prod(value.shape, dtype=float) > SMALL for value in net._infer(shapes).values()):
            return False
        pairs = zip(net.inputs, shapes, strict=True)
        net.run({value.name: np.ones(shape, dtypes.numpy_dtype(value.dtype)) for value, shape in pairs})
        return False
    except (dgo.Error, MemoryError):
        return True


def main(seed, start, stop):
    contents = [proto.SerializeToString() for proto in originals()]
    for content in contents:
        assert not attempt(content), "a model without a fault"
    limit_memory()
    refused = 0
    for number in range(start, stop):
        print(f"CASE {number}", flush=True)
        rng = np.random.default_rng([seed, number])
        content = mutated(rng, contents[number % len(contents)])
        signal.setitimer(signal.ITIMER_PROF, WORK)
        signal.alarm(PATIENCE)
        try:
            refused += attempt(content)
        except Exception:
            print(f"FAILURE {number}: {traceback.format_exc()[-1500:]!r}")
    signal.setitimer(signal.ITIMER_PROF, 0)
    signal.alarm(0)
    print(f"DONE {stop - start}, {refused} refused")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
