"""Files that compute sizes from those of a call: against ONNX Runtime, and against the same file of fixed sizes."""

import json
import pickle
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

onnx = pytest.importorskip("onnx", reason="needs the extra 'onnx'")
pytest.importorskip("onnxruntime", reason="the reference")
torch = pytest.importorskip("torch")

from onnx import helper  # noqa: E402

import dnnl_graph_ops as dgo  # noqa: E402
from dnnl_graph_ops.graph import hooks  # noqa: E402

from .hostile_models import model, whole  # noqa: E402
from .models import reference  # noqa: E402
from .sizes_models import MODELS  # noqa: E402


@pytest.fixture(scope="module")
def exported(tmp_path_factory):
    """The file of a module, exported once."""
    files = {}

    def file(name):
        if name not in files:
            build, (shape, *_) = MODELS[name]
            torch.manual_seed(7)
            path = tmp_path_factory.mktemp("sizes") / f"{name}.onnx"
            axes = {axis: f"d{axis}" for axis in range(len(shape)) if axis != 1}
            torch.onnx.export(
                build().eval(),
                torch.randn(shape),
                str(path),
                dynamo=False,
                opset_version=17,
                input_names=["x"],
                dynamic_axes={"x": axes},
            )
            files[name] = path
        return files[name]

    return file


def fixed(proto, shape):
    """The same model for one shape."""
    proto = onnx.ModelProto.FromString(proto.SerializeToString())
    for dim, size in zip(proto.graph.input[0].type.tensor_type.shape.dim, shape, strict=True):
        dim.dim_value = size
    return proto


def groups(net):
    """The ops that run together, in order."""
    return [[(node.kind, node.name) for node in item.nodes] for item, _ in net._latest().lowering.decisions]


def results(net, *arrays):
    found = net(*arrays)
    return found if isinstance(found, tuple) else (found,)


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::torch.jit.TracerWarning", "ignore::UserWarning")
@pytest.mark.parametrize("name", MODELS)
def test_calls_of_several_sizes(name, exported):
    path = exported(name)
    proto, net = onnx.load(path), dgo.from_onnx(str(path)).compile()
    for shape in MODELS[name][1]:
        x = np.random.default_rng(3).standard_normal(shape).astype(np.float32)
        got = results(net, x)
        for array, expected in zip(got, reference(proto, {"x": x}), strict=True):
            np.testing.assert_allclose(array, expected, rtol=1e-4, atol=1e-5)
        alone = dgo.from_onnx(fixed(proto, shape)).compile()
        for array, expected in zip(got, results(alone, x), strict=True):
            np.testing.assert_allclose(array, expected, rtol=1e-4, atol=1e-5)
        assert groups(net) == groups(alone)


@pytest.mark.slow
def test_threads_pickles_and_other_options(exported):
    graph = dgo.from_onnx(str(exported("levels_padded")))
    net = graph.compile()
    rng = np.random.default_rng(5)
    arrays = [rng.standard_normal((1 + i % 2, 3, 8 + i % 5, 9 + i % 3)).astype(np.float32) for i in range(24)]
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(net, arrays))
    again = pickle.loads(pickle.dumps(net))
    for array, result in zip(arrays, found, strict=True):
        np.testing.assert_array_equal(net(array), result)
        np.testing.assert_array_equal(again(array), result)
    for options in ({"tune": "off"}, {"policy": "debug"}):
        np.testing.assert_allclose(graph.compile(**options)(arrays[0]), found[0], rtol=1e-4, atol=1e-5)


def test_pictures_and_files(exported):
    graph = dgo.from_onnx(str(exported("levels_padded")))
    net = graph.compile()
    assert "Pad" in graph.to_dot() and "Pad" in net.to_dot() and net.partitions
    with pytest.raises(dgo.UnsupportedError, match="depends on sizes of the call"):
        graph.to_json()


@pytest.mark.parametrize("name", ["levels_padded", "windows", "places", "halves"])
def test_saved(name, exported, tmp_path):
    net = dgo.from_onnx(str(exported(name))).compile()
    results(net, np.ones(MODELS[name][1][0], np.float32))
    net.save(tmp_path / "net")
    again = dgo.load(tmp_path / "net")
    for shape in MODELS[name][1]:
        x = np.random.default_rng(3).standard_normal(shape).astype(np.float32)
        for array, expected in zip(results(again, x), results(net, x), strict=True):
            np.testing.assert_array_equal(array, expected)


def test_records_that_hold_no_nodes():
    graph = dgo.from_onnx(chain(CHAINS["zeros"]))
    (late,) = (node.late for node in graph.nodes if node.late)
    good = json.loads(json.dumps(late.record(pytest.fail)))
    assert hooks.call("late", good, pytest.fail, "here").record(pytest.fail) == late.record(pytest.fail)
    for change in (
        {"nodes": []},
        {"nodes": [{}]},
        {"inputs": [3]},
        {"arrays": {"a": {"dtype": "object", "shape": [1], "bytes": "00"}}},
        {"arrays": {"a": {"dtype": "int64", "shape": [2], "bytes": "00"}}},
        {"arrays": {"a": {"dtype": "bool", "shape": [1], "bytes": "07"}}},
        {"arrays": {"a": {"dtype": "int64", "shape": [1], "bytes": "xyz"}}},
        {"arrays": []},
    ):
        with pytest.raises(dgo.InvalidArgumentError, match="here"):
            hooks.call("late", {**good, **change}, pytest.fail, "here")


def test_saved_with_a_table(tmp_path):
    """What a node of sizes reads of many numbers is an array of the file, whoever else reads it."""
    table = np.random.default_rng(2).standard_normal((900, 3)).astype(np.float32)
    nodes = [
        op("Gather", "s 0", "n"), op("Range", "0 n 1", "r"), op("Gather", "table r", "e"), op("Add", "x e", "u"),
        op("Add", "r 1", "q"), op("Gather", "table q", "f"), op("Add", "u f", "y"),
    ]  # fmt: skip
    net = dgo.from_onnx(chain(nodes, more={"table": table})).compile()
    rows = [np.random.default_rng(count).standard_normal((count, 3)).astype(np.float32) for count in (4, 1, 6)]
    wanted = [net(x) for x in rows]
    net.save(tmp_path / "net")
    assert (tmp_path / "net").stat().st_size < 1.9 * table.nbytes
    loaded = dgo.load(tmp_path / "net", verify=True)
    for x, result in zip(rows, wanted, strict=True):
        np.testing.assert_array_equal(loaded(x), result)
    loaded.save(tmp_path / "again")
    np.testing.assert_array_equal(dgo.load(tmp_path / "again")(rows[0]), wanted[0])


def test_quantized(exported):
    graph = dgo.from_onnx(str(exported("levels_padded")))
    x = np.random.default_rng(1).standard_normal((1, 3, 17, 22)).astype(np.float32)
    quantized = dgo.quantize.calibrate(graph, [x])
    assert quantized.graph.compile(dict(quantized.outputs))(x).shape == graph.compile()(x).shape


def op(kind, inputs, output, **attrs):
    return helper.make_node(kind, inputs.split(), [output], **attrs)


CHAINS = {
    "number": [op("Gather", "s 0", "n"), op("Cast", "n", "f", to=1), op("Mul", "x f", "y")],
    "zeros": [op("ConstantOfShape", "s", "c"), op("Concat", "x c", "y", axis=1)],
    "range": [
        op("Gather", "s 0", "n"),
        op("Range", "0 n 1", "r"),
        op("Cast", "r", "f", to=1),
        op("Div", "f half", "h"),
        op("Sin", "h", "g"),
        op("Unsqueeze", "g axis", "u"),
        op("Add", "x u", "y"),
    ],
    "last": [op("Sub", "s ones", "m"), op("Slice", "x m s", "y")],
    "from_end": [op("Neg", "s", "m"), op("Slice", "x m s", "y")],
    "expand": [op("Concat", "two s", "u", axis=0), op("Expand", "x u", "y")],
    "tile": [op("Gather", "s axis0", "n"), op("Concat", "n two", "u", axis=0), op("Tile", "x u", "y")],
    "where": [
        op("Max", "s ones", "u"),
        op("Equal", "u s", "v"),
        op("Where", "v s ones", "w"),
        op("Reshape", "x w", "y"),
    ],
    "row": [op("Size", "x", "n"), op("Reshape", "n minus", "m"), op("Reshape", "x m", "y")],
    "halves": [
        op("Unsqueeze", "x axis", "u"),
        op("Concat", "u u", "v", axis=0),
        helper.make_node("Split", ["v"], ["p", "y"]),
    ],
    "columns": [op("Gather", "x places", "y", axis=0)],
    "squeezed": [op("Unsqueeze", "x axis", "u"), op("Squeeze", "u axis", "y")],
    "product": [op("ReduceProd", "s", "n", keepdims=1), op("Reshape", "x n", "y")],
    # which axes there are, or how many, is known at the call only
    "squeezed_all": [op("Unsqueeze", "x axis", "u"), op("Squeeze", "u", "y")],
    "itself": [op("Identity", "s", "t"), op("Cast", "t", "y", to=1)],
}
NUMBERS = {
    "more": np.float32([0, 0, 3, 5]), "kernel": np.ones((3, 2, 3, 3), np.float32),
    "0": np.int64(0), "1": np.int64(1), "half": np.float32(0.5), "axis": whole(1), "axis0": whole(0), "two": whole(2),
    "ones": whole(1, 1), "minus": whole(-1), "places": whole(0, -1), "order": whole(0, 2, 1, 3),
}  # fmt: skip


IMAGES = {
    "einsum": [op("Einsum", "x x", "y", equation="bchw,bcvw->bhv")],
    "scales": [
        op("Cast", "s", "f", to=1),
        op("Add", "f more", "g"),
        op("Div", "g f", "scales"),
        helper.make_node("Resize", ["x", "", "scales"], ["y"], coordinate_transformation_mode="asymmetric"),
    ],
    "up": [op("ConvTranspose", "x kernel", "y", strides=[2, 2], auto_pad="SAME_UPPER")],
    "flat": [op("Transpose", "x", "t", perm=[0, 2, 3, 1]), op("Flatten", "t", "u", axis=3), op("Softmax", "u", "y")],
    "turned": [op("Gather", "s order", "t"), op("Reshape", "x t", "u", allowzero=1), op("Relu", "u", "y")],
    "flat_pair": [op("Flatten", "x", "y", axis=2)],
    "flat_behind": [op("Flatten", "x", "y", axis=-3)],
    "flat_all": [op("Flatten", "x", "y", axis=0)],
    "blocks": [op("SpaceToDepth", "x", "t", blocksize=2), op("DepthToSpace", "t", "y", blocksize=2)],
    "unsqueezed": [op("Unsqueeze", "x two", "t"), op("ReduceMax", "t axis", "y", keepdims=0)],
}


def chain(nodes, shape=(None, 3), more=()):
    used = {name for node in nodes for name in node.input}
    constants = {name: array for name, array in NUMBERS.items() if name in used} | dict(more)
    return model([op("Shape", "x", "s"), *nodes], constants, shape=shape)


@pytest.mark.parametrize("name", CHAINS)
def test_chains(name):
    proto = chain(CHAINS[name])
    net = dgo.from_onnx(proto).compile()
    for count in (4, 1, 6):
        x = np.random.default_rng(count).standard_normal((count, 3)).astype(np.float32)
        (got,) = results(net, x)
        (expected,) = reference(proto, {"x": x})
        assert got.shape == expected.shape
        np.testing.assert_allclose(got, expected, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("name", IMAGES)
def test_images(name):
    proto = chain(IMAGES[name], ("n", 3, "h", "w"))
    net = dgo.from_onnx(proto).compile()
    for shape in ((1, 3, 6, 6), (2, 3, 4, 6), (1, 3, 6, 6)):
        x = np.random.default_rng(1).standard_normal(shape).astype(np.float32)
        (got,) = results(net, x)
        (expected,) = reference(proto, {"x": x})
        assert got.shape == expected.shape
        np.testing.assert_allclose(got, expected, rtol=1e-5, atol=1e-5)


def test_what_sizes_say_is_known_as_the_model_is_read():
    """Channels of a shape that is partly known."""
    nodes = [op("Gather", "s axis0", "n"), op("Concat", "n two axis minus", "u", axis=0), op("Reshape", "x u", "y")]
    (value,) = dgo.from_onnx(chain(nodes, (None, 6))).outputs.values()
    assert value.shape == (None, 2, 1, None)


def test_sizes_that_do_not_fit_are_refused_at_the_call():
    net = dgo.from_onnx(chain([op("Div", "s two", "h"), op("Reshape", "x h", "y")], (None, 4))).compile()
    with pytest.raises(dgo.ShapeError, match="'y'"):
        net(np.ones((3, 4), np.float32))


def test_many_nodes_of_sizes():
    nodes = [op("Gather", "s axis0", "n0"), *(op("Add", f"n{i} n{i}", f"n{i + 1}") for i in range(2000))]
    with pytest.raises(dgo.UnsupportedError, match="more than 1000 nodes"):
        dgo.from_onnx(chain([*nodes, op("Reshape", "x n2000", "y")]))


@pytest.mark.parametrize("kind", ["MaxPool", "AveragePool"])
def test_last_windows_beyond_the_data(kind):
    """ONNX drops them, wherever the sizes of a call put them."""
    rng = np.random.default_rng(2)
    for _ in range(12):
        kernel, strides = ([int(item) for item in rng.integers(1, high, 2)] for high in (4, 5))
        pads = [int(rng.integers(0, taps)) for taps in kernel + kernel]
        node = op(kind, "x", "y", kernel_shape=kernel, strides=strides, pads=pads, ceil_mode=1)
        proto = model([node], shape=("n", 2, "h", "w"))
        net = dgo.from_onnx(proto).compile()
        for _ in range(4):
            x = rng.standard_normal((2, 2, *rng.integers(4, 12, 2))).astype(np.float32)
            print(kernel, strides, pads, x.shape)
            np.testing.assert_allclose(net(x), reference(proto, {"x": x})[0], atol=1e-6)


@pytest.mark.parametrize("places", ["half_pixel", "pytorch_half_pixel", "align_corners", "asymmetric"])
def test_linear_resize_between_any_places(places, seed):
    """Also where Interpolate reads others: sizes that are no multiple, scales whose product is rounded down."""
    rng = np.random.default_rng(seed)
    for _ in range(15):
        shape = (2, 3, *(int(size) for size in rng.integers(1, 9, rng.integers(1, 4))))
        scales = np.float32([1, 1, *rng.choice([0.5, 0.7, 1, 1.5, 2.3, 3], len(shape) - 2)])
        sizes = np.int64([2, 3, *rng.integers(1, 14, len(shape) - 2)])
        if rng.random() < 0.5:
            scales = np.float32([])
        elif any(int(size * scale) < 1 for size, scale in zip(shape, scales, strict=True)):
            continue
        given, inputs = ({"scales": scales}, ["x", "", "scales"]) if scales.size else ({"n": sizes}, ["x", "", "", "n"])
        node = helper.make_node("Resize", inputs, ["y"], mode="linear", coordinate_transformation_mode=places)
        open_ = tuple(None if axis > 1 and rng.random() < 0.7 else size for axis, size in enumerate(shape))
        proto = model([node], given, shape=open_)
        x = rng.standard_normal(shape).astype(np.float32)
        print(shape, open_, given)
        np.testing.assert_allclose(dgo.from_onnx(proto).compile()(x), reference(proto, {"x": x})[0], atol=1e-5)
