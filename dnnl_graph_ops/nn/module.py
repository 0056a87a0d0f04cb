"""Convolution and transposed convolution as modules: parameters, forward and backward."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np

from .. import functional
from ..dtypes import canonical, numpy_dtype
from ..errors import InvalidArgumentError, ShapeError
from ..ops.typed import DTYPES
from ..runtime import cpu
from ..runtime.arrays import as_array
from ..runtime.engines import Engine, default_engine
from ..schema.arguments import no_member, show
from ..shapes.attributes import DATA_FORMATS, choice, integer, per_axis
from ..shapes.common import channels_of
from . import state
from .keywords import both_spellings

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from .._functional import DataFormat
    from .keywords import FunctionWords

Array = np.ndarray[Any, Any]
Ints = int | Sequence[int]

COMPUTE_MODES = ("default", "float32")


class Module:
    """A convolution or transposed convolution; the classes of `layers` document the arguments."""

    _op: ClassVar[str]  # the one-shot function, and the prefix of its gradients' names
    _weights_format: ClassVar[str]  # PyTorch's
    _spatial_axes: ClassVar[int]

    # not for type checkers: they would take any name for one of the module
    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            raise no_member(self, name)

    @both_spellings
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
        **words: Unpack[FunctionWords],
    ) -> None:
        if name is not None and not isinstance(name, str):
            raise TypeError(f"{type(self).__name__}: 'name' must be a string, got {type(name).__name__}")
        self.name = name
        where, rank = self._where(), self._spatial_axes
        if engine is not None and not isinstance(engine, Engine):
            raise TypeError(f"{where}: 'engine' must come from dgo.engine(...), got {show(engine)}")
        if not isinstance(bias, bool | np.bool_):
            raise TypeError(f"{where}: 'bias' must be True or False, got {bias!r} of type {type(bias).__name__}")
        self.groups = integer(groups, "groups", where, 1)
        self.in_channels = _channels(in_channels, "in_channels", self.groups, where)
        self.out_channels = _channels(out_channels, "out_channels", self.groups, where)
        self.kernel_size = per_axis(kernel_size, "kernel_size", rank, 1, where)
        self.stride = per_axis(stride, "stride", rank, 1, where)
        self.padding = per_axis(padding, "padding", rank, 0, where)
        self.dilation = per_axis(dilation, "dilation", rank, 1, where)
        self.conv_mode = _conv_mode(conv_mode, where)
        self.compute_mode = choice(compute_mode, "compute_mode", COMPUTE_MODES, where)
        self.data_format = choice(data_format, "data_format", DATA_FORMATS, where)
        self.dtype = canonical(dtype, where)
        if self.dtype not in DTYPES:
            raise InvalidArgumentError(f"{where}: 'dtype' must be one of {', '.join(DTYPES)}, got {self.dtype}")
        self.engine = engine
        self._attributes: dict[str, Any] = {
            "strides": self.stride,
            "pads_begin": self.padding,
            "pads_end": self.padding,
            "dilations": self.dilation,
            "groups": self.groups,
            "data_format": self.data_format,
            "weights_format": self._weights_format,
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
        channels = {"I": self.in_channels // self.groups, "O": self.out_channels // self.groups}
        first, second = (channels[letter] for letter in self._weights_format[:2])
        bound = 1 / math.sqrt(second * math.prod(self.kernel_size))
        leading = () if self.groups == 1 else (self.groups,)

        def drawn(*shape: int) -> Array:
            return generator.uniform(-bound, bound, shape).astype(numpy_dtype(self.dtype))

        weight = drawn(*leading, first, second, *self.kernel_size)
        return weight, drawn(1, self.out_channels, *(1,) * self._spatial_axes) if with_bias else None

    # -- parameters --------------------------------------------------------------------------------

    @property
    def weight(self) -> Array:
        return self._weight

    @weight.setter
    def weight(self, value: Any) -> None:
        self._weight = state.check_parameter(value, self._parameters()["weight"], f"{self._where()}: 'weight'")

    @property
    def bias(self) -> Array | None:
        return self._bias

    @bias.setter
    def bias(self, value: Any) -> None:
        where = f"{self._where()}: 'bias'"
        if self._bias is None:
            raise InvalidArgumentError(f"{where}: this module was made with bias=False")
        self._bias = state.check_parameter(value, self._parameters()["bias"], where)

    def _parameters(self) -> dict[str, state.Parameter]:
        remedy = f"; dgo.convert_weights(array, source, 'megengine', op={self._op!r}) reorders weights"
        found = {"weight": state.Parameter(self._weight, self._in_order().shape, remedy)}
        if self._bias is not None:
            found["bias"] = state.Parameter(self._bias, (self.out_channels,))
        return found

    def state_dict(self) -> dict[str, Array]:
        """Copies of weight and (with bias) bias by name."""
        # copies: later training steps do not change them
        return {name: parameter.array.copy() for name, parameter in self._parameters().items()}

    def load_state_dict(self, values: Mapping[str, Any]) -> None:
        """Copy `values` into the parameters.

        Args:
            values: weight and (with bias) bias by name: NumPy arrays, or tensors in CPU memory, in the parameters'
                shapes or in PyTorch's: bias (OC,), weight with the groups merged into the next axis.

        Raises:
            InvalidArgumentError: missing or unexpected names, another dtype, a tensor on another device.
            ShapeError: another shape.
            TypeError: not a mapping of names to arrays. After an error the parameters are unchanged.
        """
        state.load(self._parameters(), values, f"{self._where()}.load_state_dict")

    # -- computing ---------------------------------------------------------------------------------

    def __call__(self, src: Any) -> Array:
        """Compute dst from src; keeps a reference to src for `backward`, so do not change src in between.

        Args:
            src: (N, IC, spatial...) for NCX, (N, spatial..., IC) for NXC, of the module's dtype.

        Raises:
            ShapeError, InvalidArgumentError: src does not fit the module.
            TypeError: src is not an array.
        """
        src = self._data(src, "src", self.in_channels)
        bias = None if self._bias is None else self._bias.reshape(-1)
        dst = self._function()(*self._wide(src, self._in_order(), bias), **self._attributes)
        self._src = src
        return self._narrow(dst)

    def backward(self, diff_dst: Any) -> Array:
        """Compute the gradients of the latest call: returns diff_src, and sets weight_grad and bias_grad to new arrays.

        Gradients are not summed over calls. The weights must not have changed since the latest call.

        Args:
            diff_dst: the gradient of the latest dst, in its shape and dtype.

        Raises:
            InvalidArgumentError: before the first call, or diff_dst of another dtype.
            ShapeError: another shape.
            TypeError: diff_dst is not an array.
        """
        if self._src is None:
            raise InvalidArgumentError(f"{self._where()}.backward: call the module before its backward")
        diff_dst = self._data(diff_dst, "diff_dst", self.out_channels)
        expected = self.output_shape(self._src.shape)
        if diff_dst.shape != expected:
            raise ShapeError(
                f"{self._where()}: 'diff_dst' has shape {diff_dst.shape}, but the latest dst had {expected}"
            )
        diff, src, weights = self._wide(diff_dst, self._src, self._in_order())
        diff_src = self._function("_backward_data")(diff, weights, src_shape=self._src.shape, **self._attributes)
        diff_weights = self._function("_backward_weights")(src, diff, weights.shape, **self._attributes)
        if self._bias is not None:
            diff_bias = self._function("_backward_bias")(diff, data_format=self.data_format, engine=self.engine)
            self.bias_grad = self._narrow(diff_bias).reshape(self._bias.shape)
        self.weight_grad = self._narrow(diff_weights).reshape(self._weight.shape)
        return self._narrow(diff_src)

    def output_shape(self, src_shape: Sequence[int | None]) -> tuple[int | None, ...]:
        """The shape of dst for a shape of src; None stands for an unknown size."""
        attributes = {name: value for name, value in self._attributes.items() if name != "engine"}
        return self._function("_output_shape")(src_shape, self._in_order().shape, **attributes)

    def _function(self, suffix: str = "") -> Callable[..., Any]:
        return getattr(functional, self._op + suffix)

    def _in_order(self) -> Array:
        """Returns the weights in PyTorch's order, which the functions take: groups merged into the next axis."""
        return self._weight.reshape(-1, *self._weight.shape[-1 - self._spatial_axes :])

    def _wide(self, *operands: Any) -> Sequence[Any]:
        """Returns the operands, in float32 with compute_mode="float32" where the CPU has float16 arithmetic."""
        if self.dtype != "f16" or self.compute_mode != "float32":
            return operands
        if not cpu.computes_natively("f16", self.engine or default_engine()):
            return operands
        return [None if operand is None else operand.astype(np.float32) for operand in operands]

    def _narrow(self, array: Array) -> Array:
        return array.astype(numpy_dtype(self.dtype), copy=False)

    def _data(self, value: Any, name: str, channels: int) -> Array:
        where = self._where()
        array = as_array(value, f"{where}: {name!r}")
        rank = self._spatial_axes + 2
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
            if set(getattr(self, label, (default,))) != {default}
        ]
        parts += [f"groups={self.groups}"] if self.groups > 1 else []
        parts += ["bias=False"] if self._bias is None else []
        parts += [f"name={self.name!r}"] if self.name is not None else []
        parts += [f"dtype={self.dtype!r}, data_format={self.data_format!r}"]
        return f"{type(self).__name__}({', '.join(parts)})"

    def __getstate__(self) -> dict[str, Any]:
        # the operand kept for backward is no part of the module's state
        return {**self.__dict__, "_src": None}


def _channels(value: Any, name: str, groups: int, where: str) -> int:
    number = integer(value, name, where, 1)
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
