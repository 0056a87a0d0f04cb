"""Attention in one kernel: two products of matrices, and what is done to the scores between them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import prod
from typing import Any, NamedTuple

import numpy as np

from .._core import kernels
from ..graph import Node, Value
from . import select
from .chain import over
from .matching import Maker, dims, in_rows, order_of, scalar
from .program import Program, View

Array = np.ndarray[Any, Any]
Ints = tuple[int, ...]

# scores from here on down leave nothing of a share beside any other
_HIDDEN = -1e30
# longer ones would want to be computed piece by piece
_MOST_KEYS = 1 << 13
_MOST_MASKS = 2
_COPIED = "of attention"


class Side(NamedTuple):
    """An operand of a product.

    `turned`: its last two axes change places; `lead`: what the others are stretched to.
    """

    value: Value
    turned: bool
    lead: Ints


class Mask(NamedTuple):
    """What is added to scores of a shape; or a condition: `hidden` takes the place of those where it is `where`."""

    value: Value
    shape: Ints
    hidden: float = 0.0
    where: bool | None = None


@dataclass(frozen=True)
class Parts:
    """An attention.

    `zeros`: rows of NaN become zeros; `flipped`: the last two axes of the result have changed places.
    """

    members: tuple[Node, ...]
    q: Side
    k: Side
    v: Side
    masks: tuple[Mask, ...]
    scale: float
    zeros: bool
    result: Value
    flipped: bool

    @property
    def macs(self) -> int:
        keys, depth = _sizes(self.k)
        return prod(dims(self.result)[:-2]) * _sizes(self.q)[0] * keys * (depth + _sizes(self.v)[1])


def parts_of(last: Node, maker: Maker) -> Parts | None:
    """The attention that ends with this product; None where there is none, or none that own code runs."""
    if not _is_product(last):
        return None
    end = next(filter(None, (_end(last, maker, *factors) for factors in _factors(last, maker))), None)
    if end is None:
        return None
    members, shares = end.members, end.shares
    if shares.attrs["axis"] % shares.inputs[0].ndim != shares.inputs[0].ndim - 1:
        return None
    scores = _Scores(maker, members)
    product = scores.walk(shares.inputs[0])
    if product is None or not _is_product(product):
        return None
    sides = [_side(value, maker, members, i < 2) for i, value in enumerate((*product.inputs, end.values))]
    (q, scale), (k, factor), (v, _) = sides
    if not product.attrs.get("transpose_b"):
        k = k._replace(turned=not k.turned)
    v = v._replace(turned=v.turned != end.turned)
    result = last.outputs[0]
    made = Parts(
        tuple(members), q, k, v, tuple(scores.masks), scores.scale * scale * factor, end.zeros, result, end.flipped
    )  # fmt: skip
    return made if _fits(made) else None


class _End(NamedTuple):
    """The last product: of the shares of a SoftMax and of values, which are `turned`, or of both turned: `flipped`."""

    members: list[Node]
    shares: Node
    zeros: bool
    values: Value
    turned: bool
    flipped: bool


def _factors(last: Node, maker: Maker) -> list[tuple[Value, Value, bool, bool, tuple[Node, ...]]]:
    """What may be its shares and values, whether they are turned, whether all is, and what turns the shares."""
    first, second = last.inputs
    if last.attrs.get("transpose_b"):
        return [(first, second, True, False, ()), (second, first, True, True, ())]
    node = maker(second, 1)
    if node is None or node.kind != "StaticTranspose" or not _turns(node):
        return [(first, second, False, False, ())]
    return [(first, second, False, False, ()), (node.inputs[0], first, True, True, (node,))]


def _end(
    last: Node, maker: Maker, given: Value, values: Value, turned: bool, flipped: bool, more: tuple[Node, ...]
) -> _End | None:
    members = [last, *more]
    shares, zeros = _shares(given, maker, members)
    return None if shares is None else _End([*members, shares], shares, zeros, values, turned, flipped)


def _is_product(node: Node) -> bool:
    """Whether a node is a product in every matrix of a batch."""
    if node.kind != "MatMul" or node.attrs.get("transpose_a") or len(node.inputs) > 2:
        return False
    values = (*node.inputs, *node.outputs)
    known = all(value.dtype == "f32" and value.ndim > 2 and all(value.shape) for value in values)
    return known and len({value.shape[:-2] for value in values}) == 1


def _shares(value: Value, maker: Maker, members: list[Node]) -> tuple[Node | None, bool]:
    """The SoftMax whose shares these are, and whether NaN among them become zeros."""
    node = maker(value, 1)
    if node is None or node.kind != "Select":
        return (node if node is not None and _is_softmax(node) else None), False
    condition, *sources = node.inputs
    asked = maker(condition, 1)
    if asked is None:
        return None, False
    number = asked.kind == "GreaterEqual" and scalar(asked.inputs[1]) == 0
    if not number and (asked.host is None or asked.host.title != "IsNaN"):
        return None, False
    # no share is below zero, and NaN is at least nothing
    shares, zero = sources if number else sources[::-1]
    softmax = maker(shares, 2)
    if softmax is None or not _is_softmax(softmax) or scalar(zero) != 0 or asked.inputs[0] is not shares:
        return None, False
    members += (node, asked)
    return softmax, True


def _is_softmax(node: Node) -> bool:
    return node.kind == "SoftMax" and node.attrs.get("mode", "none") == "none" and node.outputs[0].dtype == "f32"


class _Scores:
    """What is done to the scores, from the last step back to the product."""

    def __init__(self, maker: Maker, members: list[Node]) -> None:
        self.maker, self.members = maker, members
        self.masks: list[Mask] = []
        self.scale = 1.0

    def walk(self, value: Value) -> Node | None:
        """The product that scores are made of."""
        node = self.maker(value, 1)
        if node is None:
            return None
        self.members.append(node)
        if node.kind == "MatMul":
            return node
        if node.kind in ("Divide", "Multiply") and (found := _scaled(node)) is not None:
            self.scale *= found[1]
            return self.walk(found[0])
        if node.kind == "StaticReshape" and node.inputs[0].shape[-2:] == value.shape[-2:]:
            return self.walk(node.inputs[0])
        return self._mask(node)

    def _mask(self, node: Node) -> Node | None:
        """A mask, in the numbers of the softmax: nothing scales behind it."""
        shape = dims(node.outputs[0])
        for scores, mask in _masked(node, shape):
            kept = len(self.members), len(self.masks), self.scale
            self.masks.append(mask)
            if self.scale == 1 and scores.shape == shape and (product := self.walk(scores)) is not None:
                return product
            del self.members[kept[0] :], self.masks[kept[1] :]
            self.scale = kept[2]
        return None


def _masked(node: Node, shape: Ints) -> list[tuple[Value, Mask]]:
    """The scores that a node masks, and the mask: as many as could be meant."""
    if node.kind == "Add":
        first, second = node.inputs
        return [(first, Mask(second, shape)), (second, Mask(first, shape))]
    if node.kind != "Select":
        return []
    condition, *sources = node.inputs
    found = []
    for scores, other, where in ((sources[0], sources[1], False), (sources[1], sources[0], True)):
        hidden = scalar(other)
        if hidden is not None and hidden <= _HIDDEN:
            found.append((scores, Mask(condition, shape, hidden, where)))
    return found


def _scaled(node: Node) -> tuple[Value, float] | None:
    """What a node multiplies by one number, or divides."""
    value, other = node.inputs
    if node.kind == "Multiply" and scalar(other) is None:
        value, other = other, value
    number = scalar(other)
    if number is None or value.shape != node.outputs[0].shape or (node.kind == "Divide" and number == 0):
        return None
    return value, (1 / number if node.kind == "Divide" else number)


def _side(value: Value, maker: Maker, members: list[Node], scales: bool) -> tuple[Side, float]:
    """An operand before views, copies of heads and one number for all elements, and that number."""
    turned, factor = False, 1.0
    while (node := maker(value, 1)) is not None and node.outputs[0].dtype == "f32":
        source = node.inputs[0]
        if scales and node.kind in ("Divide", "Multiply") and (found := _scaled(node)) is not None:
            source, number = found
            factor *= number
        elif node.kind == "Pad" and _stretches(node):
            members.append(node)
            return Side(source, turned, dims(value)[:-2]), factor
        elif node.kind == "StaticTranspose" and _turns(node):
            turned = not turned
        elif node.kind != "StaticReshape" or source.shape[-2:] != value.shape[-2:]:
            break
        members.append(node)
        value = source
    return Side(value, turned, dims(value)[:-2]), factor


def _turns(node: Node) -> bool:
    """Whether the last two axes change places, and no other."""
    rank = node.inputs[0].ndim
    return order_of(node) == [*range(rank - 2), rank - 1, rank - 2]


def _stretches(node: Node) -> bool:
    """Whether a Pad repeats what axes before the last two have one element of."""
    if node.attrs["mode"] != "edge" or any(node.attrs["pads_begin"]):
        return False
    pairs = zip(node.inputs[0].shape, node.attrs["pads_end"], strict=True)
    last = node.inputs[0].ndim - 2
    return all(more == 0 or (size == 1 and axis < last) for axis, (size, more) in enumerate(pairs))


def _sizes(side: Side) -> Ints:
    """The last two axes."""
    sizes = dims(side.value)[-2:]
    return sizes[::-1] if side.turned else sizes


def _fits(parts: Parts) -> bool:
    batch = prod(dims(parts.result)[:-2])
    if any(prod(side.lead) != batch for side in (parts.q, parts.k, parts.v)):
        return False
    (rows, depth), (keys, other), (values, width) = (_sizes(side) for side in (parts.q, parts.k, parts.v))
    floats = all(mask.value.dtype == ("f32" if mask.where is None else "boolean") for mask in parts.masks)
    shape = (width, rows) if parts.flipped else (rows, width)
    fits = depth == other and keys == values and shape == dims(parts.result)[-2:]
    changing = sum(mask.value.constant is None for mask in parts.masks)
    return floats and fits and keys <= _MOST_KEYS and changing + (changing < len(parts.masks)) <= _MOST_MASKS


# ---- the group as it is built ----------------------------------------------------------------------------------------


def build(program: Program, parts: Parts, view_of: Callable[[Value], View]) -> int:
    """Append the step; its multiplications."""
    masks = [mask for mask in parts.masks if mask.value.constant is None]
    leading = [side.lead for side in (parts.q, parts.k, parts.v)] + [mask.shape[:-2] for mask in masks]
    # the one in which every other can be seen
    batch = max((*leading, dims(parts.result)[:-2]), key=len)
    q, k, v = (_operand(program, side, batch, view_of) for side in (parts.q, parts.k, parts.v))
    q, v = (in_rows(program, view, _COPIED) for view in (q, v))
    # one number may stand for all keys
    added = [in_rows(program, _mask(program, mask, batch, view_of), _COPIED, (0, 1)) for mask in masks]
    rows, depth = q.shape[-2:]
    keys, width = v.shape[-2:]
    seen: Ints = ()
    known = _known(parts)
    if known is not None:
        lead, array = known
        stretched = over(program.constant(array), (*lead, rows, keys), None)
        added.append(_as_batch(program, stretched, batch))
        seen = _seen(array, alone=not masks)
    dst = view_of(parts.result)
    if parts.flipped:
        dst = _flipped(dst)
    made = dst.reshaped((*batch, rows, width))
    if made is None or (made.strides[-1] != 1 and width > 1):
        made = program.scratch((*batch, rows, width), "f32")
    kernel = kernels.attention(
        batch, rows, keys, depth, width, q.strides, k.strides, v.strides, [view.strides for view in added],
        made.strides, parts.scale, parts.zeros, seen,
    )  # fmt: skip
    program.kernel(kernel, [q, k, v, *added], [made], "attention")
    if made.buffer is not dst.buffer:
        program.copy(made if made.shape == dst.shape else _dense(made, dst.shape), dst, "dst of attention")
    return parts.macs


def _flipped(view: View) -> View:
    return view.permute((*range(view.ndim - 2), view.ndim - 1, view.ndim - 2))


def _dense(view: View, shape: Ints) -> View:
    """A dense view in another shape."""
    found = view.reshaped(shape)
    assert found is not None
    return found


def _operand(program: Program, side: Side, batch: Ints, view_of: Callable[[Value], View]) -> View:
    view = view_of(side.value)
    view = over(view, (*side.lead, *view.shape[-2:]))
    view = _as_batch(program, view, batch)
    return _flipped(view) if side.turned else view


def _as_batch(program: Program, view: View, batch: Ints) -> View:
    """A view by these axes and its last two."""
    found = view.reshaped((*batch, *view.shape[-2:]))
    if found is None:
        found = _dense(program.copied(view, view.dtype, range(view.ndim), _COPIED), (*batch, *view.shape[-2:]))
    return found


def _mask(program: Program, mask: Mask, batch: Ints, view_of: Callable[[Value], View]) -> View:
    """A mask that a call gives, as what is added."""
    view = view_of(mask.value)
    if mask.where is not None:
        numbers = [program.constant(np.asarray(number, np.float32)) for number in (0.0, mask.hidden)]
        chosen = program.scratch(view.shape, "f32")
        select.append(program, [view, *(numbers[::-1] if mask.where else numbers)], chosen, "mask")
        view = chosen
    return _as_batch(program, over(view, mask.shape), batch)


def _known(parts: Parts) -> tuple[Ints, Array] | None:
    """The constant masks as one, and what its axes before the last two are stretched to."""
    total: Array | None = None
    lead: Ints = ()
    for mask in parts.masks:
        array = mask.value.constant
        if array is None:
            continue
        if mask.where is not None:
            array = np.where(array == mask.where, np.float32(mask.hidden), np.float32(0))
        lead = max(lead, mask.shape[:-2], key=len)
        with np.errstate(all="ignore"):
            total = array if total is None else np.asarray(total + array, np.float32)
    if total is None:
        return None
    rows, keys = _sizes(parts.q)[0], _sizes(parts.k)[0]
    # an axis of rows and one of keys
    lacking = (1,) * max(2 - total.ndim, 0)
    total = total.reshape((*lacking, *total.shape))
    return lead, np.broadcast_to(total, (*total.shape[:-2], rows, keys))


def _seen(array: Array, alone: bool) -> Ints:
    """Of each row, the keys from the first on that a constant mask, the same for the whole batch, shows any of."""
    if prod(array.shape[:-2]) != 1:
        return ()
    keys = array.shape[-1]
    # beside other masks, what is not minus infinity may be as much as what these leave
    shown = (array > (_HIDDEN if alone else -np.inf)).reshape(-1, keys)
    last = np.where(shown.any(1), keys - np.argmax(shown[:, ::-1], 1), keys)
    return () if (last == keys).all() else tuple(map(int, last))
