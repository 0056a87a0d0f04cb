"""Graph files: what is accepted, what is refused and how, and what is written."""

import json
import os
import pickle

import numpy as np
import pytest

import dnnl_graph_ops as dgo
from dnnl_graph_ops import ops

from .dags import draw


def tensor(identity, shape=(2, 3), dtype="f32", **more):
    strides = [int(np.prod(shape[i + 1 :])) for i in range(len(shape))]
    return {
        "id": identity,
        "dtype": dtype,
        "shape": list(shape),
        "stride": strides,
        "layout_type": "strided",
        "property_type": "undef",
    } | more


def op(identity, kind, inputs, outputs, **attrs):
    return {
        "id": identity,
        "name": f"{kind.lower()}{identity}",
        "kind": kind,
        "attrs": {name: {"type": t, "value": v} for name, (t, v) in attrs.items()},
        "inputs": inputs,
        "outputs": outputs,
    }


def file(*items, **top):
    return {"version": "3.0.0", "engine_kind": "cpu", "fpmath_mode": "strict", **top, "graph": list(items)}


RELU, ABS = op(7, "ReLU", [tensor(0)], [tensor(1)]), op(9, "Abs", [tensor(1)], [tensor(2)])
DECONV = op(
    3,
    "ConvTranspose",
    [tensor(0, (1, 2, 3, 3)), tensor(1, (2, 4, 2, 2))],
    [tensor(2, (1, 4, 6, 6))],
    strides=("s64[]", [2, 2]),
    pads_begin=("s64[]", [0, 0]),
    pads_end=("s64[]", [0, 0]),
    dilations=("s64[]", [1, 1]),
    output_padding=("s64[]", [0] * 12),
    data_format=("string", "NCX"),
    weights_format=("string", "IOX"),
)
X = np.array([[-1, 2, -3], [4, -5, 6]], np.float32)


def test_ops_in_any_order():
    net = dgo.Graph.from_json(file(ABS, RELU)).compile()
    assert (net.input_names, net.output_names) == (("0",), ("2",))
    np.testing.assert_array_equal(net(X), np.maximum(X, 0))


def test_ports_choose_and_order():
    add = op(1, "Subtract", [tensor(0), tensor(5)], [tensor(6)])
    net = dgo.Graph.from_json(file(add, input_ports=[5, 0], output_ports=[6, 0])).compile()
    assert (net.input_names, net.output_names) == (("5", "0"), ("6", "0"))
    difference, same = net(X, X * 3)
    np.testing.assert_array_equal(difference, X * 2)
    np.testing.assert_array_equal(same, X * 3)


def test_end_marks_an_output():
    net = dgo.Graph.from_json(file(RELU, op(8, "End", [tensor(1)], []))).compile()
    np.testing.assert_array_equal(net(X), np.maximum(X, 0))


def test_lists_longer_than_the_rank():
    net = dgo.Graph.from_json(file(DECONV)).compile()
    assert net(np.ones((1, 2, 3, 3), np.float32), np.ones((2, 4, 2, 2), np.float32)).shape == (1, 4, 6, 6)


@pytest.mark.parametrize("version", ["0.1", "2.7.0", "3.99.1-rc", ""])
def test_any_version_string(version):
    assert dgo.Graph.from_json(file(RELU, version=version)).outputs


def test_missing_parts_have_defaults():
    bare = {"id": 0, "kind": "ReLU", "inputs": [{"id": 0, "dtype": "f32", "shape": [2, 3]}]}
    bare["outputs"] = [{"id": 1, "dtype": "f32", "shape": [2, 3]}]
    np.testing.assert_array_equal(dgo.Graph.from_json({"graph": [bare]}).compile()(X), np.maximum(X, 0))


def test_strided_input():
    column = tensor(0, stride=[1, 2])
    graph = dgo.Graph.from_json(file(op(0, "ReLU", [column], [tensor(1)])))
    assert graph.inputs[0].strides == (1, 2)
    np.testing.assert_array_equal(graph.compile()(np.asfortranarray(X)), np.maximum(X, 0))


def test_unknown_dims_are_known_at_the_call():
    shape = [-(2**63), 3]
    loose = op(0, "ReLU", [tensor(0, shape=shape)], [tensor(1, shape=shape)])
    graph = dgo.Graph.from_json(file(loose))
    assert graph.inputs[0].shape == (None, 3)
    np.testing.assert_array_equal(graph.compile()(X), np.maximum(X, 0))


def test_sources(tmp_path):
    path = tmp_path / "graph.json"
    path.write_text(json.dumps(file(RELU)))
    for source in (path, str(path), path.read_text(), path.read_bytes(), file(RELU)):
        assert dgo.Graph.from_json(source).nodes[0].kind == "ReLU"
    with pytest.raises(FileNotFoundError):
        dgo.Graph.from_json(tmp_path / "none.json")
    with pytest.raises(TypeError, match="path"):
        dgo.Graph.from_json(3)


def broken(change):
    data = json.loads(json.dumps(file(RELU, ABS)))
    change(data)
    return data


def put(*path, value):
    def change(data):
        for key in path[:-1]:
            data = data[key]
        data[path[-1]] = value

    return change


REFUSED = [
    (put("graph", 0, "kind", value="BiasAddBackprop"), "BiasAddBackprop"),
    (put("graph", 0, "inputs", 0, "id", value=2), "circle"),
    (put("graph", 1, "outputs", 0, "id", value=1), "made by op 7"),
    (put("graph", 1, "id", value=7), "used twice"),
    (put("graph", 0, "inputs", 0, "dtype", value="f33"), "f33"),
    (put("graph", 0, "inputs", 0, "dtype", value="undef"), "undef"),
    (put("graph", 0, "outputs", 0, "dtype", value="bf16"), "bf16"),
    (put("graph", 0, "inputs", 0, "shape", value=[2**40, 1]), "bytes"),
    (put("graph", 0, "inputs", 0, "shape", value=[-7, 3]), "-7"),
    (put("graph", 0, "inputs", 0, "shape", value=[1] * 13), "13"),
    (put("graph", 0, "inputs", 0, "shape", value="23"), "a list"),
    (put("graph", 0, "inputs", 0, "stride", value=[1]), "'stride' has 1 value,"),
    (put("graph", 0, "attrs", value={"alpha": {"type": "f32", "value": 1.0}}), "alpha"),
    (put("graph", 0, "attrs", value={"axis": 3}), "type and value"),
    (put("graph", 0, "inputs", value=[]), "takes 1 input "),
    (put("graph", 0, "outputs", value=[]), "1 output"),
    (put("graph", value={}), "a list"),
    (put("fpmath_mode", value="fast"), "fast"),
    (put("engine_kind", value="tpu"), "tpu"),
    (put("version", value=3), "a string"),
    (lambda data: data.pop("graph"), "graph"),
]


@pytest.mark.parametrize(("change", "words"), REFUSED, ids=[words for _, words in REFUSED])
def test_faults_are_named(change, words):
    with pytest.raises(dgo.InvalidArgumentError, match=words):
        dgo.Graph.from_json(broken(change))


WARNED = [
    (put("output_ports", value=[77]), "output_ports names tensor 77, which no op has"),
    (put("output_ports", value=[2, 77]), "output_ports names tensor 77, which no op has"),
    (put("output_ports", value=[2, 2]), "output_ports names tensors more than once"),
    (put("input_ports", value=[77]), "input_ports names tensor 77, which no op reads"),
    (put("input_ports", value=[1]), "input_ports names tensor 1, which op 7 makes"),
    (put("input_ports", value=[0, 0, 0]), "input_ports names tensors more than once"),
    (put("graph", 0, "outputs", 0, "shape", value=[2, 4]), r"op 7 states shape \(2, 4\) of tensor 1, .* \(2, 3\)"),
    (put("graph", 1, "inputs", 0, "shape", value=[3, 2]), r"op 9 states shape \(3, 2\) of tensor 1, .* \(2, 3\)"),
]


@pytest.mark.parametrize(("change", "words"), WARNED, ids=[words for _, words in WARNED])
def test_idle_and_contradicted_statements_are_passed_over(change, words):
    data = broken(change)
    with pytest.warns(UserWarning, match=words) as caught:
        graph = dgo.Graph.from_json(data)
    assert [warning.filename for warning in caught] == [__file__]
    assert json.loads(graph.to_json()) == data
    np.testing.assert_array_equal(graph.compile()(X), np.maximum(X, 0))


def test_inputs_of_two_shapes_are_refused():
    data = file(op(0, "ReLU", [tensor(0)], [tensor(1)]), op(1, "Abs", [tensor(0, (3, 2))], [tensor(2, (3, 2))]))
    with pytest.raises(dgo.ShapeError, match=r"tensor 0 has shape \(3, 2\) here and \(2, 3\) elsewhere"):
        dgo.Graph.from_json(data)


@pytest.mark.parametrize("zero_point", [0, 3])
@pytest.mark.parametrize(("weights_format", "shape", "axis"), [("IOX", (4, 3, 2, 2), 1), ("XOI", (2, 2, 3, 4), 2)])
def test_scales_of_all_groups(weights_format, shape, axis, zero_point):
    """Two groups of three out channels: six scales, which no axis of the weights has."""
    scales, groups = [1.0, 2.0, 0.5, 4.0, 0.25, 8.0], 2
    quantized = tensor(1, shape, "s8")
    deconv = op(
        5,
        "ConvTranspose",
        [tensor(0, (1, 4, 3, 3)), tensor(7, shape)],
        [tensor(2, (1, 6, 4, 4))],
        **{
            name: ("s64[]", [n, n])
            for name, n in (("strides", 1), ("pads_begin", 0), ("pads_end", 0), ("dilations", 1))
        },
        groups=("s64", groups),
        data_format=("string", "NCX"),
        weights_format=("string", weights_format),
    )
    attrs = {"scales": ("f32[]", scales), "zps": ("s64[]", [zero_point] * 6), "axis": ("s64", axis)}
    dequantize = op(4, "Dequantize", [quantized], [tensor(7, shape)], qtype=("string", "per_channel"), **attrs)
    data = file(dequantize, deconv)
    graph = dgo.Graph.from_json(data)
    assert json.loads(graph.to_json()) == data
    rng = np.random.default_rng(1)
    src = rng.integers(-4, 5, (1, 4, 3, 3)).astype(np.float32)
    weights = rng.integers(-4, 5, shape).astype(np.int8)
    inner = weights if weights_format == "IOX" else np.moveaxis(weights, (-1, -2), (0, 1))
    factors = np.repeat(np.reshape(scales, (groups, 3)), 2, axis=0)[:, :, None, None]
    true = ((inner.astype(np.float32) - zero_point) * factors).astype(np.float32)
    expected = dgo.conv_transpose(src, true, groups=groups, data_format="NCX", weights_format="IOX")
    values = {"0": src, "1": weights}
    np.testing.assert_array_equal(graph.compile()(*(values[v.name] for v in graph.inputs)), expected)


@pytest.mark.parametrize("text", ["", "{", "[1]", '{"graph": NaN}', '{"a": ' + "9" * 9999 + "}", "[" * 10**6])
def test_no_json(text):
    with pytest.raises(dgo.InvalidArgumentError):
        dgo.Graph.from_json(text)


def test_only_ordinary_files_are_read(tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    for path in (tmp_path, pipe, "/dev/zero"):
        with pytest.raises(dgo.InvalidArgumentError, match="ordinary file"):
            dgo.Graph.from_json(path)


def test_long_lists():
    for length, words in ((10**6, "1000000 items"), (10**5, "twice")):
        attrs = {"axes": ("s64[]", [0] * length)}
        with pytest.raises(dgo.InvalidArgumentError, match=words) as error:
            dgo.Graph.from_json(file(op(0, "ReduceSum", [tensor(0)], [tensor(1)], **attrs)))
        assert len(str(error.value)) < 500


def test_wrong_attribute_type():
    soft = op(0, "SoftMax", [tensor(0)], [tensor(1)], axis=("f32", 1.0))
    with pytest.raises(dgo.InvalidArgumentError, match="'axis' has the type f32, but SoftMax takes s64"):
        dgo.Graph.from_json(file(soft))


def test_what_was_read_is_written_back():
    data = file(ABS, DECONV | {"inputs": [tensor(20, (1, 2, 3, 3)), tensor(21, (2, 4, 2, 2))]}, RELU)
    data["graph"][1]["outputs"] = [tensor(22, (1, 4, 6, 6))]
    assert json.loads(dgo.Graph.from_json(data).to_json()) == data


def test_key_order_and_value_types():
    graph = dgo.Graph()
    x = graph.input("x", (1, 2, 5, 5))
    y = ops.avg_pool(x, kernel=2, strides=1, pads_begin=0, pads_end=0, exclude_pad=True, data_format="NCX")
    ops.leaky_relu(y, alpha=0.5)
    pool, relu = json.loads(graph.to_json())["graph"]
    assert list(pool) == ["id", "name", "kind", "attrs", "inputs", "outputs"]
    assert all(list(attr) == ["type", "value"] for attr in pool["attrs"].values())
    assert pool["attrs"]["exclude_pad"] == {"type": "bool", "value": 1}
    assert pool["attrs"]["exclude_pad"]["value"] is not True
    assert pool["attrs"]["kernel"] == {"type": "s64[]", "value": [2, 2]}
    assert relu["attrs"]["alpha"] == {"type": "f32", "value": 0.5}


def test_what_is_added_to_a_file_follows_it():
    graph = dgo.Graph.from_json(file(RELU))
    graph.outputs["y"] = ops.tanh(graph.outputs["1"])
    again = dgo.Graph.from_json(graph.to_json())
    assert [node.kind for node in again.nodes] == ["ReLU", "Tanh"]
    np.testing.assert_array_equal(again.compile()(X)[1], graph.compile()(X)[1])


def test_pickle_keeps_the_file():
    graph = dgo.Graph.from_json(file(RELU, ABS))
    assert pickle.loads(pickle.dumps(graph)).to_json() == graph.to_json()


@pytest.mark.parametrize("number", range(6))
def test_written_graphs_compute_the_same(seed, number):
    """Constants become inputs in the file: the format has no data."""
    dag = draw(seed, 1000 + number)
    text = dag.graph.to_json()
    again = dgo.Graph.from_json(text)
    assert again.to_json() == text
    ids = {value.name: i for i, value in enumerate([*dag.graph.inputs, *dag.graph.constants])}
    ports = json.loads(text)["input_ports"]
    leaves = [v for v in (*dag.graph.inputs, *dag.graph.constants) if v in _read(dag.graph)]
    assert len(ports) == len(leaves) <= len(ids)
    net = again.compile()
    by_name = {str(i): dag.data[v] for i, v in zip(ports, leaves, strict=True)}
    results = net.run({name: by_name[name] for name in net.input_names})
    unread = [v for n in dag.graph.nodes for v in n.outputs if v not in _read(dag.graph)]
    for value, actual in zip(unread, results.values(), strict=True):
        limit = 2e-4 * max(float(np.abs(dag.data[value]).max(initial=0)), 1)
        np.testing.assert_allclose(actual, dag.data[value], rtol=0, atol=limit)


def _read(graph):
    return {value for node in graph.nodes for value in node.inputs}


@pytest.mark.parametrize("padding", [0, 1])
def test_gradients_of_the_family(padding):
    graph = dgo.Graph()
    diff, x = graph.input("dy", (1, 4, 6, 6)), graph.input("x", (1, 2, 3, 3))
    attrs = {"strides": 2, "pads_end": padding, "output_padding": padding, "data_format": "NCX"}
    ops.conv_transpose_backward_weights(x, diff, (2, 4, 2, 2), **attrs, weights_format="IOX")
    again = dgo.Graph.from_json(graph.to_json())
    rng = np.random.default_rng(padding)
    given, gradient = (rng.integers(-4, 5, v.shape).astype(np.float32) for v in (x, diff))
    direct = graph.compile(graph.nodes[0].outputs[0])(dy=gradient, x=given)
    np.testing.assert_array_equal(again.compile().run({"0": given, "1": gradient})["2"], direct)


def test_unknown_dims_come_back_as_they_were():
    graph = dgo.Graph()
    x = graph.input("x", (None, 6, None, None))
    weights = graph.input("w", (6, 2, None, None))
    y = ops.conv_transpose(x, weights, strides=2, data_format="NCX", weights_format="IOX")
    backward = ops.conv_transpose_backward_weights(x, y, strides=2, data_format="NCX", weights_format="IOX")
    graph.outputs = {"y": y, "backward": backward}
    text = graph.to_json()
    records = [tensor for op in json.loads(text)["graph"] for tensor in (*op["inputs"], *op["outputs"])]
    # benchdnn's DNNL_GRAPH_UNKNOWN_DIM
    assert all(dim == -(2**63) or dim > 0 for tensor in records for dim in tensor["shape"])
    again = dgo.Graph.from_json(text)
    assert [value.shape for value in again.inputs] == [x.shape, weights.shape]
    assert [value.shape for value in again.outputs.values()] == [y.shape, backward.shape]
    assert again.to_json() == text == dgo.Graph.from_json(again.to_json()).to_json()
    arrays = np.ones((2, 6, 3, 4), np.float32), np.ones((6, 2, 3, 2), np.float32)
    for got, expected in zip(again.compile()(*arrays), graph.compile()(*arrays), strict=True):
        np.testing.assert_array_equal(got, expected)
