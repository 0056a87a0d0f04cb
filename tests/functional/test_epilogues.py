"""Builtin kernels apply post-ops to sums that have not been rounded: every form, against the definition."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import pytest
from algorithms.test_algorithms import external
from reference import conv_transpose, convolution
from reference.elementwise import BINARY, UNARY
from reference.rounding import wide

import dnnl_graph_ops as dgo
from dnnl_graph_ops import dtypes
from dnnl_graph_ops.algorithms import lower, table
from dnnl_graph_ops.compile.plan import assemble
from dnnl_graph_ops.convolution.nodes import CONV_KINDS, make_problem
from dnnl_graph_ops.ir.env import Env
from dnnl_graph_ops.program.epilogue import EpilogueOp, map_views
from dnnl_graph_ops.program.program import Place, Program, View

Array = np.ndarray[Any, Any]
CASES = (35, 70, 700)
KINDS = ("ConvTranspose", "Convolution")
# forms that apply post-ops themselves wherever these have a program
FUSING = {
    "ConvTranspose": {"builtin direct", "Winograd 2", "Winograd 3", "builtin col2im"},
    "Convolution": {"builtin direct", "Winograd 2", "Winograd 3"},
}
EXACT = ("Add", "Subtract", "Multiply", "Maximum", "Minimum", "ReLU", "Abs", "Square", "LeakyReLU", "Clamp", "PReLU")
ROUNDING = ("Sigmoid", "Tanh", "GELU", "Elu", "HardSwish", "Divide", "Swish")
ATTRS: dict[str, dict[str, Any]] = {
    "LeakyReLU": {"alpha": 0.5},
    "Clamp": {"min": -5.0, "max": 6.0},
    "Elu": {"alpha": 1.5},
    "PReLU": {"data_format": "NCX"},
}
LARGEST = 30000.0  # so that sums of small integers stay exact, and finite in f16


class Layer(NamedTuple):
    kind: str
    attrs: dict[str, Any]
    x: tuple[int, ...]
    w: tuple[int, ...]
    extra: int  # channels of the buffer that dst is a slice of beside its own; -1: dst is channels first


def draw(rng: np.random.Generator) -> Layer | None:
    """None where dst would be empty."""
    kind, rank, groups = str(rng.choice(KINDS)), int(rng.integers(1, 4)), int(rng.choice([1, 1, 1, 1, 2, 3]))
    widths = [1, 3, 8, 16, 17, 24, 32, 48, 64, 80]
    ic, oc = (int(rng.choice(widths)) for _ in range(2))
    stride = [int(rng.integers(1, 4)) for _ in range(rank)]
    kernel = [int(rng.choice([1, s, 2 * s, 2 * s, 3 * s if rank < 3 else 2, 3])) for s in stride]
    if rng.random() < 0.2:
        kernel = stride = [1] * rank
    size = [int(rng.integers(1, 14 if rank == 1 else 9 if rank == 2 else 5)) for _ in range(rank)]
    dilation = [int(rng.choice([1, 1, 1, 2])) for _ in range(rank)]
    begin, end = ([int(rng.integers(0, k)) for k in kernel] for _ in range(2))
    found = laid(kind, groups, ic, oc, kernel, size, strides=stride, pads_begin=begin, pads_end=end, dilations=dilation)
    if found is None:
        return None
    attrs, weights, seen = found
    extra = int(rng.choice([0, 0, 3, 16, -1]))
    return Layer(kind, attrs, (int(rng.integers(1, 4)), *seen, groups * ic), weights, extra)


def laid(kind: str, groups: int, ic: int, oc: int, kernel: list[int], size: list[int], **each: list[int]) -> Any:
    """Attributes, the weights' shape and the source's sizes of a layer; `size`: of the transposed convolution's src."""
    # the sizes of the transposed convolution's dst, which an ordinary one reads
    wide_side = [
        s * (n - 1) + d * (k - 1) + 1 - b - e for n, k, s, b, e, d in zip(size, kernel, *each.values(), strict=True)
    ]
    if min(wide_side) < 1:
        return None
    attrs = {**each, "groups": groups, "data_format": "NXC"}
    if kind == "ConvTranspose":
        return attrs | {"weights_format": "IOX"}, (groups * ic, oc, *kernel), size
    return attrs | {"weights_format": "OIX", "auto_pad": "None"}, (groups * oc, ic, *kernel), wide_side


def draw_lines(rng: np.random.Generator) -> Layer | None:
    """Long lines of few channels, which builtin kernels multiply in strips."""
    kind, rank, groups = str(rng.choice(KINDS)), int(rng.choice([1, 1, 2, 2, 3])), int(rng.choice([1, 1, 1, 2]))
    ic, oc = (int(rng.choice([1, 3, 8, 12, 16, 20, 33, 40, 72])) for _ in range(2))
    one = rng.random() < 0.25
    stride = [1] * (rank - 1) + [1 if one else int(rng.choice([1, 1, 1, 2, 3]))]
    kernel = [1 if one else int(rng.choice([1, 2, 3, 3, 7 if rank == 1 else 4])) for _ in range(rank)]
    size = [int(rng.integers(1, 6)) for _ in range(rank - 1)] + [int(rng.integers(20, 100))]
    dilation = [1] * (rank - 1) + [int(rng.choice([1, 1, 2, 3, 5]))]
    begin, end = ([int(rng.integers(0, d * (k - 1) + 1)) for d, k in zip(dilation, kernel, strict=True)] for _ in "be")
    found = laid(kind, groups, ic, oc, kernel, size, strides=stride, pads_begin=begin, pads_end=end, dilations=dilation)
    if found is None:
        return None
    attrs, weights, seen = found
    return Layer(kind, attrs, (int(rng.integers(1, 3)), *seen, groups * ic), weights, int(rng.choice([0, 0, 0, 3, 16])))


def plain_sums(layer: Layer, x: Array, w: Array) -> Array:
    define = conv_transpose.forward if layer.kind == "ConvTranspose" else convolution.forward
    return define(x, w, **layer.attrs)


def operand_of(rng: np.random.Generator, shape: tuple[int, ...], values: list[float], laid: View) -> tuple[View, Array]:
    """An operand of post-ops on (N, C, spatial...), and its values in NXC."""
    n, c, *spatial = shape
    ones = (1,) * len(spatial)
    kind = int(rng.integers(0, 6))
    drawn = {
        0: shape, 1: shape, 2: (1, c, *ones), 3: (1, 1, *ones), 4: (n, c, *ones), 5: (n, 1, *spatial),
    }[kind]  # fmt: skip
    data = rng.choice(values, drawn).astype(np.float32)
    if kind == 1:
        # as dst lies: perhaps a slice of something wider
        width = laid.strides[3] if len(spatial) > 1 else laid.strides[2]
        width = max(width, c) if laid.strides[1] == 1 else c
        whole = np.full((n, *spatial, width), np.nan, np.float32)
        whole[..., :c] = np.moveaxis(data, 1, -1)
        view = Program().constant(whole).narrow(len(spatial) + 1, 0, c)
        view = view.permute((0, len(spatial) + 1, *range(1, len(spatial) + 1)))
    else:
        view = Program().constant(data)
    return view, np.moveaxis(data, 1, -1)


def draw_epilogue(
    rng: np.random.Generator, kinds: tuple[str, ...], want: Array, shape: tuple[int, ...], laid: View
) -> tuple[tuple[EpilogueOp, ...], Array]:
    """Up to five post-ops, and what they make of `want` (NXC)."""
    epilogue: list[EpilogueOp] = []
    results = [want]
    for _ in range(int(rng.integers(1, 6))):
        kind = str(rng.choice(kinds))
        number = len(results) - 1
        made = [EpilogueOp(kind, ATTRS.get(kind, {}), (number,))]
        value = results[-1]
        if kind == "Swish":
            gate = UNARY["Sigmoid"](value)
            made = [EpilogueOp("Sigmoid", {}, (number,)), EpilogueOp("Multiply", {}, (number, number + 1))]
            new = [gate, value * gate]
        elif kind == "PReLU":
            slopes = rng.choice([0.5, 2.0, -1.0], shape[1]).astype(np.float32)
            made = [EpilogueOp(kind, ATTRS[kind], (number, Program().constant(slopes)))]
            new = [np.where(value > 0, value, value * slopes)]
        elif kind in BINARY:
            values = [1.0, 2.0, 4.0] if kind == "Divide" else [-2.0, -1.0, 0.0, 1.0, 2.0]
            view, data = operand_of(rng, shape, values, laid)
            exchanged = kind != "Divide" and rng.random() < 0.3
            made = [EpilogueOp(kind, {}, (view, number) if exchanged else (number, view))]
            new = [BINARY[kind](*((data, value) if exchanged else (value, data)))]
        else:
            new = [UNARY[kind](value, **ATTRS.get(kind, {}))]
        if np.abs(new[-1]).max(initial=0) > LARGEST:
            continue
        epilogue += made
        results += new
    return tuple(epilogue), results[-1]


def unused(constant: View) -> View:
    """The same constant, whose data a plan may let go."""
    return replace(constant, buffer=replace(constant.buffer))


def check(
    layer: Layer, dtype: str, kinds: tuple[str, ...], rng: np.random.Generator, same: Callable[..., None]
) -> set[str]:
    """Every form that applies gives what the definition says; the names of those that apply the post-ops themselves."""
    engine = dgo.engine("cpu")
    env = Env(engine, dgo.get_num_threads())
    item = dtypes.numpy_dtype(dtype)
    x, w = (rng.integers(-2, 3, shape).astype(np.float32) for shape in (layer.x, layer.w))
    sums = plain_sums(layer, x, w).astype(np.float64)
    n, *spatial, c = sums.shape
    bias = rng.integers(-3, 4, c).astype(np.float32) if rng.random() < 0.5 else None
    if bias is not None:
        sums = sums + bias
    if layer.extra < 0:
        whole = np.full((n, c, *spatial), np.nan, item)
        visible = np.moveaxis(whole, 1, -1)
    else:
        whole = np.full((n, *spatial, c + layer.extra), np.nan, item)
        first = int(rng.integers(0, layer.extra + 1))
        visible = whole[..., first : first + c]

    def described() -> tuple[View, View]:
        output = external(Place.OUTPUT, whole, 0)
        if layer.extra < 0:
            return output, output.permute((0, *range(2, output.ndim), 1))
        return output, output.narrow(output.ndim - 1, first, c)

    last = len(spatial) + 1
    laid = described()[1].permute((0, last, *range(1, last)))
    epilogue, want = draw_epilogue(rng, kinds, sums, (n, c, *spatial), laid)
    operands = [x.astype(item), w.astype(item)]
    fused = set()
    print(dtype, layer, [op.kind for op in epilogue], "bias" if bias is not None else "")
    for form in table.ALGORITHMS:
        if form.direction != CONV_KINDS[layer.kind].direction:
            continue
        inputs = [external(Place.INPUT, array, i) for i, array in enumerate(operands)]
        output, dst = described()
        problem = make_problem(layer.kind, layer.attrs, inputs, dst, map_views(epilogue, unused))
        if bias is not None:
            problem = problem.with_views(bias=Program().constant(bias))
        if not form.applies(problem, env) or (dtype != "f32" and not form.converts(problem, env)):
            continue
        program = Program()
        for start, size in ((0, first), (first + c, layer.extra - first)) if layer.extra > 0 else ():
            if size:
                program.fill(output.narrow(output.ndim - 1, start, size), np.nan)
        lower.build(program, problem, form, env)
        whole.fill(np.nan)
        assemble(program, inputs, [output], engine).executor.run(operands, [whole])
        same(visible, want, form.name)
        if layer.extra > 0:
            beside = np.delete(wide(whole), np.s_[first : first + c], -1)
            assert np.isnan(beside).all(), f"{form.name} wrote beside its channels"
        if epilogue and form.fuses(problem, env):
            fused.add(form.name)
    return fused


def exactly(got: Array, want: Array, name: str) -> None:
    np.testing.assert_array_equal(wide(got), wide(want.astype(np.float32).astype(got.dtype)), err_msg=name)


def nearly(got: Array, want: Array, name: str) -> None:
    step = float(np.finfo(np.float32).eps) * 64 if got.dtype == np.float32 else 2.0**-7
    np.testing.assert_allclose(
        wide(got), want, rtol=step, atol=step * max(np.abs(want).max(initial=0), 1), err_msg=name
    )


def run(
    dtype: str,
    kinds: tuple[str, ...],
    seed: int,
    same: Callable[..., None],
    cases: int,
    draw: Callable[[np.random.Generator], Layer | None] = draw,
) -> dict[str, set[str]]:
    rng = np.random.default_rng([seed, len(kinds), len(dtype)])
    fused: dict[str, set[str]] = {kind: set() for kind in KINDS}
    for case in range(cases):
        layer = draw(rng)
        if layer is not None:
            print(f"seed {seed} case {case}:", end=" ")
            fused[layer.kind] |= check(layer, dtype, kinds, rng, same)
    return fused


@pytest.mark.slow
@pytest.mark.isa
@pytest.mark.parametrize("dtype", ["f32", "bf16", "f16"])
def test_post_ops_are_exact(dtype: str, seed: int, amount: Callable[..., int]) -> None:
    """Of narrow types too: sums of small integers and their post-ops are rounded once."""
    fused = run(dtype, EXACT, seed, exactly, amount(*CASES))
    assert all(fused[kind] >= FUSING[kind] for kind in KINDS)


@pytest.mark.slow
@pytest.mark.isa
def test_long_lines_are_exact(seed: int, amount: Callable[..., int]) -> None:
    fused = run("f32", EXACT, seed, exactly, amount(*CASES), draw_lines)
    assert all(fused[kind] >= FUSING[kind] for kind in KINDS)


@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["f32", "bf16"])
def test_post_ops_that_round(dtype: str, seed: int) -> None:
    run(dtype, (*ROUNDING, "Add", "ReLU"), seed, nearly, 35)


@pytest.mark.choice
def test_a_graph_shows_what_is_fused(rng: np.random.Generator) -> None:
    """A transposed convolution with bias, a sum and ReLU is one step of builtin code."""
    g = dgo.Graph()
    x, skip = g.input("x", (2, 12, 12, 64)), g.input("skip", (2, 24, 24, 32))
    w, b = (rng.integers(-2, 3, shape).astype(np.float32) for shape in ((64, 32, 4, 4), (32,)))
    attrs: dict[str, Any] = {"strides": 2, "pads_begin": 1, "pads_end": 1, "weights_format": "IOX"}
    up = dgo.ops.conv_transpose(x, g.constant(w), g.constant(b), **attrs)
    net = g.compile(dgo.ops.relu(dgo.ops.add(up, skip)))
    arrays = [rng.integers(-2, 3, value.shape).astype(np.float32) for value in (x, skip)]
    want = conv_transpose.forward(
        arrays[0], w, b, **{k: [v] * 2 if isinstance(v, int) else v for k, v in attrs.items()}
    )
    np.testing.assert_array_equal(net(*arrays), np.maximum(want + arrays[1], 0))
    assert "+ Add + ReLU" in str(net.explain())
