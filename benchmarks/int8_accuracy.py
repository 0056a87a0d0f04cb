"""Signal-to-noise ratio of int8 models, in dB, as `calibrate` and as ONNX Runtime's `quantize_static` make them.

Both get the same ONNX file of the zoo and the same samples; ratios are of the worst output over held-out samples
against the float model. "uneven" is no model of the zoo: depthwise layers whose batch norms have scales far apart, as
training leaves them. `python benchmarks/int8_accuracy.py [MODEL...]`
"""

from __future__ import annotations

import argparse
import logging
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import torch
from onnxruntime import quantization
from static_quantization import Sample, prepared, quantized

from dnnl_graph_ops.bench import zoo
from dnnl_graph_ops.bench.zoo import export
from dnnl_graph_ops.net.samples import differences
from dnnl_graph_ops.quantize import calibrate
from dnnl_graph_ops.quantize.ranges import RANGES

UNEVEN, SHAPE = "uneven", (1, 3, 64, 64)
MODELS = ("resnet18", "mobilenet", UNEVEN, "unet", "dcgan")
# of ONNX Runtime
METHODS = ("MinMax", "Percentile", "Entropy")


def drawn(shapes: zoo.Shapes, names: list[str], count: int, seed: int) -> list[Sample]:
    """Images are smooth: noise at an eighth of the size, enlarged, with some of full size; the rest is normal."""
    rng = np.random.default_rng(seed)

    def one(shape: tuple[int, ...]) -> np.ndarray:
        noise = rng.standard_normal(shape)
        if len(shape) == 4 and shape[-1] >= 64:
            coarse = rng.standard_normal((*shape[:2], *(-(-n // 8) for n in shape[2:])))
            noise = 0.2 * noise + np.repeat(np.repeat(coarse, 8, 2), 8, 3)[..., : shape[2], : shape[3]]
        return noise.astype(np.float32)

    return [dict(zip(names, map(one, shapes), strict=True)) for _ in range(count)]


def ratio(wanted: list[Sample], found: list[Sample]) -> float:
    """The worst output's."""
    return min(one.signal_to_noise_db for one in differences(zip(wanted, found, strict=True), list(wanted[0])))


def by_runtime(path: Path, samples: list[Sample]) -> list[Sample]:
    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    names = [one.name for one in session.get_outputs()]
    return [dict(zip(names, session.run(None, sample), strict=True)) for sample in samples]


def uneven(path: Path) -> None:
    """Writes 13 layers (convolution, batch norm, ReLU) of which 6 are depthwise; each evens out what it reads."""
    torch.manual_seed(0)
    layers: list[torch.nn.Module] = []
    read, scales = 3, torch.ones(3)
    for number, made in enumerate((32, 32, 64, 64, 128, 128, 128, 128, 256, 256, 256, 256, 256)):
        depthwise = number % 2 == 1
        layer = torch.nn.Conv2d(
            read, made, 3 if depthwise or not number else 1, 2 if number in (0, 3, 7) else 1,
            1 if depthwise or not number else 0, groups=read if depthwise else 1, bias=False,
        )  # fmt: skip
        norm = torch.nn.BatchNorm2d(made, momentum=None)
        with torch.no_grad():
            layer.weight /= scales.reshape((-1, 1, 1, 1) if depthwise else (1, -1, 1, 1))
            scales = torch.exp(0.8 * torch.randn(made))
            norm.weight.copy_(scales)
            norm.bias.copy_(0.5 * scales * torch.randn(made))
        layers += [layer, norm, torch.nn.ReLU()]
        read = made
    net = torch.nn.Sequential(*layers, torch.nn.AdaptiveAvgPool2d(1), torch.nn.Flatten(), torch.nn.Linear(read, 100))
    net.train()(torch.randn(16, *SHAPE[1:]))
    torch.onnx.export(net.eval(), (torch.zeros(SHAPE),), str(path), dynamo=False)


def measure(name: str, count: int) -> dict[str, float]:
    with tempfile.TemporaryDirectory() as folder:
        if name != UNEVEN:
            return measured(export.path(name), zoo.shapes(name), count)
        path = Path(folder, "uneven.onnx")
        uneven(path)
        return measured(path, (SHAPE,), count)


def measured(path: Path, shapes: zoo.Shapes, count: int) -> dict[str, float]:
    names = [one.name for one in onnxruntime.InferenceSession(str(path)).get_inputs()]
    samples, tests = (drawn(shapes, names, count, seed) for seed in (1, 2))
    wanted = by_runtime(path, tests)
    ratios = {}
    choices: dict[str, dict[str, Any]] = {ranges: {"ranges": ranges} for ranges in RANGES}
    for title, options in (*choices.items(), ("equalize", {"equalize": True})):
        net = calibrate(path, samples, held_out=tests[:1], **options).compile()
        ratios[title] = ratio(wanted, [net.run(sample) for sample in tests])
    with tempfile.TemporaryDirectory() as folder:
        source = prepared(path, folder)
        for method, by_channel in (*((method, True) for method in METHODS), (METHODS[0], False)):
            how = quantization.CalibrationMethod[method]
            narrow = quantized(source, samples, per_channel=by_channel, calibrate_method=how)
            title = f"ONNX Runtime {method}{'' if by_channel else ', one scale of weights'}"
            ratios[title] = ratio(wanted, by_runtime(narrow, tests))
    return ratios


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("models", nargs="*", default=MODELS)
    parser.add_argument("--samples", type=int, default=8, help="for ranges, and as many for errors")
    options = parser.parse_args()
    logging.disable(logging.WARNING)
    for number, name in enumerate(options.models):
        ratios = measure(name, options.samples)
        if not number:
            print("| model | " + " | ".join(ratios) + " |\n|---|" + "---:|" * len(ratios))
        print(f"| {name} | " + " | ".join(f"{value:.1f}" for value in ratios.values()) + " |", flush=True)


main()
