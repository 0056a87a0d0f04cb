"""Layouts chosen for whole graphs: the same results as without, and no copies between steps."""

from dataclasses import replace

import numpy as np
import pytest
from reference.graph import evaluate_built

import dnnl_graph_ops as dgo
from compile.layout_graphs import laid_out, random_graph
from dnnl_graph_ops import ops
from dnnl_graph_ops.backends.layout import Vote
from dnnl_graph_ops.compile import layouts, specialise

pytestmark = pytest.mark.choice

EACH = 10


def labels(net):
    return [step.step for step in net.explain().steps]


def copies(net):
    """Steps that do nothing but move elements."""
    return [label for label in labels(net) if "copy" in label or "channels last" in label or "Static" in label]


def check(seed, case, monkeypatch):
    print(f"--seed={seed} --case={case}")
    rng = np.random.default_rng([seed, case])
    graph, outputs = random_graph(rng)
    inputs = [laid_out(rng, value) for value in graph.inputs]
    for array in inputs:
        array[...] = rng.integers(-3, 4, array.shape)
    truth = evaluate_built(graph, dict(zip(graph.inputs, inputs, strict=True)))
    wanted = [truth[value] for value in outputs]
    for chosen in (True, False):
        with monkeypatch.context() as patch:
            if not chosen:
                patch.setattr(specialise, "lay_out", lambda groups, views: specialise.Places(views))
            net = graph.compile(outputs)
            given = [array for value, array in zip(graph.inputs, inputs, strict=True) if value in net.inputs]
            for outs in (None, [laid_out(rng, value) for value in outputs]):
                found = net(*given, out=outs)
                found = found if isinstance(found, tuple) else (found,)
                for value, array, want in zip(outputs, found, wanted, strict=True):
                    np.testing.assert_array_equal(array, want, f"{value} {chosen=} {outs is None=}")


@pytest.mark.slow
@pytest.mark.cases(10, 20, 200, each=EACH)
def test_random_graphs(start, pytestconfig, monkeypatch):
    seed, only = pytestconfig.getoption("--seed"), pytestconfig.getoption("--case")
    for case in range(start, start + EACH) if only is None else [only]:
        check(seed, case, monkeypatch)


def layer(x, rng, out, data_format="NCX", **keywords):
    channels = x.shape[1 if data_format == "NCX" else -1]
    weights = rng.integers(-1, 2, (out, channels, 3, 3)).astype(np.float32)
    given = {"weights_format": "OIX", "data_format": data_format, "pads_begin": 1, "pads_end": 1}
    return ops.relu(ops.convolution(x, weights, **(given | keywords)))


def up(x, rng, out, data_format="NCX"):
    channels = x.shape[1 if data_format == "NCX" else -1]
    weights = rng.integers(-1, 2, (channels, out, 2, 2)).astype(np.float32)
    return ops.conv_transpose(x, weights, strides=2, data_format=data_format, weights_format="IOX")


def down(x):
    sizes = {"strides": (2, 2), "kernel": (2, 2), "pads_begin": (0, 0), "pads_end": (0, 0)}
    return ops.max_pool(x, **sizes, data_format="NCX")


def run(graph, outputs, rng, net=None):
    """Compare with the definition; the net."""
    net = net or graph.compile(outputs)
    inputs = [rng.integers(-2, 3, value.shape).astype(np.float32) for value in graph.inputs]
    truth = evaluate_built(graph, dict(zip(graph.inputs, inputs, strict=True)))
    found = net(*inputs)
    for value, array in zip(outputs, found if isinstance(found, tuple) else (found,), strict=True):
        np.testing.assert_array_equal(array, truth[value])
    return net


def u_net(rng):
    graph = dgo.Graph()
    x = graph.input("x", (1, 2, 16, 16))
    one = layer(x, rng, 16)
    two = layer(down(one), rng, 32)
    three = layer(down(two), rng, 32)
    joined = layer(ops.concat(up(three, rng, 32), two, axis=1), rng, 32)
    return graph, layer(ops.concat(up(joined, rng, 16), one, axis=1), rng, 2)


def test_a_u_net_reorders_at_its_borders_only(rng):
    graph, y = u_net(rng)
    net = run(graph, [y], rng)
    assert not [label for label in labels(net) if "Concat" in label]
    assert not [label for label in labels(net) if "strided view" in label]
    # the image, its like at the end
    assert len([label for label in labels(net) if "channels last" in label]) <= 2


def test_the_layers_of_a_dense_block_share_one_buffer(rng):
    graph = dgo.Graph()
    values = [ops.clamp(layer(graph.input("x", (1, 3, 8, 8)), rng, 16), min=0.0, max=3.0)]
    for _ in range(3):
        before = ops.concat(*values, axis=1) if len(values) > 1 else values[0]
        factors, terms = (rng.integers(-1, 2, (before.shape[1], 1, 1)).astype(np.float32) for _ in range(2))
        values.append(ops.clamp(layer(ops.relu(before * factors + terms), rng, 8), min=0.0, max=3.0))
    net = run(graph, [layer(ops.concat(*values, axis=1), rng, 4)], rng)
    assert not [label for label in labels(net) if "Concat" in label]


def test_channels_last_models_have_no_reorders(rng):
    graph = dgo.Graph()
    x = graph.input("x", (1, 8, 8, 16))
    y = layer(layer(x, rng, 32, "NXC"), rng, 16, "NXC")
    assert not copies(run(graph, [y], rng))


def test_both_formats_meet_without_copies(rng):
    graph = dgo.Graph()
    x = graph.input("x", (1, 8, 8, 16))
    first = layer(x, rng, 32, "NXC")
    second = layer(ops.static_transpose(first, order=(0, 3, 1, 2)), rng, 32)
    y = layer(ops.static_transpose(second, order=(0, 2, 3, 1)), rng, 16, "NXC")
    assert not copies(run(graph, [y], rng))


def test_reshapes_that_strides_can_say_take_no_step(rng):
    graph = dgo.Graph()
    x = graph.input("x", (2, 4, 8, 8))
    flat = ops.static_reshape(layer(x, rng, 16), shape=(2, 16, 64), special_zero=False)
    y = layer(ops.static_reshape(ops.abs(flat), shape=(2, 16, 8, 8), special_zero=False), rng, 4)
    assert not any("Static" in label for label in labels(run(graph, [y], rng)))


def test_a_view_of_what_lies_elsewhere_is_copied_to_an_output(rng):
    graph = dgo.Graph()
    x = graph.input("x", (2, 4, 6, 6))
    inner = ops.abs(x)
    outputs = [ops.static_reshape(inner, shape=(2, -1), special_zero=False), ops.relu(inner)]
    run(graph, outputs, rng)
    run(graph, [ops.static_reshape(x, shape=(-1, 6), special_zero=False)], rng)


def test_a_value_in_two_concats_and_twice_in_one(rng):
    graph = dgo.Graph()
    x = graph.input("x", (1, 8, 6, 6))
    a, b = layer(x, rng, 8), layer(x, rng, 16)
    first, second = ops.concat(a, b, a, axis=1), ops.concat(b, a, axis=1)
    outputs = [layer(first, rng, 8), layer(second, rng, 8), a]
    run(graph, outputs, rng)


def test_concats_of_concats_inputs_and_constants(rng):
    graph = dgo.Graph()
    x = graph.input("x", (1, 8, 6, 6))
    fixed = graph.constant(rng.integers(-2, 3, (1, 4, 6, 6)).astype(np.float32))
    a, b = layer(x, rng, 8), layer(x, rng, 16)
    joint = ops.concat(ops.concat(a, b, axis=1), x, fixed, axis=1)
    net = run(graph, [layer(joint, rng, 8)], rng)
    assert "Concat" not in labels(net)
    # of the input and the constant, to where they belong
    assert labels(net).count("copy in another order") == 2


def test_a_concat_that_is_an_output_is_written_there(rng):
    graph = dgo.Graph()
    x = graph.input("x", (1, 6, 6, 8))
    net = run(graph, [ops.concat(layer(x, rng, 8, "NXC"), layer(x, rng, 16, "NXC"), axis=3)], rng)
    assert not any("Concat" in label for label in labels(net))


def test_nothing_is_chosen_where_the_literal_ops_were_asked_for(rng):
    graph, y = u_net(rng)
    for options in ({"tune": "off"}, {"policy": "debug"}):
        net = run(graph, [y], rng, graph.compile(y, **options))
        assert any("Concat" in label for label in labels(net))


def test_many_ops_are_laid_out_quickly():
    graph = dgo.Graph()
    value = graph.input("x", (1, 4, 8, 8))
    for _ in range(300):
        value = ops.add(ops.relu(value), value)
    # without recursion, which would end here
    graph.compile(value)


@pytest.mark.parametrize("kind", ["max_pool", "interpolate"])
def test_windows_lie_as_the_convolutions_behind_them(kind, rng):
    """Their kernels take channels last, as convolutions do: the input is copied once."""
    graph = dgo.Graph()
    x = graph.input("x", (1, 16, 20, 20))
    if kind == "max_pool":
        y = ops.max_pool(x, kernel=3, strides=2, pads_begin=1, pads_end=1, data_format="NCX")
    else:
        y = ops.interpolate(x, scales=[2, 2], mode="linear", data_format="NCX")
    y = layer(y, rng, 16)
    net = graph.compile(layer(y, rng, 16))
    array = rng.integers(-4, 5, x.shape).astype(np.float32)
    np.testing.assert_array_equal(net(array), evaluate_built(graph, {x: array})[next(iter(net.outputs.values()))])
    assert copies(net)[1:] in ([], ["from channels last"]), labels(net)


def test_a_backend_votes_for_the_layout_of_its_values(rng, monkeypatch):
    """What a backend says of a value decides, with no kind of op named elsewhere."""
    graph = dgo.Graph()
    x = graph.input("x", (1, 8, 10, 10))
    value = ops.abs(ops.relu(x))
    graph.compile(ops.exp(value) * 2)
    (group, *_) = graph.compile(value)._latest().lowering.decisions[0]
    given = graph.compile(value)._latest().lowering.views
    assert layouts.last_in_memory([group], given) == set()
    voting = replace(group.backend, layout=lambda one: [Vote(one.result, True)])
    assert group.result in layouts.last_in_memory([replace(group, backend=voting)], {})


def test_an_input_that_is_quantized_is_copied_as_integers(rng):
    graph = dgo.Graph()
    x = graph.input("x", (1, 32, 9, 7))
    integers = ops.dequantize(ops.quantize(x, dtype="u8", scales=[0.5], zps=[3]), scales=[0.5], zps=[3])
    weights = rng.integers(-3, 4, (40, 32, 3, 3)).astype(np.int8)
    scaled = ops.dequantize(graph.constant(weights), scales=[1.0], zps=[0])
    attrs = {"strides": [1, 1], "pads_begin": [1, 1], "pads_end": [1, 1], "data_format": "NCX", "weights_format": "OIX"}
    y = ops.quantize(ops.convolution(integers, scaled, **attrs), dtype="s8", scales=[4.0], zps=[0])
    net = graph.compile(y)
    array = rng.integers(-3, 4, (1, 32, 9, 7)).astype(np.float32)
    np.testing.assert_array_equal(net(array), evaluate_built(graph, {x: array})[y])
    assert labels(net)[:2] == ["Quantize", "copy in another order"]
