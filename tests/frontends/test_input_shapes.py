"""Shapes stated for the inputs of a model: results are those of the model as it is, contradictions are refused."""

import numpy as np
import pytest

import dnnl_graph_ops as dgo

TEXT = """<ir_version: 9, opset_import: ["": 17]>
    up (float[n, 8, h, w] x, float[n] scale) => (float[n, 4, H, W] y) <float[8, 4, 2, 2] weights> {
        a = ConvTranspose <strides = [2, 2]> (x, weights)
        axes = Constant <value_ints = [1, 2, 3]> ()
        b = Unsqueeze(scale, axes)
        c = Mul(a, b)
        y = Relu(c)
    }"""


def whole(*shape):
    return np.random.default_rng(7).integers(-3, 4, shape).astype(np.float32)


@pytest.fixture
def model():
    pytest.importorskip("onnx", reason="needs the extra 'onnx'")
    import onnx.numpy_helper
    import onnx.parser

    found = onnx.parser.parse_model(TEXT)
    stored = onnx.numpy_helper.from_array(whole(8, 4, 2, 2), "weights")
    del found.graph.initializer[:]
    found.graph.initializer.append(stored)
    return found


@pytest.mark.parametrize(
    "shapes, x, scale",
    [
        (None, (None, 8, None, None), (None,)),
        ({}, (None, 8, None, None), (None,)),
        ({"x": (2, 8, None, 5)}, (2, 8, None, 5), (None,)),
        ({"x": [None, 8, np.int64(3), 5], "scale": (2,)}, (None, 8, 3, 5), (2,)),
        ({"n": 2}, (2, 8, None, None), (2,)),
        ({"n": 2, "x": (2, 8, 3, 5)}, (2, 8, 3, 5), (2,)),
        ({"h": 3, "w": 5, "n": 2}, (2, 8, 3, 5), (2,)),
        ({"x": ("batch", 8, "side", "side"), "scale": ("batch",)}, (None, 8, None, None), (None,)),
        ({"x": ("batch", 8, None, 5), "batch": 2, "h": 3}, (2, 8, 3, 5), (None,)),
    ],
)
def test_open_dims_are_fixed(model, shapes, x, scale):
    graph = dgo.from_onnx(model, shapes=shapes)
    assert [value.shape for value in graph.inputs] == [x, scale]
    arrays = whole(2, 8, 3, 5), whole(2)
    net, wanted = graph.compile(), dgo.from_onnx(model).compile()(*arrays)
    assert net.plan_count() == (None not in (*x, *scale))
    np.testing.assert_array_equal(net(*arrays), wanted)
    if x[0] == 2:
        with pytest.raises(dgo.ShapeError):
            net(whole(3, 8, 3, 5), whole(3))


REFUSED = [
    ({"x": (2, 7, None, None)}, dgo.ShapeError, r"input 'x': dim 1 is 8 .* cannot become 7: write 8, or export"),
    ({"x": (2, None, 3, 5)}, dgo.ShapeError, "cannot become None"),
    ({"x": (2, 8, 3)}, dgo.ShapeError, "has 3 dims, in the model it has 4"),
    ({"x": (2, 8, -3, 5)}, dgo.ShapeError, "negative size"),
    ({"x": (2, 8, 1 << 60, 5)}, dgo.ShapeError, "bytes"),
    ({"X": (2, 8, 3, 5)}, dgo.InvalidArgumentError, "no input or unknown dim 'X'; did you mean 'x'"),
    ({"weights": (8, 4, 2, 2)}, dgo.InvalidArgumentError, "there are x, scale, h, n, w"),
    ({"n": 3, "x": (2, 8, None, None)}, dgo.ShapeError, "dim 0 is 3 .* cannot become 2"),
    ({"n": (2,)}, TypeError, r"the dim 'n' must be an int, got \(2,\)"),
    ({"x": 2}, TypeError, "a shape is a tuple of ints"),
    ({"x": "2,8,3,5"}, TypeError, "a shape is a tuple of ints"),
    ({"x": ("n", "c", 3, 5)}, dgo.ShapeError, "dim 1 is 8 .* cannot become 'c'"),
    ({"x": ("", 8, 3, 5)}, dgo.InvalidArgumentError, "empty name"),
    ({"batch": 2}, dgo.InvalidArgumentError, "no input or unknown dim 'batch'"),
    ({"x": (2.0, 8, 3, 5)}, TypeError, "must be an int, got 2.0"),
    ([("x", (2, 8, 3, 5))], TypeError, "needs {input name: shape}"),
]


@pytest.mark.parametrize("shapes, error, text", REFUSED)
def test_contradictions_are_refused(model, shapes, error, text):
    with pytest.raises(error, match=text):
        dgo.from_onnx(model, shapes=shapes)


def test_a_rank_may_be_stated(model):
    model.graph.input[0].type.tensor_type.ClearField("shape")
    net = dgo.from_onnx(model, shapes={"x": (2, 8, 3, 5), "n": 2}).compile()
    assert net.plan_count() == 1
    assert net(whole(2, 8, 3, 5), whole(2)).shape == (2, 4, 6, 10)


def test_an_exported_program():
    torch = pytest.importorskip("torch", reason="needs the extra 'torch'")

    class Model(torch.nn.Module):
        def forward(self, x):
            return x.reshape(x.shape[0], -1) * x.shape[2]

    dims = {0: torch.export.Dim("batch", min=1), 2: torch.export.Dim("length", min=1)}
    program = torch.export.export(Model().eval(), (torch.ones(3, 4, 6),), dynamic_shapes={"x": dims})
    x = whole(2, 4, 5)
    wanted = program.module()(torch.from_numpy(x)).numpy()
    for shape in ((None, 4, None), (2, 4, None), (2, 4, 5)):
        graph = dgo.from_torch(program, shapes={"x": shape})
        assert graph.inputs[0].shape == shape
        np.testing.assert_array_equal(graph.compile()(x), wanted)
    with pytest.raises(dgo.ShapeError, match="from_torch: 'shapes': input 'x': dim 1 is 4"):
        dgo.from_torch(program, shapes={"x": (2, 3, 5)})
    with pytest.raises(dgo.InvalidArgumentError, match="no input 'y'; there are x"):
        dgo.from_torch(program, shapes={"y": (2,)})
