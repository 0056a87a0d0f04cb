"""Made by `python -m dnnl_graph_ops.stubs`; a test compares."""

from collections.abc import Sequence
from typing import Any, Literal, TypeAlias, overload

import numpy as np

from ..graph import Value
from .wildcard import wildcard as wildcard

Array: TypeAlias = np.ndarray[Any, Any]
Ints: TypeAlias = int | Sequence[int]
Tensor: TypeAlias = Value | Array

def conv_transpose(
    src: Value | Any,
    weights: Value | Any,
    bias: Value | Any = None,
    *,
    strides: Ints = 1,
    pads_begin: Ints = 0,
    pads_end: Ints = 0,
    dilations: Ints = 1,
    auto_pad: str = "none",
    output_padding: Ints = 0,
    groups: int = 1,
    data_format: str = "NXC",
    weights_format: str = "XOI",
    name: str | None = None,
) -> Value: ...
def conv_transpose_backprop_filters(
    input_forward: Value | Any,
    output_delta: Value | Any,
    filter_shape_input: Value | Any = None,
    *,
    strides: Ints,
    pads_begin: Ints,
    pads_end: Ints,
    dilations: Ints,
    auto_pad: str = "none",
    output_padding: Ints = 0,
    groups: int = 1,
    data_format: str = "NXC",
    filter_format: str = "XIO",
    filter_shape: Sequence[int] | None = None,
    name: str | None = None,
) -> Value: ...
def conv_transpose_backward_data(
    diff_dst: Value | Any,
    weights: Value | Any,
    *,
    strides: Ints = 1,
    pads_begin: Ints = 0,
    pads_end: Ints = 0,
    dilations: Ints = 1,
    auto_pad: str = "none",
    output_padding: Ints = 0,
    groups: int = 1,
    data_format: str = "NXC",
    weights_format: str = "XOI",
    src_shape: Sequence[int] | None = None,
    name: str | None = None,
) -> Value: ...
def conv_transpose_backward_weights(
    src: Value | Any,
    diff_dst: Value | Any,
    weights_shape: Sequence[int] | Any = None,
    *,
    strides: Ints = 1,
    pads_begin: Ints = 0,
    pads_end: Ints = 0,
    dilations: Ints = 1,
    auto_pad: str = "none",
    output_padding: Ints = 0,
    groups: int = 1,
    data_format: str = "NXC",
    weights_format: str = "XOI",
    name: str | None = None,
) -> Value: ...
def convolution(
    src: Value | Any,
    weights: Value | Any,
    bias: Value | Any = None,
    *,
    strides: Ints = 1,
    pads_begin: Ints = 0,
    pads_end: Ints = 0,
    dilations: Ints = 1,
    auto_pad: str = "none",
    groups: int = 1,
    data_format: str = "NXC",
    weights_format: str = "XIO",
    name: str | None = None,
) -> Value: ...
def convolution_backward_data(
    diff_dst: Value | Any,
    weights: Value | Any,
    dst_shape_input: Value | Any = None,
    *,
    strides: Ints = 1,
    pads_begin: Ints = 0,
    pads_end: Ints = 0,
    dilations: Ints = 1,
    auto_pad: str = "none",
    groups: int = 1,
    data_format: str = "NXC",
    weights_format: str = "XIO",
    output_padding: Ints = 0,
    dst_shape: Sequence[int] | None = None,
    src_shape: Sequence[int] | None = None,
    name: str | None = None,
) -> Value: ...
def convolution_backward_weights(
    src: Value | Any,
    diff_dst: Value | Any,
    weights_shape_input: Value | Any = None,
    *,
    strides: Ints = 1,
    pads_begin: Ints = 0,
    pads_end: Ints = 0,
    dilations: Ints = 1,
    auto_pad: str = "none",
    groups: int = 1,
    data_format: str = "NXC",
    weights_format: str = "XIO",
    weights_shape: Sequence[int] | None = None,
    name: str | None = None,
) -> Value: ...
def abs(src: Tensor, *, name: str | None = None) -> Value: ...
def abs_backward(src: Tensor, diff_dst: Tensor, *, name: str | None = None) -> Value: ...
def add(
    src_0: Tensor, src_1: Tensor, *, auto_broadcast: str = "numpy", dtype: Any = None, name: str | None = None
) -> Value: ...
def avg_pool(
    src: Tensor,
    *,
    strides: Ints,
    pads_begin: Ints,
    pads_end: Ints,
    exclude_pad: bool,
    kernel: Ints,
    data_format: str = "NXC",
    rounding_type: str = "floor",
    auto_pad: str = "None",
    name: str | None = None,
) -> Value: ...
def avg_pool_backward(
    diff_dst: Tensor,
    src_shape_input: Tensor | None = None,
    *,
    strides: Ints,
    pads_begin: Ints,
    pads_end: Ints,
    exclude_pad: bool,
    kernel: Ints,
    auto_pad: str = "None",
    data_format: str = "NXC",
    src_shape: Ints | None = None,
    name: str | None = None,
) -> Value: ...
@overload
def batch_norm_backward(
    src: Tensor,
    diff_dst: Tensor,
    mean: Tensor,
    variance: Tensor,
    gamma: None = None,
    *,
    epsilon: float,
    data_format: str = "NXC",
    outputs: int | None = None,
    name: str | None = None,
) -> Value: ...
@overload
def batch_norm_backward(
    src: Tensor,
    diff_dst: Tensor,
    mean: Tensor,
    variance: Tensor,
    gamma: Tensor | None = None,
    *,
    epsilon: float,
    data_format: str = "NXC",
    outputs: Literal[1],
    name: str | None = None,
) -> Value: ...
@overload
def batch_norm_backward(
    src: Tensor,
    diff_dst: Tensor,
    mean: Tensor,
    variance: Tensor,
    gamma: Tensor,
    *,
    epsilon: float,
    data_format: str = "NXC",
    outputs: Literal[3] | None = None,
    name: str | None = None,
) -> tuple[Value, Value, Value]: ...
def batch_norm_forward_training(
    src: Tensor,
    mean: Tensor,
    variance: Tensor,
    gamma: Tensor | None = None,
    beta: Tensor | None = None,
    *,
    epsilon: float,
    momentum: float | None = None,
    data_format: str = "NXC",
    name: str | None = None,
) -> tuple[Value, Value, Value, Value, Value]: ...
def batch_norm_inference(
    src: Tensor,
    gamma: Tensor,
    beta: Tensor,
    mean: Tensor,
    variance: Tensor,
    *,
    epsilon: float,
    data_format: str = "NXC",
    name: str | None = None,
) -> Value: ...
def bias_add(src: Tensor, bias: Tensor, *, data_format: str = "NXC", name: str | None = None) -> Value: ...
def bias_add_backward(diff_dst: Tensor, *, data_format: str = "NXC", name: str | None = None) -> Value: ...
def clamp(src: Tensor, *, min: float, max: float, name: str | None = None) -> Value: ...
def clamp_backward(
    src_or_dst: Tensor, diff_dst: Tensor, *, min: float, max: float, use_dst: bool = True, name: str | None = None
) -> Value: ...
def concat(*srcs: Tensor, axis: int, name: str | None = None) -> Value: ...
def dequantize(
    src: Tensor,
    *,
    scales: Sequence[float],
    qtype: str = "per_tensor",
    axis: int = 1,
    zps: Ints | None = None,
    dtype: Any = None,
    name: str | None = None,
) -> Value: ...
def divide(
    src_0: Tensor, src_1: Tensor, *, auto_broadcast: str = "numpy", dtype: Any = None, name: str | None = None
) -> Value: ...
def dynamic_dequantize(
    src: Tensor,
    scales: Tensor,
    zps: Tensor | None = None,
    *,
    qtype: str = "per_tensor",
    axis: int = 1,
    group_shape: Ints | None = None,
    name: str | None = None,
) -> Value: ...
def dynamic_quantize(
    src: Tensor,
    scales: Tensor,
    zps: Tensor | None = None,
    *,
    qtype: str = "per_tensor",
    axis: int = 1,
    dtype: Any = None,
    name: str | None = None,
) -> Value: ...
def elu(src: Tensor, *, alpha: float, name: str | None = None) -> Value: ...
def elu_backward(
    src_or_dst: Tensor, diff_dst: Tensor, *, alpha: float, use_dst: bool = True, name: str | None = None
) -> Value: ...
def end(src: Tensor, *, name: str | None = None) -> None: ...
def exp(src: Tensor, *, name: str | None = None) -> Value: ...
def gelu(src: Tensor, *, mode: str = "gelu_erf", name: str | None = None) -> Value: ...
def gelu_backward(src: Tensor, diff_dst: Tensor, *, mode: str = "gelu_erf", name: str | None = None) -> Value: ...
def hard_swish(src: Tensor, *, name: str | None = None) -> Value: ...
def hard_swish_backward(src: Tensor, diff_dst: Tensor, *, name: str | None = None) -> Value: ...
def interpolate(
    src: Tensor,
    sizes_input: Tensor | None = None,
    *,
    mode: str,
    sizes: Ints | None = None,
    scales: Sequence[float] | None = None,
    coordinate_transformation_mode: str = "half_pixel",
    data_format: str = "NXC",
    name: str | None = None,
) -> Value: ...
def interpolate_backward(
    src: Tensor,
    diff_dst: Tensor,
    sizes_input: Tensor | None = None,
    *,
    mode: str,
    coordinate_transformation_mode: str = "half_pixel",
    sizes: Ints | None = None,
    scales: Sequence[float] | None = None,
    data_format: str = "NXC",
    name: str | None = None,
) -> Value: ...
@overload
def layer_norm(
    src: Tensor,
    gamma: Tensor | None = None,
    beta: Tensor | None = None,
    *,
    keep_stats: Literal[False],
    begin_norm_axis: int = -1,
    use_affine: bool = True,
    epsilon: float = 1e-05,
    outputs: int | None = None,
    name: str | None = None,
) -> Value: ...
@overload
def layer_norm(
    src: Tensor,
    gamma: Tensor | None = None,
    beta: Tensor | None = None,
    *,
    keep_stats: bool = True,
    begin_norm_axis: int = -1,
    use_affine: bool = True,
    epsilon: float = 1e-05,
    outputs: Literal[1],
    name: str | None = None,
) -> Value: ...
@overload
def layer_norm(
    src: Tensor,
    gamma: Tensor | None = None,
    beta: Tensor | None = None,
    *,
    keep_stats: Literal[True] = True,
    begin_norm_axis: int = -1,
    use_affine: bool = True,
    epsilon: float = 1e-05,
    outputs: Literal[3] | None = None,
    name: str | None = None,
) -> tuple[Value, Value, Value]: ...
@overload
def layer_norm_backward(
    src: Tensor,
    diff_dst: Tensor,
    mean: Tensor,
    variance: Tensor,
    gamma: Tensor | None = None,
    beta: Tensor | None = None,
    *,
    begin_norm_axis: int = -1,
    use_affine: Literal[False],
    epsilon: float = 1e-05,
    outputs: int | None = None,
    name: str | None = None,
) -> Value: ...
@overload
def layer_norm_backward(
    src: Tensor,
    diff_dst: Tensor,
    mean: Tensor,
    variance: Tensor,
    gamma: Tensor | None = None,
    beta: Tensor | None = None,
    *,
    begin_norm_axis: int = -1,
    use_affine: bool = True,
    epsilon: float = 1e-05,
    outputs: Literal[1],
    name: str | None = None,
) -> Value: ...
@overload
def layer_norm_backward(
    src: Tensor,
    diff_dst: Tensor,
    mean: Tensor,
    variance: Tensor,
    gamma: Tensor | None = None,
    beta: Tensor | None = None,
    *,
    begin_norm_axis: int = -1,
    use_affine: Literal[True] = True,
    epsilon: float = 1e-05,
    outputs: Literal[3] | None = None,
    name: str | None = None,
) -> tuple[Value, Value, Value]: ...
def leaky_relu(src: Tensor, *, alpha: float, name: str | None = None) -> Value: ...
def log(src: Tensor, *, name: str | None = None) -> Value: ...
def log_softmax(src: Tensor, *, axis: int = -1, name: str | None = None) -> Value: ...
def log_softmax_backward(diff_dst: Tensor, dst: Tensor, *, axis: int = -1, name: str | None = None) -> Value: ...
def matmul(
    src: Tensor,
    weights: Tensor,
    bias: Tensor | None = None,
    *,
    transpose_a: bool = False,
    transpose_b: bool = False,
    accumulation_mode: str = "strict",
    dtype: Any = None,
    name: str | None = None,
) -> Value: ...
def maximum(src_0: Tensor, src_1: Tensor, *, auto_broadcast: str = "numpy", name: str | None = None) -> Value: ...
def max_pool(
    src: Tensor,
    *,
    strides: Ints,
    pads_begin: Ints,
    pads_end: Ints,
    kernel: Ints,
    dilations: Ints | None = None,
    data_format: str = "NXC",
    rounding_type: str = "floor",
    auto_pad: str = "None",
    name: str | None = None,
) -> Value: ...
def max_pool_backward(
    src: Tensor,
    diff_dst: Tensor,
    *,
    strides: Ints,
    pads_begin: Ints,
    pads_end: Ints,
    kernel: Ints,
    auto_pad: str = "None",
    dilations: Ints | None = None,
    data_format: str = "NXC",
    name: str | None = None,
) -> Value: ...
def minimum(src_0: Tensor, src_1: Tensor, *, auto_broadcast: str = "numpy", name: str | None = None) -> Value: ...
def mish(src: Tensor, *, name: str | None = None) -> Value: ...
def mish_backward(src: Tensor, diff_dst: Tensor, *, name: str | None = None) -> Value: ...
def multiply(
    src_0: Tensor, src_1: Tensor, *, auto_broadcast: str = "numpy", dtype: Any = None, name: str | None = None
) -> Value: ...
def prelu(
    src: Tensor, slope: Tensor, *, data_format: str = "NXC", per_channel_broadcast: bool = True, name: str | None = None
) -> Value: ...
def prelu_backward(
    src: Tensor, slope: Tensor, diff_dst: Tensor, *, data_format: str = "NXC", name: str | None = None
) -> tuple[Value, Value]: ...
def quantize(
    src: Tensor,
    *,
    scales: Sequence[float],
    qtype: str = "per_tensor",
    axis: int = 1,
    zps: Ints | None = None,
    dtype: Any = None,
    name: str | None = None,
) -> Value: ...
def reciprocal(src: Tensor, *, name: str | None = None) -> Value: ...
def reduce_l1(
    src: Tensor,
    axes_input: Tensor | None = None,
    *,
    axes: Ints | None = None,
    keep_dims: bool = False,
    name: str | None = None,
) -> Value: ...
def reduce_l2(
    src: Tensor,
    axes_input: Tensor | None = None,
    *,
    axes: Ints | None = None,
    keep_dims: bool = False,
    name: str | None = None,
) -> Value: ...
def reduce_max(
    src: Tensor,
    axes_input: Tensor | None = None,
    *,
    axes: Ints | None = None,
    keep_dims: bool = False,
    name: str | None = None,
) -> Value: ...
def reduce_mean(
    src: Tensor,
    axes_input: Tensor | None = None,
    *,
    axes: Ints | None = None,
    keep_dims: bool = False,
    name: str | None = None,
) -> Value: ...
def reduce_min(
    src: Tensor,
    axes_input: Tensor | None = None,
    *,
    axes: Ints | None = None,
    keep_dims: bool = False,
    name: str | None = None,
) -> Value: ...
def reduce_prod(
    src: Tensor,
    axes_input: Tensor | None = None,
    *,
    axes: Ints | None = None,
    keep_dims: bool = False,
    name: str | None = None,
) -> Value: ...
def reduce_sum(
    src: Tensor,
    axes_input: Tensor | None = None,
    *,
    axes: Ints | None = None,
    keep_dims: bool = False,
    name: str | None = None,
) -> Value: ...
def relu(src: Tensor, *, name: str | None = None) -> Value: ...
def relu_backward(src_or_dst: Tensor, diff_dst: Tensor, *, use_dst: bool = True, name: str | None = None) -> Value: ...
def reorder(src: Tensor, *, name: str | None = None) -> Value: ...
def round(src: Tensor, *, name: str | None = None) -> Value: ...
def sigmoid(src: Tensor, *, name: str | None = None) -> Value: ...
def sigmoid_backward(
    src_or_dst: Tensor, diff_dst: Tensor, *, use_dst: bool = True, name: str | None = None
) -> Value: ...
@overload
def softmax(
    src: Tensor,
    *,
    axis: int = 1,
    mode: str = "none",
    dtype: Any = None,
    outputs: Literal[1] | None = None,
    name: str | None = None,
) -> Value: ...
@overload
def softmax(
    src: Tensor, *, axis: int = 1, mode: str = "none", dtype: Any = None, outputs: Literal[2], name: str | None = None
) -> tuple[Value, Value]: ...
def softmax_backward(
    diff_dst: Tensor, dst: Tensor, *, axis: int = 1, dtype: Any = None, name: str | None = None
) -> Value: ...
def softplus(src: Tensor, *, beta: float = 1.0, name: str | None = None) -> Value: ...
def softplus_backward(src: Tensor, diff_dst: Tensor, *, beta: float = 1.0, name: str | None = None) -> Value: ...
def sqrt(src: Tensor, *, name: str | None = None) -> Value: ...
def sqrt_backward(src_or_dst: Tensor, diff_dst: Tensor, *, use_dst: bool = True, name: str | None = None) -> Value: ...
def square(src: Tensor, *, name: str | None = None) -> Value: ...
def squared_difference(
    src_0: Tensor, src_1: Tensor, *, auto_broadcast: str = "numpy", name: str | None = None
) -> Value: ...
def static_reshape(src: Tensor, *, shape: Ints, special_zero: bool, name: str | None = None) -> Value: ...
def static_transpose(src: Tensor, *, order: Ints, name: str | None = None) -> Value: ...
def subtract(
    src_0: Tensor, src_1: Tensor, *, auto_broadcast: str = "numpy", dtype: Any = None, name: str | None = None
) -> Value: ...
def tanh(src: Tensor, *, name: str | None = None) -> Value: ...
def tanh_backward(src_or_dst: Tensor, diff_dst: Tensor, *, use_dst: bool = True, name: str | None = None) -> Value: ...
def type_cast(src: Tensor, *, dtype: Any = None, name: str | None = None) -> Value: ...
def hard_sigmoid(src: Tensor, *, alpha: float, beta: float, name: str | None = None) -> Value: ...
def hard_sigmoid_backward(
    src: Tensor, diff_dst: Tensor, *, alpha: float, beta: float, name: str | None = None
) -> Value: ...
def select(
    cond: Tensor, src_0: Tensor, src_1: Tensor, *, auto_broadcast: str = "numpy", name: str | None = None
) -> Value: ...
def pow(src: Tensor, *, beta: float, name: str | None = None) -> Value: ...
@overload
def group_norm(
    src: Tensor,
    gamma: Tensor | None = None,
    beta: Tensor | None = None,
    *,
    groups: int,
    keep_stats: Literal[False],
    use_affine: bool = True,
    epsilon: float = 1e-05,
    data_format: str = "NXC",
    outputs: int | None = None,
    name: str | None = None,
) -> Value: ...
@overload
def group_norm(
    src: Tensor,
    gamma: Tensor | None = None,
    beta: Tensor | None = None,
    *,
    groups: int,
    keep_stats: bool = True,
    use_affine: bool = True,
    epsilon: float = 1e-05,
    data_format: str = "NXC",
    outputs: Literal[1],
    name: str | None = None,
) -> Value: ...
@overload
def group_norm(
    src: Tensor,
    gamma: Tensor | None = None,
    beta: Tensor | None = None,
    *,
    groups: int,
    keep_stats: Literal[True] = True,
    use_affine: bool = True,
    epsilon: float = 1e-05,
    data_format: str = "NXC",
    outputs: Literal[3] | None = None,
    name: str | None = None,
) -> tuple[Value, Value, Value]: ...
def gen_index(src: Tensor, *, axis: int, dtype: Any = None, name: str | None = None) -> Value: ...
def greater_equal(
    src_0: Tensor, src_1: Tensor, *, auto_broadcast: str = "numpy", dtype: Any = None, name: str | None = None
) -> Value: ...
def rms_norm(
    src: Tensor,
    gamma: Tensor | None = None,
    *,
    begin_norm_axis: int = -1,
    epsilon: float = 1e-05,
    name: str | None = None,
) -> Value: ...
@overload
def dropout(
    src: Tensor,
    seed: Tensor,
    offset: Tensor,
    probability: Tensor,
    *,
    outputs: Literal[1] | None = None,
    name: str | None = None,
) -> Value: ...
@overload
def dropout(
    src: Tensor, seed: Tensor, offset: Tensor, probability: Tensor, *, outputs: Literal[2], name: str | None = None
) -> tuple[Value, Value]: ...
def cos(src: Tensor, *, name: str | None = None) -> Value: ...
def erf(src: Tensor, *, name: str | None = None) -> Value: ...
def gather(src: Tensor, indices: Tensor, *, axis: int = 0, name: str | None = None) -> Value: ...
def pad(
    src: Tensor,
    *,
    pads_begin: Ints,
    pads_end: Ints,
    mode: str = "constant",
    value: float = 0.0,
    name: str | None = None,
) -> Value: ...
def sin(src: Tensor, *, name: str | None = None) -> Value: ...
def slice(
    src: Tensor,
    *,
    starts: Ints,
    ends: Ints,
    axes: Ints | None = None,
    steps: Ints | None = None,
    name: str | None = None,
) -> Value: ...
