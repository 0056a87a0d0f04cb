"""Signal-to-noise ratio of int8 models, in dB, as `calibrate` and as ONNX Runtime's `quantize_static` make them.

Both get the same ONNX file of the zoo and the same samples; ratios are of the worst output over held-out samples
against the float model. `python benchmarks/int8_accuracy.py [MODEL...]`
"""

from __future__ import annotations

import argparse
import contextlib
import io
import logging
import tempfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import onnxruntime
from onnxruntime import quantization
from onnxruntime.quantization.shape_inference import quant_pre_process

from dnnl_graph_ops.bench import zoo
from dnnl_graph_ops.bench.zoo import export
from dnnl_graph_ops.compile.samples import differences
from dnnl_graph_ops.quantize import calibrate
from dnnl_graph_ops.quantize.ranges import RANGES

MODELS = ("resnet18", "mobilenet", "unet", "dcgan")
# of ONNX Runtime
METHODS = ("MinMax", "Percentile", "Entropy")
Sample = dict[str, np.ndarray]


class Samples(quantization.CalibrationDataReader):  # type: ignore[misc]
    def __init__(self, samples: list[Sample]) -> None:
        self.rest: Iterator[Sample] = iter(samples)

    def get_next(self) -> Sample | None:
        return next(self.rest, None)


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


def measure(name: str, count: int) -> dict[str, float]:
    path = export.path(name)
    names = [one.name for one in onnxruntime.InferenceSession(str(path)).get_inputs()]
    samples, tests = (drawn(zoo.shapes(name), names, count, seed) for seed in (1, 2))
    wanted = by_runtime(path, tests)
    ratios = {}
    for ranges in RANGES:
        net = calibrate(path, samples, ranges=ranges, held_out=tests[:1]).compile()
        ratios[ranges] = ratio(wanted, [net.run(sample) for sample in tests])
    with tempfile.TemporaryDirectory() as folder:
        prepared, narrow = Path(folder, "prepared.onnx"), Path(folder, "narrow.onnx")
        quant_pre_process(str(path), str(prepared))
        for method in METHODS:
            with contextlib.redirect_stdout(io.StringIO()):
                quantization.quantize_static(
                    str(prepared), str(narrow), Samples(samples), per_channel=True,
                    calibrate_method=quantization.CalibrationMethod[method],
                )  # fmt: skip
            ratios[f"ONNX Runtime {method}"] = ratio(wanted, by_runtime(narrow, tests))
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
