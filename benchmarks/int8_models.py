"""Times quantized models compared with ONNX Runtime and OpenVINO, one thread, all in turn; prints a Markdown table.

A model is a name of the zoo, or an ONNX file of floats, which ONNX Runtime's `quantize_static` quantizes (u8 data, s8
weights with a scale for each channel), or a quantized ONNX file. `python benchmarks/int8_models.py [MODEL...]`
"""

from __future__ import annotations

import argparse
import contextlib
import logging
import os
import tempfile
from pathlib import Path
from statistics import median

os.environ["OMP_NUM_THREADS"] = "1"

import numpy as np
import onnx
import onnxruntime
import openvino
from onnxruntime import quantization
from static_quantization import Sample, prepared, quantized
from turns import Run, in_turns, within

import dnnl_graph_ops as dgo
from dnnl_graph_ops.bench.zoo import export

MODELS = ("resnet18", "mobilenet", "unet", "dcgan")
QUANTIZES = {"QuantizeLinear", "QLinearConv"}


def drawn(path: Path, seed: int) -> Sample:
    rng = np.random.default_rng(seed)
    inputs = onnxruntime.InferenceSession(str(path)).get_inputs()
    shapes = {one.name: [size if isinstance(size, int) else 1 for size in one.shape] for one in inputs}
    return {name: rng.standard_normal(shape).astype(np.float32) for name, shape in shapes.items()}


def narrowed(path: Path, folder: str, qoperator: bool) -> Path:
    """Returns the file itself if it quantizes something, or a quantized one in `folder`."""
    if any(node.op_type in QUANTIZES for node in onnx.load(path, load_external_data=False).graph.node):
        return path
    return quantized(
        prepared(path, folder), [drawn(path, seed) for seed in range(4)], per_channel=True,
        activation_type=quantization.QuantType.QUInt8, weight_type=quantization.QuantType.QInt8,
        quant_format=quantization.QuantFormat["QOperator" if qoperator else "QDQ"],
    )  # fmt: skip


def runs_of(path: Path, net: dgo.Net, sample: Sample) -> dict[str, Run]:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(str(path), options)
    runs: dict[str, Run] = {"ours": lambda: net.run(sample), "ONNX Runtime": lambda: session.run(None, sample)}
    how = {"INFERENCE_NUM_THREADS": 1, "PERFORMANCE_HINT": "LATENCY"}
    with contextlib.suppress(RuntimeError):  # it reads no QLinear ops
        request = openvino.Core().compile_model(str(path), "CPU", how).create_infer_request()
        runs["OpenVINO"] = lambda: request.infer(sample)
    return runs


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("models", nargs="*", default=MODELS)
    parser.add_argument("--qoperator", action="store_true", help="quantize to QLinear ops in place of QDQ")
    parser.add_argument("--seconds", type=float, default=20, help="for each model")
    options = parser.parse_args()
    logging.disable(logging.WARNING)
    print("| model | ms | float / int8 | ONNX Runtime | OpenVINO | ops in floats |\n|---|---:|---:|---:|---:|---:|")
    for name in options.models:
        path = Path(name) if Path(name).exists() else export.path(name)
        with tempfile.TemporaryDirectory() as folder:
            narrow, sample = narrowed(path, folder, options.qoperator), drawn(path, 9)
            net, wide = (dgo.from_onnx(file).compile() for file in (narrow, path))
            runs = runs_of(narrow, net, sample)
            runs["float"] = lambda: wide.run(sample)  # noqa: B023
            times = in_turns(runs, dict.fromkeys(runs, 1), within(options.seconds, 5, 1000))
            ours = median(times["ours"])
            beside = (times.get(of) for of in ("float", "ONNX Runtime", "OpenVINO"))
            ratios = [f"{median(some) / ours:.2f}" if some else "" for some in beside]
            floats = len(net.explain().floats)
        print(f"| {Path(name).stem} | {ours * 1e3:.2f} | {' | '.join(ratios)} | {floats} |", flush=True)


main()
