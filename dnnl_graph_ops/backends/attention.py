"""Runs attention as one kernel: softmax(scale q k' + masks) v, found as the ops that compute it in a graph.

q is (batch..., rows, depth), k (batch..., keys, depth), v (batch..., keys, width); the scores q k' and the shares that
SoftMax makes of them are (batch..., rows, keys).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import takewhile
from math import prod
from typing import Any, NamedTuple

import numpy as np

from .. import dtypes
from ..algorithms.lower import Decision
from ..graph import Node, Value
from ..ir import dims, order_of, scalar
from ..ir.env import Env
from ..ir.rewrites import ALONE, No, Rewrite
from ..program import elementwise, select
from ..program.elementwise import over
from ..program.epilogue import EpilogueOp
from ..program.program import Edge, NativeOp, Program, View
from ..runtime.cpu import computes_natively
from ..schema import kinds
from ..symbolic import kernels
from .backend import Backend, FusionGroup, Lowering, Maker
from .movement import in_rows

Array = np.ndarray[Any, Any]
Ints = tuple[int, ...]

# a score of this or less has a share of 0 compared with any other score
_HIDDEN = -1e30
# rows of more scores would have to be computed piece by piece
_MOST_KEYS = 1 << 13
_MOST_MASKS = 2
# scores that two products have between them at a time, as they stay in a cache
_SCORES = 1 << 20
_COPIED = "of attention"
_SCALING = kinds("scales_by")
FUSE_ATTENTION = Rewrite(
    "fuse_attention",
    "a product, a SoftMax of its scaled and masked scores, and a product with values run as one",
    (
        *ALONE,
        "both products have equal batch axes and no bias",
        "SoftMax is over the keys",
        "scores are scaled by numbers, then masked",
        "keys and masks are few",
        "conditions mask scores of one shape",
    ),
)


class Side(NamedTuple):
    """An operand of a product: `value`, with the last two axes transposed if `turned`.

    `lead`: the sizes to which the axes before the last two are broadcast.
    """

    value: Value
    turned: bool
    lead: Ints


class Mask(NamedTuple):
    """A mask of scores of a `shape`.

    If `where` is None, `value` is added to the scores; otherwise scores become `hidden` where `value` equals `where`.
    """

    value: Value
    shape: Ints
    hidden: float = 0.0
    where: bool | None = None

    @property
    def known(self) -> bool:
        return self.value.is_constant


@dataclass(frozen=True)
class Parts:
    """The nodes of an attention, its operands, and how its scores are scaled and masked.

    `masks`: from the mask that is applied last to the first. `zeros`: the rows of the shares that become zeros: "none",
    "nan" (rows of NaN) or "unseen" (rows whose scores all are -Inf). `flipped`: whether the result has its last two
    axes transposed.
    """

    members: tuple[Node, ...]
    q: Side
    k: Side
    v: Side
    masks: tuple[Mask, ...]
    scale: float
    zeros: str
    result: Value
    flipped: bool

    @property
    def added(self) -> list[list[Mask]]:
        """The masks in the order in which they are applied, in lists; each list becomes one addend of the scores.

        Constant masks to add, of one shape, share a list. A condition replaces scores together with what
        earlier masks added to them, so it goes into their list: a list of its own, whose addend is added to theirs,
        would give other shares in rows where all keys are hidden.
        """
        entries: list[list[Mask]] = []
        for mask in reversed(self.masks):
            alike = [
                entry for entry in entries if mask.known and all(one.known and one.shape == mask.shape for one in entry)
            ]
            if mask.where is not None and len(entries) == 1:
                entries[0].append(mask)
            elif mask.where is None and alike:
                alike[0].append(mask)
            else:
                entries.append([mask])
        return entries

    @property
    def macs(self) -> int:
        keys, depth = _sizes(self.k)
        return prod(dims(self.result)[:-2]) * _sizes(self.q)[0] * keys * (depth + _sizes(self.v)[1])


def parts_of(last: Node, maker: Maker, no: No) -> Parts | None:
    """Returns the attention that ends with the MatMul `last`; None if there is none that the kernel computes.

    A TypeCast after the MatMul, and those in front of its operands, are parts as well.
    """
    if last.kind == "TypeCast":
        product = maker(last.inputs[0], 1)
        found = None if product is None or product.kind != "MatMul" else parts_of(product, maker, no)
        return found and replace(found, members=(*found.members, last), result=last.outputs[0])
    if last.kind != "MatMul":
        return None
    if not _is_product(last):
        return no("both products have equal batch axes and no bias")
    for way in _factors(last, maker):
        factor, *_, transposes = way
        members = [last, *transposes]
        shares, zeros = _shares(factor, maker, members)
        if shares is not None:
            break
    if shares is None:
        return None
    _, values, turned, flipped, _ = way
    members.append(shares)
    if shares.attrs["axis"] % shares.inputs[0].ndim != shares.inputs[0].ndim - 1:
        return no("SoftMax is over the keys")
    scores = _Scores(maker, members)
    # the ReduceMax that tells rows without a key reads the scores as well
    product = scores.walk(shares.inputs[0], 2 if zeros == "unseen" else 1)
    if product is None:
        return no("scores are scaled by numbers, then masked")
    if not _is_product(product):
        return no("both products have equal batch axes and no bias")
    sides = [_side(value, maker, members, i < 2) for i, value in enumerate((*product.inputs, values))]
    (q, q_scale), (k, k_scale), (v, _) = sides
    if not product.attrs.get("transpose_b"):
        k = k._replace(turned=not k.turned)
    v = v._replace(turned=v.turned != turned)
    scale = scores.scale * q_scale * k_scale
    parts = Parts(tuple(members), q, k, v, tuple(scores.masks), scale, zeros, last.outputs[0], flipped)
    return parts if _fits(parts, no) else None


def _factors(last: Node, maker: Maker) -> list[tuple[Value, Value, bool, bool, tuple[Node, ...]]]:
    """Returns the ways to read the last product, since each factor may be the shares of a SoftMax.

    A way is (shares, values, whether values are transposed, (width, keys), whether the result is, as a product of
    values and shares transposed, the nodes that transpose).
    """
    first, second = last.inputs
    if last.attrs.get("transpose_b"):
        return [(first, second, True, False, ()), (second, first, True, True, ())]
    node = maker(second, 1)
    if node is None or node.kind != "StaticTranspose" or not _turns(node):
        return [(first, second, False, False, ())]
    return [(first, second, False, False, ()), (node.inputs[0], first, True, True, (node,))]


def _is_product(node: Node) -> bool:
    """Whether a node is a MatMul in f32 without a bias or transpose_a, whose tensors have equal batch axes."""
    if node.kind != "MatMul" or node.attrs.get("transpose_a") or len(node.inputs) > 2:
        return False
    values = (*node.inputs, *node.outputs)
    fits = all(value.dtype == "f32" and value.ndim > 2 and all(value.shape) for value in values)
    return fits and len({value.shape[:-2] for value in values}) == 1


def _shares(value: Value, maker: Maker, members: list[Node]) -> tuple[Node | None, str]:
    """Returns the SoftMax that computes `value`, or None, and which of its rows a Select replaces by zeros.

    The nodes of such a Select are added to `members`.
    """
    node = maker(value, 1)
    if node is None or node.kind != "Select":
        return (node if node is not None and _is_softmax(node) else None), "none"
    condition, *sources = node.inputs
    asked = maker(condition, 1)
    if asked is None:
        return None, "none"
    if asked.kind == "GreaterEqual" and scalar(asked.inputs[0]) == -np.inf:
        return _unseen(node, asked, maker, members), "unseen"
    number = asked.kind == "GreaterEqual" and scalar(asked.inputs[1]) == 0
    if not number and (asked.host is None or asked.host.title != "IsNaN"):
        return None, "none"
    # Shares are never negative, so share >= 0 is false of NaN alone.
    shares, zero = sources if number else sources[::-1]
    softmax = maker(shares, 2)
    if softmax is None or not _is_softmax(softmax) or scalar(zero) != 0 or asked.inputs[0] is not shares:
        return None, "none"
    members += (node, asked)
    return softmax, "nan"


def _unseen(node: Node, asked: Node, maker: Maker, members: list[Node]) -> Node | None:
    """Returns the SoftMax of Select(-Inf >= ReduceMax(scores), 0, SoftMax(scores)), or None."""
    _, zero, shares = node.inputs
    softmax, largest = maker(shares, 1), maker(asked.inputs[1], 1)
    if softmax is None or largest is None or not _is_softmax(softmax) or scalar(zero) != 0:
        return None
    scores = softmax.inputs[0]
    last = [axis % scores.ndim for axis in largest.attrs.get("axes", ())] == [scores.ndim - 1]
    if largest.kind != "ReduceMax" or largest.inputs[0] is not scores or not last or not largest.attrs.get("keep_dims"):
        return None
    members += (node, asked, largest)
    return softmax


def _is_softmax(node: Node) -> bool:
    return node.kind == "SoftMax" and node.attrs.get("mode", "none") == "none" and node.outputs[0].dtype == "f32"


class _Scores:
    """Follows the scores from SoftMax back to the product q k', and collects scale, masks and nodes on the way."""

    def __init__(self, maker: Maker, members: list[Node]) -> None:
        self.maker, self.members = maker, members
        self.masks: list[Mask] = []
        self.scale = 1.0

    def walk(self, value: Value, reads: int = 1) -> Node | None:
        """Returns the MatMul whose result is scaled and masked to the scores `value`; None where there is none.

        `reads`: the number of readers of `value` in the attention.
        """
        node = self.maker(value, reads)
        if node is None:
            return None
        self.members.append(node)
        if node.kind == "MatMul":
            return node
        if (found := _scaled(node)) is not None:
            self.scale *= found[1]
            return self.walk(found[0])
        if node.kind == "StaticReshape" and node.inputs[0].shape[-2:] == value.shape[-2:]:
            return self.walk(node.inputs[0])
        return self._mask(node)

    def _mask(self, node: Node) -> Node | None:
        """Follows a node back as one that masks scores; returns the MatMul, or None without leaving a trace.

        A scale after the mask would scale the mask as well, so there must be none.
        """
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
    """Returns the ways to read a node as a mask, each as (scores, mask): either operand of an Add may be the scores."""
    if node.kind == "Add":
        first, second = node.inputs
        return [(first, Mask(second, shape)), (second, Mask(first, shape))]
    if node.kind != "Select":
        return []
    condition, first, second = node.inputs
    ways = ((first, scalar(second), False), (second, scalar(first), True))
    return [
        (scores, Mask(condition, shape, hidden, where))
        for scores, hidden, where in ways
        if hidden is not None and hidden <= _HIDDEN
    ]


def _scaled(node: Node) -> tuple[Value, float] | None:
    """Returns the operand that a Multiply or Divide scales by one number, and that factor; None otherwise."""
    if node.kind not in _SCALING:
        return None
    value, other = node.inputs
    if node.kind == "Multiply" and scalar(other) is None:
        value, other = other, value
    number = scalar(other)
    if number is None or value.shape != node.outputs[0].shape or (node.kind == "Divide" and number == 0):
        return None
    return value, (1 / number if node.kind == "Divide" else number)


def _side(value: Value, maker: Maker, members: list[Node], scales: bool) -> tuple[Side, float]:
    """Follows an operand of a product back to a value that the kernel can read; returns its Side and its scale.

    Skipped are transposes of the last two axes, reshapes of the others, a Pad that repeats heads, a TypeCast from 16
    bits, and, if `scales`, multiplications by a number; their nodes are added to `members`.
    """
    turned, factor = False, 1.0
    while (node := maker(value, 1)) is not None and node.outputs[0].dtype == "f32":
        source = node.inputs[0]
        if scales and (found := _scaled(node)) is not None:
            source, number = found
            factor *= number
        elif node.kind == "Pad" and _stretches(node):
            members.append(node)
            return Side(source, turned, dims(value)[:-2]), factor
        elif node.kind == "StaticTranspose" and _turns(node):
            turned = not turned
        elif node.kind == "TypeCast":
            members.append(node)
            return Side(source, turned, dims(value)[:-2]), factor
        elif node.kind != "StaticReshape" or source.shape[-2:] != value.shape[-2:]:
            break
        members.append(node)
        value = source
    return Side(value, turned, dims(value)[:-2]), factor


def _turns(node: Node) -> bool:
    """Whether a StaticTranspose exchanges the last two axes and keeps the others."""
    rank = node.inputs[0].ndim
    return order_of(node) == [*range(rank - 2), rank - 1, rank - 2]


def _stretches(node: Node) -> bool:
    """Whether a Pad repeats the single element of axes before the last two, as grouped heads of keys are repeated."""
    if node.attrs["mode"] != "edge" or any(node.attrs["pads_begin"]):
        return False
    pairs = zip(node.inputs[0].shape, node.attrs["pads_end"], strict=True)
    last = node.inputs[0].ndim - 2
    return all(more == 0 or (size == 1 and axis < last) for axis, (size, more) in enumerate(pairs))


def _sizes(side: Side) -> Ints:
    """Returns the last two sizes of an operand as the product reads it, after `turned`."""
    sizes = dims(side.value)[-2:]
    return sizes[::-1] if side.turned else sizes


def _fits(parts: Parts, no: No) -> bool:
    (rows, depth), (keys, other), (values, width) = (_sizes(side) for side in (parts.q, parts.k, parts.v))
    entries = parts.added
    unmet = ""
    if keys > _MOST_KEYS or len(entries) > _MOST_MASKS:
        unmet = "keys and masks are few"
    elif any(mask.shape != entry[0].shape for entry in entries for mask in entry if mask.where is not None):
        unmet = "conditions mask scores of one shape"
    if unmet:
        no(unmet)
    shape = (width, rows) if parts.flipped else (rows, width)
    return not unmet and depth == other and keys == values and shape == dims(parts.result)[-2:]


# ---- the group as it is built ----------------------------------------------------------------------------------------


def build(lowering: Lowering, group: FusionGroup) -> Decision:
    """Appends the attention kernel of a group, and copies of operands and of the result where strides need them."""
    program, view_of, parts = lowering.program, lowering.view, group.match
    entries = parts.added
    lowering.macs += parts.macs
    if _is_narrow(parts, lowering.env):
        return _by_products(lowering, parts)
    leading = [side.lead for side in (parts.q, parts.k, parts.v)] + [entry[0].shape[:-2] for entry in entries]
    # the finest division of the batch into axes: all operands are read by it
    batch = max((*leading, dims(parts.result)[:-2]), key=len)
    q, k, v = (
        program.converted(_operand(program, side, batch, view_of), "f32") for side in (parts.q, parts.k, parts.v)
    )
    q, v = (in_rows(program, view, _COPIED) for view in (q, v))
    rows, depth = q.shape[-2:]
    keys, width = v.shape[-2:]
    seen: Ints = ()
    added = []
    for entry in entries:
        if all(mask.known for mask in entry):
            array = _total(entry)
            seen = _seen(array, rows, keys, alone=len(entries) == 1)
            view = program.constant(array)
        else:
            view = _chosen(program, entry, view_of)
        stretched = _as_batch(program, over(view, entry[0].shape), batch)
        # a stride of 0: one number stands for all keys
        added.append(in_rows(program, stretched, _COPIED, (0, 1)))
    dst = _flipped(view_of(parts.result)) if parts.flipped else view_of(parts.result)
    written = dst.reshaped((*batch, rows, width))
    if written is None or written.dtype != "f32" or (written.strides[-1] != 1 and width > 1):
        written = program.scratch((*batch, rows, width), "f32")
    kernel = kernels.attention(
        batch, rows, keys, depth, width, q.strides, k.strides, v.strides, [view.strides for view in added],
        written.strides, parts.scale, parts.zeros, seen,
    )  # fmt: skip
    program.kernel(kernel, [q, k, v, *added], [written], "attention")
    if written.buffer is not dst.buffer:
        program.copy(_dense(written, dst.shape), dst, "dst of attention")
    return Decision("builtin kernel", group.nodes[0].outputs[0].dtype)


def _is_narrow(parts: Parts, env: Env) -> bool:
    """Whether all operands and the result are bf16, whose products the library computes by instructions for bf16."""
    values = (parts.q.value, parts.k.value, parts.v.value, parts.result)
    plain = parts.zeros == "none" and not parts.flipped and all(mask.value.dtype == "f32" for mask in parts.masks)
    return plain and {value.dtype for value in values} == {"bf16"} and computes_natively("bf16", env.engine)


def _by_products(lowering: Lowering, parts: Parts) -> Decision:
    """Appends an attention in bf16 as two products of the library with a softmax between, for some heads at a time.

    Scores are f32: the first product is one of f32 numbers that are exact in bf16. As in PyTorch's kernels, the shares
    are rounded to bf16.
    """
    program, view_of = lowering.program, lowering.view
    lead = dims(parts.result)[:-2]

    def operand(side: Side, dtype: str) -> View:
        view = _operand(program, side, lead, view_of)
        plain = view.row_major and view.dtype == dtype
        return _heads(view if plain else program.copied(view, dtype, range(view.ndim), _COPIED))

    q, k, v = operand(parts.q, "f32"), operand(parts.k, "f32"), operand(parts.v, "bf16")
    shape = (*lead, q.shape[-2], k.shape[-2])
    added = []
    for entry in parts.added:
        known = all(mask.known for mask in entry)
        mask = over(program.constant(_total(entry)) if known else _chosen(program, entry, view_of), shape)
        added.append(
            mask.reshaped((prod(lead), *shape[-2:])) or _heads(program.copied(mask, "f32", range(mask.ndim), _COPIED))
        )
    dst = view_of(parts.result)
    result = dst if dst.row_major else program.scratch(dst.shape, "bf16")
    count = max(_SCORES // prod(shape[-2:]), 1)
    for start in range(0, prod(lead), count):
        some = (view.narrow(0, start, min(count, prod(lead) - start)) for view in (q, k, v, _heads(result), *added))
        _some_heads(program, parts.scale, *some)
    if result is not dst:
        program.copy(result, dst, "dst of attention")
    return Decision("native", "bf16")


def _heads(view: View) -> View:
    """Returns a row-major view (batch..., rows, columns) as (heads, rows, columns)."""
    return _dense(view, (prod(view.shape[:-2]), *view.shape[-2:]))


def _some_heads(program: Program, scale: float, q: View, k: View, v: View, dst: View, *masks: View) -> None:
    """Appends the attention of row-major q, k (heads, rows or keys, depth) in f32 and v, dst in bf16."""
    shape = (q.shape[0], q.shape[1], k.shape[1])
    scores, shares, products = program.scratch(shape, "f32"), program.scratch(shape, "bf16"), Edge(shape, "f32")
    factor = program.constant(np.full((1, 1, 1), scale, np.float32))
    multiply = NativeOp("Multiply", {"auto_broadcast": "numpy"}, (products, factor), (scores,), "scores")
    flags = {"transpose_a": False, "transpose_b": True}
    program.native([NativeOp("MatMul", flags, (q, k), (products,), "products"), multiply], "MatMul", fpmath="bf16")
    for mask in masks:
        masked = program.scratch(shape, "f32")
        elementwise.apply(program, scores, (EpilogueOp("Add", {}, (0, mask)),), masked, "mask")
        scores = masked
    codes, strides = dtypes.CODES, scores.strides
    kernel = kernels.softmax(shape, 2, codes["f32"], strides, codes["bf16"], strides, False)
    program.kernel(kernel, [scores], [shares], "SoftMax")
    flags = {"transpose_a": False, "transpose_b": False}
    program.native([NativeOp("MatMul", flags, (shares, v), (dst,), "attention")], "MatMul")


def _flipped(view: View) -> View:
    return view.permute((*range(view.ndim - 2), view.ndim - 1, view.ndim - 2))


def _dense(view: View, shape: Ints) -> View:
    reshaped = view.reshaped(shape)
    assert reshaped is not None
    return reshaped


def _operand(program: Program, side: Side, batch: Ints, view_of: Callable[[Value], View]) -> View:
    view = view_of(side.value)
    view = _as_batch(program, over(view, (*side.lead, *view.shape[-2:])), batch)
    return _flipped(view) if side.turned else view


def _as_batch(program: Program, view: View, batch: Ints) -> View:
    """Reshapes a view to (*batch, last two axes), on a dense copy where its strides do not allow that."""
    batched = view.reshaped((*batch, *view.shape[-2:]))
    if batched is None:
        batched = _dense(program.copied(view, view.dtype, range(view.ndim), _COPIED), (*batch, *view.shape[-2:]))
    return batched


def _chosen(program: Program, masks: Sequence[Mask], view_of: Callable[[Value], View]) -> View:
    """Combines masks, some of them known at the call only, into one that is added to the scores; returns its view."""
    constant = list(takewhile(lambda mask: mask.known, masks))
    sums = program.constant(_total(constant))
    for mask in masks[len(constant) :]:
        view = view_of(mask.value)
        if mask.where is None:
            sums = view
            continue
        hidden = program.constant(np.asarray(mask.hidden, np.float32))
        masked = program.scratch(np.broadcast_shapes(view.shape, sums.shape), "f32")
        select.append(program, [view, *((hidden, sums) if mask.where else (sums, hidden))], masked, "mask")
        sums = masked
    return sums


def _total(masks: Sequence[Mask]) -> Array:
    """Combines constant masks, in the order in which they are applied, into one array that is added to the scores."""
    total: Array = np.zeros((), np.float32)
    for mask in masks:
        array = mask.value.constant
        assert array is not None
        with np.errstate(all="ignore"):
            total = total + array if mask.where is None else np.where(array == mask.where, mask.hidden, total)
        total = np.asarray(total, np.float32)
    return total


def _seen(array: Array, rows: int, keys: int, alone: bool) -> Ints:
    """Returns for each row of scores the number of keys, counted from the first, after which a constant mask hides all.

    The kernel skips the keys after: of a causal mask 1, 2, 3, ... keys remain. Returns () where no key can be skipped,
    or where the mask differs within the batch. `alone`: whether there is no other mask.
    """
    if prod(array.shape[:-2]) != 1:
        return ()
    # with another mask only -inf hides a key for certain: the other may lower all other scores as far
    shown = np.broadcast_to(array > (_HIDDEN if alone else -np.inf), (*array.shape[:-2], rows, keys)).reshape(-1, keys)
    last = np.where(shown.any(1), keys - np.argmax(shown[:, ::-1], 1), keys)
    return () if (last == keys).all() else tuple(map(int, last))


def _order(group: FusionGroup) -> Sequence[int] | None:
    """Returns the order in which the kernel writes a flipped result: the last axis but one has stride 1; else None."""
    rank = group.result.ndim
    return [*range(rank - 2), rank - 1, rank - 2] if group.match.flipped else None


ATTENTION: Backend = Backend(
    "attention",
    build,
    find=lambda search: search.take_pattern(ATTENTION, FUSE_ATTENTION, parts_of),
    takes_any_strides=True,
    order=_order,
)
