"""A graph file in benchdnn's JSON format: load it, see what it becomes, draw it.

Without a file this writes one of its own first: a decoder step with a skip connection.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import numpy as np

import dnnl_graph_ops as dgo

SIZE, IN_CHANNELS, OUT_CHANNELS = 16, 32, 24


def write_graph(path: Path) -> None:
    """ConvTranspose, ReLU, a skip connection, then a 1x1 ConvTranspose and a sigmoid."""
    graph = dgo.Graph(name="decoder")
    x = graph.input("x", (1, SIZE, SIZE, IN_CHANNELS))
    skip = graph.input("skip", (1, 2 * SIZE, 2 * SIZE, OUT_CHANNELS))
    weights = graph.input("weights", (4, 4, OUT_CHANNELS, IN_CHANNELS))
    last = graph.input("last", (1, 1, 1, 2 * OUT_CHANNELS))
    up = dgo.ops.conv_transpose(x, weights, strides=2, pads_begin=1, pads_end=1, name="up")
    joined = dgo.ops.concat(dgo.ops.relu(up), skip, axis=-1, name="join")
    dgo.ops.sigmoid(dgo.ops.conv_transpose(joined, last, name="to_mask"))
    path.write_text(graph.to_json(), encoding="utf-8")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("file", nargs="?", type=Path, help="a graph of f32 tensors; default: one is written")
    parser.add_argument("--output", type=Path, default=Path("build"), help="folder for the files")
    options = parser.parse_args()
    options.output.mkdir(parents=True, exist_ok=True)
    file = options.file
    if file is None:
        file = options.output / "decoder.json"
        write_graph(file)

    graph = dgo.Graph.from_json(file)
    net = graph.compile()
    print(net.explain())

    rng = np.random.default_rng(0)
    arrays = [rng.standard_normal(value.shape, dtype=np.float32) for value in graph.inputs]
    print("\nmedian time of each step")
    for step in net.profile(*arrays):
        print(f"  {step.step}: {step.seconds * 1e6:.0f} us")

    picture = options.output / f"{file.stem}.svg"
    net.to_svg(picture)
    print(f"\ndrawn in {picture}, one colour for each partition")

    answer = dgo.supported("conv_transpose", dtype="bf16")
    print(answer)
    return 0


if __name__ == "__main__":
    sys.exit(main())
