"""A case for each kernel that the extension declares: sizes, arguments, and the multiplications of a run.

The declaration of a kernel names its operands and their dims, as "src (n, c, src_spatial), dst (n, c, dst_spatial)". A
case gives the sizes of these dims, and the arguments that follow neither from a size nor from an operand; `build` makes
the kernel, and an array for each operand.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cache
from math import prod
from typing import Any, Final

import numpy as np

from .. import dtypes
from .._core import DataType, kernels
from ..errors import InvalidArgumentError
from ..strides import dense_strides

F32: Final = int(DataType.f32)
BF16: Final = int(DataType.bf16)
S8, U8, S32 = (int(DataType[name]) for name in ("s8", "u8", "s32"))
SCRATCH: Final = "scratch"


class Sizes(dict[str, Any]):
    """Sizes by name, as attributes too: numbers, and tuples of several dims."""

    def __getattr__(self, name: str) -> Any:
        return self[name]


Shapes = Callable[[Sizes, Mapping[str, Any]], Mapping[str, tuple[int, ...]]]


@dataclass(frozen=True)
class Case:
    """The part of a kernel's call that its declaration leaves open.

    sizes: numbers by the names that `--shape` takes. dims: the sizes of the dims, from these numbers. arguments: of the
    factory that are neither sizes nor dtypes nor strides of operands. shapes: of operands without dims in the
    declaration. dtypes: of operands that no argument names. below: bound of indices. several: operands that the
    declaration ends with "...". macs: multiply-adds of a run. unit: the dtype of its products.
    """

    sizes: dict[str, int]
    dims: Callable[[Sizes], Mapping[str, Any]] = lambda s: s
    arguments: Callable[[Sizes], Mapping[str, Any]] = lambda s: {}
    shapes: Shapes = lambda s, a: {}
    dtypes: Mapping[str, str] = field(default_factory=dict[str, str])
    below: Callable[[Sizes], int] = lambda s: 1
    several: Mapping[str, int] = field(default_factory=dict[str, int])
    macs: Callable[[Sizes], int] = lambda s: 0
    unit: str = "f32"
    taken: Callable[[Any], Any] = lambda result: result


@dataclass(frozen=True)
class Built:
    """A kernel with an array for each operand. moved: the bytes of all operands but scratch memory."""

    kernel: Any
    operands: tuple[Any, ...]
    moved: int
    macs: int
    unit: str


@cache
def declared() -> dict[str, tuple[Any, ...]]:
    """Returns (parameters, operands) of each declared function and class by its name."""
    return {name: (parameters, operands) for scope, name, _, parameters, _, operands, _ in kernels.table() if not scope}


def names() -> list[str]:
    """Returns the names of all kernels: the declarations with operands."""
    return sorted(name for name, (_, operands) in declared().items() if operands)


def build(name: str, shape: Mapping[str, int] | None = None) -> Built:
    """Returns a kernel of its case's sizes, those of `shape` instead if given, with operands of random numbers.

    Raises:
        InvalidArgumentError: there is no such kernel, or it has no such size.
    """
    if name not in CASES:
        raise InvalidArgumentError(f"no case of a kernel {name!r}; there are {', '.join(CASES)}")
    case, (parameters, text) = CASES[name], declared()[name]
    if unknown := set(shape or ()) - set(case.sizes):
        raise InvalidArgumentError(f"{name} has no size {', '.join(sorted(unknown))}; it has {', '.join(case.sizes)}")
    sizes = Sizes(case.dims(Sizes({**case.sizes, **(shape or {})})))
    operands = list(_operands(text, case))
    shapes = {operand: _sizes(dims, sizes) for operand, dims in operands if dims and sizes.keys() >= {*dims}}
    dims = dict(operands)
    arguments = dict(case.arguments(sizes))
    values = {
        parameter: _argument(parameter, kind, sizes, arguments, shapes, dims)
        for parameter, kind, default in parameters
        if parameter in arguments or parameter in sizes or not default
    }
    kernel = case.taken(getattr(kernels, name)(**values))
    shapes |= case.shapes(sizes, values)
    rng, moved = np.random.default_rng(0), 0
    arrays: list[Any] = []
    for operand, _ in operands:
        if operand == SCRATCH:
            arrays.append(_aligned(kernel.scratch_bytes))
        else:
            arrays.append(_array(rng, shapes[operand], _dtype(operand, case, values), case.below(sizes)))
            moved += arrays[-1].nbytes
    return Built(kernel, tuple(arrays), moved, case.macs(sizes), case.unit)


def _operands(text: str, case: Case) -> Iterable[tuple[str, list[str]]]:
    """Yields the name and the dims of each operand of a declaration, without optional ones and those of an epilogue."""
    depth, begin = 0, 0
    parts: list[str] = []
    for i, letter in enumerate(f"{text},"):
        depth += (letter in "([") - (letter in ")]")
        if letter == "," and depth == 0:
            parts.append(text[begin:i].strip())
            begin = i + 1
    for part in parts:
        name, _, rest = part.partition("(")
        name = name.split()[0].rstrip(".")
        if not part.startswith("["):
            count = case.several.get(name, 0) if part.endswith("...") else 1
            yield from [(name, [dim.strip() for dim in rest.rpartition(")")[0].split(",") if dim.strip()])] * count


def _sizes(dims: Iterable[str], sizes: Sizes) -> tuple[int, ...]:
    """Returns the sizes of dims by their text in the declaration; a tuple stands for several dims."""
    shape: list[int] = []
    for dim in dims:
        shape.extend(np.atleast_1d(sizes[dim]).tolist())
    return tuple(shape)


def _argument(
    name: str,
    kind: str,
    sizes: Sizes,
    arguments: Mapping[str, Any],
    shapes: Mapping[str, tuple[int, ...]],
    dims: Mapping[str, list[str]],
) -> Any:
    """Returns an argument of a factory: given, a size, a declared object, or the dtype or strides of an operand."""
    if name in arguments:
        return arguments[name]
    if name in sizes:
        return sizes[name]
    if kind in declared():
        given = [p for p in declared()[kind][0] if p[0] in arguments or p[0] in sizes or not p[2]]
        return getattr(kernels, kind)(**{p: _argument(p, k, sizes, arguments, shapes, dims) for p, k, _ in given})
    if name.endswith("dtype"):
        return F32
    operand = name.removesuffix("_strides")
    return _strides(shapes[operand], dims[operand])


def _strides(shape: tuple[int, ...], dims: list[str]) -> tuple[int, ...]:
    """Returns the strides of a dense operand, channels last; filter kernels leave out the stride of the channels."""
    if dims[:2] in (["n", "c"], ["n", "channels"]):
        strides = dense_strides((shape[0], *shape[2:], shape[1]))
        return (strides[0], strides[-1], *strides[1:-1])
    return dense_strides(shape)[:-1] if dims[0] == "batch" and dims[-1].endswith("_channels") else dense_strides(shape)


def _dtype(operand: str, case: Case, values: Mapping[str, Any]) -> str:
    if operand in case.dtypes:
        return case.dtypes[operand]
    number = values.get(f"{operand}_dtype", values.get("dtype", F32))
    return DataType(number).name


def _array(rng: np.random.Generator, shape: tuple[int, ...], dtype: str, below: int) -> Any:
    kind = dtypes.numpy_dtype(dtype)
    if kind.kind in "iu":
        return rng.integers(0, below, shape).astype(kind) if dtype == "s64" else np.ones(shape, kind)
    return rng.standard_normal(shape, np.float32).astype(kind)


def _aligned(size: int) -> Any:
    memory = np.zeros(size + 64, np.uint8)
    begin = -memory.ctypes.data % 64
    return memory[begin : begin + size]


# ---- sizes ---------------------------------------------------------------------------------------------------------

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


def _depthwise(s: Sizes, dtype: int = F32) -> Any:
    src, dst = (_strides((s.n, s.c, *s[name]), ["n", "c"]) for name in ("src_spatial", "dst_spatial"))
    return kernels.DepthwiseProblem(_layer(s), dtype, src, dense_strides((s.c, *s.kernel)), dst)


def _sides(s: Sizes) -> dict[str, tuple[int, ...]]:
    """Shapes of both sides of a FilterProblem, channels last."""
    return {
        "src": (s.batch, *s.in_spatial, s.in_channels),
        "dst": (s.batch, *s.out_spatial, s.out_channels),
        "weights": (s.in_channels, s.out_channels, *s.kernel),
    }


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
        "position": s.out_channels,
    }


def _int8_size(problem: Any) -> int:
    return int(kernels.int8_packed_size(problem, "dgrad"))


def _quads() -> str:
    """Returns the set of depthwise sums of 8 bits: tiles have none, and the vectors of such a CPU take their place."""
    best = kernels.int8_isa()[0]
    return "avx512vnni" if best == "amxint8" else str(best)


def _int8_depthwise(s: Sizes) -> dict[str, Any]:
    src, dst = (_strides((s.n, s.c, *s[name]), ["n", "c"]) for name in ("src_spatial", "dst_spatial"))
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
        "index": 8,
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
        IMAGE, _image, lambda s: {"src_strides": dense_strides(s.shape), "dst_strides": _strides(s.shape, ["n", "c"])}
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
        lambda s, a: {"packed": (kernels.few_channels_packed_size(_layer(s), s.channels),)},
    ),
    "few_channels_product": Case(
        {**LAYER, "c": 3, "size": 112, "channels": 32},
        layer,
        lambda s: {"layer": _layer(s)},
        lambda s, a: {"packed": (kernels.few_channels_packed_size(_layer(s), s.channels),)},
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
    "gather": Case(INDEXED, _indexed, dtypes={"places": "s64"}, below=lambda s: s.sizes[0]),
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
            "src": (s.n, s.c, *s.src_spatial),
            "dst": (s.n, s.c, *s.dst_spatial),
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
            "src": (s.n, s.c, *s.src_spatial),
            "dst": (s.n, s.c, *s.dst_spatial),
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
        lambda s, a: {"rows": _rows(s), **_packed(_int8_size)(s, a)},
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
        lambda s, a: {"src": _sides(s)["src"], "rows": _rows(s)},
        {"rows": "u8"},
    ),
    "int8_sums": Case(
        CONV,
        conv,
        _int8,
        lambda s, a: {"rows": _rows(s), "sums": (s.batch, *s.out_spatial, 1)},
        {"rows": "u8", "sums": "s32"},
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
            name: _strides((s.n, s.c, *s[side]), ["n", "c"])
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
        dtypes={"places": "s64"},
    ),
}
