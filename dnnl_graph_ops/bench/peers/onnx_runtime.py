"""ONNX Runtime, CPU provider: a model of one ConvTranspose or Conv node, or a file; inputs and outputs bound once."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import onnxruntime  # type: ignore[import-untyped, import-not-found, unused-ignore]

from .. import data
from ..timing import clock
from .onnx_model import NODES, given, model
from .task import Loaded, ModelTask, Prepared, Task, flattened


def versions() -> dict[str, str]:
    return {"onnxruntime": onnxruntime.__version__, "onnx": onnx.__version__}


def prepare(task: Task) -> Prepared:
    session = _session(model(task).SerializeToString(), task.threads)
    bound = _bound(session, given(task))
    return Prepared(
        lambda: session.run_with_iobinding(bound),
        lambda: data.from_layout(bound.copy_outputs_to_cpu()[0], "NCX"),
        f"{NODES[task.problem.op]}, CPUExecutionProvider, bound input and output",
    )


def prepare_model(task: ModelTask) -> Prepared:
    begin = clock(task.threads)
    session = _session(task.path, task.threads)
    compiled = clock(task.threads) - begin
    bound = _bound(session, task.inputs())
    return Prepared(
        lambda: session.run_with_iobinding(bound),
        lambda: flattened(bound.copy_outputs_to_cpu()),
        "CPUExecutionProvider",
        compile_s=compiled,
    )


def load(task: ModelTask) -> Loaded:
    session = _session(task.path, task.threads)
    names = [argument.name for argument in session.get_inputs()]

    def call(inputs: list[np.ndarray]) -> Any:
        return session.run(None, dict(zip(names, inputs, strict=True)))

    return Loaded(list, call, flattened, "CPUExecutionProvider")


def _session(source: str | bytes, threads: int) -> Any:
    """Of a file or of its content."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    # its threads spin while a run is under way, as by default, and no longer
    options.add_session_config_entry("session.force_spinning_stop", "1")
    options.log_severity_level = 3
    return onnxruntime.InferenceSession(source, options, providers=["CPUExecutionProvider"])


def _bound(session: Any, inputs: list[Any]) -> Any:
    """Outputs stay where the first execution put them."""
    binding = session.io_binding()
    for argument, array in zip(session.get_inputs(), inputs, strict=True):
        binding.bind_ortvalue_input(argument.name, onnxruntime.OrtValue.ortvalue_from_numpy(array))
    for result in session.get_outputs():
        binding.bind_output(result.name, "cpu")
    session.run_with_iobinding(binding)
    for result, value in zip(session.get_outputs(), binding.get_outputs(), strict=True):
        binding.bind_ortvalue_output(result.name, value)
    return binding
