"""Sessions in the place of ONNX Runtime's: whole models run here, called as its callers call them."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np

from .. import dtypes
from ..errors import InvalidArgumentError
from ..frontends import from_onnx
from ..graph import Value
from ..schema.arguments import show, suggest
from .library import get_ep_name

_CPU = "CPUExecutionProvider"
# ONNX's names of types where they are not NumPy's
_NO_FEED: Mapping[str, Any] = MappingProxyType({})
_TYPES = {"float32": "float", "float64": "double", "object": "string"}


class NodeArg(NamedTuple):
    """An input or an output of a model: its name, its dims (None: unknown), and its type, such as "tensor(float)"."""

    name: str
    shape: list[int | None]
    type: str


class InferenceSession:
    """A session with the methods of `onnxruntime.InferenceSession` that most programs call; ONNX Runtime is not needed.

    This package runs the whole model: nodes without an op are steps in NumPy. Not supported: `io_binding`, run options,
    profiling, models in ORT's format, and names of unknown dims.

    Args:
        path_or_bytes: an ONNX file, or its content.
        sess_options: `onnxruntime.SessionOptions` or None; `intra_op_num_threads` of it, if it is not 0, is the number
            of threads. Other options have no effect.
        providers: None, or names of providers, of which one is the CPU's or this package's.

    Raises:
        InvalidArgumentError: no such provider; a damaged model.
        UnsupportedError, RuntimeUnavailableError: as `dgo.from_onnx`.
    """

    def __init__(
        self,
        path_or_bytes: str | bytes | os.PathLike[str],
        sess_options: Any = None,
        providers: Sequence[Any] | None = None,
    ) -> None:
        names = [item[0] if isinstance(item, tuple) else item for item in providers or (_CPU,)]
        if not {_CPU, get_ep_name()}.intersection(names):
            raise InvalidArgumentError(
                f"InferenceSession: 'providers' names {_CPU} or {get_ep_name()}, which run here, got {show(names)}"
            )
        threads = getattr(sess_options, "intra_op_num_threads", 0)
        self._net = from_onnx(path_or_bytes).compile(threads=threads or None)

    def get_inputs(self) -> list[NodeArg]:
        """Returns the inputs in order, each with `name`, `shape` and `type`."""
        return [_described(value.name, value) for value in self._net.inputs]

    def get_outputs(self) -> list[NodeArg]:
        """Returns the outputs in order, each with `name`, `shape` and `type`."""
        return [_described(name, value) for name, value in self._net.outputs.items()]

    def get_providers(self) -> list[str]:
        """Returns the names of the providers that run the model: this package's."""
        return [get_ep_name()]

    def run(
        self, output_names: Sequence[str] | None, input_feed: Mapping[str, Any] = _NO_FEED, run_options: Any = None
    ) -> list[Any]:
        """Runs the model.

        Args:
            output_names: the outputs that are returned, in this order; None or no names: all.
            input_feed: {name of an input: array}.
            run_options: has no effect.

        Returns:
            An array for each name.

        Raises:
            InvalidArgumentError: no output has a name. TypeError: `input_feed` is missing, or as `Net.run`.
            ShapeError: as `Net.run`.
        """
        if input_feed is _NO_FEED:
            first = self._net.input_names[0] if self._net.inputs else "x"
            raise TypeError(f"InferenceSession.run: needs 'input_feed'; write run(None, {{{first!r}: array}})")
        names = list(output_names or self._net.output_names)
        for name in names:
            if name not in self._net.outputs:
                raise InvalidArgumentError(
                    f"InferenceSession.run: no output {show(name)}{suggest(name, self._net.output_names)}; there are "
                    f"{', '.join(self._net.output_names)}"
                )
        results = self._net.run(input_feed)
        return [results[name] for name in names]


def _described(name: str, value: Value) -> NodeArg:
    kind = dtypes.numpy_dtype(value.dtype).name if value.dtype in dtypes.CODES else np.dtype(value.dtype).name
    return NodeArg(name, list(value.shape), f"tensor({_TYPES.get(kind, kind)})")
