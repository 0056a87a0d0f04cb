"""A vocoder that gets sentences of another length every time, from one net whose length is not known.

A small HiFi-GAN with random weights turns frames of a spectrogram into sound. Prints what the first call of each
sentence takes and what the second, compared with PyTorch and ONNX Runtime where they are installed, and draws it where
matplotlib is.
"""

from __future__ import annotations

import argparse
import io
import sys
import time
import warnings
from collections.abc import Callable
from math import prod
from pathlib import Path
from typing import Any

import numpy as np

import dnnl_graph_ops as dgo

BANDS, WIDTH, RATE = 80, 128, 22050
STRIDES = (8, 8, 4)
SLOPE, TOLERANCE = 0.1, 1e-4
Net = Callable[[np.ndarray], Any]
Arrays = dict[str, np.ndarray]


def random_weights(rng: np.random.Generator) -> Arrays:
    """By layer, in PyTorch's order; activations keep their size, roughly."""
    shapes = {"first": (WIDTH, BANDS, 7)}
    for level, stride in enumerate(STRIDES):
        given, made = WIDTH >> level, WIDTH >> level + 1
        shapes[f"up{level}"] = (given, made, 2 * stride)
        shapes |= {f"block{level}.{dilation}": (made, made, 3) for dilation in (1, 3, 5)}
    shapes["last"] = (1, WIDTH >> len(STRIDES), 7)
    fan_in = {name: 2 * shape[0] if name.startswith("up") else shape[1] * shape[2] for name, shape in shapes.items()}
    return {name: rng.normal(0, fan_in[name] ** -0.5, shape).astype(np.float32) for name, shape in shapes.items()}


def vocoder(x: Any, layers: Any) -> Any:
    """The same model for whoever has these layers."""
    x = layers.convolution(x, "first", 1)
    for level, stride in enumerate(STRIDES):
        x = layers.enlarged(layers.leaky(x), f"up{level}", stride)
        for dilation in (1, 3, 5):
            x = x + layers.convolution(layers.leaky(x), f"block{level}.{dilation}", dilation)
    return layers.tanh(layers.convolution(layers.leaky(x), "last", 1))


class Own:
    """Layers of this package's graph."""

    def __init__(self, weights: Arrays) -> None:
        self.weights = weights

    def convolution(self, x: dgo.Value, name: str, dilation: int) -> dgo.Value:
        weights = self.weights[name]
        pads = weights.shape[-1] // 2 * dilation
        same = {"pads_begin": pads, "pads_end": pads, "dilations": dilation}
        return dgo.ops.convolution(x, weights, **same, data_format="NCX", weights_format="OIX")

    def enlarged(self, x: dgo.Value, name: str, stride: int) -> dgo.Value:
        pads = {"pads_begin": stride // 2, "pads_end": stride // 2}
        return dgo.ops.conv_transpose(
            x, self.weights[name], strides=stride, **pads, data_format="NCX", weights_format="IOX"
        )

    def leaky(self, x: dgo.Value) -> dgo.Value:
        return dgo.ops.leaky_relu(x, alpha=SLOPE)

    def tanh(self, x: dgo.Value) -> dgo.Value:
        return dgo.ops.tanh(x)


def own(weights: Arrays, length: int | None = None) -> Net:
    """Compiled once; a length of None is known at the call only."""
    graph = dgo.Graph(name="vocoder")
    graph.outputs["sound"] = vocoder(graph.input("frames", (1, BANDS, length)), Own(weights))
    return graph.compile()


def others(weights: Arrays) -> dict[str, Net]:
    """PyTorch, and ONNX Runtime on what PyTorch exports, as far as they are installed."""
    try:
        import torch
        import torch.nn.functional as functional
    except ImportError as error:
        print(f"not compared: {error}")
        return {}

    class Module(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weights = {name: torch.from_numpy(array) for name, array in weights.items()}

        def convolution(self, x: torch.Tensor, name: str, dilation: int) -> torch.Tensor:
            kernel = self.weights[name]
            return functional.conv1d(x, kernel, padding=kernel.shape[-1] // 2 * dilation, dilation=dilation)

        def enlarged(self, x: torch.Tensor, name: str, stride: int) -> torch.Tensor:
            return functional.conv_transpose1d(x, self.weights[name], stride=stride, padding=stride // 2)

        def leaky(self, x: torch.Tensor) -> torch.Tensor:
            return functional.leaky_relu(x, SLOPE)

        def tanh(self, x: torch.Tensor) -> torch.Tensor:
            return torch.tanh(x)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            sound: torch.Tensor = vocoder(x, self)
            return sound

    threads = dgo.get_num_threads()
    torch.set_num_threads(threads)
    module = Module().eval()

    def eager(frames: np.ndarray) -> np.ndarray:
        with torch.inference_mode():
            return module(torch.from_numpy(frames)).numpy()

    found: dict[str, Net] = {"PyTorch": eager}
    try:
        import onnx  # noqa: F401
        import onnxruntime
    except ImportError as error:
        print(f"not compared: {error}")
        return found
    file = io.BytesIO()
    with warnings.catch_warnings():
        # the exporter that needs no further package is announced to go
        warnings.simplefilter("ignore")
        example = (torch.zeros(1, BANDS, 8),)
        open_length = {"frames": {2: "length"}}
        torch.onnx.export(module, example, file, input_names=["frames"], dynamic_axes=open_length, dynamo=False)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    session = onnxruntime.InferenceSession(file.getvalue(), options, providers=["CPUExecutionProvider"])
    return {**found, "ONNX Runtime": lambda frames: session.run(None, {"frames": frames})[0]}


def seconds(net: Net, frames: np.ndarray) -> float:
    begin = time.perf_counter()
    net(frames)
    return time.perf_counter() - begin


def draw(path: Path, lengths: np.ndarray, times: dict[str, np.ndarray]) -> str:
    """Milliseconds of each sentence's calls against its length."""
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        return f"not drawn: {error}"
    figure = Figure(figsize=(8, 5), layout="constrained")
    axes = figure.subplots()
    for (name, taken), colour in zip(times.items(), ("#0072B2", "#D55E00", "#009E73"), strict=False):
        axes.plot(lengths, 1e3 * taken[:, 0], "o", color=colour, label=f"{name}, first call")
        axes.plot(lengths, 1e3 * taken[:, 1], "o", color=colour, markerfacecolor="none", label="again")
    axes.set(xlabel="frames of the sentence", ylabel="milliseconds", yscale="log", title="A length never seen before")
    axes.legend(ncols=len(times))
    figure.savefig(path, dpi=100)
    return f"drawn in {path}"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--output", type=Path, default=Path("build"), help="folder of the PNG file")
    parser.add_argument("--sentences", type=int, default=16)
    chosen = parser.parse_args()
    chosen.output.mkdir(parents=True, exist_ok=True)

    rng = np.random.default_rng(0)
    weights = random_weights(rng)
    net = own(weights)
    nets: dict[str, Net] = {"dgo": net, **others(weights)}
    lengths = 20 + rng.choice(180, chosen.sentences, replace=False)
    sentences = [rng.standard_normal((1, BANDS, length), dtype=np.float32) for length in lengths]
    # one after the other: threads that still wait awake for work of theirs would keep the next one's from the cores
    times = {name: np.array([(seconds(call, x), seconds(call, x)) for x in sentences]) for name, call in nets.items()}

    print(f"{'frames':>6} {'sound':>8}" + "".join(f"{name + ', again':>22}" for name in nets) + "  milliseconds")
    for place, length in enumerate(lengths):
        told = "".join(f"{1e3 * first:12.1f} {1e3 * again:9.1f}" for first, again in (times[n][place] for n in nets))
        print(f"{length:6} {1e3 * length * prod(STRIDES) / RATE:5.0f} ms{told}")
    for name, taken in times.items():
        print(f"{name}: all sentences once in {taken[:, 0].sum():.2f} s, once more in {taken[:, 1].sum():.2f} s")
    print(draw(chosen.output / "vocoder.png", lengths, times))

    worst = max(float(np.abs(call(x) - net(x)).max()) for call in nets.values() for x in sentences)
    alone = float(np.abs(own(weights, int(lengths[-1]))(sentences[-1]) - net(sentences[-1])).max())
    print(f"largest difference: {worst:.1e} to the others, {alone:.1e} to a net of the last length alone")
    return int(max(worst, alone) > TOLERANCE)


if __name__ == "__main__":
    sys.exit(main())
