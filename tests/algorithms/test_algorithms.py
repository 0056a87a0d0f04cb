"""Every formulation equals the definition on small integers wherever it says that it applies."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from reference import conv_transpose as truth
from reference.rounding import wide

import dnnl_graph_ops as dgo
from dnnl_graph_ops import dtypes, ops
from dnnl_graph_ops._core import kernels
from dnnl_graph_ops.algorithms import bf16, im2col, joined_groups, lower, table
from dnnl_graph_ops.algorithms.algorithm import Algorithm
from dnnl_graph_ops.compile.plan import assemble
from dnnl_graph_ops.convolution.nodes import CONV_KINDS, make_problem
from dnnl_graph_ops.convolution.problem import FPROP, WGRAD, ConvProblem
from dnnl_graph_ops.ir.env import Env
from dnnl_graph_ops.program.epilogue import EpilogueOp
from dnnl_graph_ops.program.program import Buffer, NativeStep, Place, Program, View
from dnnl_graph_ops.strides import dense_strides

KINDS = ("ConvTranspose", "ConvTransposeBackwardData", "ConvTransposeBackwardWeights")
CASES = (15, 60, 1000)


def draw(rng: np.random.Generator) -> dict[str, Any] | None:
    """One forward problem of 1 to 3 axes; None when its dst would be empty."""
    rank = int(rng.integers(1, 4))
    groups = int(rng.choice([1, 1, 1, 2, 3]))
    depthwise, small = rng.random() < 0.15, rng.random() < 0.15
    ic, oc = (int(rng.choice([1, 2, 3, 8, 17, 33])) * groups for _ in range(2))
    if depthwise:
        groups = ic = int(rng.choice([3, 8, 21]))
        oc = groups * int(rng.choice([1, 1, 2, 3]))
    elif small:
        groups = int(rng.choice([2, 5, 8]))
        ic = oc = groups * int(rng.choice([2, 3, 4, 8, 16]))
    stride = [int(rng.integers(1, 4)) for _ in range(rank)]
    # two and three taps per phase are one filter of Winograd, more are several
    more = (int(rng.integers(1, 6)), int(rng.integers(4, 12)))
    kernel = [int(rng.choice([s, 2 * s, 2 * s, 2 * s - 1 or 1, 3 * s, *more])) for s in stride]
    size = [int(rng.integers(1, 9 if rank < 3 else 5)) for _ in range(rank)]
    dilation = [int(rng.choice([1, 1, 1, 2, 3])) for _ in range(rank)]
    begin = [int(rng.integers(0, k)) for k in kernel]
    end = [int(rng.integers(0, k)) for k in kernel]
    padding = [int(rng.integers(0, 3)) for _ in range(rank)]
    if rng.random() < 0.15:
        stride = kernel = dilation = [1] * rank
        begin = end = padding = [0] * rank
    dst = [
        s * (n - 1) + d * (k - 1) + 1 - pb - pe + op
        for s, n, d, k, pb, pe, op in zip(stride, size, dilation, kernel, begin, end, padding, strict=True)
    ]
    if min(dst) < 1:
        return None
    batch = int(rng.integers(1, 4))
    attrs = {
        "strides": stride, "pads_begin": begin, "pads_end": end, "dilations": dilation, "output_padding": padding,
        "groups": groups, "data_format": str(rng.choice(["NXC", "NCX"])),
        "weights_format": str(rng.choice(["IOX", "XOI", "OIX", "XIO"])),
    }  # fmt: skip
    x = (batch, *size, ic) if attrs["data_format"] == "NXC" else (batch, ic, *size)
    y = (batch, *dst, oc) if attrs["data_format"] == "NXC" else (batch, oc, *dst)
    per_group = oc // groups
    w = {
        "IOX": (ic, per_group, *kernel),
        "XOI": (*kernel, per_group, ic),
        "OIX": (per_group, ic, *kernel),
        "XIO": (*kernel, ic, per_group),
    }[attrs["weights_format"]]
    return {"attrs": attrs, "x": x, "w": w, "y": y, "size": size, "kernel": kernel}


def assert_equal(form: Algorithm, got: np.ndarray[Any, Any], want: np.ndarray[Any, Any]) -> None:
    """Small integers: exact, or so near where a form says that it rounds that no term is wrong."""
    np.testing.assert_allclose(wide(got), wide(want), rtol=0, atol=0.1 if form.remark else 0, err_msg=form.name)


def external(place: Place, array: np.ndarray[Any, Any], index: int) -> View:
    buffer = Buffer(place, dtypes.canonical(array.dtype), array.size, index=index)
    return View(buffer, array.shape, dense_strides(array.shape))


def operands_and_result(
    kind: str, problem: dict[str, Any], rng: np.random.Generator
) -> tuple[list[np.ndarray[Any, Any]], np.ndarray[Any, Any]]:
    """Arrays of small integers, and what the definition makes of them."""
    x, w, y = (rng.integers(-3, 4, problem[name]).astype(np.float32) for name in ("x", "w", "y"))
    attrs = problem["attrs"]
    if kind == "ConvTranspose":
        return [x, w], truth.forward(x, w, **attrs)
    if kind == "ConvTransposeBackwardData":
        return [y, w], truth.backward_data(y, w, src_spatial=problem["size"], **attrs)
    return [x, y], truth.backward_weights(x, y, problem["kernel"], **attrs)


def adorned(
    described: ConvProblem, want: np.ndarray[Any, Any], axis: int, rng: np.random.Generator
) -> tuple[ConvProblem, np.ndarray[Any, Any]]:
    """A problem with a bias and post-ops of constants, at random, and what they make of the result."""
    constant = Program().constant
    channels = described.result.shape[1]

    def along(vector: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        return vector.reshape([channels if a == axis else 1 for a in range(want.ndim)])

    if rng.random() < 0.5:
        bias = rng.integers(-3, 4, channels).astype(np.float32)
        apart = int(rng.integers(1, 3))
        spread = constant(np.repeat(bias, apart)).narrow(0, 0, channels, apart)
        described, want = described.with_views(bias=spread), want + along(bias)
    choice = rng.integers(0, 4)
    if choice in (1, 3):
        described = described.with_views(epilogue=(EpilogueOp("ReLU", {}, (0,)),))
        want = np.maximum(want, 0)
    if choice in (2, 3):
        scale = rng.integers(-3, 4, channels).astype(np.float32)
        # axes that say nothing are cut from a problem
        operand = constant(scale.reshape(1, channels, *(1,) * (len(described.result.shape) - 2)))
        described = described.with_views(
            epilogue=(*described.epilogue, EpilogueOp("Multiply", {}, (len(described.epilogue), operand)))
        )
        want = want * along(scale)
    return described, want


# forms that read bf16 and f16 themselves on every CPU, beside those of one kernel
ALWAYS_OWN = {KINDS[0]: {"im2col", "im2col per image"}, KINDS[1]: {"builtin im2col"}, KINDS[2]: {"im2col per image"}}


@pytest.mark.isa
@pytest.mark.parametrize("dtype", ["f32", "bf16", "f16"])
@pytest.mark.parametrize("kind", KINDS)
def test_every_form_is_exact(kind: str, dtype: str, seed: int, amount: Callable[..., int]) -> None:
    """Of bf16 and f16: those that convert themselves, whose results are the rounded sums."""
    rng = np.random.default_rng([seed, KINDS.index(kind)])
    engine = dgo.engine("cpu")
    # what is rounded before the last step may be rounded to another neighbour then
    env = Env(engine, dgo.get_num_threads(), algorithm="fast" if dtype == "f32" else "auto")
    direction = CONV_KINDS[kind].direction
    of_bf16 = {form.name for form in bf16.ALGORITHMS if form.direction == direction}
    every = ALWAYS_OWN[kind] | (of_bf16 if dtype == "bf16" and kernels.bf16_isa()[0] else set())
    if dtype == "f32":
        every = {f.name for f in table.ALGORITHMS if f.direction == direction and not f.on_integers} - of_bf16
        every -= {form.name for form in joined_groups.ALGORITHMS}
    ran: set[str] = set()
    for case in range(max(CASES)):
        further = case >= amount(*CASES)  # for rare forms alone
        if further and ran >= every:
            break
        problem = draw(rng)
        if problem is None:
            continue
        print(f"seed {seed} case {case}: {kind} {dtype} {problem}")
        operands, want = operands_and_result(kind, problem, rng)
        operands = [array.astype(dtypes.numpy_dtype(dtype)) for array in operands]
        plain = want
        axis = 1 if problem["attrs"]["data_format"] == "NCX" else -1 % want.ndim
        adornment = int(rng.integers(2**31))
        extra = {"src_shape": problem["x"]} if kind == "ConvTransposeBackwardData" else {}
        for form in table.ALGORITHMS:
            if form.direction != direction or (further and form.name in ran):
                continue
            result = np.full(want.shape, np.nan, operands[0].dtype)
            views = [external(Place.INPUT, array, i) for i, array in enumerate(operands)]
            output = external(Place.OUTPUT, result, 0)
            attrs = {**problem["attrs"], **extra}
            described = make_problem(kind, attrs, views, output, narrowed=dtype == "bf16")
            if kind != "ConvTransposeBackwardWeights":
                # an ordinary convolution is backward data with these
                described, want = adorned(described, plain, axis, np.random.default_rng(adornment))
            if not form.applies(described, env) or (dtype != "f32" and not form.converts(described, env)):
                continue
            program = Program()
            lower.build(program, described, form, env)
            assemble(program, views, [output], engine).executor.run(operands, [result])
            assert_equal(form, result, want.astype(np.float32).astype(result.dtype))
            ran.add(form.name)
    assert ran >= every


def forward_forms_give(
    want: np.ndarray[Any, Any],
    attrs: dict[str, Any],
    arrays: list[np.ndarray[Any, Any]],
    epilogue: tuple[EpilogueOp, ...] = (),
    order: tuple[int, ...] | None = None,
) -> set[str]:
    """Every forward form that applies gives `want`, its axes in memory as `order` says; the names of those."""
    env = Env(dgo.engine("cpu"), dgo.get_num_threads(), algorithm="fast")
    axes = order or tuple(range(want.ndim))
    ran = set()
    for form in table.ALGORITHMS:
        result = np.full([want.shape[a] for a in axes], np.nan, np.float32)
        program = Program()
        views = [external(Place.INPUT, array, i) for i, array in enumerate(arrays)]
        output = external(Place.OUTPUT, result, 0).permute(np.argsort(axes).tolist())
        described = make_problem("ConvTranspose", attrs, views, output, epilogue)
        if form.direction != CONV_KINDS["ConvTranspose"].direction or not form.applies(described, env):
            continue
        lower.build(program, described, form, env)
        assemble(program, views, [output], env.engine).executor.run(arrays, [result.transpose(np.argsort(axes))])
        assert_equal(form, result.transpose(np.argsort(axes)), want)
        ran.add(form.name)
    return ran


@pytest.mark.parametrize("stride", [1, 2])
def test_a_bias_on_a_deep_sum_is_added_once(stride: int) -> None:
    """oneDNN 3.2 splits long sums, and in some kernels it adds the bias to every part."""
    rng = np.random.default_rng(3)
    attrs = {
        "strides": [stride, stride],
        "pads_begin": [1, 1],
        "pads_end": [1, 1],
        "data_format": "NXC",
        "weights_format": "IOX",
    }
    x, w = (rng.integers(-2, 3, shape).astype(np.float32) for shape in ((2, 3, 4, 2048), (2048, 16, 4, 4)))
    bias = rng.integers(-3, 4, 16).astype(np.float32)
    plain = truth.forward(x, w, **attrs)
    want = np.maximum(plain + bias, 0)
    assert forward_forms_give(want, attrs, [x, w, bias], (EpilogueOp("ReLU", {}, (0,)),))


def test_one_tap_from_channels_first_to_channels_last() -> None:
    """The products of images are not the result then; its bias is added once."""
    rng = np.random.default_rng(4)
    attrs = {"data_format": "NCX", "weights_format": "IOX"}
    x, w = (rng.integers(-3, 4, shape).astype(np.float32) for shape in ((2, 5, 4, 6), (5, 7, 1, 1)))
    bias = rng.integers(-3, 4, 7).astype(np.float32)
    want = truth.forward(x, w, bias, **attrs)
    assert "im2col per image" in forward_forms_give(want, attrs, [x, w, bias], order=(0, 2, 3, 1))


@pytest.mark.slow
@pytest.mark.parametrize("channels", [3, 4])
def test_results_larger_than_caches_are_exact(channels: int) -> None:
    """Builtin code writes them past the caches; borders leave lines that begin anywhere."""
    rng = np.random.default_rng(5)
    attrs = {
        "strides": [2, 2],
        "pads_begin": [1, 1],
        "pads_end": [0, 1],
        "data_format": "NXC",
        "weights_format": "IOX",
    }
    x, w = (rng.integers(-2, 3, shape).astype(np.float32) for shape in ((1, 700, 930, 2), (2, channels, 3, 3)))
    want = truth.forward(x, w, **attrs)
    assert want.nbytes > 24 * 2**20
    assert {"builtin direct", "Winograd 3"} <= forward_forms_give(want, attrs, [x, w])


@pytest.mark.choice
def test_a_network_s_last_layer_is_added_up() -> None:
    """One that gives few channels: exact, and chosen."""
    rng = np.random.default_rng(8)
    x, w = (rng.integers(-3, 4, shape).astype(np.float32) for shape in ((1, 32, 20, 24), (3, 32, 7, 7)))
    graph = dgo.Graph()
    attrs = {"pads_begin": [3, 2], "pads_end": [3, 4], "weights_format": "OIX", "data_format": "NCX"}
    y = ops.relu(ops.convolution(graph.input("x", x.shape), graph.constant(w), **attrs))
    net = graph.compile(y)
    np.testing.assert_array_equal(net(x), graph.compile(y, tune="off")(x))
    assert "flipped builtin col2im" in str(net.explain())


@pytest.mark.parametrize("data_format", ["NXC", "NCX"])
@pytest.mark.parametrize("weights_format", ["IOX", "XOI"])
def test_large_gradients_of_few_positions_are_of_builtin_code(
    data_format: str, weights_format: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """oneDNN's MatMul takes 1.3 to 2 times as long to write 30 MB."""
    monkeypatch.setattr(im2col, "_STREAMED", 0)
    rng = np.random.default_rng(9)
    attrs = {"strides": [2, 2], "pads_begin": [1, 0], "data_format": data_format, "weights_format": weights_format}
    shapes = ((1, 40, 2, 3), (1, 33, 4, 7)) if data_format == "NCX" else ((1, 2, 3, 40), (1, 4, 7, 33))
    x, y = (rng.integers(-3, 4, shape).astype(np.float32) for shape in shapes)
    want = truth.backward_weights(x, y, [3, 3], **attrs)
    result = np.full(want.shape, np.nan, np.float32)
    views, output = (
        [external(Place.INPUT, array, i) for i, array in enumerate((x, y))],
        external(Place.OUTPUT, result, 0),
    )
    problem, env = make_problem(KINDS[2], attrs, views, output), Env(dgo.engine("cpu"), 2)
    form = table.named("im2col", WGRAD)
    assert form is not None and form.converts(problem, env)
    program = Program()
    lower.build(program, problem, form, env)
    assemble(program, views, [output], env.engine).executor.run([x, y], [result])
    np.testing.assert_array_equal(result, want)


def test_own_columns_of_a_copy_in_another_dtype() -> None:
    """One out channel: its axis has any stride, and the copy in f32 another than the array in f16."""
    rng = np.random.default_rng(6)
    attrs = {"pads_begin": [1], "data_format": "NXC", "weights_format": "XOI"}
    dy, w = (rng.integers(-3, 4, shape).astype(np.float16) for shape in ((1, 7, 1), (2, 1, 3)))
    want = truth.backward_data(dy, w, **attrs)
    env = Env(dgo.engine("cpu"), dgo.get_num_threads())
    for form in table.ALGORITHMS:
        result = np.zeros(want.shape, np.float16)
        views = [external(Place.INPUT, array, i) for i, array in enumerate((dy, w))]
        output = external(Place.OUTPUT, result, 0)
        described = make_problem(KINDS[1], {**attrs, "src_shape": want.shape}, views, output)
        if form.direction == CONV_KINDS[KINDS[1]].direction and form.applies(described, env):
            program = Program()
            lower.build(program, described, form, env)
            assemble(program, views, [output], env.engine).executor.run([dy, w], [result])
            assert_equal(form, result, want)


@pytest.mark.parametrize("data_format", ["NXC", "NCX"])
@pytest.mark.parametrize(("kernel", "rows"), [([1, 1], [1, 2]), ([2, 3], [1, 0])])
def test_ordinary_convolutions_read_x_with_last_positions_that_no_tap_reaches(
    kernel: list[int], rows: list[int], data_format: str
) -> None:
    """The library copies an x that is cropped, which takes up to five times as long as the layer."""
    rng = np.random.default_rng(10)
    strides = [2, 3]
    sizes = [3 * s + k + more for s, k, more in zip(strides, kernel, rows, strict=True)]
    order = (0, 1, 2, 3) if data_format == "NCX" else (0, 2, 3, 1)
    x = rng.integers(-3, 4, (2, 16, *sizes)).astype(np.float32).transpose(order).copy()
    w = rng.integers(-3, 4, (24, 16, *kernel)).astype(np.float32)
    formats = {"data_format": data_format, "weights_format": "OIX"}
    attrs = {
        "strides": strides, "pads_begin": [0, 0], "pads_end": [0, 0], "dilations": [1, 1], "auto_pad": "None",
        "groups": 1, **formats,
    }  # fmt: skip
    graph = dgo.Graph()
    want = graph.compile(ops.convolution(graph.input("x", x.shape), graph.constant(w), **attrs), tune="off")(x)
    result = np.full_like(want, np.nan)
    views, output = (
        [external(Place.INPUT, array, i) for i, array in enumerate((x, w))],
        external(Place.OUTPUT, result, 0),
    )
    problem, env = make_problem("Convolution", attrs, views, output), Env(dgo.engine("cpu"), 2)
    form = table.named("convolution", FPROP)
    assert form is not None
    program = Program()
    lower.build(program, problem, form, env)
    assert [step.reads[0].shape for step in program.steps if isinstance(step, NativeStep)] == [problem.x.shape]
    assemble(program, views, [output], env.engine).executor.run([x, w], [result])
    np.testing.assert_array_equal(result, want)
