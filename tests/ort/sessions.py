"""Sessions of ONNX Runtime: with the execution provider, and with the CPU alone to compare with."""

from __future__ import annotations

import collections
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

onnxruntime = pytest.importorskip("onnxruntime", minversion="1.23", reason="needs the extra 'onnxruntime'")
onnx = pytest.importorskip("onnx", reason="needs the extra 'onnx'")
from onnx import TensorProto, helper, numpy_helper  # noqa: E402

import dnnl_graph_ops.onnxruntime as dgr  # noqa: E402

CPU = ["CPUExecutionProvider"]
Arrays = Mapping[str, np.ndarray]


def model(nodes: list[Any], inputs: Mapping[str, Any], outputs: list[str], arrays: Arrays, opset: int = 17) -> bytes:
    """A model; `inputs`: shapes in f32, with names for unknown dims."""
    infos = [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name, shape in inputs.items()]
    results = [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in outputs]
    constants = [numpy_helper.from_array(array, name) for name, array in arrays.items()]
    graph = helper.make_graph(nodes, "graph", infos, results, constants)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=9).SerializeToString()


def options(**entries: Any) -> Any:
    found = onnxruntime.SessionOptions()
    found.intra_op_num_threads = 1
    found.log_severity_level = 3
    for name, value in entries.items():
        setattr(found, name, value)
    return found


def cpu(source: Any) -> Any:
    return onnxruntime.InferenceSession(source, options(), providers=CPU)


def ours(source: Any, **entries: Any) -> Any:
    """A session with the provider."""
    found = options(**entries)
    found.add_provider_for_devices(dgr.register(), {})
    return onnxruntime.InferenceSession(source, found)


def executed(source: Any, feeds: Arrays, folder: Path) -> tuple[list[np.ndarray], dict[str, list[str]]]:
    """The results of a call, and the operators that it ran by provider."""
    session = ours(source, enable_profiling=True, profile_file_prefix=str(folder / "profile"))
    results = session.run(None, feeds)
    events = json.loads(Path(session.end_profiling()).read_text("utf-8"))
    found: dict[str, list[str]] = collections.defaultdict(list)
    for event in events:
        if event["name"].endswith("kernel_time"):
            found[event["args"]["provider"]].append(event["args"]["op_name"])
    return results, found
