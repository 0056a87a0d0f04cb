"""The 117 transposed convolutions of the library's own test driver."""

import numpy as np
import pytest
from reference.data import integers, unwritten
from reference.rounding import DTYPES, ulp_error, wide

import dnnl_graph_ops as dgo

from .cases import named, needed, read_lines

peer = pytest.importorskip("reference.peer", reason="needs PyTorch")

PROBLEMS = read_lines("deconv_problems.jsonl")
ATTRIBUTES = ("strides", "dilations", "pads_begin", "pads_end", "output_padding", "groups")
BATCH = 2
LIMIT_GMACS = 0.1

pytestmark = [needed, pytest.mark.corpus]


def batches(problem):
    """Images of the problem and images that run."""
    images = problem["graph"]["src_shape_ncx"][0]
    return images, min(images, BATCH)


def is_small(problem):
    images, run = batches(problem)
    return problem["gmacs"] * run / images <= LIMIT_GMACS


SMALL = [p for p in PROBLEMS if is_small(p)]


def attributes_of(problem):
    return {name: problem["graph"][name] for name in ATTRIBUTES}


@pytest.mark.parametrize("problem", named(PROBLEMS, "desc"))
def test_shapes(problem):
    graph, attributes = problem["graph"], attributes_of(problem)
    n, ic, *spatial = graph["src_shape_ncx"]
    _, oc, *output = graph["dst_shape_ncx"]
    iox, xoi = graph["weights_shape_iox"], graph["weights_shape_xoi"]
    infer = dgo.conv_transpose_output_shape
    first = infer((n, ic, *spatial), iox, data_format="NCX", weights_format="IOX", **attributes)
    last = infer((n, *spatial, ic), xoi, data_format="NXC", weights_format="XOI", **attributes)
    assert (tuple(first), tuple(last)) == ((n, oc, *output), (n, *output, oc))


def agrees(actual, exact, dtype):
    if dtype == "f32":
        np.testing.assert_array_equal(wide(actual), exact)
    else:
        assert ulp_error(actual, exact, dtype) <= 1


@pytest.mark.parametrize("problem", named(SMALL, "desc"))
def test_three_directions(problem):
    """Exact in f32 (sums stay below 2**24), within one unit in the last place in bf16 and f16."""
    graph, attributes = problem["graph"], attributes_of(problem)
    rng = np.random.default_rng(len(problem["desc"]))
    source = (batches(problem)[1], *graph["src_shape_ncx"][1:])
    output = (source[0], *graph["dst_shape_ncx"][1:])
    src, weights, diff = (integers(rng, s) for s in (source, graph["weights_shape_iox"], output))
    truth = peer.run(src, weights, None, diff, dtype=peer.torch.float32, **attributes)
    assert truth.dst.shape == output
    formats = {"data_format": "NCX", "weights_format": "IOX"}
    for dtype in ("f32", "bf16", "f16"):
        x, w, dy = (a.astype(DTYPES[dtype]) for a in (src, weights, diff))
        dst, diff_src, diff_weights = (unwritten(a.shape, dtype) for a in (diff, src, weights))
        dgo.conv_transpose(x, w, out=dst, **formats, **attributes)
        dgo.conv_transpose_backward_data(dy, w, out=diff_src, **formats, **attributes)
        dgo.conv_transpose_backward_weights(x, dy, weights.shape, out=diff_weights, **formats, **attributes)
        agrees(dst, truth.dst, dtype)
        agrees(diff_src, truth.diff_src, dtype)
        agrees(diff_weights, truth.diff_weights, dtype)


def test_all_problems_are_there():
    assert (len(PROBLEMS), len(SMALL)) == (117, 79)
