"""Convolution as a module: holds its weights, keeps what backward needs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from .. import functional
from ..runtime.engines import Engine
from .module import Family, Ints, Module

if TYPE_CHECKING:
    from .._functional import DataFormat


class Conv(Module):
    """What the modules of all ranks share; use `Conv1d`, `Conv2d` or `Conv3d`.

    Per spatial axis:
    dst = floor((src + 2 * padding - dilation * (kernel_size - 1) - 1) / stride) + 1

    Args:
        in_channels, out_channels: both multiples of `groups`.
        kernel_size, stride, padding, dilation: an int, or one per spatial axis.
        groups: number of independent groups of channels.
        bias: whether to add one value per output channel.
        conv_mode, compute_mode, name, dtype, data_format, rng, engine: as of `ConvTranspose2d`.

    Attributes:
        weight: (OC, IC, k...) for groups=1, else (groups, OC/groups, IC/groups, k...), for both data formats.
            Drawn uniformly from +-1/sqrt(IC/groups * kernel elements).
        bias, weight_grad, bias_grad: as of `ConvTranspose2d`.

    Parameters may be changed in place or assigned between calls; every call reads them afresh.

    Raises:
        InvalidArgumentError, ShapeError, TypeError: as `ConvTranspose2d`.

    Source: oneDNN Graph API, Convolution; parameter names and layouts as in MegEngine.
    """

    family = Family(
        "convolution",
        "OIX",
        functional.convolution,
        functional.convolution_backward_data,
        functional.convolution_backward_weights,
        functional.convolution_backward_bias,
        functional.convolution_output_shape,
    )

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: Ints,
        stride: Ints = 1,
        padding: Ints = 0,
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


class Conv1d(Conv):
    __doc__ = Conv.__doc__
    spatial_axes = 1


class Conv2d(Conv):
    __doc__ = Conv.__doc__
    spatial_axes = 2


class Conv3d(Conv):
    __doc__ = Conv.__doc__
    spatial_axes = 3
