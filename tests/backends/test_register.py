"""A backend for one op, from outside of the package: chosen, explained, and part of a saved net."""

import numpy as np
import pytest

import dnnl_graph_ops as dgo
from dnnl_graph_ops import ops
from dnnl_graph_ops.algorithms.lower import Decision
from dnnl_graph_ops.backends.backend import Backend, group_of, registered
from dnnl_graph_ops.program.program import HostStep


def absolute(x, y):
    y[...] = np.where(x < 0, -x, x)


def build(built, group):
    inputs, outputs = built.operands(group.match)
    built.program.host(absolute, inputs, outputs, "magnitude", by="a test")
    return Decision("magnitude", "f32")


def match(nodes, env):
    return nodes[0] if len(nodes) == 1 and nodes[0].kind == "Abs" else None


MAGNITUDE = Backend("magnitude", build, match)
X = np.array([[-2.0, 0.0], [3.0, -4.0]], np.float32)


@pytest.fixture
def backend():
    with registered(MAGNITUDE, before="norm"):
        yield


def net():
    graph = dgo.Graph()
    # no chain of element-wise ops, which are looked for together
    return graph.compile(ops.abs(graph.input("x", X.shape)))


def test_it_is_chosen_and_explained(backend):
    compiled = net()
    np.testing.assert_array_equal(compiled(X), abs(X))
    (part,) = compiled.explain().partitions
    assert (part.kinds, part.formulation, part.implementation) == (("Abs",), "magnitude", "a test")
    assert "magnitude" in str(compiled.explain())
    (step,) = compiled._latest().plan.parts
    assert isinstance(step, HostStep)


def test_it_is_part_of_a_saved_net(backend, tmp_path):
    compiled = net()
    compiled(X)
    compiled.save(tmp_path / "net.dgo")
    loaded = dgo.load(tmp_path / "net.dgo")
    np.testing.assert_array_equal(loaded(X), abs(X))
    assert loaded.explain().partitions[0].formulation == "magnitude"


def test_it_is_gone_again():
    with registered(MAGNITUDE, before="norm"):
        pass
    compiled = net()
    np.testing.assert_array_equal(compiled(X), abs(X))
    assert compiled.explain().partitions[0].formulation == "builtin element-wise"
    (value,) = compiled.outputs.values()
    assert group_of([value.node], compiled._env()).backend.name == "elementwise"
