"""Net.prepare on ONNX models that are no single graph: compiles what the inputs' sizes determine, tells the rest."""

import warnings

import numpy as np
import pytest

import dnnl_graph_ops as dgo
from dnnl_graph_ops.net.net import Net

parser = pytest.importorskip("onnx.parser", reason="needs the extra 'onnx'")

HEAD = '<ir_version: 9, opset_import: ["": 18]>'
# (name, model, whether all of it can be prepared)
MODELS = {
    "float64 between graphs": (
        f"""{HEAD} doubles (float[n, 4] x) => (float[n, 4] y) {{
            a = Relu(x)
            b = Cast <to = 11> (a)
            c = Add(b, b)
            d = Cast <to = 1> (c)
            y = Neg(d)
        }}""",
        True,
    ),
    "sizes of data": (
        f"""{HEAD} chosen (float[n, 4] x) => (float[s] z) {{
            a = Relu(x)
            places = NonZero(a)
            t = Transpose(places)
            some = GatherND(a, t)
            z = Neg(some)
        }}""",
        False,
    ),
    "a branch": (
        f"""{HEAD} branch (float[n, 4] x, bool c) => (float[n, 4] z) {{
            a = Relu(x)
            z = If (c) <
                then_branch = one () => (float[n, 4] p) {{ p = Neg(a) }},
                else_branch = two () => (float[n, 4] q) {{ q = Abs(a) }}
            >
        }}""",
        False,
    ),
    "rank of the call": (f"{HEAD} ranks (float x) => (float y) {{ y = Relu(x) }}", False),
}


def loaded(text):
    model = parser.parse_model(text)
    for info in model.graph.input:
        if model.graph.name == "ranks":
            info.type.tensor_type.ClearField("shape")
    return dgo.from_onnx(model).compile()


@pytest.mark.parametrize("name", MODELS)
def test_stages(name, monkeypatch):
    text, whole = MODELS[name]
    net, plain = loaded(text), loaded(text)
    x = np.random.default_rng(1).integers(-3, 4, (5, 4)).astype(np.float32)
    given = {"x": x, "c": np.array(True)} if "c" in net.input_names else {"x": x}
    wanted = plain.run(given)
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        compiled = net.prepare([{"x": (5, 4)}, {"x": (6, 4)}])
    assert compiled == net.plan_count()
    assert [str(one.message).partition(": ")[2] for one in told] == (
        [] if whole else [str(told[0].message).partition(": ")[2]]
    )
    assert whole or "sizes that depend on data are compiled by the first call" in str(told[0].message)
    if whole:
        assert compiled == plain.plan_count() * 2

        def refuse(*_):
            raise AssertionError("compiled at the call")

        monkeypatch.setattr(Net, "_build", refuse)
    for key, want in wanted.items():
        np.testing.assert_array_equal(net.run(given)[key], want)


def test_an_input_of_unknown_rank_may_be_left_out():
    net = loaded(MODELS["rank of the call"][0])
    with pytest.warns(UserWarning, match="compiled by the first call"):
        assert net.prepare([{}]) == 0
