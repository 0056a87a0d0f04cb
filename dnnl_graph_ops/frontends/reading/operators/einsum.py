"""Builds Einsum of one or two operands from MatMul, transposes and reshapes."""

from __future__ import annotations

from ....errors import UnsupportedError
from ....graph import Value
from ....shapes import Meta
from ..equation import Axes, axes_of
from ..step import Step
from ..table import ANY, rule, text


def _axes(step: Step) -> Axes:
    return axes_of(step.attr("equation"), [step.meta(i).shape for i in range(step.count)], step.where)


@rule("Einsum", inputs=(1, ANY), equation=text(None), late=lambda step: Meta(_axes(step).shape, step.meta(0).dtype))
def einsum(step: Step) -> Value:
    operands = [step.value(i) for i in range(step.count)]
    terms, wanted, sizes = _axes(step)
    if len(operands) > 2 or any(len({*term}) < len(term) for term in terms):
        raise UnsupportedError(
            f"{step.where}: equation={step.attr('equation')[:60]!r}: one or two operands, no diagonal"
        )
    # an axis of 1 that broadcasts is left out
    pairs = [_narrowed(step, value, term, sizes) for value, term in zip(operands, terms, strict=True)]
    # sum the axes that only this operand has
    others = [{*wanted}.union(*(other for _, other in pairs[:i] + pairs[i + 1 :])) for i in range(len(pairs))]
    kept = [_summed(step, *pair, other) for pair, other in zip(pairs, others, strict=True)]
    if len(kept) == 1:
        value, term = kept[0]
        return _turned(step, value, term, wanted)
    (a, left), (b, right) = kept
    both = [label for label in left if label in right]
    batch, depth = [x for x in both if x in wanted], [x for x in both if x not in wanted]
    rows, columns = [x for x in left if x not in both], [x for x in right if x not in both]
    step.sizes((*b.shape, *a.shape), "operands")

    def shape(*groups: list[str]) -> list[int | None]:
        return [*(sizes[x] for x in batch), *(step.product([sizes[x] for x in group]) for group in groups)]

    a = step.reshape(_turned(step, a, left, [*batch, *rows, *depth]), shape(rows, depth))
    b = step.reshape(_turned(step, b, right, [*batch, *depth, *columns]), shape(depth, columns))
    made = step.reshape(step.op("MatMul", a, b), [sizes[x] for x in (*batch, *rows, *columns)])
    return _turned(step, made, [*batch, *rows, *columns], wanted)


def _narrowed(step: Step, value: Value, term: list[str], sizes: dict[str, int | None]) -> tuple[Value, list[str]]:
    """Returns an operand without its axes of 1 that broadcast."""
    kept = [(label, size) for label, size in zip(term, value.shape, strict=True) if size != 1 or sizes[label] == 1]
    return step.reshape(value, [size for _, size in kept]), [label for label, _ in kept]


def _summed(step: Step, value: Value, term: list[str], kept: set[str]) -> tuple[Value, list[str]]:
    axes = [axis for axis, label in enumerate(term) if label not in kept]
    if not axes:
        return value, term
    return step.op("ReduceSum", value, axes=axes, keep_dims=False), [label for label in term if label in kept]


def _turned(step: Step, value: Value, term: list[str], wanted: list[str]) -> Value:
    order = [term.index(label) for label in wanted]
    return value if order == sorted(order) else step.op("StaticTranspose", value, order=order)
