"""How each operator is drawn: a function for its operands, and choices for its attributes."""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from onnx import numpy_helper

from .random_operands import CODES, Again, Draw

Operands = Callable[[Draw], list[str]]


class Row(NamedTuple):
    """`flags`: r rounds its result, j jumps where an operand is a little off, n reads Inf and NaN as well."""

    operands: Operands
    flags: str
    attrs: dict[str, tuple[Any, ...]]


ROWS: dict[str, Row] = {}


def row(names: str, operands: Operands, flags: str = "", **attrs: tuple[Any, ...]) -> None:
    """Enter operators: each attribute is left out, or one of its choices."""
    ROWS.update({name: Row(operands, flags, attrs) for name in names.split()})


BOOL = (0, 1)


# ---- element by element ----------------------------------------------------------------------------------------------


def unary(d):
    return [d.any()]


def binary(d):
    x = d.any()
    pair = [x, d.beside(*d.like(x))]
    return pair[::-1] if d.chance(0.4) else pair


def unidirectional(d):
    x = d.any()
    return [x, d.beside(*d.like(x))]


def alike(d):
    x = d.any()
    return [x, d.of(*d.like(x))]


def variadic(d):
    x = d.any()
    return [x, *(d.beside(*d.like(x)) for _ in range(d.whole(0, 2)))]


def divided(d):
    """By no zero, or floats by any."""
    x = d.any()
    shape, kind = d.like(x)
    if d.schema.name == "Mod" and kind[0] == "f" and d.opset < 28:
        d.attrs["fmod"] = 1
    return [x, d.beside(shape, kind) if kind[0] == "f" and d.chance(0.2) else d.leaf(d.numbers(shape, kind, 1, 4))]


def powers(d):
    x = d.any()
    return [x, d.beside(d.like(x)[0], d.kind(1, "f4 i4 i8"), 0, 2)]


def shifted(d):
    x = d.any()
    return [x, d.beside(*d.like(x), 0, 3)]


def clipped(d):
    x = d.any()
    kind = d.like(x)[1]
    ends = [d.number(number, kind) if d.chance(0.7) else "" for number in (d.whole(0, 1), d.whole(2, 4))]
    return [x, *ends] if ends[1] else [x, *ends[:1]]


def chosen(d):
    x = d.any(slot=1)
    return [d.beside(d.like(x)[0], "?"), *[x, d.beside(*d.like(x))][:: d.pick(1, -1)]]


def cast(d):
    kind = d.pick(*CODES)
    low = 0 if kind[0] == "u" else -100
    d.attrs["to"] = CODES[kind]
    return [d.any(fits=lambda x: not x.size or bool(low <= x.min() and x.max() <= 100))]


def cast_like(d):
    kind = d.pick(*CODES)
    low = 0 if kind[0] == "u" else -100
    return [d.any(fits=lambda x: not x.size or bool(low <= x.min() and x.max() <= 100)), d.of(d.shape(0, 2), kind)]


def bits(d):
    x = d.any()
    size = int(d.like(x)[1][1:] or 1)
    d.attrs["to"] = CODES[d.pick(*(kind for kind in CODES if kind[1:] == str(size) or (kind == "?" and size == 1)))]
    return [x]


def dropped(d):
    x = d.any()
    # the mask of ONNX Runtime is false everywhere before opset 12, where nothing is dropped
    d.outputs = d.pick(1, 1, 2) if d.opset >= 12 else 1
    return [x, d.number(0.5, d.kind(1))] if d.chance() and d.opset >= 12 else [x]


row("Abs Neg Identity Not BitwiseNot", unary, "n")
row("Relu HardSwish", unary)
row("Sign Floor Ceil Round IsNaN", unary, "j")
row("IsInf", unary, "j", detect_negative=BOOL, detect_positive=BOOL)
row("Exp Log Sqrt Sin Cos Tan Sinh Cosh Tanh Asin Acos Atan Asinh Acosh Atanh Erf", unary, "r")
row("Sigmoid Softplus Softsign Mish Reciprocal", unary, "r")
row("LeakyRelu", unary, alpha=(0.5, 0.25, -1.0))
row("Elu Celu", unary, "r", alpha=(0.5, 2.0))
row("ThresholdedRelu", unary, "j", alpha=(0.0, 2.0, -1.5))
row("Selu", unary, "r", alpha=(0.5, 2.0), gamma=(2.0,))
row("HardSigmoid", unary, alpha=(0.25, 0.5), beta=(0.5, 0.0))
row("Gelu", unary, "r", approximate=("none", "tanh"))
row("Swish", unary, "r", alpha=(0.5, 2.0))
row("Shrink", unary, "j", lambd=(1.0, 2.0), bias=(1.0, 0.5))
row("Softmax LogSoftmax", lambda d: [_axis(d, d.any(1))], "r")
row("Hardmax", lambda d: [_axis(d, d.any(1))], "j")
row("LpNormalization", lambda d: [_axis(d, d.any(1))], "r", p=(1, 2))
row("Add Sub Mul", binary, "n")
row("Max Min", variadic)
row("Mean", variadic, "r")
row("Sum", variadic, "n")
row("And Or Xor BitwiseAnd BitwiseOr BitwiseXor", binary)
row("Equal Less LessOrEqual Greater GreaterOrEqual", binary, "j")
row("Div", divided)
row("Mod", divided, "j", fmod=BOOL)
row("Pow", powers, "r")
row("BitShift", shifted, direction=("LEFT", "RIGHT"))
row("PRelu", unidirectional)
row("SwiGLU", alike, "r", alpha=(0.5,))
row("Clip", clipped)
row("Where", chosen, "n")
row("Cast", cast, "j")
row("CastLike", cast_like, "j")
row("BitCast", bits, "j")
row("Dropout", dropped)


# ---- what moves numbers ----------------------------------------------------------------------------------------------


def _axis(d, x):
    """x, with an attribute `axis` or the default one."""
    if d.chance(0.8):
        d.attrs["axis"] = d.axis(d.array(x).ndim)
    return x


def _on(d, x, default=-1):
    """The axis of x that the node will have."""
    axis = d.attrs.get("axis", default)
    if not -d.array(x).ndim <= axis < d.array(x).ndim:
        raise Again
    return axis


def reshaped(d):
    x = d.any()
    count, shape = int(d.array(x).size), []
    while count > 1 and len(shape) < 4 and d.chance(0.8):
        shape.append(d.pick(*(n for n in range(1, count + 1) if count % n == 0)))
        count //= shape[-1]
    if count != 1:
        shape.append(count)
    if shape and 0 not in shape and d.chance(0.3):
        shape[d.whole(0, len(shape) - 1)] = -1
    return [x, d.number(np.asarray(shape, "i8"))]


def flattened(d):
    x = d.any()
    return [_axis(d, x) if d.array(x).ndim else x]


def transposed(d):
    x = d.any()
    if d.array(x).ndim and d.chance(0.8):
        d.attrs["perm"] = [int(axis) for axis in d.rng.permutation(d.array(x).ndim)]
    return [x]


def squeezed(d):
    x = d.any()
    rank = d.array(x).ndim
    ones = [axis for axis in range(rank) if d.array(x).shape[axis] == 1]
    axes = [axis - rank * d.chance(0.3) for axis in ones if d.chance(0.7)]
    return [x, *(d.listed("axes", axes) if axes else [])]


def unsqueezed(d):
    x = d.any(0, 4)
    rank = d.array(x).ndim + (more := d.whole(1, min(2, 5 - d.array(x).ndim)))
    axes = d.rng.permutation(rank)[:more] - rank * d.chance(0.3)
    return [x, *d.listed("axes", axes)]


def expanded(d):
    x = d.any()
    shape = [d.size() if n == 1 and d.chance() else d.pick(n, 1) for n in d.array(x).shape]
    more = [d.size()] * (len(shape) < 4 and d.chance(0.4))
    return [x, d.number(np.asarray(more + shape, "i8"))]


def tiled(d):
    x = d.any()
    return [x, d.number([d.pick(1, 1, 2, 3) for _ in d.array(x).shape])]


def sliced(d):
    x = d.any(1)
    axes = d.axes(d.array(x).ndim) or [d.axis(d.array(x).ndim)]
    steps = [d.pick(1, 1, 1, 2, -1, -2) for _ in axes]
    starts, ends = ([d.pick(d.whole(-6, 6), 2**40, -(2**40)) for _ in axes] for _ in "se")
    return [x, *(d.number(numbers) for numbers in (starts, ends, axes, steps))]


def padded(d):
    x = d.any()
    mode = d.attrs.get("mode", "constant")
    pads = [d.pick(0, 0, 1, 2, -1 if mode == "constant" else 0) for _ in range(2 * d.array(x).ndim)]
    value = [d.number(d.whole(0, 3), d.like(x)[1])] if mode == "constant" and d.chance() else []
    return [x, d.number(np.asarray(pads, "i8")), *value]


def parts(d, axis_size):
    cuts = sorted(d.whole(0, axis_size) for _ in range(d.whole(0, 2)))
    return [end - start for start, end in zip([0, *cuts], [*cuts, axis_size], strict=True)]


def split(d):
    x = _axis(d, d.any(1))
    size = d.array(x).shape[_on(d, x, 0)]
    sizes = parts(d, size)
    d.outputs = len(sizes)
    if d.chance(0.6):
        return [x, *d.listed("split", sizes)]
    if "num_outputs" in d.schema.attributes:
        d.attrs["num_outputs"] = d.outputs
    return [x]


def joined(d):
    x = d.any(1)
    d.attrs["axis"] = axis = d.axis(d.array(x).ndim)
    shape, kind = d.like(x)
    return [x, *(d.of(_with(shape, axis, d.size()), kind) for _ in range(d.whole(0, 2)))][:: d.pick(1, -1)]


def _with(shape, axis, size):
    rest = list(shape)
    rest[axis] = size
    return rest


def _places(d, shape, size, kind="i8", constant=0.5):
    """Indices into `size` elements, some from the end."""
    if not size:
        raise Again
    return d.leaf(d.rng.integers(-size, size, shape).astype(kind), constant)


def gathered(d):
    x = _axis(d, d.any(1))
    size = d.array(x).shape[_on(d, x, 0)]
    return [x, _places(d, d.shape(0, min(2, 6 - d.array(x).ndim)), size, d.pick("i8", "i4"))]


def gathered_elements(d):
    x = _axis(d, d.any(1))
    axis = _on(d, x, 0)
    shape = [d.whole(1, n) for n in d.array(x).shape]
    return [x, _places(d, _with(shape, axis, d.size()), d.array(x).shape[axis], d.pick("i8", "i4"))]


def _tuples(d, shape, before=()):
    """Indices of places in `shape`, some of its axes; all different where numbers go there."""
    depth = d.whole(1, len(shape))
    if 0 in shape:
        raise Again
    rows = (*before, d.size())
    places = np.stack([d.rng.integers(-n, n, rows) for n in shape[:depth]], -1)
    return places, depth


def gathered_tuples(d):
    x = d.any(1)
    shape = d.array(x).shape
    batch = d.whole(0, min(1, len(shape) - 1))
    places, _ = _tuples(d, shape[batch:], shape[:batch])
    if batch:
        d.attrs["batch_dims"] = batch
    return [x, d.leaf(places)]


def scattered_tuples(d):
    x = d.any(1)
    shape, kind = d.like(x)
    places, depth = _tuples(d, shape)
    flat = np.unique(places % np.asarray(shape[:depth]), axis=0)
    return [x, d.leaf(flat), d.of((len(flat), *shape[depth:]), kind)]


def scattered(d):
    x = _axis(d, d.any(1))
    shape, kind = d.like(x)
    axis = _on(d, x, 0)
    if 0 in shape:
        raise Again
    rows = [d.whole(1, n) for n in shape]
    places = d.rng.permutation(shape[axis])[: rows[axis]].reshape(_with([1] * len(shape), axis, -1))
    return [x, d.leaf(np.broadcast_to(places, rows).copy()), d.of(rows, kind)]


def compressed(d):
    x = d.any(1)
    if d.chance(0.7):
        d.attrs["axis"] = d.axis(d.array(x).ndim)
    size = d.array(x).shape[d.attrs["axis"]] if "axis" in d.attrs else d.array(x).size
    return [x, d.of((d.whole(0, size),), "?")]


def one_hot(d):
    rank = d.whole(1, 3)
    x = d.any(rank, rank, kind="i8 i4 f4")
    d.attrs["axis"] = d.whole(-rank - 1, rank)
    return [x, d.number(d.whole(1, 5), d.pick("i8", "i4")), d.of((2,), d.kind(2))]


def ranged(d):
    kind = d.kind()
    low, high = (0, 5) if kind[0] == "u" else (-5, 5)
    return [d.number(d.whole(low, high), kind), d.number(d.whole(low, high), kind), d.number(d.pick(1, 2, 3), kind)]


def filled(d):
    if d.chance(0.7):
        d.attrs["value"] = numpy_helper.from_array(d.numbers((1,), d.pick(*CODES)))
    return [d.number(np.asarray(d.shape(0, 4), "i8"), constant=0.8)]


def ranked(d):
    x = _axis(d, d.any(1))
    d.outputs = 2
    return [x, d.number([d.whole(0, d.array(x).shape[_on(d, x)])])]


def placed(d):
    return [_axis(d, d.any(1, fits=lambda x: 0 not in x.shape))]


def summed(d):
    x = d.any(1)
    return [x, d.number(d.axis(d.array(x).ndim), d.pick("i8", "i4"))]


def reversed_rows(d):
    x = d.any(2, fits=lambda x: 0 not in x.shape)
    time = d.pick(0, 1)
    d.attrs |= {"time_axis": time, "batch_axis": 1 - time}
    shape = d.array(x).shape
    return [x, d.leaf(d.rng.integers(1, shape[time] + 1, shape[1 - time]))]


def blocks(d, deep):
    d.attrs["blocksize"] = b = d.pick(1, 2)
    n, c, h, w = (d.size() for _ in range(4))
    shape = (n, c * b * b, h, w) if deep else (n, c, h * b, w * b)
    return [d.of(shape, d.kind())]


def unique(d):
    d.outputs = d.pick(1, 2, 4)
    x = d.any(0, 3)
    if d.array(x).ndim and d.chance():
        d.attrs["axis"] = d.axis(d.array(x).ndim)
    return [x]


def centred(d):
    x = d.any(1)
    axes = d.axes(d.array(x).ndim) or [0]
    d.attrs["axes"] = axes
    return [x, d.number([d.size() for _ in axes])]


def cached(d):
    batch, length = d.size(), d.whole(2, 5)
    kind = d.kind()
    rows = d.whole(1, 2)
    d.attrs["axis"] = d.pick(-2, 2)
    starts = [d.leaf(d.rng.integers(0, length - rows + 1, batch))]
    return [d.of((batch, 2, length, 3), kind), d.of((batch, 2, rows, 3), kind), *starts]


def triangle(d):
    x = d.any(2)
    return [x, d.number(d.whole(-3, 3))] if d.chance(0.7) else [x]


def sized(d):
    x = d.any()
    if d.chance(0.4) and "start" in d.schema.attributes:
        d.attrs |= {"start": d.whole(-3, 2), "end": d.whole(-2, 4)}
    return [x]


row("Reshape", reshaped, "n", allowzero=(0,))
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
row("ScatterND", scattered_tuples, "n", reduction=("none", "add", "mul", "max", "min"))
row("ScatterElements", scattered, "n", reduction=("none", "add", "mul", "max", "min"))
row("Compress", compressed, "n")
row("OneHot", one_hot, "j")
row("Range", ranged)
row("ConstantOfShape", filled)
row("TopK", ranked, "j", largest=BOOL, sorted=(1,))
row("ArgMax ArgMin", placed, "j", keepdims=BOOL, select_last_index=BOOL)
row("CumSum CumProd", summed, exclusive=BOOL, reverse=BOOL)
row("ReverseSequence", reversed_rows, "n")
row("DepthToSpace", lambda d: blocks(d, True), "n", mode=("DCR", "CRD"))
row("SpaceToDepth", lambda d: blocks(d, False), "n")
row("Unique", unique, "j", sorted=BOOL)
row("NonZero", unary, "j")
row("CenterCropPad", centred, "n")
row("TensorScatter", cached, "n")
row("Trilu", triangle, "n", upper=BOOL)
row("EyeLike", lambda d: [d.any(2, 2)], "n", k=(-1, 0, 1), dtype=tuple(CODES.values()))
row("Shape", sized, "n")
row("Size", unary, "n")


# ---- sums and products -----------------------------------------------------------------------------------------------


def reduced(d):
    """Of some elements where it is a mean: ONNX Runtime's mean of none is 0."""
    x = d.any(fits=lambda x: x.size > 0 or d.schema.name != "ReduceMean")
    axes = d.axes(d.array(x).ndim)
    return [x, *(d.listed("axes", axes) if axes or d.chance(0.3) else [])]


def product(d):
    x = d.any(1)
    shape, kind = d.like(x)
    if len(shape) == 1 or d.chance(0.2):
        return [x, d.of((shape[-1], d.size()) if d.chance(0.7) else (shape[-1],), kind)]
    batch = d.pick((), shape[:-2], tuple(1 if d.chance() else n for n in shape[:-2]))
    return [x, d.of((*batch, shape[-1], d.size()), kind)]


def gemm(d):
    x = d.any(2, 2)
    (m, k), kind = d.like(x)
    m, k = (k, m) if d.attrs.get("transA") else (m, k)
    n = d.size()
    y = d.of((n, k) if d.attrs.get("transB") else (k, n), kind)
    return [x, y, d.beside((m, n), kind)] if d.chance(0.6) else [x, y]


EQUATIONS = (
    "ij,jk->ik", "ij,ij->", "ij->ji", "ii->i", "ij->i", "bij,bjk->bik", "i,j->ij", "bhqd,bhkd->bhqk", "ij,kj->ik",
    "...i,i->...", "ij,j",
)  # fmt: skip


def einsum(d):
    d.attrs["equation"] = equation = d.pick(*EQUATIONS)
    sizes = {letter: d.size() for letter in "abcdefghijklmnopqrstuvwxyz"}
    kind = d.kind()
    more = d.shape(0, 2)
    terms = [term.replace("...", "") for term in equation.partition("->")[0].split(",")]
    dots = ["..." in term for term in equation.split(",")]
    return [d.of((*more * dot, *(sizes[one] for one in term)), kind) for term, dot in zip(terms, dots, strict=True)]


row("ReduceSum ReduceMax ReduceMin", reduced, keepdims=BOOL, noop_with_empty_axes=BOOL)
row("ReduceL1 ReduceProd ReduceSumSquare", reduced, keepdims=BOOL, noop_with_empty_axes=BOOL)
row("ReduceMean ReduceL2 ReduceLogSum ReduceLogSumExp", reduced, "r", keepdims=BOOL, noop_with_empty_axes=BOOL)
row("MatMul", product)
row("Gemm", gemm, transA=BOOL, transB=BOOL, alpha=(0.5, 2.0), beta=(0.5, 0.0))
row("Einsum", einsum)
row("Det", lambda d: [d.any(2, 4, fits=lambda x: x.shape[-1] == x.shape[-2])], "r")


# ---- windows ---------------------------------------------------------------------------------------------------------


def windows(d, kernel, pools=False):
    """Attributes of windows: pads less than the kernel, so that each window of a pool has an element."""
    if d.chance(0.2):
        d.attrs["auto_pad"] = d.pick("SAME_UPPER", "SAME_LOWER", "VALID")
    elif d.chance(0.7):
        d.attrs["pads"] = [d.whole(0, n // 2 if pools else n - 1) for n in kernel * 2]
    same = "SAME" in d.attrs.get("auto_pad", "")
    if d.chance():
        # ONNX Runtime's pads that make the same size are below zero where windows have gaps between them
        d.attrs["strides"] = [d.pick(*range(1, min(n, 3) + 1)) if same else d.pick(1, 2, 3) for n in kernel]
    if d.chance(0.3) and not same and "dilations" in d.schema.attributes:
        d.attrs["dilations"] = [d.pick(1, 2) for _ in kernel]


def image(d, low=3, high=5, **more):
    """A value (N, C, spatial...)."""
    return d.any(low, high, **more)


def pooled(d):
    """Windows within the data: without one the results of ONNX Runtime are empty, and the package refuses them."""
    x = image(d)
    sizes = d.array(x).shape[2:]
    d.attrs["kernel_shape"] = kernel = [d.pick(1, *range(2, min(n, 3) + 1)) for n in sizes]
    windows(d, kernel, True)
    steps = d.attrs.get("dilations", [1])
    if any((k - 1) * max(steps) >= n for k, n in zip(kernel, sizes, strict=True)):
        raise Again
    return [x]


def pooled_with_places(d):
    d.outputs = d.pick(1, 1, 2)
    return pooled(d)


def filters(d, x, channels_first, low=-2, high=2):
    """Weights for x (N, C, spatial...), with groups, and how many channels the result has."""
    shape, kind = d.like(x)
    c = shape[1]
    if not c:
        raise Again
    group = d.pick(*(n for n in range(1, c + 1) if c % n == 0))
    out = d.size() if d.extent and d.extent % group == 0 else group * d.whole(1, 2)
    if out % group or not out:
        raise Again
    kernel = [d.pick(1, 2, 3) for _ in shape[2:]]
    if group > 1 or d.chance(0.3):
        d.attrs["group"] = group
    if d.chance():
        d.attrs["kernel_shape"] = kernel
    windows(d, kernel)
    return ((out, c // group, *kernel) if channels_first else (c, out // group, *kernel)), kind, out


def convolution(d):
    x = image(d)
    shape, kind, out = filters(d, x, True)
    return [x, d.of(shape, kind, -2, 2), *([d.of((out,), kind)] if d.chance() else [])]


def transposed_convolution(d):
    x = image(d)
    shape, kind, out = filters(d, x, False)
    if "auto_pad" in d.attrs:
        # of windows with gaps between them ONNX Runtime makes fewer results than ONNX infers
        d.attrs.pop("strides", None)
    if d.chance(0.2) and "strides" in d.attrs:
        d.attrs["output_padding"] = [d.whole(0, n - 1) for n in d.attrs["strides"]]
    return [x, d.of(shape, kind, -2, 2), *([d.of((out,), kind)] if d.chance() else [])]


def integer_convolution(d):
    x = image(d, 4, 4)
    shape, _, _ = filters(d, x, True)
    w = d.of(shape, d.kind(1))
    return [x, w, *zero_points(d, x, w)]


def zero_points(d, *operands):
    return [d.number(d.whole(0, 2), d.like(one)[1]) for one in operands][: d.whole(0, len(operands))]


def quantized_convolution(d):
    x = image(d, 4, 4)
    shape, _, out = filters(d, x, True)
    w = d.of(shape, kind := d.kind(3))
    point = d.number(0, kind)
    bias = [d.of((out,), "i4", constant=1)] if d.chance() else []
    return [x, *_scaled(d, d.like(x)[1]), w, d.number(0.5, "f4"), point, *_scaled(d, d.like(x)[1]), *bias]


def _scaled(d, kind):
    return [d.number(d.pick(0.25, 0.5, 1.0), "f4"), d.number(d.whole(0, 3), kind)]


def unpooled(d):
    x = image(d, 4, 4, kind="f4", fits=lambda x: 0 not in x.shape)
    n, c, h, w = d.array(x).shape
    d.attrs |= {"kernel_shape": [2, 2], "strides": [2, 2]}
    places = np.arange(n * c * h * w * 4).reshape(n * c, -1)
    return [x, d.leaf(np.stack([d.rng.permutation(one)[: h * w] for one in places]).reshape(n, c, h, w))]


def deformed(d):
    x = image(d, 4, 4, fits=lambda x: 0 not in x.shape)
    (n, c, h, w), kind = d.like(x)
    d.attrs |= {"kernel_shape": [2, 2], "pads": [1, 1, 0, 0]}
    out = d.size()
    offset = d.leaf((d.numbers((n, 8, h, w), kind) / 4).astype(kind))
    return [x, d.of((out, c, 2, 2), kind), offset, *([d.of((out,), kind)] if d.chance() else [])]


def regions(d):
    x = image(d, 4, 4, fits=lambda x: 0 not in x.shape)
    (n, _, h, w), kind = d.like(x)
    count = d.size()
    boxes = np.sort(d.rng.integers(0, 2 * max(h, w), (count, 2, 2)) / 2, 1).reshape(count, 4)
    d.attrs |= {"output_height": d.whole(1, 3), "output_width": d.whole(1, 3), "sampling_ratio": d.whole(1, 2)}
    return [x, d.leaf(boxes.astype(kind)), d.leaf(d.rng.integers(0, n, count))]


def sampled(d):
    x = image(d, 4, 5 if d.opset >= 20 else 4, fits=lambda x: 0 not in x.shape)
    shape, _ = d.like(x)
    spatial = len(shape) - 2
    grid = d.rng.integers(-9, 10, (shape[0], *(d.size() for _ in range(spatial)), spatial)) / 8
    modes = ("bilinear", "nearest", "bicubic") if d.opset < 20 else ("linear", "nearest", "cubic")
    d.attrs["mode"] = d.pick(*modes[: 3 if spatial == 2 else 2])
    return [x, d.leaf(grid.astype(d.kind(1, "f4")))]


def affine(d):
    """Axes of two or more: of an aligned axis of one ONNX Runtime takes the middle, ONNX the first corner."""
    spatial = d.pick(2, 3)
    n = d.size()
    size = [n, d.size(), *(max(2, d.size()) for _ in range(spatial))]
    return [d.of((n, spatial, spatial + 1), d.kind()), d.number(size)]


TRANSFORMS = ("half_pixel", "asymmetric", "align_corners", "pytorch_half_pixel")


def resized(d):
    x = d.any(1, 4, kind="f4 i4 u1 i1", fits=lambda x: 0 not in x.shape)
    shape, rank = d.array(x).shape, d.array(x).ndim
    mode = d.attrs["mode"] = d.pick("nearest", "linear", "cubic")
    still = rank - d.whole(1, min(rank, 2))
    if mode == "nearest" and d.chance():
        d.attrs["nearest_mode"] = d.pick("floor", "ceil", "round_prefer_floor", "round_prefer_ceil")
    # before opset 13 empty arrays stand for what is left out
    left_out = [d.leaf(np.zeros(0, "f4"), 1) if d.opset < 13 else "" for _ in range(2)]
    if d.chance():
        return [x, *left_out, d.number([*shape[:still], *(d.whole(1, 6) for _ in shape[still:])])]
    return [x, left_out[0], d.number([1] * still + [d.pick(0.5, 1, 2, 2, 1.5) for _ in shape[still:]], "f4")]


def columns(d):
    n, c, block, size = d.size(), d.whole(1, 2), [d.pick(1, 2), d.pick(1, 2)], [d.whole(2, 4), d.whole(2, 4)]
    count = (size[0] - block[0] + 1) * (size[1] - block[1] + 1)
    return [d.of((n, c * block[0] * block[1], count), d.kind()), d.number(size), d.number(block)]


row("MaxPool", pooled_with_places, ceil_mode=BOOL, storage_order=(0,))
row("AveragePool", pooled, "r", ceil_mode=BOOL, count_include_pad=BOOL)
row("LpPool", pooled, "r", p=(1, 2, 3))
row("GlobalAveragePool", lambda d: [image(d)], "r")
row("GlobalMaxPool", lambda d: [image(d)])
row("Conv", convolution)
row("ConvTranspose", transposed_convolution)
row("ConvInteger", integer_convolution)
row("QLinearConv", quantized_convolution)
row("MaxUnpool", unpooled)
row("DeformConv", deformed, "r")
row("RoiAlign", regions, "r", mode=("avg", "max"), spatial_scale=(0.5, 1.0))
row("GridSample", sampled, "r", align_corners=BOOL, padding_mode=("zeros", "border", "reflection"))
row("AffineGrid", affine, "r", align_corners=BOOL)
row("Resize", resized, "r", coordinate_transformation_mode=TRANSFORMS)
row("Col2Im", columns)
row("LRN", lambda d: [image(d, 4, 4)], "r", size=(1, 3), alpha=(0.5,), beta=(0.5,), bias=(2.0,))


# ---- norms -----------------------------------------------------------------------------------------------------------


def by_channel(d, count, low=2, spread=1):
    x = d.any(low)
    shape, kind = d.like(x)
    if 0 in shape:
        raise Again
    spreads = (d.leaf(d.numbers(shape[1:2], kind, 1, 4), 0.8) for _ in range(spread))
    return [x, *(d.of(shape[1:2], kind) for _ in range(count - spread)), *spreads]


def groups(d):
    x = d.any(3, fits=lambda x: 0 not in x.shape)
    (_, c, *_), kind = d.like(x)
    d.attrs["num_groups"] = n = d.pick(*(n for n in range(1, c + 1) if c % n == 0))
    size = (c if d.opset >= 21 else n,)
    return [x, d.of(size, kind), d.of(size, kind)]


def rows(d, count):
    x = d.any(1, fits=lambda x: 0 not in x.shape)
    shape, kind = d.like(x)
    if d.chance(0.8):
        d.attrs["axis"] = d.axis(len(shape))
    rest = shape[_on(d, x) :] if d.chance(0.8) else shape[-1:]
    return [x, *(d.of(rest, kind) for _ in range(count))]


def mean_variance(d):
    x = d.any(4, 4, fits=lambda x: 0 not in x.shape)
    if d.chance():
        d.attrs["axes"] = [axis % 4 for axis in d.axes(4)] or [1]
    if d.array(x).std(tuple(d.attrs.get("axes", (0, 2, 3)))).min() < 0.1:
        # ONNX Runtime's root of a variance that rounding makes negative
        raise Again
    return [x]


row("BatchNormalization", lambda d: by_channel(d, 4), "r", epsilon=(0.5,))
row("InstanceNormalization", lambda d: by_channel(d, 2, 3, 0), "r", epsilon=(0.5,))
row("GroupNormalization", groups, "r", epsilon=(0.5,))
row("LayerNormalization", lambda d: rows(d, d.pick(1, 2)), "r", epsilon=(0.5,))
row("RMSNormalization", lambda d: rows(d, 1), "r", epsilon=(0.5,))
row("MeanVarianceNormalization", mean_variance, "r")


# ---- quantized -------------------------------------------------------------------------------------------------------


def integer_product(d):
    """Of some terms: ONNX Runtime leaves sums of none unwritten."""
    a = d.any(2, 4, fits=lambda a: a.shape[-1] > 0)
    b = d.of((d.array(a).shape[-1], d.size()), d.kind(1))
    return [a, b, *zero_points(d, a, b)]


def quantized_product(d):
    a = d.any(2, 4, kind="u1 i1")
    b = d.of((d.array(a).shape[-1], d.size()), kind := d.pick("u1", "i1"))
    return [a, *_scaled(d, d.like(a)[1]), b, *_scaled(d, kind), *_scaled(d, d.like(a)[1])]


def _channel_scales(d, x, kind):
    """For the whole tensor, or for each place of an axis in opsets that have these."""
    shape = ()
    if d.opset >= 13 and d.array(x).ndim and d.chance(0.4):
        d.attrs["axis"] = axis = d.axis(d.array(x).ndim)
        shape = d.array(x).shape[axis : axis + 1 or None]
    return d.leaf(d.rng.choice([0.25, 0.5, 1.0, 2.0], shape).astype(kind), 0.9), shape


def quantized(d):
    x = d.any(kind="f4")
    scale, shape = _channel_scales(d, x, "f4")
    kind = d.pick("u1", "i1", "u1", "i1", "u2", "i2") if d.opset >= 21 else d.pick("u1", "i1")
    return [x, scale, d.leaf(d.numbers(shape, kind), 0.9)] if shape or d.chance(0.8) else [x, scale]


def dequantized(d):
    x = d.any(kind="u1 i1 i4" if d.opset < 21 else "u1 i1 i4 u2 i2")
    scale, shape = _channel_scales(d, x, "f4")
    kind = d.like(x)[1]
    return [x, scale, d.leaf(d.numbers(shape, kind), 0.9)] if kind != "i4" and d.chance(0.8) else [x, scale]


def ranged_bytes(d):
    """Of some numbers but 0: of none else ONNX Runtime's scale is 1, ONNX's 0."""
    d.outputs = 3
    return [d.any(fits=lambda x: x.any())]


row("MatMulInteger", integer_product)
row("QLinearMatMul", quantized_product)
row("QuantizeLinear", quantized, "j")
row("DequantizeLinear", dequantized)
row("DynamicQuantizeLinear", ranged_bytes, "rj")


# ---- sequences, attention --------------------------------------------------------------------------------------------


def recurrent(gates, d):
    size, length, batch, inside = d.whole(1, 4), d.size(), d.size(), d.size()
    if 0 in (length, batch, inside):
        # no state is the last, and ONNX Runtime aborts
        raise Again
    d.attrs["hidden_size"] = size
    d.attrs["direction"] = d.pick("forward", "reverse", "bidirectional")
    count = 2 if d.attrs["direction"] == "bidirectional" else 1
    kind = d.kind(0, "f4")
    x = d.of((length, batch, inside), kind)
    w, r = (d.leaf((d.numbers((count, gates * size, n), kind) / 4).astype(kind), 0.9) for n in (inside, size))
    d.outputs = d.pick(1, 2)
    operands = [x, w, r, d.of((count, 2 * gates * size), kind) if d.chance() else ""]
    if d.chance(0.4):
        operands += ["", d.of((count, batch, size), kind)]
    return operands


def attention(d):
    batch, heads, length, other, size, kind = d.size(), d.pick(1, 2), d.size(), d.size(), d.whole(1, 4), d.kind(0, "f4")
    q, k, v = ((batch, heads, n, size) for n in (length, other, other))
    d.attrs["is_causal"] = d.pick(0, 0, 1)
    mask = [d.of((length, other), d.pick(kind, "?"))] if d.chance(0.4) else []
    return [d.of(q, kind), d.of(k, kind), d.of(v, kind), *mask]


def turned(d):
    batch, heads, length, half = d.size(), d.pick(1, 2), d.size(), d.whole(1, 4)
    kind = d.kind(0, "f4")
    d.attrs["interleaved"] = d.pick(*BOOL)
    caches = [d.of((9, half), kind) for _ in range(2)]
    return [d.of((batch, heads, length, 2 * half), kind), *caches, d.leaf(d.rng.integers(0, 9, (batch, length)))]


def carried(d):
    batch, channels, length, taps, kind = d.size(), d.size(), d.size(), d.whole(1, 3), d.kind(0, "f4")
    d.outputs = 2
    bias = [d.of((channels,), kind)] if d.chance() else []
    return [d.of((batch, channels, length), kind), d.of((channels, 1, taps), kind), *bias]


def linear_attention(d):
    batch, length, heads, size, kind = d.size(), d.size(), d.pick(1, 2), d.whole(1, 4), d.kind(0, "f4")
    d.attrs |= {"q_num_heads": heads, "kv_num_heads": heads, "update_rule": "linear"}
    d.outputs = 2
    return [d.of((batch, length, heads * size), kind) for _ in range(3)]


row("LSTM", lambda d: recurrent(4, d), "r")
row("GRU", lambda d: recurrent(3, d), "r", linear_before_reset=BOOL)
row("RNN", lambda d: recurrent(1, d), "r")
row("Attention", attention, "r", scale=(0.5, 1.0), softcap=(0.0, 2.0))
row("RotaryEmbedding", turned, "r")
row("CausalConvWithState", carried, "r", activation=("none", "silu"))
row("LinearAttention", linear_attention, "r", scale=(0.5,))


# ---- signals, losses -------------------------------------------------------------------------------------------------


def fourier(d):
    batch, length, parts_ = d.size(), d.size(), d.pick(1, 2)
    kind = d.kind(0, "f4")
    if not length:
        raise Again
    if d.opset >= 20:
        return [d.of((batch, length, parts_), kind), "", d.number(1)]
    d.attrs["axis"] = 1
    return [d.of((batch, length, parts_), kind)]


def frames(d):
    batch, width, kind = d.size(), d.whole(2, 6), d.kind(0, "f4")
    signal = d.of((batch, width + d.whole(0, 9), 1), kind)
    return [signal, d.number(d.whole(1, 4)), *([d.of((width,), kind)] if d.chance() else ["", d.number(width)])]


def window(d):
    """Of two elements or more: a symmetric window of one is 0 / 0 by its definition."""
    return [d.number(d.whole(2, 9), d.pick("i8", "i4"))]


def mel(d):
    numbers = d.whole(1, 5), d.pick(8, 16), 8000
    return [*(d.number(n) for n in numbers), d.number(d.whole(0, 300), "f4"), d.number(d.whole(1000, 4000), "f4")]


def labelled(d):
    x = d.any(2, 4, fits=lambda x: 0 not in x.shape)
    (n, c, *rest), kind = d.like(x)
    weights = [d.leaf(d.numbers((c,), kind, 1, 4))] if d.chance() else []
    return [x, d.leaf(d.rng.integers(0, c, (n, *rest))), *weights]


def boxes(d):
    batch, count, classes = d.size(), d.size(), d.size()
    corners = np.sort(d.rng.integers(0, 9, (batch, count, 2, 2)), 2).reshape(batch, count, 4).astype("f4")
    limits = [d.number([d.whole(1, 4)]), d.number([0.3], "f4"), d.number([d.pick(-1.0, 0.5)], "f4")]
    return [d.leaf(corners), d.of((batch, classes, count), "f4"), *limits[: d.whole(1, 3)]]


row("DFT", fourier, "r", inverse=BOOL, onesided=(0,))
row("STFT", frames, "r", onesided=BOOL)
row("BlackmanWindow HammingWindow HannWindow", window, "r", periodic=BOOL)
row("MelWeightMatrix", mel, "r")
row("NegativeLogLikelihoodLoss SoftmaxCrossEntropyLoss", labelled, "r", reduction=("none", "sum", "mean"))
row("NonMaxSuppression", boxes, "j")


# ---- sequences of tensors --------------------------------------------------------------------------------------------


def sequence(d, same=False):
    """Emits what makes a sequence of two or three tensors."""
    x = d.any(1, 4, kind="f4 i8 i4")
    shape, kind = d.like(x)
    if d.chance(0.3):
        return d.emit("SplitToSequence", [x], axis=0) if shape[0] else d.emit("SequenceConstruct", [x])
    items = d.emit("SequenceConstruct", [x, d.of(shape, kind)])
    if d.chance(0.3):
        items = d.emit("SequenceInsert", [items, d.of(shape, kind)])
    return d.emit("SequenceErase", [items, d.number(0)]) if d.chance(0.2) else items


def optional(d):
    if d.opset < 18:
        # of optionals only, which no node makes of tensors but Optional
        return [d.emit("Optional", [d.any(kind="f4 i8 i4")])]
    return [d.any(kind="f4 i8 i4")]


row("SequenceAt", lambda d: [sequence(d), d.number(d.pick(0, -1))], "n")
row("SequenceLength", lambda d: [sequence(d)], "n")
row("ConcatFromSequence", lambda d: [sequence(d)], "n", axis=(0,), new_axis=BOOL)
row("OptionalHasElement OptionalGetElement", optional, "n")
