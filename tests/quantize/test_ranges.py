"""Ranges by name, layers left in f32 for a bound, and models of others as sources."""

from __future__ import annotations

import io

import numpy as np
import pytest

import dnnl_graph_ops as dgo
from dnnl_graph_ops.quantize import calibrate
from dnnl_graph_ops.quantize.ranges import RANGES, observed, source_scale, weight_scales


def chain(rng: np.random.Generator, wide: float = 1.0) -> dgo.Graph:
    """Three products: of rows, of windows, and one whose weights reach from 1 to `wide` within a channel."""
    g = dgo.Graph(name="chain")
    x = g.input("x", (1, 6, 5, 16))
    y = dgo.ops.matmul(x, rng.standard_normal((16, 16), dtype=np.float32), name="rows")
    y = dgo.ops.convolution(dgo.ops.relu(y), rng.standard_normal((3, 3, 16, 16), dtype=np.float32), name="windows")
    w = rng.standard_normal((1, 1, 16, 16), dtype=np.float32)
    w[0, 0, 0] *= wide
    g.outputs["y"] = dgo.ops.convolution(dgo.ops.relu(y), w, name="last")
    return g


def test_a_matmul_of_representable_numbers_is_exact(rng: np.random.Generator) -> None:
    for turned in (False, True):
        g = dgo.Graph()
        w = rng.integers(-127, 128, (12, 16)).astype(np.float32)
        w[0] = 127
        x = rng.integers(0, 256, (2, 3, 12)).astype(np.float32)
        x.flat[0] = 255
        y = dgo.ops.matmul(g.input("x", x.shape), w.T.copy() if turned else w, transpose_b=turned, name="rows")
        found = calibrate(g.compile(y), [x])
        (layer,) = found.layers
        assert (layer.kind, len(layer.weight_scales), layer.signal_to_noise_db) == ("MatMul", 16, np.inf)
        net = found.compile()
        np.testing.assert_array_equal(net(x), x @ w)


def test_ranges_of_outliers(rng: np.random.Generator) -> None:
    """One element of many that is far out: "percentile" cuts it off, "mse" weighs it, and is never worse there."""
    x = rng.standard_normal((1, 200, 100, 1), dtype=np.float32)
    x.flat[5] = 60
    g = dgo.Graph()
    y = dgo.ops.convolution(g.input("x", x.shape), np.ones((1, 1, 1, 1), np.float32), name="conv")
    net = g.compile(y)
    limits = {name: observed(net, net.graph.nodes, lambda: [{"x": x}], name)[net.graph.nodes[0]] for name in RANGES}
    assert limits["minmax"] == (x.min(), 60)
    # two of 20000 elements may lie beyond each end
    low, high = limits["percentile"]
    assert x.min() <= low < -3 and 3 < high < 60 and (x > high).sum() <= 3

    def error(ends: tuple[float, float]) -> float:
        dtype, scale, zero = source_scale(*ends)
        lowest, highest = (-128, 127) if dtype == "s8" else (0, 255)
        return float(np.square((np.clip(np.rint(x / scale) + zero, lowest, highest) - zero) * scale - x).sum())

    assert error(limits["mse"]) < 1.01 * min(error(limits["minmax"]), error(limits["percentile"]))


@pytest.mark.filterwarnings("ignore:calibrate. all samples give zeros")
@pytest.mark.parametrize("ranges", RANGES)
def test_nothing_but_zeros_and_constants(ranges: str) -> None:
    g = dgo.Graph()
    w = np.zeros((4, 3), np.float32)
    w[:, 1] = 2
    net = g.compile(dgo.ops.matmul(g.input("x", (2, 4)), w))
    for value in (0.0, 3.0, -3.0):
        found = calibrate(net, [np.full((2, 4), value, np.float32)], ranges=ranges)  # type: ignore[arg-type]
        assert found.errors[0].max_abs_error <= 0.02 * abs(value) * 8


def test_scales_of_weights_by_least_squares(rng: np.random.Generator) -> None:
    weights = rng.standard_normal((3, 5000)).astype(np.float32)
    weights[1, 0] = 40
    widest, best = (weight_scales(weights, 0, name) for name in ("minmax", "mse"))
    errors = [
        np.square(np.clip(np.rint(weights / scale[:, None]), -127, 127) * scale[:, None] - weights).sum(1)
        for scale in (widest, best)
    ]
    assert (errors[1] <= errors[0]).all() and (best <= widest).all() and (widest[1] == np.float32(40 / 127))


def test_ratio_of_a_layer_alone(rng: np.random.Generator) -> None:
    """By hand: the last layer on rounded weights and data, against its result in floats."""
    graph = chain(rng)
    samples = [rng.standard_normal((1, 6, 5, 16), dtype=np.float32) for _ in range(3)]
    found = calibrate(graph, samples[:1], held_out=samples[1:])
    layer = found.layers[2]
    assert layer.name == "last" and layer.src_dtype == "u8"
    hidden = graph.compile(graph.nodes[-1].inputs[0])
    w = graph.nodes[-1].inputs[1].constant
    assert w is not None
    signal = noise = 0.0
    for sample in samples[1:]:
        x = hidden(sample).astype(np.float64)
        levels = np.clip(np.rint(x / np.float32(layer.src_scale)) + layer.src_zero_point, 0, 255)
        scales = np.array(layer.weight_scales)
        exact, got = (
            x @ w[0, 0],
            (levels - layer.src_zero_point) * layer.src_scale @ (np.rint(w[0, 0] / scales) * scales),
        )
        signal, noise = signal + np.square(exact).sum(), noise + np.square(got - exact).sum()
    assert layer.signal_to_noise_db == pytest.approx(10 * np.log10(signal / noise), abs=0.01)
    ratios = [float(line.rsplit(", ", 1)[1].split()[0]) for line in str(found).splitlines() if "weight scales" in line]
    assert len(ratios) == 3 and ratios == sorted(ratios)


def test_layers_are_left_in_f32_until_the_bound_holds(rng: np.random.Generator) -> None:
    graph = chain(rng, 300.0)
    samples = [rng.standard_normal((1, 6, 5, 16), dtype=np.float32) for _ in range(2)]
    whole = calibrate(graph, samples)
    reached = whole.errors[0].signal_to_noise_db
    order = [one.name for one in sorted(whole.layers, key=lambda one: one.signal_to_noise_db)]
    assert len(calibrate(graph, samples, min_snr=reached - 1).layers) == 3
    found = calibrate(graph, samples, min_snr=reached + 1)
    assert found.errors[0].signal_to_noise_db >= reached + 1
    left = [one.name for one in found.left if "dB by itself" in one.reason]
    assert set(left) == set(order[: len(left)]) and left
    none = calibrate(graph, samples, min_snr=1000)
    assert not none.layers and none.errors[0].max_abs_error == 0
    np.testing.assert_array_equal(none.compile()(samples[0]), graph.compile()(samples[0]))


@pytest.mark.slow
def test_models_of_others() -> None:
    torch, onnx = pytest.importorskip("torch"), pytest.importorskip("onnx")
    torch.manual_seed(0)
    module = torch.nn.Sequential(
        torch.nn.Conv2d(3, 16, 3), torch.nn.ReLU(), torch.nn.Flatten(), torch.nn.Linear(256, 16)
    )
    x = torch.randn(2, 3, 6, 6)
    with pytest.raises(dgo.InvalidArgumentError, match=r"training mode; call model\.eval"):
        calibrate(module, [x])
    program = torch.export.export(module.eval(), (x,))
    want = calibrate(dgo.from_torch(program), [x.numpy()])
    assert [layer.kind for layer in want.layers] == ["Convolution", "MatMul"]
    assert calibrate(program, [x]).layers == want.layers
    assert calibrate(module, iter([x])).layers == want.layers
    assert calibrate(module, [{"input": x}]).errors == want.errors
    file = io.BytesIO()
    torch.onnx.export(module, (x,), file, dynamo=False, opset_version=17)
    for given in (file.getvalue(), onnx.load_from_string(file.getvalue())):
        found = calibrate(given, [x.numpy()], ranges="mse")
        assert [layer.kind for layer in found.layers] == ["Convolution", "MatMul"]
        assert found.errors[0].signal_to_noise_db > 30
