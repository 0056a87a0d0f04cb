"""Messages of what newcomers get wrong name the op, the argument, the values and the remedy, and print no array."""

import re
import warnings
from pathlib import Path

import numpy as np
import pytest
from children import child
from mistakes import MISTAKES

import dnnl_graph_ops as dgo
from dnnl_graph_ops.runtime.settings import VARIABLES

# the ways of Python: a wrong type, a name or a key that is not there, a file that cannot be read
KINDS = (dgo.Error, TypeError, AttributeError, KeyError, OSError)


def world(folder):
    """The names that the mistakes use."""
    graph = dgo.Graph(name="first")
    x = graph.input("x", (1, 4, 4, 3))

    def net():
        own = dgo.Graph()
        return own.compile(dgo.ops.relu(own.input("x", (1, 4, 4, 3)), name="act"))

    def conv():
        own = dgo.Graph()
        return own.compile(dgo.ops.convolution(own.input("x", (1, 4, 4, 3)), np.ones((2, 2, 3, 5), np.float32)))

    class Image:
        def __init__(self, pixels):
            self.__array_interface__ = pixels.__array_interface__

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
        "conv": conv,
        "Image": Image,
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
    assert len({code for code, *_ in MISTAKES}) == len(MISTAKES) == 278


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


def test_enumerators_by_name_are_told_too():
    with pytest.raises(KeyError, match=r"op\.attr has no enumerator 'stride'; did you mean 'strides'"):
        dgo.graph_api.op.attr["stride"]


def test_an_op_with_a_taken_id_is_told_the_other():
    api = dgo.graph_api
    a, b, c = (api.logical_tensor(i, api.logical_tensor.f32, [1, 2], api.logical_tensor.strided) for i in range(3))
    graph = api.graph(api.engine.kind.cpu)
    graph.add_op(api.op(7, api.op.kind.ReLU, [a], [b], "first"))
    with pytest.raises(
        dgo.InvalidArgumentError, match=r"op 7 \(Exp 'second'\): the id is that of op 7 \(ReLU 'first'\)"
    ):
        graph.add_op(api.op(7, api.op.kind.Exp, [b], [c], "second"))


def test_a_net_has_a_docstring_where_it_is_called():
    assert dgo.Net.__call__.__doc__.startswith("Runs the net on arrays, and returns an array")
    net = world(None)["net"]()
    assert type(net.__call__).__name__ == "method-wrapper"


@pytest.mark.parametrize("word", ["NOTSET", "explicit"])
def test_onnx_and_openvino_names_of_explicit_pads(word):
    x, w = np.ones((1, 4, 4, 3), np.float32), np.ones((2, 2, 5, 3), np.float32)
    assert np.array_equal(dgo.conv_transpose(x, w, pads_end=1, auto_pad=word), dgo.conv_transpose(x, w, pads_end=1))


@pytest.mark.parametrize("words", [{"padding": "same"}, {"padding": "SAME"}, {"auto_pad": "same"}])
@pytest.mark.parametrize("strides", [1, 2])
def test_same_is_of_keras(words, strides):
    own = world(None)
    for function, weights in ((dgo.convolution, own["V"]), (dgo.conv_transpose, own["W"])):
        x = np.arange(48, dtype=np.float32).reshape(1, 4, 4, 3)
        expected = function(x, weights, strides=strides, auto_pad="same_upper")
        np.testing.assert_array_equal(function(x, weights, strides=strides, **words), expected)
        assert expected.shape[1] == (4 * strides if function is dgo.conv_transpose else 4 // strides)


def test_pads_may_be_pairs_as_of_jax():
    own = world(None)
    expected = dgo.convolution(own["X"], own["V"], pads_begin=(1, 0), pads_end=(1, 2))
    for pairs in (((1, 1), (0, 2)), [[1, 1], [0, 2]]):
        np.testing.assert_array_equal(dgo.convolution(own["X"], own["V"], padding=pairs), expected)
    assert dgo.convolution_output_shape((1, 4, 4, 3), (2, 2, 3, 5), padding=((1, 1), (0, 2))) == expected.shape


@pytest.mark.child
def test_variables_without_effect_are_told_once():
    code = "import dnnl_graph_ops; import dnnl_graph_ops"
    done = child(
        "-c",
        code,
        DNNL_GRAPH_OPS_ALGORITM="fast",
        DNNL_GRAPH_OPS_DUMP="yes",
        DNNL_GRAPH_OPS_THREADS="4",
        OMP_NUM_THREADS="four",
    )
    assert done.stderr.count("DNNL_GRAPH_OPS_ALGORITM has no effect") == 1
    assert "did you mean 'DNNL_GRAPH_OPS_ALGORITHM'" in done.stderr
    assert "DNNL_GRAPH_OPS_DUMP has no effect: it must be passes, got 'yes'" in done.stderr
    assert "DNNL_GRAPH_OPS_THREADS has no effect" in done.stderr
    assert "the number of threads is OMP_NUM_THREADS" in done.stderr
    assert "OMP_NUM_THREADS has no effect: it must be a number, got 'four'" in done.stderr


def test_settings_of_the_page_are_known():
    page = (Path(__file__).parents[1] / "docs" / "howto" / "settings.md").read_text("utf-8")
    assert set(re.findall(r"^\| `DNNL_GRAPH_OPS_(\w+)`", page, re.M)) <= set(VARIABLES)


@pytest.mark.child
def test_an_extension_of_another_python_is_told(tmp_path):
    package = tmp_path / "dnnl_graph_ops"
    package.mkdir()
    for name in ("__init__.py", "_openmp.py"):
        (package / name).write_bytes((Path(dgo.__file__).parent / name).read_bytes())
    (package / "_core.cpython-299-x86_64-linux-gnu.so").touch()
    code = f"import sys; sys.path.insert(0, {str(tmp_path)!r}); import dnnl_graph_ops"
    done = child("-S", "-c", code)
    assert "was built for another interpreter (_core.cpython-299-x86_64-linux-gnu.so)" in done.stderr
    assert "circular" not in done.stderr.splitlines()[-1]


def test_arrays_on_the_left_of_values_are_operands():
    graph = dgo.Graph()
    x, array = graph.input("x", (2, 2)), np.float32([[1, -2], [3, 5]])
    bias = array
    bias += x
    outputs = {"sum": bias, "left": array - x, "part": array / x, "product": array @ x, "scaled": np.float32(2) * x}
    given = np.float32([[2, 4], [-1, 8]])
    results = graph.compile({**outputs, "larger": array >= x}).run({"x": given})
    expected = array + given, array - given, array / given, array @ given, 2 * given, array >= given
    for result, wanted in zip(results.values(), expected, strict=True):
        np.testing.assert_array_equal(result, wanted)
    assert (array == x) is False and (array != x) is True
    with pytest.raises(TypeError, match="greater_equal"):
        array > x  # noqa: B015
