"""Convolutions that the tests of the custom ops share, as a table, and who is made to compute them."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple
from unittest import mock

import torch

from dnnl_graph_ops.torch.choice.verdicts import Verdict
from dnnl_graph_ops.torch.layers import compute

from .common import integers

DIRECTIONS = ("", "_backward_data", "_backward_weights")
KINDS = {"convolution": False, "conv_transpose": True}


@contextmanager
def computed_by(ours: bool) -> Iterator[None]:
    """One of the two computes whatever it can, however long it takes. What only PyTorch can stays with it."""

    def verdict(key, mine, other):
        return Verdict(ours)

    compute.calls.clear()
    with mock.patch.object(compute, "verdict", verdict):
        yield
    compute.calls.clear()


@contextmanager
def ours_alone() -> Iterator[None]:
    """Our engine computes; where it does not, the test fails."""

    def theirs(*args):
        raise AssertionError("PyTorch was asked to compute")

    with (
        computed_by(True),
        mock.patch.object(compute, "their_forward", theirs),
        mock.patch.object(compute, "their_gradients", theirs),
    ):
        yield


def laid(tensor: torch.Tensor, layout: str) -> torch.Tensor:
    """The same numbers in other memory."""
    n = tensor.ndim
    if layout == "last":
        return tensor.movedim(1, -1).contiguous().movedim(-1, 1)
    if layout == "reversed":
        return tensor.permute(*range(n - 1, -1, -1)).contiguous().permute(*range(n - 1, -1, -1))
    if layout == "sliced":
        wide = torch.full([2 * size + 1 for size in tensor.shape], float("nan"), dtype=tensor.dtype)
        view = wide[tuple(slice(1, None, 2) for _ in tensor.shape)]
        return view.copy_(tensor)
    if layout == "expanded":
        return tensor[:1, :, ..., :1].expand(tensor.shape)
    assert layout == "first"
    return tensor.contiguous()


class Case(NamedTuple):
    """Weights are (O, I / groups, k...) of a convolution, and (I, O / groups, k...) of a transposed one."""

    x: tuple[int, ...]
    w: tuple[int, ...]
    stride: tuple[int, ...] = (1,)
    padding: tuple[int, ...] = (0,)
    dilation: tuple[int, ...] = (1,)
    output_padding: tuple[int, ...] = (0,)
    groups: int = 1
    transposed: bool = False
    bias: bool = True
    dtype: torch.dtype = torch.float32
    x_layout: str = "first"
    w_layout: str = "first"

    @property
    def arguments(self):
        return self.stride, self.padding, self.dilation, self.output_padding, self.groups

    @property
    def aten(self):
        return self.stride, self.padding, self.dilation, self.transposed, self.output_padding, self.groups

    @property
    def kind(self):
        return "conv_transpose" if self.transposed else "convolution"

    def op(self, direction: str = ""):
        return getattr(torch.ops.dnnl_graph_ops, self.kind + direction).default

    def ours(self, x, w, b=None):
        return self.op()(x, w, b, *self.arguments)

    def theirs(self, x, w, b=None):
        """By the function that PyTorch's users call: it casts, and takes complex numbers."""
        axes = len(self.x) - 2
        if self.transposed:
            beyond = self.output_padding, self.groups, self.dilation
            return getattr(torch, f"conv_transpose{axes}d")(x, w, b, self.stride, self.padding, *beyond)
        return getattr(torch, f"conv{axes}d")(x, w, b, self.stride, self.padding, self.dilation, self.groups)

    def tensors(self, requires_grad: bool = False):
        """x, w and the bias, of small integers."""
        x = laid(integers(*self.x).to(self.dtype), self.x_layout)
        w = laid(integers(*self.w).to(self.dtype), self.w_layout)
        made = self.w[1] * self.groups if self.transposed else self.w[0]
        b = integers(made).to(self.dtype) if self.bias else None
        return tuple(t if t is None else t.detach().requires_grad_(requires_grad) for t in (x, w, b))

    def grad_output(self, requires_grad: bool = False):
        """As the result lies, of small integers."""
        x, w, b = self.tensors()
        out = torch.ops.aten.convolution(x, w, b, *self.aten)
        return torch.empty_like(out).copy_(integers(*out.shape)).requires_grad_(requires_grad)

    def operands(self, direction: str, requires_grad: bool = False):
        """What the op of a direction takes before the arguments."""
        x, w, b = self.tensors(requires_grad)
        if not direction:
            return x, w, b
        dy = self.grad_output(requires_grad)
        return (dy, w, list(self.x)) if direction == "_backward_data" else (x, dy, list(self.w))


BF16, F16, F64 = torch.bfloat16, torch.float16, torch.float64

CASES = {
    "1d": Case((2, 3, 9), (4, 3, 3), (2,), (1,)),
    "1d last": Case((2, 3, 9), (4, 3, 3), bias=False, x_layout="last"),
    "1d last, weights too": Case((2, 4, 9), (4, 2, 3), groups=2, x_layout="last", w_layout="last"),
    "1d bf16": Case((1, 4, 8), (6, 4, 3), dilation=(2,), padding=(2,), dtype=BF16),
    "2d": Case((2, 3, 6, 7), (4, 3, 3, 2), (2, 1), (1, 0)),
    "2d last": Case((2, 4, 6, 5), (6, 4, 3, 3), padding=(1, 1), x_layout="last"),
    "2d last, one image": Case((1, 4, 6, 5), (6, 4, 3, 3), padding=(1, 1), bias=False, x_layout="last"),
    "2d, weights last": Case((2, 4, 6, 5), (6, 4, 3, 3), dilation=(2, 1), w_layout="last"),
    "2d groups": Case((2, 6, 5, 5), (4, 3, 3, 3), groups=2, bias=False),
    "2d depthwise": Case((2, 4, 6, 6), (4, 1, 3, 3), (2, 2), (1, 1), groups=4, x_layout="last"),
    "2d one channel": Case((2, 1, 6, 5), (1, 1, 3, 3), x_layout="last"),
    "2d one pixel": Case((2, 4, 1, 1), (4, 4, 1, 1), x_layout="last"),
    "2d all ones": Case((1, 1, 1, 1), (1, 1, 1, 1)),
    "2d reversed": Case((2, 3, 5, 6), (4, 3, 2, 2), x_layout="reversed", w_layout="reversed"),
    "2d expanded": Case((2, 3, 5, 6), (4, 3, 2, 2), x_layout="expanded"),
    "2d sliced": Case((2, 3, 5, 6), (4, 3, 2, 2), x_layout="sliced", w_layout="sliced"),
    "2d f16": Case((2, 4, 5, 6), (4, 4, 3, 3), dtype=F16, x_layout="last", w_layout="last"),
    "2d f64": Case((2, 4, 5, 6), (4, 4, 3, 3), dtype=F64, x_layout="last"),
    "3d": Case((2, 2, 4, 5, 4), (4, 2, 2, 3, 2), (1, 2, 1), (0, 1, 1)),
    "3d last": Case((1, 2, 4, 5, 4), (4, 2, 2, 3, 2), bias=False, x_layout="last"),
    "3d last, bf16": Case((2, 2, 4, 5, 4), (4, 1, 1, 1, 1), groups=2, x_layout="last", dtype=BF16),
    "t 1d": Case((2, 3, 5), (3, 4, 4), (2,), (1,), transposed=True),
    "t 1d last": Case((2, 3, 5), (3, 4, 4), (2,), (1,), (1,), (1,), transposed=True, x_layout="last", bias=False),
    "t 2d": Case((2, 3, 4, 3), (3, 4, 3, 3), (2, 2), (1, 1), (1, 1), (1, 0), transposed=True),
    "t 2d last": Case((2, 4, 4, 3), (4, 4, 4, 4), (2, 2), (1, 1), transposed=True, x_layout="last"),
    "t 2d groups": Case((2, 4, 4, 3), (4, 3, 2, 3), (2, 1), dilation=(1, 2), groups=2, transposed=True, bias=False),
    "t 2d depthwise": Case((1, 4, 4, 3), (4, 1, 3, 3), (2, 2), groups=4, transposed=True, x_layout="last"),
    "t 2d one channel": Case((1, 1, 4, 3), (1, 1, 2, 2), (2, 2), transposed=True, x_layout="last"),
    "t 2d expanded": Case((2, 2, 4, 3), (2, 3, 2, 2), (2, 2), transposed=True, x_layout="expanded", w_layout="last"),
    "t 2d bf16": Case((2, 4, 4, 3), (4, 2, 2, 2), (2, 2), transposed=True, dtype=BF16, w_layout="reversed"),
    "t 2d f16": Case((2, 4, 4, 3), (4, 2, 2, 2), (2, 2), transposed=True, dtype=F16, x_layout="last"),
    "t 3d": Case((1, 2, 3, 2, 3), (2, 2, 2, 2, 3), (2, 2, 2), transposed=True),
    "t 3d last": Case((2, 2, 3, 2, 3), (2, 2, 2, 2, 3), (2, 1, 2), transposed=True, x_layout="last"),
}
