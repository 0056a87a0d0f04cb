"""Copies, conversions and fills against NumPy and ml_dtypes."""

import ml_dtypes
import numpy as np
import pytest

from dnnl_graph_ops import _core, dtypes, errors

from .kernel_cases import bits, blank, code, element_strides, random_strides, random_values, span, view

pytestmark = pytest.mark.isa

kernels = _core.kernels
FLOATS = ("f32", "bf16", "f16")
NUMBERS = (*FLOATS, "s32", "s8", "u8")
ALL_FLOAT_PATTERNS = np.arange(1 << 16, dtype=np.uint16)


def convert(src, dtype):
    """NumPy's conversion, bf16 and f16 by way of f32 as the kernels do it."""
    if src.dtype in (ml_dtypes.bfloat16, np.float16):
        src = src.astype(np.float32)
    with np.errstate(over="ignore", invalid="ignore"):
        return src.astype(dtypes.numpy_dtype(dtype))


def run_copy(src, src_dtype, dst_dtype, dst_strides):
    dst = blank(span(src.shape, dst_strides), dst_dtype)
    kernel = kernels.copy(src.shape, code(src_dtype), element_strides(src), code(dst_dtype), dst_strides)
    kernel.run(src, dst)
    return dst


def check_copy(src, src_dtype, dst_dtype, dst_strides):
    expected = blank(span(src.shape, dst_strides), dst_dtype)
    view(expected, src.shape, dst_strides)[...] = convert(src, dst_dtype)
    np.testing.assert_array_equal(bits(run_copy(src, src_dtype, dst_dtype, dst_strides)), bits(expected))


@pytest.mark.parametrize("block", range(8))
def test_copy_of_random_layouts(seed, block):
    for case in range(60):
        rng = np.random.default_rng([seed, block, case])
        shape = tuple(int(n) for n in rng.choice([1, 2, 3, 4, 5, 7, 8, 9, 16, 17, 33], rng.integers(0, 6)))
        if np.prod(shape) > 300_000:
            continue
        if rng.random() < 0.5:
            src_dtype = dst_dtype = str(rng.choice([*NUMBERS, "s64", "boolean", "f8_e4m3"]))
        else:
            src_dtype, dst_dtype = (str(name) for name in rng.choice(NUMBERS, 2))
            if dst_dtype == "u8" and src_dtype != "u8":
                src_dtype = "u8"
        strides = random_strides(rng, shape)
        buffer = random_values(rng, (max(span(shape, strides), 1),), src_dtype)
        if rng.random() < 0.15 and shape:
            strides[rng.integers(len(shape))] = 0
        print(f"seed {seed} block {block} case {case}: {shape} {src_dtype} {strides} -> {dst_dtype}")
        check_copy(view(buffer, shape, strides), src_dtype, dst_dtype, random_strides(rng, shape))


@pytest.mark.sweep
@pytest.mark.parametrize("src_dtype", NUMBERS)
@pytest.mark.parametrize("dst_dtype", NUMBERS)
@pytest.mark.parametrize(
    ("shape", "order"),
    [
        ((5, 300, 40), (0, 1, 2)),  # contiguous on both sides
        ((3, 70, 45), (0, 2, 1)),  # transposition with edges
        ((3, 45, 70), (0, 2, 1)),  # the same, its rows written nearer to each other than those read
        ((2, 100, 3), (0, 2, 1)),  # few columns here
        ((2, 3, 100), (0, 2, 1)),  # and there
        ((6, 5, 4, 9), (3, 1, 0, 2)),
        ((40, 2, 20, 2), (0, 2, 1, 3)),  # short runs
    ],
)
def test_copy_of_every_pair_of_types(seed, src_dtype, dst_dtype, shape, order):
    rng = np.random.default_rng(seed)
    source = random_values(rng, shape, "u8" if dst_dtype == "u8" else src_dtype)
    src = source.astype(np.float32).astype(dtypes.numpy_dtype(src_dtype)).transpose(order)
    dst_strides = element_strides(np.empty(src.shape, np.int8))
    check_copy(src, src_dtype, dst_dtype, dst_strides)


EDGES = (1, 2, 7, 8, 9, 15, 16, 17, 31, 32, 33, 47, 63, 64, 65, 255, 257, 300)
GUARD = 64  # elements


def check_guarded(src, src_dtype, dst_dtype, dst_strides):
    """`check_copy` with bytes around either side that are not to be written, and numbers that are not to be read."""
    elements = span(src.shape, dst_strides)
    found, expected = (blank(elements + 2 * GUARD, dst_dtype) for _ in range(2))
    view(expected[GUARD:], src.shape, dst_strides)[...] = convert(src, dst_dtype)
    kernel = kernels.copy(src.shape, code(src_dtype), element_strides(src), code(dst_dtype), dst_strides)
    kernel.run(src.ctypes.data, found[GUARD:].ctypes.data)
    np.testing.assert_array_equal(bits(found), bits(expected))


@pytest.mark.parametrize("src_dtype", [*FLOATS, "s8"])
@pytest.mark.parametrize("dst_dtype", [*FLOATS, "s8"])
def test_transposition_of_every_edge(seed, src_dtype, dst_dtype):
    """Rows and columns that fill tiles, and those that do not; gaps behind the rows of either side."""
    rng = np.random.default_rng(seed)
    for rows, columns in [(n, m) for n in EDGES for m in EDGES if n * m < 40_000]:
        gap = int(rng.choice([0, 0, 1, 3]))
        buffer = random_values(rng, (rows, columns + gap), src_dtype)
        src = buffer[:, :columns].T
        print(f"seed {seed}: {rows} x {columns}, gap {gap}")
        check_guarded(src, src_dtype, dst_dtype, [rows + int(rng.choice([0, 0, 1, 4])), 1])


@pytest.mark.parametrize(
    "dtypes_", [("bf16", "bf16"), ("bf16", "f32"), ("f32", "bf16"), ("f32", "f16"), ("f32", "f32")]
)
@pytest.mark.parametrize("order", [(0, 2, 1), (1, 0, 2), (1, 2, 0), (2, 0, 1), (2, 1, 0)])
def test_weights_in_other_orders(seed, dtypes_, order):
    """Short runs that another axis continues, on either side."""
    rng = np.random.default_rng(seed)
    for sizes in [(40, 35, 4), (33, 64, 9), (9, 70, 16), (130, 20, 25), (5, 300, 3), (64, 1, 8), (300, 3, 49)]:
        src = random_values(rng, sizes, dtypes_[0]).transpose(order)
        check_guarded(src, *dtypes_, element_strides(np.empty(src.shape, np.int8)))


@pytest.mark.parametrize("dtype", ["bf16", "f16"])
@pytest.mark.parametrize("shape", [(64, 64), (64, 9), (9, 64)])
def test_transposition_rounds_and_keeps_nan(dtype, shape):
    with np.errstate(over="ignore", invalid="ignore"):
        values = neighbourhood(ALL_FLOAT_PATTERNS.view(dtypes.numpy_dtype(dtype)))
        src = np.resize(values, (-(-values.size // (shape[0] * shape[1])), *shape)).transpose(0, 2, 1)
        check_copy(src, "f32", dtype, element_strides(np.empty(src.shape, np.int8)))
        some = src[0].copy()
        some[::3, ::5] = np.nan
        result = run_copy(some, "f32", dtype, [shape[0], 1]).reshape(some.shape)
        np.testing.assert_array_equal(result.astype(np.float32), some.astype(result.dtype).astype(np.float32))


@pytest.mark.parametrize("dtype", ["f32", "bf16"])
def test_copy_large_enough_for_several_threads(seed, dtype):
    rng = np.random.default_rng(seed)
    src = random_values(rng, (4, 67, 33, 130), dtype)
    check_copy(src, dtype, dtype, element_strides(src))
    nxc = src.transpose(0, 2, 3, 1)
    check_copy(nxc, dtype, dtype, element_strides(np.empty(nxc.shape, np.int8)))
    check_copy(np.broadcast_to(src[:, :, :, :1], src.shape), dtype, "f32", element_strides(src))


@pytest.mark.sweep
@pytest.mark.parametrize("step", [2, 3, 4, 8])
@pytest.mark.parametrize("channels", [1, 2, 3, 16])
@pytest.mark.parametrize("dtypes_", [("f32", "f32"), ("f32", "bf16"), ("bf16", "f32"), ("f16", "f16")])
def test_depth_to_space_and_back(seed, step, channels, dtypes_):
    rng = np.random.default_rng(seed)
    src = random_values(rng, (2, 11, 13, step, step, channels), dtypes_[0])
    shuffled = src.transpose(0, 1, 3, 2, 4, 5)  # NXC
    check_copy(shuffled, *dtypes_, element_strides(np.empty(shuffled.shape, np.int8)))
    planes = random_values(rng, (2, step, step, channels, 11, 13), dtypes_[0]).transpose(0, 3, 4, 1, 5, 2)  # NCX
    check_copy(planes, *dtypes_, element_strides(np.empty(planes.shape, np.int8)))
    back = random_values(rng, planes.shape, dtypes_[0]).transpose(0, 3, 5, 1, 2, 4)
    check_copy(back, *dtypes_, element_strides(np.empty(back.shape, np.int8)))


@pytest.mark.parametrize("dtype", ["bf16", "f16"])
@pytest.mark.parametrize("strided", [False, True])
def test_every_pattern_to_f32(dtype, strided):
    every = ALL_FLOAT_PATTERNS.view(dtypes.numpy_dtype(dtype))
    src = np.repeat(every, 2)[::2] if strided else every
    result = run_copy(src, dtype, "f32", [1])
    expected = every.astype(np.float32)
    nan = np.isnan(expected)
    np.testing.assert_array_equal(bits(result)[~nan], bits(expected)[~nan])
    assert np.isnan(result[nan]).all()


def neighbourhood(exact):
    """Every value, the ties to either side, and the nearest f32 around each of them."""
    values = np.sort(exact[np.isfinite(exact.astype(np.float32))].astype(np.float64))
    ties = (values[1:] + values[:-1]) / 2
    centre = np.concatenate([values, ties]).astype(np.float32)
    around = np.concatenate([centre, np.nextafter(centre, np.inf), np.nextafter(centre, -np.inf)])
    extremes = np.array([np.inf, -np.inf, 0.0, -0.0, 1e-45, -1e-45, 3.4028235e38, -3.4028235e38, 65519.9, 65520.0])
    return np.concatenate([around, extremes.astype(np.float32)])


@pytest.mark.parametrize("dtype", ["bf16", "f16"])
@pytest.mark.parametrize("strided", [False, True])
def test_rounding_around_every_value_and_tie(dtype, strided):
    with np.errstate(over="ignore"):
        src = neighbourhood(ALL_FLOAT_PATTERNS.view(dtypes.numpy_dtype(dtype)))
        expected = src.astype(dtypes.numpy_dtype(dtype))
    if strided:
        src = np.repeat(src, 2)[::2]
    np.testing.assert_array_equal(bits(run_copy(src, "f32", dtype, [1])), bits(expected))


@pytest.mark.parametrize("dtype", ["bf16", "f16"])
def test_nan_stays_nan_and_keeps_its_sign(dtype):
    patterns = np.concatenate([np.arange(0x7F800001, 0x80000000, 9973), [0x7F800001, 0x7FFFFFFF]]).astype(np.uint32)
    src = np.concatenate([patterns, patterns | np.uint32(0x80000000)]).view(np.float32)
    for part in (src, np.repeat(src, 2)[::2]):
        result = run_copy(part, "f32", dtype, [1])
        assert np.isnan(result.astype(np.float32)).all()
        np.testing.assert_array_equal(np.signbit(result.astype(np.float32)), np.signbit(src))


@pytest.mark.parametrize("dtype", ["bf16", "f16"])
def test_same_type_copies_keep_every_bit(dtype):
    src = ALL_FLOAT_PATTERNS.view(dtypes.numpy_dtype(dtype)).reshape(256, 256)
    np.testing.assert_array_equal(bits(run_copy(src.T, dtype, dtype, [256, 1])), bits(src.T).reshape(-1))
    np.testing.assert_array_equal(bits(run_copy(src, dtype, dtype, [256, 1])), bits(src).reshape(-1))


@pytest.mark.parametrize("dst_dtype", ["s32", "s8", "u8"])
def test_float_to_integer_drops_the_fraction(dst_dtype):
    src = np.array([0.5, 1.5, 2.999, 100.7, -0.5, -1.5, -7.99, 127.0], np.float32)
    if dst_dtype == "u8":
        src = np.abs(src)
    np.testing.assert_array_equal(run_copy(src, "f32", dst_dtype, [1]), src.astype(dtypes.numpy_dtype(dst_dtype)))


@pytest.mark.parametrize("dtype", ["f32", "bf16", "f16", "s32", "u8"])
@pytest.mark.parametrize("shape", [(), (1,), (7,), (3, 5, 9), (2, 70, 300)])
def test_fill(seed, dtype, shape):
    rng = np.random.default_rng(seed)
    strides = random_strides(rng, shape)
    expected, result = (blank(span(shape, strides), dtype) for _ in range(2))
    view(expected, shape, strides)[...] = dtypes.numpy_dtype(dtype).type(3)
    kernels.fill(shape, code(dtype), strides, 3.0).run(result)
    np.testing.assert_array_equal(bits(result), bits(expected))


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("bias_dtype", FLOATS)
@pytest.mark.parametrize("layout", ["NCX", "NXC", "phase"])
def test_fill_channel(seed, dtype, bias_dtype, layout):
    rng = np.random.default_rng(seed)
    for channels in (1, 3, 8, 21, 64):
        shape = (2, channels, 9, 20)
        storage = {"NCX": (0, 1, 2, 3), "NXC": (0, 2, 3, 1), "phase": (0, 2, 3, 1)}[layout]
        full = np.empty([shape[axis] for axis in storage], np.int8).transpose(np.argsort(storage))
        strides = element_strides(full)
        if layout == "phase":
            strides[3] *= 2
        bias = random_values(rng, (channels,), bias_dtype)
        expected, result = (blank(span(shape, strides), dtype) for _ in range(2))
        view(expected, shape, strides)[...] = convert(bias, dtype)[None, :, None, None]
        kernels.fill_channel(shape, code(dtype), strides, 1, code(bias_dtype)).run(bias, result)
        np.testing.assert_array_equal(bits(result), bits(expected))


@pytest.mark.parametrize("dtypes_", [("f32", "f32"), ("bf16", "f32"), ("f32", "f16")])
@pytest.mark.parametrize("size", [3, 70])
def test_copy_list_folds_weights(seed, dtypes_, size):
    """The taps of a k4 s2 layer, IOX, spread over the channels of a 3-tap sub-pixel convolution."""
    src_dtype, dst_dtype = dtypes_
    rng = np.random.default_rng(seed)
    src = random_values(rng, (size, size + 1, 4), src_dtype)
    folded = np.zeros((3, size, 2, size + 1), np.float32)
    items = []
    for phase in range(2):
        for j in range(2):
            tap = (phase + 1) % 2 + 2 * j
            folded[j + phase, :, phase, :] = src[:, :, tap].astype(np.float32)
            dst_offset = ((j + phase) * size * 2 + phase) * (size + 1)
            items.append(((size, size + 1), tap, element_strides(src)[:2], dst_offset, [2 * (size + 1), 1]))
    result = blank(folded.size + 5, dst_dtype)
    kernel = kernels.copy_list(items, code(src_dtype), code(dst_dtype), folded.size)
    kernel.run(src, result)
    np.testing.assert_array_equal(bits(result[:-5]), bits(convert(folded.reshape(-1), dst_dtype)))
    assert (result[-5:].view(np.uint8) == 0xA5).all()


@pytest.mark.parametrize("run", [1, 2, 3, 5, 7])
@pytest.mark.parametrize("gap", [0, 4])
def test_short_runs_with_a_short_rest(seed, run, gap):
    """Converted runs are packed by the hundred; what is left over may be less than a vector."""
    for rows in (*range(1, 12), 512 // run, 512 // run + 1, 512 // run + 2):
        src = random_values(np.random.default_rng(seed), (rows, run + 1), "bf16")[:, :run]
        check_copy(src, "bf16", "f32", [run + gap, 1])


@pytest.mark.parametrize(("src_dtype", "dst_dtype"), [("f32", "f32"), ("bf16", "f32"), ("s8", "s8")])
def test_sources_are_walked_backwards(src_dtype, dst_dtype, seed):
    """Any axes of any sizes, beside others in every order: all kinds of blocks."""
    rng = np.random.default_rng(seed)
    for _ in range(60):
        shape = tuple(rng.choice([1, 2, 3, 8, 17, 40], int(rng.integers(1, 5))))
        src = random_values(rng, shape, src_dtype).transpose(rng.permutation(len(shape)))
        backwards = [slice(None, None, int(step)) for step in rng.choice([-1, 1], len(shape))]
        turned = src[tuple(backwards)]
        dst = blank(src.size, dst_dtype).reshape(src.shape)
        kernel = kernels.copy(
            src.shape, code(src_dtype), element_strides(turned), code(dst_dtype), element_strides(dst)
        )
        kernel.run(turned.ctypes.data, dst.ctypes.data)
        np.testing.assert_array_equal(bits(dst), bits(convert(np.ascontiguousarray(turned), dst_dtype)))


def test_empty_copies_write_nothing():
    dst = blank(8, "f32")
    kernels.copy((0, 4), code("f32"), [4, 1], code("bf16"), [4, 1]).run(dst, dst)
    kernels.copy_list([], code("f32"), code("f32"), 0).run(dst, dst)
    assert (dst.view(np.uint8) == 0xA5).all()


def test_addresses_are_as_good_as_arrays():
    src, dst = np.arange(6, dtype=np.float32), np.zeros(6, np.float32)
    kernel = kernels.copy((6,), code("f32"), [1], code("f32"), [1])
    assert (kernel.arity, kernel.name) == (2, "copy")
    kernel.run(src.ctypes.data, dst.ctypes.data)
    np.testing.assert_array_equal(dst, src)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (((2, 3), 3, [1], 3, [3, 1]), "src has 1 strides, the shape has 2 axes"),
        (((2, 3), 3, [3, 1], 3, [3, -1]), "dst has the negative stride -1"),
        (((2, 3), 3, [-(2**63), 1], 3, [3, 1]), "reaches beyond any array"),
        (((2, 3), 3, [3, 1], 3, [0, 1]), "dst has stride 0 on axis 0 of extent 2"),
        (((2, 3), 3, [3, 1], 16, [3, 1]), "data type 16 cannot be converted"),
        (((2, 3), 12, [3, 1], 12, [3, 1]), "data type 12 has no elements of whole bytes"),
        (((2, -3), 3, [3, 1], 3, [3, 1]), "negative extent -3"),
        (((1,) * 13, 3, [1] * 13, 3, [1] * 13), "13 axes, at most 12"),
    ],
)
def test_bad_arguments(arguments, message):
    with pytest.raises(errors.InvalidArgumentError, match=message):
        kernels.copy(*arguments)


def test_wrong_number_of_operands():
    kernel = kernels.copy((2,), 3, [1], 3, [1])
    with pytest.raises(errors.InvalidArgumentError, match="kernel 'copy' takes 2 operands, got 1"):
        kernel.run(np.zeros(2, np.float32))
