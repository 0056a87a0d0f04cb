"""Small ONNX models: exported by PyTorch, or put together node by node."""

import io

import numpy as np
import onnx
import torch
from onnx import TensorProto, helper, numpy_helper
from torch import nn

OPSET = 18


def _block(inside: int, outside: int) -> nn.Sequential:
    return nn.Sequential(
        nn.Conv2d(inside, outside, 3, padding=1), nn.BatchNorm2d(outside), nn.ReLU(),
        nn.Conv2d(outside, outside, 3, padding=1), nn.BatchNorm2d(outside), nn.ReLU(),
    )  # fmt: skip


class UNet(nn.Module):
    """Two levels with skip connections; once up by ConvTranspose, once by Upsample."""

    def __init__(self) -> None:
        super().__init__()
        self.down = nn.ModuleList([_block(3, 8), _block(8, 16)])
        self.middle = _block(16, 24)
        self.pool = nn.MaxPool2d(2)
        self.up = nn.ModuleList([nn.ConvTranspose2d(24, 16, 2, stride=2), nn.Upsample(scale_factor=2)])
        self.join = nn.ModuleList([_block(32, 16), _block(24, 8)])
        self.last = nn.Conv2d(8, 2, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        kept = []
        for block in self.down:
            x = block(x)
            kept.append(x)
            x = self.pool(x)
        x = self.middle(x)
        for up, join in zip(self.up, self.join, strict=True):
            x = join(torch.cat([up(x), kept.pop()], 1))
        return torch.sigmoid(self.last(x))


def dcgan_generator() -> nn.Sequential:
    """Noise of 20 numbers to a picture of 32 x 32, as DCGAN (arXiv 1511.06434) with few channels."""
    layers = []
    for inside, outside, stride, pad in ((20, 32, 1, 0), (32, 16, 2, 1), (16, 8, 2, 1)):
        layers += [nn.ConvTranspose2d(inside, outside, 4, stride, pad, bias=False)]
        layers += [nn.BatchNorm2d(outside), nn.ReLU()]
    return nn.Sequential(*layers, nn.ConvTranspose2d(8, 3, 4, 2, 1, bias=False), nn.Tanh())


def exported(module: nn.Module, *shape: int, fold: bool = False) -> tuple[bytes, np.ndarray]:
    """The module in inference form with statistics that are not 0 and 1, and an input for it."""
    torch.manual_seed(0)
    for layer in module.modules():
        if isinstance(layer, nn.BatchNorm2d):
            nn.init.uniform_(layer.running_mean, -0.5, 0.5)
            nn.init.uniform_(layer.running_var, 0.5, 1.5)
            nn.init.uniform_(layer.weight, 0.5, 1.5)
    x = torch.randn(*shape)
    file = io.BytesIO()
    torch.onnx.export(module.eval(), (x,), file, opset_version=OPSET, dynamo=False, do_constant_folding=fold)
    return file.getvalue(), x.numpy()


def model(nodes, inputs, outputs, initializers=(), opset=OPSET, value_types=TensorProto.FLOAT):
    """A model of nodes; `inputs` is {name: shape}, `initializers` {name: array}."""
    graph = helper.make_graph(
        list(nodes),
        "test",
        [helper.make_tensor_value_info(name, value_types, shape) for name, shape in inputs.items()],
        [helper.make_tensor_value_info(name, value_types, None) for name in outputs],
        [numpy_helper.from_array(array, name) for name, array in dict(initializers).items()],
    )
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)])
    made.ir_version = 9
    return made


def single(op_type, *arrays, known=(), opset=OPSET, **attrs):
    """A model of one node; the inputs at the positions in `known` are initializers."""
    names = [f"x{i}" if array is not None else "" for i, array in enumerate(arrays)]
    node = helper.make_node(op_type, names, ["y"], **attrs)
    given = {n: a for i, (n, a) in enumerate(zip(names, arrays, strict=True)) if n and i not in known}
    constants = {n: a for i, (n, a) in enumerate(zip(names, arrays, strict=True)) if n and i in known}
    return model([node], {name: array.shape for name, array in given.items()}, ["y"], constants, opset), given


def reference(proto, inputs, literal=False):
    """The outputs by ONNX Runtime; literal: op by op, as its sums of 8 bits saturate on CPUs without VNNI."""
    import onnxruntime

    content = proto if isinstance(proto, bytes) else proto.SerializeToString()
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    if literal:
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(content, options, providers=["CPUExecutionProvider"])
    return session.run(None, inputs)


def parsed(content: bytes) -> onnx.ModelProto:
    return onnx.load_from_string(content)
