"""Registers `torch.ops.dnnl_graph_ops`: convolution, transposed convolution, and two gradients of each.

Each op has the arguments of `aten.convolution` without `transposed`; the gradients take the size of their result in
place of the bias. Each op is linear in either tensor, so the derivatives of the six ops are the six ops.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import nullcontext
from functools import partial
from typing import Any, TypeAlias

import torch
from torch import Tensor
from torch.autograd import forward_ad
from torch.utils.flop_counter import conv_flop_count, register_flop_formula

from ..private import BelowAutograd, WithoutKeys, single_level_function, suggest_memory_format
from .compute import bias_gradient, call_of, theirs
from .conv_params import (
    BACKWARD_DATA,
    BACKWARD_WEIGHTS,
    FORWARD,
    ConvParams,
    check_gradient,
    conv_params,
    gradient_last,
    laid,
)

NAMESPACE = "dnnl_graph_ops"
_ARGUMENTS = "SymInt[] stride, SymInt[] padding, SymInt[] dilation, SymInt[] output_padding, SymInt groups"
_SCHEMAS = {
    FORWARD: f"(Tensor input, Tensor weight, Tensor? bias, {_ARGUMENTS}) -> Tensor",
    BACKWARD_DATA: f"(Tensor grad_output, Tensor weight, SymInt[] input_size, {_ARGUMENTS}) -> Tensor",
    BACKWARD_WEIGHTS: f"(Tensor input, Tensor grad_output, SymInt[] weight_size, {_ARGUMENTS}) -> Tensor",
}
KINDS = {"convolution": False, "conv_transpose": True}

library = torch.library.Library(NAMESPACE, "DEF")


def call(direction: str, spec: ConvParams, a: Tensor, b: Tensor, last: Any) -> Tensor:
    """Calls one of the six ops on two tensors and the bias or size; `direction`: a key of the schemas."""
    stride, padding, dilation, _, output_padding, groups = spec
    op = getattr(getattr(torch.ops, NAMESPACE), spec.kind + direction).default
    return op(a, b, last, stride, padding, dilation, output_padding, groups)


# -- kernels and shapes: each function takes a direction, ConvParams, two tensors and the bias or size -----------------


def _compute(direction: str, spec: ConvParams, a: Tensor, b: Tensor, third: Any) -> Tensor:
    if direction != FORWARD:
        size = tuple(third)
        return call_of(spec, direction, a, b, size, gradient_last(a, b)).run(a, b, size)
    if a.is_complex() or (third is not None and third.dtype is not a.dtype):
        return _elsewhere(direction, spec, a, b, third)
    return call_of(spec, direction, a, b, third).run(a, b, third)


def _elsewhere(direction: str, spec: ConvParams, a: Tensor, b: Tensor, third: Any) -> Tensor:
    if direction != FORWARD:
        check_gradient(spec, direction, a.shape, b.shape, third)
        return theirs(spec, direction, a, b, third, gradient_last(a, b))
    # callers of aten.convolution must check this, and complex numbers
    torch._check(
        third is None or third.dtype is a.dtype,
        lambda: f"{spec.kind}: input of {a.dtype} and bias of {third.dtype} are not of one dtype",
    )
    axes = len(spec.stride)
    if not a.is_complex() or a.ndim != axes + 2 or axes not in (1, 2, 3):
        return torch.ops.aten.convolution(a, b, third, *spec)
    stride, padding, dilation, _, output_padding, groups = spec
    if spec.transposed:
        return getattr(torch, f"conv_transpose{axes}d")(a, b, third, stride, padding, output_padding, groups, dilation)
    return getattr(torch, f"conv{axes}d")(a, b, third, stride, padding, dilation, groups)


def _fake(direction: str, spec: ConvParams, a: Tensor, b: Tensor, third: Any) -> Tensor:
    if direction == FORWARD:
        return _elsewhere(direction, spec, a, b, third)
    check_gradient(spec, direction, a.shape, b.shape, third)
    return laid(a.new_empty(third), gradient_last(a, b, _looks_last))


def _looks_last(t: Tensor) -> bool:
    """As `channels_last`, for sizes and strides that may be symbolic."""
    return bool(suggest_memory_format(t.unsqueeze(2) if t.ndim == 3 else t) is not torch.contiguous_format)


def _autocast(direction: str, spec: ConvParams, x: Tensor, w: Tensor, b: Tensor | None) -> Tensor:
    """Casts the operands of the forward ops, as PyTorch's autocast does."""
    dtype = torch.get_autocast_dtype("cpu")

    def cast(value: Any) -> Any:
        narrow = isinstance(value, Tensor) and value.is_floating_point() and value.dtype is not torch.float64
        return value.to(dtype) if narrow and value.device.type == "cpu" else value

    with WithoutKeys(torch._C.DispatchKeySet(torch._C.DispatchKey.AutocastCPU)):
        return call(direction, spec, cast(x), cast(w), cast(b))


# -- derivatives ------------------------------------------------------------------------------------------------


def forward_gradients(
    spec: ConvParams,
    x: Any,
    w: Any,
    dy: Tensor,
    src: Sequence[int],
    weights: Sequence[int],
    last: bool,
    needs: Sequence[bool],
) -> list[Any]:
    """Returns the gradients of input, weights and bias; the first two in the result's layout, whatever dy's layout."""
    return [
        laid(call(BACKWARD_DATA, spec, dy, w, src), last) if needs[0] else None,
        laid(call(BACKWARD_WEIGHTS, spec, x, dy, weights), last) if needs[1] else None,
        bias_gradient(dy) if needs[2] else None,
    ]


def _gradients(
    direction: str, spec: ConvParams, a: Tensor, b: Tensor, grad: Tensor, last: bool, needs: Any
) -> list[Any]:
    if direction == FORWARD:
        return forward_gradients(spec, a, b, grad, a.shape, b.shape, last, needs)
    ways: tuple[Any, Any]
    if direction == BACKWARD_DATA:
        ways = (FORWARD, grad, b, None), (BACKWARD_WEIGHTS, grad, a, b.shape)
    else:
        ways = (BACKWARD_DATA, b, grad, a.shape), (FORWARD, a, grad, None)
    return [call(ways[i][0], spec, *ways[i][1:]) if needs[i] else None for i in range(2)] + [None]


def _has_tangent(*values: Any) -> bool:
    if forward_ad._current_level < 0:
        return False
    return any(isinstance(v, Tensor) and forward_ad.unpack_dual(v).tangent is not None for v in values)


class Recorded(torch.autograd.Function):
    """Records a result that was computed before: a computing Function would stop recording for outer transforms."""

    @staticmethod
    def forward(
        ctx: Any, direction: str, spec: ConvParams, a: Tensor, b: Tensor, third: Any, result: list[Tensor]
    ) -> Tensor:
        ctx.save_for_backward(a, b)
        out = result.pop()
        ctx.direction, ctx.spec, ctx.last = direction, spec, _looks_last(out)
        return out

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Any:
        a, b = ctx.saved_tensors
        # gradients have the dtypes of their operands
        with torch.autocast("cpu", enabled=False) if torch.is_autocast_enabled("cpu") else nullcontext():
            return (
                None,
                None,
                *_gradients(ctx.direction, ctx.spec, a, b, grad, ctx.last, ctx.needs_input_grad[2:5]),
                None,
            )


# Function.apply would start another level of torch.func's transforms, within which this kernel runs
_record = super(torch.autograd.Function, Recorded).apply


def _autograd(direction: str, spec: ConvParams, a: Tensor, b: Tensor, third: Any) -> Tensor:
    """Returns the autograd kernel: records gradients, and uses PyTorch's own op in forward-mode differentiation."""
    if _has_tangent(a, b, third) or (direction == FORWARD and a.is_complex()):
        return _elsewhere(direction, spec, a, b, third)
    with BelowAutograd():
        out = call(direction, spec, a, b, third)
    if torch.is_grad_enabled() and any(isinstance(t, Tensor) and t.requires_grad for t in (a, b, third)):
        with single_level_function():
            recorded: Tensor = _record(direction, spec, a, b, third, [out])
        return recorded
    return out


# -- vmap -------------------------------------------------------------------------------------------------------


_Mapped: TypeAlias = tuple[Tensor, int]  # a result, and its mapped axis


def _joined(tensor: Tensor, dim: int | None, size: int, axis: int) -> Tensor:
    """Returns a tensor with the mapped axis merged into another axis; repeated if it is not mapped."""
    front = tensor.expand(size, *tensor.shape) if dim is None else tensor.movedim(dim, 0)
    return front.movedim(0, axis).flatten(axis, axis + 1)


def _mapped(
    direction: str, size: int, dims: Sequence[Any], spec: ConvParams, a: Tensor, b: Tensor, third: Any
) -> _Mapped:
    """Runs a mapped op: mapped activations alone make a larger batch, mapped weights multiply the groups.

    Groups are merged into axis 1 of (N, C, ...), and into axis 0 of weights (O, I, ...) and of a bias.
    """
    batched = direction != BACKWARD_WEIGHTS and dims[1] is None and (direction == BACKWARD_DATA or dims[2] is None)
    axis = int(direction != BACKWARD_WEIGHTS and not batched)
    if direction != FORWARD:
        third = [size * n if i == axis else n for i, n in enumerate(third)]
    if batched:
        out = call(direction, spec, _joined(a, dims[0], size, 0), b, third)
    else:
        if direction == FORWARD and third is not None:
            third = _joined(third, dims[2], size, 0)
        b = _joined(b, dims[1], size, int(direction == BACKWARD_WEIGHTS))
        out = call(direction, spec.repeated(size), _joined(a, dims[0], size, 1), b, third)
    return out.unflatten(axis, (size, out.shape[axis] // size)), axis


# -- registration -----------------------------------------------------------------------------------------------


def _taking_arguments(transposed: bool, direction: str, rule: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """Returns a kernel on the op's arguments from a function of a ConvParams."""

    def kernel(
        a: Tensor, b: Tensor, third: Any, stride: Any, padding: Any, dilation: Any, output_padding: Any, groups: int
    ) -> Tensor:
        spec = conv_params(transposed, a.ndim - 2, stride, padding, dilation, output_padding, groups)
        return rule(direction, spec, a, b, third)

    return kernel


def _flops(transposed: bool, direction: str, a: Any, b: Any, *_: Any, out_shape: Any, **others: Any) -> int:
    """Returns what PyTorch's counter counts for the same convolution, by shapes."""
    if direction != BACKWARD_WEIGHTS:
        return conv_flop_count(a, b, out_shape, transposed is (direction == FORWARD))
    # channels take the place of the batch
    first, second = (b, a) if transposed else (a, b)
    x, w, out = ([shape[1], shape[0], *shape[2:]] for shape in (first, second, out_shape))
    return conv_flop_count(x, w, out)


def _register(kind: str, transposed: bool, direction: str) -> None:
    name, taking = kind + direction, partial(_taking_arguments, transposed, direction)
    library.define(name + _SCHEMAS[direction], tags=(torch.Tag.pt2_compliant_tag,))
    library.impl(name, taking(_compute), "CPU")
    library.impl(name, taking(_elsewhere), "CompositeExplicitAutograd")
    library.impl(name, taking(_autograd), "Autograd")
    library.impl(name, torch.library.fallthrough_kernel if direction else taking(_autocast), "AutocastCPU")
    torch.library.register_fake(f"{NAMESPACE}::{name}", taking(_fake), lib=library)

    def map_rule(info: Any, dims: Any, a: Any, b: Any, third: Any, *arguments: Any) -> Any:
        spec = conv_params(transposed, len(arguments[0]), *arguments)
        if info.batch_size == 0:
            # no gradient in place of a gradient of zeros
            one = [
                v.sum(d) if isinstance(v, Tensor) and d is not None else v
                for v, d in zip((a, b, third), dims[:3], strict=True)
            ]
            return call(direction, spec, *one).unsqueeze(0)[:0], 0
        return _mapped(direction, info.batch_size, dims, spec, a, b, third)

    torch.library.register_vmap(f"{NAMESPACE}::{name}", map_rule, lib=library)
    register_flop_formula(getattr(getattr(torch.ops, NAMESPACE), name))(partial(_flops, transposed, direction))


for _kind, _transposed in KINDS.items():
    for _direction in _SCHEMAS:
        _register(_kind, _transposed, _direction)
