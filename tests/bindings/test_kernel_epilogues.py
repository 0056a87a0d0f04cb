"""Post-ops inside depthwise, grouped and stem kernels: what they make of the results without them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from children import child

from dnnl_graph_ops import _core, dtypes, errors

from .filter_cases import in_out_taps
from .kernel_cases import code, element_strides, span
from .test_epilogue import OPERANDS, REPEAT, repeated
from .test_few_channels import laid_out, layer_of, operands, random_case
from .test_kernels_depthwise import Layer
from .test_kernels_groups import Groups

pytestmark = pytest.mark.isa

kernels = _core.kernels
Array = np.ndarray[Any, Any]


def pitches(result: Array) -> tuple[int, bool]:
    """The pixel pitch, and whether the result is whole pixels of contiguous channels, images apart."""
    strides = element_strides(result)
    others = [s for axis, (s, n) in enumerate(zip(strides, result.shape, strict=True)) if axis != 1 and n > 1]
    pitch = min(others, default=max(result.shape[1], 1))
    reach = sum((n - 1) * s for s, n in zip(strides[2:], result.shape[2:], strict=True)) + result.shape[1]
    whole = result.shape[1] == 1 or strides[1] == 1
    whole = whole and pitch >= result.shape[1] and all(s % pitch == 0 for s in others)
    return pitch, whole and (result.shape[0] == 1 or reach <= strides[0])


def random_epilogue(rng: np.random.Generator, result: Array) -> tuple[Any, list[Array], Callable[[Array], Array]]:
    """An epilogue, its operands' memory, and what it makes of values with the result's shape."""
    pitch, whole = pitches(result)
    n, c, *spatial = result.shape
    ones = (1,) * len(spatial)
    described, memories, arrays = [], [], []
    for _ in range(2):
        spread = str(rng.choice(["one", "channel", "full", "image_channel", "pixel"])) if whole else "one"
        memory: Array = np.array([rng.integers(-4, 5)], np.float32)
        seen = memory
        if spread == "channel":
            seen = rng.integers(-4, 5, c).astype(np.float32)
            memory, seen = repeated(seen), seen.reshape(1, c, *ones)
        elif spread == "image_channel":
            seen = rng.integers(-4, 5, (n, c)).astype(np.float32)
            memory, seen = repeated(seen), seen.reshape(n, c, *ones)
        elif spread in ("full", "pixel"):
            shape = result.shape if spread == "full" else (n, 1, *spatial)
            factor = 1 if spread == "full" else pitch
            strides = [0 if m == 1 else s // factor for m, s in zip(shape, element_strides(result), strict=True)]
            memory = rng.integers(-4, 5, span(shape, strides)).astype(np.float32)
            seen = np.lib.stride_tricks.as_strided(memory, shape, [4 * s for s in strides])
        described.append((spread, code("f32")))
        memories.append(memory)
        arrays.append(seen.astype(np.float64))
    steps = [
        ("multiply", 0, OPERANDS, 1, 0.0, 0.0),
        ("leaky_relu", 1, 0, 1, 2.0, 0.0),
        ("subtract", 1, 0, 0, 0.0, 0.0),
        ("add", 0, OPERANDS + 1, 0, 0.0, 0.0),
    ]

    def applied(values: Array) -> Array:
        scaled = values * arrays[0]
        return np.where(scaled > 0, scaled, 2 * scaled) - values + arrays[1]

    return kernels.Epilogue(steps, described), memories, applied


def check_gather(layer: Any, forward: bool, rng: np.random.Generator) -> None:
    names = ("src", "dst") if forward else ("dst", "src")
    source, weights = layer.array(rng, names[0], "f32"), layer.array(rng, "weights", "f32")
    bias = rng.integers(-4, 5, layer.c).astype(np.float32)
    make = kernels.depthwise_dgrad if forward else kernels.depthwise_fprop
    plain, result = layer.blank(names[1], "f32"), layer.blank(names[1], "f32")
    make(layer.problem("f32"), has_bias=True).run(source, weights, bias, plain)
    epilogue, memories, applied = random_epilogue(rng, result)
    kernel = make(layer.problem("f32"), has_bias=True, epilogue=epilogue)
    assert kernel.arity == 6
    kernel.run(source, weights, bias, *memories, result)
    np.testing.assert_array_equal(result, applied(plain.astype(np.float64)))


# (step, function) of post-ops that gathering kernels apply to sums in registers
SINGLE: list[tuple[tuple[str, float, float], Callable[[Array], Array]]] = [
    (("relu", 0.0, 0.0), lambda x: np.maximum(x, 0)),
    (("clamp", -3.0, 5.0), lambda x: np.clip(x, -3, 5)),
    (("hardswish", 0.0, 0.0), lambda x: x * np.clip(x / 6 + 0.5, 0, 1)),
]


def check_single(layer: Any, forward: bool, rng: np.random.Generator) -> None:
    names = ("src", "dst") if forward else ("dst", "src")
    source, weights = layer.array(rng, names[0], "f32"), layer.array(rng, "weights", "f32")
    bias = rng.integers(-4, 5, layer.c).astype(np.float32)
    bias[rng.integers(layer.c)] = np.nan
    make = kernels.depthwise_dgrad if forward else kernels.depthwise_fprop
    plain = layer.blank(names[1], "f32")
    make(layer.problem("f32"), has_bias=True).run(source, weights, bias, plain)
    for (op, alpha, beta), function in SINGLE:
        result = layer.blank(names[1], "f32")
        epilogue = kernels.Epilogue([(op, 0, 0, 0, alpha, beta)])
        make(layer.problem("f32"), has_bias=True, epilogue=epilogue).run(source, weights, bias, result)
        np.testing.assert_allclose(result, function(plain.astype(np.float64)), rtol=1e-6, err_msg=op)


def check_stem(rng: np.random.Generator) -> None:
    case = random_case(rng)
    image, weights, bias = operands(rng, case)
    dtype = dtypes.numpy_dtype(str(rng.choice(["f32", "bf16", "f16"])))
    result = laid_out(rng, np.full((case.batch, case.channels[0], *case.source), np.nan, dtype))
    layer, channels = layer_of(case), case.channels[0]
    packed = np.full(kernels.few_channels_packed_size(layer, channels), np.nan, np.float32)
    strides = in_out_taps(weights, case.weights_format)
    kernels.few_channels_pack(layer, channels, code("f32"), strides).run(weights, packed)
    plain = np.full(result.shape, np.nan, np.float32)
    given = (layer, channels, code("f32"), element_strides(image))
    kernels.few_channels_product(*given, code("f32"), element_strides(plain), code("f32")).run(
        image, packed, bias, plain
    )
    epilogue, memories, applied = random_epilogue(rng, result)
    wanted = dtypes.canonical(dtype)
    kernel = kernels.few_channels_product(*given, code(wanted), element_strides(result), code("f32"), epilogue)
    kernel.run(image, packed, bias, *memories, result)
    with np.errstate(over="ignore"):
        exact = applied(plain.astype(np.float64)).astype(np.float32).astype(dtype)
    np.testing.assert_array_equal(result.astype(np.float32), exact.astype(np.float32))


def check_all(seed: int, count: int) -> None:
    for number in range(count):
        print(f"seed {seed}, {number}")
        rng = np.random.default_rng([seed, number])
        check_gather(Layer(rng, int(rng.integers(1, 4))), bool(rng.random() < 0.5), rng)
        check_single(Layer(rng, int(rng.integers(1, 4))), bool(rng.random() < 0.5), rng)
        width = int(rng.choice([2, 4, 8, 16]))
        check_gather(Groups(rng, int(rng.integers(1, 4)), width), bool(rng.random() < 0.5), rng)
        check_single(Groups(rng, int(rng.integers(1, 4)), width), bool(rng.random() < 0.5), rng)
        check_stem(rng)


@pytest.mark.sweep(every=2)
@pytest.mark.parametrize("block", range(4))
def test_post_ops_inside_of_kernels(seed: int, block: int) -> None:
    check_all(seed + block, 60)


@pytest.mark.child
def test_avx2() -> None:
    done = child("-c", "from bindings import test_kernel_epilogues as t; t.check_all(7, 40)", DNNL_GRAPH_OPS_ISA="avx2")
    assert done.returncode == 0, done.stdout + done.stderr


def test_narrow_results_of_depthwise_kernels_are_refused() -> None:
    layer = Layer(np.random.default_rng(1), 2, 16, "NXC")
    epilogue = kernels.Epilogue([("relu", 0, 0, 0, 0.0, 0.0)])
    with pytest.raises(errors.InvalidArgumentError, match="in f32 only"):
        kernels.depthwise_dgrad(layer.problem("bf16"), epilogue=epilogue)


def test_vectors_go_on_behind_their_last_channel() -> None:
    assert repeated(np.arange(3.0)).shape == (3 + REPEAT,)
