"""The transposed convolutions of published models at their true channels and kernels.

The batch is 1 beyond a quarter of a gmac, and the longest axis is halved until a layer has at most
`LIMIT` gmac and `PLACES` source positions. With --random=full only layers beyond `LIMIT_ALL` gmac are halved:
StyleGAN2/up_64_129_b4, DAC_44k/up_384_r4, PSMNet/hourglass.conv6.
"""

import math

import numpy as np
import pytest
from reference import conv_transpose as ct
from reference.data import integers, unwritten
from reference.rounding import DTYPES, ulp_error

import dnnl_graph_ops as dgo

from .cases import named, needed, read_json

peer = pytest.importorskip("reference.peer", reason="needs PyTorch")

LAYERS = read_json("real_layers.json")
LIMIT, LIMIT_ALL, LARGE = 0.4, 2.2, 0.25
PLACES = 1 << 14

pytestmark = [needed, pytest.mark.corpus]


def gmacs(layer, batch, spatial):
    per_place = layer["IC"] * layer["OC"] // layer["groups"] * math.prod(layer["K"])
    return batch * per_place * math.prod(spatial) / 1e9


def reduced(layer, full):
    """Batch and spatial size to run."""
    limit, places = (LIMIT_ALL, math.inf) if full else (LIMIT, PLACES)
    batch, spatial = layer["N"], list(layer["spatial"])
    if gmacs(layer, batch, spatial) > LARGE:
        batch = 1
    while gmacs(layer, batch, spatial) > limit or math.prod(spatial) > places:
        longest = spatial.index(max(spatial))
        spatial[longest] = (spatial[longest] + 1) // 2
    return batch, tuple(spatial)


@pytest.mark.parametrize("layer", named(LAYERS, "id"))
def test_three_directions(layer, full):
    """Exact in f32 (every partial sum stays below 2**24), within one unit in the last place in bf16."""
    batch, spatial = reduced(layer, full)
    attributes = {
        "strides": layer["S"],
        "dilations": layer["D"],
        "pads_begin": layer["P"],
        "pads_end": layer["P_end"],
        "output_padding": layer["OP"],
        "groups": layer["groups"],
    }
    rng = np.random.default_rng(len(layer["id"]))
    shape = (layer["IC"], layer["OC"] // layer["groups"], *layer["K"])
    output = ct.output_spatial(spatial, layer["K"], ct.setting(layer["K"], **attributes))
    src, weights = integers(rng, (batch, layer["IC"], *spatial), limit=2), integers(rng, shape, limit=2)
    bias, diff = integers(rng, layer["OC"]), integers(rng, (batch, layer["OC"], *output), limit=2)
    truth = peer.run(src, weights, bias, diff, dtype=peer.torch.float32, **attributes)
    assert batch != layer["N"] or spatial != tuple(layer["spatial"]) or output == tuple(layer["out"])
    for dtype in ("f32", "bf16"):
        check(src, weights, bias, diff, truth, dtype, attributes)


def check(src, weights, bias, diff, truth, dtype, attributes):
    def last(array):
        return np.ascontiguousarray(np.moveaxis(array, 1, -1))

    kind = DTYPES[dtype]
    x, b, dy = (a.astype(kind) for a in (last(src), bias, last(diff)))
    w = np.ascontiguousarray(ct.from_iox(weights, "XOI")).astype(kind)
    dst, diff_src, diff_weights = (unwritten(a.shape, dtype) for a in (dy, x, w))
    dgo.conv_transpose(x, w, b, out=dst, **attributes)
    dgo.conv_transpose_backward_data(dy, w, out=diff_src, **attributes)
    dgo.conv_transpose_backward_weights(x, dy, w.shape, out=diff_weights, **attributes)
    errors = [
        ulp_error(dst, last(truth.dst), dtype),
        ulp_error(diff_src, last(truth.diff_src), dtype),
        ulp_error(diff_weights, ct.from_iox(truth.diff_weights, "XOI"), dtype),
    ]
    assert max(errors) <= (dtype != "f32"), "units in the last place: dst, diff_src, diff_weights"


def test_all_layers_are_there():
    assert len(LAYERS) == 40
