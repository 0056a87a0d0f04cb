"""DynamicQuantizeLinear, MatMulInteger and ConvInteger, as ONNX Runtime's `quantize_dynamic` writes them."""

from __future__ import annotations

import numpy as np
import pytest
from backends.test_int8_nets import OWN
from onnx import TensorProto, helper, numpy_helper
from reference import convolution as conv

import dnnl_graph_ops as dgo

Arrays = dict[str, np.ndarray]
KINDS = ["MatMulInteger", "ConvInteger"]


def model(kind: str, shape: tuple[int, ...], arrays: Arrays, outputs: tuple[str, ...] = ("y",), **attrs):
    """x, ranged, times the weights "w", cast and scaled, plus "bias"."""
    points = ["wz"] * ("wz" in arrays)
    nodes = [
        helper.make_node("DynamicQuantizeLinear", ["x"], ["q", "s", "z"]),
        helper.make_node("Mul", ["s", "ws"], ["scales"]),
        helper.make_node(kind, ["q", "w", "z", *points], ["sums"], **attrs),
        helper.make_node("Cast", ["sums"], ["floats"], to=TensorProto.FLOAT),
        helper.make_node("Mul", ["floats", "scales"], ["scaled"]),
        helper.make_node("Add", ["scaled", "bias"], ["y"]),
    ]
    kinds = {"sums": TensorProto.INT32, "z": TensorProto.UINT8, "q": TensorProto.UINT8}
    ends = [helper.make_tensor_value_info(name, kinds.get(name, TensorProto.FLOAT), None) for name in outputs]
    source = helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)
    held = [numpy_helper.from_array(array, name) for name, array in arrays.items()]
    graph = helper.make_graph(nodes, "dynamic", [source], ends, held)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)


def ranged(rng: np.random.Generator, shape: tuple[int, ...], scale: float, zero: int) -> tuple[np.ndarray, np.ndarray]:
    """Floats that are quantized by this scale and zero point without loss, and their integers less the zero point."""
    levels = rng.integers(0, 256, shape)
    levels.flat[:2] = 0, 255
    return ((levels - zero) * scale).astype(np.float32), levels - zero


def operands(rng: np.random.Generator, kind: str, dtype: type, *, channels: bool) -> Arrays:
    """Weights of small integers, whose sums f32 has exactly, with a zero point that 8 bits with a sign may lack."""
    made = 16
    shape = (24, made) if kind == "MatMulInteger" else (made, 8, 3, 3)
    beside = () if kind == "MatMulInteger" else (1, 1)
    zero = int(rng.integers(0, 256)) if dtype == np.uint8 else int(rng.integers(-128, 128))
    low, high = np.iinfo(dtype).min, np.iinfo(dtype).max
    count = (made, *beside) if channels else ()
    return {
        "w": rng.integers(low, high + 1, shape).astype(dtype),
        "wz": np.asarray(zero, dtype),
        "ws": (2.0 ** rng.integers(-4, 1, count)).astype(np.float32),
        "bias": rng.integers(-9, 10, (made, *beside)).astype(np.float32),
    }


def expected(kind: str, levels: np.ndarray, scale: float, arrays: Arrays, pads: int = 1) -> np.ndarray:
    zeros = arrays.get("wz", np.asarray(0)).astype(np.int64)
    w = arrays["w"].astype(np.int64) - (zeros.reshape(-1, 1, 1, 1) if kind == "ConvInteger" else zeros)
    if kind == "MatMulInteger":
        sums = levels @ w
    else:
        wide = np.pad(levels, ((0, 0), (0, 0), (pads, pads), (pads, pads)))
        windows = np.lib.stride_tricks.sliding_window_view(wide, (3, 3), (2, 3))
        sums = np.einsum("nchwij,ocij->nohw", windows, w)
    return sums * scale * arrays["ws"] + arrays["bias"]


@pytest.mark.isa
@pytest.mark.parametrize("channels", [False, True])
@pytest.mark.parametrize("dtype", [np.int8, np.uint8])
@pytest.mark.parametrize("kind", KINDS)
def test_exact_sums(kind: str, dtype: type, channels: bool, seed: int, amount) -> None:
    for number in range(amount(2, 20, 200)):
        rng = np.random.default_rng((seed, number))
        arrays = operands(rng, kind, dtype, channels=channels)
        if channels and number % 2:
            arrays["wz"] = rng.integers(np.iinfo(dtype).min, np.iinfo(dtype).max + 1, 16).astype(dtype)
        shape = (2, 5, 24) if kind == "MatMulInteger" else (2, 8, 6, 5)
        scale = float(2.0 ** rng.integers(-3, 2))
        x, levels = ranged(rng, shape, scale, int(rng.integers(0, 256)))
        attrs = {} if kind == "MatMulInteger" else {"pads": [1, 1, 1, 1]}
        net = dgo.from_onnx(model(kind, shape, arrays, **attrs)).compile()
        out = np.full(net(x).shape, np.nan, np.float32)
        np.testing.assert_array_equal(net(x, out=out), expected(kind, levels, scale, arrays))


@pytest.mark.parametrize("kind", KINDS)
def test_no_step_runs_in_numpy(kind: str) -> None:
    """Ranges, rounding and the product of integers are builtin code, with weights of every zero point."""
    rng = np.random.default_rng(0)
    for dtype in (np.int8, np.uint8):
        arrays = operands(rng, kind, dtype, channels=True)
        arrays["wz"] = rng.integers(np.iinfo(dtype).min, np.iinfo(dtype).max + 1, 16).astype(dtype)
        shape = (2, 5, 24) if kind == "MatMulInteger" else (2, 8, 6, 5)
        net = dgo.from_onnx(model(kind, shape, arrays)).compile()
        net(np.ones(shape, np.float32))
        told = net.explain()
        assert not any("NumPy" in step.implementation for step in told.steps)
        assert OWN.intersection(group.formulation for group in told.groups)


@pytest.mark.parametrize("outputs", [("y", "sums"), ("y", "floats"), ("y", "z", "q", "s")])
@pytest.mark.parametrize("kind", KINDS)
def test_what_else_reads_the_integers(kind: str, outputs: tuple[str, ...]) -> None:
    rng = np.random.default_rng(1)
    arrays = operands(rng, kind, np.int8, channels=True)
    shape = (2, 5, 24) if kind == "MatMulInteger" else (2, 8, 6, 5)
    x, levels = ranged(rng, shape, 0.5, 100)
    net = dgo.from_onnx(model(kind, shape, arrays, outputs)).compile()
    got = dict(zip(outputs, net(x), strict=True))
    want = expected(kind, levels, 0.5, arrays, 0)
    np.testing.assert_array_equal(got["y"], want)
    if "sums" in got:
        np.testing.assert_array_equal(got["sums"], (want - arrays["bias"]) / arrays["ws"] / 0.5)
    if "q" in got:
        np.testing.assert_array_equal(got["q"], levels + 100)
        assert (got["z"], got["s"], got["z"].shape) == (100, 0.5, ())


@pytest.mark.parametrize("shape", [(), (1,), (3, 0), (2, 3, 4), (2, 3, 4, 5, 2)])
def test_range_with_zero(shape: tuple[int, ...], seed: int) -> None:
    """Whatever the data, 0 is in the range; of zeros alone, or of nothing, the scale is 0."""
    node = helper.make_node("DynamicQuantizeLinear", ["x"], ["q", "s", "z"])
    kinds = {"q": TensorProto.UINT8, "s": TensorProto.FLOAT, "z": TensorProto.UINT8}
    ends = [helper.make_tensor_value_info(name, kind, None) for name, kind in kinds.items()]
    graph = helper.make_graph([node], "g", [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)], ends)
    net = dgo.from_onnx(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)).compile()
    rng = np.random.default_rng(seed)
    for low, high in ((-1, 1), (0, 0), (2, 3), (-3, -2), (0, 1e-30), (-1e30, 1e30)):
        x = rng.uniform(low, high, shape).astype(np.float32)
        least, most = np.minimum(x.min(initial=0), 0), np.maximum(x.max(initial=0), 0)
        scale = np.float32(most - least) / np.float32(255)
        zero = np.rint(-least / scale) if scale else np.float32(0)
        want = np.clip(np.rint(x / scale) + zero, 0, 255) if scale else np.zeros(shape)
        for got, exact in zip(net(x), (want, scale, zero), strict=True):
            np.testing.assert_array_equal(got, exact)
            assert got.shape == exact.shape


def test_unknown_sizes_and_many_readers() -> None:
    """As of a transformer: what one range gives three products read, of as many rows as the call has."""
    rng = np.random.default_rng(2)
    arrays = {f"w{i}": rng.integers(-128, 128, (16, 16)).astype(np.int8) for i in range(3)}
    arrays |= {"ws": np.asarray(0.25, np.float32)}
    nodes = [
        helper.make_node("DynamicQuantizeLinear", ["x"], ["q", "s", "z"]),
        helper.make_node("Mul", ["s", "ws"], ["scales"]),
    ]
    for i in range(3):
        nodes += [
            helper.make_node("MatMulInteger", ["q", f"w{i}", "z"], [f"sums{i}"]),
            helper.make_node("Cast", [f"sums{i}"], [f"floats{i}"], to=TensorProto.FLOAT),
            helper.make_node("Mul", ["scales", f"floats{i}"], [f"y{i}"]),
        ]
    ends = [helper.make_tensor_value_info(f"y{i}", TensorProto.FLOAT, None) for i in range(3)]
    source = helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", "t", 16])
    held = [numpy_helper.from_array(array, name) for name, array in arrays.items()]
    made = helper.make_graph(nodes, "three", [source], ends, held)
    net = dgo.from_onnx(helper.make_model(made, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)).compile()
    for shape in ((1, 1, 16), (2, 7, 16)):
        x, levels = ranged(rng, shape, 2.0, 9)
        for i, got in enumerate(net(x)):
            np.testing.assert_array_equal(got, levels @ arrays[f"w{i}"].astype(np.int64) * 0.5)
    assert sum(group.formulation in OWN for group in net.explain().groups) >= 3


def sums_of(kind: str, x: np.ndarray, feeds: Arrays, arrays: Arrays, **attrs):
    """A net of the product alone, with sums in s32: of x and `feeds`, which a call tells, and of known arrays."""
    names = ("x", "w", "xz", "wz")
    held = [numpy_helper.from_array(array, name) for name, array in arrays.items()]
    given = {"x": x, **feeds}
    infos = [
        helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(array.dtype), array.shape)
        for name, array in given.items()
    ]
    node = helper.make_node(kind, [name if name in given or name in arrays else "" for name in names], ["y"], **attrs)
    ends = [helper.make_tensor_value_info("y", TensorProto.INT32, None)]
    graph = helper.make_graph([node], "sums", infos, ends, held)
    return dgo.from_onnx(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 10)], ir_version=9)).compile()


@pytest.mark.isa
@pytest.mark.parametrize("told", [False, True])
@pytest.mark.parametrize("kind", KINDS)
def test_sums_in_32_bits(kind: str, told: bool, seed: int, amount) -> None:
    """Of more than the 24 bits of a float; the zero point of x is known, or the call tells it."""
    for number in range(amount(3, 20, 200)):
        rng = np.random.default_rng((seed, number))
        types = [np.dtype(str(rng.choice(["i1", "u1"]))) for _ in range(2)]
        (low, high), (w_low, w_high) = ((np.iinfo(one).min, np.iinfo(one).max) for one in types)
        zero, groups = int(rng.integers(low, high + 1)), int(rng.choice([1, 2]))
        if kind == "MatMulInteger":
            shape, w_shape, attrs = (*[(), (2,), (2, 3)][int(rng.integers(3))], 5, 1100), (1100, 18), {}
        else:
            shape, w_shape = (2, 256 * groups, 7, 6), (18, 256, 3, 3)
            attrs = {
                "group": groups,
                "pads": [1, 0, 1, 2],
                "strides": [2, 1],
                "dilations": [1, int(rng.choice([1, 2]))],
            }
        # most elements at an end of the range
        x, w = (
            rng.choice([a, b, b, int(rng.integers(a, b + 1))], size).astype(kinds)
            for kinds, a, b, size in ((types[0], low, high, shape), (types[1], w_low, w_high, w_shape))
        )
        zeros = rng.integers(w_low, w_high + 1, 18 if rng.random() < 0.5 else ()).astype(types[1])
        point = {"xz": np.asarray(zero, types[0])}
        arrays = {"w": w, "wz": zeros} if rng.random() < 0.8 else {"w": w}
        net = sums_of(kind, x, point if told else {}, arrays if told else arrays | point, **attrs)
        centred, shift = x.astype(np.int64) - zero, arrays.get("wz", np.zeros((), int)).astype(np.int64)
        if kind == "MatMulInteger":
            want = centred @ (w.astype(np.int64) - shift)
        else:
            wide = w - (shift.reshape(-1, 1, 1, 1) if shift.ndim else shift)
            sides = {"pads_begin": (1, 0), "pads_end": (1, 2), "groups": groups}
            sides |= {name: attrs[name] for name in ("strides", "dilations")}
            want = conv.forward(centred.astype(np.float64), wide.astype(np.float64), **sides,
                                data_format="NCX", weights_format="OIX")  # fmt: skip
        got = net.run({"x": x, **(point if told else {})})["y"]
        assert got.dtype == np.int32
        np.testing.assert_array_equal(got, want)
        assert not any("NumPy" in step.implementation for step in net.explain().steps)


def test_sums_that_no_kernel_has_are_numpys() -> None:
    """Zero points for each row of x, and more terms than 32 bits surely hold."""
    rng = np.random.default_rng(3)
    x, w = rng.integers(0, 256, (3, 8)).astype(np.uint8), rng.integers(-128, 128, (8, 4)).astype(np.int8)
    zeros = rng.integers(0, 256, 3).astype(np.uint8)
    net = sums_of("MatMulInteger", x, {}, {"w": w, "xz": zeros})
    np.testing.assert_array_equal(net(x), (x.astype(int) - zeros[:, None]) @ w.astype(int))
    long = np.ones((1, 33100), np.uint8)
    net = sums_of("MatMulInteger", long, {}, {"w": np.ones((33100, 2), np.int8)})
    np.testing.assert_array_equal(net(long), [[33100, 33100]])
