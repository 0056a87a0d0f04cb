"""Attributes as users write them."""

import ml_dtypes
import numpy as np
import pytest

from dnnl_graph_ops import schema
from dnnl_graph_ops.errors import InvalidArgumentError

CONV = {"strides": 1, "pads_begin": 0, "pads_end": 0, "dilations": 1}


def conv(lenient=False, **changes):
    ranks = schema.attr_lengths("ConvTranspose", 4)
    return schema.normalise_attrs("ConvTranspose", CONV | changes, "conv_transpose 'up'", ranks=ranks, lenient=lenient)


def test_an_int_stands_for_all_spatial_axes():
    assert conv()["strides"] == (1, 1)


@pytest.mark.parametrize(
    "value", [[2, 3], (2, 3), np.array([2, 3]), np.array([2, 3], np.uint8), iter([2, 3]), [np.int64(2), 3]]
)
def test_all_kinds_of_integer_lists(value):
    strides = conv(strides=value)["strides"]
    assert strides == (2, 3)
    assert all(type(item) is int for item in strides)


@pytest.mark.parametrize("value", [np.int32(2), np.array(2)])
def test_numpy_scalars(value):
    assert conv(strides=value)["strides"] == (2, 2)


def test_defaults_are_filled_in_but_not_the_lists_that_the_library_fills():
    attrs = conv()
    assert attrs["auto_pad"] == "None"
    assert attrs["groups"] == 1
    assert attrs["data_format"] == "NXC"
    assert "output_padding" not in attrs


@pytest.mark.parametrize("text", ["same_upper", "SAME_UPPER", "Same_Upper"])
def test_strings_in_any_case(text):
    assert conv(auto_pad=text)["auto_pad"] == "SAME_UPPER"


def test_none_counts_as_not_given():
    assert conv(groups=None)["groups"] == 1
    with pytest.raises(InvalidArgumentError, match="'strides' of ConvTranspose is required"):
        conv(strides=None)


@pytest.mark.parametrize("value", [True, np.True_, 1.0, np.float32(1), "1", [1, True], [1, 2.0], {1: 2}, b"12"])
def test_no_int(value):
    with pytest.raises(TypeError, match="strides"):
        conv(strides=value)


@pytest.mark.parametrize("value", [2**63, -(2**63) - 1, pytest.param(10**5000, id="huge")])
def test_int_beyond_64_bits(value):
    with pytest.raises(InvalidArgumentError, match="64 bits"):
        conv(groups=value)


@pytest.mark.parametrize("value", [(1,), (1, 2, 3), [1] * 12, np.ones((2, 2), int)])
def test_wrong_lengths(value):
    with pytest.raises(InvalidArgumentError, match="strides"):
        conv(strides=value)


def test_long_lists_of_the_default_are_cut_for_files_only():
    assert conv(lenient=True, output_padding=[0] * 12)["output_padding"] == (0, 0)
    assert conv(lenient=True, output_padding=[1, 1] + [0] * 10)["output_padding"] == (1, 1)
    with pytest.raises(InvalidArgumentError, match="12 values for 2 spatial axes"):
        conv(output_padding=[0] * 12)
    with pytest.raises(InvalidArgumentError, match="12 values"):
        conv(lenient=True, output_padding=[0] * 11 + [1])


def test_an_unknown_name_gets_a_suggestion():
    with pytest.raises(InvalidArgumentError, match="'stride'; did you mean 'strides'"):
        conv(stride=2)


def test_an_unknown_kind_gets_a_suggestion():
    with pytest.raises(InvalidArgumentError, match="did you mean 'MatMul'"):
        schema.normalise_attrs("Matmul", {}, "op 3")


def test_an_unknown_choice_names_the_choices():
    with pytest.raises(InvalidArgumentError, match="must be one of NXC, NCX, got 'NHCW'"):
        conv(data_format="NHCW")
    with pytest.raises(TypeError, match="data_format must be a string"):
        conv(data_format=3)


def elu(value):
    return schema.normalise_attrs("Elu", {"alpha": value}, "elu")["alpha"]


@pytest.mark.parametrize(
    "value", [2, 2.0, np.float32(2), np.float16(2), np.int8(2), ml_dtypes.bfloat16(2), np.array(2.0)]
)
def test_floats(value):
    assert elu(value) == 2.0
    assert type(elu(value)) is float


def test_infinity_is_a_bound_but_nan_is_nothing():
    clamp = schema.normalise_attrs("Clamp", {"min": 0, "max": float("inf")}, "clamp")
    assert clamp["max"] == float("inf")
    with pytest.raises(InvalidArgumentError, match="alpha is NaN"):
        elu(float("nan"))


@pytest.mark.parametrize("value", [1e39, -1e39, pytest.param(10**5000, id="huge")])
def test_float_beyond_float32(value):
    with pytest.raises(InvalidArgumentError, match="float32"):
        elu(value)


@pytest.mark.parametrize("value", [True, "1.0", None.__class__, [1.0], 1j])
def test_no_float(value):
    with pytest.raises(TypeError, match="alpha"):
        elu(value)


def test_booleans():
    def keep(value, lenient=False):
        attrs = {"axes": [0], "keep_dims": value}
        return schema.normalise_attrs("ReduceSum", attrs, "sum", lenient=lenient)["keep_dims"]

    assert keep(True) is True
    assert keep(np.False_) is False
    assert keep(1, lenient=True) is True
    for wrong in (1, "true", 0.0):
        with pytest.raises(TypeError, match="keep_dims must be True or False"):
            keep(wrong)


def test_scales_of_any_number_and_one_scale_alone():
    scales = np.linspace(0.1, 1, 1000, dtype=np.float32)
    attrs = schema.normalise_attrs("Dequantize", {"scales": scales}, "dequantize")
    assert len(attrs["scales"]) == 1000
    assert schema.normalise_attrs("Dequantize", {"scales": 0.5}, "dequantize")["scales"] == (0.5,)


def test_a_shape_is_never_one_int():
    ranks = schema.attr_lengths("AvgPoolBackward", 4)
    attrs = {**CONV, "kernel": 2, "exclude_pad": True, "src_shape": 4}
    del attrs["dilations"]
    with pytest.raises(InvalidArgumentError, match="src_shape has 1 value for 4 axes"):
        schema.normalise_attrs("AvgPoolBackward", attrs, "pool", ranks=ranks)


def test_native_attrs_follow_the_version():
    gelu = schema.normalise_attrs("GELU", {}, "gelu")
    assert schema.native_attrs("GELU", gelu, (3, 2)) == {}
    assert schema.native_attrs("GELU", gelu, (3, 9)) == {"mode": "gelu_erf"}
    quantize = schema.normalise_attrs("Quantize", {"scales": [1, 2]}, "quantize")
    assert schema.native_attrs("Quantize", quantize, (3, 2, 0))["zps"] == (0, 0)
    assert "zps" not in schema.native_attrs("Quantize", quantize, (3, 4))


@pytest.mark.parametrize(
    ("scales", "error"),
    [
        ([1.0, float("nan")], InvalidArgumentError),
        ([1.0, 1e39], InvalidArgumentError),
        ([1.0, True], TypeError),
        ([1.0, "2"], TypeError),
    ],
)
def test_one_bad_number_among_many_is_refused(scales, error):
    with pytest.raises(error, match="scales"):
        schema.normalise_attrs("Dequantize", {"scales": [1.0] * 100 + scales, "zps": [0] * 102}, "dequantize")


def test_long_lists_keep_their_numbers():
    scales, zps = [0.5, float("inf"), 3], [0, -(1 << 63), (1 << 63) - 1]
    given = schema.normalise_attrs("Dequantize", {"scales": scales, "zps": zps}, "dequantize")
    assert given["scales"] == (0.5, float("inf"), 3.0) and given["zps"] == tuple(zps)
    assert {type(value) for value in given["scales"]} == {float}
    with pytest.raises(InvalidArgumentError, match="64 bits"):
        schema.normalise_attrs("Dequantize", {"scales": scales, "zps": [0, 1 << 63, 0]}, "dequantize")
