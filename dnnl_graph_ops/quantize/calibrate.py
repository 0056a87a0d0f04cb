"""Scales for the int8 form of the convolutions of a graph, of both families, taken from samples.

Each Convolution and ConvTranspose with constant weights becomes Dequantize(Quantize(src)), Dequantize(s8 weights), the
layer: the pattern that runs in int8. src gets one scale and zero point (u8; s8 without a zero point where it is
symmetric), weights one scale per output channel (of ConvTranspose: of a group).

Source: oneDNN Graph API, Quantize, Dequantize and the int8 Convolution and ConvTranspose patterns.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from ..compile import Net
from ..errors import InvalidArgumentError
from ..graph import Graph, Node
from .layers import divided, quantized
from .report import NOT_A_LAYER, Calibration, LeftReport, OutputReport


def calibrate(
    net_or_graph: Net | Graph,
    samples: Iterable[Any],
    outputs: Any = None,
    *,
    layers: Callable[[str], bool] | None = None,
) -> Calibration:
    """Quantize the Convolution and ConvTranspose ops of a float graph.

    Args:
        net_or_graph: a compiled net, or a graph (with `outputs`, as `Graph.compile` takes them).
        samples: what the net is called with: arrays, tuples of arrays, or {input name: array}; at least one.
        layers: which ops to quantize, by their names; None: all that can be.

    Returns:
        The quantized graph, the scales of each layer, what was left in f32 and why, and the error at each output over
        the samples.

    Raises:
        InvalidArgumentError: no samples, one array where a list of them is meant, samples that are not finite, or
            nothing to quantize: no float32 layer with constant weights that `layers` chooses.
        TypeError: neither a net nor a graph.
    """
    if isinstance(net_or_graph, Graph):
        net_or_graph = net_or_graph.compile(outputs)
    if not isinstance(net_or_graph, Net):
        raise TypeError(f"calibrate: needs a Net or a Graph, got {type(net_or_graph).__name__}")
    net = net_or_graph
    if layers is not None and not callable(layers):
        raise TypeError(f"calibrate: 'layers' is a function of a layer's name, got {type(layers).__name__}")
    nodes, left = divided(net.graph, layers)
    if not nodes:
        raise InvalidArgumentError(f"calibrate: {_nothing(left)}")
    _check_samples(net, samples)
    data = [_by_name(net, sample) for sample in samples]
    if not data:
        raise InvalidArgumentError("calibrate: needs at least one sample")
    ranges = dict(zip(nodes, _ranges(net, nodes, data), strict=True))
    graph, mapped, reports = quantized(net.graph, f"{net.graph.name} int8", ranges)
    found = {name: mapped[value] for name, value in net.outputs.items()}
    return Calibration(graph, found, reports, _errors(net, graph.compile(dict(found)), data), left)


def _nothing(left: Sequence[LeftReport]) -> str:
    """What to say of a graph of which nothing can be quantized."""
    layers = [f"{one.name!r} ({one.kind}): {one.reason}" for one in left if one.reason != NOT_A_LAYER]
    if layers:
        return f"no layer can be quantized: {'; '.join(layers)}"
    kinds = ", ".join(dict.fromkeys(one.kind for one in left)) or "no ops at all"
    return f"nothing to quantize: {NOT_A_LAYER}, the graph has {kinds}"


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
