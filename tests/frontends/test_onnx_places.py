"""Elements by their places, and by conditions, against ONNX Runtime; places that are outside are errors, as there."""

import numpy as np
import pytest

pytest.importorskip("onnx", reason="needs the extra 'onnx'")
pytest.importorskip("onnxruntime", reason="the reference")

import dnnl_graph_ops as dgo

from .one_node import WAYS, agree, node, proto_of, run

SHORT = ("sizes", "symbolic")


@pytest.mark.parametrize("axis, shape", [(1, (2, 2)), (1, (1, 5)), (0, (5, 2)), (-1, (3, 4)), (1, (0, 0))])
@pytest.mark.parametrize("kind", [np.float32, np.int64])
def test_places_of_fewer_rows(rng, kind, axis, shape):
    data = rng.integers(-9, 9, (3, 4)).astype(kind)
    places = rng.integers(-data.shape[axis], data.shape[axis], shape)
    agree([node("GatherElements", "a i", axis=axis)], {"a": data, "i": places})
    agree([node("GatherElements", "a i", axis=axis)], {"a": data}, {"i": places}, SHORT)


X = np.arange(12, dtype=np.float32).reshape(4, 3)
OUTSIDE = {
    "Gather": ([node("Gather", "x i")], np.int64([0, 4]), "4 .*of .*4 elements"),
    "Gather below": ([node("Gather", "x i", axis=1)], np.int64([-4]), "-4 .*of .*3 elements"),
    "GatherND": ([node("GatherND", "x i")], np.int64([[3, 3]]), "3 .*of .*3 elements"),
    "GatherElements": ([node("GatherElements", "x i")], np.full((4, 3), 9), "9 .*of .*4 elements"),
    "fewer rows": ([node("GatherElements", "x i")], np.full((1, 1), 9), "9 of 4 elements"),
    "ScatterElements": ([node("ScatterElements", "x i u")], np.full((4, 3), -5), "-5 .*of .*4 elements"),
    "ScatterND": ([node("ScatterND", "x i u")], np.full((4, 3, 1), 4), "4 .*of .*4 elements"),
    "ReverseSequence": ([node("ReverseSequence", "x i")], np.int64([1, 9, 2]), "9 of 5 elements"),
}


@pytest.mark.parametrize("way", SHORT)
@pytest.mark.parametrize("case", OUTSIDE)
def test_places_outside(case, way):
    nodes, places, said = OUTSIDE[case]
    feeds = {"x": X, "i": places.astype(np.int64)}
    if "u" in nodes[0].input:
        feeds["u"] = X if places.ndim == 2 else np.zeros((4, 3, 3), np.float32)
    with pytest.raises(dgo.ShapeError, match=said):
        run(proto_of(nodes, feeds, way=way), feeds)


@pytest.mark.parametrize("image", [-1, 2])
def test_regions_of_no_image(image):
    nodes = [node("RoiAlign", "x r i", output_height=2, output_width=2)]
    feeds = {"x": np.ones((2, 1, 4, 4), np.float32), "r": np.float32([[0, 0, 3, 3]]), "i": np.int64([image])}
    with pytest.raises(dgo.ShapeError, match="of 2 elements"):
        run(proto_of(nodes, feeds), feeds)


@pytest.mark.parametrize("axis", [None, 0, -1])
def test_conditions_that_are_longer_than_the_axis(axis):
    condition = np.array([True, False, True, True, *[True] * 12])
    agree([node("Compress", "x c", **({} if axis is None else {"axis": axis}))], {"x": X, "c": condition}, ways=SHORT)


def test_rows_of_a_table():
    """An embedding: of a table that the model stores, of numbers that a call gives."""
    proto = proto_of([node("Gather", "t i")], {"i": np.int64([0])}, {"t": X}, way="symbolic")
    net = dgo.from_onnx(proto).compile()
    np.testing.assert_array_equal(net(np.int64([-1, 0, 3])), X[[-1, 0, 3]])
    for index in (4, -5, 2**40):
        with pytest.raises(dgo.ShapeError, match=f"Gather: index {index} is outside of an axis of 4 elements"):
            net(np.int64([0, index]))


CONDITIONS = [
    ((2, 3), (2, 1), (2, 1)), ((2, 3), (), ()), ((4, 2, 3), (3,), (2, 1)), ((1,), (2, 3), (3,)),
]  # fmt: skip


@pytest.mark.parametrize("shapes", CONDITIONS, ids=str)
@pytest.mark.parametrize("kind", [np.float32, np.float16, np.int64])
def test_conditions_of_any_shape(rng, kind, shapes):
    condition, *sources = (rng.integers(0, 9, shape).astype(kind) for shape in shapes)
    feeds = {"c": condition > 4} | dict(zip("ab", sources, strict=True))
    agree([node("Where", "c a b")], feeds)
    agree([node("Where", "c a b")], {"c": feeds.pop("c")}, feeds, SHORT)


@pytest.mark.parametrize("way", WAYS)
def test_parts_whose_number_data_tells(rng, way):
    """With sizes of the call, too, and where a condition is stored or made of sizes."""
    x, chosen = rng.integers(-2, 3, (3, 4)).astype(np.float32), np.array([True, False, True])
    agree([node("Compress", "x c", "t", axis=0), node("Relu", "t")], {"x": x}, {"c": chosen}, [way])
    agree([node("Compress", "x c", "t"), node("Relu", "t")], {"x": x}, {"c": chosen}, [way])
    ones = [node("Shape", "x", "s"), node("ConstantOfShape", "s", "o"), node("Add", "x o", "t"), node("NonZero", "t")]
    agree(ones, {"x": x}, ways=[way])
    agree([node("Shape", "x", "s"), node("ConstantOfShape", "s", "o"), node("NonZero", "o")], {"x": x}, ways=[way])
