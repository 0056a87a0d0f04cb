"""Nodes that the table does not express, computed by NumPy or by onnx's own reference implementation, which is slow."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from ... import dtypes
from ...errors import Error, RuntimeUnavailableError, ShapeError, UnsupportedError
from ...graph import Graph, Value
from ...shapes import Meta
from .budget import Budget
from .fold import NUMPY
from .model import DTYPES, REMEDY, check_size, onnx_package, type_name
from .node import Array, Item, Measured, OnnxNode
from .numpy_steps import COMPUTES
from .step import Step

# known tensors up to so many bytes are part of the step, where shapes can be inferred from them; others are operands
_FEW_BYTES = 1 << 12
# what is computed as the model is read; the reference implementation is slow
_MOST_BYTES = 1 << 20
_FLOAT8 = (17, 19)
_CODES = {name: code for code, name in DTYPES.items()}
_PARTS = {np.dtype(kind): code for code, kind in NUMPY.items()}


# what no two calls compute alike; onnx marks more
_RANDOM = frozenset(
    {"Bernoulli", "Dropout", "Multinomial", "RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike"}
)


@functools.lru_cache(maxsize=64)
def _evaluator_of(model: bytes) -> Any:
    from onnx.reference import ReferenceEvaluator

    return ReferenceEvaluator(model)


class Wanted(NamedTuple):
    """A result as onnx infers it: its element type, by onnx's number, and its shape."""

    code: int
    shape: tuple[int | None, ...]

    @property
    def nbytes(self) -> int:
        return math.prod(map(int, self.shape)) * np.dtype(NUMPY[self.code]).itemsize  # type: ignore[arg-type]


@dataclass(frozen=True)
class Reference:
    """One node as a function of arrays: those of its operands that are no part of it."""

    where: str
    title: str
    model: bytes
    results: tuple[Wanted, ...]
    # of NumPy, where that does it
    compute: Callable[[Sequence[Array]], Any] | None

    @property
    def by(self) -> str:
        return "onnx.reference" if self.compute is None else "NumPy"

    @property
    def key(self) -> bytes:
        return self.model

    @property
    def _evaluator(self) -> Any:
        onnx_package()
        try:
            return _evaluator_of(self.model)
        except ImportError as error:
            raise RuntimeUnavailableError(f"{self.where}: runs by onnx.reference only: {error}") from error
        except NotImplementedError as error:
            raise UnsupportedError(f"{self.where}: not even onnx.reference has it: {error}") from None

    def check(self) -> None:
        """Refuse what the reference implementation lacks as well."""
        if self.compute is not None:
            return
        try:
            self._evaluator  # noqa: B018
        except Error:
            raise
        except Exception as error:
            raise UnsupportedError(f"{self.where}: onnx.reference: {type(error).__name__}: {error}") from None

    def __call__(self, arrays: Sequence[Array]) -> list[Array]:
        """Its results.

        Raises:
            Error: onnx.reference fails, or gives something else than onnx inferred.
        """
        try:
            with np.errstate(all="ignore"):
                found = [np.asarray(item) for item in self._run(arrays)]
        except (Error, MemoryError):
            raise
        except Exception as error:
            raise Error(f"{self.where}: {self.by}: {type(error).__name__}: {error}") from None
        for array, wanted in zip(found, self.results, strict=True):
            if array.shape != wanted.shape:
                raise ShapeError(f"{self.where}: {self.by} gives shape {array.shape}, not {wanted.shape}")
        return [array.astype(NUMPY[wanted.code]) for array, wanted in zip(found, self.results, strict=True)]

    def _run(self, arrays: Sequence[Array]) -> Sequence[Any]:
        if self.compute is None:
            return self._evaluator.run(None, {f"x{i}": np.array(array) for i, array in enumerate(arrays)})
        results = self.compute(arrays)
        return results if isinstance(results, tuple) else (results,)


class Found(NamedTuple):
    """A node for the reference implementation, and the operands that it is given at a call."""

    reference: Reference
    operands: tuple[int, ...]

    @property
    def metas(self) -> list[Meta]:
        """Of its results.

        Raises:
            UnsupportedError: of types that the package does not have.
        """
        for code, _ in self.reference.results:
            if code not in DTYPES:
                raise UnsupportedError(f"{self.reference.where}: gives {type_name(code)}; {REMEDY}")
        return [Meta(shape, DTYPES[code]) for code, shape in self.reference.results]

    @property
    def is_known(self) -> bool:
        return not any(None in shape for _, shape in self.reference.results)


def found(node: OnnxNode, known: Mapping[str, Item]) -> Found:
    """The node for the reference implementation.

    Raises:
        UnsupportedError: it has no such form: operators that are not standard, subgraphs, types without numbers,
            results that onnx cannot infer, or random ones.
    """
    onnx, schema = onnx_package(), _schema(node)
    names: list[str] = []
    operands: list[int] = []
    inputs, stored = [], []
    codes: dict[str, int] = {}
    for index, name in enumerate(node.inputs):
        if not name:
            names.append("")
            continue
        item = known[name]
        code = _code(node, item)
        _check_type(schema, node, index, code, codes)
        earlier = node.inputs.index(name)
        names.append(f"x{len(operands)}" if earlier == index else names[earlier])
        if earlier < index:
            continue
        if _is_part(item):
            names[-1] = f"c{index}"
            stored.append(onnx.numpy_helper.from_array(np.array(item), names[-1]))
        else:
            inputs.append(onnx.helper.make_tensor_value_info(names[-1], code, item.shape))
            operands.append(index)
    results = [onnx.ValueInfoProto(name=f"y{i}") for i in range(len(node.outputs))]
    made = onnx.NodeProto(op_type=node.op_type, domain=node.domain, input=names, output=[one.name for one in results])
    for name, value in node.attrs.items():
        plain = onnx.numpy_helper.from_array(value) if isinstance(value, np.ndarray) else value
        made.attribute.append(onnx.helper.make_attribute(name, plain, attr_type=int(schema.attributes[name].type)))
    graph = onnx.helper.make_graph([made], "node", inputs, results, stored)
    version = onnx.helper.make_opsetid(node.domain, node.opset)
    model = onnx.helper.make_model_gen_version(graph, opset_imports=[version])
    wanted = tuple(_inferred(onnx, node, model))
    del model.graph.output[:]
    model.graph.output.extend(
        onnx.helper.make_tensor_value_info(f"y{i}", one.code, None) for i, one in enumerate(wanted)
    )
    given = [node.inputs[index] for index in operands]
    reference = Reference(
        node.where, node.op_type, model.SerializeToString(), wanted, _by_numpy(node, given, known, wanted)
    )
    reference.check()
    return Found(reference, tuple(operands))


def _code(node: OnnxNode, item: Item) -> int:
    """onnx's number of a tensor's element type.

    Raises:
        UnsupportedError: an operand of a type that the package does not have; small known ones may have any.
    """
    code = _PARTS.get(item.dtype) if _is_part(item) else _CODES.get(dtypes.label(np.dtype(_numpy(item))))
    if code is None:
        raise UnsupportedError(f"{node.where}: {item.dtype} data; {REMEDY}")
    return code


def _numpy(item: Item) -> Any:
    return dtypes.numpy_dtype(item.dtype) if isinstance(item.dtype, str) else item.dtype


def _check_type(schema: Any, node: OnnxNode, index: int, code: int, codes: dict[str, int]) -> None:
    """Refuse an operand of a type that the operator has not, or other than those that must be like it."""
    if index >= len(schema.inputs) and not (schema.inputs and schema.inputs[-1].is_homogeneous):
        return
    slot = schema.inputs[min(index, len(schema.inputs) - 1)]
    alike = codes.setdefault(slot.type_str, code) if slot.is_homogeneous else code
    if alike != code or f"tensor({type_name(code).lower()})" not in slot.types:
        raise UnsupportedError(f"{node.where}: {slot.name} of {type_name(code)}, which {node.op_type} does not take")


def check(node: OnnxNode) -> None:
    """Refuse what the reference implementation has not either, whatever its inputs are.

    Raises:
        UnsupportedError: operators that are not standard, subgraphs, random numbers.
    """
    _schema(node)


def _schema(node: OnnxNode) -> Any:
    """What onnx says of the operator."""
    onnx = onnx_package()
    try:
        schema = onnx.defs.get_schema(node.op_type, node.opset, node.domain)
    except onnx.defs.SchemaError:
        name = f"{node.domain}.{node.op_type}" if node.domain else node.op_type
        raise UnsupportedError(f"{node.where}: no op for {name}, nor has onnx one in opset {node.opset}") from None
    if node.op_type in _RANDOM:
        raise UnsupportedError(f"{node.where}: gives random numbers, which no op does")
    for name, value in node.attrs.items():
        if value is None or name not in schema.attributes:
            raise UnsupportedError(f"{node.where}: attribute {name!r}" + (" of its type" if value is None else ""))
    return schema


def _by_numpy(
    node: OnnxNode, given: Sequence[str], known: Mapping[str, Item], wanted: Sequence[Wanted]
) -> Callable[[Sequence[Array]], Any] | None:
    """The node by NumPy, as a function of these operands; None: it is not among what that does."""
    function = COMPUTES.get(node.op_type) if not node.domain else None
    # what saturates has more rules than NumPy's conversion
    if function is None or any(code in _FLOAT8 for code, _ in wanted):
        return None
    parts = {name: known[name] for name in node.inputs if name and name not in given}

    def compute(arrays: Sequence[Array]) -> Any:
        tensors: dict[str, Any] = {**parts, **dict(zip(given, arrays, strict=True))}
        return function(node, [tensors.get(name) for name in node.inputs])

    return compute


def _is_part(item: Item) -> bool:
    return isinstance(item, np.ndarray) and item.nbytes <= _FEW_BYTES


def _inferred(onnx: Any, node: OnnxNode, model: Any) -> list[Wanted]:
    try:
        inferred = onnx.shape_inference.infer_shapes(model, strict_mode=True)
    except MemoryError:
        raise
    except Exception as error:
        text = " ".join(str(error).split())
        raise UnsupportedError(f"{node.where}: onnx cannot infer its results: {text[:300]}") from None
    results = []
    for info in inferred.graph.output:
        tensor = info.type.tensor_type
        if info.type.WhichOneof("value") not in (None, "tensor_type"):
            raise UnsupportedError(f"{node.where}: gives no tensor")
        if not tensor.HasField("shape") or not tensor.elem_type:
            raise UnsupportedError(f"{node.where}: onnx cannot infer the number of axes of its results")
        if tensor.elem_type not in NUMPY:
            raise UnsupportedError(f"{node.where}: gives {type_name(tensor.elem_type)}; {REMEDY}")
        dims = tuple(int(dim.dim_value) if dim.WhichOneof("value") == "dim_value" else None for dim in tensor.shape.dim)
        check_size(dims, np.dtype(NUMPY[tensor.elem_type]).itemsize, node.where)
        results.append(Wanted(tensor.elem_type, dims))
    return results


def folded(node: OnnxNode, known: Mapping[str, Item], budget: Budget, one: Found) -> tuple[Array, ...] | None:
    """Its results, where its operands are known now and these are small."""
    given = [known[name] for name in node.inputs if name]
    items = [item for item in given if isinstance(item, np.ndarray)]
    if len(items) < len(given) or not one.is_known:
        return None
    size = sum(wanted.nbytes for wanted in one.reference.results) + sum(item.nbytes for item in items)
    # a step of constants is computed as well, when the net is compiled
    budget.spend(size, node.where)
    if size > _MOST_BYTES:
        return None
    try:
        return tuple(one.reference([known[node.inputs[i]] for i in one.operands]))  # type: ignore[misc]
    except (UnsupportedError, MemoryError):
        raise
    except Error as error:
        raise UnsupportedError(str(error)) from None


def is_open(node: OnnxNode, known: Mapping[str, Item]) -> bool:
    """Whether its results may depend on sizes that are known at the call only."""
    items = [known[name] for name in node.inputs if name]
    return any(isinstance(item, Measured) or None in item.shape for item in items)


def appended(graph: Graph, step: Step, one: Found) -> tuple[Value, ...]:
    """The node in a graph whose sizes are known.

    Raises:
        UnsupportedError: the shape of a result depends on data.
    """
    metas = one.metas
    if not one.is_known:
        raise UnsupportedError(f"{step.where}: the shape of its result depends on data, or on what onnx cannot infer")
    operands = [step.value(index) for index in one.operands]
    slots = [f"dst_{i}" for i in range(len(metas))]
    made = graph.add_node("Wildcard", step.where, operands, {}, metas, slots, None, step.node.name.replace("\0", "?"))
    node = made[0].node
    assert node is not None
    node.host = one.reference
    return made
