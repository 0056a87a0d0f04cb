"""Large weights that the library alone reads stay in memory once: as it has packed them."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import dnnl_graph_ops as dgo
from dnnl_graph_ops.compile import release_constants

onnx = pytest.importorskip("onnx")
SHAPE = (1, 96, 2, 3)


@pytest.fixture
def path(tmp_path, rng, request):
    """A layer in a file: a convolution, or a product whose weights the library takes as they lie."""
    convolution = getattr(request, "param", "Conv") == "Conv"
    shapes = [SHAPE, (80, 96, 3, 3), (1, 80, 2, 3)] if convolution else [(96, 6), (200, 96), (200, 6)]
    weights = rng.integers(-2, 3, shapes[1]).astype(np.float32)
    node = onnx.helper.make_node("Conv" if convolution else "MatMul", ["x", "w"] if convolution else ["w", "x"], ["y"])
    if convolution:
        node.attribute.append(onnx.helper.make_attribute("pads", [1, 1, 1, 1]))
    x, y = (onnx.helper.make_tensor_value_info(n, 1, shape) for n, shape in (("x", shapes[0]), ("y", shapes[2])))
    graph = onnx.helper.make_graph([node], "layer", [x], [y], [onnx.numpy_helper.from_array(weights, "w")])
    onnx.save(onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 17)]), tmp_path / "layer.onnx")
    return tmp_path / "layer.onnx"


def compiled(path):
    net = dgo.from_onnx(path).compile(tune="off")
    held = [value._held for value in net._constants if value._held is not None]
    return net, [one for one in held if one._array is not None]


@pytest.mark.parametrize("path", ["Conv", "MatMul"], indirect=True)
def test_weights_are_let_go_once_the_library_has_packed_them(path, rng, monkeypatch, tmp_path):
    plain = dgo.from_onnx(path).compile()
    x = rng.integers(-2, 3, plain.inputs[0].shape).astype(np.float32)
    given = []

    def nothing(buffer):
        given.append(np.full(buffer.elements, np.nan, np.float32))
        return given[-1]

    monkeypatch.setattr(release_constants, "_LEAST_BYTES", 1)
    monkeypatch.setattr("dnnl_graph_ops.compile.plan.nothing_of", nothing)
    net, kept = compiled(path)
    bounded = net.engine.runtime._library.has("dnnl_graph_set_constant_tensor_cache_capacity")
    assert len(given) == (not bounded and "Convolution" in {node.kind for node in net.graph.nodes})
    assert not kept
    for _ in range(3):
        np.testing.assert_array_equal(net(x), plain(x))
    with ThreadPoolExecutor(2) as threads:
        for result in threads.map(net, [x] * 4):
            np.testing.assert_array_equal(result, plain(x))
    room = np.full([2 * n for n in x.shape], np.nan, np.float32)
    strided = room[tuple(slice(n) for n in x.shape)]
    strided[...] = x
    np.testing.assert_array_equal(net(strided), plain(x))
    net.profile(x)
    net.explain()
    net.save(tmp_path / "net.dgo")
    np.testing.assert_array_equal(dgo.load(tmp_path / "net.dgo")(x), plain(x))
    dgo.clear_caches()
    np.testing.assert_array_equal(net(x), plain(x))


def test_few_weights_are_not_run_for(path, monkeypatch):
    monkeypatch.setattr(release_constants, "_packed_by", lambda *_: pytest.fail("ran"))
    compiled(path)
