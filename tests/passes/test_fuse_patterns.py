"""What exporters write in several ops and is compiled as one."""

from __future__ import annotations

import io
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import dnnl_graph_ops as dgo
from dnnl_graph_ops import ops
from dnnl_graph_ops.compile import specialise as storey
from dnnl_graph_ops.ir import reachable

torch = pytest.importorskip("torch", reason="the reference")

Array = np.ndarray[Any, Any]

RNG = np.random.default_rng(11)


def f(*shape: int) -> Array:
    return RNG.standard_normal(shape).astype(np.float32)


def run(made: Any, *arrays: Array, **options: Any) -> tuple[Any, list[str]]:
    """Results, and the nodes that were compiled; `made`: values, or a graph with outputs."""
    seen: list[list[str]] = []
    real = storey.group

    def group(nodes: Any, *rest: Any) -> Any:
        seen.append([node.kind for node in nodes])
        return real(nodes, *rest)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(storey, "group", group)
        graph = made.graph if isinstance(made, dgo.Value) else made[0].graph if isinstance(made, list) else made
        net = graph.compile(**options) if graph is made else graph.compile(made, **options)
        result = net(*arrays)
    return result, seen[-1]


def truth(x: Array, groups: int, gamma: Array, beta: Array, epsilon: float) -> Array:
    tensors = [torch.from_numpy(array).double() for array in (x, gamma, beta)]
    return np.asarray(torch.nn.functional.group_norm(tensors[0], groups, *tensors[1:], epsilon).numpy())


def exported(
    x: Any, shape: tuple[int, ...], groups: int, gamma: Array, beta: Array, back: tuple[int, ...] | None = None
) -> tuple[Any, Any]:
    """As PyTorch's exporter writes nn.GroupNorm; the inner result and the outer one."""
    graph = x.graph
    flat = ops.static_reshape(x, shape=(shape[0], groups, -1), special_zero=False)
    ones, zeros = graph.constant(np.ones(groups, np.float32)), graph.constant(np.zeros(groups, np.float32))
    inner = ops.group_norm(flat, ones, zeros, groups=groups, keep_stats=False, epsilon=1e-4, data_format="NCX")
    y = ops.static_reshape(inner, shape=back or shape, special_zero=False)
    along = (1, -1, *(1,) * (len(shape) - 2))
    scaled = ops.multiply(y, graph.constant(gamma.reshape(along)))
    return inner, ops.add(scaled, graph.constant(beta.reshape(along[1:])))


@pytest.mark.parametrize("shape", [(2, 6, 7), (1, 6, 5, 4), (2, 6, 2, 3, 4)])
@pytest.mark.parametrize("groups", [1, 2, 6])
def test_group_norm_by_way_of_reshapes(shape: tuple[int, ...], groups: int) -> None:
    x, gamma, beta = f(*shape), f(6), f(6)
    _, made = exported(dgo.Graph().input("x", shape), shape, groups, gamma, beta)
    y, nodes = run(made, x)
    assert nodes == ["GroupNorm"]
    np.testing.assert_allclose(y, truth(x, groups, gamma, beta, 1e-4), atol=1e-5)


def test_scale_and_shift_of_groups_join_those_of_channels() -> None:
    x, gamma, beta, scale = f(2, 6, 5, 4), f(3), f(3), f(6)
    graph = dgo.Graph()
    flat = ops.static_reshape(graph.input("x", x.shape), shape=(2, 3, 40), special_zero=False)
    inner = ops.group_norm(
        flat, graph.constant(gamma), graph.constant(beta), groups=3, keep_stats=False, data_format="NCX"
    )
    back = ops.static_reshape(inner, shape=x.shape, special_zero=False)
    y, nodes = run(ops.multiply(graph.constant(scale.reshape(6, 1, 1)), back), x)
    assert nodes == ["GroupNorm"]
    expected = truth(x, 3, np.repeat(gamma, 2), np.repeat(beta, 2), 1e-5) * scale.reshape(6, 1, 1)
    np.testing.assert_allclose(y, expected, atol=1e-5)


def test_layer_norm_of_reshaped_groups() -> None:
    x = f(2, 6, 5, 4)
    flat = ops.static_reshape(dgo.Graph().input("x", x.shape), shape=(2, 3, 40), special_zero=False)
    inner = ops.layer_norm(flat, keep_stats=False, use_affine=False, begin_norm_axis=-1)
    y, nodes = run(ops.static_reshape(inner, shape=x.shape, special_zero=False), x)
    assert nodes == ["GroupNorm"]
    np.testing.assert_allclose(y, truth(x, 3, np.ones(6, np.float32), np.zeros(6, np.float32), 1e-5), atol=1e-5)


def test_what_leaves_the_net_or_is_read_twice_stays() -> None:
    x, gamma, beta = f(2, 6, 5, 4), f(6), f(6)
    inner, made = exported(dgo.Graph().input("x", x.shape), x.shape, 2, gamma, beta)
    (y, between), nodes = run([made, inner], x)
    assert nodes.count("StaticReshape") == 2
    np.testing.assert_allclose(y, truth(x, 2, gamma, beta, 1e-4), atol=1e-5)
    np.testing.assert_allclose(between.std(-1), 1, atol=1e-3)
    inner, made = exported(dgo.Graph().input("x", x.shape), x.shape, 2, gamma, beta)
    (y, other), nodes = run([made, ops.relu(inner)], x)
    assert nodes.count("StaticReshape") == 2
    np.testing.assert_array_equal(other, np.maximum(between, 0))


@pytest.mark.parametrize("options", [{"tune": "off"}, {"policy": "debug"}])
def test_literally(options: dict[str, str]) -> None:
    x, gamma, beta = f(2, 6, 5, 4), f(6), f(6)
    _, made = exported(dgo.Graph().input("x", x.shape), x.shape, 2, gamma, beta)
    y, nodes = run(made, x, **options)
    assert nodes == ["StaticReshape", "GroupNorm", "StaticReshape", "Multiply", "Add"]
    np.testing.assert_allclose(y, truth(x, 2, gamma, beta, 1e-4), atol=1e-5)


def near_misses() -> dict[str, Callable[[Any], Any]]:
    def other_shape(x: Any) -> Any:
        return exported(x, (2, 6, 5, 4), 2, f(6), f(6), (2, 6, 4, 5))[1]

    def scale_by_position(x: Any) -> Any:
        inner = ops.group_norm(x, groups=2, keep_stats=False, use_affine=False, data_format="NCX")
        return ops.multiply(inner, x.graph.constant(f(1, 1, 5, 4)))

    def scale_of_another_axis(x: Any) -> Any:
        inner = ops.group_norm(x, groups=2, keep_stats=False, use_affine=False, data_format="NCX")
        return ops.multiply(inner, x.graph.constant(f(4)))

    def variable_scale(x: Any) -> Any:
        inner = ops.group_norm(x, groups=2, keep_stats=False, use_affine=False, data_format="NCX")
        return ops.multiply(inner, x)

    def batches_joined(x: Any) -> Any:
        flat = ops.static_reshape(x, shape=(1, 4, 60), special_zero=False)
        inner = ops.group_norm(flat, groups=4, keep_stats=False, use_affine=False, data_format="NCX")
        return ops.static_reshape(inner, shape=(2, 6, 5, 4), special_zero=False)

    def groups_across_channels(x: Any) -> Any:
        flat = ops.static_reshape(x, shape=(2, 4, 30), special_zero=False)
        inner = ops.group_norm(flat, groups=4, keep_stats=False, use_affine=False, data_format="NCX")
        return ops.static_reshape(inner, shape=(2, 6, 5, 4), special_zero=False)

    return dict(locals())


@pytest.mark.parametrize("name", near_misses())
def test_near_misses_stay(name: str) -> None:
    x = f(2, 6, 5, 4)
    made = near_misses()[name]
    value = dgo.Graph().input("x", x.shape)
    result = made(value)
    given = len(reached(result))
    y, nodes = run(result, x)
    assert len(nodes) >= min(given, 3) if name == "other_shape" else len(nodes) == given
    literal, _ = run(result, x, tune="off")
    np.testing.assert_allclose(y, literal, atol=1e-5)


def reached(value: Any) -> list[Any]:
    return reachable([value])[0]


def in_parts(x: Any, axes: tuple[int, ...], square: str) -> Any:
    mean = ops.reduce_mean(x, axes=axes, keep_dims=True)
    distance = ops.subtract(x, mean)
    squares = {
        "Square": lambda: ops.square(distance),
        "Pow": lambda: ops.pow(distance, beta=2.0),
        "Multiply": lambda: ops.multiply(distance, distance),
    }[square]()
    variance = ops.reduce_mean(squares, axes=axes, keep_dims=True)
    total = ops.add(variance, x.graph.constant(np.full((1,), 1e-5, np.float32)))
    return ops.divide(distance, ops.sqrt(total))


@pytest.mark.parametrize("square", ["Square", "Pow", "Multiply"])
@pytest.mark.parametrize(("axes", "kind"), [((-1,), "LayerNorm"), ((2, 3), "GroupNorm"), ((1, 2, 3), "GroupNorm")])
def test_a_norm_in_parts(square: str, axes: tuple[int, ...], kind: str) -> None:
    x = f(2, 6, 5, 8)
    graph = dgo.Graph()
    result = in_parts(graph.input("x", x.shape), axes, square)
    affine = f(8) if kind == "LayerNorm" else f(6, 1, 1)
    made = ops.add(ops.multiply(result, graph.constant(affine)), graph.constant(affine * 2))
    y, nodes = run(made, x)
    assert nodes == [kind]
    wide = x.astype(np.float64)
    normal = (wide - wide.mean(axes, keepdims=True)) / np.sqrt(wide.var(axes, keepdims=True) + 1e-5)
    np.testing.assert_allclose(y, normal * affine + affine * 2, atol=2e-5)


def test_other_means_are_no_norm() -> None:
    x = f(2, 6, 5, 8)
    value = dgo.Graph().input("x", x.shape)
    for made in (
        in_parts(value, (2,), "Square"),  # no norm has this axis
        ops.divide(value, ops.sqrt(ops.reduce_mean(ops.square(value), axes=(-1,), keep_dims=True))),
    ):
        given = len(reached(made))
        y, nodes = run(made, x)
        assert len(nodes) == given
        literal, _ = run(made, x, tune="off")
        np.testing.assert_allclose(y, literal, atol=1e-4)


MODULES = {
    "group": (torch.nn.GroupNorm(3, 6), (2, 6, 5, 4), ["GroupNorm"]),
    "group without affine": (torch.nn.GroupNorm(3, 6, affine=False), (2, 6, 5, 4), ["GroupNorm"]),
    "instance": (torch.nn.InstanceNorm2d(6), (2, 6, 5, 4), ["GroupNorm"]),
    "instance with affine": (torch.nn.InstanceNorm1d(6, affine=True), (2, 6, 9), ["GroupNorm"]),
    "layer": (torch.nn.LayerNorm(8), (2, 5, 8), ["LayerNorm"]),
    "group, silu": (torch.nn.Sequential(torch.nn.GroupNorm(2, 6), torch.nn.SiLU()), (1, 6, 9, 7), None),
}


@pytest.mark.sweep(every=3)
@pytest.mark.parametrize("opset", [13, 17, 18])
@pytest.mark.parametrize("name", MODULES)
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_exported_by_pytorch(name: str, opset: int) -> None:
    module, shape, expected = MODULES[name]
    module = module.eval()
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.copy_(torch.from_numpy(f(*parameter.shape)))
        x = torch.from_numpy(f(*shape))
        want = module(x).numpy()
    file = io.BytesIO()
    torch.onnx.export(module, (x,), file, opset_version=opset, dynamo=False)
    y, nodes = run(dgo.from_onnx(file.getvalue()), x.numpy())
    np.testing.assert_allclose(y, want, atol=1e-5)
    assert nodes == (expected or ["GroupNorm", "Sigmoid", "Multiply"])


@pytest.mark.parametrize("least, found", [(20.0, True), (5.0, False)])
def test_softplus_with_a_threshold(least, found, rng):
    graph = dgo.Graph()
    x = graph.input("x", (3, 40))
    large = ops.greater_equal(x, graph.constant(np.full((1, 1), least, np.float32)))
    net = graph.compile(ops.select(large, x, ops.softplus(x)))
    values = (rng.standard_normal((3, 40)) * 30).astype(np.float32)
    wide = values.astype(np.float64)
    expected = np.where(wide >= least, wide, np.logaddexp(wide, 0))
    np.testing.assert_allclose(net(values), expected, rtol=1e-6, atol=1e-37)
    assert (len(net.explain().steps) == 1) == found
