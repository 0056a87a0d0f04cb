"""The native steps of LSTM, GRU and RNN, against the same in float64."""

import random

import numpy as np
import pytest
from children import child

import dnnl_graph_ops as dgo
from dnnl_graph_ops._core import kernels

pytestmark = pytest.mark.isa

# cell: gates multiplied by the state at first, and later
CELLS = {"rnn_tanh": (1, 0), "rnn_relu": (1, 0), "gru": (2, 1), "gru_before_reset": (2, 1), "lstm": (4, 0)}


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def expected(cell, src, input_weights, input_bias, weights, bias, h, c, backwards):
    ready = src @ input_weights.T + input_bias
    size, rows = h.shape[1], np.empty((*src.shape[:2], h.shape[1]))
    for t in range(len(ready))[:: -1 if backwards else 1]:
        x, product = ready[t], h @ weights.T
        if cell == "lstm":
            i, o, f, n = np.split(x + product, 4, 1)
            c = sigmoid(f) * c + sigmoid(i) * np.tanh(n)
            h = sigmoid(o) * np.tanh(c)
        elif cell.startswith("gru"):
            z, r = (sigmoid(x[:, at] + product[:, at]) for at in (slice(size), slice(size, 2 * size)))
            last = weights[2 * size :]
            inner = (r * h) @ last.T if cell == "gru" else r * (h @ last.T + bias)
            n = np.tanh(x[:, 2 * size :] + inner)
            h = (1 - z) * n + z * h
        else:
            h = np.maximum(x + product, 0) if cell == "rnn_relu" else np.tanh(x + product)
        rows[t] = h
    return rows, h, c


def check(seed):
    choose, rng = random.Random(seed), np.random.default_rng(seed)
    cell = choose.choice(list(CELLS))
    steps, batch, size = choose.randint(0, 6), choose.randint(1, 11), choose.choice((1, 3, 8, 16, 17, 31, 64, 70))
    width = choose.choice((1, 2, 7, 16, 33))
    backwards, apart = choose.random() < 0.5, choose.choice((0, 5))
    first, late = CELLS[cell]

    def numbers(*shape):
        return rng.uniform(-1, 1, shape).astype(np.float32)

    gates = (first + late) * size
    src, inputs, input_bias = numbers(steps, batch, width), numbers(gates, width) / np.float32(width), numbers(gates)
    weights = numbers(gates, size) / np.float32(size)
    bias, h, c = numbers(size), numbers(batch, size), numbers(batch, size)
    rows = np.full((steps, batch * size + apart), np.nan, np.float32)
    last_h, last_c = (np.full((batch, size), np.nan, np.float32) for _ in range(2))
    kernel = kernels.recurrent(cell, steps, batch, width, size, backwards, batch * size + apart)
    kernel.run(src, inputs, input_bias, weights, bias, h, c, rows, last_h, last_c)
    message = f"seed {seed}: {cell}, {steps} steps, batch {batch}, width {width}, size {size}, backwards {backwards}"
    wide = [one.astype(np.float64) for one in (src, inputs, input_bias, weights, bias, h, c)]
    want_rows, want_h, want_c = expected(cell, *wide, backwards)
    got = rows[:, : batch * size].reshape(steps, batch, size)
    np.testing.assert_allclose(got, want_rows, atol=2e-6, err_msg=message)
    np.testing.assert_allclose(last_h, want_h, atol=2e-6, err_msg=message)
    if cell == "lstm":
        np.testing.assert_allclose(last_c, want_c, atol=2e-6, err_msg=message)
    assert np.isnan(rows[:, batch * size :]).all(), message


def check_all(first, count):
    for seed in range(first, first + count):
        check(seed)


def test_at_random(full):
    check_all(0, 2000 if full else 200)


@pytest.mark.child
def test_avx2():
    done = child(
        "-c", "from bindings import test_recurrent; test_recurrent.check_all(5000, 100)", DNNL_GRAPH_OPS_ISA="avx2"
    )
    assert done.returncode == 0, done.stderr


def test_the_same_bits_for_any_number_of_threads():
    rng = np.random.default_rng(3)
    src, h = (rng.standard_normal(shape).astype(np.float32) for shape in ((7, 37, 50), (37, 64)))
    inputs, weights = (rng.standard_normal((256, n)).astype(np.float32) for n in (50, 64))
    bias = np.zeros(256, np.float32)
    kernel = kernels.recurrent("lstm", 7, 37, 50, 64, False, 37 * 64)
    found = set()
    before = dgo.get_num_threads()
    try:
        for threads in (1, 2, 3):
            dgo.set_num_threads(threads)
            rows, ends = np.empty((7, 37, 64), np.float32), [np.empty_like(h) for _ in range(2)]
            kernel.run(src, inputs, bias, weights, bias, h, h, rows, *ends)
            found.add(rows.tobytes())
    finally:
        dgo.set_num_threads(before)
    assert len(found) == 1


@pytest.mark.parametrize(
    "numbers", [("mlp", 1, 1, 1, 1, False, 1), ("lstm", -1, 1, 1, 1, False, 1), ("gru", 1, 1, 1, 0, False, 1),
                ("lstm", 1 << 30, 1 << 30, 1, 64, False, 64), ("lstm", 1, 1, 1, (1 << 31) - 1, False, 1)],
)  # fmt: skip
def test_other_sizes_are_refused(numbers):
    with pytest.raises((dgo.Error, MemoryError)):
        kernels.recurrent(*numbers)


@pytest.mark.parametrize("cell", CELLS)
@pytest.mark.parametrize("width, size", [(3, 5), (50, 64), (64, 100)])
def test_packed_weights_give_the_same_bits(cell, width, size):
    rng = np.random.default_rng(5)
    gates = sum(CELLS[cell])
    steps, batch = 5, 3
    given = [rng.standard_normal(shape).astype(np.float32) for shape in (
        (steps, batch, width), (gates, size, width), (gates, size), (gates, size, size), (size,), (batch, size),
        (batch, size),
    )]  # fmt: skip
    src, inputs, input_bias, weights, *rest = given
    sizes = kernels.recurrent_packed(cell, width, size)
    packed = [np.full(count, np.nan, np.float32) for count in sizes]
    kernels.recurrent_pack(cell, width, size).run(inputs, weights, *packed)
    assert not any(np.isnan(one).any() for one in packed)
    found = []
    for known, one, other in ((False, inputs, weights), (True, *packed)):
        kernel = kernels.recurrent(cell, steps, batch, width, size, False, batch * size, known)
        rows, ends = np.empty((steps, batch, size), np.float32), [np.zeros((batch, size), np.float32) for _ in range(2)]
        kernel.run(src, one, input_bias, other, *rest, rows, *ends)
        found.append([array.tobytes() for array in (rows, *ends)])
    assert found[0] == found[1]
