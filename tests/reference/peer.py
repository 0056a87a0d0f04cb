"""Both families by PyTorch: three directions, asymmetric pads, auto_pad and any output padding."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch

from . import conv_transpose as ct

_CONV_TRANSPOSE = {
    1: torch.nn.functional.conv_transpose1d,
    2: torch.nn.functional.conv_transpose2d,
    3: torch.nn.functional.conv_transpose3d,
}
_CONVOLUTION = {
    1: torch.nn.functional.conv1d,
    2: torch.nn.functional.conv2d,
    3: torch.nn.functional.conv3d,
}


class Truth(NamedTuple):
    """Results in NCX and PyTorch's order of weights: IOX, OIX of ordinary convolutions."""

    dst: np.ndarray
    diff_src: np.ndarray
    diff_weights: np.ndarray
    diff_bias: np.ndarray


def _fitted(full: torch.Tensor, s: ct.Setting) -> torch.Tensor:
    """Pads cut from the output of an unpadded op, output padding added as zeros."""
    width: list[int] = []
    for pb, pe, op in zip(s.pads_begin, s.pads_end, s.output_padding, strict=True):
        width = [-pb, op - pe, *width]
    return torch.nn.functional.pad(full, width)


def run(
    src: np.ndarray,
    weights: np.ndarray,
    bias: np.ndarray | None,
    diff_dst: np.ndarray,
    *,
    dtype: torch.dtype = torch.float64,
    **attributes: int | str | Sequence[int],
) -> Truth:
    """`src`, `diff_dst` in NCX, `weights` in IOX; computed in `dtype`."""
    s = ct.setting(weights.shape[2:], **attributes)
    x, w = (torch.tensor(a.astype(np.float32)).to(dtype).requires_grad_() for a in (src, weights))
    full = _CONV_TRANSPOSE[src.ndim - 2](x, w, stride=s.strides, dilation=s.dilations, groups=s.groups)
    dst = _fitted(full, s)
    diff = torch.tensor(diff_dst.astype(np.float32)).to(dtype)
    dst.backward(diff)
    if bias is not None:
        shaped = torch.tensor(bias.astype(np.float32)).to(dtype).reshape(-1, *(1,) * len(s.strides))
        dst = dst + shaped
    diff_bias = diff.sum(dim=[0, *range(2, diff.ndim)])
    return Truth(*(t.detach().numpy() for t in (dst, x.grad, w.grad, diff_bias)))


def _pads(sizes: Sequence[int], kernel: Sequence[int], s: ct.Setting, auto_pad: str) -> list[tuple[int, int]]:
    """Of an ordinary convolution, whose SAME_* makes dst = ceil(src / stride)."""
    if not auto_pad.upper().startswith("SAME"):
        return list(zip(s.pads_begin, s.pads_end, strict=True))
    reach = ct.extents(kernel, s.dilations)
    needed = [(-(-i // st) - 1) * st + r - i for i, r, st in zip(sizes, reach, s.strides, strict=True)]
    return [ct.same_pads(total, auto_pad.upper() == "SAME_LOWER") for total in needed]


def convolution(
    src: np.ndarray,
    weights: np.ndarray,
    bias: np.ndarray | None,
    diff_dst: np.ndarray,
    *,
    auto_pad: str = "none",
    **attributes: int | str | Sequence[int],
) -> Truth:
    """`src`, `diff_dst` in NCX, `weights` in OIX; computed in float64."""
    valid = {"auto_pad": "valid"} if auto_pad.upper() == "VALID" else {}
    s = ct.setting(weights.shape[2:], **attributes, **valid)
    x, w, b, diff = (
        None if a is None else torch.tensor(a.astype(np.float64), requires_grad=True)
        for a in (src, weights, bias, diff_dst)
    )
    width = [pad for pair in reversed(_pads(src.shape[2:], weights.shape[2:], s, auto_pad)) for pad in pair]
    padded = torch.nn.functional.pad(x, width)
    dst = _CONVOLUTION[src.ndim - 2](padded, w, b, stride=s.strides, dilation=s.dilations, groups=s.groups)
    dst.backward(diff)
    diff_bias = diff.sum(dim=[0, *range(2, diff.ndim)])
    return Truth(*(t.detach().numpy() for t in (dst, x.grad, w.grad, diff_bias)))
