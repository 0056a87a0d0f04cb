"""`torch.ops.dnnl_graph_ops`: both convolutions and their gradients, as PyTorch knows its own.

Each takes what `aten.convolution` takes, without `transposed`; the gradients take the size of their result instead of a
tensor. Each is linear in either tensor, so that the derivatives of all are these six.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import nullcontext
from typing import Any, TypeAlias

import torch
from torch import Tensor
from torch._functorch.utils import enable_single_level_autograd_function
from torch._prims_common import suggest_memory_format
from torch.autograd import forward_ad

from .compute import bias_gradient, call_of
from .spec import BACKWARD_DATA, BACKWARD_WEIGHTS, FORWARD, Spec, check_gradient, gradient_last, laid, make_spec

NAMESPACE = "dnnl_graph_ops"
_ARGUMENTS = "SymInt[] stride, SymInt[] padding, SymInt[] dilation, SymInt[] output_padding, SymInt groups"
_SCHEMAS = {
    "": f"(Tensor input, Tensor weight, Tensor? bias, {_ARGUMENTS}) -> Tensor",
    "_backward_data": f"(Tensor grad_output, Tensor weight, SymInt[] input_size, {_ARGUMENTS}) -> Tensor",
    "_backward_weights": f"(Tensor input, Tensor grad_output, SymInt[] weight_size, {_ARGUMENTS}) -> Tensor",
}
KINDS = {"convolution": False, "conv_transpose": True}

library = torch.library.Library(NAMESPACE, "DEF")


def call(direction: str, spec: Spec, a: Tensor, b: Tensor, last: Any) -> Tensor:
    """One of the six on two tensors and what comes third; `direction`: a key of the schemas."""
    stride, padding, dilation, _, output_padding, groups = spec
    op = getattr(getattr(torch.ops, NAMESPACE), spec.kind + direction).default
    return op(a, b, last, stride, padding, dilation, output_padding, groups)


# -- what they compute ------------------------------------------------------------------------------------------


def _forward(spec: Spec, x: Tensor, w: Tensor, b: Tensor | None) -> Tensor:
    if x.is_complex() or (b is not None and b.dtype is not x.dtype):
        return _elsewhere(spec, x, w, b)
    return call_of(spec, FORWARD, x, w, b).run(x, w, b)


def _data(spec: Spec, dy: Tensor, w: Tensor, size: Sequence[int]) -> Tensor:
    size = tuple(size)
    return call_of(spec, BACKWARD_DATA, dy, w, size, gradient_last(dy, w)).run(dy, w, size)


def _weights(spec: Spec, x: Tensor, dy: Tensor, size: Sequence[int]) -> Tensor:
    size = tuple(size)
    return call_of(spec, BACKWARD_WEIGHTS, x, dy, size, gradient_last(x, dy)).run(x, dy, size)


def _elsewhere(spec: Spec, x: Tensor, w: Tensor, b: Tensor | None) -> Tensor:
    # what aten.convolution leaves to those who call it: this check, and complex numbers
    torch._check(
        b is None or b.dtype is x.dtype,
        lambda: (
            f"{spec.kind}: input of {x.dtype} and bias of {b.dtype if b is not None else None} are not of one dtype"
        ),
    )
    axes = len(spec.stride)
    if not x.is_complex() or x.ndim != axes + 2 or axes not in (1, 2, 3):
        return torch.ops.aten.convolution(x, w, b, *spec)
    stride, padding, dilation, _, output_padding, groups = spec
    if spec.transposed:
        return getattr(torch, f"conv_transpose{axes}d")(x, w, b, stride, padding, output_padding, groups, dilation)
    return getattr(torch, f"conv{axes}d")(x, w, b, stride, padding, dilation, groups)


def _data_elsewhere(spec: Spec, dy: Tensor, w: Tensor, size: Sequence[int]) -> Tensor:
    check_gradient(spec, size, w.shape, dy.shape)
    x = dy.new_empty(size)
    dx = torch.ops.aten.convolution_backward(dy, x, w, None, *spec, [True, False, False])[0]
    return laid(dx, gradient_last(dy, w))


def _weights_elsewhere(spec: Spec, x: Tensor, dy: Tensor, size: Sequence[int]) -> Tensor:
    check_gradient(spec, x.shape, size, dy.shape)
    w = x.new_empty(size)
    dw = torch.ops.aten.convolution_backward(dy, x, w, None, *spec, [False, True, False])[1]
    return laid(dw, gradient_last(x, dy))


# -- what they look like ----------------------------------------------------------------------------------------


def _fake_data(spec: Spec, dy: Tensor, w: Tensor, size: Sequence[Any]) -> Tensor:
    check_gradient(spec, size, w.shape, dy.shape)
    return laid(dy.new_empty(size), gradient_last(dy, w, _looks_last))


def _fake_weights(spec: Spec, x: Tensor, dy: Tensor, size: Sequence[Any]) -> Tensor:
    check_gradient(spec, x.shape, size, dy.shape)
    return laid(x.new_empty(size), gradient_last(x, dy, _looks_last))


def _looks_last(t: Tensor) -> bool:
    """As `is_last`, of sizes and strides that may be symbolic."""
    return bool(suggest_memory_format(t.unsqueeze(2) if t.ndim == 3 else t) is not torch.contiguous_format)


# -- derivatives ------------------------------------------------------------------------------------------------


def forward_gradients(
    spec: Spec,
    x: Any,
    w: Any,
    dy: Tensor,
    src: Sequence[int],
    weights: Sequence[int],
    last: bool,
    needs: Sequence[bool],
) -> list[Any]:
    """Of input, weights and bias; the first two lie as the result does, `last` or not, whatever dy lies like."""
    return [
        laid(call("_backward_data", spec, dy, w, src), last) if needs[0] else None,
        laid(call("_backward_weights", spec, x, dy, weights), last) if needs[1] else None,
        bias_gradient(dy) if needs[2] else None,
    ]


def _forward_gradients(spec: Spec, x: Tensor, w: Tensor, dy: Tensor, last: bool, needs: Sequence[bool]) -> list[Any]:
    return forward_gradients(spec, x, w, dy, x.shape, w.shape, last, needs)


def _data_gradients(spec: Spec, dy: Tensor, w: Tensor, ddx: Tensor, _: bool, needs: Sequence[bool]) -> list[Any]:
    return [
        call("", spec, ddx, w, None) if needs[0] else None,
        call("_backward_weights", spec, ddx, dy, w.shape) if needs[1] else None,
        None,
    ]


def _weights_gradients(spec: Spec, x: Tensor, dy: Tensor, ddw: Tensor, _: bool, needs: Sequence[bool]) -> list[Any]:
    return [
        call("_backward_data", spec, dy, ddw, x.shape) if needs[0] else None,
        call("", spec, x, ddw, None) if needs[1] else None,
        None,
    ]


def _has_tangent(*values: Any) -> bool:
    if forward_ad._current_level < 0:
        return False
    return any(isinstance(v, Tensor) and forward_ad.unpack_dual(v).tangent is not None for v in values)


# -- vmap -------------------------------------------------------------------------------------------------------


_Mapped: TypeAlias = tuple[Tensor, int]  # a result, and which of its axes is the mapped one


def _in_front(tensor: Tensor, dim: int | None, size: int) -> Tensor:
    """With the mapped axis first, repeated where it is not mapped."""
    return tensor.expand(size, *tensor.shape) if dim is None else tensor.movedim(dim, 0)


def _in_batch(tensor: Tensor, dim: int) -> Tensor:
    return tensor.movedim(dim, 0).flatten(0, 1)


def _in_channels(tensor: Tensor, dim: int | None, size: int) -> Tensor:
    """(N, size * C, ...) of an activation."""
    return _in_front(tensor, dim, size).movedim(0, 1).flatten(1, 2)


def _in_rows(tensor: Tensor, dim: int | None, size: int) -> Tensor:
    """(size * O, I, ...) of weights, or of a bias: their first axis has the groups."""
    return _in_front(tensor, dim, size).flatten(0, 1)


def _out_of_channels(tensor: Tensor, size: int) -> _Mapped:
    return tensor.unflatten(1, (size, tensor.shape[1] // size)), 1


def _out_of_rows(tensor: Tensor, size: int) -> _Mapped:
    return tensor.unflatten(0, (size, tensor.shape[0] // size)), 0


def _map_forward(size: int, dims: Sequence[Any], spec: Spec, x: Tensor, w: Tensor, b: Tensor | None) -> _Mapped:
    if dims[1] is None and dims[2] is None:
        return _out_of_rows(call("", spec, _in_batch(x, dims[0]), w, b), size)
    wide = None if b is None else _in_rows(b, dims[2], size)
    out = call("", spec.repeated(size), _in_channels(x, dims[0], size), _in_rows(w, dims[1], size), wide)
    return _out_of_channels(out, size)


def _map_data(size: int, dims: Sequence[Any], spec: Spec, dy: Tensor, w: Tensor, src: Sequence[int]) -> _Mapped:
    if dims[1] is None:
        out = call("_backward_data", spec, _in_batch(dy, dims[0]), w, [size * src[0], *src[1:]])
        return _out_of_rows(out, size)
    wide = [src[0], size * src[1], *src[2:]]
    out = call("_backward_data", spec.repeated(size), _in_channels(dy, dims[0], size), _in_rows(w, dims[1], size), wide)
    return _out_of_channels(out, size)


def _map_weights(size: int, dims: Sequence[Any], spec: Spec, x: Tensor, dy: Tensor, shape: Sequence[int]) -> _Mapped:
    wide = [size * shape[0], *shape[1:]]
    given = _in_channels(x, dims[0], size), _in_channels(dy, dims[1], size)
    return _out_of_rows(call("_backward_weights", spec.repeated(size), *given, wide), size)


# -- registration -----------------------------------------------------------------------------------------------

_Rule = Callable[..., Any]
# on the CPU, elsewhere, of fake tensors, gradients, under vmap
_RULES: dict[str, tuple[_Rule, _Rule, _Rule, _Rule, _Rule]] = {
    "": (_forward, _elsewhere, _elsewhere, _forward_gradients, _map_forward),
    "_backward_data": (_data, _data_elsewhere, _fake_data, _data_gradients, _map_data),
    "_backward_weights": (_weights, _weights_elsewhere, _fake_weights, _weights_gradients, _map_weights),
}


def _autograd(direction: str, gradients: _Rule, theirs: _Rule) -> _Rule:
    """The kernel that records: what PyTorch makes of a formula, and its own op where derivatives go forwards."""

    class Recorded(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, spec: Spec, a: Tensor, b: Tensor, third: Any, result: list[Tensor]) -> Tensor:
            ctx.save_for_backward(a, b)
            out = result.pop()
            ctx.spec, ctx.last = spec, _looks_last(out)
            return out

        @staticmethod
        def backward(ctx: Any, grad: Tensor) -> Any:
            a, b = ctx.saved_tensors
            # derivatives have the dtypes of what they are derivatives of
            with torch.autocast("cpu", enabled=False) if torch.is_autocast_enabled("cpu") else nullcontext():
                return None, *gradients(ctx.spec, a, b, grad, ctx.last, ctx.needs_input_grad[1:4]), None

    # Function's own would start another round of torch.func's transforms, inside which this kernel runs
    record = super(torch.autograd.Function, Recorded).apply

    def kernel(spec: Spec, a: Tensor, b: Tensor, third: Any) -> Tensor:
        if _has_tangent(a, b, third) or (direction == "" and a.is_complex()):
            return theirs(spec, a, b, third)
        with torch._C._AutoDispatchBelowAutograd():
            out = call(direction, spec, a, b, third)
        if torch.is_grad_enabled() and any(isinstance(t, Tensor) and t.requires_grad for t in (a, b, third)):
            # computed before: Function stops recording, for the transforms further out too
            with enable_single_level_autograd_function():
                return record(spec, a, b, third, [out])
        return out

    return kernel


def _autocast(spec: Spec, x: Tensor, w: Tensor, b: Tensor | None) -> Tensor:
    """The forward direction alone, as PyTorch has it."""
    dtype = torch.get_autocast_dtype("cpu")

    def cast(value: Any) -> Any:
        narrow = isinstance(value, Tensor) and value.is_floating_point() and value.dtype is not torch.float64
        return value.to(dtype) if narrow and value.device.type == "cpu" else value

    with torch._C._ExcludeDispatchKeyGuard(torch._C.DispatchKeySet(torch._C.DispatchKey.AutocastCPU)):
        return call("", spec, cast(x), cast(w), cast(b))


def _taking_arguments(transposed: bool, rule: _Rule) -> _Rule:
    """A rule on a Spec as a kernel on the op's arguments."""

    def kernel(
        a: Tensor, b: Tensor, third: Any, stride: Any, padding: Any, dilation: Any, output_padding: Any, groups: int
    ) -> Tensor:
        return rule(make_spec(transposed, a.ndim - 2, stride, padding, dilation, output_padding, groups), a, b, third)

    return kernel


def _register(kind: str, transposed: bool, direction: str) -> None:
    computed, elsewhere, fake, gradients, mapped = _RULES[direction]
    name = kind + direction
    library.define(name + _SCHEMAS[direction], tags=(torch.Tag.pt2_compliant_tag,))
    for key, rule in (
        ("CPU", computed),
        ("CompositeExplicitAutograd", elsewhere),
        ("Autograd", _autograd(direction, gradients, elsewhere)),
        ("AutocastCPU", _autocast if direction == "" else None),
    ):
        library.impl(name, _taking_arguments(transposed, rule) if rule else torch.library.fallthrough_kernel, key)
    torch.library.register_fake(f"{NAMESPACE}::{name}", _taking_arguments(transposed, fake), lib=library)

    def map_rule(info: Any, dims: Any, a: Any, b: Any, third: Any, *arguments: Any) -> Any:
        spec = make_spec(transposed, len(arguments[0]), *arguments)
        if info.batch_size == 0:
            # none of what one of zeros gives
            one = [
                v.sum(d) if isinstance(v, Tensor) and d is not None else v
                for v, d in zip((a, b, third), dims[:3], strict=True)
            ]
            return call(direction, spec, *one).unsqueeze(0)[:0], 0
        return mapped(info.batch_size, dims, spec, a, b, third)

    torch.library.register_vmap(f"{NAMESPACE}::{name}", map_rule, lib=library)


for _kind, _transposed in KINDS.items():
    for _direction in _SCHEMAS:
        _register(_kind, _transposed, _direction)
