"""Computes nodes that no rule supports, by NumPy or by onnx's reference implementation, which is slow."""

from __future__ import annotations

import functools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from hashlib import sha256
from typing import Any, NamedTuple

import numpy as np

from ...errors import Error, RuntimeUnavailableError, ShapeError, UnsupportedError
from ...graph import Graph, Value
from ...graph.json_format import MAX_NDIM
from ...once import once
from ...schema.arguments import suggest
from ...shapes import Meta
from ..reading import records
from ..reading.budget import Budget
from ..reading.equation import axes_of
from ..reading.faults import REMEDY, check_size
from ..reading.node import Array, OnnxNode, Sparse, Tensor
from ..reading.numpy_steps import NATIVE, Compute, Described, Own, bound, needed, row_of
from ..reading.step import Step
from ..reading.types import CODES, DTYPES, NUMPY, type_name
from .model import onnx_package

# known tensors up to so many bytes are part of the step, so that shapes can be inferred; larger ones are operands
_FEW_BYTES = 1 << 12
# most bytes that the slow reference implementation folds
_MOST_BYTES = 1 << 20
_FLOAT8 = (17, 19)
_PARTS = {np.dtype(kind): code for code, kind in NUMPY.items()}


# defaults that onnx's shape inference mistakes
_STATED: dict[str, dict[str, Any]] = {"STFT": {"onesided": 1}}

# until these opsets onnx counts windows that begin beyond the data, or infers nothing
_LATER = {
    **dict.fromkeys(("AveragePool", "LpPool", "MaxPool"), 22),
    **dict.fromkeys(("GreaterOrEqual", "LessOrEqual"), 16),
}
# operators that onnx never infers: the result has the first input's shape and type
_LIKE_FIRST = frozenset({"GroupNormalization", "MeanVarianceNormalization"})

# random operators; onnx marks more
_RANDOM = frozenset(
    {"Bernoulli", "Dropout", "Multinomial", "RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike"}
)


# the domains of ONNX Runtime's own operators
_RUNTIME = "com.microsoft"


# operators whose shapes onnx does not infer even from known inputs
_UNTOLD = frozenset({"Compress", "NonMaxSuppression", "NonZero", "Unique"})


@functools.lru_cache(maxsize=64)
def _evaluator_of(model: bytes) -> Any:
    from onnx.reference import ReferenceEvaluator

    return ReferenceEvaluator(model)


def check_runs(where: str, model: bytes) -> None:
    """Checks that the reference implementation runs a model of one node.

    Raises:
        UnsupportedError: it lacks the operator, or these attributes of it.
        RuntimeUnavailableError: it needs a package that is missing.
    """
    onnx_package()
    try:
        _evaluator_of(model)
    except ImportError as error:
        raise RuntimeUnavailableError(f"{where}: runs by onnx.reference only: {error}") from error
    except NotImplementedError:
        # the message lists all operators
        raise UnsupportedError(f"{where}: not even onnx.reference has it") from None
    except MemoryError:
        raise
    except Exception as error:
        raise UnsupportedError(f"{where}: onnx.reference: {type(error).__name__}: {error}") from None


class Wanted(NamedTuple):
    """An inferred result: onnx's number of its element type, and its shape."""

    code: int
    shape: tuple[int | None, ...]

    @property
    def nbytes(self) -> int:
        return math.prod(map(int, self.shape)) * np.dtype(NUMPY[self.code]).itemsize  # type: ignore[arg-type]


@dataclass(frozen=True, eq=False)
class Reference:
    """A node as a function of the operands that are not part of it."""

    node: OnnxNode
    results: tuple[Wanted, ...]
    # for each input its known array, else the number of the call's array
    inputs: tuple[Array | int | None, ...]
    # the NumPy step, if there is one
    compute: Compute | None
    own: Own | None

    @property
    def title(self) -> str:
        return self.node.op_type

    @property
    def by(self) -> str:
        return "onnx.reference" if self.compute is None else "NumPy"

    @once
    def key(self) -> bytes:
        node, inputs = self.node, {str(i): item for i, item in enumerate(self.inputs)}
        record = records.of_items({**node.attrs, **inputs}, _digest)
        return repr((node.domain, node.op_type, node.opset, *map(bool, node.outputs), self.results, record)).encode()

    @once
    def model(self) -> bytes:
        return alone(self.node)

    def check(self) -> None:
        """Raises if the reference implementation lacks the operator, too."""
        if self.compute is None:
            check_runs(self.node.where, self.model)

    def __call__(self, arrays: Sequence[Array]) -> list[Array]:
        """Returns the results.

        Raises:
            Error: onnx.reference fails, or its results differ from those that onnx inferred.
        """
        try:
            with np.errstate(all="ignore"):
                found = [np.asarray(item) for item in self._run(arrays)]
        except (Error, MemoryError):
            raise
        except Exception as error:
            raise Error(f"{self.node.where}: {self.by}: {type(error).__name__}: {error}") from None
        for array, wanted in zip(found, self.results, strict=True):
            if array.shape != wanted.shape:
                raise ShapeError(f"{self.node.where}: {self.by} gives shape {array.shape}, not {wanted.shape}")
        with np.errstate(all="ignore"):
            return [array.astype(NUMPY[one.code], copy=False) for array, one in zip(found, self.results, strict=True)]

    def _run(self, arrays: Sequence[Array]) -> Sequence[Any]:
        inputs = [arrays[item] if isinstance(item, int) else item for item in self.inputs]
        bound(self.node, inputs)
        if self.compute is None:
            return evaluate(self.model, [None if item is None else np.array(item) for item in inputs])
        results = self.compute(self.node, inputs)
        return results if isinstance(results, tuple) else (results,)


def _digest(array: Array) -> int:
    return int.from_bytes(sha256(array.tobytes()).digest(), "little")


class Found(NamedTuple):
    """A node for the reference implementation, and its operands at a call."""

    reference: Reference
    operands: tuple[int, ...]

    @property
    def metas(self) -> list[Meta]:
        """Shapes and dtypes of the results.

        Raises:
            UnsupportedError: dtypes that the package lacks.
        """
        for code, _ in self.reference.results:
            if code not in DTYPES:
                raise UnsupportedError(f"{self.reference.node.where}: gives {type_name(code)}; {REMEDY}")
        return [Meta(shape, DTYPES[code]) for code, shape in self.reference.results]

    @property
    def is_known(self) -> bool:
        return not any(None in shape for _, shape in self.reference.results)


def found(node: OnnxNode, known: Mapping[str, Tensor]) -> Found:
    """Returns the node for the reference implementation.

    Raises:
        UnsupportedError: non-standard or random operators, subgraphs, non-numeric types, results that onnx cannot
            infer.
        ShapeError: impossible shapes.
    """
    _schema(node)
    if node.op_type in _RANDOM:
        raise UnsupportedError(f"{node.where}: gives random numbers, which no op does")
    if depends_on_data(node, known):
        raise UnsupportedError(f"{node.where}: the shape of its result depends on data")
    items = {name: known[name] for name in node.inputs if name}
    infos = {name: Tensor(_code(node, item), item.sizes) for name, item in items.items()}
    check_types(node, {index: infos[name].code for index, name in enumerate(node.inputs) if name})
    arrays = {name: item.array for name, item in items.items() if item.array is not None}
    wanted = tuple(_wanted(node, info) for info in inferred(node, infos, arrays))
    given = [name for name, item in items.items() if _part(item) is None]
    if node.op_type == "Resize" and given == [node.inputs[0]] and not is_open(node, known):
        # onnx leaves out sizes of 0
        wanted = tuple(one._replace(shape=tuple(size or 0 for size in one.shape)) for one in wanted)
    inputs = [None if not name else given.index(name) if name in given else arrays[name] for name in node.inputs]
    reference = Reference(node, wanted, tuple(inputs), _by_numpy(node, known, wanted), _by_kernel(node, given, known))
    reference.check()
    return Found(reference, tuple(map(node.inputs.index, given)))


def _proto(node: OnnxNode) -> Any:
    """Returns the node as a NodeProto with inputs x0, x1, ... and outputs y0, y1, ..."""
    onnx, schema = onnx_package(), _schema(node)
    inputs = [name and f"x{i}" for i, name in enumerate(node.inputs)]
    outputs = [f"y{i}" for i in range(len(node.outputs))]
    made = onnx.NodeProto(op_type=node.op_type, domain=node.domain, input=inputs, output=outputs)
    stated = _STATED.get(node.op_type, {}) if not node.domain else {}
    for name, value in {**stated, **node.attrs}.items():
        if isinstance(value, Sparse):
            # an attribute of a Constant, which nothing here runs
            continue
        plain = onnx.numpy_helper.from_array(value) if isinstance(value, np.ndarray) else value
        try:
            made.attribute.append(onnx.helper.make_attribute(name, plain, attr_type=int(schema.attributes[name].type)))
        except (AssertionError, TypeError, ValueError):
            raise UnsupportedError(f"{node.where}: attribute {name!r} of its type") from None
    return made


def _version(node: OnnxNode) -> Any:
    opset = node.opset if node.domain else max(node.opset, _LATER.get(node.op_type, 0))
    return onnx_package().helper.make_opsetid(node.domain, opset)


def alone(node: OnnxNode) -> bytes:
    """Returns the model of a node, for `evaluate`."""
    onnx = onnx_package()
    made = _proto(node)
    inputs, results = (
        [onnx.ValueInfoProto(name=name) for name in names if name] for names in (made.input, made.output)
    )
    graph = onnx.helper.make_graph([made], "node", inputs, results)
    data: bytes = onnx.helper.make_model_gen_version(graph, opset_imports=[_version(node)]).SerializeToString()
    return data


def evaluate(model: bytes, inputs: Sequence[Any]) -> list[Any]:
    """Returns the reference implementation's results of a model; inputs that are left out are None."""
    given = {f"x{i}": item for i, item in enumerate(inputs) if item is not None}
    return list(_evaluator_of(model).run(None, given))


def inferred(node: OnnxNode, infos: Mapping[str, Tensor], arrays: Mapping[str, Array]) -> list[Tensor]:
    """Returns onnx's inferred results of a node, whose inputs all have types and some are known.

    Raises:
        ShapeError: shapes or numbers that do not fit.
        UnsupportedError: onnx cannot infer them for another reason.
    """
    onnx = onnx_package()
    kinds, data = {}, {}
    for i, name in enumerate(node.inputs):
        if not name:
            continue
        info = infos[name]
        kinds[f"x{i}"] = (
            onnx.helper.make_tensor_type_proto(info.code, info.shape)
            if info.is_tensor
            else onnx.TypeProto.FromString(info.kind)
        )
        if name in arrays and arrays[name].nbytes <= _FEW_BYTES and arrays[name].dtype in _PARTS:
            data[f"x{i}"] = onnx.numpy_helper.from_array(np.array(arrays[name]), f"x{i}")
    if node.op_type == "Einsum":
        # onnx takes a size of 1 for the result's, and reads some equations for ever
        shapes = [infos[name].shape for name in node.inputs]
        known = [shape for shape in shapes if shape is not None]
        shape = axes_of(node.attrs.get("equation"), known, node.where).shape if len(known) == len(shapes) else None
        return [Tensor(infos[node.inputs[0]].code, shape)]
    version, made = _version(node), _proto(node)
    schema = onnx.defs.get_schema(node.op_type, version.version, node.domain)
    if node.op_type in _LIKE_FIRST and not node.domain:
        return [Tensor(infos[node.inputs[0]].code, infos[node.inputs[0]].shape)]
    try:
        kinds = onnx.shape_inference.infer_node_outputs(schema, made, kinds, data, opset_imports=[version])
    except MemoryError:
        raise
    except Exception as error:
        text = " ".join(str(error).split())
        # for a type error the message has another word
        kind = ShapeError if "[ShapeInferenceError]" in text else UnsupportedError
        raise kind(f"{node.where}: onnx cannot infer its results: {text[:300]}") from None
    results = [_info(node, kinds.get(name)) for name in made.output]
    sizes = tuple(node.attrs.get("output_shape") or ()) if node.op_type == "ConvTranspose" else ()
    image, weights = (infos[name].sizes for name in node.inputs[:2]) if sizes else ((), ())
    if sizes and len(image) == len(weights) == len(sizes) + 2:
        # onnx takes the sizes of the spatial axes for those of all
        count = None if weights[1] is None else weights[1] * int(node.attrs.get("group", 1))
        results[0] = replace(results[0], shape=(image[0], count, *sizes))
    return results


def _info(node: OnnxNode, kind: Any) -> Tensor:
    which = kind and kind.WhichOneof("value")
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


def _wanted(node: OnnxNode, info: Tensor) -> Wanted:
    """
    Raises:
        UnsupportedError: no tensor, an unknown rank, or a dtype that NumPy lacks.
    """
    if info.code == 0:
        raise UnsupportedError(f"{node.where}: gives no tensor")
    if not info.code or info.shape is None:
        raise UnsupportedError(f"{node.where}: onnx cannot infer the number of axes of its results")
    if info.code not in NUMPY:
        raise UnsupportedError(f"{node.where}: gives {type_name(info.code)}; {REMEDY}")
    check_size(info.shape, np.dtype(NUMPY[info.code]).itemsize, node.where)
    return Wanted(info.code, info.shape)


def check_types(node: OnnxNode, given: Mapping[int, int | None]) -> None:
    """Checks the known dtypes of operands, by position.

    Raises:
        UnsupportedError: a dtype that the operator does not take, or operands of different dtypes that must be equal.
    """
    slots, codes = _schema(node).inputs, dict[str, int]()
    for index, code in given.items():
        if code is None or not slots or (index >= len(slots) and not slots[-1].is_homogeneous):
            continue
        slot = slots[min(index, len(slots) - 1)]
        alike = codes.setdefault(slot.type_str, code) if slot.is_homogeneous else code
        if alike != code or f"tensor({type_name(code).lower()})" not in slot.types:
            raise UnsupportedError(
                f"{node.where}: {slot.name} of {type_name(code)}, which {node.op_type} does not take"
            )


def _code(node: OnnxNode, item: Tensor) -> int:
    """Returns onnx's number of a tensor's element type.

    Raises:
        UnsupportedError: an operand of a dtype that the package lacks; small known operands may have any dtype.
    """
    code = CODES.get(item.dtype) if (part := _part(item)) is None else _PARTS.get(part.dtype)
    if code is None:
        raise UnsupportedError(f"{node.where}: {item.dtype} data; {REMEDY}")
    return code


def check(node: OnnxNode) -> None:
    """Checks that the reference implementation can have the operator, for any inputs.

    Raises:
        UnsupportedError: non-standard operators, subgraphs.
    """
    _proto(node)
    if node.op_type == "Multinomial" and not node.domain:
        raise UnsupportedError(f"{node.where}: draws random numbers; draw outside of the model")


# preconditions of onnx's shape inference, which else reads beyond its data
_RANGES: dict[str, dict[str, tuple[int, int]]] = {"GatherND": {"batch_dims": (0, MAX_NDIM)}}


def _schema(node: OnnxNode) -> Any:
    """Returns onnx's schema of the operator."""
    onnx = onnx_package()
    try:
        schema = onnx.defs.get_schema(node.op_type, node.opset, node.domain)
    except (onnx.defs.SchemaError, TypeError):
        # the latter for versions beyond 32 bits
        name = f"{node.domain}.{node.op_type}" if node.domain else node.op_type
        if node.domain.startswith(_RUNTIME):
            raise UnsupportedError(
                f"{node.where}: no op for {name}, which ONNX Runtime alone has; save the model before ONNX Runtime "
                "optimizes it, or with ORT_ENABLE_EXTENDED at most"
            ) from None
        known = {operator.name for operator in onnx.defs.get_all_schemas()}
        near = "" if node.op_type in known else suggest(node.op_type, known).replace("'", "")
        raise UnsupportedError(
            f"{node.where}: no op for {name}, nor has onnx one in opset {node.opset}{near}"
        ) from None
    if node.bodies:
        raise UnsupportedError(f"{node.where}: subgraphs, which only control flow has")
    for name in node.attrs:
        if name not in schema.attributes:
            raise UnsupportedError(f"{node.where}: attribute {name!r}")
    for name, (low, high) in _RANGES.get(node.op_type, {}).items():
        if not low <= node.attrs.get(name, low) <= high:
            raise UnsupportedError(f"{node.where}: {name}={node.attrs[name]}, only from {low} to {high}")
    return schema


def _by_numpy(node: OnnxNode, known: Mapping[str, Tensor], wanted: Sequence[Wanted]) -> Compute | None:
    """Returns the NumPy step of the node, or None."""
    row = row_of(node)
    # saturating casts follow more rules than NumPy's conversion
    if row is None or any(code in _FLOAT8 for code, _ in wanted):
        return None
    if row.keeping is None:
        return row.compute
    return row.keeping([i for i, name in enumerate(node.inputs) if name and known[name].array is not None])


def _by_kernel(node: OnnxNode, given: Sequence[str], known: Mapping[str, Tensor]) -> Own | None:
    """Returns the builtin kernels for the node on these operands, or None."""
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


def folded(node: OnnxNode, known: Mapping[str, Tensor], budget: Budget, one: Found) -> tuple[Array, ...] | None:
    """Returns the results, if the operands are known now and the results are small."""
    given = [known[name].array if name else None for name in node.inputs]
    items = [item for item in given if item is not None]
    if len(items) < sum(map(bool, node.inputs)) or not one.is_known:
        return None
    size = sum(wanted.nbytes for wanted in one.reference.results) + sum(item.nbytes for item in items)
    size += needed(node, given)
    # a step on constants is folded, too, when the net is compiled
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
    """Whether the results' shapes depend on elements that a graph computes."""
    row = row_of(node)
    slots = () if row is None else row.sizing
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
    """Whether the results may depend on dynamic sizes."""
    items = [known[name] for name in node.inputs if name]
    return any(item.unknown is not None or None in item.sizes for item in items)


def appended(graph: Graph, step: Step, one: Found) -> tuple[Value, ...]:
    """Appends the node to a graph of known sizes.

    Raises:
        UnsupportedError: the shape of a result depends on data.
    """
    metas = one.metas
    if not one.is_known:
        raise UnsupportedError(f"{step.where}: the shape of its result depends on data, or cannot be inferred by onnx")
    operands = [step.value(index) for index in one.operands]
    slots = [f"dst_{i}" for i in range(len(metas))]
    made = graph._add_node("Wildcard", step.where, operands, {}, metas, slots, None, step.node.name.replace("\0", "?"))
    node = made[0].node
    assert node is not None
    node.host = one.reference
    return made
