"""Reads ONNX models as checked data: bounded sizes, initializers as arrays, nodes in topological order."""

from __future__ import annotations

import math
import os
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np

from ... import words
from ..._core import thinned
from ...errors import Error, InvalidArgumentError, RuntimeUnavailableError, ShapeError, UnsupportedError, extra
from ...graph.array_file import field
from ...graph.constants import from_piece
from ...graph.files import ModelFile, Piece
from ...graph.json_format import MAX_OPS
from ...graph.order import topological
from ...once import once
from ...words import counted
from ..reading import records
from ..reading.budget import Budget
from ..reading.faults import check_size
from ..reading.input_shapes import InputShapes, NamedDims, fixed
from ..reading.node import Array, Body, OnnxNode, Reference, Sparse, Tensor, flat
from ..reading.records import Keep, Kept
from ..reading.section import Lent, Section, own_bytes, section_of
from ..reading.types import NUMPY, TYPES, type_name
from . import messages
from .dynamic import written_apart
from .functions import Function, inlined
from .q_operators import in_pairs

Dims = tuple[int | None, ...]

# the size limit of a protobuf message
MAX_BYTES = 1 << 31
_BFLOAT16 = 16
# ONNX Runtime's operators, also with 16 bits and f16 scales, which ONNX has since opset 21
_SINCE_OPSET_21 = frozenset({("com.microsoft", "QuantizeLinear"), ("com.microsoft", "DequantizeLinear")})
# TensorProto.UNDEFINED, TensorProto.EXTERNAL, AttributeProto.GRAPH
_NO_TYPE, _EXTERNAL, _GRAPH = 0, 1, 5
# an initializer of so many bytes stays in the file, which is read as a whole if it has fewer than _WHOLE_BYTES
LARGE_BYTES, _WHOLE_BYTES = 1 << 14, 1 << 16
# field numbers of ModelProto.graph, GraphProto.initializer, TensorProto.raw_data
_ROUTE = (7, 5, 9)


@dataclass(eq=False)
class Model(Section):
    """A model: `infos`: facts of the inputs without initializer; `problems`: unsupported parts."""

    infos: tuple[Tensor, ...]
    problems: tuple[str, ...] = ()

    def record(self, keep: Keep) -> dict[str, Any]:
        return {**super().record(keep), "infos": list(map(records.of_info, self.infos))}


def onnx_package() -> Any:
    """Returns the package `onnx`.

    Raises:
        RuntimeUnavailableError: the package is not installed.
    """
    try:
        import onnx
        import onnx.numpy_helper
    except ImportError as error:
        raise RuntimeUnavailableError(
            f"from_onnx needs the package onnx ({error}); install it: {extra('onnx')}"
        ) from error
    return onnx


def read(source: Any, shapes: InputShapes | None = None) -> Model:
    """Reads a model from a path, bytes, or a ModelProto; `shapes` fixes unknown dims of its inputs.

    Raises:
        TypeError: anything else. FileNotFoundError: a path without a file.
        InvalidArgumentError: no ONNX model, or a contradictory one; ShapeError: impossible shapes.
    """
    onnx = onnx_package()
    stated, folder, filed = _stated(onnx, source)
    graph = stated.graph
    if graph is messages.NO_GRAPH:
        raise InvalidArgumentError("from_onnx: the model has no graph; is the file an ONNX model?")
    _check_graphs((graph, *stated.functions))
    problems: list[str] = []
    stored = _arrays(onnx, graph.initializer, folder, filed, problems)
    arrays = {name: array for name, array in stored.items() if array is not None}
    sparse = _sparse_constants(onnx, graph.sparse_initializer, folder)
    defaults = {*stored, *(node.outputs[0] for node in sparse)}
    inputs = dict(_inputs(graph.input, defaults, problems))
    if shapes is not None:
        inputs |= _fixed(inputs, graph.input, shapes)
    opsets = _opsets(stated.opset_import)
    if not opsets:
        raise InvalidArgumentError("from_onnx: the model imports no version of any operators (opset_import)")
    # the default opset of a model without opset imports
    opsets.setdefault("", int(onnx.defs.onnx_opset_version()))
    nodes = [*sparse, *_nodes(onnx, graph.node, opsets, folder)]
    declared = dict.fromkeys(item.name for item in graph.input)
    given = (*stored, *(name for name in declared if name not in defaults))
    outputs = tuple(item.name for item in graph.output)
    functions = [_function(onnx, function, opsets, folder) for function in stated.functions]
    nbytes = own_bytes(arrays, [*nodes, *(node for function in functions for node in function.nodes)])
    if functions:
        nodes = inlined(nodes, functions, (*given, *outputs))
        _check_count(sum(1 for _ in flat(nodes)))
    return assembled(
        graph.name or "onnx", nodes, arrays, inputs, outputs, opsets[""], sources=given, nbytes=nbytes,
        problems=problems,
    )  # fmt: skip


def assembled(
    name: str,
    nodes: Iterable[OnnxNode],
    arrays: Mapping[str, Array],
    inputs: Mapping[str, Tensor],
    outputs: Sequence[str],
    opset: int,
    *,
    sources: Sequence[str] | None = None,
    nbytes: int | None = None,
    problems: Sequence[str] = (),
) -> Model:
    """Returns the model of nodes in any order, of known arrays, and of the facts of its inputs.

    Args:
        opset: the version of the standard operators.
        sources: names of all tensors that no node makes; None: those of `arrays` and `inputs`.
        nbytes: the size of the model in bytes; None: that of its arrays.
        problems: unsupported parts.

    Raises:
        InvalidArgumentError: tensors that nothing makes, or two nodes make; cycles.
    """
    known, written = dict(arrays), list(nodes)
    names = (*known, *inputs) if sources is None else tuple(sources)
    size = own_bytes(known, written) if nbytes is None else nbytes
    for rewrite in (written_apart, in_pairs):
        written, made = rewrite(written, known, opset, (*names, *outputs))
        known |= made
        names = (*names, *made)
    ordered, budget = _ordered(written, names, outputs), Budget(size).total
    return Model(
        name, tuple(inputs), Lent(known), ordered, tuple(outputs), budget, tuple(inputs.values()), tuple(problems)
    )


@dataclass(frozen=True)
class _Filed:
    """Initializers that stay in the file, by number."""

    file: ModelFile
    # by number: offset and bytes
    large: Mapping[int, tuple[int, int]]

    @once
    def _pieces(self) -> dict[int, Piece]:
        return dict(zip(self.large, self.file.pieces([*self.large.values()]), strict=True))

    def array(self, index: int, tensor: messages.Tensor) -> Array | messages.Tensor:
        """Returns the elements of an initializer; the tensor with its data if NumPy cannot map them."""
        piece = self._pieces.pop(index)
        kind, shape = NUMPY.get(tensor.data_type), tuple(tensor.dims)
        if (
            kind
            and tensor.data_location != _EXTERNAL
            and math.prod(shape) * TYPES[tensor.data_type].itemsize == len(piece)
        ):
            return from_piece(piece, kind, shape)
        return tensor._replace(raw_data=piece[:])


def _thinned(file: ModelFile) -> tuple[bytes, _Filed | None]:
    """Returns the bytes of a file without its large initializers, which stay in the file."""
    try:
        content, ranges = thinned(file.descriptor, file.size, _WHOLE_BYTES, _ROUTE, LARGE_BYTES)
    except ValueError:
        # `Message.read` reports the error
        return file.piece(0, file.size)[:] if file.size else b"", None
    return content, _Filed(file, {index: (offset, nbytes) for index, offset, nbytes in ranges})


def _stated(onnx: Any, source: Any) -> tuple[messages.Model, Path | None, _Filed | None]:
    """Returns what a model's messages state, the folder of its other files, and the initializers left in its file."""
    folder = file = filed = None
    if not isinstance(source, onnx.ModelProto | str | bytes | os.PathLike):
        raise TypeError(f"from_onnx: needs a path, bytes or an onnx.ModelProto, got {type(source).__name__}")
    named = str(source) if isinstance(source, str | os.PathLike) else "the text"
    if isinstance(source, str | os.PathLike):
        path = Path(source)
        file = ModelFile(path, MAX_BYTES, "from_onnx")
        folder = path.resolve().parent
    try:
        if file is not None:
            source, filed = _thinned(file)
        model = messages.read(source) if isinstance(source, bytes) else messages.of_proto(source)
    except (Error, MemoryError, OSError):
        raise
    except Exception as error:  # protobuf's DecodeError has another name in each of its implementations
        raise InvalidArgumentError(
            f"from_onnx: {named} is not an ONNX model: {error}"
            f"{words.of_file(named, '.onnx') or '; see what onnx.checker.check_model says of it'}"
        ) from None
    return model, folder, filed


def of_record(record: Any, kept: Kept, where: str) -> Model:
    """Returns the model of a record, with the checks of `read`.

    Raises:
        InvalidArgumentError: another record, or a model that `read` refuses.
    """
    try:
        section = section_of(record, kept, where)
        _check_count(sum(1 for _ in flat(section.nodes)))
        infos = tuple(records.info_of(item, where) for item in field(record, "infos", list, where))
        if len(infos) != len(section.inputs):
            raise InvalidArgumentError(
                f"{where}: {counted(len(infos), 'type')} for {counted(len(section.inputs), 'input')}"
            )
        bodies = [body for node in flat(section.nodes) for body in node.bodies.values()]
        for info in (*infos, *(info for body in bodies for info in (*body.infos, *body.input_infos))):
            onnx_package().TypeProto().ParseFromString(info.kind)
        if not all(
            isinstance(array, np.ndarray)
            for one in (section.arrays, *(body.arrays for body in bodies))
            for array in one.values()
        ):
            raise InvalidArgumentError(f"{where}: needs arrays")
        for body in bodies:
            _ordered(body.nodes, (*dict.fromkeys(body.inputs), *body.arrays, *body.free), ())
        nodes = _ordered(section.nodes, (*section.arrays, *section.inputs), section.outputs)
    except (Error, MemoryError):
        raise
    except Exception as error:  # protobuf's DecodeError has another name in each of its implementations
        raise InvalidArgumentError(f"{where}: {type(error).__name__}: {error}") from None
    return Model(**{**vars(section), "nodes": nodes}, infos=infos)


def _check_graphs(graphs: Sequence[Any]) -> None:
    """Raises for too many nodes, and for subgraphs nested too deeply for recursion."""
    count, stack = len(graphs) - 1, [(graph, 0) for graph in graphs]
    while stack:
        graph, depth = stack.pop()
        count += len(graph.node)
        _check_count(count)
        if depth > messages.MOST_DEPTH:
            raise InvalidArgumentError(f"from_onnx: subgraphs in subgraphs, more than {messages.MOST_DEPTH} deep")
        inner = [attr.g for node in graph.node for attr in node.attribute if attr.type == _GRAPH]
        stack += [(one, depth + 1) for one in inner]


def _check_count(nodes: int) -> None:
    if nodes > MAX_OPS:
        raise InvalidArgumentError(f"from_onnx: {nodes} nodes, more than {MAX_OPS}")


def _domain(name: str) -> str:
    """Returns the canonical domain; standard operators have two names for it."""
    return "" if name == "ai.onnx" else name


def _opsets(imports: Iterable[messages.Opset]) -> dict[str, int]:
    """Returns {domain: opset version}; the first import of a domain counts."""
    found: dict[str, int] = {}
    for item in imports:
        found.setdefault(_domain(item.domain), int(item.version))
    return found


def _arrays(
    onnx: Any, tensors: Iterable[messages.Tensor], folder: Path | None, filed: _Filed | None, problems: list[str]
) -> dict[str, Array | None]:
    """Returns the initializers by name; None for an unsupported one."""
    arrays: dict[str, Array | None] = {}
    for index, tensor in enumerate(tensors):
        name = tensor.name
        where = f"ONNX initializer {name[:80]!r}"
        if name in arrays:
            raise InvalidArgumentError(f"{where}: the name is used twice")
        try:
            elements: Array | messages.Tensor = tensor
            if filed is not None and index in filed.large:
                check_size(tensor.dims, 1, where)
                elements = filed.array(index, tensor)
            arrays[name] = elements if isinstance(elements, np.ndarray) else array_of(onnx, elements, folder, where)
        except UnsupportedError as error:
            problems.append(str(error))
            arrays[name] = None
    return arrays


def array_of(onnx: Any, tensor: messages.Tensor, folder: Path | None, where: str) -> Array:
    """Returns the elements of a TensorProto."""
    dims = tuple(tensor.dims)
    check_size(dims, 1, where)
    kind, raw = NUMPY.get(tensor.data_type), tensor.raw_data
    if (
        kind
        and raw
        and tensor.data_location != _EXTERNAL
        and math.prod(dims) * TYPES[tensor.data_type].itemsize == len(raw)
    ):
        return np.frombuffer(raw, kind).reshape(dims)
    if tensor.data_type == _NO_TYPE or tensor.data_type not in onnx.TensorProto.DataType.values():
        raise UnsupportedError(f"{where}: element type {type_name(tensor.data_type)}")
    external = tensor.data_location == _EXTERNAL
    if external and folder is None:
        raise InvalidArgumentError(f"{where}: its data is in another file; pass the model's path, not its content")
    try:
        array = np.asarray(onnx.numpy_helper.to_array(_proto(onnx, tensor), str(folder) if external else ""))
    except MemoryError:
        raise
    except Exception as error:
        place = f"; its data is read from {folder}, the folder that the model's path leads to" if external else ""
        raise InvalidArgumentError(f"{where}: {type(error).__name__}: {error}{place}") from None
    if array.shape != dims:
        raise ShapeError(f"{where}: has {array.shape} elements, but dims {dims}")
    return array.astype(ml_dtypes.bfloat16) if tensor.data_type == _BFLOAT16 else array


def _proto(onnx: Any, tensor: messages.Tensor) -> Any:
    if tensor.whole and not tensor.raw_data:
        return onnx.TensorProto.FromString(tensor.whole)
    location = {"data_location": _EXTERNAL} if tensor.data_location == _EXTERNAL else {}
    return onnx.TensorProto(dims=tensor.dims, data_type=tensor.data_type, raw_data=tensor.raw_data, **location)


def _sparse_constants(onnx: Any, tensors: Iterable[messages.SparseTensor], folder: Path | None) -> list[OnnxNode]:
    """Returns sparse initializers as Constant nodes, whose dense size counts in the budget of nodes."""
    names = [tensor.values.name for tensor in tensors]
    return [
        OnnxNode(name, "Constant", "", "", 13, (), (name,), {"sparse_value": _sparse(onnx, tensor, folder, where)})
        for name, tensor in zip(names, tensors, strict=True)
        for where in [f"ONNX sparse initializer {name[:80]!r}"]
    ]


def _sparse(onnx: Any, tensor: messages.SparseTensor, folder: Path | None, where: str) -> Sparse:
    dims = tuple(tensor.dims)
    check_size(dims, 1, where)
    values, indices = (array_of(onnx, item, folder, where) for item in (tensor.values, tensor.indices))
    forms = values.shape, (values.size, len(dims))
    if values.ndim != 1 or indices.dtype.kind not in "iu" or indices.shape not in forms:
        places = f"{indices.dtype} indices of shape {indices.shape}"
        raise ShapeError(f"{where}: values of shape {values.shape} at {places} of a tensor of {dims}")
    return Sparse(values, indices, dims)


def _inputs(infos: Iterable[Any], stored: Collection[str], problems: list[str]) -> Iterator[tuple[str, Tensor]]:
    seen = set(stored)
    for info in infos:
        name = info.name
        if name in stored:
            continue
        where = f"ONNX input {name[:80]!r}"
        if name in seen:
            raise InvalidArgumentError(f"{where}: the name is used twice")
        seen.add(name)
        try:
            yield name, info_of(info, where)
        except UnsupportedError as error:
            problems.append(str(error))


def _fixed(inputs: Mapping[str, Tensor], infos: Iterable[Any], shapes: InputShapes) -> dict[str, Tensor]:
    """Returns the inputs, with the dims that `shapes` fixes."""
    dims = {info.name: info.type.tensor_type.shape.dim for info in infos}
    declared: dict[str, NamedDims | None] = {}
    for name, one in inputs.items():
        if one.is_tensor:
            names = [messages.text_of(dim.dim_param) or None for dim in dims[name]]
            declared[name] = one.shape and tuple(n if d is None else d for d, n in zip(one.shape, names, strict=True))
    found = fixed(shapes, declared, "from_onnx: 'shapes'")
    return {name: replace(inputs[name], shape=shape) for name, shape in found.items()}


def info_of(info: messages.Info, where: str) -> Tensor:
    """Returns the facts of a ValueInfoProto.

    Raises:
        UnsupportedError: neither a tensor of numbers or strings, nor a sequence or an optional.
    """
    kind = info.type.WhichOneof("value")
    if kind in ("sequence_type", "optional_type"):
        return Tensor(0, None, info.type.SerializeToString())
    if kind != "tensor_type":
        raise UnsupportedError(f"{where}: a {(kind or 'value without type').replace('_type', '')}, not a tensor")
    tensor = info.type.tensor_type
    if tensor.elem_type == _NO_TYPE or tensor.elem_type not in onnx_package().TensorProto.DataType.values():
        raise UnsupportedError(f"{where}: element type {type_name(tensor.elem_type)}")
    if not tensor.HasField("shape"):
        return Tensor(tensor.elem_type)
    # exporters write -1 for a dynamic dim
    dims = tuple(
        int(dim.dim_value) if dim.WhichOneof("value") == "dim_value" and dim.dim_value >= 0 else None
        for dim in tensor.shape.dim
    )
    check_size(dims, 1, where)
    return Tensor(tensor.elem_type, dims)


def _nodes(onnx: Any, nodes: Iterable[messages.Node], opsets: Mapping[str, int], folder: Path | None) -> list[OnnxNode]:
    return [_node(onnx, node, i, opsets, folder) for i, node in enumerate(nodes)]


def _node(onnx: Any, node: messages.Node, index: int, opsets: Mapping[str, int], folder: Path | None) -> OnnxNode:
    kind, domain = node.op_type, _domain(node.domain)
    inputs, outputs = node.input, node.output
    name = node.name or next(filter(None, outputs), f"{kind}_{index}")
    opset = opsets.get(domain, opsets[""])
    if (domain, kind) in _SINCE_OPSET_21:
        domain, opset = "", 21
    attrs: dict[str, Any] = {}
    read = OnnxNode(name, kind, domain, node.overload, opset, inputs, outputs, attrs)
    for attr in node.attribute:
        attrs[attr.name] = _attribute(onnx, attr, opsets, folder, read)
    return read


def _function(onnx: Any, function: messages.Function, opsets: Mapping[str, int], folder: Path | None) -> Function:
    """Returns the function of a FunctionProto; domains without an opset import have the model's."""
    identity = _domain(function.domain), function.name, function.overload
    inputs, outputs = function.input, function.output
    read = Function(identity, inputs, outputs, {}, ())
    own = {**opsets, **_opsets(function.opset_import)}
    return replace(
        read,
        defaults={attr.name: _attribute(onnx, attr, own, folder, read) for attr in function.attribute_proto},
        nodes=tuple(_nodes(onnx, function.node, own, folder)),
    )


def _body(onnx: Any, graph: messages.Graph, opsets: Mapping[str, int], folder: Path | None, where: str) -> Body | None:
    """Returns a subgraph; None if a part of it is unsupported."""
    problems: list[str] = []
    stored = _arrays(onnx, graph.initializer, folder, None, problems)
    nodes = [*_sparse_constants(onnx, graph.sparse_initializer, folder), *_nodes(onnx, graph.node, opsets, folder)]
    inputs, outputs = (tuple(item.name for item in some) for some in (graph.input, graph.output))
    if problems:
        return None
    arrays = {name: array for name, array in stored.items() if array is not None and name not in inputs}
    input_infos, infos = (tuple(_declared(item, where) for item in some) for some in (graph.input, graph.output))
    read = Body(inputs, arrays, tuple(nodes), outputs, infos, input_infos)
    return replace(read, nodes=_ordered(read.nodes, (*dict.fromkeys(inputs), *arrays, *read.free), ()))


def _declared(item: Any, where: str) -> Tensor:
    """Returns a subgraph's declared facts of an input or output, if any."""
    try:
        return info_of(item, where)
    except UnsupportedError:
        return Tensor()


# by the number of an attribute's type (AttributeProto.AttributeType): the item with its number or text, or its list
_ITEMS = {1: "f", 2: "i", 3: "s"}
_LISTS = {6: "floats", 7: "ints", 8: "strings"}


def _attribute(onnx: Any, attr: Any, opsets: Mapping[str, int], folder: Path | None, of: OnnxNode | Function) -> Any:
    if attr.ref_attr_name:
        return Reference(attr.ref_attr_name)
    if attr.type in _ITEMS:
        return getattr(attr, _ITEMS[attr.type])
    if attr.type in _LISTS:
        return [*getattr(attr, _LISTS[attr.type])]
    kinds = onnx.AttributeProto
    if attr.type == kinds.TENSOR:
        try:
            return array_of(onnx, attr.t, folder, f"{of.where}: attribute {attr.name!r}")
        except UnsupportedError:
            return None
    if attr.type == kinds.SPARSE_TENSOR:
        return _sparse(onnx, attr.sparse_tensor, folder, f"{of.where}: attribute {attr.name!r}")
    if attr.type == kinds.GRAPH:
        return _body(onnx, attr.g, opsets, folder, of.where)
    return None


def _ordered(nodes: Sequence[OnnxNode], given: Iterable[str], outputs: Sequence[str]) -> tuple[OnnxNode, ...]:
    """Returns the nodes in topological order, by position where the order is free.

    Raises:
        InvalidArgumentError: two nodes write one tensor, a tensor that nothing writes, a cycle.
    """
    maker: dict[str, int | None] = {}
    for name in given:
        if name in maker:
            raise InvalidArgumentError(f"from_onnx: the input {name[:80]!r} is declared twice")
        maker[name] = None
    for i, node in enumerate(nodes):
        for name in filter(None, node.outputs):
            if name in maker:
                raise InvalidArgumentError(f"{node.where}: the tensor {name[:80]!r} has been made before")
            maker[name] = i
    missing = [f"{n.where} reads {name[:80]!r}" for n in nodes for name in n.reads if name not in maker]
    missing += [f"the output {name[:80]!r} is declared" for name in outputs if name not in maker]
    if missing:
        more = f" and {len(missing) - 10} more" if len(missing) > 10 else ""
        raise InvalidArgumentError(f"from_onnx: nothing makes these tensors: {'; '.join(missing[:10])}{more}")
    needs: list[set[int]] = [{m for name in n.reads if (m := maker.get(name)) is not None} for n in nodes]
    order, circle = topological(needs)
    if circle:
        stuck = circle[0]
        raise InvalidArgumentError(f"{nodes[stuck].where}: the graph has a cycle through or before this node")
    return tuple(nodes[i] for i in order)
