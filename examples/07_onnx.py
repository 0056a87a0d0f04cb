"""A DCGAN generator exported by PyTorch as ONNX, run here, and compared with ONNX Runtime.

Needs torch, onnx and onnxruntime; says so and stops where one is missing. The graph is drawn in generator.svg.
"""

from __future__ import annotations

import argparse
import io
import sys
import warnings
from itertools import pairwise
from pathlib import Path

import numpy as np

import dnnl_graph_ops as dgo

BATCH, NOISE, CHANNELS = 4, 64, 32
TOLERANCE = 1e-5


def export() -> tuple[bytes, np.ndarray]:
    """The model, and noise to start from. Weights are random: no training is needed to compare."""
    import torch
    from torch import nn

    torch.manual_seed(0)
    layers: list[nn.Module] = []
    widths = (NOISE, 4 * CHANNELS, 2 * CHANNELS, CHANNELS)
    for i, (inside, outside) in enumerate(pairwise(widths)):
        stride, pad = (1, 0) if i == 0 else (2, 1)
        layers += [nn.ConvTranspose2d(inside, outside, 4, stride, pad, bias=False)]
        layers += [nn.BatchNorm2d(outside), nn.ReLU()]
    generator = nn.Sequential(*layers, nn.ConvTranspose2d(CHANNELS, 3, 4, 2, 1, bias=False), nn.Tanh())
    noise = torch.randn(BATCH, NOISE, 1, 1)
    file = io.BytesIO()
    with warnings.catch_warnings():
        # the exporter that needs no further package is announced to go
        warnings.simplefilter("ignore")
        torch.onnx.export(
            generator.eval(), (noise,), file, input_names=["noise"], output_names=["picture"], dynamo=False
        )
    return file.getvalue(), noise.numpy()


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--output", type=Path, default=Path("build"), help="folder of the drawing")
    chosen = options.parse_args()
    try:
        import onnx  # noqa: F401
        import onnxruntime
        import torch  # noqa: F401
    except ImportError as error:
        print(f"skipped: {error}; pip install torch onnx onnxruntime")
        return 0

    model, noise = export()
    graph = dgo.from_onnx(model)
    net = graph.compile()
    chosen.output.mkdir(parents=True, exist_ok=True)
    net.to_svg(chosen.output / "generator.svg")
    picture = net(noise)
    print(f"{len(model):,} bytes of ONNX: {len(graph.nodes)} ops, {noise.shape} to {picture.shape}")
    for part in net.explain().partitions:
        print(f"  {' + '.join(part.kinds)}: {part.formulation}")

    session = onnxruntime.InferenceSession(model, providers=["CPUExecutionProvider"])
    (expected,) = session.run(None, {"noise": noise})
    worst = float(np.abs(picture - expected).max())
    print(f"largest difference to ONNX Runtime: {worst:.1e}")
    return 0 if worst <= TOLERANCE else 1


if __name__ == "__main__":
    sys.exit(main())
