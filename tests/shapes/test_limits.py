"""Ops that are valid by their pages: `unsupported` says no where the library says no, and nowhere else."""

import pytest

import dnnl_graph_ops as dgo
from dnnl_graph_ops import schema, shapes
from dnnl_graph_ops.shapes import Meta

from .library import compile_alone, engine

__all__ = ["engine"]

POOL = {"strides": 2, "pads_begin": 0, "pads_end": 0, "kernel": 2, "data_format": "NCX"}
CONV = {
    "strides": 1,
    "pads_begin": 0,
    "pads_end": 0,
    "dilations": 1,
    "data_format": "NCX",
    "weights_format": "OIX",
}
BATCH = {"epsilon": 1e-5, "data_format": "NCX"}
RESIZE = {"mode": "nearest", "sizes": (8,), "data_format": "NCX"}
CHANNELS = {"qtype": "per_channel", "axis": -1}
GROUPS = {"qtype": "per_group", "group_shape": (2, 1)}

# kind, shapes (f32) or Metas, attributes, dtype of the result
USES = [
    ("AvgPool", [(1, 2, 7)], POOL | {"exclude_pad": True, "rounding_type": "ceil"}, None),
    ("AvgPool", [(1, 2, 7)], POOL | {"exclude_pad": False, "rounding_type": "ceil"}, None),
    ("AvgPool", [(1, 2, 7)], POOL | {"exclude_pad": False, "pads_begin": 2}, None),
    ("AvgPool", [(1, 2, 7)], POOL | {"exclude_pad": True, "pads_begin": 2}, None),
    ("AvgPool", [(1, 2, 6)], POOL | {"exclude_pad": True, "rounding_type": "ceil", "kernel": 1}, None),
    ("AvgPoolBackward", [(1, 2, 4)], POOL | {"exclude_pad": True, "src_shape": (1, 2, 7)}, None),
    ("MaxPoolBackward", [(1, 2, 7), (1, 2, 4)], POOL, None),
    ("MaxPoolBackward", [(1, 2, 7), (1, 2, 3)], POOL, None),
    ("Convolution", [(1, 4, 6), (4, 2, 3)], CONV | {"groups": 2}, None),
    ("ConvolutionBackwardData", [(1, 4, 6), (4, 2, 3)], CONV | {"groups": 2}, None),
    ("ConvolutionBackwardData", [(1, 4, 6), (4, 2, 3)], CONV | {"strides": 2, "output_padding": 1}, None),
    (
        "ConvolutionBackwardData",
        [(1, 4, 6), (4, 2, 3)],
        CONV | {"strides": 2, "auto_pad": "same_lower"},
        None,
    ),
    (
        "ConvolutionBackwardWeights",
        [(1, 4, 8), (1, 4, 6)],
        CONV | {"groups": 2, "weights_shape": (4, 2, 3)},
        None,
    ),
    ("BatchNormInference", [(2, 5), *[(5,)] * 4], BATCH, None),
    ("BatchNormForwardTraining", [(2, 5, 3), *[(5,)] * 4], BATCH, None),
    ("BatchNormForwardTraining", [(2, 5, 3, 3), *[(5,)] * 3], BATCH, None),
    ("BatchNormForwardTraining", [(2, 5, 3, 3), *[(5,)] * 4], BATCH, None),
    ("BatchNormTrainingBackward", [(2, 5, 3), (2, 5, 3), *[(5,)] * 3], BATCH, None),
    ("BatchNormTrainingBackward", [(2, 3, 5), (2, 3, 5), *[(5,)] * 3], BATCH | {"data_format": "NXC"}, None),
    ("LayerNorm", [(2, 3, 4), (4,), (4,)], {}, None),
    ("LayerNorm", [(2, 3, 4), (4,), (4,)], {"use_affine": False}, None),
    ("LayerNorm", [(2,) * 5], {"use_affine": False, "keep_stats": False}, None),
    ("LayerNormBackward", [(2, 3), (2, 3), (2,), (2,), (3,)], {}, None),
    ("GroupNorm", [(2, 6, 4), (6,), (6,)], {"groups": 3, "data_format": "NCX"}, None),
    ("RMSNorm", [(2, 3, 4), (4,)], {}, None),
    ("RMSNorm", [(2, 3, 4)], {"begin_norm_axis": 1}, None),
    ("Interpolate", [(1, 2, 4)], RESIZE, None),
    ("Interpolate", [(1, 2, 4)], RESIZE | {"coordinate_transformation_mode": "align_corners"}, None),
    ("Interpolate", [(1, 2, 4)], RESIZE | {"mode": "trilinear"}, None),
    ("ReduceSum", [(2, 1)], {"axes": 1}, None),
    ("ReduceSum", [(2, 1, 3)], {"axes": (1, -1), "keep_dims": True}, None),
    ("ReduceMax", [(2, 3)], {"axes": (0, 1)}, None),
    ("Concat", [(2,) * 6] * 2, {"axis": -1}, None),
    ("Concat", [(2,) * 7] * 2, {"axis": 0}, None),
    ("MatMul", [(2, 4, 3), (3, 5), (5,)], {}, None),
    ("MatMul", [(2, 4, 3), (3, 5), (1, 5)], {}, None),
    ("MatMul", [(2, 4, 3), (3, 5), (4, 5)], {}, None),
    ("MatMul", [(2, 4, 3), (3, 5), (4, 1)], {}, None),
    ("MatMul", [(3,), (3,)], {}, None),
    ("Select", [Meta((1, 3), "boolean"), (2, 3), (2, 1)], {}, None),
    ("GreaterEqual", [(2, 3), (3,)], {}, None),
    ("Add", [Meta((2, 3), "s32"), Meta((2, 3), "s32")], {}, None),
    ("StaticReshape", [(2, 3)], {"shape": (0, -1, 1), "special_zero": True}, None),
    ("StaticTranspose", [(2, 3)], {"order": (1, 0)}, None),
    ("GELU", [(2, 3)], {"mode": "gelu_tanh"}, None),
    ("Quantize", [(2, 3)], {"scales": (1, 2, 3), **CHANNELS}, "u8"),
    ("Quantize", [(2, 3)], {"scales": (1, 2, 3), "zps": (0, 0, 0), **CHANNELS}, "s8"),
    ("Quantize", [(2, 3)], {"scales": (1, 2, 3), "zps": (0, 1, 0), **CHANNELS}, "u8"),
    ("Quantize", [(2, 3)], {"scales": 0.5, "zps": 3}, "u8"),
    ("Quantize", [(2, 3)], {"scales": 0.5}, "f8_e5m2"),
    ("Dequantize", [Meta((2, 3), "u8")], {"scales": (1, 2, 3), "zps": (0, 1, 0), **CHANNELS}, None),
    ("DynamicQuantize", [(2, 3), (3,)], CHANNELS, "u8"),
    ("DynamicQuantize", [(2, 3), (1,), Meta((1,), "s32")], {}, "s8"),
    ("DynamicDequantize", [Meta((4, 6), "u8"), (1,), Meta((1,), "u8")], {}, None),
    ("DynamicDequantize", [Meta((4, 6), "u4"), (1,)], {}, None),
    ("DynamicDequantize", [Meta((4, 6), "s4"), (6,)], CHANNELS, None),
    ("DynamicDequantize", [Meta((4, 6), "u4"), (2, 6)], GROUPS, None),
    ("DynamicDequantize", [Meta((4, 6), "s8"), (2, 6), Meta((2, 6), "s8")], GROUPS, None),
    ("PReLU", [(2, 3, 4), (3, 1)], {"data_format": "NCX"}, None),
    ("PReLUBackward", [(2, 3, 4), (3,), (2, 3, 4)], {"data_format": "NCX"}, None),
    ("ReLU", [()], {}, None),
    ("ReLU", [(2,) * 12], {}, None),
]


@pytest.mark.sweep(every=2)
@pytest.mark.parametrize("number", range(len(USES)), ids=lambda n: f"{n}-{USES[n][0]}")
def test_the_library_agrees(engine, number):
    kind, operands, given, dtype = USES[number]
    inputs = [one if isinstance(one, Meta) else Meta(one, "f32") for one in operands]
    ranks = schema.attr_lengths(kind, len(inputs[0].shape))
    attrs = schema.normalise_attrs(kind, given, kind, ranks=ranks)
    outputs = shapes.checked(kind, inputs, attrs, kind, dtype=dtype)[1]
    reason = shapes.unsupported(kind, inputs, outputs, attrs, engine.runtime._library.version)
    if reason is None:
        compile_alone(engine, kind, inputs, outputs, attrs, known=True)
    else:
        with pytest.raises(dgo.Error):
            compile_alone(engine, kind, inputs, outputs, attrs, known=True)


@pytest.mark.parametrize("version", [(3, 2), (3, 13)])
def test_dynamic_zero_points_per_channel_are_declined(version):
    # 3.2 compiles these and cannot execute them
    inputs = [Meta((2, 3), "f32"), Meta((3,), "f32"), Meta((3,), "s32")]
    attrs = schema.normalise_attrs("DynamicQuantize", CHANNELS, "DynamicQuantize")
    reason = shapes.unsupported("DynamicQuantize", inputs, [Meta((2, 3), "u8")], attrs, version)
    assert "without zero points" in reason


@pytest.mark.parametrize("version", [(3, 2), (3, 13)])
def test_gradients_of_batch_norm_alone_are_declined(version):
    # the library compiles these and takes mean and variance for constants
    attrs = schema.normalise_attrs("BatchNormTrainingBackward", BATCH, "bn")
    data, channels = Meta((2, 5, 3), "f32"), Meta((5,), "f32")
    inputs = [data, data, channels, channels]
    reason = shapes.unsupported("BatchNormTrainingBackward", inputs, [data], attrs, version)
    assert reason and "with 3 outputs" in reason


def test_norms_over_more_than_the_last_axis_are_declined():
    # 3.2 compiles these and normalises the last axis all the same
    attrs = schema.normalise_attrs("LayerNorm", {"begin_norm_axis": 1, "use_affine": False}, "ln")
    src = Meta((2, 3, 4), "f32")
    outputs = shapes.checked("LayerNorm", [src], attrs, "ln")[1]
    for version in ((3, 2), (3, 13)):
        assert "last axis" in shapes.unsupported("LayerNorm", [src], outputs, attrs, version)


def test_an_average_pooling_of_unknown_size_is_not_declined():
    ranks = schema.attr_lengths("AvgPool", 3)
    attrs = schema.normalise_attrs("AvgPool", POOL | {"exclude_pad": True}, "pool", ranks=ranks)
    src = Meta((1, 2, None), "f32")
    outputs = shapes.checked("AvgPool", [src], attrs, "pool")[1]
    assert shapes.unsupported("AvgPool", [src], outputs, attrs, (3, 2)) is None


@pytest.mark.parametrize(("a", "flags"), [((2, 0), {}), ((0, 2), {"transpose_a": True}), ((0,), {"transpose_a": True})])
def test_an_inner_size_of_0_is_declined(a, flags):
    attrs = schema.normalise_attrs("MatMul", flags, "matmul")
    inputs = [Meta(a, "f32"), Meta((0, 4), "f32")]
    outputs = shapes.checked("MatMul", inputs, attrs, "matmul")[1]
    assert "inner size of 0" in shapes.unsupported("MatMul", inputs, outputs, attrs, (3, 2))
