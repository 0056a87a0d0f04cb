"""Results of Keras' own tests of its transposed convolutions: NXC data, XOI weights."""

import numpy as np
import pytest

import dnnl_graph_ops as dgo

from .cases import FOLDER, named, needed, read_json

CASES = read_json("keras_conv_transpose.json")

pytestmark = [needed, pytest.mark.corpus]


@pytest.fixture(scope="module")
def arrays():
    with np.load(FOLDER / "keras_conv_transpose.npz") as stored:
        yield dict(stored)


@pytest.mark.parametrize("case", named(CASES, "key"))
def test_stored_result(case, arrays):
    x, w, b, y = (arrays[f"{case['key']}.{part}"] for part in "xwby")
    attributes = case["onednn_graph_attrs"]
    out = np.full(y.shape, np.nan, np.float32)
    dgo.conv_transpose(x, w, b, out=out, **attributes)
    np.testing.assert_allclose(out, y, rtol=1e-5, atol=1e-5)
    np.testing.assert_array_equal(dgo.conv_transpose(x, w, b, **attributes), out)


def test_all_cases_are_there():
    assert len(CASES) == 90
