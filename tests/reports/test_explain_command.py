"""`python -m dnnl_graph_ops explain`, and `dgo.supported` against what a net really does."""

import json
import xml.etree.ElementTree as ET

import numpy as np
import pytest
from children import child

import dnnl_graph_ops as dgo
from dnnl_graph_ops import schema
from dnnl_graph_ops.__main__ import main


@pytest.fixture
def file(tmp_path):
    graph = dgo.Graph()
    weights = graph.input("w", (2, 2, 4, 8))
    up = dgo.ops.conv_transpose(graph.input("x", (1, 4, 4, 8)), weights, strides=2, name="up")
    dgo.ops.relu(up, name="last")
    path = tmp_path / "graph.json"
    path.write_text(graph.to_json())
    return path


def test_explain(file, capsys):
    assert main(["explain", str(file), "--svg", str(file.with_suffix(".svg")), "--profile", "--rewrites"]) == 0
    printed = capsys.readouterr().out
    assert "fuse_post_ops" in printed
    assert "ConvTranspose + ReLU" in printed and " ms in " in printed and "%" in printed
    assert ET.parse(file.with_suffix(".svg")).getroot().tag.endswith("svg")


def test_explain_says_before_it_starts_that_the_drawing_cannot_be_written(file, capsys):
    assert main(["explain", str(file), "--svg", "/nonexistent/x.svg"]) == 1
    printed = capsys.readouterr()
    assert printed.out == ""
    assert "/nonexistent/x.svg: cannot be written (no directory /nonexistent)" in printed.err


@pytest.fixture
def open_file(tmp_path):
    onnx = pytest.importorskip("onnx", reason="needs the extra 'onnx'")
    shape = [onnx.helper.make_tensor_value_info(name, 1, ("n", 3)) for name in "xy"]
    node = onnx.helper.make_node("Tanh", ["x"], ["y"])
    path = tmp_path / "model.onnx"
    made = onnx.helper.make_model(onnx.helper.make_graph([node], "g", shape[:1], shape[1:]))
    path.write_bytes(made.SerializeToString())
    return path


def test_explain_of_open_sizes(open_file, capsys):
    assert main(["explain", str(open_file), "--profile"]) == 1
    assert "input 'x' has the shape ?,3; pass the unknown sizes by --shape x=1,3" in capsys.readouterr().err
    assert main(["explain", str(open_file), "--profile", "--shape", "x=5,3"]) == 0
    printed = capsys.readouterr().out
    assert "Tanh" in printed and "5x3" in printed and " ms in " in printed


@pytest.mark.parametrize(
    ("word", "said"),
    [
        ("y=5,3", "--shape y=5,3: no input 'y'; there are x"),
        ("x=5;3", "--shape x=5;3: expected x=SIZE,SIZE..."),
        ("x=5,4", "--shape x=5,4: input 'x' has the shape ?,3, got 5,4"),
        ("3", "--shape 3: input 'x' has the shape ?,3, got 3; with a batch of one it is 1,3"),
    ],
)
def test_explain_of_wrong_sizes(open_file, word, said, capsys):
    assert main(["explain", str(open_file), "--shape", word]) == 1
    assert said in capsys.readouterr().err


@pytest.mark.child
def test_explain_as_a_process(file):
    done = child("-m", "dnnl_graph_ops", "explain", str(file), "--tune", "off")
    assert done.returncode == 0, done.stderr
    assert "tune=off" in done.stdout


def test_explain_of_onnx(tmp_path, capsys):
    onnx = pytest.importorskip("onnx", reason="needs the extra 'onnx'")
    shape = [onnx.helper.make_tensor_value_info(name, 1, (2, 3)) for name in "xy"]
    node = onnx.helper.make_node("Tanh", ["x"], ["y"])
    made = onnx.helper.make_model(onnx.helper.make_graph([node], "g", shape[:1], shape[1:]))
    path = tmp_path / "model.onnx"
    path.write_bytes(made.SerializeToString())
    assert main(["explain", str(path)]) == 0
    assert "Tanh" in capsys.readouterr().out


def test_explain_of_onnx_that_loads_in_part(tmp_path, capsys):
    """What would run each node, and all that is missing, in one message; of what loads also what each part becomes."""
    onnx = pytest.importorskip("onnx", reason="needs the extra 'onnx'")
    make, info = onnx.helper.make_node, onnx.helper.make_tensor_value_info
    good = [
        make("Relu", ["x"], ["a"]),
        make("Identity", ["a"], ["b"]),
        make("Hardmax", ["b"], ["c"]),
        make("Binarizer", ["c"], ["d"], domain="ai.onnx.ml"),
        make("Constant", [], ["k"], value_float=2.0),
        make("Add", ["d", "k"], ["y"]),
        make("NonZero", ["y"], ["z"]),
        make("Shape", ["x"], ["s"]),
    ]
    bad = [
        make("Odd", ["c"], ["e"], name="odd"),
        make("Relu", ["e"], ["f"]),
        make("Even", ["f"], ["g"], name="even", domain="com.x"),
    ]
    domains = [onnx.helper.make_opsetid(*pair) for pair in (("", 20), ("ai.onnx.ml", 1), ("com.x", 1))]

    def explained(nodes, outputs):
        graph = onnx.helper.make_graph(
            nodes, "g", [info("x", 1, ("n", 3))], [onnx.ValueInfoProto(name=name) for name in outputs]
        )
        path = tmp_path / "model.onnx"
        path.write_bytes(onnx.helper.make_model(graph, opset_imports=domains, ir_version=10).SerializeToString())
        status = main(["explain", str(path)])
        return status, capsys.readouterr().out

    status, printed = explained(good, ["y", "z", "s"])
    rows = {" ".join(line.split()) for line in printed.splitlines()}
    assert status == 0 and "tune=heuristic" in printed and "missing" not in printed
    assert rows >= {
        "ONNX model of 8 nodes",
        "ops of a graph 3 Relu 1, Identity 1, Add 1",
        "known when the model is read 1 Constant 1",
        "built of sizes, at the first call of each shape 1 Shape 1",
        "NumPy, on the host 2 Hardmax 1, NonZero 1",
        "onnx.reference, on the host: slow 1 ai.onnx.ml.Binarizer 1",
    }
    status, printed = explained([*good, *bad], ["y", "g"])
    rows = {" ".join(line.split()) for line in printed.splitlines()}
    assert status == 1 and "tune=" not in printed
    assert rows >= {"unknown, after what is missing 1 Relu 1", "nothing 2 Odd 1, com.x.Even 1", "missing:"}
    assert "'odd' (Odd): no op for Odd" in printed and "'even' (Even): no op for com.x.Even" in printed


def test_a_partition_tells_its_steps(file):
    graph = dgo.Graph.from_json(file)
    (last,) = graph.outputs.values()
    net = graph.compile({"up": dgo.ops.pow(last, beta=1.5), "x": graph.inputs[1]}, tune="off")
    first, second = net.explain().to_dict()["partitions"]
    assert (first["ops"], second["ops"][0][:3]) == (("up", "last"), "pow")
    assert first["implementation"] and first["formulation"] == "literal"
    assert any("1x8x8x4" in layout for layout in first["layouts"])
    # what pow reads lies in scratch, what it writes is a result
    assert (first["scratch_bytes"] >= 4 * 8 * 8 * 4, second["scratch_bytes"]) == (True, 0)
    arrays = [np.ones(value.shape, np.float32) for value in net.inputs]
    times = net.profile(*arrays, repeat=2)
    assert [step.ops[:1] for step in times] == [first["ops"][:1], second["ops"][:1], ()]


@pytest.mark.parametrize("content", [None, "{", "[]", json.dumps({"graph": []})])
def test_what_is_no_graph_is_one_line(tmp_path, capsys, content):
    path = tmp_path / "graph.json"
    if content is not None:
        path.write_text(content)
    assert main(["explain", str(path)]) == 1
    error = capsys.readouterr().err
    assert error.startswith("error: ") and error.count("\n") == 1


# builder, arguments of a use
USES = {
    "relu": {},
    "softmax": {"axis": 1},
    "static_reshape": {"shape": [6, 4], "special_zero": False},
    "static_transpose": {"order": [1, 0, 2]},
    "pow": {"beta": 1.5},
    "layer_norm": {"use_affine": False, "keep_stats": False},
    "reciprocal": {},
}
FORMULATIONS = {
    "native": {"natively", "in f32"},
    "builtin kernel": {"on the host"},
    "NumPy": {"on the host"},
    # in f32 whatever the library has
    "builtin element-wise": {"natively", "in f32", "on the host"},
}


@pytest.mark.parametrize("dtype", ["f32", "bf16", "f16"])
@pytest.mark.parametrize("name", USES)
def test_supported_agrees_with_the_net(name, dtype):
    graph = dgo.Graph()
    made = getattr(dgo.ops, name)(graph.input("x", (2, 3, 4), dtype), **USES[name])
    (part,) = graph.compile(made[0] if isinstance(made, tuple) else made).explain().partitions
    answer = dgo.supported(name, dtype=dtype)
    assert answer and answer.reason
    if part.formulation == "native" and schema.availability(
        answer.op, [part.compute_dtype], dgo.engine("cpu").runtime.version_info
    ):
        # an equal op stands in
        assert answer.how == "on the host"
    else:
        assert answer.how in FORMULATIONS[part.formulation]
    if answer.how != "on the host" and part.formulation != "builtin element-wise":
        assert (answer.how == "in f32") == (part.compute_dtype != dtype)


@pytest.mark.parametrize("kind", schema.OPS)
def test_supported_answers_for_every_kind(kind):
    for dtype in ("f32", "s8", "boolean"):
        answer = dgo.supported(kind, dtype=dtype)
        assert bool(answer) == bool(answer.how)
        assert answer.reason and kind in str(answer)
    assert dgo.supported(schema.OPS[kind].builder, dtype="f32").op == kind


def test_reasons():
    no = dgo.supported(dgo.ops.relu, dtype="s8")
    assert not no and "f32" in no.reason and "s8" in no.reason
    assert dgo.supported("quantize", dtype="s8") and dgo.supported("dequantize", dtype=np.uint8)
    assert not dgo.supported("concat", dtype="boolean")
    assert dgo.supported("relu", engine="cpu").engine == dgo.supported("relu", engine=dgo.engine("cpu")).engine


def test_wrong_questions():
    with pytest.raises(dgo.InvalidArgumentError, match="no op 'rleu'"):
        dgo.supported("rleu")
    with pytest.raises(dgo.InvalidArgumentError):
        dgo.supported("relu", dtype="f33")
    for wrong in ({"op": 3}, {"op": "relu", "engine": 3}):
        with pytest.raises(TypeError):
            dgo.supported(**wrong)
