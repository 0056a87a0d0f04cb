"""ONNX Runtime's QOperator form in models of any opset, within one unit of ONNX Runtime's results."""

import numpy as np
import pytest

pytest.importorskip("onnx", reason="needs the extra 'onnx'")
pytest.importorskip("onnxruntime", reason="the reference")

from .one_node import agree, node

MICROSOFT = "com.microsoft"
RNG = np.random.default_rng(42)


def number(kind, value):
    return np.array(value, kind)


def u8(*shape):
    return RNG.integers(0, 256, shape).astype(np.uint8)


BY = {
    "as": number(np.float32, 0.05), "az": number(np.uint8, 128),
    "bs": number(np.float32, 0.07), "bz": number(np.uint8, 100),
    "ys": number(np.float32, 0.1), "yz": number(np.uint8, 120),
    "ps": number(np.float32, 1 / 256), "pz": number(np.uint8, 0),
}  # fmt: skip


def own(kind, inputs, outputs="y", **attrs):
    return node(kind, inputs, outputs, domain=MICROSOFT, **attrs)


# name: nodes, shapes of data in u8, known tensors
CASES = {
    "conv": ([node("QLinearConv", "a as az w bs wz ys yz", pads=[1] * 4)], {"a": (1, 3, 6, 6)}),
    "matmul": ([node("QLinearMatMul", "a as az m bs bz ys yz")], {"a": (5, 6)}),
    "gemm": ([own("QGemm", "a as az m bs bz bias ys yz")], {"a": (5, 6)}),
    "add": ([own("QLinearAdd", "a as az b bs bz ys yz")], {"a": (1, 3, 6), "b": (1, 3, 6)}),
    "concat": ([own("QLinearConcat", "ys yz a as az b bs bz", axis=1)], {"a": (1, 3, 6), "b": (1, 2, 6)}),
    "mean": ([own("QLinearGlobalAveragePool", "a as az ys yz")], {"a": (1, 3, 6, 6)}),
    "moved": (
        [
            own("QLinearSigmoid", "a as az ys yz", "s"),
            node("Transpose", "s", "t", perm=[1, 0]),
            own("QLinearLeakyRelu", "t ys yz as az", alpha=0.1),
        ],
        {"a": (4, 9)},
    ),
}
KNOWN = {
    "w": RNG.integers(-128, 128, (4, 3, 3, 3)).astype(np.int8),
    "wz": number(np.int8, 0),
    "m": u8(6, 7),
    "bias": RNG.integers(-500, 500, 7).astype(np.int32),
}


def compare(nodes, feeds, known, opset, tolerance=1.0):
    reads = {name for one in nodes for name in one.input}
    known = {name: array for name, array in {**BY, **known}.items() if name in reads}
    ways = ["sizes", "symbolic"]
    agree(nodes, feeds, known, ways, tolerance, literal=True, opset=opset, domains=[MICROSOFT])


@pytest.mark.parametrize("opset", [10, 12, 18])
@pytest.mark.parametrize("case", CASES)
def test_operators(case, opset):
    nodes, shapes = CASES[case]
    compare(nodes, {name: u8(*shape) for name, shape in shapes.items()}, KNOWN, opset)


@pytest.mark.parametrize("axis", [1, -1])
@pytest.mark.parametrize("opset", [11, 12, 13])
def test_softmax(opset, axis):
    """Before opset 13 over all axes from one on; the node says which opset."""
    compare([own("QLinearSoftmax", "a as az ps pz", axis=axis, opset=opset)], {"a": u8(4, 9, 3)}, {}, opset)


@pytest.mark.parametrize("by_gate", [False, True], ids=["a scale", "scales"])
@pytest.mark.parametrize("direction", ["forward", "bidirectional"])
def test_lstm(direction, by_gate):
    """ONNX Runtime rounds the data and the states to 8 bits besides."""
    hidden, count = 5, 2 if direction == "bidirectional" else 1
    places = (count, 4 * hidden) if by_gate else (count,)
    known = {
        "W": RNG.integers(-128, 128, (count, 6, 4 * hidden)).astype(np.int8),
        "R": RNG.integers(-128, 128, (count, hidden, 4 * hidden)).astype(np.int8),
        "B": RNG.standard_normal((count, 8 * hidden)).astype(np.float32) / 8,
        "ws": RNG.uniform(0.005, 0.01, places).astype(np.float32),
        "rs": RNG.uniform(0.005, 0.01, places).astype(np.float32),
        "wo": np.zeros(places, np.int8),
    }
    lstm = own("DynamicQuantizeLSTM", "x W R B - - - - ws wo rs wo", "y h c", hidden_size=hidden, direction=direction)
    compare([lstm], {"x": RNG.standard_normal((7, 2, 6)).astype(np.float32)}, known, 18, 0.02)
