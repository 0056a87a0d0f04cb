"""Rules of convolutions, matrix products, normalization, pooling, resizing, attention and reductions."""

from __future__ import annotations

import math
from itertools import pairwise
from typing import Any

import numpy as np

from ... import dtypes
from ...errors import UnsupportedError
from ...graph import Value
from .table import Call, aten, listed


def _per_axis(values: Any, count: int) -> list[int]:
    given = listed(values)
    return given * count if len(given) == 1 else given


def _on_images(call: Call, kind: str, item: Any, axes: int, *operands: Any, **attrs: Any) -> Any:
    """Builds a standard operator on data with `axes` spatial axes, which may lack the batch axis."""
    if len(item.shape) == axes + 2:
        return call.std(kind, item, *operands, **attrs)
    made = call.std(kind, call.reshaped(item, (1, *item.shape)), *operands, **attrs)
    return call.reshaped(made, made.shape[1:])


@aten("conv1d", "conv2d", "conv3d", "conv1d.padding", "conv2d.padding", "conv3d.padding")
@aten("conv_transpose1d", "conv_transpose2d.input", "conv_transpose3d.input", transposed=True)
@aten("convolution", "_convolution")
def convolution(
    call: Call, input: Any, weight: Any, bias: Any, stride: Any, padding: Any, dilation: Any, groups: int,
    transposed: bool = False, output_padding: Any = 0,
) -> Any:  # fmt: skip
    axes = len(weight.shape) - 2
    dilations = _per_axis(dilation, axes)
    if isinstance(padding, str):
        totals = [d * (k - 1) if padding == "same" else 0 for d, k in zip(dilations, weight.shape[2:], strict=True)]
        pads = [*(total // 2 for total in totals), *(total - total // 2 for total in totals)]
    else:
        pads = _per_axis(padding, axes) * 2
    return _on_images(
        call, "ConvTranspose" if transposed else "Conv", input, axes, weight, *([] if bias is None else [bias]),
        strides=_per_axis(stride, axes), pads=pads, dilations=dilations, group=groups,
        output_padding=_per_axis(output_padding, axes) if transposed else None,
    )  # fmt: skip


@aten("linear")
def linear(call: Call, input: Any, weight: Any, bias: Any) -> Any:
    if len(weight.shape) != 2 or len(input.shape) < 2:
        raise UnsupportedError(f"{call.where}: of {input.shape} by {weight.shape}")
    return _product(call, input, weight, bias, transpose_b=True)


def _product(call: Call, a: Any, b: Any, bias: Any = None, **flags: Any) -> Any:
    operands = [call.as_value(a), call.as_value(b)]
    for i, name in enumerate(("transpose_a", "transpose_b")):
        given = _turned_constant(operands[i])
        if given is not None and name not in flags:
            operands[i], flags[name] = given, True
    if bias is not None and len(bias.shape) == 1 and (not isinstance(bias, Value) or bias.is_constant):
        operands.append(call.as_value(bias))
        bias = None
    made = call.op("MatMul", *operands, **flags)
    return made if bias is None else call.std("Add", made, bias)


def _turned_constant(value: Value) -> Value | None:
    """Returns the constant, or its floats, whose transpose a matrix is: products read it transposed without a copy."""
    if value.node is None or value.node.kind != "StaticTranspose" or value.ndim != 2:
        return None
    (turned,) = value.node.inputs
    source = turned.node.inputs[0] if turned.node is not None and turned.node.kind == "Dequantize" else turned
    return turned if source.is_constant else None


aten("einsum")(lambda call, equation, tensors: call.std("Einsum", *tensors, equation=equation))
aten("mm", "bmm", "matmul")(lambda call, self, other, /: _product(call, self, other))


@aten("addmm", "baddbmm")
def addmm(call: Call, self: Any, a: Any, b: Any, /, beta: float = 1, alpha: float = 1) -> Any:
    if alpha == beta == 1:
        return _product(call, a, b, self)
    # products may be beyond the range of 16 bits before they are scaled
    wide = call.in_f32()
    made = wide.times(wide.std("MatMul", wide.widened(a), wide.widened(b)), alpha)
    return wide.narrowed(wide.std("Add", made, wide.times(wide.widened(self), beta)) if beta else made)


# -- normalization -----------------------------------------------------------------------------------------------


def _affine(call: Call, weight: Any, bias: Any, shape: Any, dtype: str) -> list[Any]:
    """Returns scale and shift of a shape; both are optional."""
    kind = dtypes.numpy_dtype(dtype)
    given = [np.full(tuple(shape), i, kind) if item is None else item for i, item in ((1, weight), (0, bias))]
    return list(map(call.elements, given))


@aten("batch_norm", "_native_batch_norm_legit_no_training", "native_batch_norm", "_native_batch_norm_legit",
      "cudnn_batch_norm", "_batch_norm_no_update")  # fmt: skip
def batch_norm(
    call: Call, input: Any, weight: Any, bias: Any, eps: float, running_mean: Any = None, running_var: Any = None,
    training: bool = False,
) -> Any:  # fmt: skip
    if training or running_mean is None or running_var is None:
        raise UnsupportedError(f"{call.where}: by the statistics of a batch, as in training; call model.eval()")
    given = _affine(call, weight, bias, running_mean.shape, dtypes.canonical(running_mean.dtype))
    given += map(call.elements, (running_mean, running_var))
    if len(input.shape) != 2:
        return call.std("BatchNormalization", input, *given, epsilon=float(eps))
    # for a matrix, one scale and one shift per column
    if not all(isinstance(item, np.ndarray) for item in given):
        raise UnsupportedError(f"{call.where}: by numbers that are computed")
    scale, shift, mean, variance = (item.astype(np.float64) for item in given)
    scale = scale / np.sqrt(variance + eps)
    factor, term = (each.astype(dtypes.numpy_dtype(call.meta.dtype))[None] for each in (scale, shift - mean * scale))
    return call.std("Add", call.std("Mul", input, factor), term)


@aten("_native_batch_norm_legit.no_stats")
def own_statistics(call: Call, input: Any, weight: Any, bias: Any, eps: float) -> Any:
    """Batch normalization by the statistics of one image, into which PyTorch decomposes InstanceNorm."""
    if input.shape[0] != 1:
        raise UnsupportedError(f"{call.where}: by the statistics of a batch")
    return group_norm(call, input, weight, bias, eps, input.shape[1])


@aten("layer_norm", "native_layer_norm")
def layer_norm(call: Call, input: Any, normalized_shape: Any, weight: Any, bias: Any, eps: float) -> Any:
    given = _affine(call, weight, bias, normalized_shape, call.meta.dtype)
    return call.std("LayerNormalization", input, *given, axis=-len(normalized_shape), epsilon=float(eps))


@aten("group_norm", "native_group_norm")
def group_norm(call: Call, input: Any, weight: Any, bias: Any, eps: float, num_groups: int = 0, group: int = 0) -> Any:
    if len(input.shape) == 2:
        columns = call.reshaped(input, (*input.shape, 1))
        return call.reshaped(group_norm(call, columns, weight, bias, eps, num_groups, group), input.shape)
    if len(input.shape) < 3 or input.shape[1] is None:
        raise UnsupportedError(f"{call.where}: of {input.shape}")
    given = _affine(call, weight, bias, input.shape[1:2], call.meta.dtype)
    return call.std("GroupNormalization", input, *given, num_groups=num_groups or group, epsilon=float(eps))


@aten("instance_norm")
def instance_norm(
    call: Call, input: Any, weight: Any, bias: Any, use_input_stats: bool, eps: float, running_mean: Any,
    running_var: Any,
) -> Any:  # fmt: skip
    if use_input_stats and running_mean is not None:
        raise UnsupportedError(f"{call.where}: as in training; call model.eval()")
    if use_input_stats:
        return group_norm(call, input, weight, bias, eps, input.shape[1])
    return batch_norm(call, input, weight, bias, eps, running_mean, running_var)


@aten("rms_norm", "_fused_rms_norm")
def rms_norm(call: Call, input: Any, normalized_shape: Any, weight: Any, eps: float | None) -> Any:
    gamma = [] if weight is None else [call.elements(weight)]
    epsilon = float(np.finfo(np.float32).eps) if eps is None else float(eps)
    src = call.cast(call.as_value(input), call.meta.dtype)
    return call.op("RMSNorm", src, *gamma, begin_norm_axis=-len(normalized_shape), epsilon=epsilon)


# -- pooling and resizing ----------------------------------------------------------------------------------------


def _axes(call: Call) -> int:
    """Returns the number of spatial axes from the op's name."""
    return int(next(letter for letter in call.node.op_type if letter in "123"))


@aten("max_pool1d", "max_pool2d", "max_pool3d", "max_pool2d_with_indices", "max_pool3d_with_indices", kind="MaxPool")
@aten("avg_pool1d", "avg_pool2d", "avg_pool3d", kind="AveragePool")
def pool(
    call: Call, self: Any, kernel_size: Any, stride: Any, padding: Any, ceil_mode: bool, kind: str, dilation: Any = 1,
    count_include_pad: bool | None = None, divisor_override: int | None = None,
) -> Any:  # fmt: skip
    if divisor_override is not None:
        raise UnsupportedError(f"{call.where}: divisor_override")
    axes = _axes(call)
    kernel = _per_axis(kernel_size, axes)
    if ceil_mode and None in self.shape[-axes:]:
        # PyTorch accepts a window larger than the data, the op here does not
        raise call.needs_sizes(f"of shape {self.shape}")
    return _on_images(
        call, kind, self, axes, kernel_shape=kernel, strides=_per_axis(stride, axes) if stride else kernel,
        pads=_per_axis(padding, axes) * 2, dilations=_per_axis(dilation, axes), ceil_mode=int(ceil_mode),
        count_include_pad=None if count_include_pad is None else int(count_include_pad),
    )  # fmt: skip


@aten("adaptive_avg_pool1d", "adaptive_avg_pool2d", "adaptive_avg_pool3d", "_adaptive_avg_pool2d",
      "_adaptive_avg_pool3d", kind="AveragePool", whole="ReduceMean")  # fmt: skip
@aten("adaptive_max_pool1d", "adaptive_max_pool2d", "adaptive_max_pool3d", kind="MaxPool", whole="ReduceMax")
def adaptive_pool(call: Call, self: Any, kind: str, whole: str) -> Any:
    axes = _axes(call)
    wanted, given = call.meta.shape[-axes:], tuple(self.shape[-axes:])
    if all(size == 1 for size in wanted):
        return call.std(whole, self, [-1 - i for i in range(axes)], keepdims=1)
    if None in (*wanted, *given):
        raise call.needs_sizes(f"{given} to {wanted}")
    if wanted == given:
        return self
    sizes: Any = zip(given, wanted, strict=True)
    windows = [_windows(size, count) for size, count in sizes]
    if None in windows:
        raise UnsupportedError(f"{call.where}: windows of several sizes or distances, {given} to {wanted}")
    kernel, strides = map(list, zip(*windows, strict=True))
    return _on_images(call, kind, self, axes, kernel_shape=kernel, strides=strides)


def _windows(size: int, count: int) -> tuple[int, int] | None:
    """Returns kernel size and stride of an axis of adaptive pooling; None if its windows vary."""
    starts = [i * size // count for i in range(count)]
    lengths = {-(-(i + 1) * size // count) - start for i, start in enumerate(starts)}
    steps = {after - before for before, after in pairwise(starts)} or {size}
    return (lengths.pop(), steps.pop()) if len(lengths) == len(steps) == 1 and 0 not in steps else None


@aten(*(f"upsample_nearest{i}d{one}" for i in (1, 2, 3) for one in ("", ".vec")), mode="nearest")
@aten(*(f"_upsample_nearest_exact{i}d{one}" for i in (1, 2, 3) for one in ("", ".vec")), mode="nearest", exact=True)
@aten("upsample_linear1d", "upsample_linear1d.vec", "upsample_bilinear2d", "upsample_bilinear2d.vec",
      "upsample_trilinear3d", "upsample_trilinear3d.vec", mode="linear")  # fmt: skip
def upsample(
    call: Call, input: Any, /, mode: str, align_corners: bool = False, exact: bool = False, scale_factors: Any = None,
    scales: Any = None, scales_d: Any = None, scales_h: Any = None, scales_w: Any = None,
) -> Any:  # fmt: skip
    src = call.as_value(input)
    if scale_factors is None:
        scale_factors = [scales] if src.ndim == 3 else [scales_d, scales_h, scales_w][5 - src.ndim :]
    where = "asymmetric" if mode == "nearest" and not exact else "align_corners" if align_corners else "half_pixel"
    nearest = "round_prefer_ceil" if exact else "floor"
    attrs: dict[str, Any] = {"mode": mode, "coordinate_transformation_mode": where, "nearest_mode": nearest}
    if None not in scale_factors and not (align_corners and mode == "linear"):
        return call.std("Resize", src, None, np.asarray([1.0, 1.0, *scale_factors], np.float32), None, **attrs)
    sizes = (*src.shape[:2], *call.meta.shape[2:])
    if None in sizes:
        raise call.needs_sizes(f"{src.shape} to {sizes}")
    return call.std("Resize", src, None, None, list(sizes), **attrs)


# -- reductions --------------------------------------------------------------------------------------------------


def _reduced(self: Any, dim: Any) -> list[int]:
    """Returns the axes of a reduction."""
    return list(range(len(self.shape))) if dim is None or dim == [] else listed(dim)


@aten("mean", "mean.dim", kind="ReduceMean")
@aten("sum", "sum.dim_IntList", kind="ReduceSum")
@aten("amax", "max", kind="ReduceMax")
@aten("amin", "min", kind="ReduceMin")
@aten("prod", "prod.dim_int", kind="ReduceProd")
@aten("logsumexp", kind="ReduceLogSumExp", wide=True)
def reduction(call: Call, self: Any, kind: str, dim: Any = None, keepdim: bool = False) -> Any:
    dtype = call.meta.dtype
    if dtype not in ("f32", "bf16", "f16") or not len(self.shape):
        raise UnsupportedError(f"{call.where}: of {self.shape} of {dtype}")
    return call.std(kind, call.cast(self, dtype), _reduced(self, dim), keepdims=int(keepdim))


@aten("linalg_vector_norm", "norm.ScalarOpt_dim", "norm.Scalar")
def norm(call: Call, self: Any, order: Any, /, dim: Any = None, keepdim: bool = False) -> Any:
    kind = {None: "ReduceL2", 2: "ReduceL2", 1: "ReduceL1"}.get(order)
    if kind is None:
        raise UnsupportedError(f"{call.where}: of order {order}")
    return reduction(call, self, kind, dim, keepdim)


@aten("var.correction", "var.dim", "std.correction", "std.dim", wide=True)
def variance(
    call: Call, self: Any, dim: Any = None, keepdim: bool = False, correction: Any = None, unbiased: bool = True
) -> Any:
    axes = _reduced(self, dim)
    sizes = [self.shape[axis] for axis in axes]
    if None in sizes:
        raise call.needs_sizes(f"over {sizes}")
    count = math.prod(sizes)
    less = int(unbiased) if correction is None else correction
    if count <= less:
        raise UnsupportedError(f"{call.where}: of {count} elements")
    apart = call.std("Sub", self, call.std("ReduceMean", self, axes, keepdims=1))
    made = call.std("ReduceMean", call.std("Mul", apart, apart), axes, keepdims=int(keepdim))
    made = call.times(made, count / (count - less))
    return call.std("Sqrt", made) if call.node.op_type.startswith("aten.std") else made


# -- attention ---------------------------------------------------------------------------------------------------


@aten(
    "scaled_dot_product_attention",
    "_scaled_dot_product_attention_math",
    "_scaled_dot_product_flash_attention_for_cpu",
    wide=True,
)
def attention(
    call: Call, query: Any, key: Any, value: Any, attn_mask: Any = None, dropout_p: float = 0.0,
    is_causal: bool = False, scale: float | None = None, enable_gqa: bool = False,
) -> Any:  # fmt: skip
    q, k, v = map(call.as_value, (query, key, value))
    if dropout_p:
        raise UnsupportedError(f"{call.where}: with dropout")
    if enable_gqa and q.shape[-3] != k.shape[-3]:
        k, v = (_for_all_heads(call, each, q) for each in (k, v))
    depth, dtype = q.shape[-1], q.dtype
    if depth is None:
        raise call.needs_sizes(f"of {q.shape}")
    products = call.op("MatMul", q, k, transpose_b=True)
    products = call.std("Mul", products, call.cast(1 / math.sqrt(depth) if scale is None else scale, dtype))
    if is_causal:
        rows, columns = q.shape[-2], k.shape[-2]
        if rows is None or columns is None:
            raise call.needs_sizes(f"of {q.shape} and {k.shape}")
        attn_mask = np.tril(np.ones((rows, columns), np.bool_))
    hides = False
    if attn_mask is not None:
        products, hides = _masked(call, products, attn_mask)
    shares = call.std("Softmax", products, axis=-1)
    if hides:
        # rows of -Inf scores give zeros; rows of NaN stay
        kind = dtypes.numpy_dtype(dtype)
        largest = call.std("ReduceMax", products, [-1], keepdims=1)
        unseen = call.op("GreaterEqual", np.full(1, -np.inf, kind), largest)
        shares = call.op("Select", unseen, np.zeros(1, kind), shares)
    return call.op("MatMul", shares, v)


def _for_all_heads(call: Call, each: Value, q: Value) -> Any:
    """Returns keys or values for all query heads; groups of query heads share one (grouped-query attention)."""
    if each.ndim != 4 or None in each.shape or q.shape[1] is None:
        raise call.needs_sizes(f"of {q.shape} and {each.shape}")
    n, shared, *rest = map(int, each.shape)  # type: ignore[arg-type]
    times, left = divmod(int(q.shape[1]), max(shared, 1))
    if left or not shared:
        raise UnsupportedError(f"{call.where}: {q.shape[1]} heads of queries for {shared} of keys")
    one = call.reshaped(each, (n, shared, 1, *rest))
    more = call.op("Pad", one, pads_begin=[0] * 5, pads_end=[0, 0, times - 1, 0, 0], mode="edge")
    return call.reshaped(more, (n, shared * times, *rest))


def _masked(call: Call, products: Value, mask: Any) -> tuple[Any, bool]:
    """Returns the scores (..., L, S) with a mask (-Inf where false), and whether it may hide a whole row."""
    known, kind = call.elements(mask), dtypes.numpy_dtype(products.dtype)
    if isinstance(known, np.ndarray):
        numbers = np.where(known, 0, -np.inf).astype(kind) if known.dtype == np.bool_ else known.astype(kind)
        return call.std("Add", products, numbers), bool(np.isneginf(numbers.astype(np.float32)).all(-1).any())
    if mask.dtype == "boolean":
        if None in mask.shape:
            raise call.needs_sizes(f"with a mask of {mask.shape}")
        mask = call.op("Select", mask, np.zeros(mask.shape, kind), np.full(1, -np.inf, kind))
    return call.std("Add", products, call.cast(mask, products.dtype)), True
