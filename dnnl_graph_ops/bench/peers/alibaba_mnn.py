"""MNN, CPU backend, precision high: an ONNX model of one layer, converted, loaded as a Module and run by forward.

Weights are packed when the module is loaded. A 1D layer is a 2D one of height 1. In 1D and 2D src is given, and dst
left, in the layout that MNN calls NC4HW4; forward copies src into the backend's own packs, which cannot be avoided
from Python, and no other conversion is timed. A 3D layer, which MNN computes as several 2D ones, and a file take and
give NCX.
"""

from __future__ import annotations

import importlib
import importlib.metadata
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import MNN.expr as expr  # type: ignore[import-untyped, import-not-found, unused-ignore]
import MNN.nn as nn  # type: ignore[import-untyped, import-not-found, unused-ignore]
import numpy as np
import onnx

from ...errors import Error, UnsupportedError
from ..timing import clock
from .onnx_model import NODES, inputs, model
from .task import ModelTask, Prepared, Task, flattened, keeping, raised


def versions() -> dict[str, str]:
    return {"MNN": importlib.metadata.version("MNN")}


def prepare(task: Task) -> Prepared:
    if task.weights != "constant":
        raise UnsupportedError("its weights are packed when a model is loaded: constant ones only")
    flat = replace(task, problem=raised(task.problem))
    packed = flat.problem.rank == 2
    with tempfile.TemporaryDirectory() as folder:
        module = _load(flat, Path(folder), packed)
    array = flat.operands()["src"]
    src = expr.const(array, list(array.shape), expr.NCHW)
    if packed:
        src = expr.convert(src, expr.NC4HW4)
        src.fix_as_const()

    def read(out: Any) -> np.ndarray:
        plain = expr.convert(out, expr.NCHW) if out.data_format == expr.NC4HW4 else out
        return np.array(plain.read(), dtype=np.float32).reshape(task.problem.dst_shape())

    prepared = keeping(lambda: module.forward(src), read, f"{NODES[task.problem.op]}, {'NC4HW4' if packed else 'NCX'}")
    prepared.run()
    return prepared


def _load(task: Task, folder: Path, packed: bool) -> Any:
    source = folder / "layer.onnx"
    onnx.save(model(task), str(source))
    return _converted(source, folder / "layer.mnn", ["src"], ["dst"], task.threads, packed)


def _converted(source: Path, target: Path, given: list[str], made: list[str], threads: int, packed: bool) -> Any:
    """An ONNX file as a Module with these inputs and outputs.

    Raises:
        UnsupportedError: the converter does not take it.
    """
    # the converter itself: its command, mnnconvert, installs packages that report its use before it starts
    words = ["mnnconvert", "-f", "ONNX", "--modelFile", str(source), "--MNNModel", str(target), "--bizCode", "bench"]
    importlib.import_module("_tools").mnnconvert([*words, f"--keepInputFormat={int(not packed)}"])
    if not target.is_file():
        raise UnsupportedError("its converter does not take it")
    settings = {"backend": "CPU", "numThread": threads, "precision": "high"}
    runtime = nn.create_runtime_manager((settings,))
    module = nn.load_module_from_file(str(target), given, made, runtime_manager=runtime, shape_mutable=False)
    if module is None:
        raise Error("MNN did not load the model")
    return module


def prepare_model(task: ModelTask) -> Prepared:
    begin = clock(task.threads)
    graph = onnx.load(task.path, load_external_data=False).graph
    names = [value.name for value in inputs(graph)]
    with tempfile.TemporaryDirectory() as folder:
        target = Path(folder) / "model.mnn"
        module = _converted(Path(task.path), target, names, [value.name for value in graph.output], task.threads, False)
    seconds = clock(task.threads) - begin
    operands = [expr.const(array, list(array.shape), expr.NCHW) for array in task.inputs()]

    def read(outputs: Any) -> Any:
        plain = (expr.convert(out, expr.NCHW) if out.data_format == expr.NC4HW4 else out for out in outputs)
        return flattened(out.read() for out in plain)

    prepared = keeping(lambda: module.forward(operands), read, "precision high")
    prepared.run()
    prepared.compile_s = seconds
    return prepared
