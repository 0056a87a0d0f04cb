"""Every pair of weights formats, against the definitions written out axis by axis."""

import numpy as np
import pytest
from reference import conv_transpose as ct

import dnnl_graph_ops as dgo

IC, OC, KERNEL = 4, 6, (3, 2)
NAMES = (
    "IOX",
    "XOI",
    "OIX",
    "XIO",
    "pytorch",
    "onnx",
    "keras",
    "megengine",
    "documented_iox",
    "documented_xoi",
)


def written(weights: np.ndarray, name: str, groups: int) -> np.ndarray:
    """(IC, OC/g, k...) in the named format."""
    if name.startswith("documented"):
        return ct.documented(weights, name.split("_")[1], groups)
    if name == "megengine" and groups > 1:
        return weights.reshape(groups, IC // groups, *weights.shape[1:])
    plain = {"pytorch": "IOX", "onnx": "IOX", "megengine": "IOX", "keras": "XOI"}
    return ct.from_iox(weights, plain.get(name, name))


@pytest.mark.sweep(1)
@pytest.mark.parametrize("groups", [1, 2])
@pytest.mark.parametrize("target", NAMES)
@pytest.mark.parametrize("source", NAMES)
def test_convert_weights(source, target, groups):
    size = (IC, OC // groups, *KERNEL)
    weights = np.arange(np.prod(size), dtype=np.float32).reshape(size)
    given = written(weights, source, groups)
    result = dgo.convert_weights(given, source, target, groups=groups)
    np.testing.assert_array_equal(result, written(weights, target, groups))
    if groups == 1:
        assert np.shares_memory(result, given), "strides express it"


def test_an_unknown_format_is_named():
    with pytest.raises(dgo.InvalidArgumentError, match="OXI"):
        dgo.convert_weights(np.zeros((2, 2, 3)), "OXI", "IOX")
