"""A program is refused that reads, or returns, elements that no step has written."""

from collections import Counter

import numpy as np
import pytest

import dnnl_graph_ops as dgo
from dnnl_graph_ops.compile.check_written import axes_of, covers
from dnnl_graph_ops.compile.plan import assemble
from dnnl_graph_ops.program.program import Place, Program, argument
from dnnl_graph_ops.strides import dense_strides

SHAPE = (2, 6, 4)


def ends():
    return [argument(place, "f32", SHAPE, dense_strides(SHAPE)) for place in (Place.INPUT, Place.OUTPUT)]


def assembled(program, x, y):
    return assemble(program, [x], [y], dgo.engine())


def halves(view):
    return view.narrow(1, 0, 3), view.narrow(1, 3, 3)


def test_an_output_that_nobody_writes():
    x, y = ends()
    with pytest.raises(dgo.Error, match="the net returns f32 2x6x4 that no step"):
        assembled(Program(), x, y)


def test_half_an_output():
    x, y = ends()
    program = Program()
    program.copy(halves(x)[0], halves(y)[0])
    with pytest.raises(dgo.Error, match="the net returns f32 2x6x4 that no step"):
        assembled(program, x, y)


def test_scratch_that_is_read_before_it_is_written():
    x, y = ends()
    program = Program()
    between = program.scratch(SHAPE, "f32")
    program.copy(between, y, "first")
    program.copy(x, between)
    with pytest.raises(dgo.Error, match="first reads f32 2x6x4 that no step"):
        assembled(program, x, y)


def test_parts_that_are_the_whole():
    x, y = ends()
    program = Program()
    between = program.scratch(SHAPE, "f32", (1, 2, 0))
    for source, target in zip(halves(x), halves(between), strict=True):
        program.copy(source, target)
    program.copy(between, y)
    assembled(program, x, y)


def test_another_shape_of_what_was_written():
    x, y = ends()
    program = Program()
    between = program.scratch(SHAPE, "f32")
    program.copy(x, between)
    seen, result = between.reshaped((12, 4)), y.reshaped((12, 4))
    assert seen is not None and result is not None
    program.copy(seen, result)
    assembled(program, x, y)


def copied(x, y, *parts):
    """A program that copies parts of y, each a function of a view."""
    program = Program()
    for part in parts:
        program.copy(part(x), part(y))
    return program


def rows(start, size):
    return lambda view: view.narrow(1, start, size)


def phase(row, column):
    return lambda view: view.narrow(0, row, view.shape[0] // 2, 2).narrow(1, column, view.shape[1] // 2, 2)


@pytest.mark.parametrize(
    "parts",
    [
        # as many elements as there are, of which some are written twice
        [rows(0, 4), rows(2, 3)],
        [phase(0, 0), phase(0, 1), phase(1, 0), lambda view: view.narrow(2, 0, 3)],
        [lambda view: view.narrow(2, 0, 3), lambda view: view.narrow(2, 1, 2)],
        [lambda view: view.narrow(1, 0, 3, 2), lambda view: view.narrow(1, 0, 4)],
    ],
)
def test_parts_that_overlap_and_leave_a_gap(parts):
    x, y = ends()
    with pytest.raises(dgo.Error, match="the net returns f32 2x6x4 that no step"):
        assembled(copied(x, y, *parts), x, y)


@pytest.mark.parametrize(
    "parts",
    [
        [rows(0, 4), rows(2, 4)],
        [phase(0, 0), phase(0, 1), phase(1, 0), phase(1, 1)],
        [lambda view: view.narrow(1, 1, 5), lambda view: view.narrow(1, 0, 3, 2)],
        [lambda view: view.narrow(2, 0, 3), lambda view: view.narrow(2, 1, 3)],
    ],
)
def test_parts_that_overlap_and_are_the_whole(parts):
    x, y = ends()
    assembled(copied(x, y, *parts), x, y)


def elements(axes):
    """The places of every element, one by one."""
    offset, rest = axes
    found = np.array([offset])
    for stride, size in rest:
        found = np.add.outer(found, stride * np.arange(size)).ravel()
    return {*found.tolist()}


def test_phases_of_odd_sizes():
    """A batch of images 3 rows high and 5 columns wide."""
    x, y = (argument(place, "f32", (2, 3, 5, 2), dense_strides((2, 3, 5, 2))) for place in (Place.INPUT, Place.OUTPUT))
    of = lambda row, column: lambda v: v.narrow(1, row, 2 - row, 2).narrow(2, column, 3 - column, 2)  # noqa: E731
    parts = [of(row, column) for row in (0, 1) for column in (0, 1)]
    assembled(copied(x, y, *parts), x, y)
    with pytest.raises(dgo.Error, match="the net returns f32 2x3x5x2 that no step"):
        assembled(copied(x, y, *parts[:3], lambda view: view.narrow(2, 0, 3)), x, y)


@pytest.mark.cases(200, 2000, 20_000, each=200)
def test_regions_of_random_views(start, seed):
    """Bands, slices, phases and rows of a dense array: what is told is so, and the most of it is told."""
    rng = np.random.default_rng([seed, start])
    counts = Counter()
    for _ in range(200):
        shape = tuple(rng.integers(1, 7, rng.integers(1, 5)).tolist())
        dense = argument(Place.SCRATCH, "f32", shape, dense_strides(shape))
        views = [drawn(rng, dense) for _ in range(rng.integers(2, 7))]
        if rng.random() < 0.5:
            views[0] = dense
        wanted, *parts = (axes_of(view) for view in views)
        told = covers(wanted, parts, views[0].strides if rng.random() < 0.5 else ())
        counts[told] += 1
        if told is not None:
            assert told == elements(wanted).issubset(set().union(*map(elements, parts))), (shape, wanted, parts)
    print(f"--seed={seed}: {counts}")
    assert min(counts[True], counts[False]) > 10 and counts[None] < 80


def drawn(rng, view):
    for axis, size in enumerate(view.shape):
        if rng.random() < 0.4:
            step = int(rng.integers(1, 4))
            first = int(rng.integers(size))
            count = int(rng.integers(1, (size - 1 - first) // step + 2))
            view = view.narrow(axis, first, count, step)
    return view


@pytest.mark.parametrize("missing", [None, 0, 3, 5])
def test_parts_that_are_read_together_before_the_rest_is_written(missing):
    # as dense blocks do, which append to what they read
    x, y = ends()
    program = Program()
    between = program.scratch(SHAPE, "f32")
    for i in range(SHAPE[1]):
        if i != missing:
            program.copy(x.narrow(1, i, 1), between.narrow(1, i, 1))
        if missing is None or i < missing:
            program.copy(between.narrow(1, 0, i + 1), y.narrow(1, 0, i + 1))
            program.copy(between.narrow(1, i, 1), y.narrow(1, i, 1))
    program.copy(between, y, "last")
    if missing is None:
        assembled(program, x, y)
    else:
        with pytest.raises(dgo.Error, match="last reads f32 2x6x4 that no step"):
            assembled(program, x, y)
