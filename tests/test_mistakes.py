"""Messages of what newcomers get wrong name the op, the argument, the values and the remedy, and print no array."""

import warnings

import numpy as np
import pytest
from mistakes import MISTAKES

import dnnl_graph_ops as dgo

# the ways of Python: a wrong type, a name that is not there, a file that cannot be read
KINDS = (dgo.Error, TypeError, AttributeError, OSError)


def world(folder):
    """The names that the mistakes use."""
    graph = dgo.Graph(name="first")
    x = graph.input("x", (1, 4, 4, 3))

    def net():
        own = dgo.Graph()
        return own.compile(dgo.ops.relu(own.input("x", (1, 4, 4, 3)), name="act"))

    def onnx_file(op):
        onnx = pytest.importorskip("onnx", reason="needs the extra 'onnx'")
        kind = onnx.TensorProto.FLOAT
        tensors = [onnx.helper.make_tensor_value_info(name, kind, [1, 3, 4, 4]) for name in "xy"]
        node = onnx.helper.make_node(op, ["x"], ["y"], name="n")
        model = onnx.helper.make_model(
            onnx.helper.make_graph([node], "m", tensors[:1], tensors[1:]),
            opset_imports=[onnx.helper.make_opsetid("", 17)],
        )
        onnx.save(model, folder / "model.onnx")
        return folder / "model.onnx"

    return {
        "dgo": dgo,
        "np": np,
        "X": np.ones((1, 4, 4, 3), np.float32),
        "W": np.ones((2, 2, 5, 3), np.float32),
        "V": np.ones((2, 2, 3, 5), np.float32),
        "Y": np.ones((3, 5, 2, 2), np.float32),
        "g": graph,
        "x": x,
        "y": dgo.ops.relu(x),
        "h": dgo.Graph().input("z", (1, 4, 4, 3)),
        "net": net,
        "onnx_file": onnx_file,
        "write": lambda name: (folder / name).write_text("hello"),
    }


def said_of(code, folder):
    """The message of a mistake; an AssertionError where none of the family is raised, or it prints elements."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        try:
            exec(code, world(folder))
        except KINDS as error:
            said = str(error)
        else:
            raise AssertionError("nothing is raised")
    assert "array([" not in said, said
    assert "[[" not in said, said
    assert len(said) < 600, said
    return said


def lacks(row, folder):
    code, *words = row
    said = said_of(code, folder)
    return [word for word in words if word not in said], said


@pytest.mark.parametrize("row", MISTAKES, ids=lambda row: row[0])
def test_a_mistake_is_told_with_its_remedy(row, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    # other tests import it
    monkeypatch.delattr(dgo, "torch", raising=False)
    missing, said = lacks(row, tmp_path)
    assert not missing, said


def test_each_mistake_is_another_one():
    assert len({code for code, *_ in MISTAKES}) == len(MISTAKES) == 120


@pytest.mark.parametrize(
    ("code", "said"),
    [
        ("dgo.Graph(fpmath='bf16')", "Graph: has no argument 'fpmath'; did you mean 'fpmath_mode'?"),
        ("g.input('a', (2,), dtpye='f32')", "Graph.input: has no argument 'dtpye'; did you mean 'dtype'?"),
        (
            "dgo.quantize.calibrate(g, [], progres=print)",
            "calibrate: has no argument 'progres'; did you mean 'progress'?",
        ),
        ("g.complie(y)", "'Graph' object has no attribute 'complie'; did you mean 'compile'?"),
    ],
)
def test_keywords_and_methods_that_are_not_there(code, said, tmp_path):
    assert said_of(code, tmp_path) == said


def test_nothing_private_is_suggested():
    net = world(None)["net"]()
    for name in ("_latests", "__array_interface__"):
        with pytest.raises(AttributeError, match=f"no attribute '{name}'$"):
            getattr(net, name)
    assert not hasattr(net, "latest")
