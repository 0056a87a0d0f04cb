"""Graphs in benchdnn's format, by this module and by the library's dumps."""

import json
import warnings

import numpy as np
import pytest

import dnnl_graph_ops as dgo
from dnnl_graph_ops.graph_api import dump_mode, engine, graph, op, partition, set_dump_mode, stream, tensor

from .common import LT, RUNTIMES, cpu, runtime_or_skip, strided

UNKNOWN = -(1 << 63)


def test_json_of_an_unknown_rank():
    g = graph(engine.cpu)
    g.add_op(op(0, op.Abs, [strided(0, [2, 3])], [LT(1, LT.f32, LT.strided)]))
    g.add_op(op(1, op.Exp, [LT(1, LT.f32, LT.strided)], [strided(2, [])]))
    data = json.loads(g.to_json())
    assert [o["outputs"][0]["shape"] for o in data["graph"]] == [[UNKNOWN], []]
    again = graph.from_json(data)
    assert json.loads(again.to_json()) == data
    again.finalize()
    (port,) = again.get_partitions(partition.debug)[0].get_output_ports()
    assert port == LT(1, LT.f32, LT.strided)


@pytest.mark.parametrize("runtime", RUNTIMES)
def test_a_fused_graph_of_the_librarys_dump(runtime, tmp_path, monkeypatch):
    """oneDNN writes one unknown size for a tensor inside whatever its rank: what is read back compiles and runs."""
    runtime_or_skip(runtime)
    x, y = strided(0, [2, 3]), strided(2, [2, 3])
    g = graph(engine.cpu, runtime=runtime)
    g.add_op(op(0, op.MatMul, [x, strided(3, [3, 3])], [strided(1, [-1, -1])]))
    g.add_op(op(1, op.ReLU, [strided(1, [-1, -1])], [y]))
    g.finalize()
    if runtime == "sycl":
        monkeypatch.chdir(tmp_path)
        set_dump_mode(dump_mode.graph, runtime)
        try:
            g.get_partitions()
        finally:
            set_dump_mode(dump_mode.none, runtime)
        source = min(tmp_path.glob("graph-*.json"), key=lambda path: len(path.name)).read_text()
    else:
        data = json.loads(g.to_json())
        for tensors in (data["graph"][0]["outputs"], data["graph"][1]["inputs"]):
            tensors[0].update(shape=[UNKNOWN], stride=[UNKNOWN])
        source = json.dumps(data)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert len(dgo.Graph.from_json(source).outputs) == 1
    again = graph.from_json(source, runtime)
    again.finalize()
    (p,) = again.get_partitions()
    e = cpu(runtime)
    compiled = p.compile(p.get_input_ports(), p.get_output_ports(), e)
    arrays = {0: np.array([[1, -2, 3], [-4, 5, -6]], np.float32), 3: np.eye(3, dtype=np.float32)}
    result = tensor(y, e)
    compiled.execute(stream(e), [tensor(t, e, arrays[t.get_id()]) for t in p.get_input_ports()], [result])
    assert np.array_equal(result.to_numpy(), np.maximum(arrays[0], 0))


def test_json_has_no_infinities():
    g = graph(engine.cpu)
    o = op(0, op.Clamp, [strided(0, [2])], [strided(1, [2])], "c").set_attr(op.attr.min, float("-inf"))
    g.add_op(o.set_attr(op.attr.max, 6.0))
    with pytest.raises(dgo.InvalidArgumentError, match=r"op 0 \(Clamp 'c'\): attribute 'min' is infinite"):
        g.to_json()
