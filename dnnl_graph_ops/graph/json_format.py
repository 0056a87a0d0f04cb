"""Reads benchdnn's graph format into checked records; errors name the place in the file."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from .. import dtypes
from ..errors import InvalidArgumentError, ShapeError
from ..shapes import check_sizes
from ..strides import dense_strides, extent
from ..words import counted
from .files import read_file
from .order import topological

MAX_BYTES = 1 << 28
MAX_OPS = 100_000
# most items of an attribute, such as one scale for each channel
MAX_LIST = 1 << 18
MAX_NDIM = 12
# larger tensors, of a terabyte, mean a broken file
MAX_TENSOR_BYTES = 1 << 40
# the format's values for a dynamic dim and an unknown rank
UNKNOWN = -(1 << 63)
# fields of an op in oneDNN's dump of a graph with its partitions
_OF_DUMPS = frozenset({"partition_id", "backend"})
_UNKNOWN_DIMS = frozenset({UNKNOWN, -1})

ENGINE_KINDS = ("cpu", "gpu")
LAYOUTS = ("strided", "any", "undef", "opaque")
PROPERTIES = ("undef", "variable", "constant", "host_scalar")
ATTR_TYPES = ("s64", "s64[]", "f32", "f32[]", "bool", "string")

Dims = tuple[int | None, ...]
# the header's key for the ops of the file that only this package has
OWN_OPS = "own_ops"


class Tensor(NamedTuple):
    """A tensor as one op of the file reads or writes it."""

    id: int
    dtype: str
    shape: Dims
    stride: tuple[int, ...]
    layout: str
    use: str

    @property
    def is_strided(self) -> bool:
        return self.layout == "strided" and len(self.stride) == len(self.shape)

    def record(self) -> dict[str, Any]:
        return {
            "id": self.id,
            "dtype": self.dtype,
            "shape": [UNKNOWN if dim is None else dim for dim in self.shape],
            "stride": list(self.stride),
            "layout_type": self.layout,
            "property_type": self.use,
        }


class Attr(NamedTuple):
    type: str
    value: Any

    def record(self) -> dict[str, Any]:
        # benchdnn wants the type first
        return {"type": self.type, "value": self.value}


@dataclass(frozen=True)
class Op:
    """An op of the file."""

    id: int
    name: str
    kind: str
    attrs: Mapping[str, Attr]
    inputs: tuple[Tensor, ...]
    outputs: tuple[Tensor, ...]
    source: str = "graph JSON"

    @property
    def where(self) -> str:
        return f"{self.source}, op {self.id} ({self.kind} {self.name[:60]!r})"

    def record(self) -> dict[str, Any]:
        return {
            "id": self.id,
            "name": self.name,
            "kind": self.kind,
            "attrs": {name: attr.record() for name, attr in self.attrs.items()},
            "inputs": [tensor.record() for tensor in self.inputs],
            "outputs": [tensor.record() for tensor in self.outputs],
        }


@dataclass(frozen=True)
class Document:
    """A graph file. `header`: the fields before the ports; a port list is None where the file has none."""

    header: Mapping[str, str]
    input_ports: tuple[int, ...] | None
    output_ports: tuple[int, ...] | None
    ops: tuple[Op, ...]

    @property
    def fpmath_mode(self) -> Any:
        return self.header.get("fpmath_mode", "strict")

    def record(self) -> dict[str, Any]:
        result: dict[str, Any] = dict(self.header)
        for name, ports in (("input_ports", self.input_ports), ("output_ports", self.output_ports)):
            if ports is not None:
                result[name] = list(ports)
        return {**result, "graph": [op.record() for op in self.ops]}

    def text(self) -> str:
        return json.dumps(self.record(), indent=2)


def read(source: Any) -> Document:
    """Returns the document of a path, JSON text (str or bytes), or a dict.

    Raises:
        TypeError: anything else. FileNotFoundError: a path without a file.
        InvalidArgumentError: no JSON, or another format; ShapeError: impossible shapes.
    """
    if isinstance(source, Mapping):
        return _document(source)
    if isinstance(source, os.PathLike):
        return _document(_parse(read_file(Path(source), MAX_BYTES, "Graph.from_json")))
    if isinstance(source, bytes | bytearray):
        return _document(_parse(bytes(source)))
    if not isinstance(source, str):
        raise TypeError(f"Graph.from_json: needs a path, JSON text or a dict, got {type(source).__name__}")
    if len(source) > 4096 or not source.strip() or any(mark in source for mark in '{}[]"\n\0'):
        return _document(_parse(source))
    return _document(_parse(read_file(Path(source), MAX_BYTES, "Graph.from_json")))


def _parse(text: str | bytes) -> Any:
    if len(text) > MAX_BYTES:
        raise InvalidArgumentError(f"Graph.from_json: the text has more than {MAX_BYTES} characters")
    try:
        return json.loads(text, parse_int=_parse_int, parse_constant=_no_constant)
    except RecursionError:
        raise InvalidArgumentError("Graph.from_json: the JSON is nested too deeply") from None
    except ValueError as error:
        raise InvalidArgumentError(f"Graph.from_json: this is not JSON: {str(error)[:200]}") from None


def _parse_int(digits: str) -> int:
    if len(digits) > 20:
        raise ValueError(f"the number {digits[:20]}... has more than 64 bits")
    return int(digits)


def _no_constant(name: str) -> float:
    raise ValueError(f"{name} is not a JSON number")


def _document(data: Any) -> Document:
    where = "graph JSON"
    _need(isinstance(data, Mapping), where, "the file", "an object", data)
    _need("graph" in data, where, "the key 'graph'", "present; it lists the ops", None)
    header = {}
    for name in ("version", "engine_kind", "fpmath_mode", "fpmath_mode_apply_to_int", OWN_OPS):
        if name in data:
            header[name] = _text(data[name], name, where)
    for name, allowed in (("engine_kind", ENGINE_KINDS), ("fpmath_mode_apply_to_int", ("true", "false"))):
        if name in header and header[name] not in allowed:
            raise InvalidArgumentError(f"{where}: {name!r} must be {' or '.join(allowed)}, got {header[name][:60]!r}")
    items = _list(data["graph"], "'graph'", where, MAX_OPS)
    ops = tuple(_op(item, position) for position, item in enumerate(items))
    _check_ids(ops)
    ports = [_ports(data, name, where) for name in ("input_ports", "output_ports")]
    return Document(header, ports[0], ports[1], ops)


def _need(good: bool, where: str, what: str, wanted: str, found: Any) -> None:
    if not good:
        raise InvalidArgumentError(f"{where}: {what} must be {wanted}, got {type(found).__name__}")


def _text(value: Any, what: str, where: str) -> str:
    _need(isinstance(value, str), where, f"{what!r}", "a string", value)
    return str(value)


def _list(value: Any, what: str, where: str, most: int) -> list[Any]:
    _need(isinstance(value, list | tuple), where, what, "a list", value)
    if len(value) > most:
        raise InvalidArgumentError(f"{where}: {what} has {len(value)} items; the most is {most}")
    return list(value)


def _int(value: Any, what: str, where: str, least: int = 0) -> int:
    _need(isinstance(value, int) and not isinstance(value, bool), where, what, "an int", value)
    if not least <= value < 1 << 64:
        raise InvalidArgumentError(f"{where}: {what} must be from {least} to 2**64 - 1")
    return int(value)


def _ports(data: Mapping[str, Any], name: str, where: str) -> tuple[int, ...] | None:
    if name not in data:
        return None
    return tuple(_int(item, name, where) for item in _list(data[name], f"{name!r}", where, MAX_OPS))


def _op(data: Any, position: int) -> Op:
    where = f"graph JSON, op at position {position}"
    _need(isinstance(data, Mapping), where, "an op", "an object", data)
    for key in ("id", "kind"):
        _need(key in data, where, f"the key {key!r}", "present", None)
    identity = _int(data["id"], "'id'", where)
    kind = _text(data["kind"], "kind", where)
    name = _text(data.get("name", f"op_{identity}"), "name", where)
    where = f"graph JSON, op {identity} ({kind[:60]} {name[:60]!r})"
    attrs = data.get("attrs", {})
    _need(isinstance(attrs, Mapping), where, "'attrs'", "an object", attrs)
    tensors = [
        tuple(_tensor(item, where) for item in _list(data.get(key, []), f"{key!r}", where, MAX_OPS))
        for key in ("inputs", "outputs")
    ]
    stated = {n: _attr(n, a, where) for n, a in attrs.items() if n not in _OF_DUMPS}
    return Op(identity, name, kind, stated, tensors[0], tensors[1])


def _attr(name: Any, data: Any, where: str) -> Attr:
    _need(isinstance(name, str), where, "the name of an attribute", "a string", name)
    where = f"{where}, attribute {name[:60]!r}"
    _need(isinstance(data, Mapping), where, "it", "an object with type and value", data)
    kind = _text(data.get("type"), "type", where)
    if kind not in ATTR_TYPES:
        raise InvalidArgumentError(f"{where}: 'type' must be one of {', '.join(ATTR_TYPES)}, got {kind[:60]!r}")
    value = data.get("value")
    if kind.endswith("[]"):
        value = _list(value, "'value'", where, MAX_LIST)
    is_good = _IS[kind.removesuffix("[]")]
    bad = next((item for item in (value if isinstance(value, list) else [value]) if not is_good(item)), _GOOD)
    _need(bad is _GOOD, where, "'value'", f"of the type {kind}", bad)
    return Attr(kind, value)


_GOOD = object()
_IS: dict[str, Callable[[Any], bool]] = {
    "s64": lambda item: isinstance(item, int) and not isinstance(item, bool),
    "f32": lambda item: isinstance(item, int | float) and not isinstance(item, bool),
    "bool": lambda item: isinstance(item, int) and item in (0, 1),
    "string": lambda item: isinstance(item, str),
}


def _tensor(data: Any, where: str) -> Tensor:
    _need(isinstance(data, Mapping), where, "a tensor", "an object", data)
    for key in ("id", "dtype", "shape"):
        _need(key in data, where, f"the key {key!r} of a tensor", "present", None)
    identity = _int(data["id"], "the id of a tensor", where)
    where = f"{where}, tensor {identity}"
    dtype = _text(data["dtype"], "dtype", where)
    if dtype not in dtypes.CODES:
        raise InvalidArgumentError(f"{where}: 'dtype' must be one of {', '.join(dtypes.CODES)}, got {dtype[:60]!r}")
    sizes = [_int(item, "'shape'", where, UNKNOWN) for item in _list(data["shape"], "'shape'", where, MAX_NDIM)]
    shape = tuple(None if size in _UNKNOWN_DIMS else size for size in sizes)
    check_sizes(shape, where, "'shape'")
    known = 1
    for dim in shape:
        known *= dim or 1
    if known * dtypes.itemsize(dtype) >= MAX_TENSOR_BYTES:
        raise ShapeError(f"{where}: a tensor of shape {shape} has more than {MAX_TENSOR_BYTES} bytes")
    given = data.get("stride")
    stride = _dense(shape) if given is None else _strides(given, where)
    layout = _choice(data.get("layout_type", "strided"), "layout_type", LAYOUTS, where)
    use = _choice(data.get("property_type", "undef"), "property_type", PROPERTIES, where)
    if layout == "strided" and stride and len(stride) != len(shape):
        raise ShapeError(f"{where}: 'stride' has {counted(len(stride), 'value')}, 'shape' has {len(shape)}")
    sizes = [size for size in sizes if size not in _UNKNOWN_DIMS]
    if layout == "strided" and stride and len(sizes) == len(shape) and UNKNOWN not in stride:
        if min(stride) < 0:
            raise InvalidArgumentError(f"{where}: 'stride' must not be negative, got {stride}")
        if extent(sizes, stride) * dtypes.itemsize(dtype) >= MAX_TENSOR_BYTES:
            raise ShapeError(f"{where}: a tensor of strides {stride} spans more than {MAX_TENSOR_BYTES} bytes")
    return Tensor(identity, dtype, shape, stride, layout, use)


def _strides(given: Any, where: str) -> tuple[int, ...]:
    return tuple(_int(item, "'stride'", where, UNKNOWN) for item in _list(given, "'stride'", where, MAX_NDIM))


def _dense(shape: Dims) -> tuple[int, ...]:
    return () if None in shape else dense_strides(shape)  # type: ignore[arg-type]


def _choice(value: Any, what: str, allowed: tuple[str, ...], where: str) -> str:
    if _text(value, what, where) not in allowed:
        raise InvalidArgumentError(f"{where}: {what!r} must be one of {', '.join(allowed)}, got {value[:60]!r}")
    return str(value)


def _check_ids(ops: Sequence[Op]) -> None:
    """Checks that op ids are unique, that a tensor has one producer and one dtype, and that an input has one shape."""
    seen: dict[int, Op] = {}
    producer: dict[int, Op] = {}
    tensors: dict[int, Tensor] = {}
    made = {tensor.id for op in ops for tensor in op.outputs}
    for op in ops:
        if op.id in seen:
            raise InvalidArgumentError(f"{op.where}: the op id {op.id} is used twice")
        seen[op.id] = op
        for tensor in op.outputs:
            if tensor.id in producer:
                raise InvalidArgumentError(
                    f"{op.where}: tensor {tensor.id} is made by op {producer[tensor.id].id} already"
                )
            producer[tensor.id] = op
        for tensor in (*op.inputs, *op.outputs):
            first = tensors.setdefault(tensor.id, tensor)
            if first.dtype != tensor.dtype:
                raise InvalidArgumentError(
                    f"{op.where}: tensor {tensor.id} is {tensor.dtype} here and {first.dtype} elsewhere"
                )
            if tensor.id not in made and not same_shape(first.shape, tensor.shape):
                raise ShapeError(
                    f"{op.where}: tensor {tensor.id} has shape {tensor.shape} here and {first.shape} elsewhere"
                )


def same_shape(a: Dims, b: Dims) -> bool:
    """Whether two shapes agree in the sizes that both state."""
    return len(a) == len(b) and all(x == y or None in (x, y) for x, y in zip(a, b, strict=True))


def ordered(ops: Iterable[Op], where: str = "graph JSON") -> list[Op]:
    """Returns the ops in topological order, as close to the file's order as possible.

    Raises:
        InvalidArgumentError: the ops form a cycle.
    """
    listed = list(ops)
    producer = {tensor.id: i for i, op in enumerate(listed) for tensor in op.outputs}
    needs = [{producer[t.id] for t in op.inputs if t.id in producer} for op in listed]
    order, circle = topological(needs)
    if circle:
        stuck = [listed[i].name[:60] for i in circle[:5]]
        raise InvalidArgumentError(f"{where}: ops depend on each other in a circle, among them {', '.join(stuck)}")
    return [listed[i] for i in order]
