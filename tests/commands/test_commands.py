"""`run`, `convert`, `diff` and `benchmark` on files of models, and what they say of inputs and shapes."""

import csv
import json

import numpy as np
import pytest

import dnnl_graph_ops as dgo
from dnnl_graph_ops.__main__ import main

onnx = pytest.importorskip("onnx", reason="needs the extra 'onnx'")
FLOAT = onnx.TensorProto.FLOAT
rng = np.random.default_rng(0)
WEIGHTS = rng.integers(-2, 3, (4, 3, 3, 3)).astype(np.float32)
MORE = rng.integers(-2, 3, (5, 4, 1, 1)).astype(np.float32)


def write(path, more=MORE, batch=1):
    """Two convolutions and two outputs, the first of a ReLU in between."""
    make, info = onnx.helper.make_node, onnx.helper.make_tensor_value_info
    nodes = [
        make("Conv", ["image", "w"], ["first"], pads=[1, 1, 1, 1]),
        make("Relu", ["first"], ["between"]),
        make("Conv", ["between", "v"], ["second"]),
    ]
    held = [onnx.numpy_helper.from_array(array, name) for array, name in ((WEIGHTS, "w"), (more, "v"))]
    outputs = [info("between", FLOAT, [batch, 4, 6, 6]), info("second", FLOAT, [batch, 5, 6, 6])]
    graph = onnx.helper.make_graph(nodes, "g", [info("image", FLOAT, [batch, 3, 6, 6])], outputs, held)
    onnx.save(onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 17)], ir_version=9), path)
    return str(path)


@pytest.fixture
def model(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return write(tmp_path / "m.onnx")


@pytest.fixture
def image():
    return rng.integers(-3, 4, (1, 3, 6, 6)).astype(np.float32)


@pytest.mark.parametrize("word", ["x.npy", "image=x.npy", "x.npz", "image=x.npz"])
def test_run_writes_the_results_of_a_call(word, model, image, capsys):
    np.save("x.npy", image)
    np.savez("x.npz", image=image)
    assert main(["run", model, "--input", word, "--output", "y.npz"]) == 0
    printed = capsys.readouterr().out
    assert "second   float32  1,5,6,6" in printed and "written to y.npz" in printed
    want = dgo.from_onnx(model).compile().run({"image": image})
    with np.load("y.npz") as got:
        assert got.files == ["between", "second"]
        for name in got.files:
            np.testing.assert_array_equal(got[name], want[name])


def test_run_on_random_numbers(model, capsys):
    assert main(["run", model, "--random"]) == 0
    first = capsys.readouterr().out
    assert main(["run", model, "--random"]) == 0
    assert capsys.readouterr().out == first and "between" in first


def test_files_of_doubles_are_taken(model, image, capsys):
    np.save("x.npy", image.astype(np.float64))
    assert main(["run", model, "--input", "x.npy"]) == 0


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ((), "input 'image' (f32, 1,3,6,6) has no array; pass --input image=FILE, or --random for random numbers"),
        (("--input", "small.npy"), "--input small.npy: input 'image' has the shape 1,3,6,6, got 1,3,5,6"),
        (("--input", "flat.npy"), "has the shape 1,3,6,6, got 3,6,6; with a batch of one it is 1,3,6,6"),
        (
            ("--input", "imag=flat.npy"),
            "--input imag=flat.npy: no input 'imag'; there are image; did you mean 'image'?",
        ),
        (("--input", "text.npy"), "--input text.npy: no array of NumPy"),
        (("--input", "words.npy"), "input 'image' is f32, and the file has <U1"),
        (("--input", "absent.npy"), "absent.npy"),
        (("--random", "--output", "y.npy"), "y.npy: an .npy file holds one array, and the model has between, second"),
        (("--random", "--output", "y.txt"), "y.txt: end the name in .npz, or in .npy for a single result"),
        (("--random", "--output", "absent/y.npz"), "absent/y.npz: cannot be written (no directory absent)"),
        (
            ("--random", "--shape", "3,6,6"),
            "--shape 3,6,6: input 'image' has the shape 1,3,6,6, got 3,6,6; with a batch",
        ),
    ],
)
def test_inputs_that_do_not_fit(words, said, model, image, capsys):
    np.save("small.npy", image[:, :, :5])
    np.save("flat.npy", image[0])
    np.save("words.npy", np.full((1, 3, 6, 6), "a"))
    with open("text.npy", "w") as file:
        file.write("hello")
    assert main(["run", model, *words]) == 1
    assert said in capsys.readouterr().err


@pytest.mark.parametrize("name", ["absent.onnx", "absent.net", "absent.json"])
def test_files_that_are_not_there(name, model, capsys):
    assert main(["run", name, "--random"]) == 1
    assert "No such file" in capsys.readouterr().err


def test_files_of_other_kinds(model, capsys):
    assert main(["run", "model.h5"]) == 1
    assert "model.h5: the end '.h5' is of no model here; pass an ONNX model (.onnx)" in capsys.readouterr().err


def test_nets_are_known_by_their_first_bytes(model, capsys):
    dgo.from_onnx(model).compile().save("vocoder.dgo")
    assert main(["run", "vocoder.dgo", "--random"]) == 0
    assert "second" in capsys.readouterr().out
    assert main(["bench", "--model", "vocoder.dgo"]) == 2
    assert "dnnl-graph-ops benchmark vocoder.dgo measures it alone" in capsys.readouterr().err


def test_files_of_pytorch_without_a_program(model, capsys):
    with open("m.pth", "w") as file:
        file.write("hello")
    assert main(["run", "m.pth"]) == 1
    assert "dgo.from_torch(torch.export.export(model.eval(), inputs))" in capsys.readouterr().err
    assert main(["bench", "--model", "m.pth"]) == 2
    assert "dgo.from_torch(torch.export.export(model.eval(), inputs))" in capsys.readouterr().err


def test_a_trace_of_a_model(model, capsys):
    assert main(["explain", model, "--trace", "t.json"]) == 0
    assert "traced in t.json" in capsys.readouterr().out
    with open("t.json") as file:
        events = json.load(file)["traceEvents"]
    assert {"first", "second"} <= {word for event in events for word in event["name"].split()}
    assert main(["explain", model, "--trace", "t.txt"]) == 1
    assert "t.txt: a trace is JSON; end the name in .json" in capsys.readouterr().err


def test_names_of_dtypes_are_taken(model, capsys):
    assert main(["run", model, "--random", "--precision", "bfloat16"]) == 0
    with pytest.raises(SystemExit):
        main(["run", model, "--random", "--precision", "int8"])
    assert "'int8' (choose from" in capsys.readouterr().err


def test_a_converted_net_gives_equal_results(model, image, capsys):
    assert main(["convert", model, "-o", "m.net"]) == 0
    assert "m.net: " in (printed := capsys.readouterr().out) and "image f32 1,3,6,6" in printed
    np.testing.assert_array_equal(dgo.load("m.net")(image)[1], dgo.from_onnx(model).compile()(image)[1])
    assert main(["run", "m.net", "--random"]) == 0
    assert main(["explain", "m.net"]) == 0
    assert "Convolution" in capsys.readouterr().out
    assert main(["convert", model, "-o", "m.onnx"]) == 1
    assert "end the name in .net" in capsys.readouterr().err


def test_a_net_of_open_sizes_is_packed_for_a_shape(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    model = write(tmp_path / "open.onnx", batch="n")
    assert main(["convert", model, "-o", "m.net"]) == 1
    assert "pass the unknown sizes by --shape image=1,3,6,6" in capsys.readouterr().err
    assert main(["convert", model, "-o", "m.net", "--shape", "image=2,3,6,6"]) == 0
    assert dgo.load("m.net")(np.ones((3, 3, 6, 6), np.float32))[1].shape == (3, 5, 6, 6)


def test_diff_finds_a_planted_wrong_layer(model, tmp_path, capsys):
    wrong = MORE.copy()
    wrong[1, 2] += 1
    other = write(tmp_path / "wrong.onnx", wrong)
    assert main(["diff", model, model]) == 0
    assert "no layer of 3 differs" in capsys.readouterr().out
    assert main(["diff", model, other]) == 1
    assert "first layer that differs: second: max error" in capsys.readouterr().out
    assert main(["diff", model, other, "--json"]) == 1
    record = json.loads(capsys.readouterr().out)
    assert record["differs"] and record["first_layer"]["name"] == "second" and record["layers_compared"] == 3
    errors = {one["name"]: one["max_abs_error"] for one in record["outputs"]}
    assert errors["between"] == 0 and errors["second"] > 0
    assert main(["diff", model, other, "--tolerance", "9"]) == 0


def test_diff_of_a_net_and_of_an_option(model, capsys):
    assert main(["convert", model, "-o", "m.net"]) == 0
    assert main(["diff", model, "m.net"]) == 0
    assert main(["diff", model, "--algorithm", "direct"]) == 0
    capsys.readouterr()
    assert main(["diff", model]) == 1
    assert "diff: pass a second model, or --precision" in capsys.readouterr().err


def test_diff_of_models_with_other_inputs(model, tmp_path, capsys):
    graph = dgo.Graph()
    dgo.ops.relu(graph.input("0", (1, 2)), name="y")
    (tmp_path / "other.json").write_text(graph.to_json())
    assert main(["diff", model, "other.json"]) == 1
    assert "the inputs are image in the first model" in capsys.readouterr().err


def test_benchmark_prints_and_writes_its_figures(model, capsys):
    words = ["benchmark", model, "--seconds", "0.05", "--warm-up", "0", "--json", "b.json", "--csv", "b.csv"]
    assert main(words) == 0
    assert "latency, ms: 50 % " in (printed := capsys.readouterr().out) and "calls a second" in printed
    with open("b.json") as file:
        record = json.load(file)
    assert record["shapes"] == "image=1,3,6,6" and record["samples"] >= 25
    order = [record[f"{name}_s"] for name in ("minimum", "p50", "p90", "p95", "p99", "maximum")]
    assert order == sorted(order) and record["throughput"] == pytest.approx(1 / record["mean_s"])
    with open("b.csv") as file:
        (row,) = csv.DictReader(file)
    assert float(row["p50_s"]) == record["p50_s"]
    assert main([*words[:6], "--json", "-"]) == 0
    assert json.loads(capsys.readouterr().out)["model"] == model


def test_benchmark_refuses_what_no_clock_measures(model, capsys):
    assert main(["benchmark", model, "--seconds", "-1"]) == 1
    assert "--seconds -1: must be from 0 to 1,000,000" in capsys.readouterr().err


def test_explain_as_json(model, capsys):
    assert main(["explain", model, "--json", "--profile"]) == 0
    record = json.loads(capsys.readouterr().out)
    assert record["explanation"]["groups"] and sum(step["share"] for step in record["profile"]) == pytest.approx(1)
    assert sum(len(group["ops"]) for group in record["explanation"]["groups"]) == 3


@pytest.mark.slow
def test_programs_of_pytorch(tmp_path, monkeypatch, capsys):
    torch = pytest.importorskip("torch", reason="needs the extra 'torch'")
    monkeypatch.chdir(tmp_path)
    module = torch.nn.Sequential(torch.nn.Conv2d(3, 4, 3), torch.nn.ReLU()).eval()
    torch.export.save(torch.export.export(module, (torch.ones(1, 3, 6, 6),)), "m.pt2")
    assert main(["convert", "m.pt2", "-o", "m.net"]) == 0
    assert main(["explain", "m.pt2"]) == 0
    assert main(["diff", "m.pt2", "m.net"]) == 0
    assert "no layer of" in capsys.readouterr().out
