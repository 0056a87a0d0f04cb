"""Nodes that run between graphs on arrays of any dtype: data-dependent shapes, and operators that graphs lack."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from ... import dtypes
from ...compile.specialise import Options
from ...errors import Error, ShapeError, UnsupportedError
from ...net.net import Net
from ...net.sizes import Parts
from ...once import once
from ...reports.explain import PartitionReport, StepReport
from ...words import counted
from ..reading.node import Array, OnnxNode, Tensor, tensors_of
from ..reading.numpy_steps import bound, row_of
from ..reading.stages import Stage
from ..reading.submodel import SubModel
from ..reading.types import NUMBERS, TYPES, type_name
from . import reference
from .contributed import is_contributed
from .control import control
from .model import onnx_package

# floats below 16 bits and integers below 8: NumPy's arithmetic differs from ONNX's
_NARROW = frozenset((17, 18, 19, 20, 21, 22, 23, 24, 25, 26))


def info_of(value: Any) -> Tensor:
    """Returns the facts of a value at a call."""
    if isinstance(value, np.ndarray):
        return Tensor(NUMBERS.get(value.dtype), value.shape)
    kind = onnx_package().TypeProto()
    if isinstance(value, list):
        first = info_of(value[0]) if value else Tensor()
        if not first.is_tensor:
            return Tensor(0)
        kind.sequence_type.elem_type.tensor_type.elem_type = first.code
    return Tensor(0, None, kind.SerializeToString() if isinstance(value, list) else b"")


def check(node: OnnxNode) -> list[str]:
    """Returns why a node is unsupported for any inputs; empty if it is not."""
    if (flow := control(node)) is not None:
        if missing := [name for name in flow.bodies if name not in node.bodies]:
            return [f"{node.where}: attribute {missing[0]!r} is missing, or not of its type"]
        return [problem for body in node.bodies.values() for one in body.nodes for problem in check(one)]
    if is_contributed(node):
        return []
    try:
        reference.check(node)
    except UnsupportedError as error:
        return [str(error)]
    return []


def results_of(node: OnnxNode, infos: Mapping[str, Tensor], arrays: Mapping[str, Array]) -> list[Tensor]:
    """Returns the facts of a node's results, as far as its inputs determine them.

    Raises:
        UnsupportedError: inputs that the operator does not take.
    """
    if (flow := control(node)) is not None:
        return flow.results(node)
    reference.check_types(node, {index: infos[name].code or None for index, name in enumerate(node.inputs) if name})
    given = [infos[name] for name in node.inputs if name]
    if any(item.code is None or (not item.is_tensor and not item.kind) for item in given):
        return [Tensor()] * len(node.outputs)
    results = reference.inferred(node, infos, arrays)
    if node.op_type == "NonZero" and not node.domain and infos[node.inputs[0]].shape == ():
        # a scalar counts as a tensor of one axis, as in ONNX Runtime; onnx infers no axes
        results = [replace(results[0], shape=(1, None))]
    return results


@dataclass(frozen=True, eq=False)
class HostNode(Stage):
    """A node as a function of tensors; `arrays`: the inputs that are known."""

    node: OnnxNode
    arrays: Mapping[str, Array]
    results: tuple[Tensor, ...]
    bodies: Mapping[str, SubModel]
    # facts of the results by the inputs' types, if these are known at the call only
    _types: dict[tuple[int | None, ...], list[Tensor]] = field(default_factory=dict)

    @once
    def reads(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(name for name in self.node.reads if name not in self.arrays))

    @property
    def gives(self) -> tuple[str, ...]:
        return self.node.outputs

    @property
    def title(self) -> str:
        return f"{self.node.op_type} ({self.by})"

    def parts(self, known: Mapping[str, Tensor]) -> Parts:
        return Parts((), (self.title,) if self.bodies else ())

    def known_results(self, known: Mapping[str, Tensor]) -> Sequence[Tensor]:
        infos = tensors_of(self.arrays) | {name: known.get(name, Tensor()) for name in self.reads}
        if control(self.node) is not None or any(info.shape is None or None in info.shape for info in infos.values()):
            return self.results
        try:
            return results_of(self.node, infos, self.arrays)
        except UnsupportedError:
            return self.results

    def nets(self) -> Sequence[Net]:
        return [net for body in self.bodies.values() for net in body.nets()]

    def reports(self) -> Sequence[PartitionReport]:
        node, by, slow = self.node, self.by, self.by == "onnx.reference"
        of = f"{node.op_type} {node.name}".rstrip()
        step = StepReport(self.title, by, self.reads, node.outputs, 0, slow, 0, of, by)
        return (PartitionReport((node.name,), (node.op_type,), by, "", (), False, (step,)),)

    @property
    def compute(self) -> Callable[[OnnxNode, Sequence[Any]], Any] | None:
        """The NumPy step of the operator, or None."""
        row = row_of(self.node)
        return None if row is None or any(info.code in _NARROW for info in self.results) else row.compute

    @once
    def _model(self) -> bytes:
        return reference.alone(self.node)

    def check(self) -> None:
        """Checks that the reference implementation has the operator, if it would run the node.

        Raises:
            UnsupportedError: the reference implementation lacks it.
        """
        if control(self.node) is None and self.compute is None:
            reference.check_runs(self.node.where, self._model)

    @property
    def by(self) -> str:
        if self.bodies:
            return "a graph for each subgraph"
        return "NumPy" if self.compute is not None or control(self.node) is not None else "onnx.reference"

    def __call__(self, values: Sequence[Any], options: Options) -> list[Any]:
        """Returns the results.

        Raises:
            Error: the computation fails, or its results differ from those that onnx inferred.
        """
        node = self.node
        tensors = {**self.arrays, **dict(zip(self.reads, values, strict=True))}
        inputs = [tensors[name] if name else None for name in node.inputs]
        try:
            with np.errstate(all="ignore"):
                found = self._run(tensors, inputs, options)
        except (Error, MemoryError):
            raise
        except Exception as error:
            raise Error(f"{node.where}: {self.by}: {type(error).__name__}: {error}") from None
        if len(found) < len(node.outputs):
            raise Error(f"{node.where}: {self.by} gives {counted(len(found), 'result')}, not {len(node.outputs)}")
        return [self._checked(item, info) for item, info in zip(found, self._results_of(tensors), strict=False)]

    def _results_of(self, tensors: Mapping[str, Any]) -> Sequence[Tensor]:
        """Returns the facts of the results; by these inputs, if types are known at the call only."""
        if control(self.node) is not None or all(info.code is not None for info in self.results):
            return self.results
        infos = {name: info_of(tensors[name]) for name in self.node.reads}
        key = tuple(info.code for info in infos.values())
        if key not in self._types:
            try:
                found = results_of(self.node, infos, self.arrays)
            except UnsupportedError:
                found = list(self.results)
            # sizes are dynamic
            self._types[key] = [replace(info, shape=None) for info in found]
        return self._types[key]

    def _run(self, tensors: Mapping[str, Any], inputs: Sequence[Any], options: Options) -> Sequence[Any]:
        node = self.node
        if (flow := control(node)) is not None:
            return flow.run(node, self.bodies, tensors, inputs, options)
        bound(node, inputs)
        compute = self.compute
        if compute is None or any(
            isinstance(item, np.ndarray) and NUMBERS.get(item.dtype) in _NARROW for item in inputs
        ):
            return reference.evaluate(self._model, inputs)
        results = compute(node, inputs)
        return results if isinstance(results, tuple) else (results,)

    def _checked(self, item: Any, info: Tensor) -> Any:
        if item is None or isinstance(item, list):
            return item
        array = np.asarray(item)
        if not info.is_tensor:
            return array
        if info.shape is not None and len(info.shape) != array.ndim:
            raise ShapeError(f"{self.node.where}: {self.by} gives shape {array.shape}, not {info.shape}")
        return array.astype(TYPES[info.code], copy=False) if info.code in TYPES else array


def label_of(info: Tensor, where: str) -> str:
    """Returns the name of a tensor's dtype for nets and graphs."""
    if info.code not in TYPES:
        raise UnsupportedError(f"{where}: element type {type_name(info.code)}")
    return dtypes.label(TYPES[info.code])
