"""Defines ConvParams, a convolution in PyTorch's terms; derives sizes, memory formats and this package's attributes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch

from ...strides import dense_strides
from ...words import counted
from ..private import conv_backend, memory_format_of

Ints = tuple[int, ...]

# suffixes of the directions in names of ops and functions
FORWARD, BACKWARD_DATA, BACKWARD_WEIGHTS = "", "_backward_data", "_backward_weights"


class ConvParams(NamedTuple):
    """The arguments of `aten.convolution` after the tensors, in its order; an int for each spatial axis."""

    stride: Ints
    padding: Ints
    dilation: Ints
    transposed: bool
    output_padding: Ints
    groups: int

    @property
    def kind(self) -> str:
        """The prefix in names of ops and functions."""
        return "conv_transpose" if self.transposed else "convolution"

    @property
    def plain(self) -> ConvParams:
        """The same with Python's ints: some models have NumPy's, which PyTorch's functions refuse."""
        stride, padding, dilation, beyond = (tuple(map(int, of)) for of in (*self[:3], self.output_padding))
        return ConvParams(stride, padding, dilation, self.transposed, beyond, int(self.groups))

    @property
    def attributes(self) -> dict[str, Any]:
        """The attributes of this package's ops."""
        shared = {
            "strides": self.stride,
            "pads_begin": self.padding,
            "pads_end": self.padding,
            "dilations": self.dilation,
            "groups": self.groups,
            "data_format": "NCX",
            "weights_format": "IOX" if self.transposed else "OIX",
        }
        return {**shared, "output_padding": self.output_padding} if self.transposed else shared

    def repeated(self, groups: int) -> ConvParams:
        """The same convolution with `times` the groups."""
        return self._replace(groups=self.groups * groups)


def ordinary(stride: Ints, padding: Ints, dilation: Ints, groups: int) -> ConvParams:
    return ConvParams(stride, padding, dilation, False, (0,) * len(stride), groups)


def each(given: Any, axes: int) -> Ints:
    """Returns an argument as one int for each spatial axis."""
    values = tuple(given) if isinstance(given, list | tuple) else (given,)
    return values * axes if len(values) == 1 else values


def conv_params(
    transposed: bool, axes: int, stride: Any, padding: Any, dilation: Any, output_padding: Any, groups: int
) -> ConvParams:
    """Returns ConvParams from arguments where an int stands for all axes; output_padding counts if transposed."""
    beyond = each(output_padding, axes)
    if not transposed and len(beyond) == axes and all(p >= 0 for p in beyond):
        beyond = (0,) * axes
    return ConvParams(each(stride, axes), each(padding, axes), each(dilation, axes), transposed, beyond, groups)


def result_shape(spec: ConvParams, src: Sequence[Any], weights: Sequence[Any]) -> tuple[Any, ...]:
    """Returns the shape of the forward result; sizes may be symbolic."""
    spatial = []
    for i, (n, k) in enumerate(zip(src[2:], weights[2:], strict=True)):
        reach = spec.dilation[i] * (k - 1) + 1
        if spec.transposed:
            spatial.append((n - 1) * spec.stride[i] - 2 * spec.padding[i] + reach + spec.output_padding[i])
        else:
            spatial.append((n + 2 * spec.padding[i] - reach) // spec.stride[i] + 1)
    channels = weights[1] * spec.groups if spec.transposed else weights[0]
    return (src[0], channels, *spatial)


def check_gradient(
    spec: ConvParams, direction: str, a: Sequence[Any], b: Sequence[Any], size: Sequence[Any]
) -> tuple[Sequence[Any], ...]:
    """Returns the shapes of input, weights and result for a gradient's operands and size; sizes may be symbolic.

    Raises PyTorch's error if they fit no convolution.
    """
    src, weights, dst = (size, b, a) if direction == BACKWARD_DATA else (a, size, b)

    def check(is_so: Any, text: str) -> None:
        torch._check(is_so, lambda: f"{spec.kind}'s gradients: {text}")

    axes = len(spec.stride)
    check(
        1 <= axes <= 3 and {len(src), len(weights), len(dst)} == {axes + 2},
        f"{counted(len(src), 'axis')} of the input, {len(weights)} of the weights and {len(dst)} of grad_output are "
        "not "
        f"{axes + 2}, which stride has by its length",
    )
    for name, least in (("stride", 1), ("padding", 0), ("dilation", 1), ("output_padding", 0), ("groups", 1)):
        values = (spec.groups,) * axes if name == "groups" else getattr(spec, name)
        sound = len(values) == axes and all(v >= least for v in values)
        check(sound, f"{name} {values} is not {counted(axes, 'value')} of at least {least}")
    rows, columns, groups = *weights[:2], spec.groups
    check(
        src[1] == (rows if spec.transposed else columns * groups) and rows % groups == 0,
        f"weights of {rows} x {counted(columns, 'channel')} in {counted(groups, 'group')} do not go with {src[1]} of "
        "the input",
    )
    # without channels there is no result
    made = (*dst[:2], *src[2:]) if src[1] == 0 else result_shape(spec, src, weights)
    for axis, (given, wanted) in enumerate(zip(dst, made, strict=True)):
        text = f"an input of {tuple(src)} and weights of {tuple(weights)} make {wanted}"
        check(given == wanted, f"grad_output has {given} along axis {axis}; {text}")
    return src, weights, dst


def is_sound(spec: ConvParams, src: Ints, weights: Ints, bias: Ints | None) -> bool:
    """Whether the sizes are those of a convolution with a result; else PyTorch reports the error."""
    axes = len(spec.stride)
    if not 1 <= axes <= 3 or len(src) != axes + 2 or len(weights) != axes + 2 or 0 in src or 0 in weights:
        return False
    if {len(spec.padding), len(spec.dilation), len(spec.output_padding)} != {axes}:
        return False
    if min(*spec.stride, *spec.dilation, spec.groups) < 1 or min(*spec.padding, *spec.output_padding) < 0:
        return False
    if any(p >= max(s, d) for p, s, d in zip(spec.output_padding, spec.stride, spec.dilation, strict=True) if p):
        return False
    given = weights[0] if spec.transposed else weights[1] * spec.groups
    if src[1] != given or weights[0] % spec.groups:
        return False
    made = result_shape(spec, src, weights)
    return min(made) > 0 and bias in (None, made[1:2])


def channels_last(shape: Ints, strides: Ints) -> bool:
    """Whether PyTorch treats a tensor as channels last; (N, C, L) as an image of one row.

    Strides of axes of size 1 do not count: an ambiguous tensor is channels first.
    """
    if len(shape) == 3:
        shape = (*shape[:2], 1, shape[2])
        strides = (*strides[:2], strides[2] * shape[3], strides[2])
    if len(shape) not in (4, 5) or strides[1] == 0:
        return False
    least = 0
    for axis in (1, *range(len(shape) - 1, 1, -1), 0):
        if shape[axis] == 0 or strides[axis] < least or (axis == 0 and least == strides[1]):
            return False
        least = strides[axis] * max(shape[axis], 1)
    return True


def strides_of(shape: Ints, last: bool) -> Ints:
    """Returns the strides of a dense tensor, channels last or first."""
    if not last:
        return dense_strides(shape)
    n, *spatial, c = dense_strides((shape[0], *shape[2:], shape[1]))
    return (n, c, *spatial)


def result_last(spec: ConvParams, x: torch.Tensor, w: torch.Tensor, b: torch.Tensor | None) -> bool:
    """Whether the result of `aten.convolution` is channels last, which depends on PyTorch's own engine."""
    backend = conv_backend(x, w, bias=b, **spec._asdict())
    if x.ndim == 3:
        # PyTorch treats (N, C, L) as images of one row, and makes them dense first
        x, w = (x if x.is_contiguous() else x.new_empty(x.shape)).unsqueeze(2), w.unsqueeze(2)
    return memory_format_of(x, w, backend) is not torch.contiguous_format


def is_last(t: torch.Tensor) -> bool:
    return channels_last(t.shape, t.stride())


def gradient_last(a: torch.Tensor, b: torch.Tensor, look: Callable[[torch.Tensor], bool] = is_last) -> bool:
    """Whether a gradient is channels last: as the forward result is, whose layout `a` or `b` has.

    b: the weights, or a tensor in the result's layout. For (N, C, L), `a` does not count, as x does not there.
    """
    return look(b) or (a.ndim > 3 and look(a))


def laid(t: torch.Tensor, last: bool) -> torch.Tensor:
    """Returns a tensor as channels last or first."""
    return t.movedim(1, -1).contiguous().movedim(-1, 1) if last else t.contiguous()
