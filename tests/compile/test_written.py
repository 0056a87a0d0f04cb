"""A program is refused that reads, or returns, elements that no step has written."""

import pytest

import dnnl_graph_ops as dgo
from dnnl_graph_ops.compile.plan import assemble
from dnnl_graph_ops.lowering.program import Place, Program, argument
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
