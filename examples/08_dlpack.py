"""Tensors and arrays over one memory: a compiled graph of this package on PyTorch's tensors, by DLPack.

Tensors are handed over without a copy, in both directions, and results are written into tensors that PyTorch made: a
net called as a step of a PyTorch program. Models of torch.nn, and training, have it simpler: 10_torch_one_line.py.
"""

from __future__ import annotations

import argparse
import sys

import numpy as np

import dnnl_graph_ops as dgo

try:
    import torch
    from torch.nn import functional as F
except ImportError as error:
    print(f"nothing to show: {error} (pip install torch)")
    sys.exit(0)

TOLERANCE = 1e-5
DOUBLE = {"strides": 2, "pads_begin": 1, "pads_end": 1, "data_format": "NCX", "weights_format": "IOX"}


def shared(tensor: torch.Tensor) -> np.ndarray:
    """An array over the tensor's memory; copy=False refuses where that cannot be."""
    return dgo.from_dlpack(tensor.detach(), copy=False)


def main() -> int:
    argparse.ArgumentParser(description=__doc__).parse_args()
    torch.manual_seed(0)
    x, w, b = torch.randn(1, 16, 20, 20), torch.randn(16, 8, 4, 4), torch.randn(8)

    there = shared(x).ctypes.data == x.data_ptr()
    array = np.ones(4, np.float32)
    back = torch.from_dlpack(dgo.to_dlpack(array)).data_ptr() == array.ctypes.data
    print(f"one memory: tensors as arrays {'yes' if there else 'NO'}, arrays as tensors {'yes' if back else 'NO'}")

    # a net, its weights packed once; functions take tensors too
    graph = dgo.Graph()
    up = dgo.ops.conv_transpose(graph.input("x", tuple(x.shape)), graph.constant(w), graph.constant(b), **DOUBLE)
    net = graph.compile(dgo.ops.relu(up))
    y = torch.empty(1, 8, 40, 40)
    net(x, out=shared(y))
    theirs = F.relu(F.conv_transpose2d(x, w, b, stride=2, padding=1))
    worst = float((y - theirs).abs().max())
    print(f"a net of ConvTranspose and ReLU, from tensor to tensor: largest difference to PyTorch {worst:.1e}")

    dw = torch.empty_like(w)
    dgo.conv_transpose_backward_weights(x, y, tuple(w.shape), out=shared(dw), **DOUBLE)
    parameter = w.clone().requires_grad_()
    F.conv_transpose2d(x, parameter, stride=2, padding=1).backward(y)
    gradient = float((dw - parameter.grad).abs().max() / parameter.grad.abs().max())
    print(f"a gradient of weights, written into a tensor: largest difference, relative {gradient:.1e}")
    return 0 if there and back and max(worst / float(theirs.max()), gradient) < TOLERANCE else 1


if __name__ == "__main__":
    sys.exit(main())
