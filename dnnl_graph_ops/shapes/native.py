"""Attributes as oneDNN's kernels need them, and the reasons why a valid op has no kernel.

oneDNN's op pages promise more than its kernels do, and versions read equal attributes differently: `native_attrs`
spells attributes so that all versions read them alike.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple, TypeAlias

from .. import schema
from .common import spatial_of, split_weights
from .registry import Meta
from .windows import resolve

Version: TypeAlias = tuple[int, ...]


class Use(NamedTuple):
    """An op with its operands' shapes, as a library is to run it."""

    kind: str
    inputs: Sequence[Meta]
    outputs: Sequence[Meta]
    attrs: Mapping[str, Any]
    version: Version


_WINDOWS: Final = schema.kinds("explicit_pads")


def native_attrs(
    kind: str, attrs: Mapping[str, Any], inputs: Sequence[Meta], outputs: Sequence[Meta], version: Version
) -> dict[str, Any]:
    """Returns attributes for a native op of this version: complete, with explicit pads and axes counted from 0.

    Pads are unchanged where a size is unknown, and in the ConvTranspose ops.
    """
    result = schema.native_attrs(kind, attrs, version)
    if result.get("axis", 0) < 0:
        # DynamicQuantize compiles no negative axis
        result["axis"] += len(inputs[0].shape)
    stated = schema.OPS[kind].stated
    if stated is not None and stated.is_shape:
        result[stated.attribute] = outputs[0].shape
        result.pop("output_padding", None)
    if kind in _WINDOWS:
        result |= _explicit_window(kind, attrs, inputs, outputs)
    return result


def _explicit_window(
    kind: str, attrs: Mapping[str, Any], inputs: Sequence[Meta], outputs: Sequence[Meta]
) -> dict[str, Any]:
    op, layout = schema.OPS[kind], attrs["data_format"]
    slots = (*op.inputs[: len(inputs)], *op.outputs[: len(outputs)])
    shapes = {slot.name: meta.shape for slot, meta in zip(slots, (*inputs, *outputs), strict=True)}
    weights, src, dst = (shapes.get(name, shapes.get(f"diff_{name}")) for name in ("weights", "src", "dst"))
    assert src is not None and dst is not None
    sizes = spatial_of(src, layout)
    kernel = tuple(attrs["kernel"]) if weights is None else split_weights(weights, attrs["weights_format"])[2]
    resolved = resolve(kind, attrs, sizes, kernel, crops=weights is None)
    windows = [window for window in resolved if window is not None]
    if len(windows) < len(sizes):
        return {}
    ends = [window.end for window in windows]
    if weights is None:
        # the gradient of a ceil pooling has no rounding_type: pad until the floor formula gives diff_dst's size
        for axis, (window, count) in enumerate(zip(windows, spatial_of(dst, layout), strict=True)):
            if count is not None and window.positions() < count:
                ends[axis] = (count - 1) * window.stride + window.reach - window.size - window.begin
    explicit = {"auto_pad": "None", "pads_begin": tuple(w.begin for w in windows), "pads_end": tuple(ends)}
    if kind.startswith("MaxPool") and "dilations" not in attrs:
        # 3.2 compiles no MaxPoolBackward with its own default
        explicit["dilations"] = (1,) * len(windows)
    return explicit


def unsupported(
    kind: str,
    inputs: Sequence[Meta],
    outputs: Sequence[Meta],
    attrs: Mapping[str, Any],
    version: Version,
) -> str | None:
    """Returns why this version has no kernel for an op, or None if it has one."""
    given, results = ([meta.dtype for meta in metas] for metas in (inputs, outputs))
    reason = schema.availability(kind, given, version, attrs, outputs=results)
    if reason is None and kind in _LIMITS:
        reason = _LIMITS[kind](Use(kind, inputs, outputs, attrs, version))
    return reason


def _avg_pool(op: Use) -> str | None:
    if op.attrs.get("rounding_type") == "ceil" and not op.attrs["exclude_pad"]:
        return f"oneDNN has no kernel for {op.kind} with rounding_type ceil unless exclude_pad is True"
    pads = _explicit_window(op.kind, op.attrs, op.inputs, op.outputs)
    if pads and op.attrs["exclude_pad"]:
        widest = map(max, pads["pads_begin"], pads["pads_end"])
        if any(pad >= taps for pad, taps in zip(widest, op.attrs["kernel"], strict=True)):
            return f"oneDNN has no kernel for {op.kind} with exclude_pad and windows in nothing but padding"
    return None


def _interpolate(op: Use) -> str | None:
    mode = op.attrs["coordinate_transformation_mode"]
    if mode != "half_pixel":
        return f"oneDNN has a kernel for {op.kind} with half_pixel only, not {mode}"
    small = op.inputs[0] if op.kind == "Interpolate" else op.outputs[0]
    if op.version >= (3, 3) and set(spatial_of(small.shape, op.attrs["data_format"])) == {1}:
        # 3.13 mistakes the layout of a tensor with one position, and writes past its end
        return f"oneDNN has no safe kernel for {op.kind} of one position"
    return None


def _parameters_in_f32(op: Use) -> str | None:
    first = 2 if op.kind.endswith("Backward") else 1
    for slot, meta in zip(schema.OPS[op.kind].inputs[first:], op.inputs[first:], strict=False):
        if meta.dtype != "f32":
            return f"oneDNN has a kernel for {op.kind} with {slot.name} in f32 only, not {meta.dtype}"
    return None


def _batch_norm(op: Use) -> str | None:
    if op.kind == "BatchNormForwardTraining":
        if len(op.inputs) == 4:
            return f"oneDNN has a kernel for {op.kind} with gamma and beta or neither, not with gamma alone"
        if op.version < (3, 3) and len(op.inputs[0].shape) < 4:
            return f"oneDNN 3.2 has a kernel for {op.kind} from 4 axes on, not for {len(op.inputs[0].shape)}"
    if op.kind == "BatchNormTrainingBackward":
        if len(op.outputs) != 3:
            # with one, oneDNN takes mean and variance for constants
            return f"oneDNN computes {op.kind} with 3 outputs, not {len(op.outputs)}"
        if op.version < (3, 3) and len(op.inputs[0].shape) < 4 and op.attrs["data_format"] == "NXC":
            return f"oneDNN 3.2 has a kernel for {op.kind} in NXC from 4 axes on, not for {len(op.inputs[0].shape)}"
    return _parameters_in_f32(op)


def _last_axis(op: Use) -> str | None:
    rank = len(op.inputs[0].shape)
    if op.attrs["begin_norm_axis"] not in (-1, rank - 1):
        # 3.2 and 3.3 accept another axis, but normalise the last one
        return f"oneDNN normalises the last axis only, begin_norm_axis is {op.attrs['begin_norm_axis']}"
    if not 2 <= rank <= 5:
        return f"oneDNN has a kernel for {op.kind} of 2 to 5 axes, not {rank}"
    return None if op.kind == "RMSNorm" else _parameters_in_f32(op)


def _prelu(op: Use) -> str | None:
    rank = len(op.inputs[0].shape)
    # 3.2 reads the channels of a one-axis NXC tensor from the axis in front, and crashes (SIGSEGV)
    return None if 2 <= rank <= 5 else f"oneDNN has a kernel for {op.kind} of 2 to 5 axes, not {rank}"


def _round(op: Use) -> str | None:
    dtype = op.inputs[0].dtype
    return None if dtype == "f32" else f"oneDNN has a kernel for Round of f32 only, not {dtype}"


def _reduce(op: Use) -> str | None:
    if len(op.inputs) > 1:
        return f"oneDNN has a kernel for {op.kind} with axes as attribute only"
    if all(op.inputs[0].shape[axis] == 1 for axis in op.attrs["axes"]):
        return f"oneDNN has no kernel for {op.kind} that reduces nothing but axes of size 1"
    return None


def _concat(op: Use) -> str | None:
    rank = len(op.inputs[0].shape)
    return None if rank <= 6 else f"oneDNN has a kernel for Concat of up to 6 axes, not {rank}"


def _matmul(op: Use) -> str | None:
    src = op.inputs[0].shape
    if src[-2 if op.attrs["transpose_a"] and len(src) > 1 else -1] == 0:
        # 3.13 refuses it; 3.2's result is undocumented
        return "oneDNN has no kernel for MatMul with an inner size of 0"
    bias = op.inputs[2].shape if len(op.inputs) > 2 else ()
    if any(dim != 1 for dim in bias[:-1]):
        return f"oneDNN has a kernel for MatMul with one bias for each column only, not of shape {bias}"
    return None


def _zero_points(op: Use) -> str | None:
    dynamic = op.kind.startswith("Dynamic")
    if dynamic and op.attrs["qtype"] == "per_tensor" and op.inputs[0].dtype in ("s4", "u4"):
        return f"oneDNN has no kernel for {op.kind} of {op.inputs[0].dtype} per_tensor"
    shifted = len(op.inputs) > 2 if dynamic else any(op.attrs.get("zps") or ())
    # 3.2 compiles dynamic quantization, but cannot execute it
    takes = op.version < (3, 3) and not dynamic
    if shifted and op.attrs["qtype"] == "per_channel" and not takes:
        return f"oneDNN {op.version[0]}.{op.version[1]} has a kernel for {op.kind} per_channel without zero points only"
    return None


def _shape_input(op: Use) -> str | None:
    slots = schema.OPS[op.kind].inputs
    if len(op.inputs) == len(slots):
        return f"oneDNN has no kernel for {op.kind} with {slots[-1].name}; give the attribute"
    if op.kind == "ConvolutionBackwardData" and op.attrs["groups"] > 1:
        return f"oneDNN has a kernel for {op.kind} with groups = 1 only, not {op.attrs['groups']}"
    return _avg_pool(op) if op.kind == "AvgPoolBackward" else None


_LIMITS: Final[dict[str, Callable[[Use], str | None]]] = {
    "AvgPool": _avg_pool,
    "AvgPoolBackward": _shape_input,
    "BatchNormForwardTraining": _batch_norm,
    "BatchNormInference": _batch_norm,
    "BatchNormTrainingBackward": _batch_norm,
    "Concat": _concat,
    "ConvolutionBackwardData": _shape_input,
    "ConvolutionBackwardWeights": _shape_input,
    **dict.fromkeys(schema.kinds("quantizes"), _zero_points),
    "GroupNorm": _parameters_in_f32,
    "Interpolate": _interpolate,
    "InterpolateBackward": _interpolate,
    "LayerNorm": _last_axis,
    "LayerNormBackward": _last_axis,
    "MatMul": _matmul,
    "PReLU": _prelu,
    "PReLUBackward": _prelu,
    "RMSNorm": _last_axis,
    "Round": _round,
    **dict.fromkeys((kind for kind, op in schema.OPS.items() if op.empty is not None), _reduce),
}
