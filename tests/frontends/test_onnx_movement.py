"""Slice, Split, Pad, Gather, Tile, Expand and GELU as exporters write it, against ONNX Runtime."""

from random import Random

import numpy as np
import pytest

onnx = pytest.importorskip("onnx", reason="needs the extra 'onnx'")
pytest.importorskip("onnxruntime", reason="the reference")
pytest.importorskip("torch", reason="the models next door are exported by it")

from onnx import helper  # noqa: E402

import dnnl_graph_ops as dgo  # noqa: E402
from dnnl_graph_ops.program.program import HostStep  # noqa: E402

from . import one_node  # noqa: E402
from .models import model, reference  # noqa: E402

RNG = np.random.default_rng(5)
MOST = 2**63 - 1


def whole(*numbers):
    return np.int64(numbers)


def noise(*shape):
    return RNG.standard_normal(shape).astype(np.float32)


def agree(nodes, shape, outputs=("y",), constants=(), opset=17, tolerance=1e-6):
    """Compile, run, compare all outputs with ONNX Runtime; the net."""
    proto = model(nodes, {"x": shape}, outputs, dict(constants), opset=opset)
    feeds = {"x": noise(*shape)}
    net = dgo.from_onnx(proto).compile()
    for found, want in zip(net.run(feeds).values(), reference(proto, feeds), strict=True):
        assert (found.shape, found.dtype) == (want.shape, want.dtype)
        np.testing.assert_allclose(found, want, rtol=tolerance, atol=tolerance)
    return net


def node(kind, inputs, outputs="y", **attrs):
    return helper.make_node(kind, ["" if name == "-" else name for name in inputs.split()], outputs.split(), **attrs)


def steps_of(net):
    return net._latest().lowering.program.steps


def test_slices(seed):
    rng = Random(seed)
    for number in range(30):
        shape = tuple(rng.randint(1, 6) for _ in range(rng.randint(1, 4)))
        axes = rng.sample(range(len(shape)), rng.randint(1, len(shape)))
        steps = [rng.choice([1, 1, 2, 3, -1, -2]) for _ in axes]
        # ONNX Runtime takes the far end of the wrong side for the near one
        starts, ends = (
            [rng.choice([rng.randint(-7, 7), side * MOST if step < 0 else -side * MOST]) for step in steps]
            for side in (1, -1)
        )
        print(f"--seed {seed}, case {number}: {shape} {axes} {starts} {ends} {steps}")
        given = {"s": whole(*starts), "e": whole(*ends), "a": whole(*axes), "t": whole(*steps)}
        proto = model([node("Slice", "x s e a t")], {"x": shape}, ["y"], given)
        feeds = {"x": noise(*shape)}
        np.testing.assert_array_equal(
            next(iter(dgo.from_onnx(proto).compile().run(feeds).values())), reference(proto, feeds)[0]
        )


def test_slices_of_old_models():
    made = [node("Slice", "x", "a", starts=[1, -3], ends=[MOST, -1], axes=[0, 2]), node("Relu", "a")]
    agree(made, (3, 2, 6), opset=9)


def test_a_slice_of_all_is_nothing():
    proto = model(
        [node("Slice", "x s e", "a"), node("Relu", "a")], {"x": (2, 3)}, ["y"], {"s": whole(0, 0), "e": whole(2, MOST)}
    )
    assert [one.kind for one in dgo.from_onnx(proto).nodes] == ["ReLU"]


@pytest.mark.parametrize(
    ("attrs", "inputs", "constants", "count", "opset"),
    [
        ({"axis": 1}, "x", {}, 2, 11),
        ({"axis": -1, "split": [1, 4]}, "x", {}, 2, 11),
        ({"axis": 2}, "x s", {"s": whole(2, 0, 3)}, 3, 17),
        ({"axis": 1, "num_outputs": 2}, "x", {}, 2, 18),
        ({"axis": 2, "num_outputs": 3}, "x", {}, 3, 18),
    ],
)
def test_split(attrs, inputs, constants, count, opset):
    names = [f"p{i}" for i in range(count)]
    agree([node("Split", inputs, " ".join(names), **attrs)], (2, 4, 5), names, constants, opset)


def test_parts_of_a_gated_unit_are_views():
    made = [
        node("Conv", "x w", "c", pads=[1, 1]),
        node("Split", "c", "a b", axis=1),
        node("Tanh", "a", "t"),
        node("Sigmoid", "b", "s"),
        node("Mul", "t s"),
    ]
    net = agree(made, (1, 4, 9), constants={"w": noise(6, 4, 3)}, tolerance=1e-5)
    assert not [step for step in steps_of(net) if step.label == "Slice" or isinstance(step, HostStep)]


@pytest.mark.parametrize("mode", ["constant", "reflect", "edge"])
def test_pad(mode):
    pads = whole(0, 0, 2, 1, 0, 0, 0, 3)
    agree([node("Pad", "x p v", mode=mode)], (2, 3, 4, 5), constants={"p": pads, "v": np.float32(1.5)})
    agree(
        [node("Pad", "x", mode=mode, pads=pads.tolist(), **({"value": -2.0} if mode == "constant" else {}))],
        (2, 3, 4, 5),
        opset=10,
    )
    if mode == "constant":
        agree([node("Pad", "x p")], (2, 3, 4, 5), constants={"p": whole(0, 1, -1, 2, 1, 0, 0, -2)})
        agree([node("Pad", "x p - a")], (2, 3, 4), constants={"p": whole(2, 1), "a": whole(-1)}, opset=18)


def test_pads_of_zeros_go_into_convolutions():
    made = [
        node("Pad", "x p", "a"),
        node("Conv", "a w", "b", pads=[1, 0]),
        node("Pad", "b q", "c"),
        node("Conv", "c v"),
    ]
    given = {"p": whole(0, 0, 1, 0, 0, 0), "q": whole(0, 0, 5, 0, 0, 0), "w": noise(5, 3, 3), "v": noise(4, 5, 3)}
    net = agree(made, (1, 3, 12), constants=given, tolerance=1e-5)
    labels = [step.label for step in steps_of(net)]
    # five zeros are more than three taps reach
    assert labels.count("Pad constant") == 1
    assert any("Pad" in part.kinds and "Convolution" in part.kinds for part in net.explain().partitions)


@pytest.mark.parametrize(
    ("stride", "kernel", "pads", "output_padding", "cut"),
    [(2, 4, [0, 0], 0, (0, -2)), (2, 4, [1, 1], 0, (1, -1)), (3, 5, [0, 1], 2, (0, -1)), (3, 5, [0, 1], 2, (2, -3))],
)
def test_ends_that_are_cut_off_transposed_convolutions(stride, kernel, pads, output_padding, cut):
    made = [
        node("ConvTranspose", "x w b", "c", strides=[stride], pads=pads, output_padding=[output_padding]),
        node("Slice", "c s e a", "d"),
        node("Elu", "d"),
    ]
    given = {"w": noise(6, 4, kernel), "b": noise(4), "s": whole(cut[0]), "e": whole(cut[1]), "a": whole(2)}
    net = agree(made, (2, 6, 7), constants=given, tolerance=1e-5)
    assert not [part for part in net.explain().partitions if part.kinds == ("Slice",)]


def test_what_others_read_is_not_cut_off():
    made = [node("ConvTranspose", "x w", "c", strides=[2]), node("Slice", "c s e a", "d"), node("Relu", "c", "r")]
    given = {"w": noise(3, 4, 4), "s": whole(0), "e": whole(-2), "a": whole(2)}
    agree(made, (1, 3, 5), ("d", "r"), given, tolerance=1e-5)


@pytest.mark.parametrize(
    ("axis", "indices"),
    [
        (0, whole(1)[0]),
        (1, whole(2, 1, 0)),
        (2, whole(0, 2, 4)),
        (-1, whole(-1, 0)),
        (1, whole([[0, 1], [3, 3]])),
        (2, whole(1, 1)),
    ],
)
def test_gather(axis, indices):
    net = agree([node("Gather", "x i", axis=axis)], (2, 4, 5), constants={"i": indices})
    assert not [step for step in steps_of(net) if isinstance(step, HostStep)]


def test_rows_of_a_table():
    proto = model([node("Cast", "x", "i", to=7)], {"x": (2,)}, ["i"])
    graph = helper.make_graph(
        [node("Gather", "t i")],
        "embedding",
        [helper.make_tensor_value_info("i", 7, (2, 3))],
        [helper.make_tensor_value_info("y", 1, None)],
        [onnx.numpy_helper.from_array(noise(10, 4), "t")],
    )
    proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
    proto.ir_version = 9
    feeds = {"i": whole([1, 9, -1], [0, 4, 5])}
    found = dgo.from_onnx(proto).compile().run(feeds)
    np.testing.assert_array_equal(found["y"], reference(proto, feeds)[0])


def test_tile_and_expand():
    agree([node("Tile", "x n")], (2, 1, 3), constants={"n": whole(2, 3, 1)})
    agree([node("Expand", "x n")], (3, 1), constants={"n": whole(2, 1, 4)})


@pytest.mark.parametrize("count", [64, 65, 129])
@pytest.mark.parametrize("way", ["sizes", "symbolic"])
def test_concat_of_any_number(count, way):
    """oneDNN takes 64."""
    feeds = {f"x{i}": np.full((2, 1 + i % 3), i, np.float32) for i in range(count)}
    one_node.agree([node("Concat", " ".join(feeds), axis=1)], feeds, ways=[way])


@pytest.mark.parametrize(
    ("equation", "other"),
    [
        ("bcd,bde->bce", (2, 4, 5)),
        ("bcd,ed->bce", (5, 4)),
        ("bcd,de", (4, 5)),
        ("bcd,bce->edb", (2, 3, 5)),
        ("bcd,bfe->bc", (2, 3, 5)),
        ("bcd,d->cb", (4,)),
        ("b c d -> d b", None),
    ],
)
def test_einsum(equation, other):
    given = {} if other is None else {"w": noise(*other)}
    agree([node("Einsum", "x w" if given else "x", equation=equation)], (2, 3, 4), constants=given, tolerance=1e-5)


@pytest.mark.parametrize("kind", ["Greater", "Less", "GreaterOrEqual", "LessOrEqual"])
@pytest.mark.parametrize("inputs", ["x l", "l x"])
def test_comparisons(kind, inputs):
    """Numbers on both sides of the limit, right beside it among them."""
    numbers = np.float32(
        [[0.5, np.nextafter(np.float32(0.5), np.float32(1)), 0.1, -0.0, 0.49999997, 7, -np.inf, np.inf]]
    )
    proto = model(
        [node(kind, inputs, "c"), node("Where", "c x z")],
        {"x": numbers.shape},
        ["y"],
        {"l": np.float32(0.5), "z": np.float32([[-1]])},
    )
    found = dgo.from_onnx(proto).compile().run({"x": numbers})["y"]
    np.testing.assert_array_equal(found, reference(proto, {"x": numbers})[0])


@pytest.mark.parametrize("kind", ["Erf", "Sin", "Cos"])
def test_functions(kind):
    agree([node(kind, "x")], (2, 3, 5))


@pytest.mark.parametrize(
    "nodes",
    [
        [("Mul", "x b", "p"), ("Mul", "p h", "y")],
        [("Mul", "x h", "p"), ("Mul", "p b", "y")],
        [("Mul", "b h", "p"), ("Mul", "x p", "y")],
    ],
)
def test_gelu_before_opset_20(nodes):
    made = [node("Div", "x r", "d"), node("Erf", "d", "e"), node("Add", "e o", "b"), *(node(*one) for one in nodes)]
    given = {"r": np.float32(2**0.5), "o": np.float32(1), "h": np.float32(0.5)}
    net = agree(made, (2, 3, 5), constants=given)
    assert [kind for part in net.explain().partitions for kind in part.kinds] == ["GELU"]


def test_what_only_looks_like_a_gelu():
    made = [
        node("Mul", "x r", "d"),
        node("Erf", "d", "e"),
        node("Add", "e o", "b"),
        node("Mul", "x b", "p"),
        node("Mul", "p h"),
    ]
    given = {"r": np.float32(0.7), "o": np.float32(1), "h": np.float32(0.5)}
    agree(made, (2, 3, 5), constants=given)


@pytest.mark.parametrize(
    ("nodes", "constants", "message"),
    [
        ([node("Slice", "x s e a t")], {"s": whole(0), "e": whole(1), "a": whole(0), "t": whole(0)}, "a step of 0"),
        ([node("Slice", "x s e a")], {"s": whole(0), "e": whole(1), "a": whole(4)}, "axis 4 is outside"),
        ([node("Slice", "x s x")], {"s": whole(0)}, "ends must be an initializer"),
        ([node("Pad", "x p")], {"p": whole(1, 1)}, "pads="),
        ([node("Split", "x s", "y z", axis=1)], {"s": whole(1, 1)}, "of the sizes"),
        ([node("Split", "x", "y z", axis=1)], {}, "2 equal parts"),
        ([node("Gather", "x i", axis=1)], {"i": whole(3)}, "of 3 elements"),
        ([node("Einsum", "x x", equation="ij,jk->ik")], {}, "broadcast"),
        ([node("Einsum", "x x", equation="F\ufffd\x1f\ufffd\ufffd\ufffdVD\x10\ufffd\ufffd")], {}, "at most one"),
        ([node("Tile", "x n")], {"n": whole(2)}, "repeats"),
        ([node("Expand", "x n")], {"n": whole(3, 4)}, "does not broadcast"),
    ],
)
def test_refused(nodes, constants, message):
    proto = model(nodes, {"x": (2, 3)}, ["y"], constants)
    with pytest.raises(dgo.Error, match=message):
        dgo.from_onnx(proto)
