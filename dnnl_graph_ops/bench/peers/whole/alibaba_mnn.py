"""MNN, CPU backend, precision high: the file converted, loaded as a Module and run by forward, NCX in and out."""

from __future__ import annotations

import tempfile
import time
from pathlib import Path
from typing import Any

import MNN.expr as expr  # type: ignore[import-untyped, import-not-found, unused-ignore]
import onnx

from ..alibaba_mnn import load, versions
from ..task import ModelTask, Prepared, flattened, keeping

__all__ = ["prepare", "versions"]


def prepare(task: ModelTask) -> Prepared:
    begin = time.perf_counter()
    graph = onnx.load(task.path, load_external_data=False).graph
    constants = {tensor.name for tensor in graph.initializer}
    names = [value.name for value in graph.input if value.name not in constants]
    with tempfile.TemporaryDirectory() as folder:
        target = Path(folder) / "model.mnn"
        module = load(Path(task.path), target, names, [value.name for value in graph.output], task.threads, False)
    seconds = time.perf_counter() - begin
    inputs = [expr.const(array, list(array.shape), expr.NCHW) for array in task.inputs()]

    def read(outputs: Any) -> Any:
        plain = (expr.convert(out, expr.NCHW) if out.data_format == expr.NC4HW4 else out for out in outputs)
        return flattened(out.read() for out in plain)

    prepared = keeping(lambda: module.forward(inputs), read, "precision high")
    prepared.run()
    prepared.compile_s = seconds
    return prepared
