"""Ops of the same kind, operands and attributes share checks and inference; what differs at all is told apart."""

import pytest

import dnnl_graph_ops as dgo
from dnnl_graph_ops.ops import build


@pytest.fixture
def x():
    return dgo.Graph().input("x", (1, 4, 6, 6))


def test_a_value_of_another_type_is_checked_again(x):
    dgo.ops.elu(x, alpha=1)
    dgo.ops.elu(x, alpha=1.0)
    with pytest.raises(TypeError, match="bool True"):
        dgo.ops.elu(x, alpha=True)
    dgo.ops.softmax(x, axis=1)
    with pytest.raises(TypeError):
        dgo.ops.softmax(x, axis=1.0)


def test_zeros_keep_their_signs(x):
    ends = [dgo.ops.clamp(x, min=low, max=1.0).node.attrs["min"] for low in (0.0, -0.0, 0.0)]
    assert list(map(repr, ends)) == ["0.0", "-0.0", "0.0"]


def test_attributes_of_a_node_are_its_own(x):
    first, second = (dgo.ops.leaky_relu(x, alpha=0.25).node for _ in range(2))
    assert first.attrs == second.attrs and first.attrs is not second.attrs
    first.attrs.clear()
    assert dgo.ops.leaky_relu(x, alpha=0.25).node.attrs == second.attrs == {"alpha": 0.25}


def test_an_error_names_the_op_that_makes_it(x):
    for name in ("one", "two"):
        with pytest.raises(dgo.InvalidArgumentError, match=f"{name!r}"):
            dgo.ops.softmax(x, axis=9, name=name)


def test_the_shared_results_are_bounded(x, monkeypatch):
    monkeypatch.setattr(build, "_results", {})
    monkeypatch.setattr(build, "_MOST_RESULTS", 3)
    for axis in (0, 1, 2, 3, -1, -2):
        dgo.ops.softmax(x, axis=axis)
        assert len(build._results) <= 3
    assert build._key(tuple(range(65))) is None and build._key((1, [2.0, "a"])) is not None
