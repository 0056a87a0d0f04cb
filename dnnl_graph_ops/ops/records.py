"""Converts graphs to and from records for JSON, which the file of a saved net holds.

Values are numbered: inputs, constants, then outputs of ops. A record has only attributes, names and dtypes of ops;
results are inferred again, with the builders' checks.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod
from typing import Any

import numpy as np

from .. import dtypes
from ..errors import InvalidArgumentError, ShapeError, UnsupportedError
from ..graph import Graph, Node, Value, hooks
from ..graph.array_file import ArrayFile, field, numbering, sizes
from ..graph.json_format import MAX_NDIM, MAX_OPS, MAX_TENSOR_BYTES
from ..runtime.engines import Engine
from ..schema import KEYWORDS
from ..schema.attributes import attr_lengths, normalise_attrs, op_schema
from ..shapes import Meta, check_sizes, checked
from ..strides import extent
from .typed import SCALED, WORDS, check_scales, resolve

Array = np.ndarray[Any, Any]

# bytes that may be computed from constants, besides the file's own size
MAX_FOLDED_BYTES = 1 << 32
# attributes of convolution ops that state the result's shape
_RESULTS = ("src_shape", "dst_shape", "weights_shape")


def described(
    graph: Graph,
    inputs: Sequence[Value],
    constants: Sequence[Value],
    nodes: Sequence[Node],
    outputs: Mapping[str, Value],
) -> tuple[dict[str, Any], list[Array]]:
    """Returns the record of parts of a graph, and the arrays that follow its constants.

    Raises:
        UnsupportedError: an op that another process cannot rebuild.
    """
    made = [value for node in nodes for value in node.outputs]
    ids = {value: number for number, value in enumerate((*inputs, *constants, *made))}
    strange = next((node for node in nodes if node.kind == "Wildcard" and not node.late), None)
    if strange is not None:
        raise UnsupportedError(f"Net.save: {strange.name!r} is a Wildcard, which cannot run wherever it is loaded")
    more: list[Array] = []
    keep = numbering(more, len(constants))
    record = {
        "name": graph.name,
        "fpmath_mode": graph.fpmath_mode,
        "inputs": [_value(value) for value in inputs],
        "constants": [_value(value) for value in constants],
        "ops": [
            {
                "kind": node.kind,
                "name": node.name,
                "attrs": dict(node.attrs),
                **({"late": node.late.record(keep)} if node.late else {}),
                "inputs": [ids[value] for value in node.inputs],
                "outputs": [_value(value) for value in node.outputs],
            }
            for node in nodes
        ],
        "outputs": [[name, ids[value]] for name, value in outputs.items()],
    }
    return record, more


def _value(value: Value) -> dict[str, Any]:
    record: dict[str, Any] = {"name": value.name, "dtype": value.dtype, "shape": value.shape}
    return record if value.strides is None else {**record, "strides": value.strides}


def rebuilt(record: Any, file: ArrayFile, engine: Engine | None, where: str) -> tuple[Graph, dict[str, Value]]:
    """Returns the graph of a record, whose constants are the first of the arrays, and the outputs by name.

    Raises:
        InvalidArgumentError: a record that builders would refuse.
    """
    try:
        return _rebuilt(record, file, engine, where)
    except TypeError as error:
        raise InvalidArgumentError(f"{where}: {error}") from None


def _rebuilt(record: Any, file: ArrayFile, engine: Engine | None, where: str) -> tuple[Graph, dict[str, Value]]:
    mode: Any = field(record, "fpmath_mode", str, where)
    graph = Graph(engine, fpmath_mode=mode, name=field(record, "name", str, where))
    values: list[Value] = []
    for item in field(record, "inputs", list, where):
        values.append(graph.input(*_described(item, where)))
        values[-1].strides = _strides(item, values[-1].shape, where)
    for number, item in enumerate(field(record, "constants", list, where)):
        name, shape, dtype = _described(item, where)
        if None in shape:
            raise InvalidArgumentError(f"{where}: the constant {name[:60]!r} has the shape {shape}")
        values.append(graph.constant(file.array(number, dtype, tuple(map(int, shape))), name))  # type: ignore[arg-type]
    ops = field(record, "ops", list, where)
    if len(ops) > MAX_OPS:
        raise InvalidArgumentError(f"{where}: {len(ops)} ops; the most is {MAX_OPS}")
    for item in ops:
        values += _op(graph, item, values, file, where)
    for value in values:
        graph._reserve(value.name)
    _check_sizes(graph, where)
    for item in field(record, "outputs", list, where):
        if not isinstance(item, list) or len(item) != 2 or not isinstance(item[0], str):
            raise InvalidArgumentError(f"{where}: needs a name and a number for each output, got {str(item)[:60]!r}")
        graph.outputs[item[0]] = _one(values, item[1], where)
    return graph, graph.outputs


def _described(item: Any, where: str) -> tuple[str, tuple[int | None, ...], str]:
    """Returns the name, shape and dtype of an input or a constant."""
    name, dtype = field(item, "name", str, where), field(item, "dtype", str, where)
    where = f"{where}, tensor {name[:60]!r}"
    shape = field(item, "shape", list, where)
    known = iter(sizes([size for size in shape if size is not None], where))
    dims = tuple(None if size is None else next(known) for size in shape)
    check_sizes(dims, where, "'shape'")
    return name, dims, dtype


def _strides(item: Any, shape: tuple[int | None, ...], where: str) -> tuple[int, ...] | None:
    if item.get("strides") is None:
        return None
    strides = sizes(item["strides"], where)
    if len(strides) != len(shape):
        raise ShapeError(f"{where}: strides {strides[:MAX_NDIM]} of a tensor of shape {shape}")
    known = [1 if size is None else size for size in shape]
    if extent(known, strides) * dtypes.itemsize(item["dtype"]) >= MAX_TENSOR_BYTES:
        raise ShapeError(f"{where}: a tensor of strides {strides} spans more than {MAX_TENSOR_BYTES} bytes")
    return strides


def _one(values: Sequence[Value], number: Any, where: str) -> Value:
    if type(number) is not int or not 0 <= number < len(values):
        raise InvalidArgumentError(f"{where}: names tensor {str(number)[:60]}; there are {len(values)} so far")
    return values[number]


def _op(graph: Graph, item: Any, values: Sequence[Value], file: ArrayFile, where: str) -> tuple[Value, ...]:
    kind, name = field(item, "kind", str, where), field(item, "name", str, where)
    where = f"{where}, op {kind[:60]} {name[:60]!r}"
    inputs = [_one(values, number, where) for number in field(item, "inputs", list, where)]
    stated, attrs = field(item, "outputs", list, where), field(item, "attrs", dict, where)
    kinds = [field(output, "dtype", str, where) for output in stated]
    kept: Mapping[str, Any] = {}
    late = hooks.call("late", item["late"], file.array, where) if kind == "Wildcard" and "late" in item else None
    if late:
        metas: Sequence[Meta] = [Meta(*_described(output, where)[1:]) for output in stated]
        kinds = [dtypes.canonical(meta.dtype, where) for meta in metas]
    else:
        kept, metas = _inferred(kind, inputs, attrs, kinds, where)
    if [meta.dtype for meta in metas] != kinds:
        raise InvalidArgumentError(
            f"{where}: its results are {', '.join(meta.dtype for meta in metas)}, unlike those that were saved"
        )
    made = graph._add_node(kind, where, inputs, kept, metas, [f"dst_{i}" for i in range(len(metas))], name, late=late)
    for value, output in zip(made, stated, strict=True):
        value.name = field(output, "name", str, where)
        value.strides = _strides(output, value.shape, where)
    return made


def _inferred(
    kind: str, inputs: Sequence[Value], attrs: Mapping[str, Any], kinds: Sequence[str], where: str
) -> tuple[Mapping[str, Any], Sequence[Meta]]:
    """Returns the attributes and results of an op, with its builder's checks."""
    spec = op_schema("ConvTransposeBackwardWeights" if kind == "ConvTransposeBackpropFilters" else kind, where)
    if kind == "Wildcard" or (spec.stated is not None and len(inputs) > spec.stated.position):
        raise InvalidArgumentError(f"{where}: is not among the ops that a compiled net has")
    metas = [value._meta for value in inputs]
    if kind not in WORDS:
        ranks = attr_lengths(kind, len(metas[0].shape) if metas else 0)
        given = normalise_attrs(kind, attrs, where, ranks=ranks)
        dtype = dtypes.canonical(kinds[0], where) if kinds else None
        return checked(kind, metas, given, where, dtype=dtype, outputs=len(kinds) if spec.outputs else None)
    if len(inputs) not in spec.input_counts:
        raise InvalidArgumentError(f"{where}: takes {' or '.join(map(str, spec.input_counts))} tensors")
    words = KEYWORDS[WORDS[kind]].values()
    given = {word.name: attrs[word.attribute] for word in words if word.attribute in attrs}
    extra = {name: sizes(attrs[name], where) for name in _RESULTS if name in attrs}
    if unknown := attrs.keys() - extra.keys() - {word.attribute for word in words}:
        raise InvalidArgumentError(f"{where}: has no attributes {', '.join(sorted(unknown))[:60]}")
    slots = [slot.name for slot in spec.inputs[: len(metas)]]
    record, result = resolve(kind, metas, slots, given, extra, where)
    if kind in SCALED:
        check_scales(inputs[1], record.weights_format, where)
    return record, [result]


def _check_sizes(graph: Graph, where: str) -> None:
    """Checks that the sizes of tensors, and of results computed from constants, are plausible for the file's size."""
    known = set(graph.constants)
    own = sum(value._held.array.nbytes for value in graph.constants if value._held is not None)
    total = 0
    for node in graph.nodes:
        folded = known.issuperset(node.inputs)
        for value in node.outputs:
            size = prod(1 if dim is None else dim for dim in value.shape) * dtypes.itemsize(value.dtype)
            if size >= MAX_TENSOR_BYTES:
                raise ShapeError(f"{where}: {value.name[:60]!r} of shape {value.shape} has {size} bytes")
            total += size if folded else 0
        known.update(node.outputs if folded else ())
    if total > MAX_FOLDED_BYTES + 16 * own:
        raise InvalidArgumentError(f"{where}: its constants of {own} bytes become {total} when the net is compiled")
