"""Made by `python tools/make_stubs.py`; a test compares."""

from collections.abc import Sequence
from typing import Any, Literal, TypeAlias, overload

import numpy as np

from ..graph import Value
from .wildcard import wildcard as wildcard

Array: TypeAlias = np.ndarray[Any, Any]
Ints: TypeAlias = int | Sequence[int]
DataFormat: TypeAlias = Literal[
    "NXC", "NCX", "NWC", "NHWC", "NDHWC", "NLC", "channels_last", "NCW", "NCHW", "NCDHW", "NCL", "channels_first"
]
WeightsFormat: TypeAlias = Literal[
    "XOI",
    "IOX",
    "OIX",
    "XIO",
    "pytorch",
    "torch",
    "onnx",
    "keras",
    "tensorflow",
    "OIW",
    "OIHW",
    "OIDHW",
    "IOW",
    "IOHW",
    "IODHW",
    "WIO",
    "HWIO",
    "DHWIO",
    "WOI",
    "HWOI",
    "DHWOI",
]
FilterFormat: TypeAlias = Literal["XIO", "OIX", "OIW", "OIHW", "OIDHW", "WIO", "HWIO", "DHWIO"]
AutoPad: TypeAlias = Literal["none", "same_upper", "SAME_UPPER", "same_lower", "SAME_LOWER", "valid", "VALID"]
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
    auto_pad: AutoPad | None = "none",
    output_padding: Ints = 0,
    groups: int = 1,
    data_format: DataFormat = "NXC",
    weights_format: WeightsFormat = "XOI",
    stride: Ints | None = None,
    padding: Ints | None = None,
    dilation: Ints | None = None,
    name: str | None = None,
) -> Value:
    """ConvTranspose: Transposed convolution (deconvolution): the gradient of a convolution with respect to its
    input, as a layer. Every element of src adds a multiple of the filter to dst.
    """

@overload
def conv_transpose_backprop_filters(
    input_forward: Value | Any,
    output_delta: Value | Any,
    filter_shape_input: Value | Any = None,
    *,
    strides: Ints,
    pads_begin: Ints,
    pads_end: Ints,
    dilations: Ints,
    auto_pad: AutoPad | None = "none",
    output_padding: Ints = 0,
    groups: int = 1,
    data_format: DataFormat = "NXC",
    filter_format: FilterFormat = "XIO",
    filter_shape: Sequence[int] | None = None,
    name: str | None = None,
) -> Value:
    """ConvTransposeBackpropFilters: ConvTransposeBackwardWeights under the names of an older specification."""

@overload
def conv_transpose_backprop_filters(
    input_forward: Value | Any,
    output_delta: Value | Any,
    filter_shape_input: Value | Any = None,
    *,
    stride: Ints,
    padding: Ints,
    dilation: Ints,
    auto_pad: AutoPad | None = "none",
    output_padding: Ints = 0,
    groups: int = 1,
    data_format: DataFormat = "NXC",
    filter_format: FilterFormat = "XIO",
    filter_shape: Sequence[int] | None = None,
    name: str | None = None,
) -> Value:
    """ConvTransposeBackpropFilters: ConvTransposeBackwardWeights under the names of an older specification."""

def conv_transpose_backward_data(
    diff_dst: Value | Any,
    weights: Value | Any,
    *,
    strides: Ints = 1,
    pads_begin: Ints = 0,
    pads_end: Ints = 0,
    dilations: Ints = 1,
    auto_pad: AutoPad | None = "none",
    output_padding: Ints = 0,
    groups: int = 1,
    data_format: DataFormat = "NXC",
    weights_format: WeightsFormat = "XOI",
    src_shape: Sequence[int] | None = None,
    stride: Ints | None = None,
    padding: Ints | None = None,
    dilation: Ints | None = None,
    name: str | None = None,
) -> Value:
    """ConvTransposeBackwardData: The gradient of ConvTranspose with respect to src, which is a convolution of
    diff_dst.
    """

def conv_transpose_backward_weights(
    src: Value | Any,
    diff_dst: Value | Any,
    weights_shape: Sequence[int] | Any = None,
    *,
    strides: Ints = 1,
    pads_begin: Ints = 0,
    pads_end: Ints = 0,
    dilations: Ints = 1,
    auto_pad: AutoPad | None = "none",
    output_padding: Ints = 0,
    groups: int = 1,
    data_format: DataFormat = "NXC",
    weights_format: WeightsFormat = "XOI",
    stride: Ints | None = None,
    padding: Ints | None = None,
    dilation: Ints | None = None,
    name: str | None = None,
) -> Value:
    """ConvTransposeBackwardWeights: The gradient of ConvTranspose with respect to the weights."""

def convolution(
    src: Value | Any,
    weights: Value | Any,
    bias: Value | Any = None,
    *,
    strides: Ints = 1,
    pads_begin: Ints = 0,
    pads_end: Ints = 0,
    dilations: Ints = 1,
    auto_pad: AutoPad | None = "none",
    groups: int = 1,
    data_format: DataFormat = "NXC",
    weights_format: WeightsFormat = "XIO",
    stride: Ints | None = None,
    padding: Ints | None = None,
    dilation: Ints | None = None,
    name: str | None = None,
) -> Value:
    """Convolution: Convolution (cross-correlation) of src with one filter for each output channel."""

def convolution_backward_data(
    diff_dst: Value | Any,
    weights: Value | Any,
    dst_shape_input: Value | Any = None,
    *,
    strides: Ints = 1,
    pads_begin: Ints = 0,
    pads_end: Ints = 0,
    dilations: Ints = 1,
    auto_pad: AutoPad | None = "none",
    groups: int = 1,
    data_format: DataFormat = "NXC",
    weights_format: WeightsFormat = "XIO",
    output_padding: Ints = 0,
    dst_shape: Sequence[int] | None = None,
    src_shape: Sequence[int] | None = None,
    stride: Ints | None = None,
    padding: Ints | None = None,
    dilation: Ints | None = None,
    name: str | None = None,
) -> Value:
    """ConvolutionBackwardData: The gradient of Convolution with respect to src."""

def convolution_backward_weights(
    src: Value | Any,
    diff_dst: Value | Any,
    weights_shape_input: Value | Any = None,
    *,
    strides: Ints = 1,
    pads_begin: Ints = 0,
    pads_end: Ints = 0,
    dilations: Ints = 1,
    auto_pad: AutoPad | None = "none",
    groups: int = 1,
    data_format: DataFormat = "NXC",
    weights_format: WeightsFormat = "XIO",
    weights_shape: Sequence[int] | None = None,
    stride: Ints | None = None,
    padding: Ints | None = None,
    dilation: Ints | None = None,
    name: str | None = None,
) -> Value:
    """ConvolutionBackwardWeights: The gradient of Convolution with respect to the weights."""

def abs(src: Tensor, *, name: str | None = None) -> Value:
    """Abs: The absolute value of each element."""

def abs_backward(src: Tensor, diff_dst: Tensor, *, name: str | None = None) -> Value:
    """AbsBackward: The gradient of Abs: diff_dst times the sign of src, and 0 where src is 0."""

def add(
    src_0: Tensor,
    src_1: Tensor,
    *,
    auto_broadcast: Literal["none", "numpy"] = "numpy",
    dtype: Any = None,
    name: str | None = None,
) -> Value:
    """Add: The sum of two tensors, element by element."""

@overload
def avg_pool(
    src: Tensor,
    *,
    strides: Ints,
    pads_begin: Ints,
    pads_end: Ints,
    exclude_pad: bool,
    kernel: Ints,
    data_format: DataFormat = "NXC",
    rounding_type: Literal["floor", "ceil"] = "floor",
    auto_pad: AutoPad | None = "none",
    name: str | None = None,
) -> Value:
    """AvgPool: The mean of each window of the spatial axes."""

@overload
def avg_pool(
    src: Tensor,
    *,
    stride: Ints,
    padding: Ints,
    exclude_pad: bool,
    kernel: Ints,
    data_format: DataFormat = "NXC",
    rounding_type: Literal["floor", "ceil"] = "floor",
    auto_pad: AutoPad | None = "none",
    name: str | None = None,
) -> Value:
    """AvgPool: The mean of each window of the spatial axes."""

@overload
def avg_pool_backward(
    diff_dst: Tensor,
    src_shape_input: Tensor | None = None,
    *,
    strides: Ints,
    pads_begin: Ints,
    pads_end: Ints,
    exclude_pad: bool,
    kernel: Ints,
    auto_pad: AutoPad | None = "none",
    data_format: DataFormat = "NXC",
    src_shape: Ints | None = None,
    name: str | None = None,
) -> Value:
    """AvgPoolBackward: The gradient of AvgPool: each element of diff_dst is divided evenly among the elements of
    its window.
    """

@overload
def avg_pool_backward(
    diff_dst: Tensor,
    src_shape_input: Tensor | None = None,
    *,
    stride: Ints,
    padding: Ints,
    exclude_pad: bool,
    kernel: Ints,
    auto_pad: AutoPad | None = "none",
    data_format: DataFormat = "NXC",
    src_shape: Ints | None = None,
    name: str | None = None,
) -> Value:
    """AvgPoolBackward: The gradient of AvgPool: each element of diff_dst is divided evenly among the elements of
    its window.
    """

@overload
def batch_norm_backward(
    src: Tensor,
    diff_dst: Tensor,
    mean: Tensor,
    variance: Tensor,
    gamma: None = None,
    *,
    epsilon: float,
    data_format: DataFormat = "NXC",
    outputs: int | None = None,
    name: str | None = None,
) -> Value:
    """BatchNormTrainingBackward: The gradients of batch normalization in training, from the mean and variance of
    the batch.
    """

@overload
def batch_norm_backward(
    src: Tensor,
    diff_dst: Tensor,
    mean: Tensor,
    variance: Tensor,
    gamma: Tensor | None = None,
    *,
    epsilon: float,
    data_format: DataFormat = "NXC",
    outputs: Literal[1],
    name: str | None = None,
) -> Value:
    """BatchNormTrainingBackward: The gradients of batch normalization in training, from the mean and variance of
    the batch.
    """

@overload
def batch_norm_backward(
    src: Tensor,
    diff_dst: Tensor,
    mean: Tensor,
    variance: Tensor,
    gamma: Tensor,
    *,
    epsilon: float,
    data_format: DataFormat = "NXC",
    outputs: Literal[3] | None = None,
    name: str | None = None,
) -> tuple[Value, Value, Value]:
    """BatchNormTrainingBackward: The gradients of batch normalization in training, from the mean and variance of
    the batch.
    """

def batch_norm_forward_training(
    src: Tensor,
    mean: Tensor,
    variance: Tensor,
    gamma: Tensor | None = None,
    beta: Tensor | None = None,
    *,
    epsilon: float,
    momentum: float | None = None,
    data_format: DataFormat = "NXC",
    name: str | None = None,
) -> tuple[Value, Value, Value, Value, Value]:
    """BatchNormForwardTraining: Batch normalization in training: normalises each channel by the mean and variance
    of the batch, and updates the running mean and variance.
    """

def batch_norm_inference(
    src: Tensor,
    gamma: Tensor,
    beta: Tensor,
    mean: Tensor,
    variance: Tensor,
    *,
    epsilon: float,
    data_format: DataFormat = "NXC",
    name: str | None = None,
) -> Value:
    """BatchNormInference: Batch normalization in inference: normalises each channel by a given mean and variance,
    then scales by gamma and shifts by beta.
    """

def bias_add(src: Tensor, bias: Tensor, *, data_format: DataFormat = "NXC", name: str | None = None) -> Value:
    """BiasAdd: Adds bias (C,) to the channels of src."""

def bias_add_backward(diff_dst: Tensor, *, data_format: DataFormat = "NXC", name: str | None = None) -> Value:
    """BiasAddBackward: The gradient of BiasAdd with respect to the bias: diff_dst summed over all axes but the
    channels.
    """

def clamp(src: Tensor, *, min: float, max: float, name: str | None = None) -> Value:
    """Clamp: Each element limited to the range from min to max."""

def clamp_backward(
    src_or_dst: Tensor, diff_dst: Tensor, *, min: float, max: float, use_dst: bool = True, name: str | None = None
) -> Value:
    """ClampBackward: The gradient of Clamp: diff_dst where the operand lay between min and max, else 0."""

def concat(*srcs: Tensor, axis: int, name: str | None = None) -> Value:
    """Concat: Concatenates tensors along an axis."""

def dequantize(
    src: Tensor,
    *,
    scales: Sequence[float],
    qtype: Literal["per_tensor", "per_channel"] = "per_tensor",
    axis: int = 1,
    zps: Ints | None = None,
    dtype: Any = None,
    name: str | None = None,
) -> Value:
    """Dequantize: Converts integers to floats: (src - zps) * scales."""

def divide(
    src_0: Tensor,
    src_1: Tensor,
    *,
    auto_broadcast: Literal["none", "numpy"] = "numpy",
    dtype: Any = None,
    name: str | None = None,
) -> Value:
    """Divide: The quotient of two tensors, element by element."""

def dynamic_dequantize(
    src: Tensor,
    scales: Tensor,
    zps: Tensor | None = None,
    *,
    qtype: Literal["per_tensor", "per_channel", "per_group"] = "per_tensor",
    axis: int = 1,
    group_shape: Ints | None = None,
    name: str | None = None,
) -> Value:
    """DynamicDequantize: Converts integers to floats with scales and zero points that are tensors: (src - zps) *
    scales.
    """

def dynamic_quantize(
    src: Tensor,
    scales: Tensor,
    zps: Tensor | None = None,
    *,
    qtype: Literal["per_tensor", "per_channel"] = "per_tensor",
    axis: int = 1,
    dtype: Any = None,
    name: str | None = None,
) -> Value:
    """DynamicQuantize: Converts floats to integers with scales and zero points that are tensors: src / scales,
    rounded half to even, plus zps, saturated to the dtype's range.
    """

def elu(src: Tensor, *, alpha: float, name: str | None = None) -> Value:
    """Elu: src where it is positive, else alpha * (exp(src) - 1)."""

def elu_backward(
    src_or_dst: Tensor, diff_dst: Tensor, *, alpha: float, use_dst: bool = True, name: str | None = None
) -> Value:
    """EluBackward: The gradient of Elu."""

def end(src: Tensor, *, name: str | None = None) -> None:
    """End: Marks src as a result of the graph for the library; computes nothing."""

def exp(src: Tensor, *, name: str | None = None) -> Value:
    """Exp: The exponential of each element."""

def gelu(src: Tensor, *, mode: Literal["gelu_erf", "gelu_tanh"] = "gelu_erf", name: str | None = None) -> Value:
    """GELU: The Gaussian error linear unit: each element times the standard normal distribution function of it."""

def gelu_backward(
    src: Tensor, diff_dst: Tensor, *, mode: Literal["gelu_erf", "gelu_tanh"] = "gelu_erf", name: str | None = None
) -> Value:
    """GELUBackward: The gradient of GELU."""

def hard_swish(src: Tensor, *, name: str | None = None) -> Value:
    """HardSwish: src * min(max(src / 6 + 1 / 2, 0), 1)."""

def hard_swish_backward(src: Tensor, diff_dst: Tensor, *, name: str | None = None) -> Value:
    """HardSwishBackward: The gradient of HardSwish."""

def interpolate(
    src: Tensor,
    sizes_input: Tensor | None = None,
    *,
    mode: Literal["nearest", "linear", "bilinear", "trilinear"],
    sizes: Ints | None = None,
    scales: Sequence[float] | None = None,
    coordinate_transformation_mode: Literal["half_pixel", "align_corners"] = "half_pixel",
    data_format: DataFormat = "NXC",
    name: str | None = None,
) -> Value:
    """Interpolate: Resizes the spatial axes of src by nearest or linear interpolation."""

def interpolate_backward(
    src: Tensor,
    diff_dst: Tensor,
    sizes_input: Tensor | None = None,
    *,
    mode: Literal["nearest", "linear", "bilinear", "trilinear"],
    coordinate_transformation_mode: Literal["half_pixel", "align_corners"] = "half_pixel",
    sizes: Ints | None = None,
    scales: Sequence[float] | None = None,
    data_format: DataFormat = "NXC",
    name: str | None = None,
) -> Value:
    """InterpolateBackward: The gradient of Interpolate: adds each element of diff_dst to the elements of diff_src
    that dst was interpolated from.
    """

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
) -> Value:
    """LayerNorm: Layer normalization: normalises the last axes to mean 0 and variance 1, then scales by gamma and
    shifts by beta.
    """

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
) -> Value:
    """LayerNorm: Layer normalization: normalises the last axes to mean 0 and variance 1, then scales by gamma and
    shifts by beta.
    """

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
) -> tuple[Value, Value, Value]:
    """LayerNorm: Layer normalization: normalises the last axes to mean 0 and variance 1, then scales by gamma and
    shifts by beta.
    """

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
) -> Value:
    """LayerNormBackward: The gradients of LayerNorm."""

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
) -> Value:
    """LayerNormBackward: The gradients of LayerNorm."""

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
) -> tuple[Value, Value, Value]:
    """LayerNormBackward: The gradients of LayerNorm."""

def leaky_relu(src: Tensor, *, alpha: float, name: str | None = None) -> Value:
    """LeakyReLU: src where it is positive, else alpha * src."""

def log(src: Tensor, *, name: str | None = None) -> Value:
    """Log: The natural logarithm of each element."""

def log_softmax(src: Tensor, *, axis: int = -1, name: str | None = None) -> Value:
    """LogSoftmax: The logarithm of the softmax of an axis."""

def log_softmax_backward(diff_dst: Tensor, dst: Tensor, *, axis: int = -1, name: str | None = None) -> Value:
    """LogSoftmaxBackward: The gradient of LogSoftmax, from its result."""

def matmul(
    src: Tensor,
    weights: Tensor,
    bias: Tensor | None = None,
    *,
    transpose_a: bool = False,
    transpose_b: bool = False,
    accumulation_mode: Literal["strict", "relaxed", "any", "f32", "s32", "f16"] = "strict",
    dtype: Any = None,
    name: str | None = None,
) -> Value:
    """MatMul: Matrix product, also of batches of matrices."""

def maximum(
    src_0: Tensor, src_1: Tensor, *, auto_broadcast: Literal["none", "numpy"] = "numpy", name: str | None = None
) -> Value:
    """Maximum: The larger one of two elements."""

@overload
def max_pool(
    src: Tensor,
    *,
    strides: Ints,
    pads_begin: Ints,
    pads_end: Ints,
    kernel: Ints,
    dilations: Ints | None = None,
    data_format: DataFormat = "NXC",
    rounding_type: Literal["floor", "ceil"] = "floor",
    auto_pad: AutoPad | None = "none",
    name: str | None = None,
) -> Value:
    """MaxPool: The largest element of each window of the spatial axes."""

@overload
def max_pool(
    src: Tensor,
    *,
    stride: Ints,
    padding: Ints,
    kernel: Ints,
    dilations: Ints | None = None,
    data_format: DataFormat = "NXC",
    rounding_type: Literal["floor", "ceil"] = "floor",
    auto_pad: AutoPad | None = "none",
    dilation: Ints | None = None,
    name: str | None = None,
) -> Value:
    """MaxPool: The largest element of each window of the spatial axes."""

@overload
def max_pool_backward(
    src: Tensor,
    diff_dst: Tensor,
    *,
    strides: Ints,
    pads_begin: Ints,
    pads_end: Ints,
    kernel: Ints,
    auto_pad: AutoPad | None = "none",
    dilations: Ints | None = None,
    data_format: DataFormat = "NXC",
    name: str | None = None,
) -> Value:
    """MaxPoolBackward: The gradient of MaxPool: adds each element of diff_dst to the position of its window's
    largest element.
    """

@overload
def max_pool_backward(
    src: Tensor,
    diff_dst: Tensor,
    *,
    stride: Ints,
    padding: Ints,
    kernel: Ints,
    auto_pad: AutoPad | None = "none",
    dilations: Ints | None = None,
    data_format: DataFormat = "NXC",
    dilation: Ints | None = None,
    name: str | None = None,
) -> Value:
    """MaxPoolBackward: The gradient of MaxPool: adds each element of diff_dst to the position of its window's
    largest element.
    """

def minimum(
    src_0: Tensor, src_1: Tensor, *, auto_broadcast: Literal["none", "numpy"] = "numpy", name: str | None = None
) -> Value:
    """Minimum: The smaller one of two elements."""

def mish(src: Tensor, *, name: str | None = None) -> Value:
    """Mish: src * tanh(ln(1 + exp(src)))."""

def mish_backward(src: Tensor, diff_dst: Tensor, *, name: str | None = None) -> Value:
    """MishBackward: The gradient of Mish."""

def multiply(
    src_0: Tensor,
    src_1: Tensor,
    *,
    auto_broadcast: Literal["none", "numpy"] = "numpy",
    dtype: Any = None,
    name: str | None = None,
) -> Value:
    """Multiply: The product of two tensors, element by element."""

def prelu(
    src: Tensor,
    slope: Tensor,
    *,
    data_format: DataFormat = "NXC",
    per_channel_broadcast: bool = True,
    name: str | None = None,
) -> Value:
    """PReLU: src where it is positive, else slope * src; slope is a tensor."""

def prelu_backward(
    src: Tensor, slope: Tensor, diff_dst: Tensor, *, data_format: DataFormat = "NXC", name: str | None = None
) -> tuple[Value, Value]:
    """PReLUBackward: The gradients of PReLU."""

def quantize(
    src: Tensor,
    *,
    scales: Sequence[float],
    qtype: Literal["per_tensor", "per_channel"] = "per_tensor",
    axis: int = 1,
    zps: Ints | None = None,
    dtype: Any = None,
    name: str | None = None,
) -> Value:
    """Quantize: Converts floats to integers: src / scales, rounded half to even, plus zps, saturated to the
    dtype's range.
    """

def reciprocal(src: Tensor, *, name: str | None = None) -> Value:
    """Reciprocal: 1 / src."""

def reduce_l1(
    src: Tensor,
    axes_input: Tensor | None = None,
    *,
    axes: Ints | None = None,
    keep_dims: bool = False,
    name: str | None = None,
) -> Value:
    """ReduceL1: The sum of absolute values over axes."""

def reduce_l2(
    src: Tensor,
    axes_input: Tensor | None = None,
    *,
    axes: Ints | None = None,
    keep_dims: bool = False,
    name: str | None = None,
) -> Value:
    """ReduceL2: The root of the sum of squares over axes."""

def reduce_max(
    src: Tensor,
    axes_input: Tensor | None = None,
    *,
    axes: Ints | None = None,
    keep_dims: bool = False,
    name: str | None = None,
) -> Value:
    """ReduceMax: The largest element over axes."""

def reduce_mean(
    src: Tensor,
    axes_input: Tensor | None = None,
    *,
    axes: Ints | None = None,
    keep_dims: bool = False,
    name: str | None = None,
) -> Value:
    """ReduceMean: The mean over axes."""

def reduce_min(
    src: Tensor,
    axes_input: Tensor | None = None,
    *,
    axes: Ints | None = None,
    keep_dims: bool = False,
    name: str | None = None,
) -> Value:
    """ReduceMin: The smallest element over axes."""

def reduce_prod(
    src: Tensor,
    axes_input: Tensor | None = None,
    *,
    axes: Ints | None = None,
    keep_dims: bool = False,
    name: str | None = None,
) -> Value:
    """ReduceProd: The product over axes."""

def reduce_sum(
    src: Tensor,
    axes_input: Tensor | None = None,
    *,
    axes: Ints | None = None,
    keep_dims: bool = False,
    name: str | None = None,
) -> Value:
    """ReduceSum: The sum over axes."""

def relu(src: Tensor, *, name: str | None = None) -> Value:
    """ReLU: max(src, 0)."""

def relu_backward(src_or_dst: Tensor, diff_dst: Tensor, *, use_dst: bool = True, name: str | None = None) -> Value:
    """ReLUBackward: The gradient of ReLU: diff_dst where src is positive, else 0."""

def reorder(src: Tensor, *, name: str | None = None) -> Value:
    """Reorder: Copies src into other strides; with the same strides it is src."""

def round(src: Tensor, *, name: str | None = None) -> Value:
    """Round: Rounds each element to the nearest integer, half to even."""

def sigmoid(src: Tensor, *, name: str | None = None) -> Value:
    """Sigmoid: 1 / (1 + exp(-src))."""

def sigmoid_backward(src_or_dst: Tensor, diff_dst: Tensor, *, use_dst: bool = True, name: str | None = None) -> Value:
    """SigmoidBackward: The gradient of Sigmoid."""

@overload
def softmax(
    src: Tensor,
    *,
    axis: int = 1,
    mode: Literal["none", "inf_as_zero"] = "none",
    dtype: Any = None,
    outputs: Literal[1] | None = None,
    name: str | None = None,
) -> Value:
    """SoftMax: Softmax along an axis: exponentials divided by their sum. Returns one Value, and with outputs=2 a
    pair.
    """

@overload
def softmax(
    src: Tensor,
    *,
    axis: int = 1,
    mode: Literal["none", "inf_as_zero"] = "none",
    dtype: Any = None,
    outputs: Literal[2],
    name: str | None = None,
) -> tuple[Value, Value]:
    """SoftMax: Softmax along an axis: exponentials divided by their sum. Returns one Value, and with outputs=2 a
    pair.
    """

def softmax_backward(
    diff_dst: Tensor, dst: Tensor, *, axis: int = 1, dtype: Any = None, name: str | None = None
) -> Value:
    """SoftMaxBackward: The gradient of SoftMax, from its result."""

def softplus(src: Tensor, *, beta: float = 1.0, name: str | None = None) -> Value:
    """SoftPlus: ln(1 + exp(beta * src)) / beta."""

def softplus_backward(src: Tensor, diff_dst: Tensor, *, beta: float = 1.0, name: str | None = None) -> Value:
    """SoftPlusBackward: The gradient of SoftPlus."""

def sqrt(src: Tensor, *, name: str | None = None) -> Value:
    """Sqrt: The square root of each element."""

def sqrt_backward(src_or_dst: Tensor, diff_dst: Tensor, *, use_dst: bool = True, name: str | None = None) -> Value:
    """SqrtBackward: The gradient of Sqrt."""

def square(src: Tensor, *, name: str | None = None) -> Value:
    """Square: src * src."""

def squared_difference(
    src_0: Tensor, src_1: Tensor, *, auto_broadcast: Literal["none", "numpy"] = "numpy", name: str | None = None
) -> Value:
    """SquaredDifference: The square of the difference of two tensors, element by element."""

def static_reshape(src: Tensor, *, shape: Ints, special_zero: bool, name: str | None = None) -> Value:
    """StaticReshape: Reshape: the same elements, in row-major order, in another shape."""

def static_transpose(src: Tensor, *, order: Ints, name: str | None = None) -> Value:
    """StaticTranspose: Transpose: src with its axes in another order."""

def subtract(
    src_0: Tensor,
    src_1: Tensor,
    *,
    auto_broadcast: Literal["none", "numpy"] = "numpy",
    dtype: Any = None,
    name: str | None = None,
) -> Value:
    """Subtract: The difference of two tensors, element by element."""

def tanh(src: Tensor, *, name: str | None = None) -> Value:
    """Tanh: The hyperbolic tangent of each element."""

def tanh_backward(src_or_dst: Tensor, diff_dst: Tensor, *, use_dst: bool = True, name: str | None = None) -> Value:
    """TanhBackward: The gradient of Tanh."""

def type_cast(src: Tensor, *, dtype: Any = None, name: str | None = None) -> Value:
    """TypeCast: Converts src to another float dtype, rounded half to even."""

def hard_sigmoid(src: Tensor, *, alpha: float, beta: float, name: str | None = None) -> Value:
    """HardSigmoid: alpha * src + beta, limited to the range from 0 to 1."""

def hard_sigmoid_backward(
    src: Tensor, diff_dst: Tensor, *, alpha: float, beta: float, name: str | None = None
) -> Value:
    """HardSigmoidBackward: The gradient of HardSigmoid: alpha * diff_dst where the result lies between 0 and 1,
    else 0.
    """

def select(
    cond: Tensor,
    src_0: Tensor,
    src_1: Tensor,
    *,
    auto_broadcast: Literal["none", "numpy"] = "numpy",
    name: str | None = None,
) -> Value:
    """Select: Elements of src_0 where cond holds, else of src_1."""

def pow(src: Tensor, *, beta: float, name: str | None = None) -> Value:
    """Pow: src to the power of a constant exponent."""

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
    data_format: DataFormat = "NXC",
    outputs: int | None = None,
    name: str | None = None,
) -> Value:
    """GroupNorm: Group normalization: normalises the channels of each group together for each element of the
    batch, then scales and shifts each channel.
    """

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
    data_format: DataFormat = "NXC",
    outputs: Literal[1],
    name: str | None = None,
) -> Value:
    """GroupNorm: Group normalization: normalises the channels of each group together for each element of the
    batch, then scales and shifts each channel.
    """

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
    data_format: DataFormat = "NXC",
    outputs: Literal[3] | None = None,
    name: str | None = None,
) -> tuple[Value, Value, Value]:
    """GroupNorm: Group normalization: normalises the channels of each group together for each element of the
    batch, then scales and shifts each channel.
    """

def gen_index(src: Tensor, *, axis: int, dtype: Any = None, name: str | None = None) -> Value:
    """GenIndex: The index of each element on an axis."""

def greater_equal(
    src_0: Tensor,
    src_1: Tensor,
    *,
    auto_broadcast: Literal["none", "numpy"] = "numpy",
    dtype: Any = None,
    name: str | None = None,
) -> Value:
    """GreaterEqual: Whether an element of src_0 is greater than or equal to the element of src_1."""

def rms_norm(
    src: Tensor,
    gamma: Tensor | None = None,
    *,
    begin_norm_axis: int = -1,
    epsilon: float = 1e-05,
    name: str | None = None,
) -> Value:
    """RMSNorm: RMS normalization: divides the last axes by their root mean square, then scales by gamma."""

@overload
def dropout(
    src: Tensor,
    seed: Tensor,
    offset: Tensor,
    probability: Tensor,
    *,
    outputs: Literal[1] | None = None,
    name: str | None = None,
) -> Value:
    """Dropout: Sets random elements to 0 and divides the kept ones by the probability of being kept. Returns one
    Value, and with outputs=2 a pair.
    """

@overload
def dropout(
    src: Tensor, seed: Tensor, offset: Tensor, probability: Tensor, *, outputs: Literal[2], name: str | None = None
) -> tuple[Value, Value]:
    """Dropout: Sets random elements to 0 and divides the kept ones by the probability of being kept. Returns one
    Value, and with outputs=2 a pair.
    """

def cos(src: Tensor, *, name: str | None = None) -> Value:
    """Cos: The cosine of each element."""

def erf(src: Tensor, *, name: str | None = None) -> Value:
    """Erf: The error function of each element."""

def gather(src: Tensor, indices: Tensor, *, axis: int = 0, name: str | None = None) -> Value:
    """Gather: Takes the elements of src at `indices` along one axis; the axes of indices replace that axis.
    Indices below 0 count from the end; an index outside of the axis is an error of the call.
    """

@overload
def pad(
    src: Tensor,
    *,
    pads_begin: Ints,
    pads_end: Ints,
    mode: Literal["constant", "reflect", "edge", "wrap"] = "constant",
    value: float = 0.0,
    name: str | None = None,
) -> Value:
    """Pad: Pads each axis of src before and after: with a value, with src mirrored at its edge element, with its
    edge repeated, or with src wrapped around.
    """

@overload
def pad(
    src: Tensor,
    *,
    padding: Ints,
    mode: Literal["constant", "reflect", "edge", "wrap"] = "constant",
    value: float = 0.0,
    name: str | None = None,
) -> Value:
    """Pad: Pads each axis of src before and after: with a value, with src mirrored at its edge element, with its
    edge repeated, or with src wrapped around.
    """

def sin(src: Tensor, *, name: str | None = None) -> Value:
    """Sin: The sine of each element."""

def slice(
    src: Tensor,
    *,
    starts: Ints,
    ends: Ints,
    axes: Ints | None = None,
    steps: Ints | None = None,
    name: str | None = None,
) -> Value:
    """Slice: Slices src: src[starts:ends:steps] on the given axes. As in Python, positions below 0 count from the
    end, and positions outside of an axis mean its edge.
    """
