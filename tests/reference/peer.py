"""The family by PyTorch: three directions, asymmetric pads and any output padding."""

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


class Truth(NamedTuple):
    """Results in NCX and IOX."""

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
