"""Whether ops fit together at given shapes: the library itself reads past its lists, or crashes, where they do not."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from .. import dtypes, schema, shapes
from .._core import LogicalTensor, Partition
from ..errors import InvalidArgumentError, ShapeError, UnsupportedError
from ..graph import Graph, Node, Value
from ..graph.json_format import ordered
from ..lowering.broadcasts import misread
from ..lowering.family import MEMBERS
from ..lowering.trust import quantizes
from ..ops.json_graph import append, weights_groups
from ..runtime import Runtime
from .logical_tensors import logical_tensor
from .ops import op, record


def _dilated(attrs: dict[str, Any]) -> str:
    if all(d == 1 for d in attrs.get("dilations", ())):
        return ""
    return "oneDNN ignores dilations there: it refuses them or computes other numbers"


def _padded(attrs: dict[str, Any]) -> str:
    if not attrs.get("auto_pad", "None").startswith("SAME"):
        return ""
    return "oneDNN derives the pads of auto_pad from the wrong tensor there: give pads_begin and pads_end"


def _beyond_a_stride(attrs: dict[str, Any]) -> str:
    if all(p < s for p, s in zip(attrs.get("output_padding", ()), attrs["strides"], strict=False)):
        return ""
    return "oneDNN has no kernel for an output_padding that is not below the stride"


# what oneDNN up to 3.13 computes wrong, or refuses without a reason, by the attributes alone
_WRONG: dict[str, Callable[[dict[str, Any]], str]] = {
    "ConvTranspose": _beyond_a_stride,
    "ConvTransposeBackwardData": _dilated,
    "ConvTransposeBackwardWeights": _padded,
}


def refusal(o: op) -> str:
    """Why the library is not to be trusted with an op, and what computes it; "" if it is."""
    if o._kind not in _WRONG or not (reason := _WRONG[o._kind](o._attrs)):
        return ""
    return f"{reason}; dgo.ops.{schema.OPS[o._kind].builder} computes it"


def fitted(
    ops: Sequence[op],
    inputs: Sequence[logical_tensor],
    outputs: Sequence[logical_tensor],
    native: Partition,
    runtime: Runtime,
) -> list[LogicalTensor]:
    """The outputs with the sizes that the ops give them, where some of these are left open.

    Raises:
        ShapeError, InvalidArgumentError: as of the builders in `dgo.ops`. UnsupportedError: the library has no kernel.
    """
    records = ordered([record(o, "partition.compile") for o in ops])
    given = {t.get_id(): t for t in inputs}
    made = {t.id for item in records for t in item.outputs}
    open_tensors = [t for item in records for t in item.inputs if t.id not in made]
    if any(t.id not in given for t in open_tensors) or not native.is_supported:
        # the native call names the port, or the lack of a kernel
        return [t._native for t in outputs]
    graph = Graph(fpmath_mode="strict", name="partition")
    values = {i: _input(graph, given[i]) for i in dict.fromkeys(t.id for t in open_tensors)}
    groups = weights_groups(records)
    for item in records:
        append(graph, item, values, groups)
    _check_fusion(graph.nodes, runtime.version_info)
    version = runtime.version_info
    for item in records:
        attrs = schema.normalise_attrs(
            item.kind, {name: attr.value for name, attr in item.attrs.items()}, item.where, lenient=True
        )
        read_metas, made_metas = ([values[t.id].meta for t in some] for some in (item.inputs, item.outputs))
        attrs = schema.native_attrs(item.kind, attrs, version)
        if reason := shapes.unsupported(item.kind, read_metas, made_metas, attrs, version):
            raise UnsupportedError(f"{item.where}: {reason}")
    return [_sized(t, values.get(t.get_id())) for t in outputs]


def _check_fusion(nodes: Sequence[Node], version: tuple[int, ...]) -> None:
    """Refuse fused ops of which the library is known to read an operand wrongly, such as MaxPool with Add."""
    if len(nodes) > 1 and _misreads(nodes, version):
        raise UnsupportedError(
            f"partition.compile: oneDNN is known to read an operand of {' and '.join(node.kind for node in nodes)} in "
            "one partition wrongly at these shapes; take partitions of single ops by partition.debug"
        )


def _misreads(nodes: Sequence[Node], version: tuple[int, ...]) -> bool:
    head, first = nodes[:2]
    if head.kind == "ConvTranspose":
        # 3.13 reads a channel's operand wrongly behind a binary op of the result with itself
        return version >= (3, 3) and len(nodes) > 2 and tuple(first.inputs) == head.outputs[:1] * 2
    # only MatMul of batches mistakes axis 1
    flat = head.kind == "MatMul" and len(head.outputs[0].shape) == 2
    return not flat and head.kind not in MEMBERS and not quantizes(nodes) and misread(nodes)


def _input(graph: Graph, t: logical_tensor) -> Value:
    dims = t._native.dims
    if dims is None or None in dims:
        raise ShapeError(f"partition.compile: input {t!r}: all sizes of inputs must be known")
    name = dtypes.NAMES.get(t.get_data_type())
    if name is None:
        raise InvalidArgumentError(f"partition.compile: input {t!r}: no op takes this data type")
    return graph.input(str(t.get_id()), dims, name)


def _sized(t: logical_tensor, value: Value | None) -> LogicalTensor:
    native = t._native
    if value is None or native.dims is None:
        return native
    fits = len(native.dims) == len(value.shape) and all(
        None in (a, b) or a == b for a, b in zip(native.dims, value.shape, strict=True)
    )
    if not fits:
        raise ShapeError(f"partition.compile: output {t!r}: the ops give it the shape {value.shape}")
    if None not in native.dims or all(dim is None for dim in native.dims):
        return native
    strides = None if native.strides is None or None in native.strides else native.strides
    return LogicalTensor(
        native.id, native.dtype, value.shape, strides, native.layout_type, native.property, native.layout_id
    )
