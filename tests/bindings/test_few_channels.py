"""An ordinary convolution of few channels as backward data, against the plain NumPy truth."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from reference import conv_transpose as ct
from reference.data import DTYPES, unwritten

from dnnl_graph_ops import _core, dtypes, errors
from dnnl_graph_ops.runtime import threads

from .filter_cases import EACH, Array, Case, draws, in_out_taps, integers
from .kernel_cases import blank, code, element_strides, random_strides, span, view

pytestmark = pytest.mark.isa

kernels = _core.kernels


def random_case(rng: np.random.Generator) -> Case:
    """channels: results, few of the image."""
    rank = int(rng.choice([1, 2, 2, 3]))
    channels = (int(rng.choice([1, 2, 3, 4, 8, 16, 17, 31, 32, 33, 56, 64, 100])), int(rng.integers(1, 5)))
    # rows of one section and of several
    results = tuple(int(n) for n in rng.integers(1, {1: 1500, 2: 30, 3: 8}[rank], rank))
    strides = tuple(int(n) for n in rng.integers(1, 5, rank))
    kernel = tuple(int(n) for n in rng.integers(1, {1: 20, 2: 8, 3: 4}[rank], rank))
    dilations = tuple(int(n) for n in rng.choice([1, 1, 2, 3], rank))
    full = [(i - 1) * s + d * (k - 1) + 1 for i, s, d, k in zip(results, strides, dilations, kernel, strict=True)]
    # pads that exceed the image, too, and images that are cut off
    pads = tuple(int(n) for n in rng.integers(-2, 6, rank))
    image = tuple(max(1, f - p + int(rng.integers(-6, 3))) for f, p in zip(full, pads, strict=True))
    return Case(
        int(rng.integers(1, 4)), channels, results, image, kernel, strides, pads, (1,) * rank, dilations, 1,
        str(rng.choice(["IOX", "XOI", "OIX", "XIO"])),
    )  # fmt: skip


def layer_of(case: Case) -> Any:
    return kernels.LayerSizes(
        case.batch, case.channels[1], case.source, case.output, case.kernel, case.strides, case.pads, case.dilations
    )


def run(case: Case, image: Array, weights: Array, bias: Array | None, result: Array) -> None:
    """image and result: channels in front."""
    layer, channels = layer_of(case), case.channels[0]
    types = [code(dtypes.canonical(a.dtype)) for a in (weights, image, result)]
    packed = unwritten([kernels.few_channels_packed_size(layer, channels)])
    kernels.few_channels_pack(layer, channels, types[0], in_out_taps(weights, case.weights_format)).run(weights, packed)
    kernel = kernels.few_channels_product(
        layer, channels, types[1], element_strides(image), types[2], element_strides(result),
        0 if bias is None else code(dtypes.canonical(bias.dtype)),
    )  # fmt: skip
    kernel.run(image, packed, *(() if bias is None else (bias,)), result)


def truth(case: Case, image: Array, weights: Array) -> Array:
    """Of an image with its channels in front, in float64."""
    layout: dict[str, Any] = {"weights_format": case.weights_format, **case.attributes()}
    full = case.embed(np.moveaxis(image, 1, -1).astype(np.float64))
    found = ct.backward_data(full, weights.astype(np.float64), src_spatial=case.source, **layout)
    return np.moveaxis(found, -1, 1)


def run_gradient(case: Case, src: Array, image: Array, weights: Array) -> Array:
    """Fills and returns the gradient of the weights."""
    types = [code(dtypes.canonical(a.dtype)) for a in (src, image, weights)]
    kernels.few_channels_gradient(
        layer_of(case), case.channels[0], types[0], element_strides(src), types[1], element_strides(image), types[2],
        in_out_taps(weights, case.weights_format),
    ).run(src, image, weights)  # fmt: skip
    return weights


def gradient_truth(case: Case, src: Array, image: Array) -> Array:
    full = case.embed(np.moveaxis(image, 1, -1).astype(np.float64))
    last = np.moveaxis(src, 1, -1).astype(np.float64)
    return ct.backward_weights(last, full, case.kernel, weights_format=case.weights_format, **case.attributes())


def operands(rng: np.random.Generator, case: Case, dtype: str = "f32") -> tuple[Array, Array, Array]:
    image = integers(rng, (case.batch, case.channels[1], *case.output), dtype)
    weights = np.ascontiguousarray(ct.from_iox(integers(rng, case.iox(), dtype), case.weights_format))
    return image, weights, integers(rng, (case.channels[0],))


def laid_out(rng: np.random.Generator, array: Array) -> Array:
    """The same values channels last, channels first, or at any strides."""
    kind = rng.integers(3)
    if kind == 0:
        return np.moveaxis(np.ascontiguousarray(np.moveaxis(array, 1, -1)), -1, 1)
    if kind == 1:
        return array
    strides = random_strides(rng, array.shape)
    found = view(np.zeros(span(array.shape, strides) + 1, array.dtype), array.shape, strides)
    found[...] = array
    return found


@pytest.mark.cases(80, 260, 260, each=EACH)
def test_exact_on_small_integers_in_any_layout(seed: int, start: int) -> None:
    for rng, case in draws(seed, start, random_case):
        image, weights, bias = operands(rng, case)
        exact = truth(case, image, weights)
        for extra in (None, bias):
            result = laid_out(rng, unwritten((case.batch, case.channels[0], *case.source)))
            run(case, laid_out(rng, image), weights, extra, result)
            added = 0 if extra is None else extra.reshape(-1, *(1,) * len(case.source))
            np.testing.assert_array_equal(result, exact + added)


@pytest.mark.cases(40, 120, 120, each=EACH)
def test_results_of_few_channels_are_summed_by_positions(seed: int, start: int) -> None:
    for rng, case in draws(seed, start, random_case):
        channels = int(rng.integers(1, 5)), int(rng.integers(1, 65))
        case = replace(case, channels=channels, strides=(*case.strides[:-1], 1))
        assert kernels.few_channels_in_planes(layer_of(case), channels[0]) == (np.prod(case.kernel) > 1)
        if kernels.few_channels_refusal(layer_of(case), channels[0]):
            continue
        image, weights, bias = operands(rng, case)
        result = laid_out(rng, unwritten((case.batch, channels[0], *case.source)))
        run(case, laid_out(rng, image), weights, bias, result)
        added = bias.reshape(-1, *(1,) * len(case.source))
        np.testing.assert_array_equal(result, truth(case, image, weights) + added)


@pytest.mark.parametrize("threads_", [1, 2])
@pytest.mark.cases(60, 140, 140, each=EACH)
def test_gradients_are_exact_on_small_integers_in_any_layout(seed: int, start: int, threads_: int) -> None:
    for rng, case in draws(seed, start, random_case):
        image, weights, _ = operands(rng, case)
        src = integers(rng, (case.batch, case.channels[0], *case.source))
        with threads.using(threads_):
            found = run_gradient(case, laid_out(rng, src), laid_out(rng, image), unwritten(weights.shape))
        np.testing.assert_array_equal(found, gradient_truth(case, src, image))


@pytest.mark.parametrize("dtype", ["bf16", "f16"])
def test_narrow_gradients_are_summed_in_f32_and_rounded_once(seed: int, dtype: str) -> None:
    for number in range(6):
        rng = np.random.default_rng([seed, number])
        case = random_case(rng)
        image, weights, _ = operands(rng, case, dtype)
        src = integers(rng, (case.batch, case.channels[0], *case.source), dtype)
        found = run_gradient(case, laid_out(rng, src), laid_out(rng, image), unwritten(weights.shape, dtype))
        np.testing.assert_array_equal(found, gradient_truth(case, src, image).astype(np.float32).astype(found.dtype))


@pytest.mark.parametrize("to", ["f32", "bf16", "f16"])
@pytest.mark.parametrize("dtype", ["f32", "bf16", "f16"])
def test_every_dtype_is_summed_in_f32_and_rounded_once(seed: int, dtype: str, to: str) -> None:
    for number in range(6):
        rng = np.random.default_rng([seed, number])
        case = random_case(rng)
        image, weights, bias = operands(rng, case, dtype)
        result = laid_out(rng, unwritten((case.batch, case.channels[0], *case.source), to))
        run(case, laid_out(rng, image), weights, bias.astype(DTYPES[dtype]), result)
        exact = truth(case, image, weights) + bias.reshape(-1, *(1,) * len(case.source))
        np.testing.assert_array_equal(result, exact.astype(np.float32).astype(result.dtype))


RGB = Case(1, (64, 3), (112, 112), (224, 224), (7, 7), (2, 2), (3, 3), (1, 1), (1, 1), 1, "IOX")
# Paths of their own: results past the caches, one channel in space, rows in several sections and blocks, a patch,
# panels that do not stay near, steps too few to fetch lines meanwhile, a kernel that misses the image, large dilation.
SPECIAL = [
    RGB,
    replace(RGB, batch=3, kernel=(3, 3), strides=(1, 1), source=(224, 224), pads=(1, 1)),
    replace(RGB, channels=(32, 1), source=(40, 300), output=(40, 300), kernel=(5, 5), strides=(1, 1), pads=(2, 2)),
    Case(1, (32, 1), (20, 24, 20), (20, 24, 20), (3, 3, 3), (1, 1, 1), (1, 1, 1), (1, 1, 1), (1, 1, 1), 1, "OIX"),
    Case(1, (512, 1), (3999,), (32000,), (16,), (8,), (0,), (1,), (1,), 1, "IOX"),
    replace(RGB, channels=(96, 3), kernel=(16, 16), strides=(16, 16), source=(14, 14), pads=(0, 0)),
    replace(RGB, channels=(300, 4), kernel=(5, 5), source=(20, 17), output=(41, 35), pads=(2, 2)),
    replace(RGB, kernel=(1, 1), strides=(1, 3), source=(30, 60), output=(30, 180), pads=(0, 0)),
    replace(RGB, source=(3, 4), output=(2, 2), pads=(40, 40), kernel=(3, 3)),
    replace(RGB, source=(9, 11), output=(150, 160), kernel=(3, 3), dilations=(60, 60), pads=(1, 2)),
]


@pytest.mark.sweep(every=2)
@pytest.mark.parametrize("case", SPECIAL, ids=range(len(SPECIAL)))
def test_special_paths_are_exact(seed: int, case: Case) -> None:
    image, weights, bias = operands(np.random.default_rng(seed), case)
    result = np.moveaxis(unwritten((case.batch, *case.source, case.channels[0])), -1, 1)
    last = np.moveaxis(np.ascontiguousarray(np.moveaxis(image, 1, -1)), -1, 1)
    run(case, last, weights, bias, result)
    np.testing.assert_array_equal(result, truth(case, image, weights) + bias.reshape(-1, *(1,) * len(case.source)))
    found = run_gradient(case, result, last, unwritten(weights.shape)) if result.size < 1 << 20 else None
    # so large that f32 is not exact
    if found is not None and np.abs(gradient_truth(case, np.abs(result), np.abs(image))).max() < 1 << 24:
        np.testing.assert_array_equal(found, gradient_truth(case, result, image))


@pytest.mark.parametrize("dtype", ["f32", "bf16"])
def test_views_leave_the_rest_alone(seed: int, dtype: str) -> None:
    rng = np.random.default_rng(seed)
    case = replace(RGB, channels=(40, 3), source=(9, 13), output=(18, 26))
    image, weights, bias = operands(rng, case, dtype)
    shape = (1, 40, 9, 13)
    for order in ((0, 2, 3, 1), (0, 1, 2, 3), (3, 1, 2, 0)):
        strides, step = [0] * 4, 1
        for axis in reversed(order):
            strides[axis] = step
            step *= shape[axis] + 3
        room = blank(span(shape, strides) + 7, dtype)
        before = room.copy()
        result = view(room, shape, strides)
        run(case, image, weights, bias, result)
        exact = truth(case, image, weights) + bias.reshape(-1, 1, 1)
        np.testing.assert_array_equal(result, exact.astype(np.float32).astype(result.dtype))
        result[...] = view(before, shape, strides)
        np.testing.assert_array_equal(room.view(np.uint8), before.view(np.uint8))


@pytest.mark.parametrize("change", [{"batch": 0}, {"source": (0, 5)}, {"source": (5, 0)}, {"channels": (0, 3)}])
def test_nothing_is_computed_of_nothing(change: dict[str, Any]) -> None:
    case = replace(RGB, **change)
    image, weights, bias = operands(np.random.default_rng(0), case)
    result = unwritten((case.batch, case.channels[0], *case.source))
    run(case, image, weights, bias, result)
    assert not run_gradient(case, result, image, unwritten(weights.shape)).any()


@pytest.mark.parametrize(
    "change,message",
    [
        ({"channels": (4, 65)}, "65 channels"),
        ({"channels": (8, 5)}, "5 channels"),
        ({"channels": (8, 0)}, "0 channels"),
        ({"kernel": (300, 300)}, "65536 taps"),
        ({"dilations": (1, 10_000_000)}, "too long"),
        ({"dilations": (10_000_000, 1)}, "too long"),
        ({"dilations": (30_000, 30_000)}, "too long"),
        ({"strides": (2, 0)}, "strides"),
    ],
)
def test_refusals_name_the_cause(change: dict[str, Any], message: str) -> None:
    case = replace(RGB, **change)
    with pytest.raises(errors.InvalidArgumentError, match=message):
        kernels.few_channels_product(layer_of(case), case.channels[0], code("f32"), [1] * 4, code("f32"), [1] * 4)


def test_a_kernel_names_what_multiplies() -> None:
    tile = {"avx2": "6x16", "avx512": "14x32"}[kernels.isa()]
    layer, f32 = layer_of(RGB), code("f32")
    strides = [1 << 20, 1 << 10, 1 << 5, 1]
    forward = kernels.few_channels_product(layer, 64, f32, strides, f32, strides)
    gradient = kernels.few_channels_gradient(layer, 64, f32, strides, f32, strides, f32, [1, 64, 1024, 4096])
    assert [kernel.by for kernel in (forward, gradient)] == [
        f"conv_{what}_f32_{kernels.isa()}_{tile}" for what in ("fprop", "wgrad")
    ]
