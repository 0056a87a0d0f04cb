"""Convolution and transposed convolution modules for 1, 2 and 3 spatial axes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from ..runtime.engines import Engine
from ..shapes.attributes import per_axis
from .keywords import both_spellings
from .module import Ints, Module

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from .._functional import DataFormat
    from .keywords import FunctionWords


class Conv(Module):
    """Base class of `Conv1d`, `Conv2d` and `Conv3d`.

    Per spatial axis:
    dst = floor((src + 2 * padding - dilation * (kernel_size - 1) - 1) / stride) + 1

    Args:
        in_channels, out_channels: both multiples of `groups`.
        kernel_size, stride, padding, dilation: an int, or one per spatial axis.
        groups: number of independent groups of channels.
        bias: whether to add one value per output channel.
        conv_mode, compute_mode, name, dtype, data_format, rng, engine, and other names: see `ConvTranspose2d`.

    Attributes:
        weight: (OC, IC, k...) for groups=1, else (groups, OC/groups, IC/groups, k...), for both data formats.
            Drawn uniformly from +-1/sqrt(IC/groups * kernel elements).
        bias, weight_grad, bias_grad: see `ConvTranspose2d`.

    Parameters may be changed in place or assigned between calls; every call reads them afresh.

    Raises:
        InvalidArgumentError, ShapeError, TypeError: as `ConvTranspose2d`.

    Source: oneDNN Graph API, Convolution; parameter names and layouts as in MegEngine.
    """

    _op, _weights_format = "convolution", "OIX"


class Conv1d(Conv):
    __doc__ = Conv.__doc__
    _spatial_axes = 1


class Conv2d(Conv):
    __doc__ = Conv.__doc__
    _spatial_axes = 2


class Conv3d(Conv):
    __doc__ = Conv.__doc__
    _spatial_axes = 3


class ConvTranspose(Module):
    """Base class of `ConvTranspose1d`, `ConvTranspose2d` and `ConvTranspose3d`.

    Per spatial axis:
    dst = stride * (src - 1) + dilation * (kernel_size - 1) + 1 - 2 * padding + output_padding

    Args:
        in_channels, out_channels: both multiples of `groups`.
        kernel_size, stride, padding, output_padding, dilation: an int, or one per spatial axis. The names of
            `dgo.conv_transpose` are accepted too: strides, pads_begin with an equal pads_end, dilations.
        groups: number of independent groups of channels.
        bias: whether to add one value per output channel.
        conv_mode: "cross_correlation". For "convolution", which flips the kernel, flip the weights instead.
        compute_mode: "float32" accumulates float16 data in float32 and rounds once, also where the CPU has
            float16 arithmetic; "default" leaves the choice to oneDNN. Other dtypes always accumulate in float32.
        name: shown in messages.
        dtype: "f32", "bf16" or "f16", of the data, the parameters and the gradients.
        data_format: NCX for (N, C, spatial...), NXC for (N, spatial..., C); NCHW, NHWC and the like are accepted too.
        rng: a `numpy.random.Generator` or a seed for the initial values; None: a random seed.
        engine: `dgo.engine(...)`; None: the default CPU engine.

    Attributes:
        weight: (IC, OC, k...) for groups=1, else (groups, IC/groups, OC/groups, k...), for both data formats.
            Drawn uniformly from +-1/sqrt(OC/groups * kernel elements).
        bias: (1, OC, 1...), one 1 per spatial axis, drawn from the same range; None without bias.
        weight_grad, bias_grad: gradients of the latest `backward`, in the shapes of weight and bias; None before it.

    Parameters may be changed in place or assigned between calls; every call reads them afresh.

    Raises:
        InvalidArgumentError: values out of range, unknown strings or dtypes.
        ShapeError: a per-axis value of another length.
        TypeError: wrong Python types.

    Source: oneDNN Graph API, ConvTranspose; parameter names and layouts as in MegEngine.
    """

    _op, _weights_format = "conv_transpose", "IOX"

    @both_spellings
    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: Ints,
        stride: Ints = 1,
        padding: Ints = 0,
        output_padding: Ints = 0,
        dilation: Ints = 1,
        groups: int = 1,
        bias: bool = True,
        conv_mode: Literal["cross_correlation"] = "cross_correlation",
        compute_mode: Literal["default", "float32"] = "default",
        *,
        name: str | None = None,
        dtype: Any = "f32",
        data_format: DataFormat = "NCX",
        rng: np.random.Generator | int | None = None,
        engine: Engine | None = None,
        **words: Unpack[FunctionWords],
    ) -> None:
        super().__init__(
            in_channels,
            out_channels,
            kernel_size,
            stride,
            padding,
            dilation,
            groups,
            bias,
            conv_mode,
            compute_mode,
            name=name,
            dtype=dtype,
            data_format=data_format,
            rng=rng,
            engine=engine,
        )
        self.output_padding = per_axis(output_padding, "output_padding", self._spatial_axes, 0, self._where())
        self._attributes["output_padding"] = self.output_padding


class ConvTranspose1d(ConvTranspose):
    __doc__ = ConvTranspose.__doc__
    _spatial_axes = 1


class ConvTranspose2d(ConvTranspose):
    __doc__ = ConvTranspose.__doc__
    _spatial_axes = 2


class ConvTranspose3d(ConvTranspose):
    __doc__ = ConvTranspose.__doc__
    _spatial_axes = 3
