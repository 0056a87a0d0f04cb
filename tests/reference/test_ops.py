"""The NumPy evaluators against PyTorch in float64, kind by kind."""

import numpy as np
import pytest

from .graph import evaluate_graph, inputs_of, outputs_of
from .movement import philox
from .ops import EVALUATORS, OPAQUE, Slot, evaluate

torch = pytest.importorskip("torch")
F = torch.nn.functional

UNARY = {
    "Abs": ({}, torch.abs),
    "Clamp": ({"min": -0.5, "max": 0.75}, lambda x: x.clamp(-0.5, 0.75)),
    "Elu": ({"alpha": 0.7}, lambda x: F.elu(x, 0.7)),
    "Exp": ({}, torch.exp),
    "GELU": ({"mode": "gelu_tanh"}, lambda x: F.gelu(x, approximate="tanh")),
    "HardSigmoid": ({"alpha": 1 / 6, "beta": 0.5}, F.hardsigmoid),
    "HardSwish": ({}, F.hardswish),
    "LeakyReLU": ({"alpha": 0.1}, lambda x: F.leaky_relu(x, 0.1)),
    "Mish": ({}, F.mish),
    "ReLU": ({}, F.relu),
    "Reciprocal": ({}, torch.reciprocal),
    "Reorder": ({}, lambda x: x),
    "Round": ({}, torch.round),
    "Sigmoid": ({}, torch.sigmoid),
    "SoftPlus": ({"beta": 2.0}, lambda x: F.softplus(x, 2.0, 1e9)),
    "Square": ({}, torch.square),
    "Tanh": ({}, torch.tanh),
    "TypeCast": ({}, lambda x: x),
}
POSITIVE = {
    "Log": ({}, torch.log),
    "Pow": ({"beta": 2.5}, lambda x: x**2.5),
    "Sqrt": ({}, torch.sqrt),
}
BINARY = {
    "Add": torch.add,
    "Divide": torch.divide,
    "GreaterEqual": torch.ge,
    "Maximum": torch.maximum,
    "Minimum": torch.minimum,
    "Multiply": torch.multiply,
    "SquaredDifference": lambda a, b: (a - b) ** 2,
    "Subtract": torch.subtract,
}
REDUCE = {
    "ReduceL1": lambda x, a, k: x.abs().sum(a, keepdim=k),
    "ReduceL2": lambda x, a, k: torch.linalg.vector_norm(x, dim=a, keepdim=k),
    "ReduceMax": lambda x, a, k: x.amax(a, keepdim=k),
    "ReduceMean": lambda x, a, k: x.mean(a, keepdim=k),
    "ReduceMin": lambda x, a, k: x.amin(a, keepdim=k),
    "ReduceProd": lambda x, a, k: x.prod(a[1], keepdim=k).prod(a[0], keepdim=k),
    "ReduceSum": lambda x, a, k: x.sum(a, keepdim=k),
}


@pytest.fixture
def rng():
    return np.random.default_rng(11)


def run(kind, inputs, attributes, *outputs):
    """Results in float64 where `outputs` gives shapes, else one of the first input's shape."""
    slots = [Slot("f32", tuple(s)) for s in outputs or [inputs[0].shape]]
    return [r.astype(np.float64) for r in evaluate(kind, inputs, attributes, slots)]


def agree(got, expected):
    expected = expected.detach().numpy() if isinstance(expected, torch.Tensor) else expected
    assert got.shape == tuple(expected.shape)
    np.testing.assert_allclose(got, expected, rtol=2e-7, atol=2e-7)


def gradient(function, x, diff):
    tensor = torch.tensor(x, requires_grad=True)
    result = function(tensor)
    result.backward(torch.tensor(diff))
    return result.detach().numpy(), tensor.grad.numpy()


def test_every_kind_has_an_evaluator_or_no_meaning():
    assert len(EVALUATORS) == 93
    assert not OPAQUE & EVALUATORS.keys()


@pytest.mark.parametrize("kind", [*UNARY, *POSITIVE])
def test_unary(kind, rng):
    attributes, theirs = {**UNARY, **POSITIVE}[kind]
    x = rng.standard_normal((3, 50)) * 4
    if kind in POSITIVE:
        x = np.abs(x) + 0.1
    x[0, :4] = [0.5, 1.5, -2.5, 3.0] if kind not in POSITIVE else 1
    agree(run(kind, [x], attributes)[0], theirs(torch.tensor(x)))
    backward = f"{kind}Backward"
    if backward in EVALUATORS:
        diff = rng.standard_normal(x.shape)
        dst, expected = gradient(theirs, x, diff)
        use_dst = {"use_dst": False} if kind in ("Clamp", "Elu", "ReLU", "Sigmoid", "Sqrt", "Tanh") else {}
        agree(run(backward, [x, diff], attributes | use_dst)[0], expected)
        if use_dst:
            agree(run(backward, [dst, diff], attributes)[0], expected)


def test_gelu_by_erf(rng):
    x, diff = rng.standard_normal(200) * 3, rng.standard_normal(200)
    dst, expected = gradient(F.gelu, x, diff)
    agree(run("GELU", [x], {})[0], dst)
    agree(run("GELUBackward", [x, diff], {})[0], expected)


@pytest.mark.parametrize("kind", BINARY)
def test_binary_broadcasts(kind, rng):
    a, b = rng.standard_normal((2, 3, 4)), rng.standard_normal((3, 1)) + 3
    agree(run(kind, [a, b], {}, (2, 3, 4))[0], BINARY[kind](torch.tensor(a), torch.tensor(b)))


@pytest.mark.parametrize("keep", [False, True])
@pytest.mark.parametrize("kind", REDUCE)
def test_reductions(kind, keep, rng):
    x = rng.standard_normal((2, 3, 4))
    expected = REDUCE[kind](torch.tensor(x), (0, 2), keep)
    got = run(kind, [x], {"axes": [0, -1], "keep_dims": keep}, expected.shape)
    agree(got[0], expected)
    agree(run(kind, [x, np.array([0, 2], np.int32)], {"keep_dims": keep}, expected.shape)[0], expected)


@pytest.mark.parametrize("exclude", [False, True])
@pytest.mark.parametrize("rounding", ["floor", "ceil"])
def test_average_pool(exclude, rounding, rng):
    x = rng.standard_normal((2, 3, 8, 7))
    attributes = {
        "kernel": [3, 2],
        "strides": [2, 2],
        "pads_begin": [1, 0],
        "pads_end": [1, 0],
        "exclude_pad": exclude,
        "data_format": "NCX",
    }

    def theirs(t):
        return F.avg_pool2d(t, (3, 2), 2, (1, 0), ceil_mode=rounding == "ceil", count_include_pad=not exclude)

    diff = rng.standard_normal(theirs(torch.tensor(x)).shape)
    dst, expected = gradient(theirs, x, diff)
    agree(run("AvgPool", [x], attributes | {"rounding_type": rounding}, dst.shape)[0], dst)
    if rounding == "floor":
        got = run("AvgPoolBackward", [diff], attributes | {"src_shape": list(x.shape)}, x.shape)
        agree(got[0], expected)


@pytest.mark.parametrize("last", [False, True])
def test_max_pool(last, rng):
    x = rng.integers(-3, 3, (2, 3, 9, 8)).astype(np.float64)

    def theirs(t):
        return F.max_pool2d(t, 3, (2, 1), 1, (1, 2))

    attributes = {
        "kernel": [3, 3],
        "strides": [2, 1],
        "pads_begin": [1, 1],
        "pads_end": [1, 1],
        "dilations": [1, 2],
        "data_format": "NXC" if last else "NCX",
    }
    diff = rng.standard_normal(theirs(torch.tensor(x)).shape)
    arrays = [x, diff, *gradient(theirs, x, diff)]
    if last:
        arrays = [np.moveaxis(a, 1, -1) for a in arrays]
    x, diff, dst, expected = arrays
    agree(run("MaxPool", [x], attributes, dst.shape)[0], dst)
    agree(run("MaxPoolBackward", [x, diff], attributes)[0], expected)


@pytest.mark.parametrize("mode", ["nearest", "linear"])
@pytest.mark.parametrize("corners", [False, True])
def test_interpolate(mode, corners, rng):
    if corners and mode == "nearest":
        pytest.skip("PyTorch has no such pair")
    x = rng.standard_normal((2, 3, 5, 4))
    names = {"nearest": "nearest-exact", "linear": "bilinear"}

    def theirs(t):
        extra = {} if mode == "nearest" else {"align_corners": corners}
        return F.interpolate(t, size=(8, 3), mode=names[mode], **extra)

    diff = rng.standard_normal((2, 3, 8, 3))
    dst, expected = gradient(theirs, x, diff)
    attributes = {
        "mode": mode,
        "sizes": [8, 3],
        "data_format": "NCX",
        "coordinate_transformation_mode": "align_corners" if corners else "half_pixel",
    }
    agree(run("Interpolate", [x], attributes, dst.shape)[0], dst)
    agree(run("InterpolateBackward", [x, diff], attributes)[0], expected)


def test_batch_norm(rng):
    x, diff = rng.standard_normal((4, 3, 5)), rng.standard_normal((4, 3, 5))
    mean, variance, gamma, beta = (rng.random(3) + 0.5 for _ in range(4))
    attributes = {"epsilon": 1e-3, "data_format": "NCX"}
    tensors = [torch.tensor(p, requires_grad=True) for p in (x, gamma, beta)]
    running = [torch.tensor(mean), torch.tensor(variance)]
    dst = F.batch_norm(tensors[0], *running, *tensors[1:], training=True, momentum=0.25, eps=1e-3)
    dst.backward(torch.tensor(diff))
    inputs, shapes = [x, mean, variance, gamma, beta], [x.shape, *[(3,)] * 4]
    got = run("BatchNormForwardTraining", inputs, attributes | {"momentum": 0.75}, *shapes)
    agree(got[0], dst)
    agree(got[1], running[0])
    np.testing.assert_allclose(got[4], x.var(axis=(0, 2)), rtol=1e-6)
    # PyTorch's running variance is the unbiased one
    unbiased = 0.75 * variance + 0.25 * x.var(axis=(0, 2)) * 20 / 19
    np.testing.assert_allclose(running[1].numpy(), unbiased, rtol=1e-12)
    batch = [x.mean(axis=(0, 2)), x.var(axis=(0, 2))]
    got = run("BatchNormTrainingBackward", [x, diff, *batch, gamma], attributes, x.shape, (3,), (3,))
    for ours, tensor in zip(got, tensors, strict=True):
        agree(ours, tensor.grad)
    expected = F.batch_norm(torch.tensor(x), *map(torch.tensor, (mean, variance, gamma, beta)), eps=1e-3)
    agree(run("BatchNormInference", [x, gamma, beta, mean, variance], attributes)[0], expected)


def test_layer_and_rms_norm(rng):
    x, diff = rng.standard_normal((3, 4, 5)), rng.standard_normal((3, 4, 5))
    gamma, beta = rng.standard_normal((4, 5)), rng.standard_normal((4, 5))
    tensors = [torch.tensor(p, requires_grad=True) for p in (x, gamma, beta)]
    dst = F.layer_norm(tensors[0], (4, 5), *tensors[1:], eps=1e-3)
    dst.backward(torch.tensor(diff))
    attributes = {"begin_norm_axis": 1, "epsilon": 1e-3}
    got = run("LayerNorm", [x, gamma, beta], attributes, x.shape, (3,), (3,))
    agree(got[0], dst)
    got = run(
        "LayerNormBackward",
        [x, diff, got[1], got[2], gamma, beta],
        attributes,
        x.shape,
        (4, 5),
        (4, 5),
    )
    for ours, tensor in zip(got, tensors, strict=True):
        np.testing.assert_allclose(ours, tensor.grad.numpy(), atol=1e-5)
    plain = run("LayerNorm", [x], {"use_affine": False, "keep_stats": False})
    agree(plain[0], F.layer_norm(torch.tensor(x), (5,)))
    expected = F.rms_norm(torch.tensor(x), (5,), torch.tensor(gamma[0]), eps=1e-5)
    agree(run("RMSNorm", [x, gamma[0]], {})[0], expected)


def test_group_norm(rng):
    x, gamma, beta = rng.standard_normal((2, 6, 5)), rng.standard_normal(6), rng.standard_normal(6)
    expected = F.group_norm(*map(torch.tensor, (x,)), 3, torch.tensor(gamma), torch.tensor(beta))
    attributes = {"groups": 3, "data_format": "NCX"}
    got = run("GroupNorm", [x, gamma, beta], attributes, x.shape, (2, 3), (2, 3))
    agree(got[0], expected)
    moved = run("GroupNorm", [np.moveaxis(x, 1, 2), gamma, beta], {"groups": 3, "keep_stats": False})
    agree(np.moveaxis(moved[0], 2, 1), expected)


def test_softmax(rng):
    x, diff = rng.standard_normal((3, 4, 5)), rng.standard_normal((3, 4, 5))
    for kind, theirs, axis in (("SoftMax", F.softmax, 1), ("LogSoftmax", F.log_softmax, -1)):
        dst, expected = gradient(lambda t, f=theirs, a=axis: f(t, a), x, diff)
        agree(run(kind, [x], {"axis": axis})[0], dst)
        agree(run(f"{kind}Backward", [diff, dst], {"axis": axis})[0], expected)
    stats = run("SoftMax", [x], {"axis": 2}, x.shape, (3, 4, 1))[1]
    agree(stats, torch.logsumexp(torch.tensor(x), 2, keepdim=True))
    x[0, 0] = -np.inf
    assert not run("SoftMax", [x], {"axis": 2, "mode": "inf_as_zero"})[0][0, 0].any()
    assert np.isnan(run("SoftMax", [x], {"axis": 2})[0][0, 0]).all()


def test_prelu(rng):
    x, diff, slope = rng.standard_normal((2, 3, 4)), rng.standard_normal((2, 3, 4)), rng.random(3)
    tensors = [torch.tensor(p, requires_grad=True) for p in (x, slope)]
    dst = F.prelu(*tensors)
    dst.backward(torch.tensor(diff))
    agree(run("PReLU", [x, slope], {"data_format": "NCX"})[0], dst)
    got = run("PReLUBackward", [x, slope, diff], {"data_format": "NCX"}, x.shape, (3,))
    agree(got[0], tensors[0].grad)
    agree(got[1], tensors[1].grad)
    got = run("PReLUBackward", [x, slope.reshape(3, 1), diff], {}, x.shape, (3, 1))
    agree(got[1][:, 0], tensors[1].grad)


def test_matmul(rng):
    a, b, bias = rng.standard_normal((2, 1, 5, 4)), rng.standard_normal((3, 6, 5)), rng.standard_normal(6)
    expected = torch.tensor(a).mT @ torch.tensor(b).mT + torch.tensor(bias)
    attributes = {"transpose_a": True, "transpose_b": True}
    agree(run("MatMul", [a, b, bias], attributes, expected.shape)[0], expected)


def test_quantization_per_channel():
    x = np.array([[0.5, 1.5, -300.0], [2.5, -2.5, 1e9]], np.float32)
    attributes = {"qtype": "per_channel", "axis": 0, "scales": [1.0, 0.5], "zps": [0, 3]}
    q = evaluate("Quantize", [x], attributes, [Slot("s8", x.shape)])[0]
    np.testing.assert_array_equal(q, [[0, 2, -128], [8, -2, 127]])
    back = evaluate("Dequantize", [q], attributes, [Slot("f32", x.shape)])[0]
    np.testing.assert_array_equal(back, [[0, 2, -128], [2.5, -2.5, 62]])
    q = evaluate("Quantize", [x], {"scales": [0.5], "zps": [10]}, [Slot("u8", x.shape)])[0]
    np.testing.assert_array_equal(q, [[11, 13, 0], [15, 5, 255]])


def test_dynamic_dequantization_by_group(rng):
    q = rng.integers(-8, 8, (2, 8)).astype(np.int8)
    scales, zeros = rng.random((2, 2)).astype(np.float32), rng.integers(-8, 8, (2, 2)).astype(np.int8)
    attributes = {"qtype": "per_group", "group_shape": [1, 4], "axis": 1}
    got = evaluate("DynamicDequantize", [q, scales, zeros], attributes, [Slot("f32", q.shape)])[0]
    expected = (q.reshape(2, 2, 4) - zeros[..., None].astype(float)) * scales[..., None]
    np.testing.assert_array_equal(got, expected.reshape(2, 8).astype(np.float32))
    got = evaluate("DynamicQuantize", [got, scales[0, :1]], {}, [Slot("s8", q.shape)])[0]
    assert got.dtype == np.int8


def test_movement(rng):
    x = rng.standard_normal((2, 3, 4))
    agree(run("StaticReshape", [x], {"shape": [0, -1], "special_zero": True}, (2, 12))[0], x.reshape(2, 12))
    agree(run("StaticTranspose", [x], {"order": [2, 0, 1]}, (4, 2, 3))[0], x.transpose(2, 0, 1))
    agree(run("Concat", [x, x, x], {"axis": -1}, (2, 3, 12))[0], np.concatenate([x, x, x], -1))
    agree(run("GenIndex", [x], {"axis": 1})[0], np.broadcast_to(np.arange(3)[:, None], x.shape))
    agree(run("Select", [x[:, :1] > 0, x, np.zeros(1)], {}, x.shape)[0], np.where(x[:, :1] > 0, x, 0))
    agree(run("BiasAdd", [x, np.arange(3.0)], {"data_format": "NCX"})[0], x + np.arange(3.0)[:, None])
    agree(run("BiasAddBackward", [x], {"data_format": "NCX"}, (3,))[0], x.sum(axis=(0, 2)))


def test_philox_known_answer():
    # first lines of the authors' own list of answers: all zeros, then all ones
    assert [hex(v) for v in philox(np.arange(4), 0, 0)] == [
        "0x6627e8d5",
        "0xe169c58d",
        "0xbc57ac4c",
        "0x9b00dbd8",
    ]


def test_dropout_keeps_about_its_share():
    x = np.ones(20000, np.float32)
    inputs = [x, np.array([12345]), np.array([7]), np.array([0.25], np.float32)]
    dst, mask = evaluate("Dropout", inputs, {}, [Slot("f32", x.shape), Slot("u8", x.shape)])
    assert abs(mask.mean() - 0.75) < 0.02
    np.testing.assert_array_equal(dst, mask * np.float32(1 / 0.75))


def test_graph_in_any_order_of_ops():
    def tensor(i):
        return {"id": i, "dtype": "f32", "shape": [2], "stride": [1]}

    graph = {
        "graph": [
            {
                "name": "last",
                "kind": "Add",
                "attrs": {},
                "inputs": [tensor(2), tensor(5)],
                "outputs": [tensor(3)],
            },
            {
                "name": "first",
                "kind": "LeakyReLU",
                "attrs": {"alpha": {"type": "f32", "value": 0.5}},
                "inputs": [tensor(1)],
                "outputs": [tensor(2)],
            },
        ]
    }
    assert (inputs_of(graph), outputs_of(graph)) == ([5, 1], [3])
    values = evaluate_graph(graph, {1: np.array([-2, 4], "f4"), 5: np.array([10, 20], "f4")})
    np.testing.assert_array_equal(values[3], [9, 24])
