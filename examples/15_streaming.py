"""Sound that begins before it ends: three nets on inputs that come piece by piece, with the results of whole calls.

A vocoder (HiFi-GAN's layers), a causal decoder (EnCodec's) and, where `onnx` is installed, a causal enhancer with a
GRU, all with random weights. Prints for some chunk sizes how far the outputs lag behind, what the first sound takes,
the real-time factor, and the bytes that a stream keeps.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import dnnl_graph_ops as dgo

SLOPE, TOLERANCE = 0.1, 1e-4
OIX, IOX = ({"data_format": "NCX", "weights_format": order} for order in ("OIX", "IOX"))


class Model(NamedTuple):
    """A net on (1, channels, length), and the samples of its input in a second."""

    name: str
    net: Any
    channels: int
    rate: float


class Layers:
    """Layers of a graph with random weights."""

    def __init__(self, rng: np.random.Generator) -> None:
        self.rng = rng

    def weights(self, *shape: int, terms: int) -> np.ndarray:
        return self.rng.normal(0, terms**-0.5, shape).astype(np.float32)

    def convolution(self, x: dgo.Value, made: int, kernel: int, dilation: int = 1, causal: bool = False) -> dgo.Value:
        given, reach = x.shape[1] or 1, (kernel - 1) * dilation
        before = reach if causal else reach // 2
        weights = self.weights(made, given, kernel, terms=given * kernel)
        pads = {"pads_begin": before, "pads_end": reach - before}
        return dgo.ops.convolution(x, weights, **pads, dilations=dilation, **OIX)

    def enlarged(self, x: dgo.Value, stride: int, causal: bool = False) -> dgo.Value:
        given = x.shape[1] or 1
        weights = self.weights(given, given // 2, 2 * stride, terms=2 * given)
        pads = {"pads_begin": 0, "pads_end": stride} if causal else {"pads_begin": stride // 2, "pads_end": stride // 2}
        return dgo.ops.conv_transpose(x, weights, strides=stride, **pads, **IOX)


def vocoder(rng: np.random.Generator) -> Model:
    graph, layers = dgo.Graph(name="vocoder"), Layers(rng)
    x = layers.convolution(graph.input("frames", (1, 80, None)), 128, 7)
    for stride in (8, 8, 4):
        x = layers.enlarged(dgo.ops.leaky_relu(x, alpha=SLOPE), stride)
        for dilation in (1, 3, 5):
            x = x + layers.convolution(dgo.ops.leaky_relu(x, alpha=SLOPE), x.shape[1] or 1, 3, dilation)
    sound = dgo.ops.tanh(layers.convolution(dgo.ops.leaky_relu(x, alpha=SLOPE), 1, 7))
    return Model("vocoder", graph.compile(sound), 80, 22050 / 256)


def decoder(rng: np.random.Generator) -> Model:
    graph, layers = dgo.Graph(name="decoder"), Layers(rng)
    x = layers.convolution(graph.input("codes", (1, 128, None)), 256, 7, causal=True)
    for stride in (8, 5, 4, 2):
        x = layers.enlarged(dgo.ops.elu(x, alpha=1.0), stride, causal=True)
        inner = layers.convolution(dgo.ops.elu(x, alpha=1.0), (x.shape[1] or 2) // 2, 3, causal=True)
        x = x + layers.convolution(dgo.ops.elu(inner, alpha=1.0), x.shape[1] or 1, 1)
    sound = layers.convolution(dgo.ops.elu(x, alpha=1.0), 1, 7, causal=True)
    return Model("decoder", graph.compile(sound), 128, 24000 / 320)


def enhancer(rng: np.random.Generator, width: int = 64) -> Model:
    """Frames of 16 samples, a GRU over them, a mask, and overlapping frames added up again; as an ONNX file."""
    from onnx import TensorProto, helper, numpy_helper

    weights = {
        "frames": rng.normal(0, 0.25, (width, 1, 16)),
        "inputs": rng.normal(0, 0.1, (1, 3 * width, width)),
        "state": rng.normal(0, 0.1, (1, 3 * width, width)),
        "back": rng.normal(0, 0.1, (width, 1, 16)),
    }
    arrays = [numpy_helper.from_array(array.astype(np.float32), name) for name, array in weights.items()]
    arrays += [
        numpy_helper.from_array(np.array([1]), "one"),
        numpy_helper.from_array(np.array([0, 0, 8, 0, 0, 0]), "pads"),
    ]
    node = helper.make_node
    nodes = [
        node("Pad", ["sound", "pads"], ["padded"]),
        node("Conv", ["padded", "frames"], ["split"], strides=[8]),
        node("Relu", ["split"], ["bands"]),
        node("Transpose", ["bands"], ["steps"], perm=[2, 0, 1]),
        node("GRU", ["steps", "inputs", "state"], ["states"], hidden_size=width),
        node("Squeeze", ["states", "one"], ["hidden"]),
        node("Transpose", ["hidden"], ["turned"], perm=[1, 2, 0]),
        node("Sigmoid", ["turned"], ["mask"]),
        node("Mul", ["bands", "mask"], ["masked"]),
        node("ConvTranspose", ["masked", "back"], ["clean"], strides=[8], pads=[0, 8]),
    ]
    info = helper.make_tensor_value_info
    inputs = [info("sound", TensorProto.FLOAT, [1, 1, "length"])]
    outputs = [info("clean", TensorProto.FLOAT, [1, 1, None])]
    model = helper.make_model(
        helper.make_graph(nodes, "enhancer", inputs, outputs, arrays), opset_imports=[helper.make_opsetid("", 17)]
    )
    return Model("enhancer", dgo.from_onnx(model).compile(), 1, 16000)


def pieces(x: np.ndarray, size: int) -> Iterator[np.ndarray]:
    """What a microphone, or a model of speech, would give bit by bit."""
    for at in range(0, x.shape[-1], size):
        yield x[..., at : at + size]


def report(model: Model, x: np.ndarray, milliseconds: int) -> float:
    """Streams `x`, prints a line, and returns the largest difference to a whole call."""
    stream = model.net.stream(chunk=max(1, round(milliseconds * model.rate / 1000)))
    state = Path(tempfile.gettempdir()) / "stream.state"
    # the first end of a length compiles the last step
    stream.push(x)
    stream.save(state)
    stream.flush()
    results, first, begin = [], 0.0, time.perf_counter()
    for piece in pieces(x, stream.chunk):
        results.append(stream.push(piece))
        if not first and results[-1].size:
            first = time.perf_counter() - begin
    results.append(stream.flush())
    factor = (time.perf_counter() - begin) / (x.shape[-1] / model.rate)
    print(
        f"{model.name:10} {milliseconds:6} ms {stream.delay(model.rate):8.1f} ms {1e3 * first:10.2f} ms {factor:11.4f} "
        f"{state.stat().st_size / 1024:9.1f} KB"
    )
    state.unlink()
    return float(np.abs(np.concatenate(results, -1) - model.net(x)).max())


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=2)
    parser.add_argument("--chunks", type=int, nargs="+", default=[50, 200], help="milliseconds")
    chosen = parser.parse_args()
    rng = np.random.default_rng(0)
    models = [vocoder(rng), decoder(rng)]
    try:
        models.append(enhancer(rng))
    except ImportError as error:
        print(f"no enhancer: {error}")

    print(f"{'net':10} {'chunk':>9} {'lags behind':>11} {'first sound':>13} {'real time':>11} {'state':>12}")
    worst = 0.0
    for model in models:
        x = rng.standard_normal((1, model.channels, round(chosen.seconds * model.rate)), dtype=np.float32)
        worst = max(worst, *(report(model, x, milliseconds) for milliseconds in chosen.chunks))
    print(f"largest difference to whole calls: {worst:.1e}")
    return int(worst > TOLERANCE)


if __name__ == "__main__":
    sys.exit(main())
