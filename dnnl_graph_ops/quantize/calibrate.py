"""Scales for the int8 form of the convolutions of a graph, of both families, taken from samples.

Each Convolution and ConvTranspose with constant weights becomes Dequantize(Quantize(src)), Dequantize(s8 weights), the
layer: the pattern that runs in int8. src gets one scale and zero point (u8; s8 without a zero point where it is
symmetric), weights one scale per output channel (of ConvTranspose: of a group).

Source: oneDNN Graph API, Quantize, Dequantize and the int8 Convolution and ConvTranspose patterns.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from ..compile import Net
from ..compile.samples import as_samples, differences
from ..errors import InvalidArgumentError
from ..graph import Graph, Node
from ..progress import Progress, check, shown
from ..schema.arguments import keywords_told
from .layers import divided, quantized
from .report import NOT_A_LAYER, Calibration, LeftReport


@keywords_told
def calibrate(
    net_or_graph: Net | Graph,
    samples: Iterable[Any],
    outputs: Any = None,
    *,
    layers: Callable[[str], bool] | None = None,
    progress: Progress | None = None,
) -> Calibration:
    """Quantize the Convolution and ConvTranspose ops of a float graph.

    Args:
        net_or_graph: a compiled net, or a graph (with `outputs`, as `Graph.compile` takes them).
        samples: what the net is called with: arrays, tuples of arrays, or {input name: array}; at least one.
        layers: which ops to quantize, by their names; None: all that can be.
        progress: called with the number of steps done, the number of all and a text; None: a bar on a terminal.

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
    check(progress, "calibrate")
    net = net_or_graph
    if layers is not None and not callable(layers):
        raise TypeError(f"calibrate: 'layers' is a function of a layer's name, got {type(layers).__name__}")
    nodes, left = divided(net.graph, layers)
    if not nodes:
        raise InvalidArgumentError(f"calibrate: {_nothing(left)}")
    data = as_samples(net, samples, "calibrate")
    count = len(data)
    with shown(progress) as tell:
        told = _told(data, lambda done: tell(done, 2 * count, "ranges"))
        ranges = dict(zip(nodes, _ranges(net, nodes, told), strict=True))
        graph, mapped, reports = quantized(net.graph, f"{net.graph.name} int8", ranges)
        found = {name: mapped[value] for name, value in net.outputs.items()}
        narrow = graph.compile(dict(found))
        told = _told(data, lambda done: tell(count + done, 2 * count, "errors"))
        errors = differences(map(net.run, told), map(narrow.run, data), net.output_names)
    return Calibration(graph, found, reports, errors, left)


def _told(data: Iterable[Any], tell: Callable[[int], object]) -> Iterator[Any]:
    """Yields the samples; calls `tell` with the number of those done before the next one, and at the end."""
    for done, sample in enumerate(data, 1):
        yield sample
        tell(done)


def _nothing(left: Sequence[LeftReport]) -> str:
    """What to say of a graph of which nothing can be quantized."""
    layers = [f"{one.name!r} ({one.kind}): {one.reason}" for one in left if one.reason != NOT_A_LAYER]
    if layers:
        return f"no layer can be quantized: {'; '.join(layers)}"
    kinds = ", ".join(dict.fromkeys(one.kind for one in left)) or "no ops at all"
    return f"nothing to quantize: {NOT_A_LAYER}, the graph has {kinds}"


def _ranges(net: Net, nodes: Sequence[Node], data: Iterable[Mapping[str, Any]]) -> list[tuple[float, float]]:
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
