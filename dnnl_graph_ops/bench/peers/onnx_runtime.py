"""ONNX Runtime, CPU provider: a model of one ConvTranspose or Conv node, input and output bound once."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import onnxruntime  # type: ignore[import-untyped, import-not-found, unused-ignore]

from ...dtypes import numpy_dtype
from .. import data, quantized
from .onnx_model import NODES, model
from .task import Prepared, Task


def versions() -> dict[str, str]:
    return {"onnxruntime": onnxruntime.__version__, "onnx": onnx.__version__}


def session_options(threads: int) -> Any:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    # its threads spin while a run is under way, as by default, and no longer
    options.add_session_config_entry("session.force_spinning_stop", "1")
    options.log_severity_level = 3
    return options


def prepare(task: Task) -> Prepared:
    session = onnxruntime.InferenceSession(
        model(task).SerializeToString(), session_options(task.threads), providers=["CPUExecutionProvider"]
    )
    operands = task.operands()
    kind = np.dtype(np.uint8) if task.dtype == quantized.DTYPE else numpy_dtype(task.dtype)
    binding = session.io_binding()
    names = ["src"] if task.weights == "constant" else ["src", "weights"]
    for name in names:
        value = onnxruntime.OrtValue.ortvalue_from_numpy(operands[name].astype(kind))
        binding.bind_ortvalue_input(name, value)
    output = onnxruntime.OrtValue.ortvalue_from_shape_and_type(list(task.problem.dst_shape()), kind.type, "cpu")
    binding.bind_ortvalue_output("dst", output)
    return Prepared(
        lambda: session.run_with_iobinding(binding),
        lambda: data.from_layout(output.numpy(), "NCX"),
        f"{NODES[task.problem.op]}, CPUExecutionProvider, bound input and output",
    )
