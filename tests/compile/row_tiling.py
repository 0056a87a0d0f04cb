"""Inverted blocks by bands of rows and not, both forced: `python tests/compile/row_tiling.py FILE`.

The blocks are those of mobilenet_v3_large, efficientnet_b0 and regnet_y_800mf for images of 224 x 224, with random
weights, read from ONNX, beside ONNX Runtime. Own nets read and write channels last. All run in turn on one thread, each
once to fill the caches and once for the clock; FILE gets the medians and minima of the process's seconds as JSON.
`DNNL_GRAPH_OPS_ISA=avx2 ONEDNN_MAX_CPU_ISA=AVX2` limit builtin kernels and oneDNN, but not ONNX Runtime, to AVX2.
"""

from __future__ import annotations

import argparse
import io
import json
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from datetime import date
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple
from unittest import mock

import numpy as np
import onnxruntime
import torch
from torch import nn

import dnnl_graph_ops as dgo
from dnnl_graph_ops.compile import bands, tile_rows
from dnnl_graph_ops.runtime import cpu
from dnnl_graph_ops.runtime.cpuinfo import cpu_model

DIGITS = 7
ONNX_RUNTIME = "ONNX Runtime"


class Block(NamedTuple):
    """(given, size, size) to `inner` channels, through a window in groups of `width` channels, to `made` channels."""

    model: str
    size: int
    given: int
    inner: int
    made: int
    window: int
    stride: int
    activation: str
    squeezed: int = 0  # channels between the products of squeeze-excite; 0: none
    width: int = 1

    @property
    def title(self) -> str:
        return f"{self.given}-{self.inner}-{self.made}, {self.window}x{self.window}/{self.stride}, {self.size}"


# sizes, channels, windows and strides as in the papers; squeezed channels as in torchvision
BLOCKS = (
    Block("mobilenet_v3_large", 112, 16, 64, 24, 3, 2, "relu"),
    Block("mobilenet_v3_large", 56, 24, 72, 24, 3, 1, "relu"),
    Block("mobilenet_v3_large", 56, 24, 72, 40, 5, 2, "relu", 24),
    Block("mobilenet_v3_large", 28, 40, 120, 40, 5, 1, "relu", 32),
    Block("mobilenet_v3_large", 28, 40, 240, 80, 3, 2, "hardswish"),
    Block("mobilenet_v3_large", 14, 80, 200, 80, 3, 1, "hardswish"),
    Block("mobilenet_v3_large", 14, 80, 184, 80, 3, 1, "hardswish"),
    Block("mobilenet_v3_large", 14, 80, 480, 112, 3, 1, "hardswish", 120),
    Block("mobilenet_v3_large", 14, 112, 672, 112, 3, 1, "hardswish", 168),
    Block("mobilenet_v3_large", 14, 112, 672, 160, 5, 2, "hardswish", 168),
    Block("mobilenet_v3_large", 7, 160, 960, 160, 5, 1, "hardswish", 240),
    Block("efficientnet_b0", 112, 16, 96, 24, 3, 2, "silu", 4),
    Block("efficientnet_b0", 56, 24, 144, 24, 3, 1, "silu", 6),
    Block("efficientnet_b0", 56, 24, 144, 40, 5, 2, "silu", 6),
    Block("efficientnet_b0", 28, 40, 240, 40, 5, 1, "silu", 10),
    Block("efficientnet_b0", 28, 40, 240, 80, 3, 2, "silu", 10),
    Block("efficientnet_b0", 14, 80, 480, 80, 3, 1, "silu", 20),
    Block("efficientnet_b0", 14, 80, 480, 112, 5, 1, "silu", 20),
    Block("efficientnet_b0", 14, 112, 672, 112, 5, 1, "silu", 28),
    Block("efficientnet_b0", 14, 112, 672, 192, 5, 2, "silu", 28),
    Block("efficientnet_b0", 7, 192, 1152, 192, 5, 1, "silu", 48),
    Block("efficientnet_b0", 7, 192, 1152, 320, 3, 1, "silu", 48),
    Block("regnet_y_800mf", 112, 32, 64, 64, 3, 2, "relu", 8, 16),
    Block("regnet_y_800mf", 56, 64, 144, 144, 3, 2, "relu", 16, 16),
    Block("regnet_y_800mf", 28, 144, 144, 144, 3, 1, "relu", 36, 16),
    Block("regnet_y_800mf", 28, 144, 320, 320, 3, 2, "relu", 36, 16),
    Block("regnet_y_800mf", 14, 320, 320, 320, 3, 1, "relu", 80, 16),
    Block("regnet_y_800mf", 14, 320, 784, 784, 3, 2, "relu", 80, 16),
    Block("regnet_y_800mf", 7, 784, 784, 784, 3, 1, "relu", 196, 16),
)
# by model: what gates a squeeze, and what follows its first product
SQUEEZES = {
    "mobilenet_v3_large": (nn.ReLU, nn.Hardsigmoid),
    "efficientnet_b0": (nn.SiLU, nn.Sigmoid),
    "regnet_y_800mf": (nn.ReLU, nn.Sigmoid),
}
ACTIVATIONS = {"relu": nn.ReLU, "hardswish": nn.Hardswish, "silu": nn.SiLU}


class Squeeze(nn.Module):
    def __init__(self, block: Block) -> None:
        super().__init__()
        between, gate = SQUEEZES[block.model]
        self.gates = nn.Sequential(
            nn.AdaptiveAvgPool2d(1),
            nn.Conv2d(block.inner, block.squeezed, 1),
            between(),
            nn.Conv2d(block.squeezed, block.inner, 1),
            gate(),
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        gated: torch.Tensor = x * self.gates(x)
        return gated


class Inverted(nn.Module):
    def __init__(self, block: Block) -> None:
        super().__init__()
        activation = ACTIVATIONS[block.activation]
        self.body = nn.Sequential(
            nn.Conv2d(block.given, block.inner, 1),
            activation(),
            nn.Conv2d(
                block.inner, block.inner, block.window, block.stride, block.window // 2,
                groups=block.inner // block.width,
            ),
            activation(),
            *([Squeeze(block)] if block.squeezed else []),
            nn.Conv2d(block.inner, block.made, 1),
        )  # fmt: skip
        shortcut = block.model.startswith("regnet") and (block.stride > 1 or block.given != block.made)
        self.shortcut = nn.Conv2d(block.given, block.made, 1, block.stride) if shortcut else nn.Identity()
        self.adds = shortcut or (block.stride == 1 and block.given == block.made)
        self.last = nn.ReLU() if block.model.startswith("regnet") else nn.Identity()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        made = self.body(x)
        result: torch.Tensor = self.last(made + self.shortcut(x) if self.adds else made)
        return result


def in_onnx(block: Block) -> bytes:
    torch.manual_seed(7)
    file = io.BytesIO()
    with warnings.catch_warnings(), torch.inference_mode():
        warnings.simplefilter("ignore")
        example = torch.zeros(1, block.given, block.size, block.size)
        torch.onnx.export(Inverted(block).eval(), (example,), file, dynamo=False, opset_version=17, input_names=["x"])
    return file.getvalue()


Saving = Callable[[Sequence[bands.Layer], Any], float]


def only(layers: int, depthwise_first: bool = False) -> Saving:
    """Bands for so many layers of a block, from its first one or its windows on, and for no others."""

    def saving(chain: Sequence[bands.Layer], env: Any) -> float:
        windows = [layer.problem.geometry.groups > 1 for layer in chain]
        return float(len(chain) == layers and windows.index(True) == 1 - depthwise_first if any(windows) else False)

    return saving


FORCED: Mapping[str, Saving] = {
    "untiled": lambda chain, env: 0.0,
    "first two": only(2),
    "last two": only(2, depthwise_first=True),
    "all three": only(3),
}


class Run(NamedTuple):
    call: Callable[[], object]
    tiled: tuple[str, ...]  # steps that compute several layers


def own_run(model: bytes, x: np.ndarray, saving: Saving = tile_rows.saving) -> Run:
    with mock.patch.object(tile_rows, "saving", saving):
        net = dgo.from_onnx(model).compile()
        last = _channels_last(x)
        out = _channels_last(np.empty_like(net(last)))
        net(last, out=out)
        tiled = tuple(step.step for step in net.explain().steps if " | " in step.step)
    return Run(lambda: net(last, out=out), tiled)


def _channels_last(x: np.ndarray) -> np.ndarray:
    return np.ascontiguousarray(x.transpose(0, 2, 3, 1)).transpose(0, 3, 1, 2)


def onnx_runtime(model: bytes, x: np.ndarray) -> Run:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    return Run(lambda: session.run(None, {"x": x}), ())


def measured(runs: Mapping[str, Run], rounds: int) -> dict[str, tuple[float, float]]:
    """Medians and minima of the process's seconds."""
    times: dict[str, list[float]] = {name: [] for name in runs}
    for _ in range(rounds):
        for name, run in runs.items():
            run.call()
            start = time.process_time()
            run.call()
            times[name].append(time.process_time() - start)
    return {name: (round(median(each), DIGITS), round(min(each), DIGITS)) for name, each in times.items()}


def row(block: Block, rounds: int) -> dict[str, Any]:
    model = in_onnx(block)
    x = np.random.default_rng(7).standard_normal((1, block.given, block.size, block.size), np.float32)
    runs = {name: own_run(model, x, saving) for name, saving in FORCED.items()}
    # what a block has no such layers for runs untiled
    runs = {name: run for name, run in runs.items() if run.tiled or name == "untiled"}
    tiled = own_run(model, x).tiled
    chosen = next(name for name, run in runs.items() if run.tiled == tiled)
    seconds = measured({**runs, ONNX_RUNTIME: onnx_runtime(model, x)}, rounds)
    return {"model": block.model, "block": block.title, "chosen": chosen, "seconds": seconds}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("file", type=Path)
    parser.add_argument("--rounds", type=int, default=100)
    options = parser.parse_args()
    dgo.set_num_threads(1)
    rows = []
    for block in BLOCKS:
        rows.append(row(block, options.rounds))
        print(json.dumps(rows[-1]), flush=True)
    engine = dgo.engine("cpu")
    content = {
        "cpu": cpu_model(),
        "isa": cpu.isa(engine),
        "onednn": engine.runtime.version,
        "onnxruntime": onnxruntime.__version__,
        "date": date.today().isoformat(),
        "rounds": options.rounds,
        "seconds": "median and least of a run of the process on one thread",
        "rows": rows,
    }
    options.file.write_text(json.dumps(content, indent=1) + "\n")


if __name__ == "__main__":
    main()
