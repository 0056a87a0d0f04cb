"""Converts graphs from and to benchdnn's JSON: records of the format to nodes, and nodes to records."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from .. import schema
from ..errors import InvalidArgumentError, UnsupportedError, warn
from ..graph import Graph, Node, Value
from ..graph.json_format import OWN_OPS, UNKNOWN, Attr, Dims, Document, Op, Tensor, ordered, read, same_shape
from ..schema.attributes import op_schema
from ..shapes import Meta
from ..strides import dense_strides
from .build import apply, known_now
from .typed import SCALED, WORDS, check_scales, resolve

_F32_MAX = 3.4028234663852886e38
# attributes of convolution ops that state the result's shape
_RESULTS = ("weights_shape", "dst_shape")


def from_json(source: Any, engine: Any = None) -> Graph:
    """Implements `Graph.from_json`; warns of each statement of the file that is unused or contradicts its ops."""
    document = read(source)
    notes: list[str] = []
    graph = Graph(engine, fpmath_mode=document.fpmath_mode, name="graph")
    ops = ordered(document.ops)
    values = _inputs(graph, document, notes)
    groups = weights_groups(document.ops)
    for op in ops:
        append(graph, op, values, groups)
    graph.outputs = {str(i): values[i] for i in _output_ids(document, values, notes)}
    graph._source = Source(document, tuple(graph.nodes), {value: i for i, value in values.items()})
    _compare_shapes(document, values, notes)
    for note in notes:
        warn(f"graph JSON: {note}")
    return graph


class Source(NamedTuple):
    """The file of a graph, and the graph's nodes and values for its ops and tensors."""

    document: Document
    nodes: tuple[Node, ...]
    ids: Mapping[Value, int]


def _ports(name: str, stated: Sequence[int], faults: Mapping[int, str], notes: list[str]) -> list[int]:
    """Returns the tensors of a port list in order; notes and leaves out unused and repeated tensors."""
    kept = dict.fromkeys(stated)
    if len(kept) < len(stated):
        notes.append(f"{name} names tensors more than once; each counts once")
    notes += [f"{name} names tensor {i}, {faults[i]}; it is passed over" for i in kept if i in faults]
    return [i for i in kept if i not in faults]


def _inputs(graph: Graph, document: Document, notes: list[str]) -> dict[int, Value]:
    """Returns the tensors that no op computes: in the order of input_ports, then of their first use."""
    made = {tensor.id: op for op in document.ops for tensor in op.outputs}
    loose = {t.id: t for op in reversed(document.ops) for t in reversed(op.inputs) if t.id not in made}
    stated = document.input_ports or ()
    faults = {i: "which no op reads" for i in stated if i not in loose}
    faults |= {i: f"which op {made[i].id} makes" for i in stated if i in made}
    order = dict.fromkeys(_ports("input_ports", stated, faults, notes))
    order.update(dict.fromkeys(t.id for op in document.ops for t in op.inputs if t.id in loose))
    return {i: _input(graph, loose[i]) for i in order}


def _input(graph: Graph, tensor: Tensor) -> Value:
    return graph.input(str(tensor.id), tensor.shape, tensor.dtype, strides_of(tensor, tensor.shape))


def strides_of(tensor: Tensor, shape: Dims) -> tuple[int, ...] | None:
    """Returns the strides that the file states for a tensor of this shape."""
    known = shape == tensor.shape and None not in shape and tensor.is_strided
    return tensor.stride if known and shape and UNKNOWN not in tensor.stride else None


def _output_ids(document: Document, values: Mapping[int, Value], notes: list[str]) -> list[int]:
    """Returns output_ports, else the tensors that only End reads."""
    stated = document.output_ports
    if stated is not None:
        known = _ports("output_ports", stated, {i: "which no op has" for i in stated if i not in values}, notes)
        if known or not stated:
            return known
    used = {tensor.id for op in document.ops if op.kind != "End" for tensor in op.inputs}
    return [t.id for op in document.ops for t in op.outputs if t.id not in used]


def append(graph: Graph, op: Op, values: dict[int, Value], groups: Mapping[int, int]) -> None:
    """Appends an op; its outputs are named by tensor id."""
    op_schema(op.kind, op.where)
    attrs = _attributes(op)
    inputs = [values[tensor.id] for tensor in op.inputs]
    try:
        outputs = _by_group(op, inputs, attrs, groups) or _node(graph, op, inputs, attrs)
    except TypeError as error:
        raise InvalidArgumentError(f"{op.where}: {error}") from None
    if len(outputs) != len(op.outputs):
        raise InvalidArgumentError(f"{op.where}: gives {len(outputs)} tensors, the file has {len(op.outputs)}")
    for value, tensor in zip(outputs, op.outputs, strict=True):
        if value.dtype != tensor.dtype:
            raise InvalidArgumentError(
                f"{op.where}: tensor {tensor.id} is {tensor.dtype}, but {op.kind} gives {value.dtype}"
            )
        value.strides = strides_of(tensor, value.shape)
        value.name = str(tensor.id)
        graph._reserve(value.name)
        values[tensor.id] = value


def weights_groups(ops: Iterable[Op]) -> dict[int, int]:
    """Returns the groups of the ops that read a tensor as grouped weights."""
    found = {}
    for op in ops:
        groups = op.attrs.get("groups")
        if groups is not None and groups.value > 1 and len(op.inputs) > 1:
            found[op.inputs[1].id] = groups.value
    return found


def _by_group(
    op: Op, inputs: Sequence[Value], attrs: Mapping[str, Any], groups: Mapping[int, int]
) -> Sequence[Value] | None:
    """Scales grouped weights by a product, if the scales are of all groups' channels, which no axis of them has."""
    count = groups.get(op.outputs[0].id, 1) if op.kind == "Dequantize" and op.outputs else 1
    if count == 1 or attrs.get("qtype") != "per_channel" or len(inputs) != 1:
        return None
    (src,), scales = inputs, attrs.get("scales", ())
    axis = attrs.get("axis", 1) % max(src.ndim, 1)
    other = {1: 0, src.ndim - 2: src.ndim - 1}.get(axis, axis)
    channels, summed = src.shape[axis], src.shape[other]
    if channels is None or summed is None or other == axis or len(scales) != count * channels or summed % count:
        return None

    def spread(values: Sequence[float]) -> Any:
        each = np.repeat(np.reshape(np.asarray(values, np.float32), (count, channels)), summed // count, axis=0)
        return np.expand_dims(each if other < axis else each.T, [i for i in range(src.ndim) if i not in (axis, other)])

    (value,) = apply("Dequantize", [src], {"qtype": "per_tensor", "scales": [1.0], "zps": [0]}, where=op.where)
    if any(attrs.get("zps") or ()):
        (value,) = apply("Subtract", [value, spread(attrs["zps"])], {}, where=op.where)
    return apply("Multiply", [value, spread(scales)], {}, where=op.where, default_name=_name(op))


def _attributes(op: Op) -> dict[str, Any]:
    known = schema.OPS[op.kind].attrs
    for name, attr in op.attrs.items():
        # normalise_attrs refuses unknown names, with a suggestion
        if name in known and known[name].type != attr.type:
            raise InvalidArgumentError(
                f"{op.where}: attribute {name!r} has the type {attr.type}, but {op.kind} takes {known[name].type}"
            )
    return {name: attr.value for name, attr in op.attrs.items()}


def _node(graph: Graph, op: Op, inputs: list[Value], attrs: dict[str, Any]) -> Sequence[Value]:
    declared = [Meta(tensor.shape, tensor.dtype) for tensor in op.outputs]
    if op.kind == "Wildcard":
        slots = [f"dst_{i}" for i in range(len(declared))]
        return graph._add_node(op.kind, op.where, inputs, {}, declared, slots, None, _name(op))
    stated = schema.OPS[op.kind].stated
    if stated is not None and stated.is_shape and declared and None not in declared[0].shape:
        # the file states the result's shape, so neither the attribute nor the input is needed
        inputs = inputs[: stated.position]
        attrs.setdefault(stated.attribute, list(declared[0].shape))
    if op.kind in WORDS:
        return _family(graph, op, inputs, attrs, declared)
    return apply(
        op.kind,
        inputs,
        attrs,
        graph=graph,
        where=op.where,
        default_name=_name(op),
        dtype=declared[0].dtype if declared else None,
        outputs=len(declared) if schema.OPS[op.kind].outputs else None,
        lenient=True,
    )


def _name(op: Op) -> str:
    return op.name.replace("\0", "?") or f"op_{op.id}"


def _family(
    graph: Graph, op: Op, inputs: list[Value], attrs: dict[str, Any], declared: Sequence[Meta]
) -> Sequence[Value]:
    spec = schema.OPS[op.kind]
    slots = [slot.name for slot in spec.inputs]
    inputs, attrs = known_now(op.kind, inputs, attrs, op.where)
    if len(inputs) not in spec.input_counts or len(declared) != 1:
        raise InvalidArgumentError(
            f"{op.where}: takes {', '.join(slots)} and gives one tensor, got {len(inputs)} and {len(declared)}"
        )
    rank = max(inputs[0].ndim - 2, 0)
    padding = attrs.get("output_padding", ())
    if len(padding) > rank and not any(padding[rank:]):
        # oneDNN writes the default for 12 axes
        attrs["output_padding"] = padding[:rank]
    extra = {name: tuple(attrs.pop(name)) for name in _RESULTS if name in attrs}
    metas = [value._meta for value in inputs]
    checked, meta = resolve(op.kind, metas, slots[: len(metas)], attrs, extra, op.where)
    if op.kind in SCALED:
        check_scales(inputs[1], checked["weights_format"], op.where)
    return graph._add_node(op.kind, op.where, inputs, checked, [meta], ["dst"], None, _name(op))


def _compare_shapes(document: Document, values: Mapping[int, Value], notes: list[str]) -> None:
    """Notes the tensors whose stated shape contradicts the ops; a tensor without a stated shape does not."""
    stated = ((op, tensor) for op in document.ops for tensor in (*op.outputs, *op.inputs))
    # oneDNN's dumps write one unknown size for every tensor with an unknown size or rank
    told = ((op, t) for op, t in stated if t.shape not in ((), (None,)))
    wrong = {t.id: (op, t) for op, t in told if not same_shape(values[t.id].shape, t.shape)}
    notes += [
        f"op {op.id} states shape {t.shape} of tensor {t.id}, but the ops give {values[t.id].shape}, which counts"
        for op, t in wrong.values()
    ]


def to_json(graph: Graph) -> str:
    """Implements `Graph.to_json`: ops that were read are written unchanged, added ops follow."""
    source: Source | None = graph._source
    if source is None:
        source = Source(Document({}, None, None, ()), (), {})
    known = set(source.nodes)
    added = [node for node in graph.nodes if node not in known]
    if late := next((node for node in added if node.late), None):
        raise UnsupportedError(
            f"Graph.to_json: {late.name!r} depends on sizes of the call, for which the format has no op"
        )
    if not added and source.document.ops:
        return source.document.text()
    ids = dict(source.ids)
    fresh = max(ids.values(), default=-1) + 1
    for node in added:
        for value in (*node.inputs, *node.outputs):
            if value not in ids:
                ids[value] = fresh
                fresh += 1
    first = max((op.id for op in source.document.ops), default=-1) + 1
    ops = (*source.document.ops, *(_op(node, first + i, ids) for i, node in enumerate(added)))
    inputs = (*graph.inputs, *graph.constants)
    outputs = graph.outputs.values() or _unread(graph)
    document = Document(
        _marked(source.document.header or _header(graph), graph),
        tuple(ids[value] for value in inputs if value in ids),
        tuple(ids[value] for value in outputs if value in ids),
        ops,
    )
    return document.text()


def _unread(graph: Graph) -> list[Value]:
    read_values = {value for node in graph.nodes for value in node.inputs}
    return [value for node in graph.nodes for value in node.outputs if value not in read_values]


def _header(graph: Graph) -> dict[str, str]:
    """Returns the header for the oldest version that has all ops of the graph."""
    since = max((schema.OPS[_kind(node)].since for node in graph.nodes), default=(3, 0))
    return {
        "version": f"{since[0]}.{since[1]}.0",
        "engine_kind": graph.engine.kind if graph.engine is not None else "cpu",
        "fpmath_mode": graph.fpmath_mode,
    }


def _marked(header: Mapping[str, str], graph: Graph) -> Mapping[str, str]:
    """Returns the header with the names of the ops that benchdnn lacks."""
    own = sorted({node.kind for node in graph.nodes if schema.OPS[_kind(node)].own})
    if not own:
        return header
    warn(f"graph JSON: {', '.join(own)}: ops that oneDNN does not have; benchdnn cannot read the file")
    return {**header, OWN_OPS: " ".join(own)}


def _kind(node: Node) -> str:
    return "ConvTransposeBackwardWeights" if node.kind == "ConvTransposeBackpropFilters" else node.kind


def _op(node: Node, identity: int, ids: Mapping[Value, int]) -> Op:
    def tensors(values: Sequence[Value]) -> tuple[Tensor, ...]:
        return tuple(_tensor(value, ids[value]) for value in values)

    return Op(identity, node.name, _kind(node), _written(node), tensors(node.inputs), tensors(node.outputs))


def _tensor(value: Value, identity: int) -> Tensor:
    use = "constant" if value.is_constant else "undef"
    strides: tuple[int, ...] = value.strides or ()
    if not strides and None not in value.shape:
        strides = dense_strides(value.shape)  # type: ignore[arg-type]
    return Tensor(identity, value.dtype, value.shape, strides, "strided", use)


def _written(node: Node) -> dict[str, Attr]:
    """Returns the attributes with their types; those of convolution ops in oneDNN's spelling."""
    spec = schema.OPS[_kind(node)]
    given = dict(node.attrs)
    if node.kind.startswith("ConvTransposeBack"):
        given.pop("src_shape", None)
        shape = node.outputs[0].shape
        # unknown kernel sizes are derived at the call
        given["weights_shape"] = None if node.kind.endswith("Data") or None in shape else shape
        ends, padding = given["pads_end"], given.pop("output_padding")
        if any(padding):
            if any(p > e for e, p in zip(ends, padding, strict=True)) or given["auto_pad"] != "None":
                # only this package reads it: oneDNN's op lacks the attribute
                given["output_padding"] = padding
            else:
                given["pads_end"] = tuple(e - p for e, p in zip(ends, padding, strict=True))
    written = {}
    for name, value in given.items():
        attr = spec.attrs.get(name)
        if value is not None:
            choices = attr.allowed if attr is not None else ()
            written[name] = Attr(attr.type if attr is not None else "s64[]", _plain(value, choices))
    return written


def _plain(value: Any, choices: Sequence[str]) -> Any:
    if isinstance(value, bool):
        return int(value)
    if isinstance(value, str):
        return next((choice for choice in choices if choice.lower() == value.lower()), value)
    if isinstance(value, float):
        # JSON cannot express infinity
        return min(max(value, -_F32_MAX), _F32_MAX)
    if isinstance(value, tuple | list):
        return [_plain(item, ()) for item in value]
    return value
