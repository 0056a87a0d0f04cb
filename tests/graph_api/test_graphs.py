"""Graphs: what they take, the status or exception of what they do not, and how they are cut."""

import json

import pytest

import dnnl_graph_ops as dgo
from dnnl_graph_ops.graph_api import engine, fpmath_mode, graph, op, partition, status

from .common import LT, partitions, relu, strided


def test_adding_gives_a_status():
    g = graph(engine.cpu)
    assert g.add_op(relu(), allow_exception=False) is status.success and g.add_op(relu(1, 1, 2)) is status.success
    assert not g.is_finalized()
    assert g.finalize() is None and g.is_finalized()
    assert repr(g) == "<graph of 2 ops, cpu, finalized, runtime='omp'>"


REFUSED = [
    (relu(0, 5, 6), dgo.InvalidArgumentError, status.invalid_graph_op, "op 0"),  # the id is taken
    (relu(1, 0, 1), dgo.InvalidArgumentError, status.invalid_graph_op, "made by op 0"),  # two producers
    (relu(2, 1, 3, n=5), dgo.InvalidArgumentError, status.invalid_graph_op, "tensor 1"),  # another shape
    (op(3, op.ReLU), dgo.InvalidArgumentError, status.invalid_graph_op, "op 3"),
    (
        op(4, op.RMSNorm, [strided(0, [4])], [strided(9, [4])]),
        dgo.UnsupportedError,
        status.unimplemented,
        "RMSNorm",
    ),
    (op(5, op.ReLU, [LT(0, LT.f32, [4], LT.any)], [strided(9, [4])]), dgo.InvalidArgumentError, None, "tensor 0"),
    (op(6, op.ReLU, [strided(0, [4], ptype=LT.constant)], [strided(9, [4])]), dgo.InvalidArgumentError, None, "tensor"),
]


@pytest.mark.parametrize(("item", "error", "code", "message"), REFUSED)
def test_refusals_are_raised_or_told(item, error, code, message):
    g = graph(engine.cpu)
    g.add_op(relu())
    with pytest.raises(error, match=message):
        g.add_op(item)
    assert g.add_op(item, False) is (code or status.invalid_graph_op)
    assert repr(g).startswith("<graph of 1 op,")
    g.finalize()
    assert [p.get_ops() for p in g.get_partitions()] == [[0]]


def test_wrong_types_are_raised_in_any_case():
    g = graph(engine.cpu)
    for arguments in [("op", False), (None, False), (relu(), 1), (relu(), "yes")]:
        with pytest.raises(TypeError):
            g.add_op(*arguments)
    for arguments in [(), ("cpu",), (True,), (op.Add,), (engine.cpu, engine.cpu), (engine.cpu, "bf16")]:
        with pytest.raises(TypeError):
            graph(*arguments)


def test_the_order_of_calls():
    g = graph(engine.cpu)
    g.add_op(relu())
    with pytest.raises(dgo.InvalidArgumentError, match="not finalized"):
        g.get_partitions()
    g.finalize()
    g.finalize()
    with pytest.raises(dgo.InvalidArgumentError, match="finalized"):
        g.add_op(relu(1, 1, 2))
    assert g.add_op(relu(1, 1, 2), False) is not status.success
    assert len(g.get_partitions()) == len(g.get_partitions(partition.debug)) == 1


def test_a_circle():
    g = graph(engine.cpu)
    g.add_op(relu(0, 0, 1, name="there"))
    g.add_op(relu(1, 1, 0, name="back"))
    with pytest.raises(dgo.InvalidArgumentError, match=r"graph\.finalize: .*circle.*there, back"):
        g.finalize()
    assert not g.is_finalized()
    own = graph(engine.cpu)
    with pytest.raises(dgo.InvalidArgumentError):
        own.add_op(relu(0, 0, 0))
        own.finalize()


def test_an_empty_graph():
    g = graph(engine.cpu)
    g.finalize()
    assert g.get_partitions() == []


@pytest.mark.parametrize("policy", [0, 3, -1])
def test_unknown_policies(policy):
    g = graph(engine.cpu)
    g.finalize()
    with pytest.raises(dgo.InvalidArgumentError, match="fusion, debug"):
        g.get_partitions(policy)


def test_policies():
    ops = relu(0, 0, 1), op(1, op.Add, [strided(1, [4]), strided(2, [4])], [strided(3, [4])])
    assert sum(len(p.get_ops()) for p in partitions(*ops)) == 2
    assert [p.get_ops() for p in partitions(*ops, policy=partition.debug)] == [[0], [1]]
    assert [p.get_ops() for p in partitions(*ops, policy=2)] == [[0], [1]]


def test_the_order_of_adding_is_free():
    (part,) = partitions(op(1, op.Tanh, [strided(4, [4])], [strided(5, [4])]), matmul(0, 2, 3, 4))
    assert sorted(part.get_ops()) == [0, 1] and part.is_supported()
    assert {t.get_id() for t in part.get_input_ports()} == {2, 3}
    assert [t.get_id() for t in part.get_output_ports()] == [5]


def matmul(oid, a, b, y):
    return op(oid, op.MatMul, [strided(a, [1, 4]), strided(b, [4, 4])], [strided(y, [4])])


@pytest.mark.parametrize("mode", list(fpmath_mode), ids=lambda mode: mode.name)
def test_fpmath_modes(mode):
    assert graph(engine.cpu, mode).get_fpmath_mode() == (mode, False)
    assert getattr(graph, mode.name) is mode and graph.fpmath_mode is fpmath_mode


def test_fpmath_mode_of_an_older_library():
    with pytest.raises(dgo.UnsupportedError, match=r"3\.7"):
        graph(engine.cpu).set_fpmath_mode(graph.bf16)
    with pytest.raises(TypeError):
        graph(engine.cpu).set_fpmath_mode("bf16")
    with pytest.raises(TypeError):
        graph(engine.cpu).set_fpmath_mode(graph.bf16, 1)


def test_json_there_and_back():
    g = graph(engine.cpu, graph.bf16)
    g.add_op(matmul(7, 2, 3, 4).set_attr(op.attr.transpose_b, True))
    g.add_op(op(9, op.LeakyReLU, [strided(4, [4])], [LT(5, LT.f32, [-1], LT.any)], "l").set_attr(op.alpha, 0.5))
    data = json.loads(g.to_json())
    assert data["input_ports"] == [2, 3] and data["output_ports"] == [5] and data["fpmath_mode"] == "bf16"
    assert data["graph"][0]["attrs"] == {"transpose_b": {"type": "bool", "value": 1}}
    again = graph.from_json(g.to_json())
    assert json.loads(again.to_json()) == data and again.get_fpmath_mode() == (graph.bf16, False)
    assert not again.is_finalized()
    again.finalize()
    assert [p.get_ops() for p in again.get_partitions(partition.debug)] == [[7], [9]]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"kind": "MatMull"}, "did you mean 'MatMul'"),
        ({"attrs": {"transpose_c": {"type": "bool", "value": 1}}}, "transpose_c"),
        ({"attrs": {"transpose_a": {"type": "s64", "value": 5}}}, "transpose_a"),
        ({"inputs": []}, "op 7"),
    ],
)
def test_json_that_does_not_fit(change, message):
    g = graph(engine.cpu)
    g.add_op(matmul(7, 2, 3, 4))
    data = json.loads(g.to_json())
    data["graph"][0].update(change)
    with pytest.raises(dgo.InvalidArgumentError, match=message):
        graph.from_json(data)


def test_json_of_other_sources(tmp_path):
    with pytest.raises(FileNotFoundError):
        graph.from_json(tmp_path / "graph.json")
    with pytest.raises(TypeError):
        graph.from_json(5)
    with pytest.raises(dgo.InvalidArgumentError):
        graph.from_json("{}")
    g = graph(engine.cpu)
    g.add_op(relu())
    (tmp_path / "graph.json").write_text(g.to_json())
    for source in (tmp_path / "graph.json", str(tmp_path / "graph.json"), json.loads(g.to_json())):
        assert graph.from_json(source).to_json() == g.to_json()


def test_other_kinds_of_engines():
    with pytest.raises(dgo.InvalidArgumentError, match="got any"):
        graph(engine.any)
    with pytest.raises(dgo.InvalidArgumentError, match="known here"):
        graph(engine.cpu, runtime="nope")


def test_json_by_other_names():
    x, dy, dw = strided(0, [1, 4, 3]), strided(1, [1, 8, 5]), strided(2, [2, 5, 3])
    o = op(0, op.ConvTransposeBackpropFilters, [x, dy], [dw])
    for name, value in {"strides": [2], "pads_begin": [0], "pads_end": [0], "dilations": [1]}.items():
        o.set_attr(op.attr[name], value)
    g = graph(engine.cpu)
    g.add_op(o.set_attr(op.attr.filter_shape, [2, 5, 3]))
    text = g.to_json()
    other = text.replace("weights_shape", "filter_shape").replace("BackwardWeights", "BackpropFilters")
    assert other != text and graph.from_json(other).to_json() == text
    with pytest.raises(dgo.InvalidArgumentError, match="undef"):
        graph.from_json(text.replace("weights_shape", "undef"))
