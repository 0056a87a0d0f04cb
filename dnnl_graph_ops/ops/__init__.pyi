"""Made by `python -m dnnl_graph_ops.ops.stubs`; a test compares."""

from collections.abc import Sequence
from typing import Any, Literal, overload

import numpy as np

from ..graph import Value
from .wildcard import wildcard as wildcard

Array = np.ndarray[Any, Any]

def conv_transpose(
    src: Value | Any,
    weights: Value | Any,
    bias: Value | Any = None,
    *,
    strides: int | Sequence[int] = 1,
    pads_begin: int | Sequence[int] = 0,
    pads_end: int | Sequence[int] = 0,
    dilations: int | Sequence[int] = 1,
    auto_pad: str = "none",
    output_padding: int | Sequence[int] = 0,
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
    strides: int | Sequence[int],
    pads_begin: int | Sequence[int],
    pads_end: int | Sequence[int],
    dilations: int | Sequence[int],
    auto_pad: str = "none",
    output_padding: int | Sequence[int] = 0,
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
    strides: int | Sequence[int] = 1,
    pads_begin: int | Sequence[int] = 0,
    pads_end: int | Sequence[int] = 0,
    dilations: int | Sequence[int] = 1,
    auto_pad: str = "none",
    output_padding: int | Sequence[int] = 0,
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
    strides: int | Sequence[int] = 1,
    pads_begin: int | Sequence[int] = 0,
    pads_end: int | Sequence[int] = 0,
    dilations: int | Sequence[int] = 1,
    auto_pad: str = "none",
    output_padding: int | Sequence[int] = 0,
    groups: int = 1,
    data_format: str = "NXC",
    weights_format: str = "XOI",
    name: str | None = None,
) -> Value: ...
def abs(
    src: Value | Array,
    *,
    name: str | None = None,
) -> Value: ...
def abs_backward(
    src: Value | Array,
    diff_dst: Value | Array,
    *,
    name: str | None = None,
) -> Value: ...
def add(
    src_0: Value | Array,
    src_1: Value | Array,
    *,
    auto_broadcast: str = "numpy",
    dtype: Any = None,
    name: str | None = None,
) -> Value: ...
def avg_pool(
    src: Value | Array,
    *,
    strides: int | Sequence[int],
    pads_begin: int | Sequence[int],
    pads_end: int | Sequence[int],
    exclude_pad: bool,
    kernel: int | Sequence[int],
    data_format: str = "NXC",
    rounding_type: str = "floor",
    auto_pad: str = "None",
    name: str | None = None,
) -> Value: ...
def avg_pool_backward(
    diff_dst: Value | Array,
    src_shape_input: Value | Array | None = None,
    *,
    strides: int | Sequence[int],
    pads_begin: int | Sequence[int],
    pads_end: int | Sequence[int],
    exclude_pad: bool,
    kernel: int | Sequence[int],
    auto_pad: str = "None",
    data_format: str = "NXC",
    src_shape: int | Sequence[int] | None = None,
    name: str | None = None,
) -> Value: ...
def batch_norm_backward(
    src: Value | Array,
    diff_dst: Value | Array,
    mean: Value | Array,
    variance: Value | Array,
    gamma: Value | Array | None = None,
    *,
    epsilon: float,
    data_format: str = "NXC",
    outputs: int | None = None,
    name: str | None = None,
) -> tuple[Value, ...]: ...
def batch_norm_forward_training(
    src: Value | Array,
    mean: Value | Array,
    variance: Value | Array,
    gamma: Value | Array | None = None,
    beta: Value | Array | None = None,
    *,
    epsilon: float,
    momentum: float | None = None,
    data_format: str = "NXC",
    name: str | None = None,
) -> tuple[Value, ...]: ...
def batch_norm_inference(
    src: Value | Array,
    gamma: Value | Array,
    beta: Value | Array,
    mean: Value | Array,
    variance: Value | Array,
    *,
    epsilon: float,
    data_format: str = "NXC",
    name: str | None = None,
) -> Value: ...
def bias_add(
    src: Value | Array,
    bias: Value | Array,
    *,
    data_format: str = "NXC",
    name: str | None = None,
) -> Value: ...
def bias_add_backward(
    diff_dst: Value | Array,
    *,
    data_format: str = "NXC",
    name: str | None = None,
) -> Value: ...
def clamp(
    src: Value | Array,
    *,
    min: float,
    max: float,
    name: str | None = None,
) -> Value: ...
def clamp_backward(
    src_or_dst: Value | Array,
    diff_dst: Value | Array,
    *,
    min: float,
    max: float,
    use_dst: bool = True,
    name: str | None = None,
) -> Value: ...
def concat(
    *srcs: Value | Array,
    axis: int,
    name: str | None = None,
) -> Value: ...
def convolution(
    src: Value | Array,
    weights: Value | Array,
    bias: Value | Array | None = None,
    *,
    strides: int | Sequence[int],
    pads_begin: int | Sequence[int],
    pads_end: int | Sequence[int],
    dilations: int | Sequence[int],
    auto_pad: str = "None",
    groups: int = 1,
    data_format: str = "NXC",
    weights_format: str = "XIO",
    name: str | None = None,
) -> Value: ...
def convolution_backward_data(
    diff_dst: Value | Array,
    weights: Value | Array,
    dst_shape_input: Value | Array | None = None,
    *,
    strides: int | Sequence[int],
    pads_begin: int | Sequence[int],
    pads_end: int | Sequence[int],
    dilations: int | Sequence[int],
    output_padding: int | Sequence[int] | None = None,
    dst_shape: int | Sequence[int] | None = None,
    auto_pad: str = "None",
    groups: int = 1,
    data_format: str = "NXC",
    weights_format: str = "XIO",
    name: str | None = None,
) -> Value: ...
def convolution_backward_weights(
    src: Value | Array,
    diff_dst: Value | Array,
    weights_shape_input: Value | Array | None = None,
    *,
    strides: int | Sequence[int],
    pads_begin: int | Sequence[int],
    pads_end: int | Sequence[int],
    dilations: int | Sequence[int],
    weights_shape: int | Sequence[int] | None = None,
    auto_pad: str = "None",
    groups: int = 1,
    data_format: str = "NXC",
    weights_format: str = "XIO",
    name: str | None = None,
) -> Value: ...
def dequantize(
    src: Value | Array,
    *,
    scales: Sequence[float],
    qtype: str = "per_tensor",
    axis: int = 1,
    zps: int | Sequence[int] | None = None,
    dtype: Any = None,
    name: str | None = None,
) -> Value: ...
def divide(
    src_0: Value | Array,
    src_1: Value | Array,
    *,
    auto_broadcast: str = "numpy",
    dtype: Any = None,
    name: str | None = None,
) -> Value: ...
def dynamic_dequantize(
    src: Value | Array,
    scales: Value | Array,
    zps: Value | Array | None = None,
    *,
    qtype: str = "per_tensor",
    axis: int = 1,
    group_shape: int | Sequence[int] | None = None,
    name: str | None = None,
) -> Value: ...
def dynamic_quantize(
    src: Value | Array,
    scales: Value | Array,
    zps: Value | Array | None = None,
    *,
    qtype: str = "per_tensor",
    axis: int = 1,
    dtype: Any = None,
    name: str | None = None,
) -> Value: ...
def elu(
    src: Value | Array,
    *,
    alpha: float,
    name: str | None = None,
) -> Value: ...
def elu_backward(
    src_or_dst: Value | Array,
    diff_dst: Value | Array,
    *,
    alpha: float,
    use_dst: bool = True,
    name: str | None = None,
) -> Value: ...
def end(
    src: Value | Array,
    *,
    name: str | None = None,
) -> Value: ...
def exp(
    src: Value | Array,
    *,
    name: str | None = None,
) -> Value: ...
def gelu(
    src: Value | Array,
    *,
    mode: str = "gelu_erf",
    name: str | None = None,
) -> Value: ...
def gelu_backward(
    src: Value | Array,
    diff_dst: Value | Array,
    *,
    mode: str = "gelu_erf",
    name: str | None = None,
) -> Value: ...
def hard_swish(
    src: Value | Array,
    *,
    name: str | None = None,
) -> Value: ...
def hard_swish_backward(
    src: Value | Array,
    diff_dst: Value | Array,
    *,
    name: str | None = None,
) -> Value: ...
def interpolate(
    src: Value | Array,
    sizes_input: Value | Array | None = None,
    *,
    mode: str,
    sizes: int | Sequence[int] | None = None,
    scales: Sequence[float] | None = None,
    coordinate_transformation_mode: str = "half_pixel",
    data_format: str = "NXC",
    name: str | None = None,
) -> Value: ...
def interpolate_backward(
    src: Value | Array,
    diff_dst: Value | Array,
    sizes_input: Value | Array | None = None,
    *,
    mode: str,
    coordinate_transformation_mode: str = "half_pixel",
    sizes: int | Sequence[int] | None = None,
    scales: Sequence[float] | None = None,
    data_format: str = "NXC",
    name: str | None = None,
) -> Value: ...
def layer_norm(
    src: Value | Array,
    gamma: Value | Array | None = None,
    beta: Value | Array | None = None,
    *,
    keep_stats: bool = True,
    begin_norm_axis: int = -1,
    use_affine: bool = True,
    epsilon: float = 1e-05,
    outputs: int | None = None,
    name: str | None = None,
) -> tuple[Value, ...]: ...
def layer_norm_backward(
    src: Value | Array,
    diff_dst: Value | Array,
    mean: Value | Array,
    variance: Value | Array,
    gamma: Value | Array | None = None,
    beta: Value | Array | None = None,
    *,
    begin_norm_axis: int = -1,
    use_affine: bool = True,
    epsilon: float = 1e-05,
    outputs: int | None = None,
    name: str | None = None,
) -> tuple[Value, ...]: ...
def leaky_relu(
    src: Value | Array,
    *,
    alpha: float,
    name: str | None = None,
) -> Value: ...
def log(
    src: Value | Array,
    *,
    name: str | None = None,
) -> Value: ...
def log_softmax(
    src: Value | Array,
    *,
    axis: int = -1,
    name: str | None = None,
) -> Value: ...
def log_softmax_backward(
    diff_dst: Value | Array,
    dst: Value | Array,
    *,
    axis: int = -1,
    name: str | None = None,
) -> Value: ...
def matmul(
    src: Value | Array,
    weights: Value | Array,
    bias: Value | Array | None = None,
    *,
    transpose_a: bool = False,
    transpose_b: bool = False,
    accumulation_mode: str = "strict",
    dtype: Any = None,
    name: str | None = None,
) -> Value: ...
def maximum(
    src_0: Value | Array,
    src_1: Value | Array,
    *,
    auto_broadcast: str = "numpy",
    name: str | None = None,
) -> Value: ...
def max_pool(
    src: Value | Array,
    *,
    strides: int | Sequence[int],
    pads_begin: int | Sequence[int],
    pads_end: int | Sequence[int],
    kernel: int | Sequence[int],
    dilations: int | Sequence[int] | None = None,
    data_format: str = "NXC",
    rounding_type: str = "floor",
    auto_pad: str = "None",
    name: str | None = None,
) -> Value: ...
def max_pool_backward(
    src: Value | Array,
    diff_dst: Value | Array,
    *,
    strides: int | Sequence[int],
    pads_begin: int | Sequence[int],
    pads_end: int | Sequence[int],
    kernel: int | Sequence[int],
    auto_pad: str = "None",
    dilations: int | Sequence[int] | None = None,
    data_format: str = "NXC",
    name: str | None = None,
) -> Value: ...
def minimum(
    src_0: Value | Array,
    src_1: Value | Array,
    *,
    auto_broadcast: str = "numpy",
    name: str | None = None,
) -> Value: ...
def mish(
    src: Value | Array,
    *,
    name: str | None = None,
) -> Value: ...
def mish_backward(
    src: Value | Array,
    diff_dst: Value | Array,
    *,
    name: str | None = None,
) -> Value: ...
def multiply(
    src_0: Value | Array,
    src_1: Value | Array,
    *,
    auto_broadcast: str = "numpy",
    dtype: Any = None,
    name: str | None = None,
) -> Value: ...
def prelu(
    src: Value | Array,
    slope: Value | Array,
    *,
    data_format: str = "NXC",
    per_channel_broadcast: bool = True,
    name: str | None = None,
) -> Value: ...
def prelu_backward(
    src: Value | Array,
    slope: Value | Array,
    diff_dst: Value | Array,
    *,
    data_format: str = "NXC",
    name: str | None = None,
) -> tuple[Value, ...]: ...
def quantize(
    src: Value | Array,
    *,
    scales: Sequence[float],
    qtype: str = "per_tensor",
    axis: int = 1,
    zps: int | Sequence[int] | None = None,
    dtype: Any = None,
    name: str | None = None,
) -> Value: ...
def reciprocal(
    src: Value | Array,
    *,
    name: str | None = None,
) -> Value: ...
def reduce_l1(
    src: Value | Array,
    axes_input: Value | Array | None = None,
    *,
    axes: int | Sequence[int] | None = None,
    keep_dims: bool = False,
    name: str | None = None,
) -> Value: ...
def reduce_l2(
    src: Value | Array,
    axes_input: Value | Array | None = None,
    *,
    axes: int | Sequence[int] | None = None,
    keep_dims: bool = False,
    name: str | None = None,
) -> Value: ...
def reduce_max(
    src: Value | Array,
    axes_input: Value | Array | None = None,
    *,
    axes: int | Sequence[int] | None = None,
    keep_dims: bool = False,
    name: str | None = None,
) -> Value: ...
def reduce_mean(
    src: Value | Array,
    axes_input: Value | Array | None = None,
    *,
    axes: int | Sequence[int] | None = None,
    keep_dims: bool = False,
    name: str | None = None,
) -> Value: ...
def reduce_min(
    src: Value | Array,
    axes_input: Value | Array | None = None,
    *,
    axes: int | Sequence[int] | None = None,
    keep_dims: bool = False,
    name: str | None = None,
) -> Value: ...
def reduce_prod(
    src: Value | Array,
    axes_input: Value | Array | None = None,
    *,
    axes: int | Sequence[int] | None = None,
    keep_dims: bool = False,
    name: str | None = None,
) -> Value: ...
def reduce_sum(
    src: Value | Array,
    axes_input: Value | Array | None = None,
    *,
    axes: int | Sequence[int] | None = None,
    keep_dims: bool = False,
    name: str | None = None,
) -> Value: ...
def relu(
    src: Value | Array,
    *,
    name: str | None = None,
) -> Value: ...
def relu_backward(
    src_or_dst: Value | Array,
    diff_dst: Value | Array,
    *,
    use_dst: bool = True,
    name: str | None = None,
) -> Value: ...
def reorder(
    src: Value | Array,
    *,
    name: str | None = None,
) -> Value: ...
def round(
    src: Value | Array,
    *,
    name: str | None = None,
) -> Value: ...
def sigmoid(
    src: Value | Array,
    *,
    name: str | None = None,
) -> Value: ...
def sigmoid_backward(
    src_or_dst: Value | Array,
    diff_dst: Value | Array,
    *,
    use_dst: bool = True,
    name: str | None = None,
) -> Value: ...
@overload
def softmax(
    src: Value | Array,
    *,
    axis: int = 1,
    mode: str = "none",
    dtype: Any = None,
    outputs: Literal[1] | None = None,
    name: str | None = None,
) -> Value: ...
@overload
def softmax(
    src: Value | Array,
    *,
    axis: int = 1,
    mode: str = "none",
    dtype: Any = None,
    outputs: Literal[2],
    name: str | None = None,
) -> tuple[Value, Value]: ...
def softmax_backward(
    diff_dst: Value | Array,
    dst: Value | Array,
    *,
    axis: int = 1,
    dtype: Any = None,
    name: str | None = None,
) -> Value: ...
def softplus(
    src: Value | Array,
    *,
    beta: float = 1.0,
    name: str | None = None,
) -> Value: ...
def softplus_backward(
    src: Value | Array,
    diff_dst: Value | Array,
    *,
    beta: float = 1.0,
    name: str | None = None,
) -> Value: ...
def sqrt(
    src: Value | Array,
    *,
    name: str | None = None,
) -> Value: ...
def sqrt_backward(
    src_or_dst: Value | Array,
    diff_dst: Value | Array,
    *,
    use_dst: bool = True,
    name: str | None = None,
) -> Value: ...
def square(
    src: Value | Array,
    *,
    name: str | None = None,
) -> Value: ...
def squared_difference(
    src_0: Value | Array,
    src_1: Value | Array,
    *,
    auto_broadcast: str = "numpy",
    name: str | None = None,
) -> Value: ...
def static_reshape(
    src: Value | Array,
    *,
    shape: int | Sequence[int],
    special_zero: bool,
    name: str | None = None,
) -> Value: ...
def static_transpose(
    src: Value | Array,
    *,
    order: int | Sequence[int],
    name: str | None = None,
) -> Value: ...
def subtract(
    src_0: Value | Array,
    src_1: Value | Array,
    *,
    auto_broadcast: str = "numpy",
    dtype: Any = None,
    name: str | None = None,
) -> Value: ...
def tanh(
    src: Value | Array,
    *,
    name: str | None = None,
) -> Value: ...
def tanh_backward(
    src_or_dst: Value | Array,
    diff_dst: Value | Array,
    *,
    use_dst: bool = True,
    name: str | None = None,
) -> Value: ...
def type_cast(
    src: Value | Array,
    *,
    dtype: Any = None,
    name: str | None = None,
) -> Value: ...
def hard_sigmoid(
    src: Value | Array,
    *,
    alpha: float,
    beta: float,
    name: str | None = None,
) -> Value: ...
def hard_sigmoid_backward(
    src: Value | Array,
    diff_dst: Value | Array,
    *,
    alpha: float,
    beta: float,
    name: str | None = None,
) -> Value: ...
def select(
    cond: Value | Array,
    src_0: Value | Array,
    src_1: Value | Array,
    *,
    auto_broadcast: str = "numpy",
    name: str | None = None,
) -> Value: ...
def pow(
    src: Value | Array,
    *,
    beta: float,
    name: str | None = None,
) -> Value: ...
def group_norm(
    src: Value | Array,
    gamma: Value | Array | None = None,
    beta: Value | Array | None = None,
    *,
    groups: int,
    keep_stats: bool = True,
    use_affine: bool = True,
    epsilon: float = 1e-05,
    data_format: str = "NXC",
    outputs: int | None = None,
    name: str | None = None,
) -> tuple[Value, ...]: ...
def gen_index(
    src: Value | Array,
    *,
    axis: int,
    dtype: Any = None,
    name: str | None = None,
) -> Value: ...
def greater_equal(
    src_0: Value | Array,
    src_1: Value | Array,
    *,
    auto_broadcast: str = "numpy",
    dtype: Any = None,
    name: str | None = None,
) -> Value: ...
def rms_norm(
    src: Value | Array,
    gamma: Value | Array | None = None,
    *,
    begin_norm_axis: int = -1,
    epsilon: float = 1e-05,
    name: str | None = None,
) -> Value: ...
@overload
def dropout(
    src: Value | Array,
    seed: Value | Array,
    offset: Value | Array,
    probability: Value | Array,
    *,
    outputs: Literal[1] | None = None,
    name: str | None = None,
) -> Value: ...
@overload
def dropout(
    src: Value | Array,
    seed: Value | Array,
    offset: Value | Array,
    probability: Value | Array,
    *,
    outputs: Literal[2],
    name: str | None = None,
) -> tuple[Value, Value]: ...
