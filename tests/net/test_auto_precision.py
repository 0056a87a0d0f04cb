"""precision="auto": narrow where an error on samples allows it, f32 elsewhere, and said."""

import pickle

import numpy as np
import pytest
from bindings.emulated import needs_emulated_sets
from children import child

import dnnl_graph_ops as dgo
from dnnl_graph_ops import ops
from dnnl_graph_ops.passes import mixed_precision as precision

pytestmark = pytest.mark.choice

NARROW = ("bf16", "f16")
PAD = {"pads_begin": 1, "pads_end": 1}


@pytest.fixture
def everything(monkeypatch):
    """All products that may be narrow are: what pays depends on the machine."""
    monkeypatch.setattr(precision, "_gain", lambda node, dtype, env: (1.0, ""))
    monkeypatch.setattr(precision, "multiplied", lambda env: ("bf16",))


def fine_and_cancelling(rng, unknown=False):
    """Two layers of positive terms, and beside them one whose terms cancel, so that rounded operands tell little."""
    graph = dgo.Graph()
    x = graph.input("x", (None if unknown else 1, 8, 8, 16))
    weights = rng.uniform(0.5, 1, (3, 3, 16, 16)).astype(np.float32)
    first = ops.relu(ops.convolution(x, weights, name="first", **PAD))
    fine = ops.convolution(first, weights, name="second", **PAD)
    signs = np.where(np.arange(16) % 2, -1, 1).astype(np.float32).reshape(1, 1, 16, 1)
    cancelling = ops.convolution(x, np.broadcast_to(signs, (3, 3, 16, 16)).copy(), name="third", **PAD)
    return graph, {"fine": fine, "cancelling": cancelling}


def samples(rng, batches=(1, 1)):
    return [1 + rng.uniform(0, 1e-2, (n, 8, 8, 16)).astype(np.float32) for n in batches]


def relative(found, wanted):
    return {name: float(np.abs(found[name] - wanted[name]).max() / np.abs(wanted[name]).max()) for name in wanted}


def narrow_of(net):
    return {op.name for op in net.precision_report.ops if op.dtype != "f32"}


def test_what_costs_more_than_the_bound_is_put_back(rng, everything):
    graph, outputs = fine_and_cancelling(rng)
    data = samples(rng)
    net = graph.compile(outputs, precision="auto", samples=data, max_error=0.02)
    report = net.precision_report
    assert (report.dtype, report.max_error) == ("bf16", 0.02)
    assert narrow_of(net) == {"first", "second"} == set(net._narrow())
    alone = {op.name: op.error for op in report.ops}
    assert alone["third"] > 0.02 > alone["first"] > 0
    worst = [relative(net.run({"x": x}), graph.compile(outputs).run({"x": x})) for x in data]
    assert 0 < max(one["fine"] for one in worst) < 0.02
    assert all(one["cancelling"] == 0 for one in worst)
    fine = next(one for one in report.errors if one.name == "fine")
    assert fine.relative_error == pytest.approx(max(one["fine"] for one in worst), rel=0.02)
    for text in ("bf16 in 2 of 3 products", "third: f32, alone it costs"):
        assert text in str(report)
    assert report.summary in str(net.explain())
    assert net.explain().to_dict()["chosen"] == report.summary


def test_all_of_it_where_the_bound_allows(rng, everything):
    graph, outputs = fine_and_cancelling(rng)
    net = graph.compile(outputs, precision="auto", samples=samples(rng), max_error=10)
    assert narrow_of(net) == {"first", "second", "third"}
    # what one op costs was no question
    assert all(op.error is None for op in net.precision_report.ops)


def test_none_of_it_where_none_is_allowed(rng, everything):
    graph, outputs = fine_and_cancelling(rng)
    data = samples(rng)
    net = graph.compile(outputs, precision="auto", samples=data, max_error=0)
    assert net.precision_report.dtype == "f32"
    assert "the error exceeds 0" in net.precision_report.summary
    assert not narrow_of(net)
    assert {op.name for op in net.precision_report.ops} == {"first", "second", "third"}
    wanted = graph.compile(outputs).run({"x": data[0]})
    assert set(relative(net.run({"x": data[0]}), wanted).values()) == {0}


def test_the_type_that_gains_more_is_chosen(rng, monkeypatch):
    """In f16 what exceeds 65504 is an Inf; bf16 has few bits."""
    gains = {"bf16": 1.0, "f16": 2.0}
    monkeypatch.setattr(precision, "_gain", lambda node, dtype, env: (gains[dtype], ""))
    monkeypatch.setattr(precision, "multiplied", lambda env: NARROW)
    graph, outputs = fine_and_cancelling(rng)
    choose = {"precision": "auto", "max_error": 0.02}
    small = graph.compile(outputs, samples=samples(rng), **choose)
    assert small.precision_report.dtype == "f16"
    assert {"first", "second"} <= narrow_of(small)
    large = graph.compile(outputs, samples=[1e5 * x for x in samples(rng)], **choose)
    assert large.precision_report.dtype == "bf16"


def test_without_native_products_nothing_is_measured(rng, monkeypatch):
    monkeypatch.setattr(precision, "multiplied", lambda env: ())
    graph, outputs = fine_and_cancelling(rng, unknown=True)
    net = graph.compile(outputs, precision="auto", samples=samples(rng))
    assert net.plan_count() == 0
    assert net._options.precision == "f32"
    net(samples(rng)[0])
    assert "precision='auto': f32: this CPU does not multiply bf16 or f16" in str(net.explain())


def test_an_fpmath_mode_is_obeyed(rng, everything):
    graph, outputs = fine_and_cancelling(rng)
    graph.fpmath_mode = "any"
    net = graph.compile(outputs, precision="auto", samples=samples(rng))
    assert "fpmath_mode is 'any'" in net.precision_report.summary
    assert net._options.precision == "f32"


def test_open_dims_pickles_and_files(rng, everything, tmp_path):
    graph, outputs = fine_and_cancelling(rng, unknown=True)
    data = samples(rng, batches=(2, 3))
    net = graph.compile(outputs, precision="auto", samples=data, max_error=0.02)
    assert narrow_of(net) == {"first", "second"}
    loaded = pickle.loads(pickle.dumps(net))
    assert loaded.precision_report == net.precision_report
    net.save(tmp_path / "net")
    from_file = dgo.load(tmp_path / "net")
    from_file.run({"x": data[0]})
    assert "not in bf16: third: it costs more than max_error allows" in str(from_file.explain())
    for other in (loaded, from_file):
        for x in (*data, *samples(rng, batches=(5,))):
            for name, array in other.run({"x": x}).items():
                # plans that follow from those of another size may have other algorithms
                np.testing.assert_allclose(array, net.run({"x": x})[name], rtol=0, atol=2e-5)


def test_models_that_are_cut(rng, everything):
    onnx = pytest.importorskip("onnx", reason="needs the extra 'onnx'")
    from onnx import TensorProto, helper, numpy_helper

    weights = {"a": rng.uniform(0.5, 1, (64, 64)), "b": np.where(np.arange(64)[:, None] % 2, -1, 1) * np.ones((64, 64))}
    nodes = [
        helper.make_node("MatMul", ["x", "a"], ["y"], name="product_a"),
        helper.make_node("NonZero", ["y"], ["places"]),
        helper.make_node("Transpose", ["places"], ["turned"]),
        helper.make_node("GatherND", ["y", "turned"], ["some"]),
        helper.make_node("ReduceSum", ["some"], ["sum"], keepdims=0),
        helper.make_node("MatMul", ["x", "b"], ["z"], name="product_b"),
    ]
    value = helper.make_tensor_value_info
    inside = helper.make_graph(
        nodes,
        "cut",
        [value("x", TensorProto.FLOAT, (8, 64))],
        [
            value("sum", TensorProto.FLOAT, None),
            value("z", TensorProto.FLOAT, (8, 64)),
            value("turned", TensorProto.INT64, None),
        ],
        [numpy_helper.from_array(array.astype(np.float32), name) for name, array in weights.items()],
    )
    model = onnx.helper.make_model(inside, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)
    data = [1 + rng.uniform(0, 1e-3, (8, 64)).astype(np.float32) for _ in range(2)]
    net = dgo.from_onnx(model).compile(precision="auto", samples=data)
    assert sorted(op.dtype for op in net.precision_report.ops) == ["bf16", "f32"]
    assert net.precision_report.summary in str(net.explain())
    wanted = dgo.from_onnx(model).compile()(data[0])
    np.testing.assert_allclose(net(data[0])[0], wanted[0], rtol=1e-2)
    np.testing.assert_array_equal(net(data[0])[1], wanted[1])


@pytest.mark.parametrize(
    ("choices", "expected", "said"),
    [
        ({"precision": "auto"}, dgo.InvalidArgumentError, "samples=\\[x"),
        ({"precision": "auto", "samples": []}, dgo.InvalidArgumentError, "at least one sample"),
        ({"precision": "auto", "samples": 5}, TypeError, "'samples'"),
        (
            {"precision": "auto", "samples": np.ones((1, 8, 8, 16), np.float32)},
            dgo.InvalidArgumentError,
            "list of samples",
        ),
        ({"precision": "auto", "samples": [np.ones((1, 8, 8, 15), np.float32)]}, dgo.ShapeError, "x"),
        ({"precision": "auto", "samples": [np.ones((1, 8, 8, 16))]}, dgo.InvalidArgumentError, "float64"),
        ({"precision": "auto", "samples": [{"y": 1}]}, TypeError, "no input 'y'"),
        ({"precision": "auto", "samples": [], "max_error": "1%"}, TypeError, "max_error"),
        ({"precision": "auto", "samples": [], "max_error": -1}, dgo.InvalidArgumentError, "max_error"),
        ({"precision": "auto", "samples": [], "max_error": float("nan")}, dgo.InvalidArgumentError, "max_error"),
        ({"precision": "bf16", "max_error": 0.1}, dgo.InvalidArgumentError, "precision='auto'"),
        ({"samples": []}, dgo.InvalidArgumentError, "precision='auto'"),
        ({"precision": "auto", "samples": [], "tune": "off"}, dgo.InvalidArgumentError, "precision"),
    ],
)
def test_wrong_choices(rng, choices, expected, said):
    graph, outputs = fine_and_cancelling(rng)
    with pytest.raises(expected, match=said):
        graph.compile(outputs, **choices)


EMULATED = """
import numpy as np, dnnl_graph_ops as dgo
from dnnl_graph_ops import ops
from dnnl_graph_ops.passes import mixed_precision as precision
from dnnl_graph_ops.algorithms import lower
ranked = lower.ranked
lower.ranked = lambda *about: sorted(ranked(*about), key=lambda item: item[0].name != "builtin bf16")
precision._gain = lambda node, dtype, env: (1.0, "")
precision.multiplied = lambda env: ("bf16",)
rng = np.random.default_rng(0)
graph = dgo.Graph()
weights = rng.uniform(0.5, 1, (4, 4, 16, 16)).astype(np.float32)
y = ops.conv_transpose(graph.input("x", (1, 8, 8, 16)), weights, strides=2, weights_format="XOI", name="up")
x = rng.uniform(0, 1, (1, 8, 8, 16)).astype(np.float32)
net = graph.compile(y, precision="auto", samples=[x], max_error=0.02, tune="heuristic")
assert "builtin bf16" in str(net.explain()), net.explain()
assert [op.dtype for op in net.precision_report.ops] == ["bf16"]
"""


@needs_emulated_sets
@pytest.mark.child
def test_with_the_emulated_set():
    done = child("-c", EMULATED, DNNL_GRAPH_OPS_NARROW="emulated")
    assert done.returncode == 0, done.stderr
