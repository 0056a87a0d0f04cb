"""How calls are drawn that compute element by element, reduce, or write in place."""

import math

import torch

from .drawing import FLOATS, INTEGERS, row, rows

# ---- element by element ----------------------------------------------------------------------------------------------


def unary(d):
    return f"torch.{d.op}({d.any()})"


def by_sign(d):
    return f"torch.{d.op}({d.signed()})"


def of_floats(d):
    return f"torch.{d.op}({d.any(kinds=FLOATS)})"


def activation(d):
    return f"F.{d.op}({d.any(kinds=FLOATS)})"


def is_finite(x):
    return bool(x.isfinite().all())


def with_number(name, *numbers, **more):
    """An activation with one of some arguments."""
    row(name, lambda d: f"F.{d.op}({d.any(kinds=FLOATS, **more)}, {d.pick(*numbers)})", "r")


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
        power = d.pick(2, 3, 0.5, -1, 1, 0, 4, 1.5)
        return f"{(d.signed if power == -1 else d.any)(kinds=FLOATS)} ** {power}"
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
row("floor ceil trunc round frac isnan isinf isfinite logical_not", unary, "j")
row("signbit", by_sign, "j")
row("rsqrt reciprocal", by_sign, "r")
row("relu", unary)
row("sqrt exp exp2 expm1 log log1p log2 sin cos tan asin acos atan sinh cosh tanh asinh atanh",
    unary, "r")  # fmt: skip
row("sigmoid erf erfc", unary, "r")
row("nan_to_num", of_floats)
row("silu mish hardswish hardsigmoid selu softplus softsign logsigmoid tanhshrink", activation, "r")
row("relu6 hardtanh", activation)
row("hardshrink softshrink", activation, "j")
# of infinity eager has NaN, of one number alone infinity
with_number("gelu", "approximate='none'", "approximate='tanh'", fits=is_finite)
with_number("elu", 1.0, 0.5)
with_number("celu", 1.0, 2.0)
with_number("leaky_relu", 0.5, 0.25, 0.01)
with_number("threshold", "1.0, 0.5")
row("add sub rsub", scaled)
row("mul maximum minimum fmax fmin", binary)
row("div", divided, "r")
row("remainder fmod floor_divide", divided, "j")
row("pow", powers, "r")
row(
    "atan2 logaddexp hypot",
    lambda d: f"torch.{d.op}({(x := d.signed(kinds=FLOATS))}, {d.beside(x, d.like(x)[1])})",
    "r",
)
row("eq ne lt le gt ge logical_and logical_or logical_xor", logical, "j")
row("addcmul addcdiv lerp", three, "r")
rows("", number=by_number, clamp=clamped, clamp_between=clamped_between, bitwise=bits, invert=inverted, shift=shifted)
rows("j", where=chosen, masked_fill=masked)


# ---- reductions ------------------------------------------------------------------------------------------------------


def reduced(d):
    kinds = FLOATS if d.op in ("mean", "var", "std", "logsumexp") else ""
    x, shape, _ = d.tensor(kinds=kinds, fits=lambda x: d.op != "prod" or holds_products(x))
    axes = d.axes(len(shape)) or [d.axis(len(shape))]
    if d.chance(0.2) and d.op not in ("logsumexp", "amax", "amin"):
        return f"torch.{d.op}({x})"
    if d.op in ("prod", "all", "any") and d.chance(0.7):
        axes = axes[0]
    more = f", correction={d.pick(0, 1)}" if d.op in ("var", "std") else ""
    more += f", dtype={d.dtype(FLOATS)}" if d.op in ("sum", "mean") and d.chance(0.15) else ""
    return f"torch.{d.op}({x}, {axes}, keepdim={d.chance()}{more})"


def holds_products(x):
    """Whether no product of elements overflows: the order in which they meet would tell whether zeros give NaN."""
    return not x.is_floating_point() or x.numel() * math.log(3) < math.log(torch.finfo(x.dtype).max)


def normed(d):
    x, shape, _ = d.tensor(1, kinds=FLOATS)
    order = d.pick(1, 2, "float('inf')", 3)
    return f"torch.linalg.vector_norm({x}, {order}, {d.axes(len(shape)) or None}, keepdim={d.chance()})"


def located(d):
    x, shape, _ = d.tensor(1)
    return f"torch.{d.op}({x}, {d.axis(len(shape))}, keepdim={d.chance()})"


def largest(d):
    """The values: which of equal ones is not defined."""
    x, shape, _ = d.tensor(1, fits=lambda x: d.op != "median" or not repeats(x))
    axis = d.axis(len(shape))
    return {
        "max": f"torch.max({x}, {axis}, keepdim={d.chance()})[0]",
        "min": f"torch.min({x}, {axis}, keepdim={d.chance()})[{d.pick(0, 1)}]",
        "topk": f"torch.topk({x}, {d.whole(1, shape[axis])}, {axis}, largest={d.chance()})[0]",
        "sort": f"torch.sort({x}, dim={axis}, stable=True, descending={d.chance()})[{d.pick(0, 1)}]",
        "median": f"torch.median({x}, {axis})[0]",
    }[d.op]


def repeats(x):
    """Whether the elements of an axis are one, of which eager's median is a number that is not among them."""
    return any(size > 1 and not stride for size, stride in zip(x.shape, x.stride(), strict=True))


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
