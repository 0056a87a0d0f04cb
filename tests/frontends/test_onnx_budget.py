"""Numbers of a call that ask for more memory than there is: refused before anything is made."""

import numpy as np
import pytest

onnx = pytest.importorskip("onnx", reason="needs the extra 'onnx'")

from onnx import helper  # noqa: E402

import dnnl_graph_ops as dgo  # noqa: E402


def i64(*numbers):
    return np.asarray(numbers, np.int64)


def one(number):
    return np.asarray(number, np.int64)


X = np.ones((1, 2, 3, 4), np.float32)
HUGE = 1 << 40

# operator: its inputs, attributes
CASES = {
    "ConstantOfShape": ([i64(HUGE, 4)], {}),
    "Expand": ([X, i64(HUGE, 2, 3, 4)], {}),
    "Tile": ([X, i64(1 << 20, 1, 1 << 20, 1)], {}),
    "Range": ([one(0), one(HUGE), one(1)], {}),
    "Pad": ([X, i64(0, 0, 0, 0, 0, 0, HUGE, 0)], {}),
    "Pad edge": ([X, i64(0, 0, 0, HUGE, 0, 0, 0, 0)], {"mode": "edge"}),
    "OneHot": ([i64(1, 2), one(HUGE), np.float32([0, 1])], {}),
    "Resize": ([X, None, None, i64(1, 2, 1 << 22, 1 << 22)], {"mode": "linear"}),
    "Resize by scales": ([X, None, np.float32([1, 1, 1e7, 1e7])], {"mode": "cubic"}),
    "Upsample": ([X, np.float32([1, 1, 1e7, 1e7])], {"opset": 9}),
    "CenterCropPad": ([X, i64(1, 2, HUGE, 4)], {}),
    "Col2Im": ([X[0, :1], i64(1 << 21, 1 << 21), i64(1, 2)], {"strides": [1 << 21, 1 << 21]}),
    "AffineGrid": ([np.ones((1, 2, 3), np.float32), i64(1, 1, 1 << 21, 1 << 21)], {}),
    "MaxUnpool": ([X, np.zeros(X.shape, np.int64), i64(1, 2, HUGE, 4)], {"kernel_shape": [1, 1]}),
    "DFT": ([X, one(HUGE)], {}),
    "HannWindow": ([one(HUGE)], {}),
    "MelWeightMatrix": ([one(1 << 20), one(1 << 22), one(8000), np.float32(0), np.float32(4000)], {}),
    "RoiAlign": ([X, np.float32([[0, 0, 1, 1]]), i64(0)], {"sampling_ratio": 1 << 20, "opset": 16}),
    "MaxPool": ([X], {"kernel_shape": [1 << 20, 1 << 20], "pads": [1 << 20] * 4, "dilations": [1, 1]}),
}


@pytest.mark.parametrize("name", CASES)
def test_refused(name):
    arrays, attrs = CASES[name]
    opset = attrs.get("opset", 20)
    attrs = {key: value for key, value in attrs.items() if key != "opset"}
    names = [f"x{i}" if array is not None else "" for i, array in enumerate(arrays)]
    given = {name: np.asarray(array) for name, array in zip(names, arrays, strict=True) if name}
    code = helper.np_dtype_to_tensor_dtype
    graph = helper.make_graph(
        [helper.make_node(name.split()[0], names, ["y"], **attrs)],
        "budget",
        [helper.make_tensor_value_info(key, code(array.dtype), array.shape) for key, array in given.items()],
        [onnx.ValueInfoProto(name="y")],
    )
    proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=10)
    with pytest.raises(dgo.Error, match=r"needs \d+ bytes|is more than \d+ bytes"):
        dgo.from_onnx(proto).compile().run(given)
