"""Puts a layer of 8-bit integers on copies in f32, for algorithms in floats, or takes off what is added to it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from ..convolution.problem import READ, RESULT, ConvProblem
from ..convolution.quantization import Quantization
from ..program import elementwise
from ..program.elementwise import Integers
from ..program.epilogue import EpilogueOp
from ..program.program import Buffer, Place, Program, View, array_of, data_of, has_data
from ..strides import dense_strides, extent

Array = np.ndarray[Any, Any]


def in_floats(program: Program, problem: ConvProblem) -> ConvProblem:
    """Appends the conversions of what a quantized layer reads; returns the layer on the copies.

    Its result is the layer's if that is in f32, else scratch, which `rounded` converts.
    """
    q = problem.quantization
    assert q is not None
    result = problem.result
    views = {
        READ[problem.direction][0]: _source(program, problem.read[0], q),
        RESULT[problem.direction]: result if q.dst is None else program.like(result, "f32"),
    }
    return problem.with_views(**views, w=_weights(program, problem, q), quantization=None)


def rounded(program: Program, floats: View, problem: ConvProblem) -> None:
    """Appends the conversion of a result in f32 to the integers of a quantized layer's, if it has integers."""
    q = problem.quantization
    if q is not None and q.dst is not None:
        scale, zero = (np.asarray(number, np.float32) for number in q.dst)
        elementwise.convert(program, "Quantize", floats, problem.result, scale, zero)


def with_residual_apart(program: Program, problem: ConvProblem, append: Callable[[ConvProblem], None]) -> None:
    """Appends a layer that has a residual in two parts: the layer without it, by `append`, and the sum of both."""
    q = problem.quantization
    assert q is not None
    assert q.residual is not None
    assert q.dst is not None
    residual, result = q.residual, problem.result
    buffer = program.scratch((extent(result.shape, result.strides),), residual.dtype).buffer

    def at_inner(view: View) -> View:
        apart = view.buffer is not result.buffer
        return view if apart else replace(view, buffer=buffer, offset=view.offset - result.offset)

    inner = at_inner(result)
    layer = q.without_residual().on_views(at_inner)
    append(problem.with_views(**{RESULT[problem.direction]: inner}, quantization=layer))
    left, right = Integers(inner, *residual.of_result), Integers(residual.view, *residual.of_view)
    elementwise.add(program, left, right, residual.bound, Integers(problem.result, *q.dst))


def _source(program: Program, view: View, q: Quantization) -> View:
    floats = program.like(view, "f32")
    if not q.is_dynamic:
        scale, zero = (np.asarray(number, np.float32) for number in (q.src_scale, q.src_zero))
        elementwise.convert(program, "Dequantize", view, floats, scale, zero)
        return floats
    shift = [EpilogueOp("Subtract", {}, (0, program.converted(zero, "f32"))) for zero in q.zero]
    ops = (*shift, EpilogueOp("Multiply", {}, (len(shift), *q.scale)))
    if not elementwise.apply(program, view, ops, floats, "Dequantize"):
        raise RuntimeError("a Dequantize has more operands than builtin code takes")
    return floats


def _weights(program: Program, problem: ConvProblem, q: Quantization) -> View:
    """Returns the weights in f32: one constant for all plans of a graph if they are constant, so it is packed once."""
    view, axis = problem.w, problem.weights_axis
    scales, zeros = q.of_weights(view.shape, axis)
    if not has_data(view.buffer):
        floats = program.scratch(view.shape, "f32")
        elementwise.convert(program, "Dequantize", view, floats, scales, zeros)
        return floats
    held, make = view.buffer.held, partial(_dequantized, view, scales, zeros)
    if held is None:
        return program.constant(make(data_of(view.buffer)))
    how = _How(view.offset, view.shape, view.strides, q.weights_scales, q.weights_zeros, axis)
    constant = held.derived(how, make, view.shape)
    return View(Buffer(Place.CONSTANT, "f32", view.size, held=constant), view.shape, dense_strides(view.shape))


class _How(NamedTuple):
    """The key of a constant in floats. A type of its own keeps it out of files, which accept plain tuples only."""

    offset: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    scales: tuple[float, ...]
    zeros: tuple[int, ...]
    axis: int


def _dequantized(view: View, scales: Array, zeros: Array, array: Array) -> Array:
    integers = replace(view, buffer=replace(view.buffer, array=array, held=None))
    # row-major, whatever the strides of the integers
    return np.ascontiguousarray((array_of(integers).astype(np.float32) - zeros) * scales)
