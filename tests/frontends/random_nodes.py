"""How nodes are drawn that compute element by element, move numbers, or make sequences."""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from onnx import numpy_helper

from .random_operands import CODES, Again, Draw

Operands = Callable[[Draw], list[str]]
BOOL = (0, 1)


class Row(NamedTuple):
    """`flags`: r rounds its result (s: in float32), j jumps where an operand is a little off, n reads Inf and NaN."""

    operands: Operands
    flags: str
    attrs: dict[str, tuple[Any, ...]]


ROWS: dict[str, Row] = {}


def row(names: str, operands: Operands, flags: str = "", **attrs: tuple[Any, ...]) -> None:
    """Enter operators: each attribute is one of its choices, or left out where there are several."""
    ROWS.update({name: Row(operands, flags, attrs) for name in names.split()})


# ---- element by element ----------------------------------------------------------------------------------------------


def unary(d):
    return [d.any()]


def along(d):
    return [_on(d, d.any(1), 0)[0]]


def binary(d):
    pair = unidirectional(d)
    return pair[::-1] if d.chance(0.4) else pair


def unidirectional(d, low=-4, high=4):
    x, shape, kind = d.tensor()
    return [x, d.beside(shape, kind, low, high)]


def variadic(d):
    x, shape, kind = d.tensor()
    return [x, *(d.beside(shape, kind) for _ in range(d.whole(0, 2)))]


def without_zero(d):
    """Some operators lose the sign of zero."""
    return [d.any(fits=lambda x: x.all())]


def divided(d):
    x, shape, kind = d.tensor()
    if d.schema.name == "Mod" and kind[0] == "f" and d.opset < 28:
        d.attrs["fmod"] = 1
    return [x, d.leaf(d.numbers(shape, kind, 0 if kind[0] == "f" and d.chance(0.2) else 1, 4))]


def powers(d):
    x, shape, _ = d.tensor()
    return [x, d.beside(shape, d.kind(1, "f4 i4 i8"), 0, 2)]


def clipped(d):
    x, _, kind = d.tensor()
    ends = [d.number(number, kind) if d.chance(0.7) else "" for number in (d.whole(0, 1), d.whole(2, 4))]
    return [x, *ends]


def chosen(d):
    x, shape, kind = d.tensor(slot=1)
    return [d.beside(shape, "?"), *[x, d.beside(shape, kind)][:: d.pick(1, -1)]]


def cast(d):
    """To a type that has the numbers: what others become is not defined."""
    kind = d.pick(*CODES)
    low = 0 if kind[0] == "u" else -100
    x = d.any(fits=lambda x: not x.size or bool(low <= x.min() and x.max() <= 100))
    if "to" not in d.schema.attributes:
        return [x, d.of(d.shape(0, 2), kind)]
    d.attrs["to"] = CODES[kind]
    return [x]


def bits(d):
    (x,) = without_zero(d)
    size = d.array(x).itemsize
    d.attrs["to"] = CODES[d.pick(*(kind for kind in CODES if np.dtype(kind).itemsize == size))]
    return [x]


def dropped(d):
    """Nothing is; the mask of ONNX Runtime says else before opset 12."""
    x = d.any()
    d.outputs = d.pick(1, 1, 2) if d.opset >= 12 else 1
    return [x, d.number(0.5, d.kind(1))] if d.chance() and d.opset >= 12 else [x]


row("Abs Neg Identity Not BitwiseNot Size", unary, "n")
row("Relu HardSwish", unary)
row("Sign Floor Ceil Round NonZero", unary, "j")
row("IsNaN", unary, "jn")
row("IsInf", unary, "jn", detect_negative=BOOL, detect_positive=BOOL)
row("Exp Log Sqrt Sin Cos Tan Sinh Cosh Tanh Asin Acos Atan Asinh Acosh Atanh Erf", unary, "r")
row("Sigmoid Softplus Softsign Mish", unary, "r")
row("Reciprocal", without_zero, "r")
row("LeakyRelu", unary, alpha=(0.5, 0.25, -1.0))
row("Elu Celu", unary, "r", alpha=(0.5, 2.0))
row("ThresholdedRelu", unary, "j", alpha=(0.0, 2.0, -1.5))
row("Selu", unary, "r", alpha=(0.5, 2.0), gamma=(2.0, 0.5))
row("HardSigmoid", unary, alpha=(0.25, 0.5), beta=(0.5, 0.0))
row("Gelu", unary, "r", approximate=("none", "tanh"))
row("Swish", unary, "r", alpha=(0.5, 2.0))
row("SwiGLU", lambda d: [(x := d.any()), d.of(*d.like(x))], "r", alpha=(0.5, 2.0))
row("Shrink", unary, "j", lambd=(1.0, 2.0), bias=(1.0, 0.5))
row("Add Sub Mul", binary, "n")
row("Max Min", variadic)
row("Mean", variadic, "r")
row("Sum", variadic, "n")
row("And Or Xor BitwiseAnd BitwiseOr BitwiseXor", binary)
row("Equal Less LessOrEqual Greater GreaterOrEqual", binary, "j")
row("Div", divided)
row("Mod", divided, "j", fmod=BOOL)
row("Pow", powers, "r")
row("BitShift", lambda d: unidirectional(d, 0, 3), direction=("LEFT", "RIGHT"))
row("PRelu", unidirectional)
row("Clip", clipped)
row("Where", chosen, "n")
row("Cast CastLike", cast, "j")
row("BitCast", bits, "j")
row("Dropout", dropped)
row("Softmax LogSoftmax", along, "r")
row("LpNormalization", along, "r", p=(1, 2))
row("Hardmax", along, "j")


# ---- what moves numbers ----------------------------------------------------------------------------------------------


def _on(d, x, default):
    """x, the axis that the node has, drawn or by default, and how many elements x has there."""
    shape = d.array(x).shape
    if d.chance(0.8):
        d.attrs["axis"] = d.axis(len(shape))
    axis = d.attrs.get("axis", default)
    if not -len(shape) <= axis < len(shape):
        raise Again
    return x, axis, shape[axis]


def _with(shape, axis, size):
    rest = list(shape)
    rest[axis] = size
    return rest


def reshaped(d):
    x = d.any()
    count, shape = int(d.array(x).size), []
    while count > 1 and len(shape) < 4 and d.chance(0.8):
        shape.append(d.pick(*(n for n in range(1, count + 1) if count % n == 0)))
        count //= shape[-1]
    shape += [count] * (count != 1)
    if shape and 0 not in shape and d.chance(0.3):
        shape[d.whole(0, len(shape) - 1)] = -1
    return [x, d.number(np.asarray(shape, "i8"))]


def transposed(d):
    x, shape, _ = d.tensor()
    if shape and d.chance(0.8):
        d.attrs["perm"] = [int(axis) for axis in d.rng.permutation(len(shape))]
    return [x]


def flattened(d):
    x, shape, _ = d.tensor()
    if shape and d.chance(0.8):
        d.attrs["axis"] = d.axis(len(shape))
    elif not shape:
        d.attrs["axis"] = 0
    return [x]


def squeezed(d):
    x, shape, _ = d.tensor()
    axes = [axis - len(shape) * d.chance(0.3) for axis, size in enumerate(shape) if size == 1 and d.chance(0.7)]
    return [x, *(d.listed("axes", axes) if axes else [])]


def unsqueezed(d):
    x, shape, _ = d.tensor(0, 4)
    more = d.whole(1, min(2, 5 - len(shape)))
    rank = len(shape) + more
    return [x, *d.listed("axes", d.rng.permutation(rank)[:more] - rank * d.chance(0.3))]


def expanded(d):
    x, shape, _ = d.tensor()
    sizes = [d.size() if n == 1 and d.chance() else d.pick(n, 1) for n in shape]
    more = [d.size()] * (len(shape) < 4 and d.chance(0.4))
    return [x, d.number(np.asarray(more + sizes, "i8"))]


def tiled(d):
    x, shape, _ = d.tensor()
    return [x, d.number(np.asarray([d.pick(1, 1, 2, 3) for _ in shape], "i8"))]


def sliced(d):
    x, shape, _ = d.tensor(1)
    axes = d.axes(len(shape)) or [d.axis(len(shape))]
    steps = [d.pick(1, 1, 1, 2, -1, -2) for _ in axes]
    starts, ends = ([d.pick(d.whole(-6, 6), 2**40, -(2**40)) for _ in axes] for _ in "se")
    return [x, *map(d.number, (starts, ends, axes, steps))]


def padded(d):
    x, shape, kind = d.tensor()
    is_constant = d.attrs.get("mode", "constant") == "constant"
    pads = [d.pick(0, 0, 1, 2, -1) if is_constant else d.pick(0, min(1, max(n - 1, 0))) for n in shape * 2]
    value = [d.number(d.whole(0, 3), kind)] if is_constant and d.chance() else []
    return [x, d.number(np.asarray(pads, "i8")), *value]


def split(d):
    x, _, size = _on(d, d.any(1), 0)
    cuts = sorted(d.whole(0, size) for _ in range(d.whole(0, 2)))
    sizes = [end - start for start, end in zip([0, *cuts], [*cuts, size], strict=True)]
    d.outputs = len(sizes)
    if size % d.outputs or d.chance():
        return [x, *d.listed("split", sizes)]
    if "num_outputs" in d.schema.attributes:
        d.attrs["num_outputs"] = d.outputs
    return [x]


def joined(d):
    x, shape, kind = d.tensor(1)
    d.attrs["axis"] = axis = d.axis(len(shape))
    return [x, *(d.of(_with(shape, axis, d.size()), kind) for _ in range(d.whole(0, 2)))][:: d.pick(1, -1)]


def _indices(d, shape, size):
    """Into `size` elements, some from the end."""
    if not size:
        raise Again
    return d.leaf(d.rng.integers(-size, size, shape).astype(d.pick("i8", "i4")))


def gathered(d):
    x, _, size = _on(d, d.any(1), 0)
    return [x, _indices(d, d.shape(0, min(2, 6 - d.array(x).ndim)), size)]


def gathered_elements(d):
    x, axis, size = _on(d, d.any(1), 0)
    shape = [d.whole(1, n) for n in d.array(x).shape]
    return [x, _indices(d, _with(shape, axis, d.size()), size)]


def _tuples(d, shape, before=()):
    """Indices of elements, or of parts, of an array of this shape."""
    if 0 in shape:
        raise Again
    rows = (*before, d.size())
    return np.stack([d.rng.integers(-n, n, rows) for n in shape[: d.whole(1, len(shape))]], -1)


def gathered_tuples(d):
    x, shape, _ = d.tensor(1)
    if batch := d.whole(0, min(1, len(shape) - 1)) * (d.opset >= 12):
        d.attrs["batch_dims"] = batch
    return [x, d.leaf(_tuples(d, shape[batch:], shape[:batch]))]


def scattered_tuples(d):
    """To different elements: of one that is written twice the order is not defined."""
    x, shape, kind = d.tensor(1)
    places = _tuples(d, shape)
    depth = places.shape[-1]
    places = np.unique(places % np.asarray(shape[:depth]), axis=0)
    return [x, d.leaf(places), d.of((len(places), *shape[depth:]), kind)]


def scattered(d):
    x, axis, size = _on(d, d.any(1), 0)
    shape, kind = d.like(x)
    if 0 in shape:
        raise Again
    rows = [d.whole(1, n) for n in shape]
    places = d.rng.permutation(size)[: rows[axis]].reshape(_with([1] * len(shape), axis, -1))
    return [x, d.leaf(np.broadcast_to(places, rows).copy()), d.of(rows, kind)]


def compressed(d):
    x, shape, _ = d.tensor(1)
    if d.chance(0.7):
        d.attrs["axis"] = d.axis(len(shape))
    return [x, d.of((d.whole(0, shape[d.attrs["axis"]] if "axis" in d.attrs else d.array(x).size),), "?")]


def one_hot(d):
    x, shape, _ = d.tensor(1, 3, kind="i8 i4 f4")
    d.attrs["axis"] = d.whole(-len(shape) - 1, len(shape))
    return [x, d.number(d.whole(1, 5), d.pick("i8", "i4")), d.of((2,), d.kind(2))]


def ranged(d):
    kind = d.kind()
    low, high = (0, 5) if kind[0] == "u" else (-5, 5)
    return [d.number(n, kind) for n in (d.whole(low, high), d.whole(low, high), d.pick(1, 2, 3))]


def filled(d):
    if d.chance(0.7):
        d.attrs["value"] = numpy_helper.from_array(d.numbers((1,), d.pick(*CODES)))
    return [d.number(np.asarray(d.shape(0, 4), "i8"), constant=0.8)]


def ranked(d):
    x, _, size = _on(d, d.any(1), -1)
    d.outputs = 2
    return [x, d.number([d.whole(0, size)])]


def summed(d):
    x, shape, _ = d.tensor(1)
    return [x, d.number(d.axis(len(shape)), d.pick("i8", "i4"))]


def reversed_rows(d):
    x, shape, _ = d.tensor(2, fits=lambda x: x.size > 0)
    time = d.pick(0, 1)
    d.attrs |= {"time_axis": time, "batch_axis": 1 - time}
    return [x, d.leaf(d.rng.integers(1, shape[time] + 1, shape[1 - time]))]


def blocks(d, channels, space):
    d.attrs["blocksize"] = b = d.pick(1, 2)
    n, c, h, w = (d.size() for _ in range(4))
    return [d.of((n, c * b**channels, h * b**space, w * b**space), d.kind())]


def unique(d):
    """Of some elements: of none along an axis ONNX Runtime aborts."""
    d.outputs = d.pick(1, 2, 4)
    x, shape, _ = d.tensor(0, 3)
    if shape and 0 not in shape and d.chance():
        d.attrs["axis"] = d.axis(len(shape))
    return [x]


def centred(d):
    x, shape, _ = d.tensor(1)
    d.attrs["axes"] = axes = d.axes(len(shape)) or [0]
    return [x, d.number([d.size() for _ in axes])]


def cached(d):
    batch, length, rows, kind = d.size(), d.whole(2, 5), d.whole(1, 2), d.kind()
    starts = d.leaf(d.rng.integers(0, length - rows + 1, batch))
    return [d.of((batch, 2, length, 3), kind), d.of((batch, 2, rows, 3), kind), starts]


def sized(d):
    if d.chance(0.4) and "start" in d.schema.attributes:
        d.attrs |= {"start": d.whole(-3, 2), "end": d.whole(-2, 4)}
    return [d.any()]


row("Reshape", reshaped, "n")
row("Flatten", flattened, "n")
row("Transpose", transposed, "n")
row("Squeeze", squeezed, "n")
row("Unsqueeze", unsqueezed, "n")
row("Expand", expanded, "n")
row("Tile", tiled, "n")
row("Slice", sliced, "n")
row("Pad", padded, "n", mode=("constant", "edge", "reflect", "wrap"))
row("Split", split, "n")
row("Concat", joined, "n")
row("Gather", gathered, "n")
row("GatherElements", gathered_elements, "n")
row("GatherND", gathered_tuples, "n")
row("ScatterND", scattered_tuples, reduction=("none", "add", "mul", "max", "min"))
row("ScatterElements", scattered, reduction=("none", "add", "mul", "max", "min"))
row("Compress", compressed, "n")
row("OneHot", one_hot, "j")
row("Range", ranged)
row("ConstantOfShape", filled)
row("TopK", ranked, "j", largest=BOOL, sorted=(1,))
row("ArgMax ArgMin", lambda d: [_on(d, d.any(1, fits=lambda x: x.size > 0), 0)[0]], "j", keepdims=BOOL,
    select_last_index=BOOL)  # fmt: skip
row("CumSum CumProd", summed, exclusive=BOOL, reverse=BOOL)
row("ReverseSequence", reversed_rows, "n")
row("DepthToSpace", lambda d: blocks(d, 2, 0), "n", mode=("DCR", "CRD"))
row("SpaceToDepth", lambda d: blocks(d, 0, 1), "n")
row("Unique", unique, "j", sorted=BOOL)
row("CenterCropPad", centred, "n")
row("TensorScatter", cached, "n", axis=(-2, 2))
row("Trilu", lambda d: [d.any(2), d.number(d.whole(-3, 3))][: d.whole(1, 2)], "n", upper=BOOL)
row("EyeLike", lambda d: [d.any(2, 2)], "n", k=(-1, 0, 1), dtype=tuple(CODES.values()))
row("Shape", sized, "n")


# ---- sequences of tensors --------------------------------------------------------------------------------------------


def sequence(d):
    """Emits what makes a sequence of some tensors of one shape."""
    x, shape, kind = d.tensor(1, 4, kind="f4 i8 i4")
    if shape[0] and d.chance(0.2):
        return d.emit("SplitToSequence", [x], axis=0)
    if d.chance(0.3):
        items = d.emit("SequenceInsert", [d.emit("SequenceEmpty", [], dtype=CODES[kind]), x])
    else:
        items = d.emit("SequenceConstruct", [x, d.of(shape, kind)])
    if d.chance(0.4):
        items = d.emit("SequenceInsert", [items, d.of(shape, kind)])
        return d.emit("SequenceErase", [items, d.number(0)]) if d.chance() else items
    return items


def optional(d):
    """Of a tensor, which before opset 18 is to be made an optional."""
    x = d.any(kind="f4 i8 i4")
    return [x if d.opset >= 18 else d.emit("Optional", [x])]


row("SequenceAt", lambda d: [sequence(d), d.number(d.pick(0, -1))], "n")
row("SequenceLength", lambda d: [sequence(d)], "n")
row("ConcatFromSequence", lambda d: [sequence(d)], "n", axis=(0,), new_axis=BOOL)
row("OptionalHasElement OptionalGetElement", optional, "n")
