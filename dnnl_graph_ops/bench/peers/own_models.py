"""This package: the ONNX file read and compiled as a user would, called with `out=`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx  # imported before anything is timed, as by others

import dnnl_graph_ops as dgo
import dnnl_graph_ops.frontends.onnx

from ..timing import clock
from . import onnx_model
from .own import detail, poison, precision, versions
from .task import Loaded, ModelTask, Prepared, flattened

__all__ = ["load", "prepare_model", "versions"]


def prepare_model(task: ModelTask) -> Prepared:
    dgo.set_num_threads(task.threads)
    engine, inputs = _engine(task), task.inputs()
    begin = clock(task.threads)
    net = _compiled(task.path, engine, task, inputs)
    compiled = clock(task.threads) - begin
    out = net(*inputs)
    buffers = out if isinstance(out, tuple) else (out,)
    return Prepared(
        lambda: net(*inputs, out=out),
        lambda: flattened(buffers),
        detail(net),
        lambda: [*map(poison, buffers)],
        compile_s=compiled,
    )


def load(task: ModelTask) -> Loaded:
    """With the option `fixed`, every new size is what a net of that size alone is compiled for."""
    dgo.set_num_threads(task.threads)
    engine = _engine(task)
    if task.options.get("fixed"):
        return Loaded(tuple, _Fixed(task, engine), _flat, "a net for each size")
    net = _compiled(task.path, engine, task)
    return Loaded(tuple, lambda inputs: net(*inputs), _flat, "a net for all sizes")


class _Fixed:
    """Nets of the sizes that it is called with; the last one is kept."""

    def __init__(self, task: ModelTask, engine: Any) -> None:
        self._task, self._engine, self._model = task, engine, onnx.load(task.path)
        self._shapes: tuple[tuple[int, ...], ...] = ()
        self._net: Any = None

    def __call__(self, inputs: tuple[np.ndarray, ...]) -> Any:
        shapes = tuple(array.shape for array in inputs)
        if shapes != self._shapes:
            self._net = None
            names = (value.name for value in onnx_model.inputs(self._model.graph))
            fixed = dict(zip(names, shapes, strict=True))
            self._net, self._shapes = _compiled(self._model, self._engine, self._task, shapes=fixed), shapes
        return self._net(*inputs)


def _engine(task: ModelTask) -> Any:
    return dgo.engine(task.options.get("engine", "cpu"))


def _compiled(
    model: Any, engine: Any, task: ModelTask, inputs: Sequence[np.ndarray] = (), *, shapes: Any = None
) -> Any:
    tune, algorithm = task.options.get("tune", "heuristic"), task.options.get("algorithm", "auto")
    return dgo.from_onnx(model, engine, shapes=shapes).compile(
        tune=tune, algorithm=algorithm, **precision(task, inputs)
    )


def _flat(made: Any) -> np.ndarray:
    return flattened(made if isinstance(made, tuple) else (made,))
