"""Types of QuantizeLinear and DequantizeLinear, ONNX's and ONNX Runtime's own, bit for bit."""

import numpy as np
import pytest

pytest.importorskip("onnx", reason="needs the extra 'onnx'")
pytest.importorskip("onnxruntime", reason="the reference")

from .models import reference
from .one_node import WAYS, agree, node, proto_of, run

MICROSOFT = "com.microsoft"


def integers(rng, kind, *shape):
    limits = np.iinfo(kind)
    return rng.integers(limits.min, limits.max + 1, shape).astype(kind)


@pytest.mark.parametrize("scale", [np.float16, np.float32])
@pytest.mark.parametrize("kind", [np.int8, np.uint8, np.int32])
def test_the_result_has_the_type_of_the_scale(rng, kind, scale):
    q = integers(rng, np.uint8, 4, 6).astype(kind)
    by = {"s": scale([0.5])} if kind is np.int32 else {"s": scale([0.5, 0.3, 1, 2]), "z": np.arange(4).astype(kind)}
    agree([node("DequantizeLinear", " ".join(["q", *by]), axis=0)], {"q": q}, by, opset=19)


@pytest.mark.parametrize("scale", [np.float16, np.float32])
def test_weights_in_f16(rng, scale):
    nodes = [node("DequantizeLinear", "q s z", "w"), node("MatMul", "x w")]
    x, q = integers(rng, np.int8, 3, 4).astype(scale) / 64, integers(rng, np.int8, 4, 6)
    known = {"q": q, "s": scale(0.125).reshape(()), "z": np.array(3, np.int8)}
    agree(nodes, {"x": x}, known, opset=19, literal=True, tolerance=2e-3)


@pytest.mark.parametrize("tune", ["off", "heuristic"])
@pytest.mark.parametrize("axis", range(4))
@pytest.mark.parametrize("kind", ["Conv", "ConvTranspose"])
def test_weights_with_scales_along_any_axis(rng, kind, axis, tune):
    """The library reads scales along another axis than the output channels beyond their vector."""
    w = integers(rng, np.int8, 8, 8, 3, 3)
    nodes = [
        node("DequantizeLinear", "q s z", "x"),
        node("DequantizeLinear", "w ws wz", "v", axis=axis),
        node(kind, "x v"),
    ]
    scales = (2.0 ** rng.integers(-3, 3, w.shape[axis])).astype(np.float32)
    known = {"s": np.float32(0.5), "z": np.uint8(3), "w": w, "ws": scales, "wz": np.zeros(len(scales), np.int8)}
    q = {"q": integers(rng, np.uint8, 1, 8, 6, 6)}
    proto = proto_of(nodes, q, known)
    (result,), (wanted,) = run(proto, q, tune=tune), reference(proto, q)
    np.testing.assert_allclose(result, wanted, rtol=0, atol=2e-6 * np.abs(wanted).max())


@pytest.mark.parametrize("scale", [np.float16, np.float32])
@pytest.mark.parametrize("kind", [np.int8, np.uint8, np.int16, np.uint16])
def test_those_of_onnx_runtime(rng, kind, scale):
    """What tools write for 16 bits and for f16 before ONNX's have them, in models of any opset."""
    first = node("QuantizeLinear", "x s z", "q", domain=MICROSOFT)
    last = node("DequantizeLinear", "q s z", domain=MICROSOFT)
    # no ties
    x = {"x": integers(rng, np.int8, 4, 6).astype(scale) / 8 + scale(0.01)}
    by = {"s": scale(0.125).reshape(()), "z": np.array(7, kind)}
    for nodes, feeds in (([first], x), ([first, last], x), ([last], {"q": integers(rng, kind, 4, 6)})):
        agree(nodes, feeds, by, opset=13, domains=[MICROSOFT])
    rows = node("DequantizeLinear", "q s z", axis=0, domain=MICROSOFT)
    by = {"s": scale([0.5, 0.25, 0.7, 2]), "z": np.arange(4).astype(kind)}
    agree([rows], {"q": integers(rng, kind, 4, 6)}, by, opset=11, domains=[MICROSOFT])


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("saturate", [0, 1])
@pytest.mark.parametrize("kind", [17, 18, 19, 20])
def test_floats_of_8_bits(kind, saturate, way):
    """Beyond their largest, Cast holds them there or makes them infinite or NaN, as it is told."""
    x = np.float32([0, 1, 0.3, -449, 700, 1e9, -1e9, 57345, np.nan, np.inf])
    nodes = [node("Cast", "x", "q", to=kind, saturate=saturate), node("Cast", "q", to=1)]
    agree(nodes, {"x": x}, opset=19, ways=[way])


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("kind", [21, 22])
def test_integers_of_4_bits(kind, way):
    x = np.float32([0, 1, 2.25, 5, 7])
    agree([node("Cast", "x", "q", to=kind), node("Cast", "q", to=1)], {"x": x}, opset=21, ways=[way])
