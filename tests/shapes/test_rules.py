"""Shape rules: results that the pages state, mistakes with their messages, unknown dims."""

from random import Random

import pytest

from dnnl_graph_ops import schema, shapes
from dnnl_graph_ops.errors import Error, InvalidArgumentError, ShapeError
from dnnl_graph_ops.shapes import Meta

from .generate import GENERATORS, Case

CONV = {
    "strides": 1,
    "pads_begin": 0,
    "pads_end": 0,
    "dilations": 1,
    "data_format": "NCX",
    "weights_format": "OIX",
}
POOL = {"strides": 2, "pads_begin": 0, "pads_end": 0, "kernel": 2, "data_format": "NCX"}


def infer(kind, *inputs, dtype=None, outputs=None, **attrs):
    """The shapes of the outputs; inputs are shapes of f32 or Metas."""
    metas = [one if isinstance(one, Meta) else Meta(one, "f32") for one in inputs]
    rank = len(metas[0].shape) if metas else 0
    checked = schema.normalise_attrs(kind, attrs, kind, ranks=schema.attr_lengths(kind, rank))
    results = shapes.checked(kind, metas, checked, f"{kind} 'a'", dtype=dtype, outputs=outputs)[1]
    return [meta.shape for meta in results]


def test_every_kind_has_a_rule_and_a_generator():
    assert set(schema.OPS) <= set(shapes.RULES)
    assert set(schema.OPS) == set(GENERATORS)


@pytest.mark.parametrize(
    ("a", "b", "result"),
    [
        ((2, 3), (3,), (2, 3)),
        ((2, 1), (1, 4), (2, 4)),
        ((), (2, 3), (2, 3)),
        ((0, 3), (1,), (0, 3)),
        ((1, 3), (0, 1), (0, 3)),
        ((None, 3), (1, 3), (None, 3)),
        ((None, 3), (5, 3), (5, 3)),
        ((None,), (None,), (None,)),
        ((None, 1), (2, None), (2, None)),
    ],
)
def test_broadcast(a, b, result):
    assert infer("Add", a, b) == [result]
    assert infer("Add", b, a) == [result]


def test_broadcast_refused():
    with pytest.raises(ShapeError, match=r"Add 'a': src_0 has shape \(2, 3\), src_1 has shape \(2,\).* 3 and 2"):
        infer("Add", (2, 3), (2,))
    with pytest.raises(ShapeError, match="auto_broadcast none"):
        infer("Add", (2, 3), (1, 3), auto_broadcast="none")


@pytest.mark.parametrize(
    ("a", "b", "flags", "result"),
    [
        ((2, 3), (3, 4), {}, (2, 4)),
        ((3, 2), (4, 3), {"transpose_a": True, "transpose_b": True}, (2, 4)),
        ((5, 1, 2, 3), (7, 3, 4), {}, (5, 7, 2, 4)),
        ((3,), (3,), {}, ()),
        ((3,), (5, 3, 4), {}, (5, 4)),
        ((5, 2, 3), (3,), {}, (5, 2)),
        ((3,), (3, 4), {"transpose_a": True}, (4,)),
        ((None, 2, 3), (3, 4), {}, (None, 2, 4)),
        ((2, None), (3, 4), {}, (2, 4)),
    ],
)
def test_matmul(a, b, flags, result):
    assert infer("MatMul", a, b, **flags) == [result]


def test_matmul_refused():
    with pytest.raises(ShapeError, match=r"inner sizes must match: 3 in src .* 4 in weights"):
        infer("MatMul", (2, 3), (4, 5))
    with pytest.raises(ShapeError, match="batch dims"):
        infer("MatMul", (2, 2, 3), (5, 3, 4))
    with pytest.raises(ShapeError, match="bias of shape"):
        infer("MatMul", (2, 3), (3, 4), (3,))
    with pytest.raises(ShapeError, match="axes are needed"):
        infer("MatMul", (), (3, 4))


def test_convolution_pads_and_dilations():
    assert infer("Convolution", (1, 2, 10, 9), (4, 2, 3, 3), **CONV) == [(1, 4, 8, 7)]
    wide = CONV | {"dilations": (2, 1), "pads_begin": (1, 0), "strides": (2, 1)}
    assert infer("Convolution", (1, 2, 10, 9), (4, 2, 3, 3), **wide) == [(1, 4, 4, 7)]
    for auto_pad, result in (("same_upper", 4), ("same_lower", 4), ("valid", 3)):
        padded = CONV | {"strides": 3, "auto_pad": auto_pad, "pads_begin": 9}
        assert infer("Convolution", (1, 2, 10), (4, 2, 3), **padded) == [(1, 4, result)]


def test_convolution_refused():
    with pytest.raises(ShapeError, match=r"src has 3 channels.*take 2 per group in 1 group,"):
        infer("Convolution", (1, 3, 8), (4, 2, 3), **CONV)
    with pytest.raises(ShapeError, match="no multiple of groups = 3"):
        infer("Convolution", (1, 6, 8), (4, 2, 3), **CONV, groups=3)
    with pytest.raises(InvalidArgumentError, match="groups = 0"):
        infer("Convolution", (1, 6, 8), (4, 2, 3), **CONV, groups=0)
    with pytest.raises(ShapeError, match="reaches over 9 elements, but src has 8 and 0 of padding"):
        infer("Convolution", (1, 2, 8), (4, 2, 5), **CONV | {"dilations": 2})
    with pytest.raises(ShapeError, match=r"weights has 3 axes \(4, 2, 3\), the data has 4"):
        infer("Convolution", (1, 2, 8, 8), (4, 2, 3), **CONV)
    with pytest.raises(ShapeError, match="bias has shape"):
        infer("Convolution", (1, 2, 8), (4, 2, 3), (1, 4), **CONV)
    with pytest.raises(InvalidArgumentError, match=r"'strides' must be at least 1, got 0 on spatial axis 0"):
        infer("Convolution", (1, 2, 8), (4, 2, 3), **CONV | {"strides": 0})
    with pytest.raises(InvalidArgumentError, match=r"'pads_end' must be at least 0"):
        infer("Convolution", (1, 2, 8), (4, 2, 3), **CONV | {"pads_end": -1})


def test_convolution_backward_data_with_and_without_the_shape():
    strided = CONV | {"strides": 2}
    assert infer("ConvolutionBackwardData", (1, 4, 6), (4, 2, 3), **strided) == [(1, 2, 13)]
    padded = strided | {"output_padding": 1}
    assert infer("ConvolutionBackwardData", (1, 4, 6), (4, 2, 3), **padded) == [(1, 2, 14)]
    given = strided | {"dst_shape": (1, 2, 14)}
    assert infer("ConvolutionBackwardData", (1, 4, 6), (4, 2, 3), **given) == [(1, 2, 14)]
    same = strided | {"auto_pad": "same_upper"}
    assert infer("ConvolutionBackwardData", (1, 4, 6), (4, 2, 3), **same) == [(1, 2, 12)]
    with pytest.raises(ShapeError, match=r"a convolution of src \(1, 2, 15\) has shape \(1, 4, 7\)"):
        infer("ConvolutionBackwardData", (1, 4, 6), (4, 2, 3), **strided, dst_shape=(1, 2, 15))
    with pytest.raises(ShapeError, match="src with output_padding"):
        infer("ConvolutionBackwardData", (1, 4, 6), (4, 2, 3), **padded, dst_shape=(1, 2, 13))
    assert infer("ConvolutionBackwardData", (1, 4, 6), (4, 2, 3), Meta((3,), "s32"), **strided) == [(1, 2, None)]


def test_convolution_backward_weights_needs_the_shape_where_it_is_not_determined():
    assert infer("ConvolutionBackwardWeights", (1, 2, 8), (1, 4, 6), **CONV, weights_shape=(4, 2, 3)) == [(4, 2, 3)]
    assert infer("ConvolutionBackwardWeights", (1, 2, 8), (1, 4, 6), **CONV) == [(4, 2, 3)]
    for more in ({"strides": 2}, {"auto_pad": "SAME_UPPER"}, {"dilations": 4}):
        with pytest.raises(InvalidArgumentError, match="weights_shape is needed"):
            infer("ConvolutionBackwardWeights", (1, 2, 8), (1, 4, 6), **{**CONV, **more})
    with pytest.raises(ShapeError, match=r"\(1, 4, 7\), diff_dst has shape \(1, 4, 6\)"):
        infer("ConvolutionBackwardWeights", (1, 2, 8), (1, 4, 6), **CONV, weights_shape=(4, 2, 2))
    found = infer("ConvolutionBackwardWeights", (1, 4, 8), (1, 4, 6), Meta((3,), "s32"), **CONV, groups=2)
    assert found == [(4, 2, None)]


def test_pooling_rounds_down_and_up():
    assert infer("MaxPool", (1, 2, 7), **POOL) == [(1, 2, 3)]
    assert infer("MaxPool", (1, 2, 7), **POOL, rounding_type="ceil") == [(1, 2, 4)]
    assert infer("MaxPool", (1, 2, 8), **POOL | {"pads_end": -2}) == [(1, 2, 3)]
    with pytest.raises(InvalidArgumentError, match="'pads_end' must be at least -2"):
        infer("MaxPool", (1, 2, 8), **POOL | {"pads_end": -3})
    assert infer("AvgPool", (1, 7, 2), **POOL | {"data_format": "NXC"}, exclude_pad=True) == [(1, 3, 2)]
    for count in (3, 4):
        assert infer("MaxPoolBackward", (1, 2, 7), (1, 2, count), **POOL) == [(1, 2, 7)]
    with pytest.raises(ShapeError, match=r"gives \(1, 2, 3\), but diff_dst has shape \(1, 2, 5\)"):
        infer("MaxPoolBackward", (1, 2, 7), (1, 2, 5), **POOL)


def test_average_pooling_backward_needs_the_shape():
    attrs = POOL | {"exclude_pad": False}
    assert infer("AvgPoolBackward", (1, 2, 3), **attrs, src_shape=(1, 2, 7)) == [(1, 2, 7)]
    assert infer("AvgPoolBackward", (1, 2, 3), Meta((3,), "s32"), **attrs) == [(1, 2, None)]
    with pytest.raises(InvalidArgumentError, match="src_shape is needed"):
        infer("AvgPoolBackward", (1, 2, 3), **attrs)


def test_statistics_of_norms():
    assert infer("LayerNorm", (2, 3, 4), (4,), (4,)) == [(2, 3, 4), (2, 3), (2, 3)]
    assert infer("LayerNorm", (2, 3, 4), use_affine=False, keep_stats=False) == [(2, 3, 4)]
    assert infer("LayerNorm", (2, 3, 4), begin_norm_axis=1, use_affine=False)[1] == (2,)
    assert infer("GroupNorm", (2, 8, 5), (8,), (8,), groups=4, data_format="NCX")[1:] == [(2, 4), (2, 4)]
    assert infer("SoftMax", (2, 3, 4), axis=1) == [(2, 3, 4)]
    assert infer("SoftMax", (2, 3, 4), axis=-2, outputs=2) == [(2, 3, 4), (2, 1, 4)]


def test_norms_refused():
    with pytest.raises(InvalidArgumentError, match="no gamma and beta"):
        infer("LayerNorm", (2, 3, 4))
    with pytest.raises(ShapeError, match=r"gamma has shape \(3,\).* give it the shape \(4,\)"):
        infer("LayerNorm", (2, 3, 4), (3,), (4,))
    with pytest.raises(ShapeError, match="cannot be split into groups = 3"):
        infer("GroupNorm", (2, 8, 5), groups=3, use_affine=False, data_format="NCX")
    with pytest.raises(ShapeError, match="mean has shape"):
        infer("BatchNormInference", (2, 8, 5), (8,), (8,), (5,), (8,), epsilon=0.1, data_format="NCX")
    with pytest.raises(ShapeError, match="axis = 2 is outside of a tensor with 2 axes; use -2 to 1"):
        infer("SoftMax", (2, 3), axis=2)


@pytest.mark.parametrize(
    ("src", "shape", "special_zero", "result"),
    [
        ((2, 3, 4), (4, 6), False, (4, 6)),
        ((2, 3, 4), (0, -1), True, (2, 12)),
        ((2, 3, 4), (-1,), False, (24,)),
        ((0, 3), (3, 0), False, (3, 0)),
        ((0, 3), (0, -1), True, (0, 3)),
        ((2, 0), (-1, 0), False, None),
        ((None, 3, 4), (0, -1), True, (None, 12)),
        ((None, 3, None), (0, -1), True, (None, None)),
        ((2, 6, None), (0, 3, -1), True, (2, 3, None)),
        ((None, 6, None), (0, 3, -1), True, (None, 3, None)),
        ((None, 6, 4), (8, -1), False, (8, None)),
        ((None, 3), (-1, 3), False, (None, 3)),
        ((), (1, 1), False, (1, 1)),
    ],
)
def test_reshape(src, shape, special_zero, result):
    if result is None:
        with pytest.raises(ShapeError, match="not determined"):
            infer("StaticReshape", src, shape=shape, special_zero=special_zero)
    else:
        assert infer("StaticReshape", src, shape=shape, special_zero=special_zero) == [result]


@pytest.mark.parametrize(
    ("shape", "special_zero", "message"),
    [
        ((5, 5), False, "24 elements"),
        ((7, -1), False, "24 elements"),
        ((-1, -1), False, "one -1"),
        ((-2, 12), False, "at least 0"),
        ((1, 1, 1, 0), True, "copies axis 3"),
    ],
)
def test_reshape_refused(shape, special_zero, message):
    with pytest.raises(InvalidArgumentError, match=message):
        infer("StaticReshape", (2, 3, 4), shape=shape, special_zero=special_zero)


@pytest.mark.parametrize(("src", "shape"), [((None, 6, 4), (7, 5)), ((None, 3, 4), (0, 5, -1)), ((None, 6), (4, 5, 2))])
def test_reshape_that_fits_no_size(src, shape):
    with pytest.raises(ShapeError, match=r"\(\?, .* the products of the sizes must be equal"):
        infer("StaticReshape", src, shape=shape, special_zero=True)


def test_transpose():
    assert infer("StaticTranspose", (2, 3, 4), order=(2, 0, -2)) == [(4, 2, 3)]
    assert infer("StaticTranspose", (2, 3, 4), order=()) == [(4, 3, 2)]
    for order in ((0, 1, 1), (0, 1, 3)):
        with pytest.raises(ShapeError, match="order"):
            infer("StaticTranspose", (2, 3, 4), order=order)


def test_reduce():
    assert infer("ReduceSum", (2, 3, 4), axes=(0, -1)) == [(3,)]
    assert infer("ReduceSum", (2, 3, 4), axes=1, keep_dims=True) == [(2, 1, 4)]
    assert infer("ReduceSum", (2, 3), axes=(0, 1)) == [()]
    assert infer("ReduceSum", (2, 3), Meta((1,), "s32"), keep_dims=True) == [(None, None)]
    for axes, message in (((0, -3), "twice"), ((3,), "outside"), ((), "axes is needed")):
        with pytest.raises(InvalidArgumentError, match=message):
            infer("ReduceSum", (2, 3, 4), axes=axes)


def test_concat():
    assert infer("Concat", (2, 3), (2, 5), (2, None), axis=-1) == [(2, None)]
    assert infer("Concat", (None, 3), (2, 5), axis=1) == [(2, 8)]
    with pytest.raises(ShapeError, match=r"input 1 has shape \(3, 3\), input 0 has shape \(2, 3\); only"):
        infer("Concat", (2, 3), (3, 3), axis=1)


def test_interpolate():
    nearest = {"mode": "nearest", "data_format": "NCX"}
    assert infer("Interpolate", (1, 2, 4, 5), **nearest, sizes=(8, 3)) == [(1, 2, 8, 3)]
    assert infer("Interpolate", (1, 2, 4, 5), **nearest, scales=(2, 1.5)) == [(1, 2, 8, 7)]
    # 10 * 0.7 is 7 in float32 and 6.999... in float64
    assert infer("Interpolate", (1, 2, 10), **nearest, scales=(0.7,)) == [(1, 2, 7)]
    assert infer("Interpolate", (1, 2, 10), Meta((1,), "s32"), **nearest) == [(1, 2, None)]
    assert infer("Interpolate", (1, 2, 0), **nearest, scales=(2.0,)) == [(1, 2, 0)]
    with pytest.raises(ShapeError, match="nothing to resample"):
        infer("Interpolate", (1, 2, 0), **nearest, sizes=(4,))
    for wrong in ({}, {"sizes": (4,), "scales": (2.0,)}, {"sizes": (0,)}, {"scales": (-1.0,)}):
        with pytest.raises(InvalidArgumentError, match="sizes"):
            infer("Interpolate", (1, 2, 10), **nearest, **wrong)


def test_quantize_counts_its_scales():
    per_channel = {"qtype": "per_channel", "axis": 1}
    assert infer("Quantize", (2, 3), scales=(1, 2, 3), **per_channel, dtype="u8") == [(2, 3)]
    with pytest.raises(ShapeError, match=r"2 scales, but axis 1 .* has 3 channels"):
        infer("Quantize", (2, 3), scales=(1, 2), **per_channel, dtype="u8")
    with pytest.raises(ShapeError, match="3 scales for qtype per_tensor"):
        infer("Quantize", (2, 3), scales=(1, 2, 3), dtype="u8")
    with pytest.raises(ShapeError, match="1 scales and 2 zps"):
        infer("Quantize", (2, 3), scales=(1,), zps=(0, 0), dtype="u8")


def test_quantization_in_groups():
    src, scales = Meta((4, 6), "u4"), Meta((2, 6), "f32")
    groups = {"qtype": "per_group", "group_shape": (2, 1)}
    assert infer("DynamicDequantize", src, scales, **groups) == [(4, 6)]
    with pytest.raises(ShapeError, match=r"scales has shape \(4, 6\).*give it the shape \(2, 6\)"):
        infer("DynamicDequantize", src, Meta((4, 6), "f32"), **groups)
    with pytest.raises(ShapeError, match="does not divide"):
        infer("DynamicDequantize", src, scales, qtype="per_group", group_shape=(3, 1))


def test_sizes_beyond_64_bits():
    half = 2**31
    for kind, inputs, attrs in (
        ("Add", [(half, 1), (1, half)], {}),
        ("MatMul", [(half, 1), (1, half)], {}),
        ("Concat", [(2**59,)] * 8, {"axis": 0}),
        ("ReLU", [(2**62,)], {}),
        ("ReLU", [(2**40, 0, 2**40)], {}),
        ("ReLU", [(1,) * 13], {}),
        ("Interpolate", [(1, 1, 10)], {"mode": "nearest", "data_format": "NCX", "scales": (1e38,)}),
    ):
        with pytest.raises(ShapeError, match=r"64 bits|at most 12"):
            infer(kind, *inputs, **attrs)


def hide(rng: Random, case: Case) -> list[Meta]:
    return [Meta(tuple(None if rng.random() < 0.3 else dim for dim in meta.shape), meta.dtype) for meta in case.metas]


@pytest.mark.parametrize("kind", sorted(schema.OPS))
def test_unknown_dims_agree_with_known_ones(kind, seed):
    for number in range(60):
        rng = Random(f"{seed} {kind} {number}")
        case = GENERATORS[kind](rng)
        hidden = hide(rng, case)
        print(f"reproduce: pytest {__file__} -k 'agree and {kind}' --seed {seed}\n{case}\n{hidden}")
        known = infer(kind, *case.metas, dtype=case.dtype, outputs=case.outputs, **case.attrs)
        found = infer(kind, *hidden, dtype=case.dtype, outputs=case.outputs, **case.attrs)
        assert [len(shape) for shape in found] == [len(shape) for shape in known]
        for a, b in zip(known, found, strict=True):
            assert all(y is None or x == y for x, y in zip(a, b, strict=True)), (a, b)


@pytest.mark.parametrize("kind", sorted(schema.OPS))
def test_damaged_shapes_are_refused_or_inferred(kind, seed):
    for number in range(150):
        rng = Random(f"{seed} damage {kind} {number}")
        case = GENERATORS[kind](rng)
        metas = case.metas
        for _ in range(rng.randint(1, 3)):
            if metas:
                where = rng.randrange(len(metas))
                metas[where] = Meta(damaged(rng, metas[where].shape), metas[where].dtype)
        print(f"reproduce: pytest {__file__} -k 'damaged and {kind}' --seed {seed}\n{case}\n{metas}")
        try:
            infer(kind, *metas, dtype=case.dtype, outputs=case.outputs, **case.attrs)
        except Error as error:
            assert kind in str(error)


def damaged(rng: Random, shape: tuple[int, ...]) -> tuple[int | None, ...]:
    dims: list[int | None] = list(shape)
    match rng.randrange(4):
        case 0:
            dims.insert(rng.randint(0, len(dims)), rng.choice([1, 2, 0, None]))
        case 1 if dims:
            dims.pop(rng.randrange(len(dims)))
        case _ if dims:
            dims[rng.randrange(len(dims))] = rng.choice([0, 1, 7, 2**40, 2**62, None])
    return tuple(dims)
