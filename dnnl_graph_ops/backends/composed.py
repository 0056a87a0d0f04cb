"""Runs batch norms and gradients of PReLU as reductions and element-wise steps, with f32 in between."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod

import numpy as np

from ..graph import Node
from ..program import elementwise, elementwise_int, select
from ..program.epilogue import EpilogueOp
from ..program.program import Program, View
from .host_ops.common import channel_axis
from .norm import all_floats
from .window import fills_no_vectors, fold

Views = Sequence[View]
# kind and operands of an element-wise op: views, or numbers of results, 0 for the source
Op = tuple[str, View | int, View | int] | tuple[str, int]


def serves(node: Node) -> bool:
    """Whether builtin code computes a node: of floats, and not without elements."""
    return all_floats(node) and 0 not in node.inputs[0].shape


def slow_in_library(node: Node) -> bool:
    """Whether the library loops over single elements of a node, so that builtin code is faster.

    It does so for batch norms with channels first or with channels that fill no vectors, and for gradients of PReLU
    with such channels if they are last, or with a slope that is no vector.
    """
    first = node.attrs["data_format"] == "NCX"
    if node.kind == "PReLUBackward":
        return node.inputs[1].ndim > 1 or (not first and fills_no_vectors(node))
    return first or fills_no_vectors(node)


def _chain(program: Program, label: str, source: View, target: View, *ops: Op) -> View:
    """Appends element-wise ops on `source` as one step, and returns `target`, which the last op writes."""
    if not elementwise.apply(program, source, tuple(EpilogueOp(op[0], {}, op[1:]) for op in ops), target, label):
        raise RuntimeError(f"{label}: more operands than builtin code takes")
    return target


class _Channels:
    """Vectors of the channels of `like`, as views that broadcast over it."""

    def __init__(self, program: Program, node: Node, like: View) -> None:
        self.program, self.label, self.ndim = program, node.kind, like.ndim
        self.axis = channel_axis(like.ndim, node.attrs["data_format"])
        self.size, self.epsilon = like.shape[self.axis], node.attrs.get("epsilon", 0.0)

    def of(self, vector: View) -> View:
        """Returns a vector (C) as a view (1, .., C, .., 1), and other tensors with axes of size 1 in front."""
        view = vector
        if view.shape == (self.size,):
            for _ in range(self.ndim - 1 - self.axis):
                view = view.insert(view.ndim)
        while view.ndim < self.ndim:
            view = view.insert(0)
        return view

    def new(self) -> View:
        return self.of(self.program.scratch((self.size,), "f32"))

    def number(self, value: float) -> View:
        return self.program.constant(np.full((1,) * self.ndim, value, np.float32))

    def compute(self, source: View, *ops: Op) -> View:
        return _chain(self.program, self.label, source, self.new(), *ops)

    def total(self, kind: str, source: View) -> View:
        result = self.new()
        fold(self.program, kind, source, result)
        return result

    def scale(self, variance: View, gamma: View | None) -> View:
        """Returns gamma / sqrt(variance + epsilon), gamma being 1 where there is none."""
        ops: list[Op] = [("Add", 0, self.number(self.epsilon)), ("Sqrt", 1)]
        return self.compute(variance, *ops, ("Divide", self.number(1.0) if gamma is None else gamma, 2))


def _normalise(vectors: _Channels, src: View, target: View, mean: View, scale: View, beta: View | None) -> None:
    ops: list[Op] = [("Subtract", 0, mean), ("Multiply", 1, scale)]
    _chain(vectors.program, vectors.label, src, target, *ops, *([] if beta is None else [("Add", 2, beta)]))


def _batch_norm_inference(program: Program, node: Node, inputs: Views, outputs: Views) -> None:
    vectors = _Channels(program, node, inputs[0])
    gamma, beta, mean, variance = map(vectors.of, inputs[1:])
    _normalise(vectors, inputs[0], outputs[0], mean, vectors.scale(variance, gamma), beta)


def _batch_norm_training(program: Program, node: Node, inputs: Views, outputs: Views) -> None:
    src, vectors = inputs[0], _Channels(program, node, inputs[0])
    old_mean, old_variance, *affine = map(vectors.of, inputs[1:])
    gamma, beta = (*affine, None, None)[:2]
    mean = vectors.total("ReduceMean", src)
    apart = _chain(program, node.kind, src, program.like(src, "f32"), ("SquaredDifference", 0, mean))
    variance = vectors.total("ReduceMean", apart)
    _normalise(vectors, src, outputs[0], mean, vectors.scale(variance, gamma), beta)
    momentum = 0.5 if node.attrs.get("momentum") is None else node.attrs["momentum"]
    kept, taken = vectors.number(momentum), vectors.number(1 - momentum)
    of_batch = {0: mean, 1: variance}
    for number, (old, target) in enumerate(zip((old_mean, old_variance), outputs[1:3], strict=True)):
        ops: list[Op] = [("Multiply", 0, kept), ("Multiply", of_batch[number], taken), ("Add", 1, 2)]
        _chain(program, node.kind, old, vectors.of(target), *ops)
    for source, target in zip((mean, variance), outputs[3:], strict=True):
        program.copy(source, vectors.of(target))


def _batch_norm_gradient(program: Program, node: Node, inputs: Views, outputs: Views) -> None:
    src, diff, *rest = inputs
    vectors = _Channels(program, node, src)
    mean, variance, *affine = map(vectors.of, rest)
    share = vectors.number(vectors.size / max(prod(src.shape), 1))
    apart = _chain(program, node.kind, src, program.like(src, "f32"), ("Subtract", 0, mean), ("Multiply", 1, diff))
    scale, beta = vectors.scale(variance, None), vectors.total("ReduceSum", diff)
    gamma = vectors.compute(vectors.total("ReduceSum", apart), ("Multiply", 0, scale))
    shift = vectors.compute(beta, ("Multiply", 0, share))
    slope = vectors.compute(gamma, ("Multiply", 0, scale), ("Multiply", 1, share))
    factor = vectors.compute(scale, ("Multiply", 0, affine[0])) if affine else scale
    ops: list[Op] = [("Subtract", 0, mean), ("Multiply", 1, slope), ("Add", 2, shift), ("Subtract", diff, 3)]
    _chain(program, node.kind, src, outputs[0], *ops, ("Multiply", 4, factor))
    for source, target in zip((gamma, beta), outputs[1:], strict=False):
        program.copy(source, vectors.of(target))


def _prelu_gradient(program: Program, node: Node, inputs: Views, outputs: Views) -> None:
    (src, slope, diff), (to_src, to_slope), label = inputs, outputs, node.kind
    vectors = _Channels(program, node, src)
    slope, to_slope = map(vectors.of, (slope, to_slope))
    positive = program.scratch(src.shape, "boolean")
    elementwise_int.append(program, "greater", [program.converted(src, "f32"), vectors.number(0.0)], positive, label)
    scaled = _chain(program, label, diff, program.like(diff, diff.dtype), ("Multiply", 0, slope))
    select.append(program, [positive, diff, scaled], to_src, label)
    share = _chain(program, label, src, program.like(src, "f32"), ("Multiply", 0, diff))
    kept, total = program.like(src, "f32"), program.scratch(to_slope.shape, "f32")
    select.append(program, [positive, vectors.number(0.0), share], kept, label)
    fold(program, "ReduceSum", kept, total)
    program.copy(total, to_slope)


BUILDERS: dict[str, Callable[[Program, Node, Views, Views], None]] = {
    "BatchNormForwardTraining": _batch_norm_training,
    "BatchNormInference": _batch_norm_inference,
    "BatchNormTrainingBackward": _batch_norm_gradient,
    "PReLUBackward": _prelu_gradient,
}
