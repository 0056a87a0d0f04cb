"""The objects of a net's plans, and its convolutions as benchdnn's lines."""

import numpy as np
import pytest

import dnnl_graph_ops as dgo
from dnnl_graph_ops import graph_api
from dnnl_graph_ops.bench import descriptor


def integers(*shape, seed=0):
    return np.random.default_rng(seed).integers(-3, 4, shape).astype(np.float32)


W, V = integers(4, 4, 8, 16, seed=1), integers(3, 3, 8, 4, seed=2)


def decoder(**options):
    g = dgo.Graph()
    x = g.input("x", (1, 6, 6, 16))
    up = dgo.ops.relu(dgo.ops.conv_transpose(x, g.constant(W, "w"), strides=2, pads_begin=1, pads_end=1, name="up 1"))
    out = dgo.ops.convolution(up, g.constant(V, "v"), pads_begin=1, pads_end=1, name="out")
    return g.compile(out, **options)


def test_the_library_is_given_what_the_objects_say():
    net = decoder(tune="off")
    graph, compiled = net.graph_api()
    assert graph.is_finalized()
    kinds = [o.get_kind().name for o in graph._ops.values()]
    assert kinds == ["ConvTranspose", "ReLU", "Convolution"]
    # they run by themselves, one after the other
    e = graph_api.engine(graph_api.engine.cpu)
    s = graph_api.stream(e)
    values = {}
    constants = [W, V]
    x = integers(1, 6, 6, 16)
    for part in compiled:
        tensors = []
        for native in part._native.inputs:
            lt = part.query_logical_tensor(native.id)
            if native.id not in values:
                values[native.id] = x if lt.get_dims() == list(x.shape) else constants.pop(0)
            tensors.append(graph_api.tensor(lt, e, values[native.id]))
        (native,) = part._native.outputs
        out = graph_api.tensor(part.query_logical_tensor(native.id), e)
        part.execute(s, tensors, [out])
        values[native.id] = out.to_numpy()
    np.testing.assert_array_equal(values[native.id], net(x))


def test_own_code_is_a_wildcard_named_for_its_kernel():
    graph, compiled = decoder(algorithm="fast").graph_api()
    names = {o.get_name() for o in graph._ops.values() if o.get_kind() == graph_api.op.kind.Wildcard}
    assert len(names) + len(compiled) >= 2
    assert all(": " in name for name in names)


def test_every_plan_has_its_partitions():
    g = dgo.Graph()
    net = g.compile(dgo.ops.softmax(g.input("x", (None, 8)), axis=1), tune="off")
    with pytest.raises(dgo.InvalidArgumentError, match="call it once"):
        net.graph_api()
    for n in (2, 3):
        net(integers(n, 8))
    graph, compiled = net.graph_api()
    assert [part._native.outputs[0].dims for part in compiled] == [(2, 8), (3, 8)]
    assert len(graph._ops) == 1
    assert net.plan_count() == 2


def test_looking_changes_nothing():
    net = decoder()
    x = integers(1, 6, 6, 16)
    before = net(x)
    first = str(net.explain())
    net.graph_api()
    assert str(net.explain()) == first
    np.testing.assert_array_equal(net(x), before)


def test_benchdnn_has_a_line_for_each_convolution():
    up, out = decoder().explain().benchdnn().splitlines()
    assert up.startswith(
        "--deconv --reset --dir=FWD_I --dt=f32 --stag=axb --wtag=any --dtag=axb mb1_ic16ih6iw6_oc8oh12ow12"
    )
    assert up.endswith('n"up_1"')
    assert out.startswith("--conv --reset --dir=FWD_I ")
    problem = descriptor.parse("--conv " + out.split()[-1])
    assert (problem.spatial, problem.kernel, problem.in_channels, problem.out_channels) == ((12, 12), (3, 3), 8, 4)


def test_benchdnn_of_gradients_and_integers():
    g = dgo.Graph()
    x, dy = g.input("x", (2, 8, 4, 4)), g.input("dy", (2, 4, 8, 8))
    attrs = {"strides": 2, "data_format": "NCX", "weights_format": "IOX"}
    dw = dgo.ops.conv_transpose_backward_weights(x, dy, weights_shape=(8, 4, 2, 2), **attrs)
    dx = dgo.ops.conv_transpose_backward_data(dy, g.constant(integers(8, 4, 2, 2)), **attrs)
    lines = g.compile([dw, dx]).explain().benchdnn().splitlines()
    assert {line.split()[2] for line in lines} == {"--dir=BWD_W", "--dir=BWD_D"}
    assert all("--stag=abx" in line and "mb2_ic8ih4iw4_oc4oh8ow8_kh2kw2sh2sw2" in line for line in lines)
    q = dgo.Graph()
    src = dgo.ops.dequantize(q.input("x", (1, 8, 8, 16), "u8"), scales=[0.5], zps=[0])
    weights = dgo.ops.dequantize(q.constant(np.ones((1, 1, 16, 16), np.int8)), scales=[0.5], zps=[0])
    y = dgo.ops.quantize(dgo.ops.convolution(src, weights), scales=[0.5], zps=[0], dtype="s8")
    assert "--dt=u8:s8:s8" in q.compile(y).explain().benchdnn()
