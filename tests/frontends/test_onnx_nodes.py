"""onnx's own tests of nodes and of models, and the steps of its reference implementation."""

import pickle
from collections import Counter
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import dnnl_graph_ops as dgo

onnx = pytest.importorskip("onnx", reason="needs the extra 'onnx'")
from onnx import TensorProto, helper  # noqa: E402

from .models import model  # noqa: E402
from .node_cases import model_cases, node_cases, ops_of, outcome  # noqa: E402

# a part of the tests, in processes of their own chance; all pass, and so many in a hundred without onnx.reference
CASES = (100, 400, 10_000)
LEAST_OWN = 75
# operators some of whose tests are refused: what not even onnx.reference runs
REFUSED = {"Gradient"}
# those that it runs
BY_REFERENCE = {
    "Adagrad", "Adam", "ArrayFeatureExtractor", "Bernoulli", "Binarizer", "Dropout", "FlexAttention",
    "ImageDecoder", "Momentum", "RandomUniformLike", "StringNormalizer", "TfIdfVectorizer", "TreeEnsemble",
    # what models do not have
    "BitCast", "BlackmanWindow", "CausalConvWithState", "CenterCropPad", "CumProd", "EyeLike",
    "HammingWindow", "HannWindow", "LinearAttention", "LpPool", "MaxUnpool", "MelWeightMatrix",
    "NegativeLogLikelihoodLoss", "Shrink", "SoftmaxCrossEntropyLoss", "SwiGLU",
    "Swish",
    # rare, or of types that no graph takes
    "OptionalGetElement", "RotaryEmbedding", "SpaceToDepth",
    # to and from floats of 8 bits, and types of fewer
    "Cast", "CastLike", "DequantizeLinear", "QuantizeLinear",
}  # fmt: skip


def counts_of(found):
    """By operator: how many tests end which way."""
    rows = {}
    for ops, result in found.values():
        rows.setdefault(ops, Counter())[result.way + " by reference" * result.by_reference] += 1
    return rows


def held(found):
    """None is wrong or ends in an error of somebody else's; only known operators are refused or run by onnx."""
    bad = {name: row for name, row in found.items() if row[1].way in ("wrong", "foreign")}
    assert not bad
    if onnx.__version__.startswith("1.23."):
        refused = {ops for ops, result in found.values() if result.way == "refused"}
        assert all(not REFUSED.isdisjoint(ops.split("+")) for ops in refused), counts_of(found)
        slow = {ops for ops, result in found.values() if result.by_reference}
        # FlexAttention in parts has types that only a Cast of onnx.reference makes
        assert all(not BY_REFERENCE.isdisjoint(ops.split("+")) for ops in slow), counts_of(found)


@pytest.mark.slow
def test_none_is_wrong(rng, amount):
    """Each of those with numbers passes."""
    cases = node_cases()
    assert len(cases) > 1000
    cases = tuple(cases[i] for i in rng.permutation(len(cases))[: amount(*CASES)])
    found = {case.name: (ops_of(case), outcome(case)) for case in cases}
    held(found)
    assert {result.way for _, result in found.values()} == {"passed"}, counts_of(found)
    assert sum(not result.by_reference for _, result in found.values()) * 100 >= LEAST_OWN * len(found), counts_of(
        found
    )


@pytest.mark.parametrize("kind", ["simple", "pytorch-converted", "pytorch-operator"])
def test_no_model_is_wrong(kind):
    """Older ones too: those of PyTorch are of opset 6."""
    cases = model_cases(kind)
    assert len(cases) > 20
    found = {case.name: (ops_of(case), outcome(case)) for case in cases}
    held(found)
    refused = [name for name, (_, result) in found.items() if result.way == "refused"]
    assert all(name.startswith("test_gradient") for name in refused), refused


def x(shape=(2, 5), seed=3):
    return np.random.default_rng(seed).normal(size=shape).astype(np.float32)


def ranked(shape=(2, 5)):
    """The places of the three largest, and the values times 2."""
    nodes = [
        helper.make_node("TopK", ["x", "k"], ["v", "i"]),
        helper.make_node("Mul", ["v", "two"], ["w"]),
    ]
    return model(nodes, {"x": shape}, ["w", "i"], {"k": np.int64([3]), "two": np.float32([2])})


def steps_of(net):
    return {step.step: step for part in net.explain().partitions for step in part.steps}


def check(net, data):
    values, places = net(data)
    order = np.argsort(-data, axis=-1)[:, :3]
    np.testing.assert_array_equal(places, order)
    np.testing.assert_array_equal(values, 2 * np.take_along_axis(data, order, -1))


def test_runs_and_explain_says_what_is_slow():
    net = dgo.from_onnx(ranked()).compile()
    check(net, x())
    assert steps_of(net)["TopK"].implementation.startswith("builtin")
    node = helper.make_node("Binarizer", ["x"], ["y"], threshold=0.25, domain="ai.onnx.ml")
    proto = model([node], {"x": (2, 5)}, ["y"])
    proto.opset_import.append(helper.make_opsetid("ai.onnx.ml", 1))
    net = dgo.from_onnx(proto).compile()
    np.testing.assert_array_equal(net(x()), x() > 0.25)
    (slow,) = steps_of(net).values()
    assert slow.reference and slow.step == "Binarizer (onnx.reference)"
    assert slow.implementation == "onnx.reference"


def test_lp_normalization_by_magnitudes():
    node = helper.make_node("LpNormalization", ["x"], ["y"], p=1)
    net = dgo.from_onnx(model([node], {"x": (2, 5)}, ["y"])).compile()
    np.testing.assert_allclose(net(x()), x() / np.abs(x()).sum(-1, keepdims=True), rtol=1e-6)
    assert not net(np.zeros((2, 5), np.float32)).any()


def test_sizes_of_the_call():
    net = dgo.from_onnx(ranked((None, None))).compile()
    for shape in ((2, 5), (4, 3), (1, 9)):
        check(net, x(shape))


@pytest.mark.parametrize("shape", [(2, 5), (None, None)])
def test_pickled_and_saved(tmp_path, shape):
    net = dgo.from_onnx(ranked(shape)).compile()
    check(pickle.loads(pickle.dumps(net)), x())
    net.save(tmp_path / "net.dgo")
    check(dgo.load(tmp_path / "net.dgo"), x())


def test_several_threads():
    net = dgo.from_onnx(ranked()).compile()
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda seed: check(net, x(seed=seed)), range(40)))


def test_strided_operands_and_results():
    net = dgo.from_onnx(ranked()).compile()
    check(net, x((5, 2)).T)


def test_what_is_known_is_computed_as_the_model_is_read():
    """Types that the package does not have are fine inside."""
    nodes = [
        helper.make_node("Cast", ["c"], ["d"], to=TensorProto.DOUBLE),
        helper.make_node("CumSum", ["d", "axis"], ["s"]),
        helper.make_node("Cast", ["s"], ["f"], to=TensorProto.FLOAT),
        helper.make_node("Add", ["x", "f"], ["y"]),
    ]
    graph = dgo.from_onnx(model(nodes, {"x": (2, 5)}, ["y"], {"c": np.float32([1, 2, 3, 4, 5]), "axis": np.int64(0)}))
    assert [node.kind for node in graph.nodes] == ["Add"]
    np.testing.assert_array_equal(graph.compile()(x()), x() + np.float32([1, 3, 6, 10, 15]))


@pytest.mark.parametrize(
    ("nodes", "constants", "message"),
    [
        ([helper.make_node("CumSum", ["x", "x"], ["y"])], {}, "axis of FLOAT"),
        ([helper.make_node("Mul", ["x", "w"], ["y"])], {"w": np.ones(2)}, "float64"),
        ([helper.make_node("TopK", ["x", "k"], ["y"])], {"k": np.int64([9])}, "infer"),
        ([helper.make_node("Relux", ["x"], ["y"])], {}, "no op for Relux"),
        # onnx itself ends by a signal there, or by an assertion
        ([helper.make_node("GatherND", ["x", "i"], ["y"], batch_dims=-255)], {"i": np.int64([[0]])}, "batch_dims=-255"),
        ([helper.make_node("LSTM", ["x"] * 3, ["y"], hidden_size=["]"])], {}, "'hidden_size' of its type"),
    ],
)
def test_refused(nodes, constants, message):
    with pytest.raises(dgo.UnsupportedError, match=message):
        dgo.from_onnx(model(nodes, {"x": (2, 5)}, ["y"], constants))


def test_an_operator_of_a_later_opset_is_not_suggested_for_itself():
    proto = model([helper.make_node("TensorScatter", ["x"], ["y"])], {"x": (2, 5)}, ["y"])
    (opset,) = (each for each in proto.opset_import if not each.domain)
    opset.version = 20
    with pytest.raises(dgo.UnsupportedError, match=r"no op for TensorScatter, nor has onnx one in opset 20$"):
        dgo.from_onnx(proto)


def test_more_outputs_than_there_are():
    nodes = [helper.make_node("Shape", ["x"], ["y", "z"])]
    with pytest.raises(dgo.InvalidArgumentError, match="names 2 outputs, but gives 1"):
        dgo.from_onnx(model(nodes, {"x": (2, 5)}, ["y", "z"]))


def test_a_failing_step_is_an_error_of_the_package():
    nodes = [helper.make_node("CumSum", ["x", "axis"], ["y"])]
    with pytest.raises(dgo.Error, match="NumPy: AxisError"):
        dgo.from_onnx(model(nodes, {"x": (2, 5)}, ["y"], {"axis": np.int64(7)})).compile()(x())


@pytest.mark.parametrize("op", ["LSTM", "GRU", "RNN"])
@pytest.mark.parametrize("way", ["forward", "reverse", "bidirectional"])
@pytest.mark.parametrize("begun", [False, True])
def test_recurrent_layers_are_kernels(op, way, begun, rng):
    """As NumPy has them in 64 bits."""
    from dnnl_graph_ops.frontends.reading.node import OnnxNode
    from dnnl_graph_ops.frontends.reading.numpy_steps import ROWS

    gates, states = {"LSTM": (4, 2), "GRU": (3, 1), "RNN": (1, 1)}[op]
    directions, steps, batch, width, size = 1 + (way == "bidirectional"), 5, 3, 7, 19
    w, r, b = ((rng.standard_normal((directions, gates * size, n)) / 5).astype(np.float32) for n in (width, size, 2))
    bias = b.reshape(directions, -1)
    attrs = {"direction": way, "hidden_size": size, **({"linear_before_reset": 1} if op == "GRU" else {})}
    first = [f"s{i}" for i in range(states)] if begun else []
    names = ["x", "w", "r", "b", *([""] if begun else []), *first]
    node = helper.make_node(op, names, ["y", *(f"e{i}" for i in range(states))], **attrs)
    inputs = {"x": (steps, batch, width), **dict.fromkeys(first, (directions, batch, size))}
    weights = {"w": w, "r": r, "b": bias}
    net = dgo.from_onnx(model([node], inputs, list(node.output), weights)).compile()
    given = [rng.standard_normal(shape).astype(np.float32) for shape in inputs.values()]
    assert all(step.implementation.startswith("builtin") for step in net.explain().steps)
    twin = OnnxNode("n", op, "", "", 22, tuple(names), tuple(node.output), attrs)
    wide = [one.astype(np.float64) for one in (given[0], w, r, bias)] + ([None] if begun else [])
    want = ROWS[op].run(twin, [*wide, *(one.astype(np.float64) for one in given[1:])])
    for got, expected in zip(net(*given), want, strict=True):
        np.testing.assert_allclose(got, expected, atol=2e-6)
