"""Made by `python -m dnnl_graph_ops.stubs`; a test compares."""

from collections.abc import Sequence
from typing import Any, NoReturn, TypeAlias

import numpy as np

from .runtime.engines import Engine

Array: TypeAlias = np.ndarray[Any, Any]
Ints: TypeAlias = int | Sequence[int]

def conv_transpose(
    src: Any,
    weights: Any,
    bias: Any = None,
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
    out: Any = None,
    engine: Engine | None = None,
    **others: NoReturn,
) -> Array:
    """Transposed convolution of arrays."""

def conv_transpose_backprop_filters(
    input_forward: Any,
    output_delta: Any,
    filter_shape: Any = None,
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
    out: Any = None,
    engine: Engine | None = None,
    **others: NoReturn,
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
    auto_pad: str = "none",
    output_padding: Ints = 0,
    groups: int = 1,
    data_format: str = "NXC",
    weights_format: str = "XOI",
    src_shape: Sequence[int] | None = None,
    out: Any = None,
    engine: Engine | None = None,
    **others: NoReturn,
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
    auto_pad: str = "none",
    output_padding: Ints = 0,
    groups: int = 1,
    data_format: str = "NXC",
    weights_format: str = "XOI",
    out: Any = None,
    engine: Engine | None = None,
    **others: NoReturn,
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
    auto_pad: str = "none",
    groups: int = 1,
    data_format: str = "NXC",
    weights_format: str = "XIO",
    out: Any = None,
    engine: Engine | None = None,
    **others: NoReturn,
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
    auto_pad: str = "none",
    groups: int = 1,
    data_format: str = "NXC",
    weights_format: str = "XIO",
    output_padding: Ints = 0,
    src_shape: Sequence[int] | None = None,
    out: Any = None,
    engine: Engine | None = None,
    **others: NoReturn,
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
    auto_pad: str = "none",
    groups: int = 1,
    data_format: str = "NXC",
    weights_format: str = "XIO",
    out: Any = None,
    engine: Engine | None = None,
    **others: NoReturn,
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
    auto_pad: str = "none",
    output_padding: Ints = 0,
    groups: int = 1,
    data_format: str = "NXC",
    weights_format: str = "XOI",
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
    auto_pad: str = "none",
    groups: int = 1,
    data_format: str = "NXC",
    weights_format: str = "XIO",
) -> tuple[int | None, ...]:
    """The shape of `convolution`'s result; needs no library. None stands for a size that is not known."""
