"""Convolutions, products, normalization, pooling, resizing, attention, reductions."""

from __future__ import annotations

import math
from itertools import pairwise
from typing import Any

import numpy as np

from ... import dtypes
from ...errors import UnsupportedError
from ...graph import Value
from .table import Call, aten


def _per_axis(values: Any, count: int) -> list[int]:
    given = list(values) if isinstance(values, list) else [values]
    return given * count if len(given) == 1 else given


def _batched(call: Call, item: Any, axes: int) -> tuple[Any, bool]:
    """With an axis for the batch, and whether it had one."""
    if len(item.shape) == axes + 2:
        return item, True
    return call.reshaped(item, (1, *item.shape)), False


def _as_given(call: Call, made: Any, batched: bool) -> Any:
    return made if batched else call.reshaped(made, made.shape[1:])


@aten("conv1d", "conv2d", "conv3d", "conv1d.padding", "conv2d.padding", "conv3d.padding")
@aten("conv_transpose1d", "conv_transpose2d.input", "conv_transpose3d.input", transposed=True)
@aten("convolution", "_convolution")
def convolution(
    call: Call,
    input: Any,
    weight: Any,
    bias: Any,
    stride: Any,
    padding: Any,
    dilation: Any,
    groups: int,
    transposed: bool = False,
    output_padding: Any = 0,
    **_: Any,
) -> Any:
    axes = len(weight.shape) - 2
    src, batched = _batched(call, input, axes)
    dilation, pads = _per_axis(dilation, axes), padding
    if isinstance(padding, str):
        totals = [d * (k - 1) if padding == "same" else 0 for d, k in zip(dilation, weight.shape[2:], strict=True)]
        pads = [*(total // 2 for total in totals), *(total - total // 2 for total in totals)]
    else:
        pads = _per_axis(padding, axes) * 2
    attrs: dict[str, Any] = {"strides": _per_axis(stride, axes), "pads": pads, "dilations": dilation, "group": groups}
    if transposed:
        attrs["output_padding"] = _per_axis(output_padding, axes)
    operands = [src, weight] if bias is None else [src, weight, bias]
    return _as_given(call, call.std("ConvTranspose" if transposed else "Conv", *operands, **attrs), batched)


@aten("linear")
def linear(call: Call, input: Any, weight: Any, bias: Any, **_: Any) -> Any:
    src = call.tensor(input)
    if len(weight.shape) != 2 or src.ndim < 2:
        raise UnsupportedError(f"{call.where}: of {src.shape} by {weight.shape}")
    return _product(call, src, call.tensor(weight), bias, transpose_b=True)


def _product(call: Call, a: Any, b: Any, bias: Any = None, **flags: Any) -> Any:
    operands = [call.tensor(a), call.tensor(b)]
    for i, name in enumerate(("transpose_a", "transpose_b")):
        given = _turned_constant(operands[i])
        if given is not None and name not in flags:
            operands[i], flags[name] = given, True
    if bias is not None and len(bias.shape) == 1 and (not isinstance(bias, Value) or bias.is_constant):
        operands.append(call.tensor(bias))
        bias = None
    made = call.op("MatMul", *operands, **flags)
    return made if bias is None else call.std("Add", made, bias)


def _turned_constant(value: Value) -> Value | None:
    """What a matrix is the transposed of: products take it as it lies, and nobody keeps it turned."""
    if value.node is None or value.node.kind != "StaticTranspose" or value.ndim != 2:
        return None
    return value.node.inputs[0] if value.node.inputs[0].is_constant else None


@aten("mm", "bmm", "matmul")
def matmul(call: Call, self: Any, **given: Any) -> Any:
    return _product(call, self, given.get("mat2", given.get("other")))


@aten("addmm", "baddbmm")
def addmm(call: Call, self: Any, beta: float = 1, alpha: float = 1, **given: Any) -> Any:
    a, b = given.get("mat1", given.get("batch1")), given.get("mat2", given.get("batch2"))
    if alpha != 1 or beta != 1:
        made, dtype = call.std("MatMul", a, b), call.meta.dtype
        made = made if alpha == 1 else call.std("Mul", made, call.cast(alpha, dtype))
        if not beta:
            return made
        return call.std("Add", made, self if beta == 1 else call.std("Mul", self, call.cast(beta, dtype)))
    return _product(call, a, b, self)


@aten("einsum")
def einsum(call: Call, equation: str, tensors: list[Any], **_: Any) -> Any:
    return call.std("Einsum", *tensors, equation=equation)


# -- normalization -----------------------------------------------------------------------------------------------


def _filled(call: Call, item: Any, shape: Any, number: float, dtype: Any) -> Any:
    """Scale or shift, which may be left out."""
    if item is not None:
        found = call.known_array(item)
        return item if found is None else found
    return np.full(tuple(shape), number, dtypes.numpy_dtype(dtype))


@aten("batch_norm", "_native_batch_norm_legit_no_training", "native_batch_norm", "_native_batch_norm_legit",
      "cudnn_batch_norm", "_batch_norm_no_update")  # fmt: skip
def batch_norm(
    call: Call,
    input: Any,
    weight: Any,
    bias: Any,
    eps: float,
    running_mean: Any = None,
    running_var: Any = None,
    training: bool = False,
    **_: Any,
) -> Any:
    if training or running_mean is None or running_var is None:
        raise UnsupportedError(f"{call.where}: by the statistics of a batch, as in training; call model.eval()")
    if len(input.shape) == 2:
        return _columns(call, input, weight, bias, running_mean, running_var, eps)
    channels, dtype = (input.shape[1],), dtypes.canonical(running_mean.dtype)
    scale, shift = _filled(call, weight, channels, 1, dtype), _filled(call, bias, channels, 0, dtype)
    mean, variance = (_filled(call, one, channels, 0, dtype) for one in (running_mean, running_var))
    return call.std("BatchNormalization", input, scale, shift, mean, variance, epsilon=float(eps))


@aten("_native_batch_norm_legit.no_stats")
def own_statistics(call: Call, input: Any, weight: Any, bias: Any, eps: float, **_: Any) -> Any:
    """Of one image: what InstanceNorm is taken apart into."""
    if input.shape[0] != 1:
        raise UnsupportedError(f"{call.where}: by the statistics of a batch")
    return (group_norm(call, input, input.shape[1], weight, bias, eps),)


def _columns(call: Call, src: Any, weight: Any, bias: Any, mean: Any, variance: Any, eps: float) -> Any:
    """Of a matrix: one factor and one term for each column."""
    given = (weight, bias, mean, variance)
    arrays: list[Any] = [None if one is None else call.known_array(one) for one in given]
    if any(one is not None and array is None for one, array in zip(given, arrays, strict=True)):
        raise UnsupportedError(f"{call.where}: by numbers that are computed")
    wide: list[Any] = [None if one is None else one.astype(np.float64) for one in arrays]
    scale = (1.0 if wide[0] is None else wide[0]) / np.sqrt(wide[3] + eps)
    shift = (0.0 if wide[1] is None else wide[1]) - wide[2] * scale
    kind = dtypes.numpy_dtype(call.metas()[0].dtype)
    return call.std("Add", call.std("Mul", src, scale.astype(kind)[None]), shift.astype(kind)[None])


@aten("layer_norm")
def layer_norm(call: Call, input: Any, normalized_shape: Any, weight: Any, bias: Any, eps: float, **_: Any) -> Any:
    dtype = call.metas()[0].dtype
    scale = _filled(call, weight, normalized_shape, 1, dtype)
    shift = _filled(call, bias, normalized_shape, 0, dtype)
    return call.std("LayerNormalization", input, scale, shift, axis=-len(normalized_shape), epsilon=float(eps))


@aten("native_layer_norm")
def native_layer_norm(call: Call, **given: Any) -> Any:
    return (layer_norm(call, **given),)


@aten("native_group_norm")
def native_group_norm(call: Call, input: Any, weight: Any, bias: Any, group: int, eps: float, **_: Any) -> Any:
    return (group_norm(call, input, group, weight, bias, eps),)


@aten("group_norm")
def group_norm(call: Call, input: Any, num_groups: int, weight: Any, bias: Any, eps: float, **_: Any) -> Any:
    if len(input.shape) == 2:
        columns = call.reshaped(input, (*input.shape, 1))
        return call.reshaped(group_norm(call, columns, num_groups, weight, bias, eps), input.shape)
    if len(input.shape) < 3 or input.shape[1] is None:
        raise UnsupportedError(f"{call.where}: of {input.shape}")
    channels, dtype = (input.shape[1],), call.metas()[0].dtype
    scale, shift = _filled(call, weight, channels, 1, dtype), _filled(call, bias, channels, 0, dtype)
    return call.std("GroupNormalization", input, scale, shift, num_groups=num_groups, epsilon=float(eps))


@aten("instance_norm")
def instance_norm(
    call: Call, input: Any, weight: Any, bias: Any, use_input_stats: bool, eps: float, **more: Any
) -> Any:
    if use_input_stats and more["running_mean"] is not None:
        raise UnsupportedError(f"{call.where}: as in training; call model.eval()")
    if not use_input_stats:
        return batch_norm(call, input, weight, bias, eps, more["running_mean"], more["running_var"])
    return group_norm(call, input, input.shape[1], weight, bias, eps)


@aten("rms_norm", "_fused_rms_norm")
def rms_norm(call: Call, input: Any, normalized_shape: Any, weight: Any, eps: float | None, **_: Any) -> Any:
    dtype = call.metas()[0].dtype
    axes = [len(input.shape) - 1 - i for i in range(len(normalized_shape))]
    epsilon = float(np.finfo(np.float32).eps) if eps is None else float(eps)
    mean = call.std("ReduceMean", call.std("Mul", input, input), axes, keepdims=1)
    made = call.std("Div", input, call.std("Sqrt", call.std("Add", mean, call.cast(epsilon, dtype))))
    made = made if weight is None else call.std("Mul", made, weight)
    return made if call.node.op_type == "aten.rms_norm.default" else (made,)


# -- pooling and resizing ----------------------------------------------------------------------------------------


@aten("max_pool1d", "max_pool2d", "max_pool3d", "max_pool2d_with_indices", "max_pool3d_with_indices")
def max_pool(
    call: Call, self: Any, kernel_size: Any, stride: Any, padding: Any, dilation: Any, ceil_mode: bool, **_: Any
) -> Any:
    return _pooled(call, self, "MaxPool", kernel_size, stride, padding, ceil_mode, dilation)


@aten("avg_pool1d", "avg_pool2d", "avg_pool3d")
def avg_pool(
    call: Call,
    self: Any,
    kernel_size: Any,
    stride: Any,
    padding: Any,
    ceil_mode: bool,
    count_include_pad: bool,
    divisor_override: int | None = None,
    **_: Any,
) -> Any:
    if divisor_override is not None:
        raise UnsupportedError(f"{call.where}: divisor_override")
    counted = int(count_include_pad)
    return _pooled(call, self, "AveragePool", kernel_size, stride, padding, ceil_mode, count_include_pad=counted)


def _pooled(
    call: Call,
    item: Any,
    kind: str,
    kernel: Any,
    stride: Any,
    padding: Any,
    ceil: bool,
    dilation: Any = 1,
    **more: Any,
) -> Any:
    axes = int(next(letter for letter in call.node.op_type if letter in "123"))
    kernel = _per_axis(kernel, axes)
    if ceil and None in item.shape[-axes:]:
        # a window larger than the data, which the op here refuses, has a result in PyTorch
        raise call.needs_sizes(f"of shape {item.shape}")
    src, batched = _batched(call, item, axes)
    made = call.std(
        kind,
        src,
        kernel_shape=kernel,
        strides=_per_axis(stride, axes) if stride else kernel,
        pads=_per_axis(padding, axes) * 2,
        dilations=_per_axis(dilation, axes),
        ceil_mode=int(ceil),
        **more,
    )
    return _as_given(call, made, batched)


@aten("adaptive_avg_pool1d", "adaptive_avg_pool2d", "adaptive_avg_pool3d", "_adaptive_avg_pool2d",
      "_adaptive_avg_pool3d", kind="AveragePool", whole="ReduceMean")  # fmt: skip
@aten("adaptive_max_pool1d", "adaptive_max_pool2d", "adaptive_max_pool3d", kind="MaxPool", whole="ReduceMax")
def adaptive_pool(call: Call, self: Any, output_size: Any, kind: str, whole: str, **_: Any) -> Any:
    axes = int(next(letter for letter in call.node.op_type if letter in "123"))
    wanted, given = call.metas()[0].shape[-axes:], tuple(self.shape[-axes:])
    if all(size == 1 for size in wanted):
        return call.std(whole, self, [-1 - i for i in range(axes)], keepdims=1)
    if wanted == given and None not in wanted:
        return self
    if None in (*wanted, *given):
        raise call.needs_sizes(f"{given} to {wanted}")
    sizes: Any = zip(given, wanted, strict=True)
    windows = [_windows(size, one) for size, one in sizes]
    if None in windows:
        raise UnsupportedError(f"{call.where}: windows of several sizes or distances, {given} to {wanted}")
    kernel, strides = map(list, zip(*windows, strict=True))
    src, batched = _batched(call, self, axes)
    return _as_given(call, call.std(kind, src, kernel_shape=kernel, strides=strides), batched)


def _windows(size: int, count: int) -> tuple[int, int] | None:
    """The length and distance of so many windows that adaptive pooling has along an axis; None if these vary."""
    starts = [i * size // count for i in range(count)]
    lengths = {-(-(i + 1) * size // count) - start for i, start in enumerate(starts)}
    steps = {after - before for before, after in pairwise(starts)} or {size}
    return (lengths.pop(), steps.pop()) if len(lengths) == len(steps) == 1 and 0 not in steps else None


@aten(*(f"upsample_nearest{i}d{one}" for i in (1, 2, 3) for one in ("", ".vec")), mode="nearest")
@aten(*(f"_upsample_nearest_exact{i}d{one}" for i in (1, 2, 3) for one in ("", ".vec")), mode="nearest", exact=True)
@aten("upsample_linear1d", "upsample_linear1d.vec", "upsample_bilinear2d", "upsample_bilinear2d.vec",
      "upsample_trilinear3d", "upsample_trilinear3d.vec", mode="linear")  # fmt: skip
def upsample(call: Call, mode: str, align_corners: bool = False, exact: bool = False, **given: Any) -> Any:
    src = call.tensor(given.get("input", given.get("self")))
    axes = src.ndim - 2
    scales = given.get("scale_factors")
    if scales is None:
        named = ("scales_d", "scales_h", "scales_w")[3 - axes :]
        some = [given.get("scales") if axes == 1 else given.get(name) for name in named]
        scales = None if None in some else some
    where = "asymmetric" if mode == "nearest" and not exact else "align_corners" if align_corners else "half_pixel"
    nearest = "round_prefer_ceil" if exact else "floor"
    attrs: dict[str, Any] = {"mode": mode, "coordinate_transformation_mode": where, "nearest_mode": nearest}
    if scales is not None and not (align_corners and mode == "linear"):
        return call.std("Resize", src, None, np.asarray([1.0, 1.0, *scales], np.float32), None, **attrs)
    sizes = call.meta.shape
    if None in sizes[2:]:
        raise call.needs_sizes(f"{src.shape} to {sizes}")
    if src.shape[:2] != sizes[:2]:
        sizes = (*src.shape[:2], *sizes[2:])
    if None in sizes:
        raise call.needs_sizes(f"{src.shape} to {sizes}")
    return call.std("Resize", src, None, None, list(sizes), **attrs)


# -- reductions --------------------------------------------------------------------------------------------------


@aten("mean", "mean.dim", kind="ReduceMean")
@aten("sum", "sum.dim_IntList", kind="ReduceSum")
@aten("amax", "max", kind="ReduceMax")
@aten("amin", "min", kind="ReduceMin")
@aten("prod", "prod.dim_int", kind="ReduceProd")
@aten("logsumexp", kind="ReduceLogSumExp")
def reduction(call: Call, self: Any, kind: str, dim: Any = None, keepdim: bool = False, **_: Any) -> Any:
    dtype = call.meta.dtype
    if dtype not in ("f32", "bf16", "f16") or not len(self.shape):
        raise UnsupportedError(f"{call.where}: of {self.shape} of {dtype}")
    axes = list(range(len(self.shape))) if dim is None or dim == [] else dim if isinstance(dim, list) else [dim]
    return call.std(kind, call.cast(self, dtype), axes, keepdims=int(keepdim))


@aten("linalg_vector_norm", "norm.ScalarOpt_dim", "norm.Scalar")
def norm(call: Call, self: Any, dim: Any = None, keepdim: bool = False, **given: Any) -> Any:
    order = given.get("ord", given.get("p"))
    kind = {2: "ReduceL2", 1: "ReduceL1"}.get(2 if order is None else order)
    if kind is None:
        raise UnsupportedError(f"{call.where}: of order {order}")
    return reduction(call, self, kind, dim, keepdim)


@aten("var.correction", "var.dim", "std.correction", "std.dim")
def variance(call: Call, self: Any, dim: Any = None, keepdim: bool = False, **given: Any) -> Any:
    axes = list(range(len(self.shape))) if not dim else dim if isinstance(dim, list) else [dim]
    sizes = [self.shape[axis] for axis in axes]
    if None in sizes:
        raise call.needs_sizes(f"over {sizes}")
    count = math.prod(sizes)
    less = given.get("correction", int(given.get("unbiased", True)))
    less = 1 if less is None else less
    if count <= less:
        raise UnsupportedError(f"{call.where}: of {count} elements")
    apart = call.std("Sub", self, call.std("ReduceMean", self, axes, keepdims=1))
    made = call.std("ReduceMean", call.std("Mul", apart, apart), axes, keepdims=int(keepdim))
    if less:
        made = call.std("Mul", made, call.cast(count / (count - less), call.meta.dtype))
    return call.std("Sqrt", made) if call.node.op_type.startswith("aten.std") else made


# -- attention ---------------------------------------------------------------------------------------------------


@aten(
    "scaled_dot_product_attention", "_scaled_dot_product_attention_math", "_scaled_dot_product_flash_attention_for_cpu"
)
def attention(
    call: Call,
    query: Any,
    key: Any,
    value: Any,
    attn_mask: Any = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
    **_: Any,
) -> Any:
    q, k, v = map(call.tensor, (query, key, value))
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
        # rows whose scores all are -Inf give zeros; rows of NaN stay
        kind = dtypes.numpy_dtype(dtype)
        largest = call.std("ReduceMax", products, [-1], keepdims=1)
        unseen = call.op("GreaterEqual", np.full(1, -np.inf, kind), largest)
        shares = call.op("Select", unseen, np.zeros(1, kind), shares)
    result = call.op("MatMul", shares, v)
    return result if call.node.op_type == "aten.scaled_dot_product_attention.default" else (result,)


def _for_all_heads(call: Call, each: Value, q: Value) -> Any:
    """Keys or values for all heads of queries, some of which have the same."""
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
    """The products (..., L, S) plus a mask, -Inf where a condition is false; whether it may hide a row as a whole."""
    known, kind = call.known_array(mask), dtypes.numpy_dtype(products.dtype)
    if known is not None:
        numbers = np.where(known, 0, -np.inf).astype(kind) if known.dtype == np.bool_ else known.astype(kind)
        return call.std("Add", products, numbers), bool(np.isneginf(numbers.astype(np.float32)).all(-1).any())
    if mask.dtype == "boolean":
        if None in mask.shape:
            raise call.needs_sizes(f"with a mask of {mask.shape}")
        mask = call.op("Select", mask, np.zeros(mask.shape, kind), np.full(1, -np.inf, kind))
    return call.std("Add", products, call.cast(mask, products.dtype)), True
