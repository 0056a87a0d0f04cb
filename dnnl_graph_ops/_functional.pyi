"""Made by `python tools/make_stubs.py`; a test compares."""

from collections.abc import Sequence
from typing import Any, Literal, TypeAlias, overload

import numpy as np

from .runtime.engines import Engine

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

def conv_transpose(
    src: Any,
    weights: Any,
    bias: Any = None,
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
    out: Any = None,
    engine: Engine | None = None,
) -> Array:
    """Transposed convolution of arrays."""

@overload
def conv_transpose_backprop_filters(
    input_forward: Any,
    output_delta: Any,
    filter_shape: Any = None,
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
    out: Any = None,
    engine: Engine | None = None,
) -> Array:
    """`conv_transpose_backward_weights` under the names of the older ConvTransposeBackpropFilters."""

@overload
def conv_transpose_backprop_filters(
    input_forward: Any,
    output_delta: Any,
    filter_shape: Any = None,
    *,
    stride: Ints,
    padding: Ints,
    dilation: Ints,
    auto_pad: AutoPad | None = "none",
    output_padding: Ints = 0,
    groups: int = 1,
    data_format: DataFormat = "NXC",
    filter_format: FilterFormat = "XIO",
    out: Any = None,
    engine: Engine | None = None,
) -> Array:
    """`conv_transpose_backward_weights` under the names of the older ConvTransposeBackpropFilters."""

def conv_transpose_backward_data(
    diff_dst: Any,
    weights: Any,
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
    out: Any = None,
    engine: Engine | None = None,
) -> Array:
    """Gradient of `conv_transpose` with respect to src."""

def conv_transpose_backward_weights(
    src: Any,
    diff_dst: Any,
    weights_shape: Any = None,
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
    out: Any = None,
    engine: Engine | None = None,
) -> Array:
    """Gradient of `conv_transpose` with respect to the weights."""

def convolution(
    src: Any,
    weights: Any,
    bias: Any = None,
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
    out: Any = None,
    engine: Engine | None = None,
) -> Array:
    """Convolution of arrays."""

def convolution_backward_data(
    diff_dst: Any,
    weights: Any,
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
    src_shape: Sequence[int] | None = None,
    stride: Ints | None = None,
    padding: Ints | None = None,
    dilation: Ints | None = None,
    out: Any = None,
    engine: Engine | None = None,
) -> Array:
    """Gradient of `convolution` with respect to src."""

def convolution_backward_weights(
    src: Any,
    diff_dst: Any,
    weights_shape: Any = None,
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
    out: Any = None,
    engine: Engine | None = None,
) -> Array:
    """Gradient of `convolution` with respect to the weights."""

def conv_transpose_output_shape(
    src_shape: Sequence[int | None],
    weights_shape: Sequence[int | None],
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
) -> tuple[int | None, ...]:
    """The shape of `conv_transpose`'s result; needs no library. None stands for a size that is not known."""

def convolution_output_shape(
    src_shape: Sequence[int | None],
    weights_shape: Sequence[int | None],
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
) -> tuple[int | None, ...]:
    """The shape of `convolution`'s result; needs no library. None stands for a size that is not known."""
