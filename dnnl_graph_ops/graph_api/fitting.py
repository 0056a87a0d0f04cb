"""Checks that ops fit together at given shapes: oneDNN reads past its lists, or crashes, where they do not."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from .. import dtypes, schema, shapes
from .._core import LogicalTensor
from ..backends.onednn import only_row_major
from ..convolution.nodes import CONV_KINDS
from ..errors import InvalidArgumentError, ShapeError, UnsupportedError
from ..graph import Graph, Node, Value
from ..graph.json_format import Op, ordered
from ..onednn.broadcasts import OTHER, misread
from ..onednn.exact_int8 import quantizes
from ..onednn.workarounds import staged, wrong_when_narrow
from ..ops.json_graph import append, weights_groups
from ..program.program import Buffer, Edge, NativeOp, NativeStep, Place, View
from ..runtime import Runtime, cpu
from ..shapes.native import native_attrs
from ..strides import dense_strides, extent
from .logical_tensors import changed, logical_tensor
from .ops import FIXED_SCALES, op, record


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


# ops that oneDNN up to 3.13 computes wrong, or refuses without a reason, by their attributes
_WRONG: dict[str, Callable[[dict[str, Any]], str]] = {
    "ConvTranspose": _beyond_a_stride,
    "ConvTransposeBackwardData": _dilated,
    "ConvTransposeBackwardWeights": _padded,
}


def refusal(o: op) -> str:
    """Returns why oneDNN computes an op wrong, and what to use instead; "" if oneDNN computes it correctly."""
    if o._kind not in _WRONG or not (reason := _WRONG[o._kind](o._attrs)):
        return ""
    return f"{reason}; dgo.ops.{schema.OPS[o._kind].builder} computes it"


def fitted(
    ops: Sequence[op],
    inputs: Sequence[logical_tensor],
    outputs: Sequence[logical_tensor],
    runtime: Runtime,
) -> list[LogicalTensor]:
    """Returns the outputs with unknown sizes filled in from the ops.

    Raises:
        ShapeError, InvalidArgumentError: as the builders in `dgo.ops`. UnsupportedError: oneDNN has no kernel for
        these shapes and layouts, or a kernel that is known to read or write wrong elements.
    """
    records = ordered([record(o, "partition.compile") for o in ops])
    given = {t.get_id(): t for t in inputs}
    made = {t.id for item in records for t in item.outputs}
    read = dict.fromkeys(t.id for item in records for t in item.inputs if t.id not in made)
    if any(i not in given for i in read):
        # the native call's error names the port
        return [t._native for t in outputs]
    graph = Graph(fpmath_mode="strict", name="partition")
    values = {i: _input(graph, given[i]) for i in read}
    groups = weights_groups(records)
    for item in records:
        append(graph, item, values, groups)
    _check_fusion(graph.nodes, runtime.version_info)
    results = [_sized(t, values.get(t.get_id())) for t in outputs]
    _check_kernels(records, values, [*(t._native for t in inputs), *results], runtime)
    return results


def _check_kernels(
    records: Sequence[Op], values: Mapping[int, Value], edges: Sequence[LogicalTensor], runtime: Runtime
) -> None:
    """Raises for ops without a kernel in this version, and for views that its kernels misread or write past."""
    version = runtime.version_info
    views = {native.id: _view(native, values[native.id]) for native in edges if native.id in values}
    steps = []
    for item in records:
        attrs = schema.normalise_attrs(
            item.kind, {name: attr.value for name, attr in item.attrs.items()}, item.where, lenient=True
        )
        ins, outs = ([values[t.id]._meta for t in some] for some in (item.inputs, item.outputs))
        _check_axis(item, len(ins[0].shape), alone=len(records) == 1)
        if reason := shapes.unsupported(item.kind, ins, outs, schema.native_attrs(item.kind, attrs, version), version):
            raise UnsupportedError(f"{item.where}: {reason}")
        spec = schema.OPS[item.kind]
        for t in (*item.inputs, *item.outputs):
            view = views.get(t.id)
            # batches of MatMul are misread only for the strides that `dense_unit_axes` replaces
            free = version < spec.row_major_since or spec.row_major == "batches"
            dense = free or not only_row_major(spec.row_major, values[t.id])
            if not dense and view is not None and not view.row_major:
                raise UnsupportedError(
                    f"{item.where}: oneDNN's kernel takes tensor {t.id} only row-major, got strides "
                    f"{view.strides}; pass a copy"
                )
        operands = ([views.get(t.id) or _edge(values[t.id]) for t in some] for some in (item.inputs, item.outputs))
        reads, writes = map(tuple, operands)
        steps.append(NativeOp(item.kind, native_attrs(item.kind, attrs, ins, outs, version), reads, writes))
    step = NativeStep(tuple(steps), "partition")
    if any(0 in view.strides and view.size > 1 for view in step.writes):
        # overlapping elements: the native call's error names the axis
        return
    tiles = cpu.has_tiles(runtime)
    wrong = wrong_when_narrow(steps[0]) and steps[0].outputs[0].dtype != "f32"
    if wrong or staged(step, literal=True, tiles=tiles) != [step]:
        names = ", ".join(item.where for item in records)
        raise UnsupportedError(
            f"{names}: oneDNN's kernel is known to read or write wrong elements at these shapes and "
            f"strides; {' and '.join(f'dgo.ops.{schema.OPS[item.kind].builder}' for item in records)} computes it"
        )


def _check_axis(item: Op, ndim: int, alone: bool) -> None:
    """Raises for a negative channel axis outside of a fused partition, where oneDNN ignores it."""
    axis = item.attrs["axis"].value if "axis" in item.attrs else 1
    channels = item.kind in FIXED_SCALES and "qtype" in item.attrs
    if alone and channels and item.attrs["qtype"].value == "per_channel" and axis < 0:
        raise UnsupportedError(
            f"{item.where}: oneDNN has no kernel for axis = {axis} of one op alone; give axis = {axis + ndim}"
        )


def _view(native: LogicalTensor, value: Value) -> View:
    """Returns a tensor's view by its strides; dense where they are unknown."""
    shape: tuple[int, ...] = value.shape  # type: ignore[assignment]
    known = native.strides is not None and None not in native.strides and native.dims == shape
    strides: tuple[int, ...] = native.strides if known else dense_strides(shape)  # type: ignore[assignment]
    return View(Buffer(Place.SCRATCH, value.dtype, extent(shape, strides)), shape, strides)


def _edge(value: Value) -> Edge:
    return Edge(value.shape, value.dtype)  # type: ignore[arg-type]


def _check_fusion(nodes: Sequence[Node], version: tuple[int, ...]) -> None:
    """Raises for fused ops whose operand oneDNN is known to misread, such as MaxPool with Add."""
    if len(nodes) > 1 and _misreads(nodes, version):
        raise UnsupportedError(
            f"partition.compile: oneDNN is known to read an operand of {' and '.join(node.kind for node in nodes)} in "
            "one partition wrongly at these shapes; take partitions of single ops by partition.debug"
        )


def _misreads(nodes: Sequence[Node], version: tuple[int, ...]) -> bool:
    head, first = nodes[:2]
    if head.kind == "ConvTranspose":
        # 3.13 misreads a per-channel operand after a binary op of the result with itself
        return version >= (3, 3) and len(nodes) > 2 and tuple(first.inputs) == head.outputs[:1] * 2
    # only batched MatMul misreads axis 1
    flat = head.kind == "MatMul" and len(head.outputs[0].shape) == 2
    # after it, an operand that broadcasts otherwise is a separate op within the partition
    besides = OTHER if head.kind == "MatMul" else ""
    return not flat and head.kind not in CONV_KINDS and not quantizes(nodes) and misread(nodes, besides=besides)


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
    return changed(native, dims=value.shape, strides=strides)
