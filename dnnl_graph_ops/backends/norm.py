"""Runs group, layer and RMS norm, softmax and log-softmax by kernels of the package."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from math import prod

from .. import dtypes
from ..algorithms.lower import Decision
from ..convolution.nodes import post_ops
from ..convolution.problem import data_view
from ..graph import Node
from ..program import element_ops, elementwise, kernel_post_ops
from ..program import epilogue as post
from ..program.epilogue import Epilogue
from ..program.program import Program, View, order_of
from ..strides import channels_last
from ..symbolic import kernels
from .backend import Backend, FusionGroup, Lowering, match_by

# Appends the steps of a norm and its post-ops, from the views of the node's inputs to the view of the last result.
Builder = Callable[[Program, Node, Sequence[View], View, Epilogue], None]
# the scale of integers that a norm reads, and (scale, zero point, low, high) of those that it writes; of floats 1, None
Integers = tuple[float, tuple[float, int, int, int] | None]


def leads(node: Node) -> bool:
    """Whether a node is a norm that builtin code runs together with the element-wise ops after it as post-ops."""
    return node.kind == "GroupNorm" and serves(node)


def serves(node: Node) -> bool:
    """Whether builtin code computes a norm or softmax with this node's dtypes, attributes and outputs."""
    floats = all(value.dtype in element_ops.FLOATS for value in (node.inputs[0], node.outputs[0]))
    plain = node.attrs.get("mode", "none") == "none"
    return node.kind in OWN_NORMS and len(node.outputs) == 1 and floats and plain and _over_last(node)


def _over_last(node: Node) -> bool:
    """Whether scale and shift of a layer or RMS norm have the sizes of its axes, after ones; True for other kinds."""
    if OWN_NORMS[node.kind] is not _row_norm:
        return True
    src, *affine = node.inputs
    axes = src.shape[node.attrs["begin_norm_axis"] % src.ndim :]
    several = len(axes) > 1
    return all(
        value.shape[-len(axes) :] == axes and set(value.shape[: -len(axes)]) <= {1} and not (several and None in axes)
        for value in affine
    )


def build(
    program: Program, node: Node, inputs: Sequence[View], outputs: Sequence[View], epilogue: Epilogue = ()
) -> None:
    """Appends the steps of a norm or softmax and of the post-ops in `epilogue`."""
    OWN_NORMS[node.kind](program, node, inputs, outputs[0], epilogue)


def integer_norm(
    program: Program, node: Node, inputs: Sequence[View], outputs: Sequence[View], scales: tuple[float, int, float, int]
) -> None:
    """Appends a GroupNorm of integers to integers, by scales and zero points of both; the first zero has no effect."""
    scale, _, to_scale, to_zero = scales
    _group_norm(program, node, inputs, outputs[0], (), (scale, (to_scale, to_zero, -128, 255)))


def _group_norm(
    program: Program,
    node: Node,
    inputs: Sequence[View],
    dst: View,
    epilogue: Epilogue,
    integers: Integers = (1.0, None),
) -> None:
    src, dst = (data_view(view, node.attrs["data_format"]) for view in (inputs[0], dst))
    kernel_has = not epilogue or _last(src, dst)
    fused = kernel_post_ops.fused_or_none(program, epilogue, dst) if kernel_has else None
    if fused is None:
        plain = program.like(dst, "f32")
        if not _alike(plain, plain):
            plain = program.scratch(dst.shape, "f32", channels_last(dst.ndim))
        _normalise(program, node, src, inputs[1:], plain, kernel_post_ops.NOTHING)
        if not elementwise.apply(program, plain, epilogue, dst, f"behind {node.kind}"):
            post.apply(program, plain, epilogue, dst)
        return
    if _alike(src, dst):
        _normalise(program, node, src, inputs[1:], dst, fused, integers)
        return
    result = dst if _alike(dst, dst) else program.scratch(dst.shape, dst.dtype, channels_last(dst.ndim))
    src = program.copied(src, src.dtype, order_of(result), f"src of {node.kind}")
    if not _alike(src, result):
        # the result is a slice whose axes are in another order than that of src in memory
        result = program.like(src, dst.dtype)
    _normalise(program, node, src, inputs[1:], result, fused, integers)
    if result is not dst:
        program.copy(result, dst, f"dst of {node.kind}")


def _normalise(
    program: Program,
    node: Node,
    src: View,
    affine: Sequence[View],
    dst: View,
    fused: kernel_post_ops.Fused,
    integers: Integers = (1.0, None),
) -> None:
    affine = [program.in_a_row(program.converted(view, "f32")) for view in affine] if node.attrs["use_affine"] else []
    if not _alike(src, dst):
        src = program.copied(src, src.dtype, order_of(dst), f"src of {node.kind}")
    n, channels, *spatial = dst.shape
    layouts = dtypes.CODES[src.dtype], src.strides, dtypes.CODES[dst.dtype], dst.strides
    scale, result = integers
    groups, epsilon = node.attrs["groups"], node.attrs["epsilon"] / scale**2
    kernel = kernels.group_norm(n, channels, groups, spatial, *layouts, epsilon, bool(affine), fused.epilogue, result)
    program.kernel(kernel, [src, *affine, *fused.views], [dst], node.kind)


def _last(src: View, dst: View) -> bool:
    """Whether src and dst (N, C, spatial...) are both channels last, with several channels."""
    return dst.shape[1] > 1 and src.strides[1] == dst.strides[1] == 1


def _alike(src: View, dst: View) -> bool:
    """Whether the group norm kernel takes src and dst: channels, or the same spatial axis, have stride 1 in both."""
    if dst.shape[1] == 1 or _last(src, dst):
        return True
    axes = [axis for axis in range(2, dst.ndim) if dst.shape[axis] != 1]
    fastest = min(axes, key=lambda axis: (src.strides[axis], -axis), default=None)
    return fastest is None or src.strides[fastest] == dst.strides[fastest] == 1


def _softmax(program: Program, node: Node, inputs: Sequence[View], dst: View, epilogue: Epilogue) -> None:
    src, axis = inputs[0], node.attrs["axis"] % dst.ndim
    result = dst if _neighbours(dst, dst) else program.scratch(dst.shape, dst.dtype)
    if not _neighbours(src, result):
        src = program.copied(src, src.dtype, order_of(result), f"src of {node.kind}")
    if not _neighbours(src, result):
        result = program.like(src, dst.dtype)
    layouts = dtypes.CODES[src.dtype], src.strides, dtypes.CODES[dst.dtype], result.strides
    program.kernel(kernels.softmax(dst.shape, axis, *layouts, node.kind == "LogSoftmax"), [src], [result], node.kind)
    if result is not dst:
        program.copy(result, dst, f"dst of {node.kind}")


def all_floats(node: Node) -> bool:
    return all(value.dtype in element_ops.FLOATS for value in (*node.inputs, *node.outputs))


def _softmax_gradient(
    program: Program, node: Node, inputs: Sequence[View], outputs: Sequence[View], logarithm: bool = False
) -> None:
    """Appends the gradient of a softmax or its logarithm, on row-major copies where tensors lie otherwise."""
    (target,) = outputs
    dtype = target.dtype if target.dtype == inputs[0].dtype else "f32"

    def taken(view: View) -> bool:
        return view.row_major and view.dtype == dtype

    order, axis = range(target.ndim), node.attrs["axis"] % target.ndim
    reads = [view if taken(view) else program.copied(view, dtype, order, f"of {node.kind}") for view in inputs]
    result = target if taken(target) else program.scratch(target.shape, dtype)
    sizes = prod(target.shape[:axis]), target.shape[axis], prod(target.shape[axis + 1 :])
    kernel = kernels.softmax_gradient(*sizes, dtypes.CODES[dtype], logarithm)
    program.kernel(kernel, reads, [result], node.kind)
    if result is not target:
        program.copy(result, target, f"diff_src of {node.kind}")


def _row_norm(program: Program, node: Node, inputs: Sequence[View], dst: View, epilogue: Epilogue) -> None:
    src, *affine = inputs if node.attrs.get("use_affine", True) else inputs[:1]
    width = prod(dst.shape[node.attrs["begin_norm_axis"] % dst.ndim :])
    read, written = _as_rows(src, width), _as_rows(dst, width)
    if read is None:
        read = _as_rows(program.copied(src, src.dtype, range(src.ndim), f"src of {node.kind}"), width)
    result = dst if written is not None else program.scratch(dst.shape, dst.dtype)
    written = written or _as_rows(result, width)
    assert read is not None and written is not None
    vectors = [_vector(program, view, width) for view in affine]
    codes, pitches = dtypes.CODES, [view.strides[0] if view.shape[0] > 1 else width for view in (read, written)]
    args = (
        read.shape[0], width, codes[src.dtype], pitches[0], codes[dst.dtype], pitches[1], node.attrs["epsilon"],
        bool(vectors),
    )  # fmt: skip
    name = "rms_norm" if node.kind == "RMSNorm" else "layer_norm"
    program.append(name, args, [read, *vectors], [written], node.kind)
    if result is not dst:
        program.copy(result, dst, f"dst of {node.kind}")


def _vector(program: Program, view: View, width: int) -> View:
    """Returns a scale or shift of one axis or several as contiguous f32 numbers, on a copy where it lies otherwise."""
    flat = view.reshaped((width,)) or program.copied(view, "f32", range(view.ndim), "affine").reshaped((width,))
    assert flat is not None
    return program.in_a_row(program.converted(flat, "f32"))


def _as_rows(view: View, width: int) -> View | None:
    """Returns a view as (rows, width) with contiguous rows; None where its strides do not allow that."""
    rows = view.reshaped((view.size // max(width, 1), width))
    return rows if rows is not None and (rows.strides[1] == 1 or rows.shape[1] == 1) else None


def _neighbours(src: View, dst: View) -> bool:
    """Whether some axis has stride 1 in both src and dst."""
    strides = zip(src.strides, dst.strides, dst.shape, strict=True)
    return dst.size <= 1 or any(a == b == 1 and size > 1 for a, b, size in strides)


SOFTMAX_GRADIENTS: dict[str, Callable[[Program, Node, Sequence[View], Sequence[View]], None]] = {
    "LogSoftmaxBackward": partial(_softmax_gradient, logarithm=True),
    "SoftMaxBackward": _softmax_gradient,
}

OWN_NORMS: dict[str, Builder] = {
    "GroupNorm": _group_norm,
    "LayerNorm": _row_norm,
    "LogSoftmax": _softmax,
    "RMSNorm": _row_norm,
    "SoftMax": _softmax,
}


def _build(lowering: Lowering, group: FusionGroup) -> Decision:
    head, *rest = group.nodes
    inputs, output = [lowering.view(value) for value in head.inputs], lowering.view(group.result)
    epilogue = post_ops(head, rest, lowering.view, lowering.env) if rest else ()
    build(lowering.program, head, inputs, [output], epilogue)
    return Decision("builtin kernel", output.dtype)


NORM = Backend("norm", _build, match_by(leads), leads=leads)
