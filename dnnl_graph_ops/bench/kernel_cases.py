"""A case for each kernel that the extension declares: sizes, arguments, and the multiplications of a run."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import prod
from typing import Any, Final

from .._core import DataType, kernels
from ..errors import InvalidArgumentError
from ..strides import dense_strides
from . import kernel_operands
from .kernel_operands import F32, Built, Case, Shapes, Sizes, strides_of

BF16: Final = int(DataType.bf16)
S8, U8 = (int(DataType[name]) for name in ("s8", "u8"))


CONV: Final = {"n": 1, "in_c": 64, "out_c": 64, "size": 56, "kernel": 3, "stride": 1}
LAYER: Final = {"n": 1, "c": 128, "size": 56, "kernel": 3, "stride": 1}


def _out(size: int, kernel: int, stride: int) -> int:
    return (size + 2 * (kernel // 2) - kernel) // stride + 1


def conv(s: Sizes) -> dict[str, Any]:
    """Dims of a FilterProblem whose wide side has `size` positions on each of two axes."""
    small = _out(s.size, s.kernel, s.stride)
    return {
        "batch": s.n,
        "in_channels": s.in_c,
        "out_channels": s.out_c,
        "out_channels / groups": s.out_c,
        "in_spatial": (small, small),
        "out_spatial": (s.size, s.size),
        "kernel": (s.kernel, s.kernel),
        "strides": (s.stride, s.stride),
        "pads_begin": (s.kernel // 2,) * 2,
        "tile": (1, 1),
        "positions": s.n * small**2,
    }


def layer(s: Sizes) -> dict[str, Any]:
    """Dims of LayerSizes whose wide side (dst) has `size` positions on each of two axes."""
    small = _out(s.size, s.kernel, s.stride)
    return {
        "n": s.n,
        "c": s.c,
        "channels": s.get("channels", 0),
        "src_spatial": (small, small),
        "dst_spatial": (s.size, s.size),
        "kernel": (s.kernel, s.kernel),
        "strides": (s.stride, s.stride),
        "pads_begin": (s.kernel // 2,) * 2,
        "dilations": (1, 1),
    }


def pooled(s: Sizes) -> dict[str, Any]:
    """Dims of windows over `size` positions on each of two axes."""
    small = _out(s.size, s.kernel, s.stride)
    return {
        **layer(s),
        "src_spatial": (s.size, s.size),
        "dst_spatial": (small, small),
        "pads_end": (s.kernel // 2,) * 2,
    }


def conv_macs(s: Sizes) -> int:
    return int(s.positions * s.in_channels * s.out_channels * prod(s.kernel))


def layer_macs(s: Sizes) -> int:
    return int(s.n * s.c * max(s.channels, 1) * prod(s.src_spatial) * prod(s.kernel))


def _problem(s: Sizes) -> Any:
    names = (
        "batch",
        "in_channels",
        "out_channels",
        "in_spatial",
        "out_spatial",
        "kernel",
        "strides",
        "pads_begin",
        "tile",
    )
    return kernels.FilterProblem(**{name: s[name] for name in names})


def _layer(s: Sizes) -> Any:
    names = ("n", "c", "src_spatial", "dst_spatial", "kernel", "strides", "pads_begin", "dilations")
    return kernels.LayerSizes(**{name: s[name] for name in names})


def _layer_strides(s: Sizes) -> list[tuple[int, ...]]:
    """Strides of both sides of LayerSizes."""
    return [strides_of(shape, ["n", "c"]) for shape in _layer_sides(s).values()]


def _depthwise(s: Sizes, dtype: int = F32) -> Any:
    src, dst = _layer_strides(s)
    return kernels.DepthwiseProblem(_layer(s), dtype, src, dense_strides((s.c, *s.kernel)), dst)


def _sides(s: Sizes) -> dict[str, tuple[int, ...]]:
    """Shapes of both sides of a FilterProblem, channels last."""
    return {
        "src": (s.batch, *s.in_spatial, s.in_channels),
        "dst": (s.batch, *s.out_spatial, s.out_channels),
        "weights": (s.in_channels, s.out_channels, *s.kernel),
    }


def _layer_sides(s: Sizes) -> dict[str, tuple[int, ...]]:
    """Shapes of both sides of LayerSizes, channels first."""
    return {"src": (s.n, s.c, *s.src_spatial), "dst": (s.n, s.c, *s.dst_spatial)}


def _few_packed(s: Sizes, arguments: Mapping[str, Any]) -> dict[str, tuple[int, ...]]:
    """Shapes of the packed weights of few channels."""
    return {"packed": (kernels.few_channels_packed_size(_layer(s), s.channels),)}


def _last(shape: tuple[int, ...]) -> tuple[int, ...]:
    return dense_strides(shape)[:-1]


def _packed(size_of: Callable[[Any], int]) -> Shapes:
    """Returns the shapes of a product of convolutions, whose packed weights have size_of(problem) elements."""
    return lambda s, a: {**_sides(s), "packed": (size_of(_problem(s)),)}


def _bf16(s: Sizes) -> dict[str, Any]:
    sides = _sides(s)
    return {
        "direction": "dgrad",
        "src_dtype": BF16,
        "dst_dtype": BF16,
        "src_strides": _last(sides["src"]),
        "dst_strides": _last(sides["dst"]),
    }


def _rows(s: Sizes) -> tuple[int, ...]:
    """The shape of rows of 8 bits: positions of a FilterProblem's src."""
    return (s.batch, *s.in_spatial, kernels.int8_layout(s.in_channels, U8)[1])


def _row_bytes(s: Sizes) -> tuple[int, ...]:
    """The shape of these rows in bytes, of which sets that multiply words have two for an element."""
    *positions, pitch = _rows(s)
    return (*positions, pitch * kernels.int8_layout(s.in_channels, U8)[0])


def _int8(s: Sizes) -> dict[str, Any]:
    return {
        "direction": "dgrad",
        "rows_strides": _last(_rows(s)),
        "src_dtype": U8,
        "src_zero": 0,
        "channels": s.in_channels,
        "weights_dtype": S8,
        "dst_dtype": S8,
        "dst_strides": _last(_sides(s)["dst"]),
    }


def _int8_size(problem: Any) -> int:
    return int(kernels.int8_packed_size(problem, "dgrad"))


def _quads() -> str:
    """Returns the set of depthwise sums of 8 bits: tiles have none, and the vectors of such a CPU take their place."""
    best = kernels.int8_isa()[0]
    return "avx512vnni" if best == "amxint8" else str(best)


def _int8_depthwise(s: Sizes) -> dict[str, Any]:
    src, dst = _layer_strides(s)
    return {
        "dgrad": True,
        "src_dtype": U8,
        "src_zero": 0,
        "src_strides": src,
        "dst_dtype": S8,
        "dst_strides": dst,
        "weights_dtype": S8,
        "isa": _quads(),
    }


def _table(s: Sizes) -> dict[str, Any]:
    return {"rows": s.rows, "width": s.columns, "shape": (s.rows, s.columns), "columns": s.columns}


def _middle(s: Sizes) -> dict[str, Any]:
    return {"outer": s.outer, "length": s.length, "inner": s.inner}


ROWS: Final = {"rows": 1024, "columns": 1024}
IMAGE: Final = {"n": 1, "c": 64, "size": 112}
MIDDLE: Final = {"outer": 64, "length": 256, "inner": 64}
RECURRENT: Final = {"steps": 64, "batch": 4, "width": 256, "size": 256}


def _image(s: Sizes) -> dict[str, Any]:
    return {"n": s.n, "c": s.c, "channels": s.c, "spatial": (s.size, s.size), "shape": (s.n, s.c, s.size, s.size)}


def _recurrent(s: Sizes) -> dict[str, Any]:
    return {"steps": s.steps, "batch": s.batch, "width": s.width, "size": s.size, "gates": 4}


def _indexed(s: Sizes) -> dict[str, Any]:
    return {
        "outer": 1,
        "sizes": (s.rows,),
        "row": s.row,
        "count": s.count,
        "inner": s.row,
        "rows": s.count,
        "item": 4,
        "index_item": 8,
        "outer if batched": 1,
        "len(sizes)": 1,
    }


INDEXED: Final = {"rows": 4096, "count": 4096, "row": 128}

CASES: Final[dict[str, Case]] = {
    "attention": Case(
        {"heads": 8, "rows": 256, "keys": 256, "depth": 64},
        lambda s: {
            "batch": (s.heads,),
            "rows": s.rows,
            "keys": s["keys"],
            "depth": s.depth,
            "width": s.depth,
        },
        lambda s: {
            "q": dense_strides((*s.batch, s.rows, s.depth)),
            "k": dense_strides((*s.batch, s["keys"], s.depth)),
            "v": dense_strides((*s.batch, s["keys"], s.width)),
            "dst": dense_strides((*s.batch, s.rows, s.width)),
            "masks": [],
        },
        macs=lambda s: s.batch[0] * s.rows * s["keys"] * (s.depth + s.width),
    ),
    "bf16_pack": Case(
        CONV,
        conv,
        lambda s: {"direction": "dgrad", "weights_dtype": BF16},
        unit="bf16",
        shapes=lambda s, a: {"packed": (_problem(s).bf16_packed_size("dgrad"),)},
        dtypes={"packed": "bf16"},
    ),
    "bf16_product": Case(
        CONV,
        conv,
        _bf16,
        _packed(lambda p: p.bf16_packed_size("dgrad")),
        {"packed": "bf16"},
        macs=conv_macs,
        unit="bf16",
    ),
    "bf16_wgrad": Case(
        CONV,
        conv,
        lambda s: {"src_dtype": BF16, "diff_dst_dtype": BF16, "weights_strides": dense_strides(_sides(s)["weights"])},
        macs=conv_macs,
        unit="bf16",
    ),
    "col2im": Case({**LAYER, "c": 16}, layer, lambda s: {"layer": _layer(s)}),
    "col2im_product": Case(
        {**CONV, "in_c": 64, "out_c": 8, "kernel": 4, "stride": 2},
        conv,
        shapes=_packed(lambda p: p.taps_apart().packed_size("dgrad")),
        macs=conv_macs,
    ),
    "copy": Case(
        IMAGE, _image, lambda s: {"src_strides": dense_strides(s.shape), "dst_strides": strides_of(s.shape, ["n", "c"])}
    ),
    "copy_list": Case(
        ROWS,
        _table,
        lambda s: {"items": [(s.shape, 0, dense_strides(s.shape), 0, dense_strides(s.shape))]},
        lambda s, a: {"src": s.shape, "dst": s.shape},
    ),
    "cumsum": Case(MIDDLE, _middle),
    "depthwise_dgrad": Case(LAYER, layer, lambda s: {"problem": _depthwise(s)}, macs=layer_macs),
    "depthwise_fprop": Case(LAYER, layer, lambda s: {"problem": _depthwise(s)}, macs=layer_macs),
    "depthwise_packing": Case(
        LAYER,
        layer,
        lambda s: {"problem": _depthwise(s), "dgrad": True},
        taken=lambda r: r[0],
        shapes=lambda s, a: {"packed": (kernels.depthwise_packing(a["problem"], True)[1],)},
    ),
    "depthwise_wgrad": Case(LAYER, layer, lambda s: {"problem": _depthwise(s)}, macs=layer_macs),
    "elementwise": Case(
        ROWS,
        _table,
        lambda s: {
            "steps": [("add", 64, 65, 0, 0.0, 0.0)],
            "dst_strides": (s.columns, 1),
            "operands": [(F32, (s.columns, 1))] * 2,
        },
        several={"operands": 2},
    ),
    "elementwise_int": Case(
        ROWS,
        _table,
        lambda s: {
            "op": "not",
            "strides": [(s.columns, 1)] * 2,
            "src_dtype": int(DataType.boolean),
            "dst_dtype": int(DataType.boolean),
        },
        dtypes={"src_0": "u8", "dst": "u8"},
    ),
    "epilogue": Case(
        ROWS,
        lambda s: {"positions": (1, s.rows), "channels": s.columns},
        lambda s: {
            "strides": (s.positions[1] * s.channels, s.channels),
            "epilogue": kernels.Epilogue([("relu", 0, 0, 0, 0.0, 0.0)]),
        },
    ),
    "few_channels_gradient": Case(
        {**LAYER, "c": 3, "size": 112, "channels": 32},
        layer,
        lambda s: {"layer": _layer(s), "weights_strides": dense_strides((s.channels, s.c, *s.kernel))},
        macs=layer_macs,
    ),
    "few_channels_pack": Case(
        {**LAYER, "c": 3, "channels": 32},
        layer,
        lambda s: {"layer": _layer(s)},
        _few_packed,
    ),
    "few_channels_product": Case(
        {**LAYER, "c": 3, "size": 112, "channels": 32},
        layer,
        lambda s: {"layer": _layer(s)},
        _few_packed,
        macs=layer_macs,
    ),
    "fill": Case(ROWS, _table, lambda s: {"strides": (s.columns, 1), "value": 0.5}),
    "fill_channel": Case(
        ROWS, lambda s: {"shape": (s.rows, s.columns), "shape[axis]": s.columns}, lambda s: {"axis": 1}
    ),
    "filter_dgrad": Case(CONV, conv, shapes=_packed(lambda p: p.packed_size("dgrad")), macs=conv_macs),
    "filter_fprop": Case(CONV, conv, shapes=_packed(lambda p: p.packed_size("fprop")), macs=conv_macs),
    "filter_pack": Case(
        CONV, conv, lambda s: {"direction": "dgrad"}, lambda s, a: {"packed": (_problem(s).packed_size("dgrad"),)}
    ),
    "filter_wgrad": Case(
        CONV, conv, lambda s: {"weights_strides": dense_strides(_sides(s)["weights"])}, macs=conv_macs
    ),
    "gather": Case(INDEXED, _indexed, dtypes={"indices": "s64"}, below=lambda s: s.sizes[0]),
    "gather_elements": Case(
        INDEXED,
        _indexed,
        lambda s: {"each": True},
        lambda s, a: {"indices": (1, s.count, s.row)},
        {"indices": "s64"},
        lambda s: s.sizes[0],
    ),
    "grid_sample": Case(
        {"images": 1, "channels": 16, "size": 128},
        lambda s: {
            "images": s.images,
            "channels": s.channels,
            "height": s.size,
            "width": s.size,
            "places": s.size * s.size,
            "2": 2,
        },
    ),
    "group_norm": Case(IMAGE, _image, lambda s: {"groups": 32 if s.channels % 32 == 0 else 1, "epsilon": 1e-5}),
    "im2col": Case({**LAYER, "c": 16}, layer, lambda s: {"layer": _layer(s)}),
    "int8_depthwise": Case(
        LAYER,
        layer,
        lambda s: {"layer": _layer(s), **_int8_depthwise(s)},
        lambda s, a: {
            **_layer_sides(s),
            "scales": (s.c,),
            "packed": (kernels.int8_depthwise_size(_layer(s), True, _quads()),),
        },
        {"packed": "u8", "scales": "f32"},
        macs=layer_macs,
        unit="s8",
    ),
    "int8_depthwise_gather": Case(
        LAYER,
        layer,
        lambda s: {"problem": _depthwise(s, U8), "dgrad": True, "src_zero": 0, "dst_dtype": S8},
        lambda s, a: {
            "packed": (kernels.depthwise_packing(_depthwise(s), True)[1],),
            **_layer_sides(s),
        },
        {"src": "u8", "packed": "f32"},
        macs=layer_macs,
    ),
    "int8_depthwise_pack": Case(
        LAYER,
        layer,
        lambda s: {"layer": _layer(s), **_int8_depthwise(s), "weights_strides": dense_strides((s.c, *s.kernel))},
        lambda s, a: {"packed": (kernels.int8_depthwise_size(_layer(s), True, _quads()),)},
        {"packed": "u8"},
    ),
    "int8_pack": Case(CONV, conv, _int8, _packed(_int8_size), {"packed": "u8"}),
    "int8_product": Case(
        CONV,
        conv,
        _int8,
        lambda s, a: {"rows": _row_bytes(s), **_packed(_int8_size)(s, a)},
        {"rows": "u8", "packed": "u8"},
        macs=conv_macs,
        unit="s8",
    ),
    "int8_rows": Case(
        CONV,
        conv,
        lambda s: {
            "sizes": (s.batch, *s.in_spatial),
            "strides": _last(_sides(s)["src"]),
            "channels": s.in_channels,
            "src_dtype": U8,
            "src_zero": 0,
        },
        lambda s, a: {"src": _sides(s)["src"], "rows": _row_bytes(s)},
        {"rows": "u8"},
    ),
    "isfinite": Case(
        ROWS,
        _table,
        lambda s: {"items": [(s.shape, F32, (s.columns, 1))]},
        lambda s, a: {"src": s.shape, "flag": (1,)},
        {"flag": "s32"},
        several={"src": 1},
    ),
    "layer_norm": Case(ROWS, _table, lambda s: {"src_pitch": s.width, "dst_pitch": s.width, "epsilon": 1e-5}),
    "max_pool_gradient": Case(
        LAYER,
        pooled,
        lambda s: {
            name: strides_of((s.n, s.c, *s[side]), ["n", "c"])
            for name, side in (("diff_strides", "dst_spatial"), ("to_strides", "src_spatial"))
        },
    ),
    "mix_axis": Case(
        {**MIDDLE, "length": 64},
        lambda s: {"outer": s.outer, "size": s.length, "inner": s.inner, "results": 2 * s.length},
        lambda s: {
            "starts": range(0, 4 * s.size + 1, 2),
            "weights": [0.5] * 4 * s.size,
            "sources": [i // 4 for i in range(4 * s.size)],
        },
    ),
    "pool": Case(LAYER, pooled, lambda s: {"average": False, "exclude_pad": False}),
    "recurrent": Case(
        RECURRENT,
        _recurrent,
        lambda s: {"cell": "lstm", "backwards": False, "row_step": s.batch * s.size},
        lambda s, a: {"rows": (s.steps, s.batch, s.size)},
        macs=lambda s: s.steps * s.batch * 4 * s.size * (s.width + s.size),
    ),
    "recurrent_pack": Case(
        RECURRENT,
        _recurrent,
        lambda s: {"cell": "lstm"},
        lambda s, a: dict(
            zip(
                ("packed_input_weights", "packed_weights"),
                ((n,) for n in kernels.recurrent_packed("lstm", s.width, s.size)),
                strict=True,
            )
        ),
    ),
    "reduce": Case(
        ROWS,
        _table,
        lambda s: {"kind": "sum", "reduced": (False, True), "dst_strides": (1, 0)},
        lambda s, a: {"dst": (s.rows,)},
    ),
    "resample": Case(
        {"n": 1, "c": 64, "size": 56},
        lambda s: {"n": s.n, "c": s.c, "src_spatial": (s.size, s.size), "dst_spatial": (2 * s.size, 2 * s.size)},
        lambda s: {"linear": True, "align_corners": False},
    ),
    "rms_norm": Case(ROWS, _table, lambda s: {"src_pitch": s.width, "dst_pitch": s.width, "epsilon": 1e-5}),
    "rotary": Case(
        {"heads": 8, "rows": 512, "half": 32},
        lambda s: {"shape": (s.heads, s.rows), "half": s.half, "2 half": 2 * s.half},
        lambda s: {"strides": [_last((*s.shape, n * s.half)) for n in (2, 1, 1, 2)]},
    ),
    "row_product": Case(
        {"images": 1, "rows": 256, "columns": 256, "depth": 256}, macs=lambda s: s.images * s.rows * s.columns * s.depth
    ),
    "scatter": Case(
        INDEXED,
        _indexed,
        lambda s: {"each": False},
        lambda s, a: {"indices": (s.count, 1)},
        {"indices": "s64"},
        lambda s: s.sizes[0],
    ),
    "select": Case(ROWS, _table, lambda s: {"strides": [(s.columns, 1)] * 4, "item": 4}, dtypes={"cond": "u8"}),
    "softmax": Case(ROWS, _table, lambda s: {"axis": 1}),
    "softmax_gradient": Case({**MIDDLE, "inner": 1}, _middle, lambda s: {"dtype": F32}),
    "topk": Case(
        {"rows": 1024, "columns": 1024, "count": 8},
        lambda s: {"outer": s.rows, "length": s.columns, "inner": 1, "count": s.count},
        lambda s: {"has_values": False},
        dtypes={"indices": "s64"},
    ),
}


def build(name: str, shape: Mapping[str, int] | None = None) -> Built:
    """Returns a kernel of its case's sizes, those of `shape` instead if given, with operands of random numbers.

    Raises:
        InvalidArgumentError: there is no such kernel, or it has no such size.
    """
    if name not in CASES:
        raise InvalidArgumentError(f"no case of a kernel {name!r}; there are {', '.join(CASES)}")
    return kernel_operands.build(name, CASES[name], shape or {})
