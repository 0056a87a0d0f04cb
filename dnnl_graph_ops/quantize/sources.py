"""Nets of the models that `calibrate` takes."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import Any

import numpy as np

from ..errors import InvalidArgumentError
from ..frontends import from_onnx, from_torch
from ..graph import Graph
from ..net import Net


def net_of(model: Any, outputs: Any, samples: Any) -> tuple[Net, Any]:
    """Returns the net of a net, a graph, a model of ONNX or of PyTorch, and the samples, which an iterator gives once.

    A module is exported for the first sample.

    Raises:
        InvalidArgumentError: a module in training mode. TypeError: another type.
    """
    if isinstance(model, Net):
        return model, samples
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(model, torch.nn.Module):
        samples = list(samples)
        model = _exported(torch, model, samples)
    graph = model if isinstance(model, Graph) else _read(model)
    return graph.compile(outputs), samples


def _read(model: Any) -> Graph:
    if isinstance(model, str | bytes | os.PathLike) or hasattr(model, "SerializeToString"):
        return from_onnx(model)
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(model, torch.export.ExportedProgram):
        return from_torch(model)
    raise TypeError(
        f"calibrate: needs a Net, a Graph, an ONNX model or its path, a torch.nn.Module or an ExportedProgram, "
        f"got {type(model).__name__}"
    )


def _exported(torch: Any, module: Any, samples: Sequence[Any]) -> Any:
    if module.training:
        raise InvalidArgumentError("calibrate: the module is in training mode; call model.eval() first")
    if not samples:
        raise InvalidArgumentError("calibrate: needs at least one sample; pass a list of inputs, [x] for one array x")
    first = samples[0]
    names = dict(first) if isinstance(first, dict) else {}
    arrays = () if names else first if isinstance(first, tuple) else (first,)
    tensors = tuple(torch.as_tensor(np.asarray(array)) for array in arrays)
    with torch.no_grad():
        return torch.export.export(
            module, tensors, {name: torch.as_tensor(np.asarray(array)) for name, array in names.items()}
        )
