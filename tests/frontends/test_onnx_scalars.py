"""Tensors without axes: every op gives one back, as ONNX Runtime does."""

import numpy as np
import pytest

pytest.importorskip("onnx", reason="needs the extra 'onnx'")
pytest.importorskip("onnxruntime", reason="the reference")

from .one_node import WAYS, agree, node

X = np.float32([0.25, 0.75, 0.5])
TWO = {"c": np.array(2, np.float32)}
BY = {"s": np.array(0.25, np.float32), "z": np.array(3, np.uint8)}
ONES = {name: array.reshape(1) for name, array in BY.items()}

UNARY = (
    "Neg", "Softsign", "Selu", "Celu", "Elu", "Gelu", "Softplus", "HardSwish", "Mean", "Max", "Sum", "ReduceSum",
    "ReduceMax", "ReduceL2", "ReduceLogSum", "ReduceLogSumExp", "ReduceSumSquare", "Shape", "Size",
)  # fmt: skip


@pytest.mark.parametrize("kind", UNARY)
def test_ops_of_one_operand(kind):
    agree([node("ReduceMax", "x", "r", keepdims=0), node(kind, "r")], {"x": X}, opset=20, tolerance=1e-6)


@pytest.mark.parametrize("operands", ["r c", "c r", "r r"])
@pytest.mark.parametrize("kind", ["Add", "Sub", "Mul", "Div", "Max", "Mean", "PRelu", "GreaterOrEqual"])
def test_ops_of_two(kind, operands):
    agree([node("ReduceMax", "x", "r", keepdims=0), node(kind, operands)], {"x": X}, TWO)


@pytest.mark.parametrize("number", [-1.0, 0.5, 1.0, 2.0, 3.0])
@pytest.mark.parametrize("shape", [(1,), (1, 1, 1)], ids=str)
def test_powers_by_one_number_of_more_axes(number, shape):
    check_one_number_of_more_axes("Pow", "x c", number, shape)


@pytest.mark.sweep(1)
@pytest.mark.parametrize("operands", ["x c", "c x"])
@pytest.mark.parametrize("kind", ["Add", "Sub", "Mul", "Div", "Pow", "Max", "Min", "Mean", "Less", "GreaterOrEqual"])
def test_one_number_of_more_axes(kind, operands):
    check_one_number_of_more_axes(kind, operands, 2.0, (1, 1, 1, 1))


def check_one_number_of_more_axes(kind, operands, number, shape):
    """The result has as many axes as the operand with the most."""
    for data in (X.reshape(1, 3), X, np.asarray(X[0])):
        agree([node(kind, operands)], {"x": data}, {"c": np.full(shape, number, np.float32)}, tolerance=1e-6)


@pytest.mark.parametrize("by", [BY, ONES], ids=["scale of no axes", "scale of one"])
def test_quantized(by):
    """As behind the 3 and the 6 of hard swish."""
    first = [node("ReduceMax", "x", "r", keepdims=0), node("QuantizeLinear", "r s z", "q")]
    agree([*first, node("DequantizeLinear", "q s z")], {"x": X}, by)
    agree(first, {"x": X}, by)


@pytest.mark.parametrize("shape", [(), (1,)], ids=str)
def test_dequantized_by_a_scale_of_the_call(shape):
    feeds = {"q": np.array(7, np.int8), "s": np.full(shape, 0.5, np.float32), "z": np.full(shape, 3, np.int8)}
    agree([node("DequantizeLinear", "q s z")], feeds)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("shape", [(), (1,), (1, 1), (5,), (3, 1)], ids=str)
def test_what_gemm_adds(rng, shape, way):
    """One number for all columns, too."""
    x, w, c = (rng.integers(-4, 5, sizes).astype(np.float32) for sizes in ((3, 4), (4, 5), shape))
    agree([node("Gemm", "x w c")], {"x": x}, {"w": w, "c": c}, [way])
    agree([node("Gemm", "x w c", transB=1)], {"x": x}, {"w": w.T.copy(), "c": c}, [way])
