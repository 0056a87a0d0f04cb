"""Element-wise nodes as one step of builtin code, and post-ops as programs of kernels, against NumPy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from algorithms.test_algorithms import external
from reference.data import integers
from reference.graph import evaluate_built

import dnnl_graph_ops as dgo
from dnnl_graph_ops import _core, dtypes, ops
from dnnl_graph_ops.compile.plan import assemble
from dnnl_graph_ops.ir.env import Env
from dnnl_graph_ops.program import element_ops, elementwise, kernel_post_ops
from dnnl_graph_ops.program.epilogue import EpilogueOp, with_bias
from dnnl_graph_ops.program.program import Buffer, KernelStep, Place, Program, View
from dnnl_graph_ops.strides import extent

Array = np.ndarray[Any, Any]
FLOATS = ("f32", "bf16", "f16")


def formulations(net: Any) -> list[str]:
    return [decision.formulation for _, decision in net._latest().lowering.decisions]


def run(graph: Any, output: Any, seed: int = 0, like: str = "builtin element-wise") -> None:
    """The net gives what the graph says, in one step; exact on small integers."""
    rng = np.random.default_rng(seed)
    net = graph.compile(output)
    data = {value: integers(rng, value.shape, value.dtype) for value in net.inputs}
    expected = evaluate_built(graph, data)[output]
    np.testing.assert_array_equal(net(*data.values()).astype(np.float64), expected)
    assert formulations(net) == [like]


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("shape", [(), (1,), (7,), (2, 3, 4, 5), (1, 64, 9, 9)])
def test_single_ops(shape: tuple[int, ...], dtype: str) -> None:
    """A tensor without axes needs no NumPy either."""
    for make in (
        ops.relu, ops.abs, lambda x: ops.clamp(x, min=-1, max=2), ops.square, lambda x: ops.leaky_relu(x, alpha=2.0),
        lambda x: ops.add(x, x), lambda x: ops.pow(x, beta=2.0), lambda x: ops.squared_difference(x, x),
    ):  # fmt: skip
        graph = dgo.Graph()
        run(graph, make(graph.input("x", shape, dtype)))


@pytest.mark.parametrize("turned", [False, True])
@pytest.mark.parametrize("read_again", [False, True])
def test_a_value_times_its_sigmoid_is_one_step(turned: bool, read_again: bool) -> None:
    """And only where nothing else reads the sigmoid."""
    rng = np.random.default_rng(2)
    x = rng.normal(0, 20, (2, 3, 40)).astype(np.float32)
    graph = dgo.Graph()
    given = ops.add(graph.input("x", x.shape), np.ones(1, np.float32))
    gate = ops.sigmoid(given)
    y = ops.abs(ops.multiply(gate, given) if turned else ops.multiply(given, gate))
    net = graph.compile(ops.subtract(y, gate) if read_again else y)
    wide = (x + np.float32(1)).astype(np.float64)
    known = 1 / (1 + np.exp(-wide))
    np.testing.assert_allclose(net(x), np.abs(wide * known) - read_again * known, rtol=1e-6, atol=1e-6)
    assert formulations(net) == ["builtin element-wise"]


def test_results_that_are_read_twice() -> None:
    graph = dgo.Graph()
    x, y = graph.input("x", (2, 3, 5, 7)), graph.input("y", (3, 1, 7))
    a = ops.add(x, y)
    b = ops.maximum(a, ops.multiply(a, graph.constant(np.float32(2.0).reshape(1))))
    run(graph, ops.subtract(ops.multiply(b, a), ops.relu(ops.minimum(a, x))))


@pytest.mark.parametrize("data_format", ["NCX", "NXC"])
def test_vectors_of_channels(data_format: str) -> None:
    shape = (2, 6, 5, 4) if data_format == "NCX" else (2, 5, 4, 6)
    graph = dgo.Graph()
    x, bias = graph.input("x", shape), graph.input("b", (6,))
    run(graph, ops.bias_add(x, bias, data_format=data_format))
    for slope, shared in (((6,), True), ((1,), False)):
        graph = dgo.Graph()
        x, given = graph.input("x", shape), graph.input("s", slope)
        run(graph, ops.prelu(x, given, data_format=data_format, per_channel_broadcast=shared))


@pytest.mark.parametrize("axis", [None, 0, 1, -1])
def test_a_broadcast_dequantize_runs_with_its_reader(axis: int | None) -> None:
    graph = dgo.Graph()
    x, gate = graph.input("x", (2, 3, 4, 5)), graph.input("gate", (3, 1, 5), "u8")
    count = 1 if axis is None else gate.shape[axis]
    along = {} if axis is None else {"qtype": "per_channel", "axis": axis}
    scales, points = [0.5, 2.0, 1.0, 0.25, 4.0][:count], list(range(count))
    run(graph, ops.multiply(ops.dequantize(gate, scales=scales, zps=points, **along), x))


@pytest.mark.parametrize("make", [ops.bias_add, ops.prelu])
def test_a_dequantized_vector_of_channels_is_a_step_of_its_own(make: Callable[..., Any]) -> None:
    """A vector lies along the channels; it is not broadcast as NumPy does."""
    graph = dgo.Graph()
    x, vector = graph.input("x", (2, 3, 3, 3)), graph.input("vector", (3,), "s8")
    result = make(x, ops.dequantize(vector, scales=[0.5], zps=[1]), data_format="NCX")
    data = {value: integers(np.random.default_rng(1), value.shape, value.dtype) for value in graph.inputs}
    expected = evaluate_built(graph, data)[result]
    np.testing.assert_array_equal(graph.compile(result)(*data.values()), expected)


def test_what_others_read_is_no_chain() -> None:
    """A group of several results is left to others."""
    graph = dgo.Graph()
    x = graph.input("x", (4, 5))
    a = ops.relu(x)
    b = ops.square(a)
    net = graph.compile({"a": a, "b": b})
    data = np.arange(-10, 10, dtype=np.float32).reshape(4, 5)
    result = net.run({"x": data})
    np.testing.assert_array_equal(result["a"], np.maximum(data, 0))
    np.testing.assert_array_equal(result["b"], np.maximum(data, 0) ** 2)


def test_as_many_operands_as_a_kernel_takes() -> None:
    for count, found in ((element_ops.MOST_OPERANDS, True), (element_ops.MOST_OPERANDS + 1, False)):
        graph = dgo.Graph()
        total = graph.input("x0", (7,))
        for i in range(1, count):
            total = total + graph.input(f"x{i}", (7,))
        assert elementwise.takes(graph.nodes, Env(dgo.engine("cpu"), threads=1)) == found


def test_the_literal_op_stays_the_librarys() -> None:
    graph = dgo.Graph()
    net = graph.compile(ops.relu(graph.input("x", (4, 5))), tune="off")
    net(np.zeros((4, 5), np.float32))
    assert formulations(net) == ["native"]


def test_a_result_takes_the_place_of_an_operand() -> None:
    program = Program()
    x, y = (View(Buffer(Place.SCRATCH, "f32", 1024), (1, 1024), (1024, 1)) for _ in range(2))
    given, out = (np.arange(1024, dtype=np.float32).reshape(1, 1024), np.full((1, 1024), np.nan, np.float32))
    source, target = external(Place.INPUT, given, 0), external(Place.OUTPUT, out, 0)
    program.copy(source, x)
    epilogue = (EpilogueOp("Square", {}, (0,)), EpilogueOp("Subtract", {}, (1, 0)))
    assert elementwise.apply(program, x, epilogue, y, "square less itself")
    program.copy(y, target)
    engine = dgo.engine("cpu")
    plan = assemble(program, [source], [target], engine)
    assert plan.scratch_bytes == 4096
    plan.executor.run([given], [out])
    np.testing.assert_array_equal(out, given**2 - given)


# ---- programs of kernels ----------------------------------------------------------------------------------------


def activation(rng: np.random.Generator) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Shape and strides of a result, channels last, possibly a slice of a wider one."""
    n, c = int(rng.integers(1, 4)), int(rng.choice([1, 3, 16, 21]))
    spatial = tuple(int(rng.integers(1, 6)) for _ in range(int(rng.integers(1, 4))))
    pitch = c + int(rng.choice([0, 0, 5]))
    strides, step = [], pitch
    for size in reversed(spatial):
        strides.append(step)
        step *= size
    return (n, c, *spatial), (step, 1, *reversed(strides))


def operand(rng: np.random.Generator, shape: tuple[int, ...]) -> tuple[int, ...]:
    """The shape of an operand of any spread."""
    ones = (1,) * (len(shape) - 2)
    kinds = [(1, 1, *ones), (1, shape[1], *ones), shape, (shape[0], shape[1], *ones), (shape[0], 1, *shape[2:])]
    return kinds[int(rng.integers(len(kinds)))]


BINARY: dict[str, Callable[[Array, Array], Array]] = {
    "Add": np.add,
    "Multiply": np.multiply,
    "Maximum": np.maximum,
    "Subtract": np.subtract,
}


@pytest.mark.sweep(every=4)
@pytest.mark.parametrize("seed", range(60))
def test_programs_of_post_ops(seed: int) -> None:
    print(f"seed {seed}")
    rng = np.random.default_rng(seed)
    shape, strides = activation(rng)
    head = integers(rng, shape)
    arrays = [head]
    given = [external(Place.INPUT, head, 0)]
    results, epilogue = [head.astype(np.float64)], []
    for number in range(int(rng.integers(1, 5))):
        kind = str(rng.choice(list(BINARY)))
        left = int(rng.integers(len(results)))
        if rng.random() < 0.7:
            array = integers(rng, operand(rng, shape), str(rng.choice(FLOATS)))
            arrays.append(array)
            given.append(external(Place.INPUT, array, len(given)))
            right, value = given[-1], array.astype(np.float64)
        else:
            right = int(rng.integers(len(results)))
            value = results[right]
        results.append(BINARY[kind](results[left], value))
        epilogue.append(EpilogueOp(kind, {}, (left, right), f"op{number}"))
    if np.abs(results[-1]).max() > 2**20:
        pytest.skip("not exact in f32")
    program = Program()
    whole = View(Buffer(Place.SCRATCH, "f32", extent(shape, strides)), shape, strides)
    program.copy(given[0], whole)
    fused = kernel_post_ops.fused(program, tuple(epilogue), whole)
    assert all(isinstance(step, KernelStep) for step in program.steps)
    last = _core.kernels.epilogue(fused.epilogue, [shape[0], *shape[2:]], shape[1], [strides[0], *strides[2:]])
    program.kernel(last, fused.views, [whole], "post-ops")
    out = np.full(shape, np.nan, np.float32)
    target = external(Place.OUTPUT, out, 0)
    program.copy(whole, target)
    assemble(program, given, [target], dgo.engine("cpu")).executor.run(arrays, [out])
    np.testing.assert_array_equal(out, results[-1])


def test_a_bias_in_front() -> None:
    bias = View(Buffer(Place.SCRATCH, "bf16", 3), (3,), (1,))
    dst = View(Buffer(Place.SCRATCH, "f32", 24), (2, 3, 4), (12, 1, 3))
    program = Program()
    fused = kernel_post_ops.fused(program, with_bias(bias, (EpilogueOp("ReLU", {}, (0,)),)), dst)
    assert fused.epilogue.operands == len(fused.views) == 1
    assert kernel_post_ops.fused(program, (), dst) == kernel_post_ops.NOTHING
    fused = kernel_post_ops.fused(program, (), dst, bias)
    assert (fused.bias, fused.views) == (dtypes.CODES["bf16"], (bias,))


@pytest.mark.parametrize(
    ("shape", "strides", "operand"),
    [
        ((2, 3, 4), (12, 4, 1), (1, 3, 1)),  # channels apart
        ((2, 3, 4), (12, 1, 2), (2, 3, 4)),  # pixels over each other
        ((2, 3, 4), (12, 1, 3), (1, 3, 4)),  # of one image
    ],
)
def test_what_kernels_have_no_name_for(
    shape: tuple[int, ...], strides: tuple[int, ...], operand: tuple[int, ...]
) -> None:
    dst = View(Buffer(Place.SCRATCH, "f32", extent(shape, strides)), shape, strides)
    other = View(Buffer(Place.SCRATCH, "f32", 24), operand, (12, 4, 1))
    assert not kernel_post_ops.expresses((EpilogueOp("Add", {}, (0, other)),), dst)
    alone = View(Buffer(Place.SCRATCH, "f32", 1), (1, 1, 1), (1, 1, 1))
    assert kernel_post_ops.expresses((EpilogueOp("Add", {}, (0, alone)),), dst)


def test_nothing_to_take() -> None:
    graph = dgo.Graph()
    x = graph.input("x", (4, 5))
    env = Env(dgo.engine("cpu"), 1)
    assert elementwise.takes([ops.relu(x).node], env)
    assert not elementwise.takes([ops.softmax(x, axis=1).node], env)
    assert not elementwise.takes([ops.relu(graph.input("n", (None, 5))).node], env)
