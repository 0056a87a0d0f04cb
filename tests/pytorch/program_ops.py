"""How calls are drawn that move numbers, compute element by element, reduce, or write in place."""

from .drawing import FLOATS, INTEGERS, Again, Draw, row, rows

FORMATS = ("torch.contiguous_format", "torch.preserve_format", "torch.channels_last")


# ---- what moves numbers ----------------------------------------------------------------------------------------------


def factored(d: Draw, count: int) -> list[int]:
    """Sizes whose product is `count`, in few axes, sometimes one of them as -1."""
    sizes: list[int] = []
    while count > 1 and len(sizes) < 4:
        sizes.append(d.pick(*(n for n in range(1, count + 1) if count % n == 0)))
        count //= sizes[-1]
    sizes += [count] * (count != 1 or not sizes)
    if 0 not in sizes and d.chance(0.3):
        sizes[d.whole(0, len(sizes) - 1)] = -1
    return sizes


def viewed(d):
    x, shape, _ = d.tensor()
    if d.chance(0.3) and len(shape) > 1:
        return f"{x}.{d.op}({x}.shape[0], -1)"
    return f"{x}.{d.op}({factored(d, d[x].numel())})"


def viewed_as(d):
    x = d.any()
    other = d.of(abs_of(factored(d, d[x].numel()), d[x].numel()), d.kind())
    return f"{x}.{d.op}({other})"


def abs_of(sizes, count):
    rest = 1
    for n in sizes:
        rest *= n if n != -1 else 1
    return [count // rest if n == -1 else n for n in sizes]


def by_axis(d):
    x, shape, _ = d.tensor(1)
    return f"{x}.{d.op}({d.axis(len(shape))})"


def by_axes(d):
    x, shape, _ = d.tensor(1)
    return f"{x}.{d.op}({d.axis(len(shape))}, {d.axis(len(shape))})"


def alone(d):
    return f"{d.any()}.{d.op}()"


def turned(d):
    return f"{d.any(0, 2)}.t()"


def matrices(d):
    return f"{d.any(2)}.mT"


def permuted(d):
    x, shape, _ = d.tensor()
    return f"{x}.permute({d.rng.sample(range(len(shape)), len(shape))})"


def new_axis(d):
    x, shape, _ = d.tensor(0, 4)
    return f"{x}.unsqueeze({d.whole(-len(shape) - 1, len(shape))})"


def expanded(d):
    x, shape, _ = d.tensor(0, 4)
    sizes = [d.size()] * d.whole(0, 1) + [d.size() if n == 1 else d.pick(n, -1) for n in shape]
    return f"{x}.{d.op}({abs_of_expanded(sizes, shape) if d.op == 'broadcast_to' else sizes})"


def abs_of_expanded(sizes, shape):
    lead = len(sizes) - len(shape)
    return [shape[i - lead] if n == -1 else n for i, n in enumerate(sizes)]


def strided(d):
    """Within the memory of what it reads."""
    x = d.any()
    room = d[x].untyped_storage().nbytes() // d[x].element_size()
    sizes = [d.whole(1, 3) for _ in range(d.whole(1, 3))]
    strides = [d.pick(0, 1, 2, 3, 5) for _ in sizes]
    reach = sum((n - 1) * stride for n, stride in zip(sizes, strides, strict=True))
    if reach >= room:
        raise Again
    return f"{x}.as_strided({sizes}, {strides}, {d.whole(0, room - 1 - reach)})"


def selected(d):
    x, shape, _ = d.tensor(1)
    return f"{x}.select({d.axis(len(shape))}, {d.pick(0, -1)})"


def narrowed(d):
    x, shape, _ = d.tensor(1)
    axis = d.axis(len(shape))
    start = d.whole(0, shape[axis] - 1)
    return f"{x}.narrow({axis}, {start}, {d.whole(1, shape[axis] - start)})"


def sliced(d):
    x, shape, _ = d.tensor(1)
    part = d.pick(f"..., {d.whole(0, 1)}::{d.whole(1, 3)}", f":{d.whole(1, 3)}", f"..., -{d.whole(1, 2)}:", "None, ...")
    return f"{x}[{part}]" if len(shape) < 5 else f"{x}[..., :1]"


def windows(d):
    x, shape, _ = d.tensor(1, 4)
    axis = d.axis(len(shape))
    return f"{x}.unfold({axis}, {d.whole(1, shape[axis])}, {d.whole(1, 2)})"


def diagonal(d):
    x, shape, _ = d.tensor(2)
    return f"{x}.diagonal({d.whole(-1, 1)}" + d.pick(")", f", {d.axis(len(shape))}, {d.axis(len(shape))})")


def spread(d):
    return f"torch.diag_embed({d.any(1, 3)}, {d.whole(-1, 1)})"


def parted(d):
    x, shape, _ = d.tensor(1)
    axis = d.axis(len(shape))
    by = {"split": d.whole(1, 3), "chunk": d.whole(1, 3), "tensor_split": d.whole(1, 3), "unbind": None}[d.op]
    return f"{x}.{d.op}({axis if by is None else f'{by}, {axis}'})[{d.pick(0, -1)}]"


def joined(d):
    x, shape, kind = d.tensor(1)
    axis = d.axis(len(shape))
    other = list(shape)
    other[axis] = d.size()
    pair = [x, d.of(other, kind if d.chance(0.8) else d.kind())][:: d.pick(1, -1)]
    return f"torch.cat([{', '.join([*pair, *[x] * d.chance(0.2)])}], {axis})"


def stacked(d):
    x, shape, kind = d.tensor(0, 4)
    return f"torch.stack([{x}, {d.of(shape, kind)}], {d.whole(-len(shape) - 1, len(shape))})"


def rolled(d):
    x, shape, _ = d.tensor(1)
    return f"{x}.roll({d.whole(-2, 2)}, {d.axis(len(shape))})"


def repeated(d):
    x, shape, _ = d.tensor(0, 4)
    return f"{x}.{d.op}({[d.pick(1, 2) for _ in range(len(shape) + d.whole(0, 1))]})"


def interleaved(d):
    x, shape, _ = d.tensor(1)
    return f"{x}.repeat_interleave({d.whole(1, 3)}, {d.axis(len(shape))})"


def cornered(d):
    return f"{d.any(2)}.{d.op}({d.whole(-2, 2)})"


def of_format(d):
    x, shape, _ = d.tensor(4 if d.chance(0.6) else 0)
    layout = d.pick(*FORMATS[: 3 if len(shape) == 4 else 2])
    more = f"torch.{str(d.dtype())[6:]}, copy=True, " if d.op == "to" and d.chance() else ""
    return f"{x}.{d.op}({more}memory_format={layout})"


def of_type(d):
    spelling = d.pick("{0}.to({1})", "{0}.to({1}, copy=True)", "{0}.to('cpu', {1})", "{0}.type({1})")
    return spelling.format(d.any(fits=is_small), d.dtype())


def is_small(x):
    """What integers of all types hold."""
    return bool((x.double().abs() <= 100).all())


def as_other(d):
    return f"{d.any(fits=is_small)}.{d.pick('to', 'type_as')}({d.of((1,), d.kind())})"


def places(d, shape, size, parameter=0.5):
    """Integers below `size`."""
    return d.leaf(d.numbers(shape, "i64", 0, size - 1), parameter)


def indexed(d):
    x, shape, _ = d.tensor(1, 4)
    axis = d.axis(len(shape))
    return f"{x}.index_select({axis}, {places(d, (d.size(),), shape[axis])})"


def chosen_rows(d):
    x, shape, _ = d.tensor(1, 4)
    return f"{x}[{places(d, d.shape(1, 2), shape[0])}]"


def chosen_pairs(d):
    x, shape, _ = d.tensor(2, 4)
    n = d.size()
    return f"{x}[{places(d, (n,), shape[0])}, {places(d, (n,), shape[1])}]"


def gathered(d):
    x, shape, _ = d.tensor(1)
    axis = d.axis(len(shape))
    rows_ = [d.whole(1, n) for n in shape]
    rows_[axis] = d.size()
    return f"{x}.gather({axis}, {places(d, rows_, shape[axis])})"


def scattered(d):
    """To different places along the axis."""
    x, shape, kind = d.tensor(1)
    axis = d.axis(len(shape))
    order = d.leaf(d.numbers(shape, "f32").argsort(dim=axis, stable=True), 0.5)
    return f"{x}.{d.op}({axis}, {order}, {d.of(shape, kind)})"


def embedded(d):
    table, shape, _ = d.tensor(2, 2)
    return f"F.embedding({places(d, d.shape(0, 3), shape[0])}, {table})"


def hot(d):
    return f"F.one_hot({places(d, d.shape(0, 4), 4)}, {d.whole(4, 5)})"


def filled(d):
    x = d.any()
    more = f", {d.whole(0, 3)}" if d.op == "full_like" else ""
    return f"torch.{d.op}({x}{more}" + d.pick(")", f", dtype={d.dtype()})")


def counted(d):
    return f"torch.arange({d.whole(0, 2)}, {d.whole(3, 6)}, dtype={d.dtype('f32 i32 i64')}) + {d.any(0, 0)}"


row("view reshape", viewed, "m")
row("view_as reshape_as", viewed_as, "m")
row("flatten", by_axis, "m")
row("squeeze flip", by_axis, "m")
row("transpose movedim swapaxes", by_axes, "m")
row("clone contiguous ravel detach", alone, "m")
row("expand broadcast_to", expanded, "m")
row("split chunk tensor_split unbind", parted, "m")
row("repeat tile", repeated, "m")
row("tril triu", cornered, "m")
row("to clone.format contiguous.format", lambda d: renamed(d, of_format), "m")
row("zeros_like ones_like full_like", filled, "m")
row("scatter", scattered, "m")
row("scatter_add", scattered)
rows("m", t=turned, mT=matrices, permute=permuted, unsqueeze=new_axis, as_strided=strided, select=selected,
     narrow=narrowed, slice=sliced, unfold=windows, diagonal=diagonal, diag_embed=spread, cat=joined, stack=stacked,
     roll=rolled, repeat_interleave=interleaved, index_select=indexed, rows=chosen_rows, pairs=chosen_pairs,
     gather=gathered, embedding=embedded, one_hot=hot, arange=counted)  # fmt: skip
rows("j", dtype=of_type, other=as_other)


def renamed(d, draw):
    """Two spellings of an op that has rows of its own without arguments."""
    d.op = d.op.removesuffix(".format")
    return draw(d)


# ---- element by element ----------------------------------------------------------------------------------------------


def unary(d):
    return f"torch.{d.op}({d.any()})"


def of_floats(d):
    return f"torch.{d.op}({d.any(kinds=FLOATS)})"


def activation(d):
    return f"F.{d.op}({d.any(kinds=FLOATS)})"


def with_number(name, *numbers):
    """An activation with one of some arguments."""
    row(name, lambda d: f"F.{d.op}({d.any(kinds=FLOATS)}, {d.pick(*numbers)})", "r")


def pair(d, low=-3, high=3):
    x = d.any()
    return [x, d.beside(x, "", low, high)][:: d.pick(1, 1, -1)]


def binary(d):
    a, b = pair(d)
    return f"torch.{d.op}({a}, {b})"


def scaled(d):
    a, b = pair(d)
    return f"torch.{d.op}({a}, {b}" + d.pick(")", f", alpha={d.pick(2, -1)})")


def by_number(d):
    sign, number = d.pick("+", "-", "*", "/"), d.pick(1, 2, -2, 0.5)
    return d.pick(f"{d.any()} {sign} {number}", f"{number} {d.pick('+', '-', '*')} {d.any()}")


def divided(d):
    """By what is not zero; towards zero or minus infinity whole numbers."""
    x = d.any()
    y = d.leaf(d.numbers(d[x].shape if d.chance() else (), d.kind("f32 i32 i64"), 1, 3))
    mode = f", rounding_mode={d.pick('trunc', 'floor')!r}" if d.op == "div" and d.chance(0.3) else ""
    return f"torch.{d.op}({x}, {y}{mode})"


def powers(d):
    if d.chance():
        return f"{d.any(kinds=FLOATS)} ** {d.pick(2, 3, 0.5, -1, 1, 0, 4, 1.5)}"
    x = d.any()
    return f"torch.pow({x}, {d.beside(x, '', 0, 2)})"


def logical(d):
    a, b = pair(d)
    return f"torch.{d.op}({a}, {b})"


def bits(d):
    x = d.any(kinds=f"{INTEGERS} bool")
    return f"{x} {d.pick('&', '|', '^')} {d.beside(x, f'{INTEGERS} bool')}"


def inverted(d):
    return f"~{d.any(kinds=f'{INTEGERS} bool')}"


def shifted(d):
    x = d.any(kinds=INTEGERS)
    return f"{x} {d.pick('<<', '>>')} {d.leaf(d.numbers((), d.like(x)[1], 0, 2))}"


def clamped(d):
    x = d.any()
    low, high = d.pick((-1, 2), (0, None), (None, 1))
    return f"torch.clamp({x}, {low}, {high})"


def clamped_between(d):
    x = d.any()
    return f"torch.clamp({x}, {d.beside(x, '', -3, 0)}, {d.beside(x, '', 0, 3)})"


def condition(d, x):
    return f"{d.beside(x)} {d.pick('>', '<=', '==')} {d.pick(0, 1)}" if d.chance() else d.beside(x, "bool")


def chosen(d):
    x = d.any()
    other = d.pick(d.beside(x), str(d.pick(0, -1.0)))
    yes, no = [x, other][:: d.pick(1, -1)]
    return f"torch.where({condition(d, x)}, {yes}, {no})"


def masked(d):
    x = d.any()
    return f"{x}.masked_fill({condition(d, x)}, {d.whole(-1, 2)})"


def three(d):
    x = d.any(kinds=FLOATS)
    kind = d.like(x)[1]
    value = "" if d.op == "lerp" else f", value={d.pick(1, 2, -1)}"
    last = d.pick(0.5, 2) if d.op == "lerp" else d.beside(x, kind, *((1, 3) if d.op == "addcdiv" else ()))
    return f"torch.{d.op}({x}, {d.beside(x, kind)}, {last}{value})"


row("abs neg square positive sign", unary)
row("floor ceil trunc round frac isnan isinf isfinite logical_not signbit", unary, "j")
row("relu", unary)
row("sqrt rsqrt reciprocal exp exp2 expm1 log log1p log2 sin cos tan asin acos atan sinh cosh tanh asinh atanh",
    unary, "r")  # fmt: skip
row("sigmoid erf erfc", unary, "r")
row("nan_to_num", of_floats)
row("silu mish hardswish hardsigmoid selu softplus softsign logsigmoid tanhshrink", activation, "r")
row("relu6 hardtanh", activation)
row("hardshrink softshrink", activation, "j")
with_number("gelu", "approximate='none'", "approximate='tanh'")
with_number("elu", 1.0, 0.5)
with_number("celu", 1.0, 2.0)
with_number("leaky_relu", 0.5, 0.25, 0.01)
with_number("threshold", "1.0, 0.5")
row("add sub rsub", scaled)
row("mul maximum minimum fmax fmin", binary)
row("div", divided, "r")
row("remainder fmod floor_divide", divided, "j")
row("pow", powers, "r")
row("atan2 logaddexp hypot", lambda d: f"torch.{d.op}({(x := d.any(kinds=FLOATS))}, {d.beside(x, d.like(x)[1])})", "r")
row("eq ne lt le gt ge logical_and logical_or logical_xor", logical, "j")
row("addcmul addcdiv lerp", three, "r")
rows("", number=by_number, clamp=clamped, clamp_between=clamped_between, bitwise=bits, invert=inverted, shift=shifted)
rows("j", where=chosen, masked_fill=masked)


# ---- reductions ------------------------------------------------------------------------------------------------------


def reduced(d):
    x, shape, _ = d.tensor(kinds=FLOATS if d.op in ("mean", "var", "std", "logsumexp") else "")
    axes = d.axes(len(shape)) or [d.axis(len(shape))]
    if d.chance(0.2) and d.op not in ("logsumexp", "amax", "amin"):
        return f"torch.{d.op}({x})"
    if d.op in ("prod", "all", "any") and d.chance(0.7):
        axes = axes[0]
    more = f", correction={d.pick(0, 1)}" if d.op in ("var", "std") else ""
    more += f", dtype={d.dtype(FLOATS)}" if d.op in ("sum", "mean") and d.chance(0.15) else ""
    return f"torch.{d.op}({x}, {axes}, keepdim={d.chance()}{more})"


def normed(d):
    x, shape, _ = d.tensor(1, kinds=FLOATS)
    order = d.pick(1, 2, "float('inf')", 3)
    return f"torch.linalg.vector_norm({x}, {order}, {d.axes(len(shape)) or None}, keepdim={d.chance()})"


def located(d):
    x, shape, _ = d.tensor(1)
    return f"torch.{d.op}({x}, {d.axis(len(shape))}, keepdim={d.chance()})"


def largest(d):
    """The values: which of equal ones is not defined."""
    x, shape, _ = d.tensor(1)
    axis = d.axis(len(shape))
    return {
        "max": f"torch.max({x}, {axis}, keepdim={d.chance()})[0]",
        "min": f"torch.min({x}, {axis}, keepdim={d.chance()})[{d.pick(0, 1)}]",
        "topk": f"torch.topk({x}, {d.whole(1, shape[axis])}, {axis}, largest={d.chance()})[0]",
        "sort": f"torch.sort({x}, dim={axis}, stable=True, descending={d.chance()})[{d.pick(0, 1)}]",
        "median": f"torch.median({x}, {axis})[0]",
    }[d.op]


def running(d):
    return f"torch.{d.op}({(x := d.any(1))}, {d.axis(len(d[x].shape))})"


row("sum amax amin", reduced)
row("prod", reduced)
row("mean var std logsumexp", reduced, "r")
row("any all", reduced, "j")
row("norm", normed, "r")
row("argmax argmin", located, "j")
row("max min topk sort median", largest, "j")
row("cumsum cumprod", running)
row("cummax", lambda d: f"torch.cummax({(x := d.any(1))}, {d.axis(len(d[x].shape))})[0]", "j")
row("count_nonzero", lambda d: f"torch.count_nonzero({(x := d.any(1))}, {d.axis(len(d[x].shape))})", "j")


# ---- in place --------------------------------------------------------------------------------------------------------


def written(d):
    """To a result, or to a part of it."""
    x = d.own(1 if (part := d.chance(0.3)) else 0)
    place = f"{x}[{d.pick(':1', '..., -1', '0')}]" if part else x
    other = d.of((), d.like(x)[1]) if part else d.beside(x, d.like(x)[1])
    return {
        "add_": f"{place}.add_({other})",
        "sub_": f"{place}.sub_({other})",
        "mul_": f"{place}.mul_({d.pick(other, '2')})",
        "copy_": f"{place}.copy_({other})",
        "fill_": f"{place}.fill_({d.whole(-1, 2)})",
        "zero_": f"{place}.zero_()",
        "clamp_": f"{place}.clamp_({d.pick('0', '-1, 1')})",
        "masked_fill_": f"{place}.masked_fill_({place} > 0, 1)",
    }[d.op]


def rounded(d):
    return f"{d.own(kinds=FLOATS)}.{d.op}()"


row("add_ sub_ mul_ copy_ fill_ zero_ clamp_", written)
row("masked_fill_", written, "j")
row("relu_ abs_ neg_", rounded)
row("sigmoid_ tanh_ exp_", rounded, "r")
row("hardtanh.in_place", lambda d: f"F.hardtanh({d.own(kinds=FLOATS)}, inplace=True)")
row("elu.in_place", lambda d: f"F.elu({d.own(kinds=FLOATS)}, inplace=True)", "r")
row("silu.in_place", lambda d: f"F.silu({d.own(kinds=FLOATS)}, inplace=True)", "r")
row("transpose_ swapaxes_", lambda d: f"{(x := d.made(1))}.{d.op}({d.axis(d[x].ndim)}, {d.axis(d[x].ndim)})", "m")
row("unsqueeze_", lambda d: f"{d.made(0, 4)}.unsqueeze_({d.pick(0, -1)})", "m")
row("squeeze_ t_", lambda d: f"{d.made(0, 2)}.{d.op}()", "m")
