"""Quantize a decoder of two ConvTranspose layers to int8 and print what it costs.

The float decoder enlarges handwritten digits by bilinear kernels; the scales come from 64 of them, the error is
measured on 64 others. quantized_digits.png shows ten of these: enlarged in float, in int8, and twenty times the error.
"""

import argparse
from pathlib import Path

import numpy as np
from PIL import Image
from sklearn.datasets import load_digits

import dnnl_graph_ops as dgo


def bilinear(channels: int) -> np.ndarray:
    """Weights (channels, 1, 4, 4) that enlarge each channel by 2."""
    ramp = np.array([0.25, 0.75, 0.75, 0.25], np.float32)
    return np.broadcast_to(np.outer(ramp, ramp), (channels, 1, 4, 4)).copy()


def draw(path: Path, exact: np.ndarray, coarse: np.ndarray, count: int = 10, pixel: int = 3) -> None:
    """Three rows of digits, each pixel a square."""
    rows = np.stack([exact, coarse, 20 * np.abs(coarse - exact)])[:, :count, 0]
    lined = np.pad(rows, ((0, 0), (0, 0), (0, 1), (0, 1)), constant_values=1)
    picture = lined.transpose(0, 2, 1, 3).reshape(3 * lined.shape[2], count * lined.shape[3])
    grey = (picture.clip(0, 1) * 255).round().astype(np.uint8)
    Image.fromarray(np.kron(grey, np.ones((pixel, pixel), np.uint8))).save(path)


options = argparse.ArgumentParser(description=__doc__)
options.add_argument("--output", type=Path, default=Path("build"), help="folder of the PNG file")
folder = options.parse_args().output
folder.mkdir(parents=True, exist_ok=True)

images = load_digits().images.astype(np.float32)[:, None] / 16  # N, 1, 8, 8
seen, unseen = images[:64], images[64:128]

graph = dgo.Graph(name="decoder")
x = graph.input("x", seen.shape)
attrs = {"strides": 2, "pads_begin": 1, "pads_end": 1, "data_format": "NCX", "weights_format": "IOX"}
y = dgo.ops.conv_transpose(x, bilinear(1), name="up1", **attrs)
y = dgo.ops.conv_transpose(dgo.ops.relu(y), bilinear(1), name="up2", **attrs)
net = graph.compile({"y": y})

calibration = dgo.quantize.calibrate(net, [seen])
print(calibration)

int8 = calibration.compile()
exact, coarse = net(unseen), int8(unseen)
error = np.abs(coarse - exact).max()
noise = np.square(coarse - exact).mean() / np.square(exact).mean()
print(f"on unseen digits: max error {error:.4f} of {exact.max():.2f}, {-10 * np.log10(noise):.1f} dB")
draw(folder / "quantized_digits.png", exact, coarse)
for partition in int8.partitions:
    print(" + ".join(partition.kinds))
if error > 0.05:
    raise SystemExit("the quantized decoder is further from the float one than expected")
