"""Builds Einsum of one or two operands from MatMul, transposes and reshapes."""

from __future__ import annotations

import re

from ....errors import ShapeError, UnsupportedError
from ....graph import Value
from ....shapes import Meta
from ....shapes.registry import Shape
from ..step import Step
from ..table import ANY, rule, text

_TERM = re.compile("[A-Za-z]*")


def _shape(step: Step) -> Meta:
    metas = [step.meta(i) for i in range(step.count)]
    terms, wanted = _terms(step, [meta.shape for meta in metas])
    pairs = [pair for term, meta in zip(terms, metas, strict=True) for pair in zip(term, meta.shape, strict=True)]
    known = {label: size for label, size in pairs if size is not None}
    return Meta(tuple(known.get(label) for label in wanted), metas[0].dtype)


@rule("Einsum", inputs=(1, ANY), equation=text(None), late=_shape)
def einsum(step: Step) -> Value:
    operands = [step.value(i) for i in range(step.count)]
    terms, wanted = _terms(step, [value.shape for value in operands])
    # sum the axes that only this operand has
    others = [{*wanted}.union(*terms[:i], *terms[i + 1 :]) for i in range(len(terms))]
    kept = [_summed(step, *each) for each in zip(operands, terms, others, strict=True)]
    if len(kept) == 1:
        value, term = kept[0]
        return _turned(step, value, term, wanted)
    (a, left), (b, right) = kept
    both = [label for label in left if label in right]
    batch, depth = [x for x in both if x in wanted], [x for x in both if x not in wanted]
    rows, columns = [x for x in left if x not in both], [x for x in right if x not in both]
    sizes = dict(zip((*right, *left), step.sizes((*b.shape, *a.shape), "operands"), strict=True))

    def shape(*groups: list[str]) -> list[int | None]:
        return [*(sizes[x] for x in batch), *(step.product([sizes[x] for x in group]) for group in groups)]

    a = step.reshape(_turned(step, a, left, [*batch, *rows, *depth]), shape(rows, depth))
    b = step.reshape(_turned(step, b, right, [*batch, *depth, *columns]), shape(depth, columns))
    made = step.reshape(step.op("MatMul", a, b), [sizes[x] for x in (*batch, *rows, *columns)])
    return _turned(step, made, [*batch, *rows, *columns], wanted)


def _terms(step: Step, shapes: list[Shape]) -> tuple[list[list[str]], list[str]]:
    """Returns the labels of the operands' axes, and of the result's."""
    equation = (step.attr("equation") or "").replace(" ", "")
    where = f"{step.where}: equation={equation[:60]!r}"
    inputs, arrow, output = equation.partition("->")
    given = inputs.split(",")
    if not all(_TERM.fullmatch(term) for term in (*given, output)) or len(shapes) > 2:
        raise UnsupportedError(f"{where}; one or two operands, with letters for all axes")
    terms = [list(term) for term in given]
    found = [label for term in terms for label in term]
    wanted = list(output) if arrow else sorted(label for label in set(found) if found.count(label) == 1)
    if len(terms) != len(shapes) or any(len(t) != len(s) for t, s in zip(terms, shapes, strict=True)):
        raise ShapeError(f"{where} of shapes {shapes}")
    if not set(wanted) <= set(found) or len(set(wanted)) < len(wanted):
        raise ShapeError(f"{where}: its result has labels twice, or of no operand")
    if any(len(set(term)) < len(term) for term in terms):
        raise UnsupportedError(f"{where}: a diagonal")
    sizes: dict[str, set[int]] = {}
    for label, size in zip(found, (size for shape in shapes for size in shape), strict=True):
        sizes.setdefault(label, set()).update(() if size is None else (size,))
    if any(len(some) > 1 for some in sizes.values()):
        raise ShapeError(f"{where} of shapes {shapes}")
    return terms, wanted


def _summed(step: Step, value: Value, term: list[str], kept: set[str]) -> tuple[Value, list[str]]:
    axes = [axis for axis, label in enumerate(term) if label not in kept]
    if not axes:
        return value, term
    return step.op("ReduceSum", value, axes=axes, keep_dims=False), [label for label in term if label in kept]


def _turned(step: Step, value: Value, term: list[str], wanted: list[str]) -> Value:
    order = [term.index(label) for label in wanted]
    return value if order == sorted(order) else step.op("StaticTranspose", value, order=order)
