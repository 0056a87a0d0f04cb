"""Compiles element-wise ops as steps of their own for builtin kernels."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np

from .. import dtypes
from ..graph import Node, Value
from ..ir import is_open
from ..ir.env import Env
from ..schema import POST_OPS, kinds
from . import epilogue as post
from .element_ops import FLOATS, INTEGERS, MOST_OPERANDS, OPS, Op, code_of
from .epilogue import Epilogue
from .kernel_post_ops import calls_of
from .post_op_errors import ALONE, HEADS, refusal
from .program import Program, View, order_of

_BY_CHANNEL = kinds("by_channel")
_FIXED_SCALES = kinds("fixed_scales")


def is_quantizing(node: Node) -> bool:
    """Whether builtin code can compute a node: a Dequantize or Quantize by tensor or channel between s8 or u8 and f32.

    Steps of builtin code read and write the integers, and round to nearest, ties to even.
    """
    if node.kind not in _FIXED_SCALES or node.attrs["qtype"] not in ("per_tensor", "per_channel"):
        return False
    ends = node.inputs[0].dtype, node.outputs[0].dtype
    narrow, wide = ends if node.kind == "Dequantize" else ends[::-1]
    return narrow in INTEGERS and wide == "f32"


Numbers = tuple[float, ...]
Array = np.ndarray[Any, Any]


def _quantizing_ops(kind: str, scales: Numbers, points: Numbers) -> list[tuple[Op, Numbers]]:
    """Returns the f32 ops of a Dequantize or Quantize in order, each with the numbers of its second operand, if any."""
    if kind == "Dequantize":
        shift = _scalar("linear", "subtract", points, 1.0, -points[0])
        return [*(shift if any(points) else []), *_scalar("linear", "multiply", scales, scales[0], 0.0)]
    # rounded before the zero point is added: ties to even after adding an odd one would be ties to odd
    shift = [(Op("round"), ()), *_scalar("linear", "add", points, 1.0, points[0])]
    return [(Op("divide"), scales), *(shift if any(points) else [])]


def _scalar(one: str, several: str, numbers: Numbers, alpha: float, beta: float) -> list[tuple[Op, Numbers]]:
    """Returns the op `one` with `alpha` and `beta` for a single number, else the op `several` on a number a channel.

    The op `one` is linear, alpha * x + beta, and needs no second operand.
    """
    return [(Op(one, alpha, beta), ())] if len(numbers) == 1 else [(Op(several), numbers)]


def apply(program: Program, source: View, epilogue: Epilogue, dst: View, label: str) -> bool:
    """Appends post-ops on `source` as one step of builtin code that writes `dst`; returns False if it cannot.

    The step reads `source` in its dtype and strides. It cannot where an op is missing or registers are too few; nothing
    is appended then.
    """
    if any(op.kind not in OPS for op in epilogue):
        return False
    views, calls = calls_of(epilogue)
    operands = [source, *(over(view, dst.shape, 1) for view in views)]
    # the source, which is number 0 in `calls`, becomes -1, the first tensor that the step reads
    moved = [call.on(-1 if o == 0 else o - 1 if o < 0 else o for o in call.operands) for call in calls]
    return _append(program, moved, operands, dst, label)


def apply_apart(program: Program, source: View, epilogue: Epilogue, dst: View, env: Env) -> None:
    """Appends post-ops on `source` as separate steps that write `dst`.

    Builtin code computes them where it is allowed, or where the library computes one of them badly; else the library.
    """
    own = env.prefers_builtin or (env.engine.on_host and post.refusals(epilogue, env, ALONE, source.dtype))
    if not (own and apply(program, source, epilogue, dst, "post-ops")):
        post.apply(program, source, epilogue, dst)


def far_off(node: Node, env: Env) -> str:
    """Returns why builtin code computes an element-wise node of floats where it is not preferred; "" if it does not.

    It does where the library is far off, alone or after a product. Where builtin code is preferred, post-ops and
    groups ask for themselves.
    """
    dtype = node.outputs[0].dtype
    if env.prefers_builtin or node.kind not in POST_OPS or dtype not in FLOATS or not env.engine.on_host:
        return ""
    return next(filter(None, (refusal(node.kind, node.attrs, head, dtype, env) for head in HEADS)), "")


def takes(nodes: Sequence[Node], env: Env) -> bool:
    """Whether builtin code can compute the nodes as one step, if other nodes read only the last node's result."""
    plain = [node for node in nodes if not is_quantizing(node)]
    preferred = env.prefers_builtin or (len(nodes) == 1 and far_off(nodes[0], env))
    if not preferred or any(node.kind not in OPS for node in plain) or is_open(nodes):
        return False
    if any(value.dtype not in FLOATS for node in plain for value in (*node.inputs, *node.outputs)):
        return False
    shape = nodes[-1].outputs[0].shape
    if any(node.outputs[0].shape != shape and not broadcasts(node, nodes) for node in nodes):
        return False
    operands, calls = _of_nodes(nodes)
    return len(operands) <= MOST_OPERANDS and code_of(tuple(calls), head=False) is not None


def broadcasts(node: Node, readers: Iterable[Node]) -> bool:
    """Whether one step may compute a node and its readers, whose results are larger: a Dequantize of an operand.

    The step reads the integers again for each element of the readers' results.
    """
    value = node.outputs[0]
    by_axis = (reader for reader in readers if channel_axis(reader) is not None)
    return (
        node.kind == "Dequantize" and is_quantizing(node) and all(reader.inputs[1] is not value for reader in by_axis)
    )


def build(
    program: Program, nodes: Sequence[Node], view_of: Callable[[Value], View], label: str, turned: bool = False
) -> None:
    """Appends the nodes of an element-wise group to `program` as one step; `view_of` gives the view of each tensor.

    `turned`: the result is computed in the order of the first operand, and copied.
    """
    operands, calls = _of_nodes(nodes)
    dst = view_of(nodes[-1].outputs[0])
    views = [
        # a scale for all elements becomes a view without axes, as the tensor may have no axis, either
        over(program.constant(np.asarray(value if axis is not None else value[0], np.float32)), dst.shape, axis)
        if isinstance(value, tuple)
        else over(view_of(value), dst.shape, axis)
        for value, axis in operands
    ]
    result = program.scratch(dst.shape, dst.dtype, order_of(views[0])) if turned else dst
    if not _append(program, calls, views, result, label):
        raise RuntimeError(f"{label}: more operands than builtin code takes")
    if turned:
        program.copy(result, dst, "copy in another order")


def convert(program: Program, kind: str, source: View, dst: View, scales: Array, points: Array) -> None:
    """Appends a Dequantize or Quantize of `source` as one step; scales and zero points in f32 broadcast over dst."""
    calls: list[Op] = []
    operands = [source]
    for op, numbers in _quantizing_ops(kind, tuple(scales.flat), tuple(points.flat)):
        if numbers:
            numbers_as_tensor = np.asarray(numbers, np.float32).reshape(scales.shape)
            operands.append(over(program.constant(numbers_as_tensor), dst.shape))
        more = [-len(operands)] if numbers else []
        calls.append(op.on((len(calls) or -1, *more)))
    if not _append(program, calls, operands, dst, kind):
        raise RuntimeError(f"{kind}: more operands than builtin code takes")


class Integers(NamedTuple):
    """A tensor of 8 bits of which an integer stands for (integer - zero) * scale."""

    view: View
    scale: float
    zero: int

    @property
    def numbers(self) -> tuple[Numbers, Numbers]:
        return (float(np.float32(self.scale)),), (float(self.zero),)


def add(program: Program, left: Integers, right: Integers, bound: post.EpilogueOp | None, to: Integers) -> None:
    """Appends the sum of two dequantized tensors, a ReLU or Clamp or none, and the Quantize of the sum, as one step."""
    calls: list[Op] = []

    def append(ops: Iterable[Op], number: int) -> int:
        for op in ops:
            calls.append(op.on((number,)))
            number = len(calls)
        return number

    sides = [
        append((op for op, _ in _quantizing_ops("Dequantize", *side.numbers)), number)
        for side, number in ((left, -1), (right, -2))
    ]
    calls.append(Op("add").on(sides))
    total = len(calls) if bound is None else append((OPS[bound.kind](bound.attrs),), len(calls))
    operands = [left.view, right.view]
    for op, numbers in _quantizing_ops("Quantize", *to.numbers):
        more = (-1 - len(operands),) if numbers else ()
        operands += [over(program.constant(np.float32(number)), to.view.shape) for number in numbers]
        calls.append(op.on((total, *more)))
        total = len(calls)
    if not _append(program, calls, operands, to.view, "Add + Quantize"):
        raise RuntimeError("a sum of integers has more operands than builtin code takes")


def _of_nodes(nodes: Sequence[Node]) -> tuple[list[tuple[Value | Numbers, int | None]], list[Op]]:
    """Returns operands and ops of nodes; a vector of channels comes with its axis, other operands with None."""
    results: dict[Value, int] = {}
    operands: dict[tuple[Value | Numbers, int | None], int] = {}
    calls: list[Op] = []
    within = {value for node in nodes for value in node.inputs}
    fake = _fake_quantizes(nodes)
    for node in nodes:
        numbers = []
        for index, value in enumerate(node.inputs):
            if value in results:
                numbers.append(results[value])
                continue
            operand = (value, channel_axis(node) if index == 1 else None)
            numbers.append(-1 - operands.setdefault(operand, len(operands)))
        if node.inputs[0] in fake and node.kind == "Dequantize":
            results[node.outputs[0]] = results[node.inputs[0]]
            continue
        if is_quantizing(node):
            scales, points = (tuple(map(float, node.attrs.get(name) or (0.0,))) for name in ("scales", "zps"))
            ops = _quantizing_ops(node.kind, scales, points)
            limits = np.iinfo(dtypes.numpy_dtype(node.outputs[0].dtype)) if node.kind == "Quantize" else None
            if node.outputs[0] in fake and limits is not None:
                ops = [(Op("fake_quantize", limits.min - points[0], limits.max - points[0]), scales)]
            elif limits is not None and node.outputs[0] in within:
                # the node's result stays in a register; the kernel rounds only what it writes
                ops += [(Op("round"), ()), (Op("clamp", float(limits.min), float(limits.max)), ())]
            axis = None
            if node.attrs["qtype"] == "per_channel":
                # counted from the last axis, as fewer axes than the group's are broadcast in front
                rank = len(node.inputs[0].shape)
                axis = len(nodes[-1].outputs[0].shape) - rank + node.attrs["axis"] % rank
            for op, second in ops:
                more = [-1 - operands.setdefault((second, axis), len(operands))] if second else []
                calls.append(op.on((*numbers, *more)))
                numbers = [len(calls)]
        else:
            calls.append(OPS[node.kind](node.attrs).on(numbers))
        results[node.outputs[0]] = len(calls)
    return list(operands), calls


def _fake_quantizes(nodes: Sequence[Node]) -> set[Value]:
    """Returns the results of Quantize ops by tensor that only Dequantize ops of the same numbers among the nodes read.

    Their floats are rounded and bounded by one op.
    """
    makers = {node.outputs[0]: node for node in nodes if node.kind == "Quantize" and is_quantizing(node)}
    fake = {value for value, node in makers.items() if len(node.attrs["scales"]) == 1}
    for node in nodes:
        for value in fake.intersection(node.inputs):
            names = "scales", "zps", "qtype"
            same = node.kind == "Dequantize" and all(
                node.attrs.get(name) == makers[value].attrs.get(name) for name in names
            )
            if not same or not is_quantizing(node):
                fake.discard(value)
    return fake - {nodes[-1].outputs[0]}


def channel_axis(node: Node) -> int | None:
    """Returns the axis of the result that the second operand of a BiasAdd or PReLU, a vector, lies along.

    Returns None for every node whose second operand broadcasts as NumPy's operands do.
    """
    if node.kind not in _BY_CHANNEL:
        return None
    shape, rank = node.inputs[1].shape, len(node.inputs[0].shape)
    if node.kind == "PReLU" and (shape == (1,) or len(shape) != 1 or not node.attrs.get("per_channel_broadcast", True)):
        return None
    return 1 if rank > 1 and node.attrs["data_format"] == "NCX" else rank - 1


def over(view: View, shape: tuple[int, ...], axis: int | None = None) -> View:
    """Returns an operand as a view of this shape, broadcast by strides of 0; `axis`: the axis of a vector."""
    sizes, strides = view.shape, view.strides
    if axis is not None and len(sizes) == 1:
        behind = len(shape) - 1 - axis
        sizes, strides = (*sizes, *(1,) * behind), (*strides, *(0,) * behind)
    missing = len(shape) - len(sizes)
    spread = tuple(0 if n == 1 != m else s for s, n, m in zip(strides, sizes, shape[missing:], strict=True))
    return View(view.buffer, shape, (*(0,) * missing, *spread), view.offset)


def _append(program: Program, calls: Sequence[Op], operands: Sequence[View], dst: View, label: str) -> bool:
    views = list(dict.fromkeys(operands))
    places = [-1 - views.index(view) for view in operands]
    placed = (c.on(places[-1 - o] if o < 0 else o for o in c.operands) for c in calls)
    code = code_of(tuple(placed), head=False)
    if code is None or len(views) > MOST_OPERANDS:
        return False
    code.tell(label)
    codes, steps = dtypes.CODES, code.steps
    described = tuple((codes[view.dtype], view.strides) for view in views)
    args = dst.shape, steps, described, codes[dst.dtype], dst.strides
    program.append("elementwise", args, views, [dst], label, [(view, dst) for view in views])
    return True
