"""A decoder block as one graph: ConvTranspose, bias, add and ReLU become one partition, one pass over memory.

tune="off" hands the library the ops as they are written, so what it fuses is its own doing. Drawn in fused_block.svg.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import numpy as np

import dnnl_graph_ops as dgo

BATCH, SIZE, IN_CHANNELS, OUT_CHANNELS = 2, 16, 32, 24
KERNEL, STRIDE, PAD = 4, 2, 1
FUSED = ("ConvTranspose", "BiasAdd", "Add", "ReLU")
TOLERANCE = 1e-4


def build() -> tuple[dgo.Graph, dgo.Value, dict[str, np.ndarray]]:
    """The graph, its output, and the constants by name."""
    rng = np.random.default_rng(0)
    constants = {
        "weights": rng.standard_normal((KERNEL, KERNEL, OUT_CHANNELS, IN_CHANNELS), dtype=np.float32) / 16,
        "bias": rng.standard_normal(OUT_CHANNELS, dtype=np.float32),
    }
    graph = dgo.Graph(name="decoder block")
    x = graph.input("x", (BATCH, SIZE, SIZE, IN_CHANNELS))
    skip = graph.input("skip", (BATCH, STRIDE * SIZE, STRIDE * SIZE, OUT_CHANNELS))
    weights, bias = (graph.constant(array, name=name) for name, array in constants.items())
    up = dgo.ops.conv_transpose(x, weights, strides=STRIDE, pads_begin=PAD, pads_end=PAD, name="up")
    y = dgo.ops.relu(dgo.ops.bias_add(up, bias) + skip, name="y")
    return graph, y, constants


def in_numpy(x: np.ndarray, skip: np.ndarray, weights: np.ndarray, bias: np.ndarray) -> np.ndarray:
    """The same block tap by tap in float64."""
    full = np.zeros((BATCH, STRIDE * (SIZE - 1) + KERNEL, STRIDE * (SIZE - 1) + KERNEL, OUT_CHANNELS))
    reach = STRIDE * SIZE
    for row in range(KERNEL):
        for column in range(KERNEL):
            full[:, row : row + reach : STRIDE, column : column + reach : STRIDE] += x @ weights[row, column].T.astype(
                float
            )
    return np.maximum(full[:, PAD:-PAD, PAD:-PAD] + bias + skip, 0)


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--output", type=Path, default=Path("build"), help="folder of the drawing")
    chosen = options.parse_args()
    chosen.output.mkdir(parents=True, exist_ok=True)

    graph, y, constants = build()
    net = graph.compile(y, tune="off")
    for partition in net.partitions:
        print(f"partition: {' + '.join(partition.kinds)}, from {', '.join(partition.inputs)}")

    net.to_svg(chosen.output / "fused_block.svg")

    rng = np.random.default_rng(1)
    x, skip = (rng.standard_normal(value.shape, dtype=np.float32) for value in graph.inputs)
    worst = float(np.abs(net(x, skip) - in_numpy(x, skip, **constants)).max())
    one = [partition.kinds for partition in net.partitions] == [FUSED]
    print(f"one partition: {'yes' if one else 'NO'}; largest difference to NumPy {worst:.1e}")
    return 0 if one and worst <= TOLERANCE else 1


if __name__ == "__main__":
    sys.exit(main())
