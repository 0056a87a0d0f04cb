"""conv_transpose_output_shape and convolution_output_shape: equal to what runs, and free of the library."""

import numpy as np
import pytest
from children import child

import dnnl_graph_ops as dgo

SETTINGS = [
    {},
    {"strides": (2, 3), "pads_begin": 1, "pads_end": (0, 1)},
    {"strides": 2, "output_padding": 1, "dilations": (2, 1)},
    {"strides": 2, "output_padding": (5, 0), "pads_end": 1},
    {"strides": 2, "auto_pad": "SAME_UPPER", "pads_begin": 9},
    {"strides": (1, 3), "auto_pad": "same_lower"},
    {"strides": 5, "auto_pad": "valid"},
    {"groups": 3},
]
PYTORCH = {"data_format": "NCX", "weights_format": "oix"}
WITHOUT_LIBRARY = """
import dnnl_graph_ops as dgo
print(dgo.conv_transpose_output_shape((1, 4, 4, 3), (4, 4, 5, 3), strides=2, pads_begin=1, pads_end=1))
print(dgo.convolution_output_shape((1, 8, 8, 3), (4, 4, 3, 5), strides=2))
"""


@pytest.mark.sweep
@pytest.mark.parametrize("attributes", SETTINGS)
@pytest.mark.parametrize("data_format", ["NXC", "NCX"])
@pytest.mark.parametrize("weights_format", ["IOX", "XOI", "OIX", "XIO"])
def test_equals_what_runs(attributes, data_format, weights_format):
    src = np.zeros((2, 4, 5, 6) if data_format == "NXC" else (2, 6, 4, 5), np.float32)
    iox = np.zeros((6, 2, 3, 4), np.float32)
    weights = dgo.convert_weights(iox, "IOX", weights_format, groups=attributes.get("groups", 1))
    options = {**attributes, "data_format": data_format, "weights_format": weights_format}
    dst = dgo.conv_transpose(src, weights, **options)
    assert dgo.conv_transpose_output_shape(src.shape, weights.shape, **options) == dst.shape
    assert dgo.conv_transpose_output_shape(np.array(src.shape), list(weights.shape), **options) == dst.shape


@pytest.mark.parametrize(
    ("src", "weights", "attributes", "expected"),
    [
        ((1, 7, 3), (4, 5, 3), {"strides": 2}, (1, 16, 5)),
        ((None, 7, 3), (4, 5, 3), {"strides": 2}, (None, 16, 5)),
        ((2, None, 3), (4, 5, 3), {"strides": 2}, (2, None, 5)),
        ((2, 7, None), (None, 5, 3), {}, (2, None, 5)),
        ((0, 7, 3), (4, 5, 3), {}, (0, 10, 5)),
        ((1, 2, 2, 2, 4), (2, 2, 2, 3, 4), {"strides": 2, "groups": 2}, (1, 4, 4, 4, 6)),
        # the grouped shape that the op's pages print: (k..., OC, IC/groups)
        ((1, 2, 2, 2, 4), (2, 2, 2, 6, 2), {"strides": 2, "groups": 2}, (1, 4, 4, 4, 6)),
    ],
)
def test_stated_results(src, weights, attributes, expected):
    assert dgo.conv_transpose_output_shape(src, weights, **attributes) == expected


@pytest.mark.parametrize(
    ("src", "weights", "attributes", "error", "words"),
    [
        ((1, 3), (4, 5, 3), {}, dgo.ShapeError, "rank"),
        ((1, 7, 3), (4, 4, 5, 3), {}, dgo.ShapeError, "rank 4"),
        ((1, 7, 3), (4, 5, 2), {}, dgo.ShapeError, "3 input channels"),
        ((1, 1, 3), (2, 5, 3), {"pads_begin": 9}, dgo.ShapeError, "lower the pads"),
        ((1, 7, 3), (4, 5, 3), {"strides": (1, 2)}, dgo.ShapeError, "'strides' has 2 values"),
        ((1, 7, 3), (4, 5, 3), {"groups": 2}, dgo.ShapeError, "groups=2"),
        ((1, 2**62, 3), (4, 5, 3), {"strides": 4}, dgo.ShapeError, "64"),
        ((1, -7, 3), (4, 5, 3), {}, dgo.ShapeError, "-7"),
        ((1, 7.0, 3), (4, 5, 3), {}, TypeError, "src_shape"),
        ("173", (4, 5, 3), {}, TypeError, "src_shape"),
        ((1, 7, 3), (4, 5, 3), {"auto_pad": "some"}, dgo.InvalidArgumentError, "'auto_pad'"),
    ],
)
def test_mistakes(src, weights, attributes, error, words):
    with pytest.raises(error, match=words):
        dgo.conv_transpose_output_shape(src, weights, **attributes)


@pytest.mark.parametrize(
    ("src", "weights", "attributes", "expected"),
    [
        ((1, 7, 3), (4, 3, 5), {"strides": 2}, (1, 2, 5)),
        ((None, 7, 3), (4, 3, 5), {"strides": 2}, (None, 2, 5)),
        ((2, None, 3), (4, 3, 5), {"strides": 2}, (2, None, 5)),
        ((2, None, 7, None), (3, 3, 7, 5), {}, (2, None, 5, 5)),
        ((2, 7, None), (None, 3, 5), {}, (2, None, 5)),
        ((2, None, 7), (3, 7, None), {"auto_pad": "same_upper"}, (2, None, None)),
        ((0, 7, 3), (4, 3, 5), {}, (0, 4, 5)),
        ((2, 0, 3), (4, 3, 5), {"pads_begin": 4}, (2, 1, 5)),
        (
            (1, 4, 6, 6, 6),
            (8, 2, 3, 1, 2),
            {"groups": 2, "data_format": "NCX", "weights_format": "oix"},
            (1, 8, 4, 6, 5),
        ),
        ((1, 7, 3), (4, 3, 5), {"strides": 3, "auto_pad": "same_lower", "pads_begin": 9}, (1, 3, 5)),
    ],
)
def test_stated_results_of_convolution(src, weights, attributes, expected):
    assert dgo.convolution_output_shape(src, weights, **attributes) == expected


@pytest.mark.parametrize(
    ("src", "weights", "attributes", "error", "words"),
    [
        ((1, 4), (3, 4, 6), {}, dgo.ShapeError, "rank 2"),
        ((1, 7, 3), (4, 4, 3, 5), {}, dgo.ShapeError, "weights has 4 axes"),
        ((1, 7, 3), (4, 2, 5), {}, dgo.ShapeError, "src has 3 channels"),
        ((1, 2, 3), (4, 3, 5), {}, dgo.ShapeError, "reaches over 4 elements, but src has 2"),
        ((1, 7, 3), (0, 3, 5), {}, dgo.ShapeError, "kernel of size 0"),
        ((1, -7, 3), (4, 3, 5), {}, dgo.ShapeError, "'src_shape' .* negative size -7"),
        ((-1, 7, 3), (4, 3, 5), {}, dgo.ShapeError, "'src_shape' .* negative size -1"),
        ((1, 7, 3), (-4, 3, 5), {}, dgo.ShapeError, "'weights_shape' .* negative size -4"),
        ((1, 7, 3), (4, 3, -5), {}, dgo.ShapeError, "'weights_shape' .* negative size -5"),
        ((1, 2**62, 3), (4, 3, 5), {}, dgo.ShapeError, "more bytes than 64 bits"),
        ((1, 7.0, 3), (4, 3, 5), {}, TypeError, "src_shape"),
        ("173", (4, 3, 5), {}, TypeError, "src_shape"),
        ((1, 7, 3), (4, 3, 5), {"output_padding": 1}, TypeError, "no argument 'output_padding'"),
    ],
)
def test_mistakes_of_convolution(src, weights, attributes, error, words):
    with pytest.raises(error, match=words):
        dgo.convolution_output_shape(src, weights, **attributes)


@pytest.mark.child
def test_needs_no_library(tmp_path):
    done = child("-c", WITHOUT_LIBRARY, DNNL_GRAPH_OPS_LIBRARY=str(tmp_path / "absent.so"))
    assert done.stdout.splitlines() == ["(1, 8, 8, 5)", "(1, 3, 3, 5)"], done.stderr
