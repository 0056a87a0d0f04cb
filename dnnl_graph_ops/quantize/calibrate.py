"""Scales for int8 versions of the convolutions and MatMuls of a model, taken from samples.

Each Convolution, ConvTranspose and MatMul with constant weights becomes Dequantize(Quantize(src)), Dequantize(s8
weights), the layer: the pattern that runs in int8. src gets one scale and zero point (u8; s8 without a zero point where
it is symmetric), weights one scale per output channel (of ConvTranspose: of a group).

Source: oneDNN Graph API, Quantize, Dequantize and the int8 Convolution, ConvTranspose and MatMul patterns.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import count
from math import inf
from typing import Any

import numpy as np

from ..errors import InvalidArgumentError
from ..graph import Node
from ..net import Net
from ..net.samples import Sample, as_samples, differences
from ..progress import Progress, check, shown
from ..reports.precision import OutputReport
from ..schema.arguments import is_bool, keywords_told, one_of, show
from .layers import Quantized, divided, folded, quantized
from .ranges import RANGES, Limits, Ranges, observed, passes
from .report import NOT_A_LAYER, Calibration, LeftReport
from .sources import net_of


@keywords_told
def calibrate(
    model: Any,
    samples: Iterable[Any],
    outputs: Any = None,
    *,
    ranges: Ranges = "minmax",
    equalize: bool = False,
    held_out: Iterable[Any] | None = None,
    min_snr: float | None = None,
    layers: Callable[[str], bool] | None = None,
    progress: Progress | None = None,
) -> Calibration:
    """Quantize the Convolution, ConvTranspose and MatMul ops of a float model.

    Args:
        model: a compiled net, a graph (with `outputs`, as `Graph.compile` takes them), an ONNX model as `from_onnx`
            takes it, an ExportedProgram, or a module of PyTorch in eval mode, which is exported for the first sample.
        samples: inputs like those of later calls: arrays, tuples of arrays, or {input name: array}; at least one.
        ranges: the range of data that the scales cover. "minmax": all values of the samples; "percentile": without the
            lowest and the highest 0.01 %; "mse": the range with the least mean squared error, also for each channel of
            weights.
        equalize: whether to scale the channels between two convolutions, with ReLU, LeakyReLU, Abs or pools in between,
            so that the weights of both have equal ranges (cross-layer equalization). Results in floats change by
            rounding only; channels of very different ranges, as in depthwise nets, lose less in 8 bits.
        held_out: samples that errors are measured on; None: `samples`.
        min_snr: the least signal-to-noise ratio of each output in dB. Layers stay in f32 until it holds, those with the
            lowest ratio of `signal_to_noise_db` first. None: all layers are quantized.
        layers: which ops to quantize, by their names; None: all ops that can be quantized.
        progress: called with the number of steps done, the number of all and a text; None: a bar on a terminal.

    Returns:
        The quantized graph, the scales and the error of each layer, the ops that stay in f32 with reasons, and the
        error at each output over the held-out samples.

    Raises:
        InvalidArgumentError: no samples, one array where a list of them is meant, samples that are not finite, or
            nothing to quantize: no float32 layer with constant weights that `layers` chooses; a module in training
            mode; unknown `ranges`.
        TypeError: no such model.

    Warns:
        UserWarning: all samples give only zeros at a layer's input, so its scale has no meaning.
    """
    check(progress, "calibrate")
    ranges = one_of(ranges, "calibrate: 'ranges'", RANGES)
    if layers is not None and not callable(layers):
        raise TypeError(
            f"calibrate: 'layers' is a function of a layer's name, got {type(layers).__name__}; of a list of names it "
            "is names.__contains__"
        )
    if min_snr is not None and (is_bool(min_snr) or not isinstance(min_snr, int | float | np.number)):
        raise TypeError(f"calibrate: 'min_snr' is a number of dB, such as 30, got {show(min_snr)}")
    net, samples = net_of(model, outputs, samples)
    net = folded(net, equalize)
    nodes, left = divided(net.graph, layers)
    if not nodes:
        raise InvalidArgumentError(f"calibrate: {_nothing(left)}")
    data = as_samples(net, samples, "calibrate")
    tests = data if held_out is None else as_samples(net, held_out, "calibrate: 'held_out'")
    with shown(progress) as tell:
        steps, total = count(1), len(data) * passes(ranges) + len(tests)

        def told(some: Iterable[Sample], text: str) -> Iterator[Sample]:
            for sample in some:
                yield sample
                tell(next(steps), total, text)

        limits = observed(net, nodes, partial(told, data, "ranges"), ranges)
        best = quantized(net, limits, ranges)
        errors, noise = _errors(net, limits, ranges, best, told(tests, "errors"))
    least = -inf if min_snr is None else float(min_snr)
    if _worst(errors) < least:
        best, errors = _within(net, limits, ranges, tests, least, noise)
    wide = (
        LeftReport(node.name, node.kind, f"{noise[node]:.1f} dB by itself, where outputs need {least:g}")
        for node in nodes
        if node not in best.layers
    )
    reports = {one.name: one for one in (*left, *wide)}
    return Calibration(
        best.graph,
        best.outputs,
        tuple(replace(layer, signal_to_noise_db=noise[node]) for node, layer in best.layers.items()),
        errors,
        tuple(reports[node.name] for node in net.graph.nodes if node.name in reports),
    )


def _nothing(left: Sequence[LeftReport]) -> str:
    """Returns the message for a graph of which nothing can be quantized."""
    layers = [f"{one.name!r} ({one.kind}): {one.reason}" for one in left if one.reason != NOT_A_LAYER]
    if layers:
        return f"no layer can be quantized: {'; '.join(layers)}"
    kinds = ", ".join(dict.fromkeys(one.kind for one in left)) or "no ops at all"
    return f"nothing to quantize: {NOT_A_LAYER}, the graph has {kinds}"


def _worst(errors: Sequence[OutputReport]) -> float:
    return min((one.signal_to_noise_db for one in errors), default=inf)


def _errors(
    net: Net, limits: Mapping[Node, Limits], ranges: Ranges, trial: Quantized, samples: Iterable[Sample]
) -> tuple[tuple[OutputReport, ...], dict[Node, float]]:
    """Returns the errors of a quantized graph at each output, and the ratio in dB of each layer that alone is."""
    alone, narrow = quantized(net, limits, ranges, beside=True), trial.compile()
    outputs = {f"output {name}": value for name, value in alone.outputs.items()}
    layers = {f"layer {node.name}": node for node in limits}
    exact = {name: alone.values[node.outputs[0]] for name, node in layers.items()}
    twins = {f"twin {node.name}": alone.twins[node] for node in limits}
    both = alone.graph.compile({**outputs, **exact, **twins})

    def measured() -> Iterator[tuple[Sample, Sample]]:
        for sample in samples:
            floats, results = both.run(sample), narrow.run(sample)
            coarse = zip(layers, (floats[name] for name in twins), strict=True)
            yield floats, {**{f"output {name}": array for name, array in results.items()}, **dict(coarse)}

    found = differences(measured(), [*outputs, *layers])
    of_outputs = tuple(replace(one, name=one.name.removeprefix("output ")) for one in found if one.name in outputs)
    return of_outputs, {layers[one.name]: one.signal_to_noise_db for one in found if one.name in layers}


def _within(
    net: Net,
    limits: Mapping[Node, Limits],
    ranges: Ranges,
    samples: Sequence[Sample],
    least: float,
    noise: Mapping[Node, float],
) -> tuple[Quantized, tuple[OutputReport, ...]]:
    """Returns the graph of which the fewest layers, those with the worst ratios, are left in f32, and its errors."""
    order = sorted(limits, key=noise.__getitem__)

    def tried(left: int) -> tuple[Quantized, tuple[OutputReport, ...]]:
        wide = set(order[:left])
        trial = quantized(net, {node: limits[node] for node in limits if node not in wide}, ranges)
        return trial, differences(
            zip(map(net.run, samples), map(trial.compile().run, samples), strict=True), net.output_names
        )

    fails, holds, best = 0, len(order), tried(len(order))
    while holds - fails > 1:
        middle = (fails + holds) // 2
        trial = tried(middle)
        if _worst(trial[1]) < least:
            fails = middle
        else:
            holds, best = middle, trial
    return best
