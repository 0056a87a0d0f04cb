"""Runs DynamicQuantize and DynamicDequantize with one scale: as element-wise steps, or in a product of integers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import prod
from typing import Any

import numpy as np

from ..graph import Node
from ..lowering import elementwise_group, elementwise_int
from ..lowering.elementwise_group import over
from ..lowering.epilogue import EpilogueOp
from ..lowering.problem import ConvProblem
from ..lowering.program import Program, View
from ..strides import channels_last
from .backend import Lowering
from .window import fold

Array = np.ndarray[Any, Any]


def has_one_scale(node: Node) -> bool:
    """Whether a node's scales and zero points, which are tensors, have one element each."""
    return node.attrs["qtype"] != "per_group" and all(value.shape in ((), (1,)) for value in node.inputs[1:])


def serves(node: Node) -> bool:
    """Whether builtin code computes a node: between 8 bits and f32, by one scale."""
    kinds = {node.inputs[0].dtype, node.outputs[0].dtype}
    return has_one_scale(node) and "f32" in kinds and len(kinds & elementwise_group.INTEGERS) == 1


def quantize(program: Program, node: Node, sources: Sequence[View], targets: Sequence[View]) -> None:
    """Appends src / scale, rounded to even, plus the zero point, within the bounds of dst."""
    src, scale, *point = sources
    # rounded before the zero point is added: ties to even after adding an odd one would be ties to odd
    ops = [EpilogueOp("Divide", {}, (0, scale)), EpilogueOp("Round", {}, (1,))]
    shift = [EpilogueOp("Add", {}, (2, elementwise_int.cast(program, view, "f32"))) for view in point]
    _append(program, node, src, [*ops, *shift], targets[0])


def dequantize(program: Program, node: Node, sources: Sequence[View], targets: Sequence[View]) -> None:
    """Appends (src - zero point) * scale."""
    src, scale, *point = sources
    ops = [EpilogueOp("Subtract", {}, (0, elementwise_int.cast(program, view, "f32"))) for view in point]
    _append(program, node, src, [*ops, EpilogueOp("Multiply", {}, (len(ops), scale))], targets[0])


def _append(program: Program, node: Node, src: View, ops: Sequence[EpilogueOp], dst: View) -> None:
    if dst.size and not elementwise_group.apply(program, src, tuple(ops), dst, node.kind):
        raise RuntimeError(f"{node.kind} {node.name!r}: more operands than builtin code takes")


# ---- products of integers ------------------------------------------------------------------------------------------


class CallScale:
    """The scale and the zero point of the source of a product of integers, as tensors of one element."""

    def __init__(self, lowering: Lowering, src: Node, weights: Node) -> None:
        self.program, self.weights = lowering.program, weights
        self.scale, *point = map(lowering.view, src.inputs[1:])
        self.point = point[0] if point else None

    def padded(self, problem: ConvProblem) -> ConvProblem:
        """Returns the problem without pads, on a copy of src that has its zero point in their place."""
        g = problem.geometry
        around = [*zip(g.pads_begin, g.pads_end, strict=True)]
        if self.point is None or not any(map(any, around)):
            return problem
        # what no position reads is not copied
        axes = zip(g.y, g.strides, g.kernel, g.dilations, strict=True)
        sizes = tuple((n - 1) * s + (k - 1) * d + 1 for n, s, k, d in axes)
        order = channels_last(problem.x.ndim)
        whole = self.program.scratch((*problem.x.shape[:2], *sizes), problem.x.dtype, order)
        source, inside = problem.x, whole
        for axis, ((begin, _), size) in enumerate(zip(around, sizes, strict=True), 2):
            first, into = max(-begin, 0), max(begin, 0)
            count = min(source.shape[axis] - first, size - into)
            for start, end in ((0, into), (into + count, size)):
                edge = whole.narrow(axis, start, end - start)
                self.program.copy(over(self.point, edge.shape), edge, "pad with the zero point")
            source, inside = source.narrow(axis, first, count), inside.narrow(axis, into, count)
        self.program.copy(source, inside)
        none = (0,) * g.rank
        return replace(problem, x=whole, geometry=replace(g, x=sizes, pads_begin=none, pads_end=none))

    def scales(self, scales: Array) -> View:
        """Returns the products of the weights' scales (OC) and the scale."""
        return self._chained(self.program.constant(scales), ("Multiply", self.scale))

    def corrections(self, problem: ConvProblem, zero: int, positions: tuple[int, ...]) -> list[View]:
        """Returns the sums in s32 of the weights (OC), less their zero point, and the zero point at each position."""
        assert self.point is not None
        point = self.program.scratch(positions, "s32")
        number = elementwise_int.cast(self.program, self.point, "s32")
        self.program.copy(over(number, positions), point, "zero point of each position")
        return [elementwise_int.cast(self.program, self._sums(problem, zero), "s32"), point]

    def rest(self, problem: ConvProblem, zero: int, sums: View) -> View:
        """Returns what the weights' zero point, less what packing subtracts, takes from each position (N, spatial...).

        `sums`: of src over the window of each position.
        """
        count, sums = self._terms(problem), elementwise_int.cast(self.program, sums, "f32")
        factor = self._chained(self.scale, ("Multiply", self._number(-zero * self.weights.attrs["scales"][0])))
        if self.point is None:
            return self._chained(sums, ("Multiply", factor))
        shift = self._chained(elementwise_int.cast(self.program, self.point, "f32"), ("Multiply", self._number(count)))
        return self._chained(sums, ("Subtract", shift), ("Multiply", factor))

    def _terms(self, problem: ConvProblem) -> int:
        return prod(problem.w.shape[2:])

    def _sums(self, problem: ConvProblem, zero: int) -> View:
        """Returns the sums of the weights (OC), in f32, which has them exactly."""
        floats = self.program.converted(problem.w, "f32")
        sums = self.program.scratch((*problem.w.shape[:2], *(1,) * (problem.w.ndim - 2)), "f32")
        fold(self.program, "ReduceSum", floats, sums)
        vector = sums.without_last(problem.w.ndim - 2).merge(0)
        return vector if not zero else self._chained(vector, ("Subtract", self._number(zero * self._terms(problem))))

    def _number(self, value: float) -> View:
        return self.program.constant(np.asarray(value, np.float32))

    def _chained(self, source: View, *ops: tuple[str, View]) -> View:
        target = self.program.like(source, "f32")
        epilogue = tuple(EpilogueOp(kind, {}, (number, view)) for number, (kind, view) in enumerate(ops))
        if not elementwise_group.apply(self.program, source, epilogue, target, "scale of the call"):
            raise RuntimeError("more operands than builtin code takes")
        return target
