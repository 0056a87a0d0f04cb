"""A U-Net decoder with skip connections as one graph: up, join, convolve, twice; then a mask.

Prints what the graph became, draws it in unet_decoder.svg, and compares the mask with the same decoder in plain NumPy.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np

import dnnl_graph_ops as dgo

SIZE = 8
DEEP = 64
rng = np.random.default_rng(0)


def weights(*shape: int) -> np.ndarray:
    """Weights whose outputs keep the size of their inputs, roughly."""
    fan_in = shape[-1] if len(shape) == 4 else 1
    return (rng.standard_normal(shape) / np.sqrt(4 * fan_in)).astype(np.float32)


# per level: ConvTranspose XOI (2, 2, OC, IC), Convolution XIO (3, 3, IC, OC)
LEVELS = [
    {"up": weights(2, 2, DEEP // 2, DEEP), "conv": weights(3, 3, DEEP, DEEP // 2)},
    {"up": weights(2, 2, DEEP // 4, DEEP // 2), "conv": weights(3, 3, DEEP // 2, DEEP // 4)},
]
MASK = weights(1, 1, DEEP // 4, 1)


def build() -> dgo.Graph:
    graph = dgo.Graph(name="unet decoder")
    y = graph.input("bottleneck", (1, SIZE, SIZE, DEEP))
    for i, level in enumerate(LEVELS, 1):
        size, channels = SIZE << i, DEEP >> i
        skip = graph.input(f"skip{i}", (1, size, size, channels))
        y = dgo.ops.conv_transpose(y, level["up"], strides=2, name=f"up{i}")
        y = dgo.ops.concat(dgo.ops.relu(y), skip, axis=-1, name=f"join{i}")
        y = dgo.ops.convolution(
            y, level["conv"], strides=1, pads_begin=1, pads_end=1, dilations=1, weights_format="XIO", name=f"conv{i}"
        )
        y = dgo.ops.relu(y)
    y = dgo.ops.convolution(
        y, MASK, strides=1, pads_begin=0, pads_end=0, dilations=1, weights_format="XIO", name="to_mask"
    )
    graph.outputs["mask"] = dgo.ops.sigmoid(y)
    return graph


def numpy_decoder(y: np.ndarray, skips: list[np.ndarray]) -> np.ndarray:
    """The same arithmetic in float64."""
    y = y.astype(np.float64)
    for level, skip in zip(LEVELS, skips, strict=True):
        n, h, w, _ = y.shape
        # kernel and stride are both 2: every input pixel makes a square of its own
        squares = np.einsum("nhwi,kloi->nhkwlo", y, level["up"])
        y = np.maximum(squares.reshape(n, 2 * h, 2 * w, -1), 0)
        y = np.concatenate([y, skip], axis=-1)
        windows = np.lib.stride_tricks.sliding_window_view(
            np.pad(y, [(0, 0), (1, 1), (1, 1), (0, 0)]), (3, 3), axis=(1, 2)
        )
        y = np.maximum(np.einsum("nhwikl,klio->nhwo", windows, level["conv"]), 0)
    return 1 / (1 + np.exp(-np.einsum("nhwi,io->nhwo", y, MASK[0, 0])))


options = argparse.ArgumentParser(description=__doc__)
options.add_argument("--output", type=Path, default=Path("build"), help="folder of the drawing")
folder = options.parse_args().output
folder.mkdir(parents=True, exist_ok=True)

net = build().compile()
net.to_svg(folder / "unet_decoder.svg")
arrays = [rng.standard_normal(value.shape).astype(np.float32) for value in net.inputs]
mask = net(*arrays)
print(net.explain())
error = np.abs(mask - numpy_decoder(arrays[0], arrays[1:])).max()
print(f"mask {mask.shape}, at most {error:.1e} from NumPy in float64")
if error > 1e-5:
    raise SystemExit("the decoder differs from NumPy")
