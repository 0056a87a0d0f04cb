"""Scales for the int8 form of the ConvTranspose ops of a graph, taken from samples.

Each ConvTranspose with constant weights becomes Dequantize(Quantize(src)), Dequantize(s8 weights), ConvTranspose: the
pattern that the library runs in int8. src gets one scale and zero point (u8; s8 without a zero point where it is
symmetric), weights one scale per output channel of a group.

Source: oneDNN Graph API, Quantize, Dequantize and the int8 ConvTranspose pattern.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from .. import ops
from ..compile import Net
from ..errors import InvalidArgumentError
from ..graph import Graph, Node, Value
from ..shapes import resolved
from ..weights import convert_weights

Array = np.ndarray[Any, Any]

KIND = "ConvTranspose"
LEVELS = {"u8": (0, 255), "s8": (-128, 127)}
WEIGHT_LEVEL = 127


@dataclass(frozen=True)
class LayerReport:
    """The quantization of one ConvTranspose."""

    name: str
    src_dtype: str
    src_scale: float
    src_zero_point: int
    weight_scales: tuple[float, ...]


@dataclass(frozen=True)
class OutputReport:
    """What int8 costs at one output, over all samples."""

    name: str
    max_abs_error: float
    rms_error: float
    signal_to_noise_db: float


@dataclass(frozen=True)
class Calibration:
    """A quantized graph and its report; str() is a table."""

    graph: Graph
    outputs: Mapping[str, Value]
    layers: tuple[LayerReport, ...]
    errors: tuple[OutputReport, ...]

    def compile(self, **options: Any) -> Net:
        """Compile the quantized graph; takes the options of `Graph.compile` and raises as it does."""
        return self.graph.compile(dict(self.outputs), **options)

    def __str__(self) -> str:
        lines = [
            f"{layer.name}: src {layer.src_dtype} scale {layer.src_scale:.4g} zero point {layer.src_zero_point}, "
            f"{len(layer.weight_scales)} weight scales up to {max(layer.weight_scales):.4g}"
            for layer in self.layers
        ]
        lines += [
            f"{error.name}: max error {error.max_abs_error:.4g}, rms {error.rms_error:.4g}, "
            f"{error.signal_to_noise_db:.1f} dB"
            for error in self.errors
        ]
        return "\n".join(lines)


def calibrate(net_or_graph: Net | Graph, samples: Iterable[Any], outputs: Any = None) -> Calibration:
    """Quantize the ConvTranspose ops of a float graph.

    Args:
        net_or_graph: a compiled net, or a graph (with `outputs`, as `Graph.compile` takes them).
        samples: what the net is called with: arrays, tuples of arrays, or {input name: array}; at least one.

    Returns:
        The quantized graph, the scales of each layer, and the error at each output over the samples.

    Raises:
        InvalidArgumentError: no samples, one array where a list of them is meant, samples that are not finite, or
            nothing to quantize: no float32 ConvTranspose with constant weights.
        TypeError: neither a net nor a graph.
    """
    if isinstance(net_or_graph, Graph):
        net_or_graph = net_or_graph.compile(outputs)
    if not isinstance(net_or_graph, Net):
        raise TypeError(f"calibrate: needs a Net or a Graph, got {type(net_or_graph).__name__}")
    net = net_or_graph
    nodes = [node for node in net.graph.nodes if _quantizable(node)]
    if not nodes:
        raise InvalidArgumentError(
            "calibrate: the graph has no float32 ConvTranspose with constant weights; make the weights Graph.constant"
        )
    _check_samples(net, samples)
    data = [_by_name(net, sample) for sample in samples]
    if not data:
        raise InvalidArgumentError("calibrate: needs at least one sample")
    ranges = _ranges(net, nodes, data)
    graph, mapped, layers = _quantized(net, nodes, ranges)
    found = {name: mapped[value] for name, value in net.outputs.items()}
    quantized = graph.compile(dict(found))
    return Calibration(graph, found, layers, _errors(net, quantized, data))


def _quantizable(node: Node) -> bool:
    return node.kind == KIND and node.inputs[0].dtype == "f32" and node.inputs[1].is_constant


def _check_samples(net: Net, samples: Any) -> None:
    """Refuse one sample alone; an array with one axis more than the input is as good as a list."""
    if isinstance(samples, Mapping):
        given = f"a mapping of {', '.join(map(repr, samples))}"
    elif hasattr(samples, "__array__") and not (len(net.inputs) == 1 and np.ndim(samples) == net.inputs[0].ndim + 1):
        given = f"one array of shape {np.shape(samples)}"
    else:
        return
    raise InvalidArgumentError(f"calibrate: 'samples' is a list of samples, got {given}; pass [sample] for one")


def _by_name(net: Net, sample: Any) -> dict[str, Any]:
    if isinstance(sample, Mapping):
        return dict(sample)
    values = sample if isinstance(sample, tuple) else (sample,)
    if len(values) != len(net.input_names):
        raise InvalidArgumentError(
            f"calibrate: a sample has {len(values)} arrays, the net takes {len(net.input_names)} "
            f"({', '.join(net.input_names)})"
        )
    return dict(zip(net.input_names, values, strict=True))


def _ranges(net: Net, nodes: Sequence[Node], data: Sequence[Mapping[str, Any]]) -> list[tuple[float, float]]:
    """Lowest and highest src of each node over the samples."""
    watch = {f"src of {node.name}": node.inputs[0] for node in nodes}
    probe = net.graph.compile({**watch, **net.outputs})
    lows, highs = [0.0] * len(nodes), [0.0] * len(nodes)
    for sample in data:
        seen = probe.run({name: sample[name] for name in probe.input_names if name in sample})
        for i, name in enumerate(watch):
            low, high = float(seen[name].min(initial=0)), float(seen[name].max(initial=0))
            if not (np.isfinite(low) and np.isfinite(high)):
                raise InvalidArgumentError(f"calibrate: the {name} is not finite on a sample; its range is unknown")
            lows[i], highs[i] = min(lows[i], low), max(highs[i], high)
    return list(zip(lows, highs, strict=True))


def _source_scale(low: float, high: float) -> tuple[str, float, int]:
    """dtype, scale and zero point; zero is always exact."""
    if low == 0.0 == high:
        return "u8", 1.0, 0
    if low < 0 and max(-low, high) < 1.1 * min(-low, high):
        return "s8", max(-low, high) / LEVELS["s8"][1], 0
    bottom, top = LEVELS["u8"]
    scale = (high - low) / (top - bottom)
    return "u8", scale, int(np.clip(round(-low / scale), bottom, top))


def _quantized(
    net: Net, nodes: Sequence[Node], ranges: Sequence[tuple[float, float]]
) -> tuple[Graph, dict[Value, Value], tuple[LayerReport, ...]]:
    graph = Graph(net.graph.engine, fpmath_mode=net.graph.fpmath_mode, name=f"{net.graph.name} int8")
    mapped: dict[Value, Value] = {}
    for value in net.graph.inputs:
        mapped[value] = graph.input(value.name, value.shape, value.dtype, value.strides)
    scales = dict(zip(nodes, ranges, strict=True))
    layers = []
    for node in net.graph.nodes:
        for value in node.inputs:
            if value not in mapped and value.is_constant and not (node in scales and value is node.inputs[1]):
                mapped[value] = graph.constant(value.constant, value.name)
        if node in scales:
            result, layer = _quantized_node(graph, node, mapped, scales[node])
            mapped[node.outputs[0]] = result
            layers.append(layer)
            continue
        metas = [value.meta for value in node.outputs]
        slots = [value.name.rpartition(".")[2] for value in node.outputs]
        inputs = [mapped[v] for v in node.inputs]
        made = graph.add_node(node.kind, node.name, inputs, node.attrs, metas, slots, node.name, late=node.late)
        mapped.update(zip(node.outputs, made, strict=True))
    return graph, mapped, tuple(layers)


def _quantized_node(
    graph: Graph, node: Node, mapped: Mapping[Value, Value], limits: tuple[float, float]
) -> tuple[Value, LayerReport]:
    dtype, scale, zero_point = _source_scale(*limits)
    qparams: dict[str, Any] = {"scales": [scale], "zps": [zero_point], "qtype": "per_tensor"}
    src = ops.quantize(mapped[node.inputs[0]], dtype=dtype, **qparams)
    src = ops.dequantize(src, **qparams)
    weights, scales = _quantized_weights(node)
    per_channel: dict[str, Any] = {"scales": list(scales), "zps": [0] * len(scales), "qtype": "per_channel", "axis": 1}
    w = ops.dequantize(graph.constant(weights), **per_channel)
    attrs = {**node.attrs, "weights_format": "IOX"}
    rest = [mapped[value] for value in node.inputs[2:]]
    result = ops.conv_transpose(src, w, *rest, name=node.name, **attrs)
    return result, LayerReport(node.name, dtype, scale, zero_point, scales)


def _quantized_weights(node: Node) -> tuple[Array, tuple[float, ...]]:
    """s8 weights as (IC, OC/groups, k...) and the scale of each output channel of a group."""
    weights = node.inputs[1].constant
    if weights is None:
        raise InvalidArgumentError(f"calibrate: the weights of {node.name!r} are not constant")
    attrs = resolved(node.kind, [value.shape for value in node.inputs], node.attrs, node.name)
    fmt = f"documented_{attrs.weights_format}" if attrs.known.weights.documented else attrs.weights_format
    iox = convert_weights(weights, fmt, "IOX", groups=attrs.groups)
    peaks = np.abs(iox).max(axis=tuple(a for a in range(iox.ndim) if a != 1), initial=0.0)
    scales = np.where(peaks > 0, peaks / WEIGHT_LEVEL, 1.0).astype(np.float32)
    shape = [1, -1, *[1] * (iox.ndim - 2)]
    levels = np.clip(np.rint(iox / scales.reshape(shape)), -WEIGHT_LEVEL, WEIGHT_LEVEL)
    return levels.astype(np.int8), tuple(map(float, scales))


def _errors(net: Net, quantized: Net, data: Sequence[Mapping[str, Any]]) -> tuple[OutputReport, ...]:
    sums = {name: [0.0, 0.0, 0.0, 0] for name in net.outputs}
    for sample in data:
        want, got = net.run(sample), quantized.run(sample)
        for name, entry in sums.items():
            exact = want[name].astype(np.float64)
            error = got[name].astype(np.float64) - exact
            entry[0] = max(entry[0], float(np.abs(error).max(initial=0)))
            entry[1] += float((error**2).sum())
            entry[2] += float((exact**2).sum())
            entry[3] += error.size
    return tuple(
        OutputReport(
            name,
            worst,
            float(np.sqrt(noise / max(count, 1))),
            float(10 * np.log10(signal / noise)) if noise and signal else float("inf"),
        )
        for name, (worst, noise, signal, count) in sums.items()
    )
