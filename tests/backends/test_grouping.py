"""Which nodes run together: post-ops of convolutions, chains, and what is left to the library's partitioner."""

import numpy as np
import pytest
from reference.graph import evaluate_built

import dnnl_graph_ops as dgo
from dnnl_graph_ops import ops
from dnnl_graph_ops.backends import partitions
from dnnl_graph_ops.backends.table import group
from dnnl_graph_ops.compile.plan import assemble
from dnnl_graph_ops.ir import reachable
from dnnl_graph_ops.ir.env import Env
from dnnl_graph_ops.onednn import partition
from dnnl_graph_ops.program.program import Edge, NativeOp, Place, Program, argument
from dnnl_graph_ops.strides import dense_strides


@pytest.fixture
def graph():
    return dgo.Graph()


def conv(x):
    rng = np.random.default_rng(len(x.graph.nodes))
    weights = x.graph.constant(rng.integers(-2, 3, (4, 4, 3, 3)).astype(np.float32))
    return ops.convolution(x, weights, pads_begin=1, pads_end=1, data_format="NCX", weights_format="OIX")


def pool(x, kernel=1):
    return ops.max_pool(x, kernel=kernel, strides=1, pads_begin=kernel // 2, pads_end=kernel // 2, data_format="NCX")


def image(graph, name="x"):
    return graph.input(name, (1, 4, 5, 6))


def groups(*outputs, policy="fusion", tune="heuristic"):
    """The kinds of each group, sorted."""
    nodes, _ = reachable(outputs)
    env = Env(dgo.engine("cpu"), 1, tune)
    return sorted(tuple(node.kind for node in item.nodes) for item in group(nodes, outputs, env, policy))


def computes(graph, *outputs):
    """Groups one after another give what the graph says."""
    rng = np.random.default_rng(1)
    net = graph.compile({value.name: value for value in outputs})
    data = {value: rng.integers(-3, 4, value.shape).astype(np.float32) for value in net.inputs}
    exact = evaluate_built(graph, data)
    for name, actual in net.run({value.name: data[value] for value in net.inputs}).items():
        expected = next(exact[value] for value in outputs if value.name == name)
        np.testing.assert_allclose(actual, expected, rtol=1e-5, atol=1e-5 * np.abs(expected).max())


@pytest.fixture
def no_partitioner(monkeypatch):
    def called(*args):
        raise AssertionError("the library's partitioner was asked")

    monkeypatch.setattr(partitions, "_partitions", called)


def test_what_hangs_on_a_convolution_runs_with_it(graph, no_partitioner):
    y = ops.tanh(ops.multiply(ops.add(conv(image(graph)), image(graph, "r")), image(graph, "s")))
    assert groups(y) == [("Convolution", "Add", "Multiply", "Tanh")]
    computes(graph, y)


def test_fan_out_that_closes_stays_inside(graph, no_partitioner):
    first = conv(image(graph))
    swish = ops.multiply(first, ops.sigmoid(first))
    hard = ops.add(swish, ops.clamp(swish, min=0.0, max=6.0))
    assert groups(hard) == [("Convolution", "Sigmoid", "Multiply", "Clamp", "Add")]
    computes(graph, hard)


def test_a_second_reader_ends_a_group(graph, no_partitioner):
    y = ops.relu(conv(image(graph)))
    z = ops.add(ops.tanh(y), conv(y))
    assert groups(z) == [("Convolution", "Add"), ("Convolution", "ReLU"), ("Tanh",)]
    computes(graph, z)


def test_a_result_in_the_middle_ends_a_group(graph, no_partitioner):
    y = ops.relu(conv(image(graph)))
    z = ops.tanh(ops.multiply(y, y))
    assert groups(y, z) == [("Convolution", "ReLU"), ("Multiply", "Tanh")]
    computes(graph, y, z)


def test_a_result_inside_a_fan_out_is_left_out(graph, no_partitioner):
    first = conv(image(graph))
    gate = ops.sigmoid(first)
    z = ops.multiply(first, gate)
    assert groups(gate, z) == [("Convolution",), ("Multiply",), ("Sigmoid",)]
    computes(graph, gate, z)


def test_the_later_of_two_convolutions_takes_the_sum(graph, no_partitioner):
    x = image(graph)
    z = ops.relu(ops.add(conv(x), ops.tanh(conv(x))))
    assert groups(z) == [("Convolution",), ("Convolution", "Tanh", "Add", "ReLU")]
    computes(graph, z)


def test_no_group_waits_for_itself(graph, no_partitioner):
    """The sum reads what the second convolution makes of the first one's result."""
    first = conv(image(graph))
    pooled = pool(first, 3)
    z = ops.add(ops.relu(first), pooled)
    assert groups(z) == [("Convolution",), ("MaxPool",), ("ReLU", "Add")]
    computes(graph, z)


def test_chains_have_one_result_each(graph, no_partitioner):
    x = image(graph)
    common = ops.exp(ops.abs(x))
    y, z = ops.tanh(ops.sqrt(common)), ops.add(ops.square(common), x)
    assert groups(y, z) == [("Abs", "Exp"), ("Sqrt", "Tanh"), ("Square", "Add")]
    computes(graph, y, z)


def test_other_shapes_are_apart(graph, no_partitioner):
    x = image(graph)
    small = ops.relu(ops.exp(graph.input("small", (1, 4, 1, 1))))
    assert groups(ops.tanh(ops.multiply(x, small))) == [("Exp", "ReLU"), ("Multiply", "Tanh")]
    wide = ops.add(conv(graph.input("row", (1, 4, 1, 6))), x)
    assert groups(wide) == [("Add",), ("Convolution",)]


def test_reductions_and_pools_are_alone(graph, no_partitioner):
    x = image(graph)
    pooled = ops.relu(pool(x, 3))
    total = ops.relu(ops.reduce_sum(x, axes=(2, 3), keep_dims=True))
    assert groups(pooled, total) == [("MaxPool",), ("ReLU",), ("ReLU",), ("ReduceSum",)]


def test_products_alone_need_no_partitioner(graph, no_partitioner):
    z = ops.softmax(ops.matmul(graph.input("a", (3, 4)), graph.input("b", (4, 5))), axis=1)
    assert groups(z) == [("MatMul",), ("SoftMax",)]


def test_products_and_their_post_ops_are_the_librarys(graph):
    """But what loses NaN there."""
    a, b = graph.input("a", (3, 4)), graph.input("b", (4, 5))
    product = ops.abs(ops.matmul(a, b))
    chain = ops.tanh(ops.multiply(product, product))
    found = groups(chain, ops.relu(conv(image(graph))), ops.relu(ops.matmul(a, b)))
    assert found == [("Convolution", "ReLU"), ("MatMul",), ("MatMul", "Abs"), ("Multiply", "Tanh"), ("ReLU",)]


@pytest.mark.parametrize("asked", [{"policy": "debug"}, {"tune": "off"}])
def test_otherwise_the_library_decides(graph, monkeypatch, asked):
    calls = []
    real = partitions._partitions
    monkeypatch.setattr(partitions, "_partitions", lambda *args: calls.append(args) or real(*args))
    groups(ops.tanh(ops.relu(image(graph))), **asked)
    assert len(calls) == 1


def test_random_dags_have_no_circles(no_partitioner):
    """Every node is in one group, and groups can be put in order."""
    for seed in range(60):
        rng = np.random.default_rng(seed)
        graph = dgo.Graph()
        values = [image(graph)]
        for _ in range(int(rng.integers(3, 25))):
            one, other = (values[i] for i in rng.integers(0, len(values), 2))
            make = int(rng.integers(0, 5))
            if make == 0:
                values.append(conv(one))
            elif make == 1:
                values.append(pool(one))
            elif make == 2:
                values.append(ops.tanh(one))
            else:
                values.append((ops.add, ops.multiply)[make - 3](one, other))
        outputs = [values[-1], *(values[i] for i in rng.integers(1, len(values), 2))]
        nodes, _ = reachable(outputs)
        found = group(nodes, outputs, Env(dgo.engine("cpu"), 1), "fusion")
        assert sorted(node.id for item in found for node in item.nodes) == sorted(node.id for node in nodes), seed
        for item in found:
            inside = {value for node in item.nodes for value in node.inputs}
            read = {value for other in found if other is not item for node in other.nodes for value in node.inputs}
            leaving = {value for value in item.outputs if value in read or value in outputs}
            assert len(leaving) == 1 and leaving | inside >= set(item.outputs), f"seed {seed}"


def test_steps_are_matched_together(graph, monkeypatch):
    """The library's pattern matcher is asked once, whatever the number of steps."""
    asked = []

    class Counting(partition.Graph):
        def filter(self, policy):
            asked.append(policy)
            super().filter(policy)

    monkeypatch.setattr(partition, "Graph", Counting)
    x = image(graph)
    y, z = (ops.tanh(ops.add(ops.exp(x), image(graph, name))) for name in "pq")
    graph.compile({"y": y, "z": z, "sum": ops.reduce_sum(z, axes=(1,), keep_dims=True)})
    assert asked.count(partition.PartitionPolicy.fusion) <= 1 and len(asked) <= 2


@pytest.mark.parametrize("literal", [False, True])
def test_no_fusion_ends_in_a_reference_kernel(literal):
    """What the residual blocks of HiFi-GAN end with: as one partition in NCX the library has no other kernel."""
    rng = np.random.default_rng(5)
    shape = (1, 16, 4, 24)
    arrays = [rng.integers(-3, 4, shape).astype(np.float32) for _ in range(4)]
    views = [argument(Place.INPUT, "f32", shape, dense_strides(shape), i) for i in range(4)]
    out = argument(Place.OUTPUT, "f32", shape, dense_strides(shape))
    program = Program()
    weights = program.constant(rng.integers(-2, 3, (16, 16, 3, 3)).astype(np.float32))
    edges = [Edge(shape, "f32") for _ in range(4)]
    attrs = dict.fromkeys(("strides", "pads_begin", "pads_end", "dilations"), (1, 1))
    attrs |= {"groups": 1, "data_format": "NCX", "weights_format": "OIX"}
    two = program.constant(np.full((1, 1, 1, 1), 2, np.float32))
    chain = [NativeOp("Add", {"auto_broadcast": "numpy"}, (edges[i], views[i + 1]), (edges[i + 1],)) for i in range(3)]
    last = NativeOp("Divide", {"auto_broadcast": "numpy"}, (edges[3], two), (out,))
    program.native([NativeOp("Convolution", attrs, (views[0], weights), (edges[0],)), *chain, last], "all")
    plan = assemble(program, views, [out], dgo.engine("cpu"), literal=literal)
    result = np.full(shape, np.nan, np.float32)
    with dgo.verbose() as log:
        plan.executor.run(arrays, [result])
    assert literal or not any(record.reference for record in log.executed())
    padded = np.pad(arrays[0], ((0, 0), (0, 0), (1, 1), (1, 1)))
    windows = np.lib.stride_tricks.sliding_window_view(padded, (3, 3), (2, 3))
    exact = np.einsum("nchwkl,ockl->nohw", windows, weights.buffer.array.reshape(16, 16, 3, 3))
    np.testing.assert_array_equal(result, (exact + sum(arrays[1:])) / 2)
