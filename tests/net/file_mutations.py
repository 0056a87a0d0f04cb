"""Damaged files of saved nets: bytes changed, and headers that hold together but lie. Run as a child process.

python -m net.file_mutations SEED START STOP
"""

import json
import sys
import tempfile
import traceback
import warnings
import zlib
from pathlib import Path

import numpy as np
from graph.mutations import spoil

import dnnl_graph_ops as dgo
from dnnl_graph_ops import dtypes, ops
from dnnl_graph_ops.graph import constants
from dnnl_graph_ops.graph.array_file import _START, ArrayFile
from dnnl_graph_ops.ops.records import rebuilt

# nets above this are loaded, not run
SMALL = 1 << 20


def nets():
    """Nets that have every part of a file: strided tensors, unknown dims, several outputs, engines, families, int8."""
    graph = dgo.Graph(dgo.engine("cpu"), name="up")
    x = graph.input("x", (None, 4, 4, 3))
    up = ops.conv_transpose(x, graph.constant(np.ones((2, 2, 5, 3), np.float32)), np.arange(5, dtype="f4"), strides=2)
    yield graph.compile({"up": up, "half": ops.type_cast(ops.relu(up), dtype="bf16")})
    graph = dgo.Graph(fpmath_mode="any")
    x = graph.input("x", (1, 3, 6, 6), strides=(200, 1, 30, 4))
    weights = ops.dequantize(
        graph.constant(np.ones((4, 3, 3, 3), np.int8)), scales=[0.5] * 4, qtype="per_channel", axis=0
    )
    q = ops.dequantize(ops.quantize(x, scales=[0.1], zps=[3], dtype="u8"), scales=[0.1], zps=[3])
    y = ops.convolution(q, weights, data_format="NCX", weights_format="OIX", pads_begin=1, pads_end=1)
    pooled = ops.max_pool(y, strides=2, kernel=2, pads_begin=0, pads_end=0, data_format="NCX")
    yield graph.compile([pooled, ops.softmax(pooled, axis=1)], tune="off")
    graph = dgo.Graph()
    x, table = graph.input("x", (2, 8)), graph.constant(np.arange(24, dtype=np.float32).reshape(6, 4))
    chosen = ops.gather(table, graph.constant(np.array([0, 5, 3, -1], np.int32)), axis=0)
    flat = ops.concat(chosen, chosen, ops.clamp(chosen, min=-np.inf, max=2.0), axis=1)
    joined = ops.matmul(ops.slice(x, starts=[0, 1], ends=[2, 5], axes=[0, 1]), flat)
    less = ops.select(
        graph.constant(np.array([[True, False] * 6])), joined, ops.reduce_mean(joined, axes=[1], keep_dims=True)
    )
    yield graph.compile(less, policy="debug")
    graph = dgo.Graph()
    x = graph.input("x", (1, 16, 4, 4))
    weights = graph.constant(np.arange(64, dtype=np.float32).reshape(16, 1, 2, 2))
    y = ops.convolution(x, weights, groups=16, data_format="NCX", weights_format="OIX")
    y = ops.relu(y * np.arange(1, 17, dtype=np.float32).reshape(1, 16, 1, 1))
    yield graph.compile(y)
    yield from nets_of_sizes()


def nets_of_sizes():
    """One of an ONNX model that computes with sizes of the call, where its reader is here."""
    try:
        from onnx import helper
    except ImportError:
        return
    from frontends.hostile_models import model, whole

    nodes = [
        helper.make_node("Shape", ["x"], ["s"]),
        helper.make_node("Gather", ["s", "first"], ["n"]),
        helper.make_node("ConstantOfShape", ["s"], ["c"]),
        helper.make_node("Add", ["c", "b"], ["d"]),
        helper.make_node("Concat", ["x", "d"], ["t"], axis=0),
        helper.make_node("Concat", ["n", "two"], ["u"], axis=0),
        helper.make_node("Tile", ["t", "u"], ["v"]),
        helper.make_node("Sub", ["s", "one"], ["m"]),
        helper.make_node("Slice", ["x", "m", "s"], ["z"]),
        helper.make_node("Split", ["v"], ["y", "w"], axis=0),
    ]
    constants = {"first": whole(0), "one": whole(1), "two": whole(2), "b": np.float32([1, 2, 3])}
    yield dgo.from_onnx(model(nodes, constants, outputs=("y", "z", "d"), shape=(None, 3))).compile()
    from frontends import test_onnx_stages as cut

    for made in (cut.selected(), cut.looped(None), cut.strings()):
        yield dgo.from_onnx(made).compile()


def run(net, unknown=2):
    """On ones; whether it is small enough for that."""
    if not hasattr(net, "_nodes"):
        return True
    shapes = [tuple(unknown if size is None else size for size in value.shape) for value in net.inputs]
    if sum(np.prod(shape, dtype=float) for shape in shapes) > SMALL:
        return False
    values = net._infer(shapes).values()
    if sum(np.prod(value.shape, dtype=float) for value in values) > SMALL:
        return False
    net(*(np.ones(shape, dtypes.numpy_dtype(value.dtype)) for shape, value in zip(shapes, net.inputs, strict=True)))
    return True


def pack_all() -> None:
    """From now on, the packings of small constants are in files, too, as those of large ones."""
    constants._FEW_BYTES = 16


def originals() -> list[bytes]:
    found = []
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "net"
        for net in nets():
            for unknown in (2, 3):
                run(net, unknown)
            net.save(path)
            found.append(path.read_bytes())
    return found


def header_of(data: bytes) -> dict:
    *_, offset, length = _START.unpack_from(data)
    return json.loads(data[offset : offset + length])


def with_header(data: bytes, header: object) -> bytes:
    """The file with another header and its checksum."""
    magic, number, _, offset, _ = _START.unpack_from(data)
    text = json.dumps(header).encode()
    return _START.pack(magic, number, zlib.crc32(text), offset, len(text)) + data[_START.size : offset] + text


def changed_bytes(rng: np.random.Generator, data: bytes) -> bytes:
    """A byte, a run, a piece moved or cut: mostly where it counts, at the begin and at the end."""
    made, kind = bytearray(data), rng.random()
    if not data:
        return rng.bytes(40)
    at = int(rng.integers(0, min(_START.size, len(data)) if rng.random() < 0.4 else len(data)))
    if kind < 0.3:
        made[at] ^= 1 << int(rng.integers(8))
    elif kind < 0.5:
        made[at] = int(rng.integers(256))
    elif kind < 0.8:
        del made[at : None if rng.random() < 0.5 else at + int(rng.integers(1, 99))]
    else:
        made[at:at] = rng.bytes(int(rng.integers(1, 99)))
    return bytes(made)


def mutated(rng: np.random.Generator, data: bytes) -> bytes:
    """One to three faults."""
    if rng.random() < 0.25:
        return changed_bytes(rng, data)
    header = header_of(data)
    spoil(rng, header)
    return with_header(data, header)


def hollow(data: bytes) -> bytes:
    """Constants that double in every op: a file of little size that stands for petabytes."""
    header = header_of(data)
    graph = header["graph"]
    value = {"name": "c", "dtype": "f32"}
    first = len(graph["inputs"])
    graph["constants"] = graph["constants"][:1]
    shape = graph["constants"][0]["shape"]
    assert shape
    graph["ops"] = [
        {
            "kind": "Concat",
            "name": f"n{i}",
            "attrs": {"axis": 0},
            "inputs": [first + i] * 2,
            "outputs": [{**value, "name": f"n{i}"}],
        }
        for i in range(50)
    ]
    graph["outputs"] = [["y", first + 50]]
    return with_header(data, header)


def is_small(path: Path) -> bool:
    """Whether the graph of a file may be compiled: it can say what would take the library hours, as programs can."""
    file = ArrayFile(path, "test")
    if isinstance(file.header, dict) and "model" in file.header:
        return True
    graph, _ = rebuilt(file.header.get("graph"), file, None, "test") if isinstance(file.header, dict) else (None, None)
    values = [value for node in graph.nodes for value in node.outputs] if graph else []
    sizes = file.header.get("traced") if graph else []
    far = [n for dims in sizes if isinstance(dims, list) for n in dims] if isinstance(sizes, list) else []
    most = max((n for n in far if type(n) is int), default=1)
    return sum(np.prod([n or most for n in value.shape], dtype=float) for value in values) < SMALL


def attempt(data: bytes, path: Path) -> bool:
    """Whether the file was refused; what it is refused with must be one of the package's errors."""
    path.write_bytes(data)
    try:
        if not is_small(path):
            return False
        run(dgo.load(path))
        return False
    except (dgo.Error, MemoryError):
        return True


def main(seed: int, start: int, stop: int) -> None:
    warnings.simplefilter("ignore")
    pack_all()
    contents = originals()
    refused = 0
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "net"
        for content in contents:
            assert not attempt(content, path), "a file without a fault"
        for number in range(start, stop):
            print(f"CASE {number}", flush=True)
            rng = np.random.default_rng([seed, number])
            content = contents[number % len(contents)]
            try:
                refused += attempt(hollow(contents[0]) if number == 0 else mutated(rng, content), path)
            except Exception:
                print(f"FAILURE {number}: {traceback.format_exc()[-1500:]!r}")
    print(f"DONE {stop - start}, {refused} refused")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
