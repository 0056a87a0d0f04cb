"""Chains of element-wise steps on strided tensors against NumPy in double precision."""

from __future__ import annotations

import numpy as np
import pytest
from children import child

from dnnl_graph_ops import _core, dtypes, errors
from dnnl_graph_ops.strides import dense_strides

from .kernel_cases import blank, code, random_strides, span, view
from .test_epilogue import OPERANDS, OPS

pytestmark = pytest.mark.isa

kernels = _core.kernels
FLOATS = ("f32", "bf16", "f16")
WHOLE = {"u8": (0, 255), "s8": (-128, 127)}
SIMPLE = ("add", "multiply", "maximum", "relu", "abs", "clamp", "subtract", "leaky_relu", "move")


def random_shape(rng):
    rank = int(rng.integers(0, 6))
    shape = [int(rng.integers(1, 6)) for _ in range(rank)]
    if rank and rng.random() < 0.5:
        shape[int(rng.integers(rank))] = int(rng.choice([16, 33, 64, 100, 700, 3000]))
    return tuple(shape)


def random_operand(rng, shape, dst_strides):
    """Strides and memory of an operand that lies as the result, or otherwise, or has broadcast axes."""
    strides = list(dst_strides) if rng.random() < 0.5 else random_strides(rng, shape)
    strides = [0 if rng.random() < 0.25 else s for s in strides]
    dtype = str(rng.choice([*FLOATS, *WHOLE]))
    memory = (
        rng.integers(0 if dtype == "u8" else -5, 6, max(span(shape, strides), 1))
        .astype(np.float32)
        .astype(dtypes.numpy_dtype(dtype))
    )
    return dtype, strides, memory


def check(seed):
    rng = np.random.default_rng(seed)
    shape = random_shape(rng)
    dst_strides = random_strides(rng, shape)
    dst_dtype = str(rng.choice([*FLOATS, *WHOLE]))
    found = [random_operand(rng, shape, dst_strides) for _ in range(int(rng.integers(1, 5)))]
    values = [view(memory, shape, strides).astype(np.float64) for _, strides, memory in found]
    registers, steps = {}, []
    count = int(rng.integers(1, 6))
    for number in range(count):
        known = [*registers, *(OPERANDS + i for i in range(len(found)))]
        op = str(rng.choice(SIMPLE))
        left, right = (int(rng.choice(known)) for _ in range(2))
        to = 0 if number == count - 1 else int(rng.integers(1, kernels.Epilogue.REGISTERS))
        x, y = (values[i - OPERANDS] if i >= OPERANDS else registers[i] for i in (left, right))
        registers[to] = OPS[op](x, y, -2.0, 3.0)
        steps.append((op, left, right, to, -2.0, 3.0))
    operands = [(code(dtype), strides) for dtype, strides, _ in found]
    kernel = kernels.elementwise(shape, steps, operands, code(dst_dtype), dst_strides)
    dst = blank(span(shape, dst_strides) + 3, dst_dtype)
    # the result over one of the operands where that is allowed
    over = [i for i, (dtype, strides, _) in enumerate(found) if dtype == dst_dtype and strides == dst_strides]
    memories = [memory for *_, memory in found]
    if over and rng.random() < 0.5:
        dst = np.concatenate([memories[over[0]], dst[-3:]])
        memories[over[0]] = dst
    gaps = dst.copy()
    kernel.run(*memories, dst)
    want = np.broadcast_to(registers[0], shape).astype(np.float32)
    want = (np.clip(want, *WHOLE[dst_dtype]) if dst_dtype in WHOLE else want).astype(dst.dtype)
    got = view(dst, shape, dst_strides)
    same = np.array_equal(got.astype(np.float32), want.astype(np.float32))
    assert same, f"seed {seed}: {shape}, {dst_strides}, {dst_dtype}, {operands}, {steps}"
    got[...] = view(gaps, shape, dst_strides)
    assert dst.tobytes() == gaps.tobytes(), f"seed {seed}: written beyond dst"


def check_all(first, count):
    for seed in range(first, first + count):
        check(seed)


@pytest.mark.slow
def test_random_chains():
    check_all(0, 600)


@pytest.mark.child
def test_avx2():
    done = child(
        "-c", "from bindings import test_elementwise; test_elementwise.check_all(5000, 300)", DNNL_GRAPH_OPS_ISA="avx2"
    )
    assert done.returncode == 0, done.stderr


def dequantized(memory, scale, zero):
    return (memory.astype(np.float32) - np.float32(zero)) * scale


def check_requantized(seed):
    """Dequantize of one or two tensors, their sum or product, and Quantize, bit for bit as f32 of NumPy."""
    rng = np.random.default_rng(seed)
    rows, columns = int(rng.integers(1, 4)), int(rng.choice([1, 31, 32, 100, 1000, 3001]))
    dtypes_of = [str(rng.choice([*WHOLE])) for _ in range(3)]
    # scales that divide each other make many ties
    scales = np.float32(rng.choice([0.25, 0.5, 1.0]) if rng.random() < 0.5 else rng.uniform(1e-3, 2, 3)) + np.zeros(
        3, "f"
    )
    scales[2] = scales[2] * 2 if rng.random() < 0.5 else scales[2] * np.float32(rng.choice([1e-30, 1e-3, 1, 1e3, 1e35]))
    zeros = [int(rng.integers(WHOLE[d][0], WHOLE[d][1] + 1)) if rng.random() < 0.7 else 0 for d in dtypes_of]
    sources, described, values, steps = [], [], [], []
    for i in range(2):
        low, high = WHOLE[dtypes_of[i]]
        by_row = rng.random() < 0.8
        memory = rng.integers(low, high + 1, (rows if by_row else 1, columns)).astype(dtypes.numpy_dtype(dtypes_of[i]))
        sources.append(memory)
        described.append((code(dtypes_of[i]), [columns if by_row else 0, 1]))
        values.append(dequantized(memory, scales[i], zeros[i]))
        if zeros[i]:
            steps.append(("linear", OPERANDS + i, 0, i + 1, 1.0, -float(zeros[i])))
        steps.append(("linear", i + 1 if zeros[i] else OPERANDS + i, 0, i + 1, float(scales[i]), 0.0))
    op = str(rng.choice(["add", "multiply", "alone"]))
    with np.errstate(over="ignore"):
        value = values[0] if op == "alone" else values[0] + values[1] if op == "add" else values[0] * values[1]
        quotient = np.rint(value / scales[2]).astype(np.float64) + zeros[2]
    steps += [(op, 1, 2, 1, 0.0, 0.0)] if op != "alone" else []
    steps.append(("divide", 1, OPERANDS + 2, 1 if zeros[2] else 0, 0.0, 0.0))
    steps += [("round", 1, 0, 1, 0.0, 0.0), ("linear", 1, 0, 0, 1.0, float(zeros[2]))] if zeros[2] else []
    described.append((code("f32"), [0, 0]))
    kernel = kernels.elementwise([rows, columns], steps, described, code(dtypes_of[2]), [columns + 1, 1])
    dst = blank(rows * (columns + 1), dtypes_of[2])
    gaps = dst.copy().reshape(rows, -1)
    kernel.run(*sources, scales[2:], dst)
    got, low_high = dst.reshape(rows, -1), WHOLE[dtypes_of[2]]
    gaps[:, :columns] = np.broadcast_to(np.clip(quotient, *low_high), (rows, columns)).astype(got.dtype)
    assert np.array_equal(got, gaps), f"seed {seed}: {op}, {dtypes_of}, {scales}, {zeros}"


def check_all_requantized(first, count):
    for seed in range(first, first + count):
        check_requantized(seed)


def test_requantized(seed, amount):
    check_all_requantized(seed, amount(150, 1000, 5000))


@pytest.mark.child
def test_requantized_by_avx2():
    code_of = "from bindings import test_elementwise; test_elementwise.check_all_requantized(0, 1000)"
    done = child("-c", code_of, DNNL_GRAPH_OPS_ISA="avx2")
    assert done.returncode == 0, done.stderr


def check_looked_up(columns):
    """Functions of one integer of 8 bits give the same results for many elements, by a table, and for few."""
    rng = np.random.default_rng(columns)
    rows = -(-5000 // columns)
    for source, target in ((a, b) for a in WHOLE for b in WHOLE):
        low, high = WHOLE[source]
        every = np.arange(low, high + 1).astype(dtypes.numpy_dtype(source))
        steps = [("linear", OPERANDS, 0, 1, 0.03, -0.5), ("swish", 1, 1, 2, 1.0, 0.0), ("add", 1, 2, 1, 0.0, 0.0)]
        steps += [("multiply", 1, OPERANDS + 1, 2, 0.0, 0.0), ("divide", 2, OPERANDS + 2, 0, 0.0, 0.0)]
        few = np.full(256, 7, dtypes.numpy_dtype(target))
        scalars = [(code("f32"), [0, 0])] * 2, (np.float32([2.5]), np.float32([0.07]))
        described = [(code(source), [0, 1]), *scalars[0]]
        kernels.elementwise([1, 256], steps, described, code(target), [256, 1]).run(every, *scalars[1], few)
        gap = int(rng.integers(0, 3))
        x = rng.integers(low, high + 1, (rows, columns + 1)).astype(every.dtype)
        dst = blank(rows * (columns + gap), target)
        want = dst.copy().reshape(rows, -1)
        want[:, :columns] = few[x[:, :columns].astype(int) - low]
        described[0] = (code(source), [columns + 1, 1])
        kernel = kernels.elementwise([rows, columns], steps, described, code(target), [columns + gap, 1])
        kernel.run(x, *scalars[1], dst)
        np.testing.assert_array_equal(dst.reshape(rows, -1), want)


COLUMNS = (1, 3, 31, 32, 33, 63, 64, 65, 200, 5000)


@pytest.mark.parametrize("columns", COLUMNS)
def test_looked_up(columns):
    check_looked_up(columns)


@pytest.mark.child
def test_looked_up_by_avx2():
    code_of = "from bindings import test_elementwise as t; [t.check_looked_up(columns) for columns in t.COLUMNS]"
    done = child("-c", code_of, DNNL_GRAPH_OPS_ISA="avx2")
    assert done.returncode == 0, done.stderr


def test_many_rows_of_few_channels():
    """Short rows that follow each other are taken together; a vector of channels is read again and again."""
    rng = np.random.default_rng(1)
    for channels in (2, 3, 5, 16, 63):
        x = rng.integers(-9, 9, (5000, channels)).astype(np.float32)
        scale, pixel = rng.integers(-3, 4, channels).astype(np.float32), rng.integers(-3, 4, 5000).astype(np.float32)
        steps = [("multiply", OPERANDS, OPERANDS + 1, 1, 0, 0), ("add", 1, OPERANDS + 2, 0, 0, 0)]
        described = [(code("f32"), strides) for strides in ([channels, 1], [0, 1], [1, 0])]
        result = np.full_like(x, np.nan)
        kernels.elementwise(x.shape, steps, described, code("f32"), [channels, 1]).run(x, scale, pixel, result)
        np.testing.assert_array_equal(result, x * scale + pixel[:, None])


ACTIVATIONS = {
    "relu": lambda x: np.maximum(x, np.float32(0)),
    "clamp": lambda x: np.clip(x, np.float32(-0.5), np.float32(1.5)),
    "leaky_relu": lambda x: np.where(x > 0, x, np.float32(-0.5) * x),
    "": lambda x: x,
}


def check_affine(rng, activation):
    """x * factor + term and an activation: each of the three on rows with gaps, one for a row, one for a column."""
    rows, columns = int(rng.integers(2, 60)), int(rng.integers(65, 200))
    shape, spread = (rows, columns), [(columns, 1), (columns + 5, 1), (0, 1), (1, 0), (0, 0)]
    memories = [rng.standard_normal(rows * (columns + 5)).astype(np.float32) for _ in range(3)]
    operands = [(code("f32"), strides) for strides in (spread[i] for i in rng.integers(len(spread), size=3))]
    x, factor, term = (view(m, shape, strides) for m, (_, strides) in zip(memories, operands, strict=True))
    steps, number, y = [], OPERANDS, x
    ops = [step for step in (("multiply", factor, 1), ("add", term, 2)) if not activation or rng.random() < 0.7]
    for op, other, at in ops or [("add", term, 2)]:
        pair = (number, OPERANDS + at) if rng.random() < 0.5 else (OPERANDS + at, number)
        steps.append((op, *pair, 1, 0.0, 0.0))
        y, number = (y * other if op == "multiply" else y + other), 1
    y = ACTIVATIONS[activation](y)
    if activation:
        steps.append((activation, 1, 1, 0, -0.5, 1.5))
    steps[-1] = (*steps[-1][:3], 0, *steps[-1][4:])
    kernel = kernels.elementwise(shape, steps, operands, code("f32"), (columns, 1))
    dst = np.full(rows * columns + 3, np.nan, np.float32)
    kernel.run(*memories, dst)
    np.testing.assert_array_equal(dst[:-3].reshape(shape), y, f"{steps} {operands} {shape}")
    assert np.isnan(dst[-3:]).all()


@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_affine_functions_are_rounded_step_by_step(rng, activation):
    for _ in range(40):
        check_affine(rng, activation)


@pytest.mark.child
def test_affine_functions_by_avx2():
    code_of = (
        "import numpy as np; from bindings.test_elementwise import ACTIVATIONS, check_affine\n"
        "for activation in ACTIVATIONS: check_affine(np.random.default_rng(0), activation)"
    )
    done = child("-c", code_of, DNNL_GRAPH_OPS_ISA="avx2")
    assert done.returncode == 0, done.stderr


@pytest.fixture
def threads():
    before = _core.get_num_threads()
    yield _core.set_num_threads
    _core.set_num_threads(before)


@pytest.mark.parametrize("shape", [(1, 12_000), (130, 300), (5, 7, 1200), (40_000, 2)])
def test_blocks_of_many_threads(rng, threads, shape):
    """One block of 16,384 elements was one thread's."""
    x, row, result = rng.standard_normal(shape, np.float32), rng.standard_normal(shape[-1:], np.float32), None
    steps = [("tanh", OPERANDS, 0, 1, 0, 0), ("add", 1, OPERANDS + 1, 0, 0, 0)]
    dense = list(dense_strides(shape))
    described = [(code("f32"), dense), (code("f32"), [0] * (len(shape) - 1) + [1])]
    kernel = kernels.elementwise(shape, steps, described, code("f32"), dense)
    for count in (1, 2, 7):
        threads(count)
        dst = np.full(shape, np.nan, np.float32)
        kernel.run(x, row, dst)
        np.testing.assert_allclose(dst, np.tanh(x) + row, rtol=1e-5, atol=1e-6)
        assert result is None or dst.tobytes() == result.tobytes()
        result = dst


def test_results_beyond_the_caches():
    x = np.arange(9_000_011, dtype=np.float32) % 1000
    result = np.full_like(x, np.nan)
    steps = [("add", OPERANDS, OPERANDS, 0, 0, 0)]
    kernels.elementwise([x.size], steps, [(code("f32"), [1])], code("f32"), [1]).run(x, result)
    np.testing.assert_array_equal(result, 2 * x)


@pytest.mark.parametrize("dtype", WHOLE)
@pytest.mark.parametrize("step", [1, 2])
def test_whole_numbers_are_the_nearest_with_ties_to_even(dtype, step):
    low, high = WHOLE[dtype]
    x = np.concatenate([np.arange(low - 40, high + 40, 0.25), [1e30, -1e30, np.inf, -np.inf]]).astype(np.float32)
    result = np.full((x.size, step), 7, dtypes.numpy_dtype(dtype))
    kernel = kernels.elementwise([x.size], [("move", OPERANDS, 0, 0, 0, 0)], [(code("f32"), [1])], code(dtype), [step])
    kernel.run(x, result)
    np.testing.assert_array_equal(result[:, 0], np.clip(np.rint(x), low, high))
    wide = np.full(x.size, np.nan, np.float32)
    kernel = kernels.elementwise([x.size], [("move", OPERANDS, 0, 0, 0, 0)], [(code(dtype), [step])], code("f32"), [1])
    kernel.run(result, wide)
    np.testing.assert_array_equal(wide, result[:, 0].astype(np.float32))


def test_no_elements():
    kernel = kernels.elementwise([3, 0], [("relu", OPERANDS, 0, 0, 0, 0)], [(code("f32"), [1, 1])], code("f32"), [1, 1])
    kernel.run(np.empty(0, np.float32), np.empty(0, np.float32))


@pytest.mark.parametrize(
    ("steps", "message"),
    [
        ([], "no step writes register 0"),
        ([("relu", OPERANDS, 0, 1, 0, 0)], "no step writes register 0"),
        ([("relu", 0, 0, 0, 0, 0)], "neither a register written before"),
        ([("relu", OPERANDS, 0, 0, 0, 0), ("relu", OPERANDS, 0, 0, 0, 0)], "which only the last may"),
    ],
)
def test_refused(steps, message):
    with pytest.raises(errors.InvalidArgumentError, match=message):
        kernels.elementwise([4], steps, [(code("f32"), [1])], code("f32"), [1])
