"""Modules understand the functions' words for their arguments, one spelling at a time."""

import inspect

import numpy as np
import pytest

import dnnl_graph_ops as dgo
from dnnl_graph_ops import nn

MODULES = sorted(nn.__all__)


@pytest.mark.parametrize("kind", MODULES)
def test_both_spellings_make_the_same_layer(kind):
    made = getattr(nn, kind)
    rank = int(kind[-2])
    theirs = made(2, 4, 3, stride=2, padding=1, dilation=2, data_format="NXC", dtype="bf16", rng=1)
    words = {"strides": [2] * rank, "pads_begin": 1, "pads_end": (1,) * rank, "dilations": 2}
    ours = made(2, 4, 3, **words, data_format="channels_last", dtype="bfloat16", rng=1)
    assert repr(ours) == repr(theirs)
    src = np.ones((1, *(9,) * rank, 2), ours.weight.dtype)
    np.testing.assert_array_equal(ours(src), theirs(src))


@pytest.mark.parametrize(
    ("words", "error", "said"),
    [
        ({"stride": 1, "strides": 1}, TypeError, "'stride' and 'strides' say the same; give it once, as 'stride'"),
        ({"padding": 0, "pads_begin": 0, "pads_end": 0}, TypeError, "'padding' and 'pads_begin' say the same"),
        ({"dilation": 1, "dilations": 1}, TypeError, "'dilation' and 'dilations' say the same"),
        ({"pads_end": 1}, TypeError, "'pads_end' pads one end of an axis, a module both alike; pass padding="),
        ({"pads_begin": 1, "pads_end": 2}, dgo.InvalidArgumentError, "pads_begin=1 and pads_end=2; use numpy.pad"),
        ({"pads_begin": (1, 1), "pads_end": (1, 1, 1)}, dgo.InvalidArgumentError, r"pads_end=\(1, 1, 1\)"),
        ({"stirde": 2}, TypeError, "has no argument 'stirde'; did you mean 'stride'?"),
        ({"group": 2}, TypeError, "has no argument 'group'; it is 'groups' here"),
        ({"dtype": "float64"}, dgo.InvalidArgumentError, "dtype 'float64' .* use 'f32'"),
    ],
    ids=str,
)
@pytest.mark.parametrize("kind", ["Conv2d", "ConvTranspose2d"])
def test_wrong_keywords(kind, words, error, said):
    with pytest.raises(error, match=f"^{kind}: .*{said}"):
        getattr(nn, kind)(2, 2, 3, **words)


def test_one_by_position_and_one_by_name():
    with pytest.raises(TypeError, match="multiple values for argument 'stride'"):
        nn.Conv2d(1, 1, 2, 1, strides=2)
    with pytest.raises(
        TypeError, match="Conv2d: missing a required argument: 'kernel_size'; its arguments are in_chan"
    ):
        nn.Conv2d(1, 1)


@pytest.mark.parametrize("kind", MODULES)
def test_the_signature_has_one_spelling(kind):
    names = inspect.signature(getattr(nn, kind)).parameters
    assert "stride" in names
    assert not {"strides", "pads_begin", "pads_end", "dilations", "words"} & set(names)
