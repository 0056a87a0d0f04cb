"""Compiles element-wise ops for builtin kernels: as post-ops of a kernel, or as a separate step."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from .. import dtypes
from ..graph import Node, Value
from ..ir import is_open
from ..ir.env import Env
from ..ir.rewrites import Rewrite
from ..schema import POST_OPS, kinds
from ..strides import are_alike, extent
from ..symbolic import are_multiples, gcd, kernels
from . import epilogue as post
from .epilogue import Epilogue
from .post_op_errors import ALONE, HEADS, refusal
from .program import Buffer, CopyItem, Place, Program, View, order_of

FLOATS = frozenset({"f32", "bf16", "f16"})
INTEGERS = frozenset({"s8", "u8"})
_BY_CHANNEL = kinds("by_channel")
_FIXED_SCALES = kinds("fixed_scales")
# that one step reads
MOST_OPERANDS = 32
MERGE_SWISH = Rewrite(
    "merge_swish",
    "a Sigmoid and its product with what it was taken of are one op",
    ("one op alone reads the sigmoid", "that is the product with the sigmoid's operand"),
)

# kinds of ops of which `MERGE_SWISH` tells
MERGED = frozenset({"Sigmoid"})


class Op(NamedTuple):
    """An op of a kernel's program, with the op's attributes in the order that the kernel expects.

    `operands`: by number. 0 is the head's result, i that of the i-th op, -1 - i the i-th tensor that is read.
    """

    name: str
    alpha: float = 0.0
    beta: float = 0.0
    operands: tuple[int, ...] = ()

    def on(self, operands: Iterable[int]) -> Op:
        return Op(self.name, self.alpha, self.beta, tuple(operands))


def _named(name: str, alpha: str = "", beta: str = "") -> Callable[[Mapping[str, Any]], Op]:
    return lambda attrs: Op(name, float(attrs[alpha]) if alpha else 0.0, float(attrs[beta]) if beta else 0.0)


# op kind -> the op of a kernel's program that computes a node with these attributes
OPS: dict[str, Callable[[Mapping[str, Any]], Op]] = {
    "Abs": _named("abs"),
    "Add": _named("add"),
    "BiasAdd": _named("add"),
    "Clamp": _named("clamp", "min", "max"),
    "Divide": _named("divide"),
    "Elu": _named("elu", "alpha"),
    "Erf": _named("erf"),
    "Exp": _named("exp"),
    "GELU": lambda attrs: Op(attrs.get("mode", "gelu_erf")),
    "HardSigmoid": _named("hardsigmoid", "alpha", "beta"),
    "HardSwish": _named("hardswish"),
    "LeakyReLU": _named("leaky_relu", "alpha"),
    "Log": _named("log"),
    "Maximum": _named("maximum"),
    "Minimum": _named("minimum"),
    "Mish": _named("mish"),
    "Multiply": _named("multiply"),
    "PReLU": _named("prelu"),
    "Pow": _named("power", "beta"),
    "ReLU": _named("relu"),
    "Reciprocal": _named("reciprocal"),
    "Round": _named("round"),
    "Sigmoid": _named("sigmoid"),
    "SoftPlus": lambda attrs: Op("softplus", float(attrs.get("beta", 1.0))),
    "Sqrt": _named("sqrt"),
    "Square": _named("square"),
    "SquaredDifference": _named("squared_difference"),
    "Subtract": _named("subtract"),
    "Tanh": _named("tanh"),
}


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


Step = tuple[str, int, int, int, float, float]


class _Code(NamedTuple):
    """The steps of a kernel's program on numbered registers.

    `sigmoids`: for each sigmoid the condition that kept it from being merged into a swish, "" if it was merged.
    """

    steps: tuple[Step, ...]
    sigmoids: tuple[str, ...]

    def tell(self, label: str) -> None:
        for unmet in self.sigmoids:
            MERGE_SWISH.tell(label, unmet)


@lru_cache(maxsize=1024)
def _code(calls: tuple[Op, ...], head: bool) -> _Code | None:
    """Assigns registers to the results of ops; returns None if the kernels have too few registers.

    The last result goes to register 0. With a `head`, register 0 holds the result of the head at the beginning; without
    a head, only the last step writes register 0.
    """
    calls, sigmoids = _with_swish(calls)
    last_use: dict[int, int] = {}
    for position, call in enumerate(calls):
        last_use.update(dict.fromkeys(call.operands, position))
    free = list(range(0 if not head else 1, kernels.Epilogue.REGISTERS))
    if not head:
        free.remove(0)
    register = {0: 0} if head else {}
    steps: list[Step] = []
    for position, call in enumerate(calls):
        places = [kernels.Epilogue.OPERANDS - 1 - o if o < 0 else register[o] for o in call.operands]
        for operand in set(call.operands):
            if operand >= 0 and last_use[operand] == position:
                free.append(register.pop(operand))
        free.sort()
        last = position == len(calls) - 1
        if not last and not free:
            return None
        to = 0 if last else free.pop(0)
        register[position + 1] = to
        steps.append((call.name, places[0], places[-1], to, call.alpha, call.beta))
    return _Code(tuple(steps), sigmoids)


def _with_swish(calls: tuple[Op, ...]) -> tuple[tuple[Op, ...], tuple[str, ...]]:
    """Replaces a sigmoid and its product with the sigmoid's own operand by one swish.

    Returns the ops, and for each sigmoid the condition that does not hold, "" if it was replaced.
    """
    readers: dict[int, list[int]] = {}
    for position, call in enumerate(calls):
        for operand in set(call.operands):
            readers.setdefault(operand, []).append(position)
    declined = []
    for position, call in enumerate(calls):
        if call.name != "sigmoid":
            continue
        using, unmet = readers.get(position + 1, []), ""
        product = calls[using[0]] if using else call
        if len(using) != 1:
            unmet = "one op alone reads the sigmoid"
        elif product.name != "multiply" or sorted(product.operands) != sorted((*call.operands, position + 1)):
            unmet = "that is the product with the sigmoid's operand"
        if unmet:
            declined.append(unmet)
            continue
        joined = Op("swish", 1.0).on(call.operands)
        rest = (*calls[:position], *calls[position + 1 : using[0]], joined, *calls[using[0] + 1 :])
        moved = (c.on(o - (o > position) for o in c.operands) for c in rest)
        merged, others = _with_swish(tuple(moved))
        return merged, ("", *others)
    return calls, tuple(declined)


# ---- post-ops that a kernel applies to its results ------------------------------------------------------------


class Fused(NamedTuple):
    """Bias and post-ops that a kernel applies to its result.

    `epilogue`: the post-ops as kernels take them. `bias`: the code of the bias's dtype, 0 without a bias. `views`: the
    bias, if any, and the operands of the post-ops, which the kernel reads in this order.
    """

    epilogue: Any
    bias: int = 0
    views: tuple[View, ...] = ()


NOTHING = Fused(kernels.Epilogue())


def fused(
    program: Program, epilogue: Epilogue, dst: View, bias: View | None = None, expressed: Expressed | None = None
) -> Fused:
    """Returns a bias (C) and post-ops that kernels can apply, as the kernel that writes `dst` takes them.

    Appends copies of operands whose layout does not follow that of `dst` to `program`. `expressed`: what `expressed_on`
    returns, where that is known.
    """
    after = fused_or_none(program, epilogue, dst, bias, expressed)
    if after is None:
        raise RuntimeError(f"no program for {', '.join(op.kind for op in epilogue)} on {dst.shape}")
    return after


def fused_or_none(
    program: Program, epilogue: Epilogue, dst: View, bias: View | None = None, expressed: Expressed | None = None
) -> Fused | None:
    """Returns what `fused` does, and None, with nothing appended, for post-ops that no kernel can apply."""
    native, views = NOTHING.epilogue, [] if bias is None else [bias]
    if epilogue:
        expressed = expressed or expressed_on(epilogue, dst)
        if expressed is None:
            return None
        operands, code = expressed
        code.tell(epilogue[-1].name)
        laid = [_laid(program, view, dst) for view in operands]
        native = kernels.Epilogue(code.steps, [(spread, dtypes.CODES[view.dtype]) for spread, view in laid])
        views += (view for _, view in laid)
    return Fused(native, 0 if bias is None else dtypes.CODES[bias.dtype], tuple(views))


# the views that post-ops read besides the result, and the steps by which kernels apply them
Expressed = tuple[list[View], _Code]


def expresses(epilogue: Epilogue, dst: View) -> bool:
    """Whether builtin kernels that write a view like `dst` (N, C, spatial...) can apply the post-ops."""
    return expressed_on(epilogue, dst) is not None


def expressed_on(epilogue: Epilogue, dst: View) -> Expressed | None:
    """Returns post-ops as kernels that write a view like `dst` (N, C, spatial...) apply them; None if they cannot."""
    if not OPS.keys() >= {op.kind for op in epilogue} or 0 in dst.shape or dst.dtype not in FLOATS:
        return None
    views, calls = _calls(epilogue)
    if len(views) > MOST_OPERANDS or not all(view.dtype in FLOATS and _spread(view, dst) is not None for view in views):
        return None
    code = _code(tuple(calls), head=True)
    return None if code is None else (views, code)


def _calls(epilogue: Epilogue) -> tuple[list[View], list[Op]]:
    views = list(dict.fromkeys([o for op in epilogue for o in op.operands if isinstance(o, View)]))
    return views, [
        OPS[op.kind](op.attrs).on([o if isinstance(o, int) else -1 - views.index(o) for o in op.operands])
        for op in epilogue
    ]


def _channels_last(dst: View) -> bool:
    """Whether dst (N, C, spatial...) has contiguous channels and pixels at multiples of a pitch of at least C elements.

    Kernels with post-ops tell the channel of an element by its offset.
    """
    channels, strides = dst.shape[1], dst.strides
    if channels > 1 and strides[1] != 1:
        return False
    # the pitch itself follows from axes of more than one position, which depend on sizes
    return are_multiples((strides[0], *strides[2:]), channels) or _pixel_pitch(dst) >= channels


def _pixel_pitch(dst: View) -> int:
    strides = [s for axis, (s, n) in enumerate(zip(dst.strides, dst.shape, strict=True)) if axis != 1 and n > 1]
    pitch: int = gcd(*strides) if strides else max(dst.shape[1], 1)
    return pitch


def _images_apart(dst: View) -> bool:
    """Whether the images of dst do not interleave in memory, so that the offset of an element tells its image."""
    sizes = [(s, n) for axis, (s, n) in enumerate(zip(dst.strides, dst.shape, strict=True)) if axis > 1]
    reach = sum((n - 1) * s for s, n in sizes)
    return dst.shape[0] == 1 or reach + dst.shape[1] <= dst.strides[0]


def _spread(view: View, dst: View) -> str | None:
    """Returns the kernels' name for how an operand is broadcast over dst, such as "channel"; None if they have none."""
    if view.ndim == 1:  # a bias
        return "channel" if view.shape == dst.shape[1:2] and _channels_last(dst) else None
    varies = tuple([axis for axis, size in enumerate(view.shape) if size != 1])
    if view.ndim != dst.ndim or any(view.shape[axis] != dst.shape[axis] for axis in varies):
        return None
    if not varies:
        return "one"
    if not _channels_last(dst):
        return None
    if varies == (1,):
        return "channel"
    if varies in ((0,), (0, 1)) and any(n > 1 for n in dst.shape[2:]) and _images_apart(dst):
        return "image_channel"
    if view.shape == dst.shape:
        return "full"
    return "pixel" if view.shape == (dst.shape[0], 1, *dst.shape[2:]) else None


def _laid(program: Program, view: View, dst: View) -> tuple[str, View]:
    """Returns the spread of an operand, and the operand as kernels read it: itself, or a copy that is appended."""
    spread = _spread(view, dst)
    if spread == "one":
        return "one", view
    if spread == "channel":
        vector = view if view.ndim == 1 else replace(view, shape=view.shape[1:2], strides=view.strides[1:2])
        return "channel", _vectors(program, vector, dst)
    if spread == "image_channel":
        return "image_channel", _vectors(program, view, dst)
    pitch = _pixel_pitch(dst) if spread == "pixel" else 1
    strides = tuple(0 if n == 1 else s // pitch for s, n in zip(dst.strides, view.shape, strict=True))
    return str(spread), laid_as(program, view, strides)


def laid_as(program: Program, view: View, strides: tuple[int, ...]) -> View:
    """Returns a view whose elements lie by the strides of a result: itself, or a copy that is appended."""
    if are_alike(view.shape, view.strides, strides):
        return view
    laid = View(Buffer(Place.SCRATCH, view.dtype, extent(view.shape, strides)), view.shape, strides)
    program.copy(view, laid, "operand laid out as the result")
    return laid


def _vectors(program: Program, view: View, dst: View) -> View:
    """Appends a copy of an operand's channels to f32 vectors (images or 1, C + REPEAT), and returns their view.

    Element C + i repeats element i, so that a kernel reads on past the last channel in a run over several pixels.
    """
    channels, pitch = dst.shape[1], dst.shape[1] + kernels.Epilogue.REPEAT
    images = 1 if view.ndim == 1 else dst.shape[0]
    by_image, by_channel = [0, *_steps_of(view)] if view.ndim == 1 else _steps_of(view)[:2]
    rounds, rest = divmod(pitch, channels)
    items: list[CopyItem] = [((images, rounds, channels), 0, (by_image, 0, by_channel), 0, (pitch, channels, 1))]
    if rest:
        items.append(((images, rest), 0, (by_image, by_channel), rounds * channels, (pitch, 1)))
    vectors = program.scratch((images, pitch), "f32")
    program.copy_list(items, view, vectors, "vectors of channels")
    return vectors


def _steps_of(view: View) -> list[int]:
    """Returns the strides of a view, with 0 for axes of size 1."""
    return [0 if n == 1 else s for s, n in zip(view.strides, view.shape, strict=True)]


# ---- element-wise steps ---------------------------------------------------------------------------------------


def apply(program: Program, source: View, epilogue: Epilogue, dst: View, label: str) -> bool:
    """Appends post-ops on `source` as one step of builtin code that writes `dst`; returns False if it cannot.

    The step reads `source` in its dtype and strides. It cannot where an op is missing or registers are too few; nothing
    is appended then.
    """
    if any(op.kind not in OPS for op in epilogue):
        return False
    views, calls = _calls(epilogue)
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
    return len(operands) <= MOST_OPERANDS and _code(tuple(calls), head=False) is not None


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
    code = _code(tuple(placed), head=False)
    if code is None or len(views) > MOST_OPERANDS:
        return False
    code.tell(label)
    codes, steps = dtypes.CODES, code.steps
    described = tuple((codes[view.dtype], view.strides) for view in views)
    args = dst.shape, steps, described, codes[dst.dtype], dst.strides
    program.append("elementwise", args, views, [dst], label, [(view, dst) for view in views])
    return True
