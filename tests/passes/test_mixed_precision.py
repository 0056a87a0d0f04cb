"""f32 graphs computed in bf16 or f16: exact where nothing is rounded, f32 at the edges and where that is needed."""

import pickle

import numpy as np
import pytest
from compile.layout_graphs import laid_out, random_graph
from reference.graph import evaluate_built

import dnnl_graph_ops as dgo
from dnnl_graph_ops import ops, schema
from dnnl_graph_ops.passes import mixed_precision as precision

pytestmark = pytest.mark.choice

EACH = 10
NARROW = ("bf16", "f16")


def gaining(monkeypatch, seconds):
    """All products save as many seconds by estimate."""
    monkeypatch.setattr(precision, "_gain", lambda node, dtype, env: (seconds, ""))


@pytest.fixture
def everything(monkeypatch):
    """All products that may be narrow are: what pays depends on the machine."""
    gaining(monkeypatch, 1.0)


def check(seed, case, dtype):
    print(f"--seed={seed} --case={case}")
    rng = np.random.default_rng([seed, case])
    graph, outputs = random_graph(rng)
    while any(value.dtype != "f32" for value in graph.inputs):
        graph, outputs = random_graph(rng)
    inputs = [laid_out(rng, value) for value in graph.inputs]
    for array in inputs:
        array[...] = rng.integers(-3, 4, array.shape)
    truth = evaluate_built(graph, dict(zip(graph.inputs, inputs, strict=True)))
    net = graph.compile(outputs, precision=dtype)
    given = [array for value, array in zip(graph.inputs, inputs, strict=True) if value in net.inputs]
    for outs in (None, [laid_out(rng, value) for value in outputs]):
        found = net(*given, out=outs)
        for value, array in zip(outputs, found if isinstance(found, tuple) else (found,), strict=True):
            np.testing.assert_array_equal(array, truth[value], f"{value} {outs is None=}", strict=True)


@pytest.mark.slow
@pytest.mark.cases(10, 20, 200, each=EACH)
@pytest.mark.parametrize("dtype", NARROW)
def test_random_graphs_of_small_integers_are_exact(start, dtype, pytestconfig, everything):
    seed, only = pytestconfig.getoption("--seed"), pytestconfig.getoption("--case")
    for case in range(start, start + EACH) if only is None else [only]:
        check(seed, case, dtype)


def block(rng, batch=1, unknown=False):
    """conv + ReLU -> conv + sum -> softmax, and a second result on the way."""
    graph = dgo.Graph()
    x = graph.input("x", (None if unknown else batch, 8, 8, 16))
    weights = [rng.standard_normal((3, 3, 16, 16)).astype(np.float32) / 12 for _ in range(2)]
    first = ops.relu(ops.convolution(x, weights[0], pads_begin=1, pads_end=1), name="first")
    second = ops.convolution(first, weights[1], pads_begin=1, pads_end=1) + first
    return graph, {"soft": ops.softmax(second, axis=-1), "sum": second}


def kinds(net):
    return [(row["ops"], row["compute"]) for row in net.explain().to_dict()["partitions"]]


def error(found, wanted):
    return max(float(np.abs(found[name] - wanted[name]).max() / np.abs(wanted[name]).max()) for name in wanted)


@pytest.mark.parametrize("dtype", NARROW)
def test_edges_and_softmax_stay_f32_and_errors_are_those_of_the_type(rng, dtype, everything):
    graph, outputs = block(rng)
    x = rng.standard_normal((1, 8, 8, 16)).astype(np.float32)
    wanted, net = graph.compile(outputs).run({"x": x}), graph.compile(outputs, precision=dtype)
    found = net.run({"x": x})
    assert {array.dtype for array in found.values()} == {np.dtype(np.float32)}
    steps = net.explain().to_dict()["steps"]
    soft = next(step for step in steps if "SoftMax" in step["step"])
    assert all("f32" in text for text in (*soft["reads"], *soft["writes"]))
    assert any(dtype in text for step in steps for text in step["reads"])
    # 8 and 11 significant bits, a few roundings
    assert 0 < error(found, wanted) < {"bf16": 3e-2, "f16": 4e-3}[dtype]


def test_what_is_not_faster_stays_as_it_is(rng, monkeypatch):
    gaining(monkeypatch, 0.0)
    graph, outputs = block(rng)
    x = rng.standard_normal((1, 8, 8, 16)).astype(np.float32)
    wanted, found = (graph.compile(outputs, precision=one).run({"x": x}) for one in (None, "bf16"))
    assert error(found, wanted) == 0


def test_a_region_that_conversions_cost_more_than_it_gains_stays_f32(rng, monkeypatch):
    gaining(monkeypatch, 1e-12)
    graph, outputs = block(rng)
    assert not any("TypeCast" in str(step) for step in graph.compile(outputs, precision="bf16").explain().steps)


def test_explain_says_what_stayed_in_f32_and_why(rng, monkeypatch):
    graph, outputs = block(rng)
    names = [node.name for node in graph.nodes if node.kind == "Convolution"]

    def explained(dtype):
        found = graph.compile(outputs, precision=dtype).explain()
        assert f"precision={dtype}\n" in str(found) and found.to_dict()["precision"] == dtype
        return found

    assert explained(None).wide == {} and "not in" not in str(explained(None))
    for gain, reason in (
        ((2e-6, 3e-6), "estimated 3 us in bf16, 2 in f32"),
        ((1.0, float("inf")), "this CPU has no such arithmetic"),
        ((1e-12, 0.0), "what is converted at the edges of its region would cost more than it gains"),
    ):
        monkeypatch.setattr(precision, "_known", lambda dtype, env: True)
        monkeypatch.setattr(precision, "comparable_seconds", lambda node, dtype, env, times=gain: times[dtype != "f32"])
        found = explained("bf16")
        assert found.wide == dict.fromkeys(names, reason)
        assert f"not in bf16: {', '.join(names)}: {reason} " in " ".join(str(found).split())
    gaining(monkeypatch, 1.0)
    assert explained("bf16").wide == {}
    graph.fpmath_mode = "any"
    assert explained("bf16").wide == dict.fromkeys(names, "fpmath_mode='any' decides")


def test_a_type_without_times_stays_f32(rng, monkeypatch):
    monkeypatch.setattr(precision.fits, "origin", lambda isa, release, dtype: (isa, "f32"))
    graph, outputs = block(rng)
    reasons = set(graph.compile(outputs, precision="f16").explain().wide.values())
    assert len(reasons) == 1 and "no times of f16 are known for" in reasons.pop()


def test_graphs_with_an_fpmath_mode_obey_that(rng, everything):
    graph, outputs = block(rng)
    graph.fpmath_mode = "any"
    assert not any("TypeCast" in str(step) for step in graph.compile(outputs, precision="bf16").explain().steps)


def test_open_dims_pickles_and_files(rng, everything, tmp_path):
    graph, outputs = block(rng, unknown=True)
    net = graph.compile(outputs, precision="bf16")
    for batch in (2, 3):
        x = rng.standard_normal((batch, 8, 8, 16)).astype(np.float32)
        wanted = net.run({"x": x})
        assert 0 < error(wanted, graph.compile(outputs).run({"x": x})) < 3e-2
    net.save(tmp_path / "net")
    loaded = dgo.load(tmp_path / "net")
    assert len(loaded._holds) >= 2  # both convolutions' weights
    for other in (loaded, pickle.loads(pickle.dumps(net))):
        assert other._options.precision == "bf16"
        for name, array in other.run({"x": x}).items():
            np.testing.assert_array_equal(array, wanted[name])


def test_scaled_weights_are_converted_once_and_saved(rng, everything, tmp_path):
    graph = dgo.Graph()
    x = graph.input("x", (1, 8, 8, 16))
    weights = rng.standard_normal((12, 12, 16, 16)).astype(np.float32)  # which builtin kernels take, packed
    y = ops.conv_transpose(x, weights, strides=4, pads_begin=4, pads_end=4) * np.float32(0.3)
    net = graph.compile(y, precision="bf16")
    data = rng.standard_normal((1, 8, 8, 16)).astype(np.float32)
    wanted = net(data)
    net.save(tmp_path / "net")
    loaded = dgo.load(tmp_path / "net")
    assert loaded._holds
    np.testing.assert_array_equal(loaded(data), wanted)


def test_int8_patterns_stay_what_they_are(rng, everything):
    graph = dgo.Graph()
    x = graph.input("x", (1, 8, 8, 16), "u8")
    weights = graph.constant(rng.integers(-8, 8, (3, 3, 16, 16)).astype(np.int8))
    wide = [ops.dequantize(value, scales=[0.5], zps=[0]) for value in (x, weights)]
    y = ops.quantize(ops.convolution(*wide, pads_begin=1, pads_end=1), scales=[8.0], zps=[0], dtype="u8")
    data = rng.integers(0, 8, (1, 8, 8, 16)).astype(np.uint8)
    np.testing.assert_array_equal(graph.compile(y, precision="bf16")(data), graph.compile(y)(data))


@pytest.mark.parametrize(
    ("choices", "expected"),
    [
        ({"precision": "int8"}, dgo.InvalidArgumentError),
        ({"precision": 16}, TypeError),
        ({"precision": "bf16", "tune": "off"}, dgo.InvalidArgumentError),
        ({"precision": "bf16", "policy": "debug"}, dgo.InvalidArgumentError),
    ],
)
def test_wrong_choices(rng, choices, expected):
    graph, outputs = block(rng)
    with pytest.raises(expected, match="precision"):
        graph.compile(outputs, **choices)


def test_narrow_ops_of_the_table_take_narrow_types():
    for op in schema.OPS.values():
        assert op.narrow in ("", "all", "operands")
        if op.narrow:
            assert {"f32", *NARROW} <= set(op.inputs[-1 if op.kind == "Select" else 0].dtypes), op.kind
