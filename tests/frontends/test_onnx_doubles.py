"""Convolutions in f64, which ONNX Runtime lacks: small integers, equal to its results in f32."""

import numpy as np
import pytest

pytest.importorskip("onnx", reason="needs the extra 'onnx'")
pytest.importorskip("onnxruntime", reason="the reference")

from .models import reference
from .one_node import node, proto_of, run

EACH = 5


def drawn(rng, kind):
    """Attributes, data, weights and bias of a layer of one or two axes."""
    rank, groups = int(rng.integers(1, 3)), int(rng.choice([1, 2, 3]))
    inner, outer = (int(rng.integers(1, 3)) for _ in range(2))
    space, kernel = rng.integers(3, 7, rank).tolist(), rng.integers(1, 4, rank).tolist()
    strides, dilations = rng.integers(1, 3, rank).tolist(), [1] * rank
    attrs = {"group": groups, "strides": strides, "dilations": dilations, "pads": rng.integers(0, 2, 2 * rank).tolist()}
    shape = (outer * groups, inner, *kernel)
    if kind == "ConvTranspose":
        shape = (inner * groups, outer, *kernel)
        attrs["output_padding"] = [int(rng.integers(0, s)) for s in strides]
        if rng.random() < 0.3:
            del attrs["pads"]
            full = [s * (n - 1) + k for s, n, k in zip(strides, space, kernel, strict=True)]
            attrs["output_shape"] = [n - int(rng.integers(0, 2)) for n in full]
            attrs["output_padding"] = [0] * rank
    arrays = (rng.integers(-3, 4, sizes) for sizes in ((2, inner * groups, *space), shape, (outer * groups,)))
    return attrs, dict(zip("xwb", arrays, strict=True))


@pytest.mark.cases(5, 50, 500, each=EACH)
@pytest.mark.parametrize("way", ["sizes", "symbolic"])
@pytest.mark.parametrize("kind", ["Conv", "ConvTranspose"])
def test_as_in_f32(kind, way, start, seed):
    for case in range(start, start + EACH):
        attrs, arrays = drawn(np.random.default_rng((seed, case)), kind)
        nodes = [node(kind, "x w b", **attrs)]
        narrow, wide = ({name: array.astype(t) for name, array in arrays.items()} for t in (np.float32, np.float64))
        (wanted,) = reference(proto_of(nodes, narrow), narrow)
        (result,) = run(proto_of(nodes, wide, way=way), wide)
        assert result.dtype == np.float64
        np.testing.assert_array_equal(result, wanted, err_msg=f"--seed={seed}, case {case}: {attrs}")


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
@pytest.mark.parametrize("power", [1, 2, 3, 5])
def test_norms_of_channels(power, dtype, rng):
    """GlobalLpPool; onnx's reference implementation lacks it."""
    x = rng.standard_normal((2, 3, 4, 5)).astype(dtype)
    wanted = (np.abs(x.astype(np.float64)) ** power).sum((2, 3), keepdims=True) ** (1 / power)
    for way in ("sizes", "symbolic", "folded"):
        (result,) = run(proto_of([node("GlobalLpPool", "x", p=power)], {"x": x}, way=way), {"x": x})
        assert result.dtype == dtype
        np.testing.assert_allclose(result, wanted, rtol=8 * np.finfo(dtype).eps)
