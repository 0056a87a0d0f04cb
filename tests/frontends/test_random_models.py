"""Random models agree with ONNX Runtime; what fails shrinks to a script of a few lines."""

from dataclasses import replace

import numpy as np
import pytest

pytest.importorskip("onnx", reason="needs the extra 'onnx'")
pytest.importorskip("onnxruntime", reason="the reference")

from dnnl_graph_ops.frontends.reading import operators  # noqa: F401  (fills RULES)
from dnnl_graph_ops.frontends.reading.numpy_steps import ROWS as STEPS
from dnnl_graph_ops.frontends.reading.table import RULES

from .one_node import agree, node
from .random_layers import ROWS
from .random_models import CARRIERS, check, drawn

EACH = 10
# deprecated before opset 11
OLD = {"Scatter", "Upsample"}
FLOATS = np.float32([[3, -1], [0, 2]])


@pytest.mark.cases(80, 320, 6000, each=EACH)
def test_agree(start, seed):
    for case in range(start, start + EACH):
        check(drawn(seed, case), f"--seed={seed}: drawn({seed}, {case})")


def test_every_operator_is_drawn():
    computed = {name for name, row in STEPS.items() if row.compute}
    assert (set(RULES) | computed) - set(ROWS) == OLD | set(CARRIERS)


def test_failures_shrink_to_one_node(monkeypatch):
    """Of models some of whose operators do nothing."""
    planted = {"Abs", "Cos", "Erf", "Exp", "Neg", "Reciprocal", "Relu", "Sigmoid", "Sqrt", "Tanh"}
    large = (model for case in range(1000) if len((model := drawn(3, case)).nodes) > 4)
    with monkeypatch.context() as patch:
        for name in planted:
            patch.setitem(RULES, name, replace(RULES[name], build=lambda step: step.value(0)))
        text = next(filter(None, (_failure(model) for model in large)))
        lines = text[text.index("from frontends") :]
        (kind,) = (name for name in planted if f'"{name}"' in lines)
        assert lines.count("node(") == 1 and f'node("{kind}"' in lines, text
        with pytest.raises(AssertionError):
            exec(lines, {})
    exec(lines, {})


def _failure(model):
    try:
        check(model, "planted")
    except AssertionError as error:
        return str(error)
    return ""


# what random models found: the nodes, inputs, constants, and how `agree` runs them
FOUND = {
    "a state without elements in the place that it has behind a pad": (
        [node("CausalConvWithState", "x w", "y state"), node("Pad", "state pads", "z")],
        {"x": FLOATS[:1, None, :1], "w": FLOATS[:1, None, :1]}, {"pads": np.int64([1, 0, 0, 0, 0, 0])},
        {"opset": 28, "ways": ["sizes"], "outputs": ["z"]},
    ),
    "a norm of each element alone is its magnitude": (
        [node("ReduceL2", "x", noop_with_empty_axes=1)], {"x": FLOATS}, {}, {"opset": 18}
    ),
    "a norm of each integer alone, too": (
        [node("ReduceL1", "x", noop_with_empty_axes=1)], {"x": FLOATS.astype(np.int32)}, {}, {"opset": 18}
    ),
    "no axes are all axes, of what is known": (
        [node("ReduceProd", "x axes")], {"x": FLOATS}, {"axes": np.int64([])}, {"opset": 18}
    ),
    "stretched channels of what a call sizes": (
        [node("ReduceMax", "x axes", "one"), node("Resize", "one - - sizes")],
        {"x": np.ones((2, 4, 1), np.float32)},
        {"axes": np.int64([1]), "sizes": np.int64([2, 3, 1])},
        {},
    ),
    "kernel_shape beside weights whose sizes a call tells": (
        [node("Conv", "x w", kernel_shape=[1, 2])], {"x": FLOATS[None, None], "w": FLOATS[None, None, :1]}, {}, {}
    ),
    "the same of a transposed convolution": (
        [node("ConvTranspose", "x w", kernel_shape=[1, 2])],
        {"x": FLOATS[None, None], "w": FLOATS[None, None, :1]}, {}, {},
    ),
    "a norm of channels whose number a call tells": (
        [node("Conv", "x w", "y"), node("BatchNormalization", "y one one one one", "z", epsilon=3.0)],
        {"x": FLOATS[None, None], "w": FLOATS[None, None]}, {"one": np.float32([1])}, {},
    ),
    "scales of groups that a call gives": (
        [node("GroupNormalization", "x scale shift", num_groups=2, epsilon=0.75)],
        {"x": np.float32([[[1], [2], [3], [3]]]), "scale": np.float32([1, 2]), "shift": np.float32([0, 3])}, {},
        {"opset": 18, "tolerance": 1e-6},
    ),
    "angles of which a call tells how many": (
        [node("RotaryEmbedding", "x cos sin rows")],
        {"cos": FLOATS[:, :1], "sin": FLOATS[:, 1:], "rows": np.int64([[1, 0]])}, {"x": FLOATS[None, None]},
        {"opset": 23},
    ),
    "the first largest of no elements": (
        [node("Hardmax", "x", axis=2)], {"x": np.zeros((2, 0, 3), np.float32)}, {}, {"opset": 12}
    ),
    "blocks of no image": (
        [node("SpaceToDepth", "x", blocksize=2)], {"x": np.zeros((0, 1, 2, 2))}, {}, {}
    ),
    "a known bias of no axes": (
        [node("DequantizeLinear", "b scale", "y"), node("BitShift", "x x", "z", direction="LEFT")],
        {"x": np.uint16([3])}, {"b": np.array(-4, np.int32), "scale": np.float32(2)}, {},
    ),
    "places in a number": (
        [node("NonZero", "x", "y"), node("Sign", "y", "z")], {"x": np.array(2, np.float32)}, {}, {}
    ),
    "an optional is its element": (
        [node("Optional", "x", "y"), node("OptionalGetElement", "y", "z")], {"x": FLOATS}, {}, {"opset": 15}
    ),
    "scales of no channels": (
        [node("DequantizeLinear", "b scale", axis=0)],
        {"b": np.zeros((0, 1), np.int32), "scale": np.float32([])}, {}, {},
    ),
    "windows over no image": (
        [node("MaxPool", "x", kernel_shape=[2])], {"x": np.zeros((0, 3, 3))}, {}, {}
    ),
    "scales of channels that are flattened": (
        [node("QuantizeLinear", "x s z", "q", axis=1), node("Flatten", "q", "f"),
         node("QLinearMatMul", "f one zero w one zero one zero")],
        {"x": FLOATS[None, ..., None]},
        {"s": np.float32([1, 2]), "z": np.uint8([0, 1]), "one": np.float32(1), "zero": np.uint8(0),
         "w": np.ones((4, 2), np.uint8)},
        {},
    ),
    "fractions among the places of ones": (
        [node("OneHot", "x depth pair")], {"x": np.float32([0.75, -1.25, 2])},
        {"depth": np.array(3), "pair": np.int64([5, 7])}, {},
    ),
    "a sequence of what only a call makes": (
        [node("CenterCropPad", "x size", "y", axes=[0]), node("Abs", "y", "z"), node("SequenceConstruct", "z z", "s"),
         node("SequenceErase", "s first", "rest"), node("SequenceAt", "rest first", "w")],
        {"x": FLOATS, "size": np.int64([2])}, {"first": np.array(0)}, {},
    ),
    "nothing is read of what a call makes": (
        [node("Split", "x sizes", "y"), node("Abs", "y", "z"), node("SequenceConstruct", "z z", "s"),
         node("SequenceLength", "s", "n")],
        {"x": FLOATS, "sizes": np.int64([2])}, {}, {},
    ),
    "a sum of exponentials of infinities": (
        [node("ReduceLogSumExp", "x axes")],
        {"x": np.float32([[-np.inf, -np.inf], [np.inf, 1], [-np.inf, 2], [np.nan, 1]])}, {"axes": np.int64([1])},
        {"opset": 18, "tolerance": 1e-6},
    ),
    "a normalised constant is not the constant": (
        [node("GroupNormalization", "c scale shift", "y", num_groups=1), node("Pad", "y pads", "z")],
        {"scale": np.array([1.0]), "shift": np.array([-1.0])},
        {"c": np.array([[[2.0]]]), "pads": np.int64([1] * 6)}, {"opset": 21, "outputs": ["z"]},
    ),
    "a number of 64 bits": ([node("Softsign", "x")], {"x": np.array(3.0)}, {}, {}),
}  # fmt: skip


@pytest.mark.parametrize("name", FOUND)
def test_found(name):
    nodes, feeds, constants, options = FOUND[name]
    agree(nodes, feeds, constants, **options)
