"""Nodes that the table does not express, computed by NumPy or by onnx's own reference implementation, which is slow."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from ...errors import Error, RuntimeUnavailableError, ShapeError, UnsupportedError
from ...graph import Graph, Value
from ...graph.json_format import MAX_NDIM
from ...schema.arguments import suggest
from ...shapes import Meta
from ..reading.budget import Budget
from ..reading.faults import REMEDY, check_size
from ..reading.node import Array, OnnxNode, Sparse, Tensor
from ..reading.numpy_steps import COMPUTES, KEEPING, NATIVE, RESHAPING, Compute, Described, Own, bound, needed
from ..reading.step import Step
from ..reading.types import CODES, DTYPES, NUMPY, type_name
from .model import onnx_package

# known tensors up to so many bytes are part of the step, where shapes can be inferred from them; others are operands
_FEW_BYTES = 1 << 12
# what is computed as the model is read; the reference implementation is slow
_MOST_BYTES = 1 << 20
_FLOAT8 = (17, 19)
_PARTS = {np.dtype(kind): code for code, kind in NUMPY.items()}


# defaults that onnx's inference of shapes takes for others
_STATED: dict[str, dict[str, Any]] = {"STFT": {"onesided": 1}}

# until this version onnx counted windows that begin behind the data
_COUNTED = dict.fromkeys(("AveragePool", "LpPool", "MaxPool"), 22)

# what no two calls compute alike; onnx marks more
_RANDOM = frozenset(
    {"Bernoulli", "Dropout", "Multinomial", "RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike"}
)


# inputs whose numbers tell the shape of a result
_BY_DATA: dict[str, tuple[int, ...]] = {
    "AffineGrid": (1,),
    "BlackmanWindow": (0,),
    "CenterCropPad": (1,),
    "Col2Im": (1, 2),
    "Compress": (1,),
    "ConstantOfShape": (0,),
    "DFT": (1,),
    "Expand": (1,),
    "HammingWindow": (0,),
    "HannWindow": (0,),
    "MaxUnpool": (2,),
    "MelWeightMatrix": (0, 1),
    "NonMaxSuppression": (0, 1),
    "NonZero": (0,),
    "OneHot": (1,),
    "Pad": (1, 3),
    "Range": (0, 1, 2),
    **dict.fromkeys(
        (f"Reduce{name}" for name in (
            "L1", "L2", "LogSum", "LogSumExp", "Max", "Mean", "Min", "Prod", "Sum", "SumSquare",
        )),
        (1,),
    ),
    "Reshape": (1,),
    "Resize": (1, 2, 3),
    "STFT": (1, 3),
    "Slice": (1, 2, 3, 4),
    "Split": (1,),
    "Squeeze": (1,),
    "Tile": (1,),
    "TopK": (1,),
    "Unique": (0,),
    "Unsqueeze": (1,),
    "Upsample": (1,),
}  # fmt: skip


# whose shapes onnx does not infer even of known numbers
_UNTOLD = frozenset({"Compress", "NonMaxSuppression", "NonZero", "Unique"})


@functools.lru_cache(maxsize=64)
def _evaluator_of(model: bytes) -> Any:
    from onnx.reference import ReferenceEvaluator

    return ReferenceEvaluator(model)


def check_runs(where: str, model: bytes) -> None:
    """Refuse a model of one node that the reference implementation does not run.

    Raises:
        UnsupportedError: it has no such operator, or not of these attributes.
        RuntimeUnavailableError: it needs a package that is missing.
    """
    onnx_package()
    try:
        _evaluator_of(model)
    except ImportError as error:
        raise RuntimeUnavailableError(f"{where}: runs by onnx.reference only: {error}") from error
    except NotImplementedError:
        # the message lists all operators that there are
        raise UnsupportedError(f"{where}: not even onnx.reference has it") from None
    except MemoryError:
        raise
    except Exception as error:
        raise UnsupportedError(f"{where}: onnx.reference: {type(error).__name__}: {error}") from None


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
    node: OnnxNode
    # those of the node of what a call gives
    inputs: Callable[[Sequence[Array]], list[Any]]
    # of NumPy, where that does it
    compute: Compute | None
    own: Own | None = None

    @property
    def by(self) -> str:
        return "onnx.reference" if self.compute is None else "NumPy"

    @property
    def key(self) -> bytes:
        return self.model

    def check(self) -> None:
        """Refuse what the reference implementation lacks as well."""
        if self.compute is None:
            check_runs(self.where, self.model)

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
        with np.errstate(all="ignore"):
            return [array.astype(NUMPY[one.code], copy=False) for array, one in zip(found, self.results, strict=True)]

    def _run(self, arrays: Sequence[Array]) -> Sequence[Any]:
        inputs = self.inputs(arrays)
        bound(self.node, inputs)
        if self.compute is None:
            return _evaluator_of(self.model).run(None, {f"x{i}": np.array(array) for i, array in enumerate(arrays)})
        results = self.compute(self.node, inputs)
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


def found(node: OnnxNode, known: Mapping[str, Tensor]) -> Found:
    """The node for the reference implementation.

    Raises:
        UnsupportedError: it has no such form: operators that are not standard, subgraphs, types without numbers,
            results that onnx cannot infer, or random ones.
        ShapeError: impossible shapes.
    """
    onnx, schema = onnx_package(), _schema(node)
    if node.op_type in _RANDOM:
        raise UnsupportedError(f"{node.where}: gives random numbers, which no op does")
    if depends_on_data(node, known):
        raise UnsupportedError(f"{node.where}: the shape of its result depends on data")
    names: list[str] = []
    operands: list[int] = []
    inputs, stored = [], []
    codes: dict[str, int] = {}
    for index, name in enumerate(node.inputs):
        if not name:
            names.append("")
            continue
        item = known[name]
        part, code = _part(item), _code(node, item)
        _check_type(schema, node, index, code, codes)
        earlier = node.inputs.index(name)
        names.append(f"x{len(operands)}" if earlier == index else names[earlier])
        if earlier < index:
            continue
        if part is not None:
            names[-1] = f"c{index}"
            stored.append(onnx.numpy_helper.from_array(np.array(part), names[-1]))
        else:
            inputs.append(onnx.helper.make_tensor_value_info(names[-1], code, item.shape))
            operands.append(index)
    model = _model(node, schema, names, inputs, stored)
    wanted = tuple(_inferred(onnx, node, model))
    if node.op_type == "Resize" and operands == [0] and not is_open(node, known):
        # onnx leaves out sizes of 0
        wanted = tuple(one._replace(shape=tuple(size or 0 for size in one.shape)) for one in wanted)
    del model.graph.output[:]
    model.graph.output.extend(
        onnx.helper.make_tensor_value_info(f"y{i}", one.code, None) for i, one in enumerate(wanted)
    )
    given = [node.inputs[index] for index in operands]
    reference = Reference(
        node.where,
        node.op_type,
        model.SerializeToString(),
        wanted,
        node,
        _inputs_of(node, given, known),
        _by_numpy(node, given, known, wanted),
        _by_kernel(node, given, known),
    )
    reference.check()
    return Found(reference, tuple(operands))


def _model(node: OnnxNode, schema: Any, names: Sequence[str], inputs: Sequence[Any], stored: Sequence[Any] = ()) -> Any:
    """A model of one node, whose inputs have these names and its outputs y0, y1 and so on."""
    onnx = onnx_package()
    results = [onnx.ValueInfoProto(name=f"y{i}") for i in range(len(node.outputs))]
    made = onnx.NodeProto(op_type=node.op_type, domain=node.domain, input=names, output=[one.name for one in results])
    stated = _STATED.get(node.op_type, {}) if not node.domain else {}
    for name, value in {**stated, **node.attrs}.items():
        plain = onnx.numpy_helper.from_array(value) if isinstance(value, np.ndarray) else value
        made.attribute.append(onnx.helper.make_attribute(name, plain, attr_type=int(schema.attributes[name].type)))
    graph = onnx.helper.make_graph([made], "node", inputs, results, stored)
    opset = node.opset if node.domain else max(node.opset, _COUNTED.get(node.op_type, 0))
    version = onnx.helper.make_opsetid(node.domain, opset)
    model = onnx.helper.make_model_gen_version(graph, opset_imports=[version])
    # before, initializers have no type unless they are inputs too
    model.ir_version = max(model.ir_version, 4)
    return model


def alone(node: OnnxNode) -> bytes:
    """The model of a node, for `evaluate`."""
    onnx = onnx_package()
    names = [name and f"x{i}" for i, name in enumerate(node.inputs)]
    infos = [onnx.ValueInfoProto(name=name) for name in names if name]
    data: bytes = _model(node, _schema(node), names, infos).SerializeToString()
    return data


def evaluate(model: bytes, inputs: Sequence[Any]) -> list[Any]:
    """What onnx's reference implementation makes of the inputs of such a model, None for those left out."""
    given = {f"x{i}": item for i, item in enumerate(inputs) if item is not None}
    return list(_evaluator_of(model).run(None, given))


def inferred(node: OnnxNode, infos: Mapping[str, Tensor], arrays: Mapping[str, Array]) -> list[Tensor]:
    """What onnx says of the results of a node, all of whose inputs have a type, and some are known.

    Raises:
        UnsupportedError, ShapeError: it says that they cannot be.
    """
    onnx, schema = onnx_package(), _schema(node)
    inputs, stored = [], []
    names = [name and f"x{i}" for i, name in enumerate(node.inputs)]
    for name, given in zip(names, node.inputs, strict=True):
        if name and given in arrays and arrays[given].nbytes <= _FEW_BYTES and arrays[given].dtype in _PARTS:
            stored.append(onnx.numpy_helper.from_array(np.array(arrays[given]), name))
        elif name:
            info = infos[given]
            made = onnx.helper.make_tensor_value_info(name, info.code, info.shape)
            if not info.is_tensor:
                made.type.ParseFromString(info.kind)
            inputs.append(made)
    model = _model(node, schema, names, inputs, stored)
    return [_info(node, one.type) for one in _inferred_types(onnx, node, model)]


def _info(node: OnnxNode, kind: Any) -> Tensor:
    which = kind.WhichOneof("value")
    if which != "tensor_type":
        return Tensor() if which is None else Tensor(0, None, kind.SerializeToString())
    tensor = kind.tensor_type
    if not tensor.elem_type:
        return Tensor()
    if not tensor.HasField("shape"):
        return Tensor(tensor.elem_type)
    dims = tuple(int(dim.dim_value) if dim.WhichOneof("value") == "dim_value" else None for dim in tensor.shape.dim)
    check_size(dims, 1, node.where)
    return Tensor(tensor.elem_type, dims)


def check_types(node: OnnxNode, given: Mapping[int, int | None]) -> None:
    """Refuse operands, by their position, of types that the operator does not take, as far as these are known.

    Raises:
        UnsupportedError: one that it does not take.
    """
    schema, codes = _schema(node), dict[str, int]()
    for index, code in given.items():
        if code is not None:
            _check_type(schema, node, index, code, codes)


def _code(node: OnnxNode, item: Tensor) -> int:
    """onnx's number of a tensor's element type.

    Raises:
        UnsupportedError: an operand of a type that the package does not have; small known ones may have any.
    """
    code = CODES.get(item.dtype) if (part := _part(item)) is None else _PARTS.get(part.dtype)
    if code is None:
        raise UnsupportedError(f"{node.where}: {item.dtype} data; {REMEDY}")
    return code


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
        UnsupportedError: operators that are not standard, subgraphs.
    """
    _schema(node)


# whether a value is of a type of attributes, by onnx's number
_ATTRIBUTES: dict[int, Callable[[Any], bool]] = {
    1: lambda value: isinstance(value, float | int),
    2: lambda value: isinstance(value, int),
    3: lambda value: isinstance(value, str),
    4: lambda value: isinstance(value, np.ndarray),
    6: lambda value: isinstance(value, list) and all(isinstance(item, float | int) for item in value),
    7: lambda value: isinstance(value, list) and all(isinstance(item, int) for item in value),
    8: lambda value: isinstance(value, list) and all(isinstance(item, str) for item in value),
    11: lambda value: isinstance(value, Sparse),
}


def _of_no_type(_: Any) -> bool:
    return False


# what onnx's inference of shapes takes for granted, where it reads beyond its data otherwise
_RANGES: dict[str, dict[str, tuple[int, int]]] = {"GatherND": {"batch_dims": (0, MAX_NDIM)}}


def _schema(node: OnnxNode) -> Any:
    """What onnx says of the operator."""
    onnx = onnx_package()
    try:
        schema = onnx.defs.get_schema(node.op_type, node.opset, node.domain)
    except (onnx.defs.SchemaError, TypeError):
        # the latter of versions that are no int of 32 bits
        name = f"{node.domain}.{node.op_type}" if node.domain else node.op_type
        known = {operator.name for operator in onnx.defs.get_all_schemas()}
        near = "" if node.op_type in known else suggest(node.op_type, known).replace("'", "")
        raise UnsupportedError(
            f"{node.where}: no op for {name}, nor has onnx one in opset {node.opset}{near}"
        ) from None
    if node.bodies:
        raise UnsupportedError(f"{node.where}: subgraphs, which only control flow has")
    for name, value in node.attrs.items():
        if name not in schema.attributes:
            raise UnsupportedError(f"{node.where}: attribute {name!r}")
        if not _ATTRIBUTES.get(int(schema.attributes[name].type), _of_no_type)(value):
            raise UnsupportedError(f"{node.where}: attribute {name!r} of its type")
    for name, (low, high) in _RANGES.get(node.op_type, {}).items():
        if not low <= node.attrs.get(name, low) <= high:
            raise UnsupportedError(f"{node.where}: {name}={node.attrs[name]}, only from {low} to {high}")
    return schema


def _inputs_of(
    node: OnnxNode, given: Sequence[str], known: Mapping[str, Tensor]
) -> Callable[[Sequence[Array]], list[Any]]:
    """The node's inputs, None for those left out, of the operands that a call gives."""
    parts = [known[name].array if name and name not in given else None for name in node.inputs]
    places = [(index, given.index(name)) for index, name in enumerate(node.inputs) if name in given]

    def inputs(arrays: Sequence[Array]) -> list[Any]:
        found: list[Any] = parts.copy()
        for index, number in places:
            found[index] = arrays[number]
        return found

    return inputs


def _by_numpy(
    node: OnnxNode, given: Sequence[str], known: Mapping[str, Tensor], wanted: Sequence[Wanted]
) -> Compute | None:
    """The node by NumPy; None: it is not among what that does."""
    function = COMPUTES.get(node.op_type) if not node.domain else None
    # what saturates has more rules than NumPy's conversion
    if function is None or any(code in _FLOAT8 for code, _ in wanted):
        return None
    if node.op_type in KEEPING:
        fixed = [index for index, name in enumerate(node.inputs) if name and known[name].array is not None]
        return KEEPING[node.op_type](fixed)
    if node.op_type in RESHAPING and given == [node.inputs[0]] and None not in wanted[0].shape:
        shape = wanted[0].shape
        return lambda node, inputs: inputs[0].reshape(shape)
    return function


def _by_kernel(node: OnnxNode, given: Sequence[str], known: Mapping[str, Tensor]) -> Own | None:
    """Own code for the node on these operands, or None."""
    find = NATIVE.get(node.op_type) if not node.domain else None
    if find is None:
        return None
    inputs: list[Array | Described | None] = []
    for name in node.inputs:
        item = known[name] if name else None
        if item is None or item.array is not None:
            inputs.append(None if item is None else item.array)
            continue
        shape = tuple(size for size in item.sizes if size is not None)
        if item.value is None or len(shape) < len(item.sizes):
            return None
        inputs.append(Described(item.dtype, shape, given.index(name)))
    return find(node, inputs)


def _part(item: Tensor) -> Array | None:
    return item.array if item.array is not None and item.array.nbytes <= _FEW_BYTES else None


def _inferred_types(onnx: Any, node: OnnxNode, model: Any) -> Any:
    """The outputs of a model of one node, with what onnx infers of them.

    Raises:
        ShapeError: shapes or numbers that do not fit.
        UnsupportedError: onnx cannot infer them for another reason.
    """
    try:
        found = onnx.shape_inference.infer_shapes(model, strict_mode=True)
    except MemoryError:
        raise
    except Exception as error:
        text = " ".join(str(error).split())
        # of a type's fault it says another word there
        kind = ShapeError if "): [ShapeInferenceError]" in text else UnsupportedError
        raise kind(f"{node.where}: onnx cannot infer its results: {text[:300]}") from None
    return found.graph.output


def _inferred(onnx: Any, node: OnnxNode, model: Any) -> list[Wanted]:
    results = []
    for info in _inferred_types(onnx, node, model):
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


def folded(node: OnnxNode, known: Mapping[str, Tensor], budget: Budget, one: Found) -> tuple[Array, ...] | None:
    """Its results, where its operands are known now and these are small."""
    given = [known[name].array if name else None for name in node.inputs]
    items = [item for item in given if item is not None]
    if len(items) < sum(map(bool, node.inputs)) or not one.is_known:
        return None
    size = sum(wanted.nbytes for wanted in one.reference.results) + sum(item.nbytes for item in items)
    size += needed(node, given)
    # a step of constants is computed as well, when the net is compiled
    budget.spend(size, node.where)
    if size > _MOST_BYTES:
        return None
    try:
        return tuple(one.reference([given[i] for i in one.operands]))  # type: ignore[misc]
    except (UnsupportedError, MemoryError):
        raise
    except Error as error:
        raise UnsupportedError(str(error)) from None


def depends_on_data(node: OnnxNode, known: Mapping[str, Tensor]) -> bool:
    """Whether the shapes of its results are those of numbers that a graph computes."""
    slots = _BY_DATA.get(node.op_type, ()) if not node.domain else ()
    if slots and node.op_type in _UNTOLD:
        return True
    return any(
        i < len(node.inputs)
        and node.inputs[i]
        and (value := known[node.inputs[i]].value) is not None
        and not value.is_constant
        for i in slots
    )


def is_open(node: OnnxNode, known: Mapping[str, Tensor]) -> bool:
    """Whether its results may depend on sizes that are known at the call only."""
    items = [known[name] for name in node.inputs if name]
    return any(item.unknown is not None or None in item.sizes for item in items)


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
    made = graph._add_node("Wildcard", step.where, operands, {}, metas, slots, None, step.node.name.replace("\0", "?"))
    node = made[0].node
    assert node is not None
    node.host = one.reference
    return made
