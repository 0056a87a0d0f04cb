"""Convolutions between constants, all extents equal: drawn once, as a module and as ONNX nodes."""

import numpy as np
import torch
from onnx import helper
from reference.data import EXTENTS, constant_beside, integers
from torch import nn
from torch.nn import functional as F

from .models import model

BINARY = {
    "Add": torch.add, "Sub": torch.sub, "Mul": torch.mul, "Div": torch.div, "Max": torch.maximum, "Min": torch.minimum,
}  # fmt: skip


def drawn(rng):
    """The shape of the input, and steps: an op of ONNX, its arrays, its attributes, whether the value comes first."""
    extent, rank = int(rng.choice(EXTENTS)), int(rng.integers(1, 4))
    shape = (extent,) * (rank + 2)
    steps = surrounding(rng, shape)
    for _ in range(int(rng.integers(1, 3))):
        kernel = [int(rng.choice([1, 3])) for _ in range(rank)]
        group = int(rng.choice([1, extent]))
        arrays = [integers(rng, (extent, extent // group, *kernel), limit=1)]
        if rng.random() < 0.5:
            arrays.append(integers(rng, (extent,), limit=2))
        attributes = {"pads": [k // 2 for k in kernel] * 2, "group": group}
        steps.append((str(rng.choice(["Conv", "ConvTranspose"])), arrays, attributes, True))
        steps += surrounding(rng, shape)
    return shape, steps


def surrounding(rng, shape):
    """Up to three steps that each read a constant, or ReLU, or a batch norm."""
    steps = []
    for _ in range(int(rng.integers(0, 4))):
        name = str(rng.choice([*BINARY, "Relu", "BatchNormalization"]))
        if name in BINARY:
            steps.append((name, [constant_beside(rng, shape)], {}, name == "Div" or bool(rng.random() < 0.5)))
        elif name == "Relu":
            steps.append((name, [], {}, True))
        else:
            arrays = [integers(rng, shape[1:2], limit=2) for _ in range(3)]
            arrays.append(np.full(shape[1], 0.25, np.float32))
            steps.append((name, arrays, {"epsilon": 0.0}, True))
    return steps


class Steps(nn.Module):
    """The steps as PyTorch has them; its float64 is the truth."""

    def __init__(self, steps):
        super().__init__()
        self.steps = [(name, len(arrays), attributes, first) for name, arrays, attributes, first in steps]
        tensors = [torch.from_numpy(np.array(array)) for _, arrays, _, _ in steps for array in arrays]
        self.arrays = nn.ParameterList(nn.Parameter(one, requires_grad=False) for one in tensors)

    def forward(self, x):
        rest = iter(self.arrays)
        for name, count, attributes, first in self.steps:
            arrays = [next(rest) for _ in range(count)]
            if name in BINARY:
                x = BINARY[name](x, arrays[0]) if first else BINARY[name](arrays[0], x)
            elif name == "Relu":
                x = torch.relu(x)
            elif name == "BatchNormalization":
                gamma, beta, mean, variance = arrays
                x = F.batch_norm(x, mean, variance, gamma, beta, eps=0.0)
            else:
                kind = f"conv{'_transpose' * (name == 'ConvTranspose')}{x.ndim - 2}d"
                padding = attributes["pads"][: x.ndim - 2]
                x = getattr(F, kind)(x, *arrays, padding=padding, groups=attributes["group"])
        return x


def as_onnx(shape, steps):
    nodes, constants, value = [], {}, "x"
    for i, (name, arrays, attributes, first) in enumerate(steps):
        known = {f"c{i}_{j}": array for j, array in enumerate(arrays)}
        operands = [value, *known] if first else [*known, value]
        value = f"v{i}"
        nodes.append(helper.make_node(name, operands, [value], **attributes))
        constants |= known
    return model(nodes, {"x": shape}, [value], constants)
