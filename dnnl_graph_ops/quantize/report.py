"""Defines the result of calibration: a quantized graph, its scales, and its error."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..graph import Graph, Value
from ..net import Net
from ..reports.precision import OutputReport
from ..reports.tables import html
from ..schema.arguments import no_member

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from ..graph.choices import CompileOptions

# the reason that most ops have
NOT_A_LAYER = "only Convolution, ConvTranspose and MatMul are quantized"


@dataclass(frozen=True)
class LayerReport:
    """The quantization of one layer.

    weight_scales: one for each output channel (ConvTranspose: for each output channel of a group). signal_to_noise_db:
    of the layer's result if only this layer is quantized.
    """

    name: str
    src_dtype: str
    src_scale: float
    src_zero_point: int
    weight_scales: tuple[float, ...]
    kind: str
    signal_to_noise_db: float


@dataclass(frozen=True)
class LeftReport:
    """An op that was not quantized, and the reason."""

    name: str
    kind: str
    reason: str


@dataclass(frozen=True, repr=False)
class Calibration:
    """A quantized graph and its report; str() is a table, the largest errors first.

    layers, left: in the order of the graph. errors: at each output, over the held-out samples.
    """

    graph: Graph
    outputs: Mapping[str, Value]
    layers: tuple[LayerReport, ...]
    errors: tuple[OutputReport, ...]
    left: tuple[LeftReport, ...]

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            raise no_member(self, name)

        def __call__(self, *args: Any, **arrays: Any) -> Any:
            raise TypeError("a calibration is no function; compile it first: net = calibration.compile(); net(x)")

    def compile(self, **options: Unpack[CompileOptions]) -> Net:
        """Compile the quantized graph; takes the options of `Graph.compile` and raises as it does."""
        return self.graph.compile(dict(self.outputs), **options)

    def to_onnx(self, path: str | os.PathLike[str] | None = None) -> Any:
        """Returns the quantized graph as an `onnx.ModelProto` in QDQ format, opset 20; `path`: a file to write it to.

        Raises:
            UnsupportedError: lists the ops that are not written.
            RuntimeUnavailableError: the package `onnx` is missing.
        """
        from ..frontends.onnx.export import to_onnx

        model = to_onnx(self.graph, self.outputs)
        if path is not None:
            Path(path).write_bytes(model.SerializeToString())
        return model

    def _repr_html_(self) -> str:
        """Returns the errors of outputs and the layers as tables for a notebook, the worst first."""
        errors = [("output", "largest error", "of the largest value", "ratio")]
        for one in sorted(self.errors, key=lambda error: error.signal_to_noise_db):
            relative, ratio = f"{one.relative_error:.2g}", f"{one.signal_to_noise_db:.1f} dB"
            errors.append((one.name, f"{one.max_abs_error:.4g}", relative, ratio))
        layers = [("layer", "kind", "ratio", "src", "scale", "zero point")]
        for layer in sorted(self.layers, key=lambda layer: layer.signal_to_noise_db):
            src = layer.src_dtype, f"{layer.src_scale:.4g}", str(layer.src_zero_point)
            layers.append((layer.name, layer.kind, f"{layer.signal_to_noise_db:.1f} dB", *src))
        left = [("left in f32", "kind", "why"), *((one.name, one.kind, one.reason) for one in self.left)]
        return html(errors) + html(layers) + (html(left) if self.left else "")

    def __repr__(self) -> str:
        return str(self)

    def __str__(self) -> str:
        lines = [
            f"{layer.name} ({layer.kind}): src {layer.src_dtype} scale {layer.src_scale:.4g} zero point "
            f"{layer.src_zero_point}, {len(layer.weight_scales)} weight scales up to {max(layer.weight_scales):.4g}, "
            f"{layer.signal_to_noise_db:.1f} dB"
            for layer in sorted(self.layers, key=lambda layer: layer.signal_to_noise_db)
        ]
        layers = [left for left in self.left if left.reason != NOT_A_LAYER]
        lines += [f"{left.name} ({left.kind}): left in f32, {left.reason}" for left in layers]
        others = Counter(left.kind for left in self.left if left.reason == NOT_A_LAYER)
        if others:
            counts = ", ".join(f"{count} {kind}" for kind, count in others.items())
            lines.append(f"{counts}: left in f32, {NOT_A_LAYER}")
        return "\n".join([*map(str, sorted(self.errors, key=lambda error: error.signal_to_noise_db)), *lines])
