"""Transposed convolution as a module: holds its weights, keeps what backward needs."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import numpy as np

from .. import functional
from ..dtypes import canonical, numpy_dtype
from ..errors import InvalidArgumentError, ShapeError
from ..ops.typed import DTYPES
from ..runtime import cpu
from ..runtime.arrays import as_array
from ..runtime.engines import Engine, default_engine
from ..shapes.attributes import DATA_FORMATS, choice, integer, per_axis
from ..shapes.common import channels_of
from ..weights import convert_weights
from . import state

Array = np.ndarray[Any, Any]
Ints = int | Sequence[int]

COMPUTE_MODES = ("default", "float32")


class ConvTranspose:
    """What the modules of all ranks share; use `ConvTranspose1d`, `ConvTranspose2d` or `ConvTranspose3d`.

    Per spatial axis:
    dst = stride * (src - 1) + dilation * (kernel_size - 1) + 1 - 2 * padding + output_padding

    Args:
        in_channels, out_channels: both multiples of `groups`.
        kernel_size, stride, padding, output_padding, dilation: an int, or one per spatial axis.
        groups: number of independent groups of channels.
        bias: whether to add one value per output channel.
        conv_mode: "cross_correlation". A "convolution" would mirror the kernel: mirror the weights instead.
        compute_mode: "float32" accumulates float16 data in float32 and rounds once, also where the CPU has
            float16 arithmetic; "default" leaves it to the library. Other dtypes always accumulate in float32.
        name: shown in messages.
        dtype: "f32", "bf16" or "f16": of the data, the parameters and the gradients.
        data_format: NCX for (N, C, spatial...), NXC for (N, spatial..., C).
        rng: a `numpy.random.Generator` or a seed for the initial values; None: another start every time.
        engine: `dgo.engine(...)`; None: the default CPU engine.

    Attributes:
        weight: (IC, OC, k...) for groups=1, else (groups, IC/groups, OC/groups, k...), for both data formats.
            Drawn uniformly from +-1/sqrt(OC/groups * kernel elements).
        bias: (1, OC, 1...), one 1 per spatial axis, drawn from the same range; None without bias.
        weight_grad, bias_grad: gradients of the latest `backward`, shaped as weight and bias; None before it.

    Parameters may be changed in place or assigned between calls; every call reads them afresh.

    Raises:
        InvalidArgumentError: values out of range, unknown strings or dtypes.
        ShapeError: a per-axis value of another length.
        TypeError: wrong Python types.

    Source: oneDNN Graph API, ConvTranspose; parameter names and layouts as in MegEngine.
    """

    spatial_axes: ClassVar[int]

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
        conv_mode: str = "cross_correlation",
        compute_mode: str = "default",
        *,
        name: str | None = None,
        dtype: Any = "f32",
        data_format: str = "NCX",
        rng: np.random.Generator | int | None = None,
        engine: Engine | None = None,
    ) -> None:
        if name is not None and not isinstance(name, str):
            raise TypeError(f"{type(self).__name__}: 'name' must be a string, got {type(name).__name__}")
        self.name = name
        where, rank = self._where(), self.spatial_axes
        if engine is not None and not isinstance(engine, Engine):
            raise TypeError(f"{where}: 'engine' must come from dgo.engine(...), got {type(engine).__name__}")
        if not isinstance(bias, bool | np.bool_):
            raise TypeError(f"{where}: 'bias' must be True or False, got {bias!r} of type {type(bias).__name__}")
        self.groups = _count(groups, "groups", where)
        self.in_channels, self.out_channels = (
            _channels(value, label, self.groups, where)
            for value, label in ((in_channels, "in_channels"), (out_channels, "out_channels"))
        )
        self.kernel_size = per_axis(kernel_size, "kernel_size", rank, 1, where)
        self.stride = per_axis(stride, "stride", rank, 1, where)
        self.padding = per_axis(padding, "padding", rank, 0, where)
        self.output_padding = per_axis(output_padding, "output_padding", rank, 0, where)
        self.dilation = per_axis(dilation, "dilation", rank, 1, where)
        self.conv_mode = _conv_mode(conv_mode, where)
        self.compute_mode = choice(compute_mode, "compute_mode", COMPUTE_MODES, where)
        self.data_format = choice(data_format, "data_format", DATA_FORMATS, where)
        self.dtype = canonical(dtype)
        if self.dtype not in DTYPES:
            raise InvalidArgumentError(f"{where}: 'dtype' must be one of {', '.join(DTYPES)}, got {self.dtype}")
        self.engine = engine
        self._attributes: dict[str, Any] = {
            "strides": self.stride,
            "pads_begin": self.padding,
            "pads_end": self.padding,
            "dilations": self.dilation,
            "output_padding": self.output_padding,
            "groups": self.groups,
            "data_format": self.data_format,
            "weights_format": "IOX",
            "engine": engine,
        }
        self.weight_grad: Array | None = None
        self.bias_grad: Array | None = None
        self._src: Array | None = None
        self._weight, self._bias = self._initial(rng, bool(bias))

    def _initial(self, rng: Any, with_bias: bool) -> tuple[Array, Array | None]:
        try:
            generator = np.random.default_rng(rng)
        except (TypeError, ValueError) as error:
            raise type(error)(
                f"{self._where()}: 'rng' must be a numpy.random.Generator or a seed, got {rng!r}"
            ) from None
        ic, oc = self.in_channels // self.groups, self.out_channels // self.groups
        bound = 1 / math.sqrt(oc * math.prod(self.kernel_size))
        leading = () if self.groups == 1 else (self.groups,)
        shapes = [(*leading, ic, oc, *self.kernel_size)]
        if with_bias:
            shapes.append((1, self.out_channels, *(1,) * self.spatial_axes))
        drawn = [generator.uniform(-bound, bound, shape).astype(numpy_dtype(self.dtype)) for shape in shapes]
        return drawn[0], drawn[1] if with_bias else None

    # -- parameters --------------------------------------------------------------------------------

    @property
    def weight(self) -> Array:
        return self._weight

    @weight.setter
    def weight(self, value: Any) -> None:
        self._weight = state.check_parameter(value, self._weight, f"{self._where()}: 'weight'")

    @property
    def bias(self) -> Array | None:
        return self._bias

    @bias.setter
    def bias(self, value: Any) -> None:
        where = f"{self._where()}: 'bias'"
        if self._bias is None:
            raise InvalidArgumentError(f"{where}: this module was made with bias=False")
        self._bias = state.check_parameter(value, self._bias, where)

    def _parameters(self) -> dict[str, Array]:
        return {"weight": self._weight} if self._bias is None else {"weight": self._weight, "bias": self._bias}

    def state_dict(self) -> dict[str, Array]:
        """Copies of weight and (with bias) bias by name."""
        return state.save(self._parameters())

    def load_state_dict(self, values: Mapping[str, Array]) -> None:
        """Copy `values` into the parameters.

        Raises:
            InvalidArgumentError: missing or unexpected names, another dtype. ShapeError: another shape.
            TypeError: not a mapping of names to NumPy arrays. The parameters are left as they were.
        """
        state.load(self._parameters(), values, f"{self._where()}.load_state_dict")

    # -- computing ---------------------------------------------------------------------------------

    def __call__(self, src: Any) -> Array:
        """dst of src; a reference to src is kept for `backward`, so do not change it in between.

        Args:
            src: (N, IC, spatial...) for NCX, (N, spatial..., IC) for NXC, of the module's dtype.

        Raises:
            ShapeError, InvalidArgumentError: src does not fit the module.
            TypeError: src is not an array.
        """
        src = self._data(src, "src", self.in_channels)
        bias = None if self._bias is None else self._bias.reshape(-1)
        widen = self._widens()
        dst = functional.conv_transpose(
            _wide(src, widen),
            self._weights(widen),
            None if bias is None else _wide(bias, widen),
            **self._attributes,
        )
        self._src = src
        return self._narrow(dst)

    def backward(self, diff_dst: Any) -> Array:
        """Gradients for the latest call: returns diff_src; weight_grad and bias_grad become new arrays.

        Gradients are not summed over calls. Weights must be those of the latest call.

        Args:
            diff_dst: the gradient of the latest dst, in its shape and dtype.

        Raises:
            InvalidArgumentError: before the first call, or diff_dst of another dtype.
            ShapeError: another shape.
            TypeError: diff_dst is not an array.
        """
        if self._src is None:
            raise InvalidArgumentError(f"{self._where()}.backward: call the module before its backward")
        widen = self._widens()
        diff_dst = self._data(diff_dst, "diff_dst", self.out_channels)
        expected = self.output_shape(self._src.shape)
        if diff_dst.shape != expected:
            raise ShapeError(
                f"{self._where()}: 'diff_dst' has shape {diff_dst.shape}, but the latest dst had {expected}"
            )
        diff, src, weights = _wide(diff_dst, widen), _wide(self._src, widen), self._weights(widen)
        diff_src = functional.conv_transpose_backward_data(diff, weights, src_shape=self._src.shape, **self._attributes)
        diff_weights = functional.conv_transpose_backward_weights(src, diff, weights.shape, **self._attributes)
        if self._bias is not None:
            diff_bias = functional.conv_transpose_backward_bias(diff, data_format=self.data_format, engine=self.engine)
            self.bias_grad = self._narrow(diff_bias).reshape(self._bias.shape)
        self.weight_grad = self._narrow(diff_weights).reshape(self._weight.shape)
        return self._narrow(diff_src)

    def output_shape(self, src_shape: Sequence[int | None]) -> tuple[int | None, ...]:
        """The shape of dst for a shape of src; None stands for a size that is not known."""
        attributes = {name: value for name, value in self._attributes.items() if name != "engine"}
        return functional.conv_transpose_output_shape(src_shape, self._iox().shape, **attributes)

    def _iox(self) -> Array:
        return convert_weights(self._weight, "megengine", "IOX", groups=self.groups)

    def _weights(self, widen: bool) -> Array:
        return _wide(self._iox(), widen)

    def _widens(self) -> bool:
        """Whether to convert to float32 here: where the CPU lacks float16 arithmetic, the package does."""
        return (
            self.dtype == "f16"
            and self.compute_mode == "float32"
            and cpu.computes_natively("f16", self.engine or default_engine())
        )

    def _narrow(self, array: Array) -> Array:
        return array.astype(numpy_dtype(self.dtype), copy=False)

    def _data(self, value: Any, name: str, channels: int) -> Array:
        where = self._where()
        array = as_array(value, f"{where}: {name!r}")
        rank = self.spatial_axes + 2
        if array.ndim != rank:
            raise ShapeError(
                f"{where}: {name!r} has rank {array.ndim} {array.shape}, {self.data_format} needs rank {rank}"
            )
        found = channels_of(array.shape, self.data_format)
        if found != channels:
            raise ShapeError(
                f"{where}: {name!r} of shape {array.shape} has {found} channels ({self.data_format}), "
                f"the module needs {channels}; check data_format"
            )
        if array.dtype != self._weight.dtype:
            raise InvalidArgumentError(
                f"{where}: {name!r} has dtype {array.dtype}, the module computes in {self.dtype}; convert it "
                f"with array.astype({self._weight.dtype.name!r})"
            )
        return array

    # -- the object --------------------------------------------------------------------------------

    def _where(self) -> str:
        return type(self).__name__ + ("" if self.name is None else f" {self.name!r}")

    def __repr__(self) -> str:
        parts = [f"{self.in_channels}, {self.out_channels}, kernel_size={self.kernel_size}, stride={self.stride}"]
        defaults = {"padding": 0, "output_padding": 0, "dilation": 1}
        parts += [
            f"{label}={getattr(self, label)}"
            for label, default in defaults.items()
            if set(getattr(self, label)) != {default}
        ]
        parts += [f"groups={self.groups}"] if self.groups > 1 else []
        parts += ["bias=False"] if self._bias is None else []
        parts += [f"name={self.name!r}"] if self.name is not None else []
        parts += [f"dtype={self.dtype!r}, data_format={self.data_format!r}"]
        return f"{type(self).__name__}({', '.join(parts)})"

    def __getstate__(self) -> dict[str, Any]:
        # what backward needs is no part of the module's state
        return {**self.__dict__, "_src": None}


class ConvTranspose1d(ConvTranspose):
    __doc__ = ConvTranspose.__doc__
    spatial_axes = 1


class ConvTranspose2d(ConvTranspose):
    __doc__ = ConvTranspose.__doc__
    spatial_axes = 2


class ConvTranspose3d(ConvTranspose):
    __doc__ = ConvTranspose.__doc__
    spatial_axes = 3


def _count(value: Any, name: str, where: str) -> int:
    number = integer(value, name, where)
    if number < 1:
        raise InvalidArgumentError(f"{where}: {name!r} must be at least 1, got {number}")
    return number


def _channels(value: Any, name: str, groups: int, where: str) -> int:
    number = _count(value, name, where)
    if number % groups:
        raise InvalidArgumentError(f"{where}: {name!r}={number} is not a multiple of groups={groups}")
    return number


def _conv_mode(value: Any, where: str) -> str:
    if isinstance(value, str) and value.lower() == "convolution":
        raise InvalidArgumentError(
            f"{where}: 'conv_mode' must be cross_correlation, got {value!r}; for the mirrored kernel of a "
            f"mathematical convolution set weight to a contiguous copy of numpy.flip(weight, spatial_axes)"
        )
    return choice(value, "conv_mode", ("cross_correlation",), where)


def _wide(array: Array, widen: bool) -> Array:
    return array.astype(np.float32) if widen else array
