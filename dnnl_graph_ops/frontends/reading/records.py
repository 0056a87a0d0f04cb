"""Converts nodes, subgraphs and arrays to and from records for JSON, in files of nets."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import fields
from typing import Any

import numpy as np

from ... import dtypes
from ...errors import InvalidArgumentError
from ...graph.array_file import field, sizes
from .faults import check_size
from .node import Array, Body, OnnxNode, Sparse, Tensor
from .traced import DOMAIN, Traced, of_traced, traced_of
from .types import TYPES

# bytes of an array in a record; larger arrays are stored next to it
_FEW_BYTES = 1 << 8
_MOST_DEPTH = 40
_FIELDS = [one.name for one in fields(OnnxNode)]
_KINDS = {kind.name: kind for kind in TYPES.values()}

# returns the number of a stored array; and returns an array by number, dtype and shape
Keep = Callable[[Array], int]
Kept = Callable[[int, str, tuple[int, ...]], Array]


def of_nodes(nodes: Iterable[OnnxNode], keep: Keep) -> list[dict[str, Any]]:
    return [{name: getattr(node, name) for name in _FIELDS} | {"attrs": of_items(node.attrs, keep)} for node in nodes]


def of_items(items: Mapping[str, Any], keep: Keep) -> dict[str, Any]:
    """Returns the record of attributes or arrays by name."""
    return {name: _of_item(item, keep) for name, item in items.items()}


def _of_item(item: Any, keep: Keep) -> Any:
    if isinstance(item, np.ndarray):
        return _of_array(item, keep)
    if isinstance(item, Traced):
        return of_traced(item)
    if isinstance(item, Sparse):
        return {"values": _of_array(item.values, keep), "indices": _of_array(item.indices, keep), "dims": item.dims}
    if isinstance(item, Body):
        return {
            "inputs": item.inputs,
            "arrays": of_items(item.arrays, keep),
            "body": of_nodes(item.nodes, keep),
            "outputs": item.outputs,
            "infos": [of_info(info) for info in item.infos],
            "input_infos": [of_info(info) for info in item.input_infos],
        }
    return item


def of_info(info: Tensor) -> list[Any]:
    return [info.code, info.shape, info.kind.hex()]


def _of_array(array: Array, keep: Keep) -> dict[str, Any]:
    stated = {"dtype": array.dtype.name, "shape": array.shape}
    if array.dtype.kind == "O":
        return {**stated, "texts": array.reshape(-1).tolist()}
    if array.nbytes <= _FEW_BYTES:
        return {**stated, "bytes": array.tobytes().hex()}
    own = dtypes.label(array.dtype) in dtypes.CODES
    return {**stated, "number": keep(array if own else np.ascontiguousarray(array).reshape(-1).view(np.uint8))}


def nodes_of(items: list[Any], kept: Kept, where: str, depth: int = 0) -> tuple[OnnxNode, ...]:
    """Returns the nodes of a record of `of_nodes`.

    Raises:
        InvalidArgumentError: another record.
    """
    nodes = []
    for item in items:
        name, kind, domain = (field(item, key, str, where) for key in ("name", "op_type", "domain"))
        inputs, outputs = (names_of(item, key, where) for key in ("inputs", "outputs"))
        attrs = arrays_of(item.get("attrs"), kept, where, depth)
        if domain == DOMAIN and not isinstance(attrs.get("traced"), Traced):
            raise InvalidArgumentError(f"{where}: node {name[:80]!r} has no record of its calls; save the net again")
        nodes.append(OnnxNode(name, kind, domain, "", field(item, "opset", int, where), inputs, outputs, attrs))
    return tuple(nodes)


def names_of(record: Any, key: str, where: str) -> tuple[str, ...]:
    names = field(record, key, list, where)
    if not all(isinstance(name, str) for name in names):
        raise InvalidArgumentError(f"{where}: names of tensors must be strings")
    return tuple(names)


def arrays_of(items: Any, kept: Kept, where: str, depth: int = 0) -> dict[str, Any]:
    """Returns the items of a record of `of_items`."""
    if not isinstance(items, dict):
        raise InvalidArgumentError(f"{where}: needs attributes or arrays by name")
    return {
        name: _item_of(item, kept, where, depth) if isinstance(item, dict) else item for name, item in items.items()
    }


def _item_of(item: Any, kept: Kept, where: str, depth: int) -> Any:
    if not isinstance(item, dict):
        return item
    if "dims" in item:
        values, indices = (_array_of(item.get(name), kept, where) for name in ("values", "indices"))
        return Sparse(values, indices, sizes(item["dims"], where))
    if "calls" in item:
        return traced_of(item, where)
    if "body" not in item:
        return _array_of(item, kept, where)
    if depth > _MOST_DEPTH:
        raise InvalidArgumentError(f"{where}: subgraphs in subgraphs, more than {_MOST_DEPTH} deep")
    infos, input_infos = (
        tuple(info_of(info, where) for info in field(item, name, list, where)) for name in ("infos", "input_infos")
    )
    inputs, outputs = (names_of(item, name, where) for name in ("inputs", "outputs"))
    nodes = nodes_of(field(item, "body", list, where), kept, where, depth + 1)
    return Body(inputs, arrays_of(item.get("arrays"), kept, where), nodes, outputs, infos, input_infos)


def info_of(item: Any, where: str) -> Tensor:
    """Returns the info of a record of `of_info`."""
    if not isinstance(item, list) or len(item) != 3 or not (item[0] is None or item[0] == 0 or item[0] in TYPES):
        raise InvalidArgumentError(f"{where}: needs the type and shape of a tensor, got {str(item)[:60]!r}")
    code, dims, kind = item
    if dims is not None:
        known = iter(sizes([dim for dim in dims if dim is not None], where))
        dims = tuple(None if dim is None else next(known) for dim in dims)
        check_size(dims, 1, where)
    return Tensor(code, dims, bytes.fromhex(kind))


def _array_of(item: Any, kept: Kept, where: str) -> Array:
    name, shape = field(item, "dtype", str, where), sizes(field(item, "shape", list, where), where)
    check_size(shape, 1, where)
    kind, count = _KINDS.get(name), math.prod(shape)
    if kind is not None and "number" in item and kind.kind != "O":
        number = field(item, "number", int, where)
        if (label := dtypes.label(kind)) in dtypes.CODES:
            return kept(number, label, shape)
        return kept(number, "u8", (count * kind.itemsize,)).view(kind).reshape(shape)
    if name == "object":
        texts = names_of(item, "texts", where)
        return np.array(texts, object).reshape(shape)
    data = bytes.fromhex(field(item, "bytes", str, where))
    if kind is None or len(data) != count * kind.itemsize:
        raise InvalidArgumentError(f"{where}: no array of dtype {name[:60]!r} and shape {str(shape)[:60]}")
    if kind.kind == "b" and max(data, default=0) > 1:
        raise InvalidArgumentError(f"{where}: has booleans that are neither true nor false")
    return np.frombuffer(data, kind).reshape(shape)
