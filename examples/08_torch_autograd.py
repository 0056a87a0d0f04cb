"""ConvTranspose inside PyTorch: the family under torch.autograd.Function, on the tensors' own memory.

DLPack hands tensors over without a copy, in both directions; results are written into tensors that PyTorch made.
gradcheck compares the gradients with differences of the forward, in float32.
"""

from __future__ import annotations

import importlib.util
import sys
import warnings
from typing import Any

import numpy as np

import dnnl_graph_ops as dgo

SHAPE, OUT_CHANNELS, KERNEL = (1, 2, 3, 3), 2, 3  # N, C, H, W
OPTIONS = {
    "strides": 2,
    "pads_begin": 1,
    "pads_end": 1,
    "output_padding": 1,
    "data_format": "NCX",
    "weights_format": "IOX",
}
# the forward is linear in each argument: a wide step costs no accuracy and keeps rounding small
STEP, TOLERANCE = 0.5, 1e-3


def conv_transpose_function() -> Any:
    """A torch.autograd.Function; made here so that the module can be read without PyTorch."""
    import torch

    def given(tensor: torch.Tensor) -> np.ndarray:
        return dgo.from_dlpack(tensor.detach(), copy=False)

    class ConvTranspose(torch.autograd.Function):
        """y = conv_transpose(x, w, b) with all three gradients."""

        @staticmethod
        def forward(ctx: Any, x: torch.Tensor, w: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
            ctx.save_for_backward(x, w)
            y = x.new_empty(dgo.conv_transpose_output_shape(x.shape, w.shape, **OPTIONS))
            dgo.conv_transpose(given(x), given(w), given(b), out=given(y), **OPTIONS)
            return y

        @staticmethod
        def backward(ctx: Any, dy: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
            x, w = ctx.saved_tensors
            dx, dw, db = torch.empty_like(x), torch.empty_like(w), dy.new_empty(dy.shape[1])
            src_shape, weights_shape = tuple(x.shape), tuple(w.shape)
            dgo.conv_transpose_backward_data(given(dy), given(w), src_shape=src_shape, out=given(dx), **OPTIONS)
            dgo.conv_transpose_backward_weights(given(x), given(dy), weights_shape, out=given(dw), **OPTIONS)
            dgo.conv_transpose_backward_bias(given(dy), data_format="NCX", out=given(db))
            return dx, dw, db

    return ConvTranspose


def main() -> int:
    if importlib.util.find_spec("torch") is None:
        print("PyTorch is not installed: nothing to show (pip install torch)")
        return 0
    import torch

    torch.manual_seed(0)
    x, w, b = (
        torch.randn(shape, requires_grad=True)
        for shape in (SHAPE, (SHAPE[1], OUT_CHANNELS, KERNEL, KERNEL), (OUT_CHANNELS,))
    )
    function = conv_transpose_function()
    shared = dgo.from_dlpack(x.detach(), copy=False).ctypes.data == x.data_ptr()
    back = torch.from_dlpack(dgo.to_dlpack(array := np.ones(4, np.float32))).data_ptr() == array.ctypes.data
    print(f"tensors in and out share memory: {'yes' if shared and back else 'NO'}")

    y = function.apply(x, w, b)
    theirs = torch.nn.functional.conv_transpose2d(x, w, b, stride=2, padding=1, output_padding=1)
    worst = float((y - theirs).detach().abs().max())
    print(f"largest difference to torch.nn.functional.conv_transpose2d: {worst:.1e}")

    # it would rather have float64; the step above is what makes float32 enough
    warnings.filterwarnings("ignore", message=".*not a double precision", category=UserWarning)
    exact = torch.autograd.gradcheck(
        function.apply, (x, w, b), eps=STEP, atol=TOLERANCE, rtol=TOLERANCE, nondet_tol=1e-5, raise_exception=False
    )
    print(f"gradcheck in float32: {'passed' if exact else 'FAILED'}")
    return 0 if shared and back and worst < TOLERANCE and exact else 1


if __name__ == "__main__":
    sys.exit(main())
