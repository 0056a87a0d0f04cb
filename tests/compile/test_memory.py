"""Scratch buffers: which share memory, and that results written over an operand stay exact."""

import numpy as np
import pytest

import dnnl_graph_ops as dgo
from dnnl_graph_ops import ops
from dnnl_graph_ops.compile import plan
from dnnl_graph_ops.compile.memory import Use, place
from dnnl_graph_ops.lowering.program import Buffer, Place, View
from dnnl_graph_ops.strides import dense_strides

SHAPE = (2, 8, 8, 16)
BYTES = 4 * 2 * 8 * 8 * 16


def view(shape=SHAPE, where=Place.SCRATCH, strides=None, elements=None) -> View:
    strides = dense_strides(shape) if strides is None else strides
    return View(Buffer(where, "f32", elements or int(np.prod(shape))), shape, strides)


def test_a_chain_of_pairs_needs_one_buffer():
    x, a, b, c, y = view(where=Place.INPUT), view(), view(), view(), view(where=Place.OUTPUT)
    steps = [Use([x], [a]), Use([a], [b], [(a, b)]), Use([b], [c], [(b, c)]), Use([c], [y], [(c, y)])]
    offsets, total, merged = place(steps)
    assert ({*offsets.values()}, total, merged) == ({0}, BYTES, [(a, b), (b, c)])


def test_an_operand_that_is_read_again_is_kept():
    x, a, b, y = view(where=Place.INPUT), view(), view(), view(where=Place.OUTPUT)
    offsets, _, merged = place([Use([x], [a]), Use([a], [b], [(a, b)]), Use([a, b], [y])])
    assert merged == []
    assert offsets[a.buffer] != offsets[b.buffer]


def test_the_place_of_a_pair_is_taken_until_the_result_was_read():
    x, a, b, other, y = view(where=Place.INPUT), view(), view(), view(), view(where=Place.OUTPUT)
    steps = [Use([x], [a]), Use([a], [b], [(a, b)]), Use([x], [other]), Use([b, other], [y])]
    offsets, _, merged = place(steps)
    assert merged == [(a, b)]
    assert offsets[a.buffer] == offsets[b.buffer] != offsets[other.buffer]


@pytest.mark.parametrize(
    ("source", "target"),
    [
        (view(where=Place.INPUT), view()),
        (view(where=Place.CONSTANT), view()),
        (view(), view(where=Place.OUTPUT)),
        (view(), view(strides=(1024, 16, 128, 1))),
        (view(), view((2, 8, 8, 8))),
        (view(), view(elements=4096)),
    ],
)
def test_only_scratch_of_the_same_layout_is_replaced(source, target):
    x, y = view(where=Place.INPUT), view(where=Place.OUTPUT)
    assert place([Use([x], [source]), Use([source], [target], [(source, target)]), Use([target], [y])])[2] == []


def test_one_operand_gives_its_place_to_one_result():
    x, a, b, c, y = view(where=Place.INPUT), view(), view(), view(), view(where=Place.OUTPUT)
    first, second = place([Use([x], [a]), Use([a], [b, c], [(a, b), (a, c)]), Use([b, c], [y])])[::2]
    assert second == [(a, b)]
    assert first[c.buffer] != first[b.buffer]
    a, b, c = view(), view(), view()
    assert place([Use([x], [a, b]), Use([a, b], [c], [(a, c), (b, c)]), Use([c], [y])])[2] == [(a, c)]


# -- nets ----------------------------------------------------------------------


def chain(graph):
    """Normalised along the last axis, again and again."""
    value = graph.input("x", SHAPE)
    for _ in range(4):
        value = ops.softmax(value, axis=-1)
    return value


def residual(graph):
    """A ConvTranspose that adds an intermediate which nothing else reads."""
    weights = graph.constant(np.random.default_rng(1).integers(-2, 3, (4, 4, 16, 16)).astype(np.float32))
    skip = ops.square(graph.input("skip", (2, 16, 16, 16)))
    up = ops.conv_transpose(graph.input("x", SHAPE), weights, strides=2, pads_begin=1, pads_end=1)
    return ops.softmax(ops.relu(up + skip), axis=-1)


def twice(graph):
    """The added intermediate is the operand of the product, too."""
    weights = graph.constant(np.random.default_rng(1).integers(-2, 3, (256, 256)).astype(np.float32))
    value = ops.square(graph.input("x", (64, 256)))
    total = ops.matmul(value, weights) + value
    return ops.concat(total, total, axis=0)


def kept(graph):
    """The net returns the intermediate as well."""
    value = ops.softmax(graph.input("x", SHAPE), axis=-1)
    return ops.softmax(value, axis=-1), value


def without_pairs(monkeypatch):
    monkeypatch.setattr(plan, "place", lambda steps: place([Use(step.reads, step.writes) for step in steps]))


@pytest.mark.parametrize("build", [chain, residual, twice, kept])
def test_results_do_not_depend_on_pairs(build, monkeypatch, seed):
    rng = np.random.default_rng(seed)
    nets = []
    for change in (lambda _: None, without_pairs):
        change(monkeypatch)
        graph = dgo.Graph()
        nets.append(graph.compile(build(graph), tune="off"))
    given = [rng.integers(-3, 4, value.shape).astype(np.float32) for value in nets[0].inputs]
    for _ in range(3):
        for one, other in zip(*(np.atleast_1d(net(*given)) for net in nets), strict=True):
            np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize(("build", "less"), [(chain, BYTES), (residual, 4 * BYTES)])
def test_pairs_save_scratch(build, less, monkeypatch):
    graph = dgo.Graph()
    net = graph.compile(build(graph), tune="off")
    if not any(getattr(part, "in_place", ()) for part in net.latest().plan.parts):
        pytest.skip("the library offers no pairs here")
    without_pairs(monkeypatch)
    graph = dgo.Graph()
    plain = graph.compile(build(graph), tune="off")
    assert plain.latest().plan.scratch_bytes - net.latest().plan.scratch_bytes == less


def test_explain_counts_no_copy_of_an_operand_that_is_replaced():
    graph = dgo.Graph()
    net = graph.compile(residual(graph), tune="off")
    (step,) = [step for step in net.explain().steps if "ConvTranspose" in step.step]
    (part,) = [part for part in net.latest().plan.parts if "ConvTranspose" in part.kinds]
    if not part.in_place:
        pytest.skip("the library offers no pair here")
    assert step.reorders == 0
