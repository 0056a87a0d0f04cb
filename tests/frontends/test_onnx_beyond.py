"""More than there is: pads beyond an axis, transposed convolutions larger than their sums, images without pixels."""

import numpy as np
import pytest

pytest.importorskip("onnx", reason="needs the extra 'onnx'")
pytest.importorskip("onnxruntime", reason="the reference")

from onnx.reference import ReferenceEvaluator

import dnnl_graph_ops as dgo

from .one_node import WAYS, agree, node, proto_of, run

X = np.arange(12, dtype=np.float32).reshape(3, 4)


def by_definition(nodes, feeds, known, ways=WAYS, opset=19):
    """Against onnx's reference implementation, where ONNX Runtime refuses or does otherwise."""
    for way in ways:
        proto = proto_of(nodes, feeds, known, opset=opset, way=way)
        inputs = {} if way == "folded" else feeds
        (result,), (want,) = run(proto, inputs), ReferenceEvaluator(proto).run(None, inputs)
        np.testing.assert_array_equal(result, want, err_msg=way)


@pytest.mark.parametrize("pads", [(0, 5, 0, 7), (4, 1, 0, 9), (3, 4, 2, 3)], ids=str)
@pytest.mark.parametrize("kind", [np.float32, np.int64])
def test_pads_beyond_the_axis(kind, pads):
    """As often as it takes, for both modes that go on over an edge."""
    feeds, known = {"x": X.astype(kind)}, {"p": np.int64(pads)}
    agree([node("Pad", "x p", mode="wrap")], feeds, known, opset=19)
    by_definition([node("Pad", "x p", mode="reflect")], feeds, known)


def test_pads_of_one_element():
    by_definition([node("Pad", "x p", mode="reflect")], {"x": X[:1, :1]}, {"p": np.int64([0, 4, 2, 3])})


@pytest.mark.parametrize("stride, taps", [(2, 1), (3, 1), (4, 2), (5, 2), (2, 3)])
@pytest.mark.parametrize("side", ["SAME_UPPER", "SAME_LOWER"])
def test_zeros_around_transposed_convolutions(rng, side, stride, taps):
    """The formula's pads are below zero then, on both sides, the odd one at the end for SAME_UPPER.

    ONNX Runtime puts all zeros at the end.
    """
    x, w = (rng.integers(-4, 5, shape).astype(np.float32) for shape in ((1, 2, 4), (2, 3, taps)))
    known = {"w": w, "b": np.float32([1, 2, 3])}
    feeds = {"x": x}
    (sums,) = run(proto_of([node("ConvTranspose", "x w", strides=[stride])], feeds, known), feeds)
    for more in ({}, {"output_shape": [4 * stride + 3]}):
        wanted = more.get("output_shape", [4 * stride])[0]
        zeros = max(wanted - sums.shape[2], 0)
        halves = zeros // 2, zeros - zeros // 2
        cut = max(sums.shape[2] - wanted, 0)
        first = cut // 2 if side == "SAME_UPPER" else cut - cut // 2
        kept = sums[..., first : sums.shape[2] - (cut - first)]
        sides = halves if side == "SAME_UPPER" else halves[::-1]
        truth = np.pad(kept, ((0, 0), (0, 0), sides)) + known["b"].reshape(1, 3, 1)
        for way in ("sizes", "symbolic"):
            nodes = [node("ConvTranspose", "x w b", auto_pad=side, strides=[stride], **more)]
            np.testing.assert_array_equal(run(proto_of(nodes, feeds, known, way=way), feeds)[0], truth)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("mode", ["nearest", "linear", "cubic"])
def test_images_without_pixels(mode, way):
    """By the larger of two scales, by a scale, and of none."""
    resize = node("Resize", "x - - s", mode=mode, axes=[2, 3], keep_aspect_ratio_policy="not_larger")
    x = np.ones((1, 1, 3, 40), np.float32)
    agree([resize], {"x": x}, {"s": np.int64([2, 1])}, [way], opset=19)
    resize = node("Resize", "x - s", mode=mode)
    agree([resize], {"x": x}, {"s": np.float32([1, 1, 0.1, 2])}, [way])
    agree([resize], {"x": x[:, :, :0]}, {"s": np.float32([1, 1, 2, 2])}, [way])


@pytest.mark.parametrize("shape", [(0, 3), (2, 0), (0, 0), (1, 0, 0)], ids=str)
def test_axes_beside_sizes_of_zero(shape):
    """As of a detector that detects nothing."""
    agree([node("Unsqueeze", "x a")], {"x": np.zeros(shape, np.float32)}, {"a": np.int64([1])})


@pytest.mark.parametrize("axis", [-1, 0, 1, 3])
@pytest.mark.parametrize("kind", [np.float32, np.int32, np.float64])
def test_flat_tensors_without_elements(kind, axis):
    agree([node("Flatten", "x", axis=axis)], {"x": np.zeros((2, 0, 3), kind)})


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("mode", ["nearest", "linear", "cubic"])
def test_corners_of_a_part_of_an_element(rng, mode, way):
    """Scales that make 2.4 and 10.2 elements: the corners are those of 2 and 10, as PyTorch has them, too."""
    resize = node("Resize", "x - s", mode=mode, coordinate_transformation_mode="align_corners")
    x, by = rng.integers(-8, 9, (1, 2, 4, 6)).astype(np.float32), {"s": np.float32([1, 1, 0.6, 1.7])}
    agree([resize], {"x": x}, by, [way], tolerance=1e-5, literal=True)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("shape", [(1, 3, 1), (2, 3), (1, 1), ()], ids=str)
def test_no_axes_to_squeeze(shape, way):
    """All of one element, as ONNX Runtime has an empty list too."""
    x, none = {"x": np.ones(shape, np.float32)}, np.zeros(0, np.int64)
    agree([node("Squeeze", "x a")], x, {"a": none}, [way])
    agree([node("Squeeze", "x a")], {**x, "a": none}, ways=[way])


@pytest.mark.parametrize("opset", [18, 22])
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize(
    "kind, more",
    [("MaxPool", {}), ("AveragePool", {}), ("AveragePool", {"count_include_pad": 1}), ("LpPool", {"p": 1})],
)
def test_last_windows_behind_the_data(rng, kind, more, way, opset):
    """They are left out, though onnx counted them before opset 22."""
    x = {"x": rng.integers(-6, 7, (1, 2, 8)).astype(np.float32)}
    for window in ({"kernel_shape": [3], "pads": [2, 2]}, {"kernel_shape": [1]}, {"kernel_shape": [3], "pads": [0, 2]}):
        agree([node(kind, "x", strides=[2], ceil_mode=1, **window, **more)], x, (), [way], opset=opset, tolerance=1e-6)


@pytest.mark.parametrize("kind", [np.float32, np.int64])
@pytest.mark.parametrize("size", [0, 1, 2])
def test_more_cut_off_than_there_is(size, kind):
    """It is left out of what is added at the other side."""
    x = {"x": np.arange(2 * size).reshape(2, size).astype(kind)}
    for before, after in ((-3, 4), (4, -3), (-1, 2), (2, -2), (-1, 1)):
        by = {"p": np.int64([0, before, 0, after]), "v": np.array(9, kind)}
        agree([node("Pad", "x p v")], x, by)
    with pytest.raises(dgo.ShapeError, match="elements"):
        run(proto_of([node("Pad", "x p v")], x, {**by, "p": np.int64([0, -2, 0, -1])}), x)


def test_axes_beside_those_of_no_elements():
    """Of which one is known to have none, and others are not known."""
    x, by = {"x": np.ones((2, 3, 4), np.float32)}, {"r": np.int64([1, 1, 0]), "a": np.int64([-2])}
    proto = proto_of([node("Tile", "x r", "t"), node("Unsqueeze", "t a")], x, by, way="symbolic")
    proto.graph.input[0].type.tensor_type.shape.dim[2].dim_value = 4
    assert run(proto, x)[0].shape == (2, 3, 1, 0)
