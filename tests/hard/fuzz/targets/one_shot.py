"""One-shot functions of the family with hostile attributes, shapes, strides and dtypes, and their results.

Attributes may be any integers; `pads_end` is often chosen so that dst stays small whatever they are. Where a call goes
through on plain f32 data, its result is compared with a sum over the products that exist.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np
from reference import conv_transpose as ct

import dnnl_graph_ops as dgo
from hard.fuzz import sums
from hard.fuzz.arrays import FLOATS, MOST, array
from hard.fuzz.choices import Choices

SIZES = (4, 1, 2, 3, 5, 7, 8, 16, 33, 0)
CHANNELS = (4, 1, 2, 3, 8, 16, 17, 32)
KERNELS = (3, 1, 2, 4, 5, 7, 0)
FORMATS = ("XOI", "IOX", "OIX", "XIO")
AUTO_PADS = ("none", "none", "none", "valid", "same_upper", "same_lower", "SAME_UPPER", "")
# results between these are honest work that finds nothing; above, they must be refused or fail to be allocated
BIG, HUGE = 1 << 20, 1 << 36


@dataclass
class Layer:
    """A layer of choices: sizes in the order (N, C, spatial...), attributes per axis."""

    rank: int
    batch: int
    channels: tuple[int, int]
    groups: int
    source: list[int]
    kernel: list[int]
    strides: list[int]
    dilations: list[int]
    pads_begin: list[int]
    pads_end: list[int]
    output_padding: list[int]
    auto_pad: str
    data_format: str
    weights_format: str

    @property
    def dst(self) -> list[int]:
        if self.auto_pad.lower() not in ("none", ""):
            return [i * s for i, s in zip(self.source, self.strides, strict=True)]
        return list(ct.output_spatial(self.source, self.kernel, self.setting()))

    @property
    def back(self) -> list[int]:
        """Sizes of src by those of a dst that is small."""
        steps = tuple(max(n, 1) for n in self.strides)
        small = [min(max(n, 0), 256) for n in self.dst]
        return list(ct.source_spatial(small, self.kernel, self.setting()._replace(strides=steps)))

    def setting(self) -> ct.Setting:
        lists = self.strides, self.dilations, self.pads_begin, self.pads_end, self.output_padding
        return ct.Setting(*map(tuple, lists), self.groups)

    def data(self, channels: int, spatial: list[int]) -> tuple[int, ...]:
        if self.data_format.upper() == "NCX":
            return self.batch, channels, *spatial
        return self.batch, *spatial, channels

    @property
    def weights(self) -> tuple[int, ...]:
        iox = self.channels[0], self.channels[1] // max(self.groups, 1), *self.kernel
        return ct.from_iox(np.broadcast_to(0, iox), self.weights_format).shape

    def keywords(self) -> dict[str, Any]:
        names = ("strides", "pads_begin", "pads_end", "dilations", "output_padding")
        return {
            **{name: _per_axis(getattr(self, name)) for name in names},
            **{name: getattr(self, name) for name in ("auto_pad", "groups", "data_format", "weights_format")},
        }


def _per_axis(values: list[int]) -> int | list[int]:
    return values[0] if len(set(values)) == 1 else values


def draw(c: Choices) -> Layer:
    rank = 1 + (1 + c.below(3)) % 3
    depthwise = c.below(4) == 1
    inside, outside = c.pick(CHANNELS), c.pick(CHANNELS)
    groups = 1
    if depthwise:
        groups = outside = inside
    elif c.rarely():
        groups = c.number() if c.often() else c.pick((2, 4, 8))
    layer = Layer(
        rank,
        c.pick((1, 2, 3, 0)),
        (inside, outside),
        groups,
        *([c.pick(sizes) for _ in range(rank)] for sizes in (SIZES, KERNELS)),
        *([_value(c, least) for _ in range(rank)] for least in (1, 1, 0, 0, 0)),
        c.pick(AUTO_PADS) if c.often() else "none",
        c.pick(("NXC", "NCX")),
        c.pick(FORMATS),
    )
    while prod(layer.source) * inside * max(layer.batch, 1) > MOST:
        layer.source = [(n + 1) // 2 for n in layer.source]
    for axis in range(rank):
        if c.often():
            # dst of a small size, whatever the others are
            layer.pads_end[axis] = 0
            layer.pads_end[axis] = layer.dst[axis] - 1 - c.below(16)
    return layer


def _value(c: Choices, least: int) -> int:
    kind = c.byte() % 8
    return least + (c.below(3) if kind < 6 else 0) if kind < 7 else c.number()


def _arrays(c: Choices, layer: Layer, dtype: Any) -> tuple[Any, Any, Any, Any]:
    dst = [n if 0 <= n <= 256 else c.below(8) for n in layer.dst]
    return (
        array(c, layer.data(layer.channels[0], layer.source), dtype),
        array(c, layer.weights, dtype),
        array(c, layer.data(layer.channels[1], dst), dtype),
        array(c, (layer.channels[1],), dtype),
    )


def shape_of(given: Any) -> tuple[int, ...]:
    """That of an array; what is none may be ragged, which NumPy refuses."""
    return getattr(given, "shape", ())


def one(data: bytes) -> None:
    c = Choices(data)
    which = c.below(6)
    layer = draw(c)
    results = layer.dst, layer.back
    if any(BIG < prod(max(n, 0) for n in result) * max(layer.channels) * layer.batch < HUGE for result in results):
        return
    keywords = layer.keywords()
    if c.rarely():
        keywords[c.pick(list(keywords))] = c.odd()
    src, weights, diff, bias = _arrays(c, layer, c.pick(FLOATS))
    shape = c.pick((None, None, 0, 1))
    asked = {0: shape_of(weights), 1: [c.number() for _ in range(layer.rank + 2)]}.get(shape)
    if which == 0:
        with_bias = c.often()
        out = array(c, layer.data(layer.channels[1], layer.dst), src_dtype(src)) if c.rarely() else None
        found = dgo.conv_transpose(src, weights, bias if with_bias else None, out=out, **keywords)
        check(layer, src, weights, found, found, bias if with_bias else None)
    elif which == 1:
        wanted = shape_of(src) if c.often() else asked
        found = dgo.conv_transpose_backward_data(diff, weights, src_shape=wanted, **keywords)
        check(layer, found, weights, diff, found)
    elif which == 2:
        found = dgo.conv_transpose_backward_weights(src, diff, asked, **keywords)
        if shape_of(found) == layer.weights:
            check(layer, src, found, diff, found)
    elif which == 3:
        keywords["filter_format"] = keywords.pop("weights_format")
        dgo.conv_transpose_backprop_filters(src, diff, asked, **keywords)
    elif which == 4:
        dgo.conv_transpose_backward_bias(diff, data_format=keywords["data_format"])
    else:
        dgo.conv_transpose_output_shape(shape_of(src), asked or shape_of(weights), **keywords)


def src_dtype(src: Any) -> Any:
    return getattr(src, "dtype", np.float32)


def check(layer: Layer, src: Any, weights: Any, dst: Any, result: Any, bias: Any = None) -> None:
    """Compare the one of the three that is the result with the definition, where all are f32 and the pads explicit."""
    arrays = [src, weights, dst] + ([] if bias is None else [bias])
    if layer.auto_pad.lower() != "none" or any(getattr(a, "dtype", None) != np.float32 for a in arrays):
        return
    x, y = (ct.channels_first(np.asarray(a, np.float64), layer.data_format) for a in (src, dst))
    w = ct.to_iox(np.asarray(weights, np.float64), layer.weights_format)
    setting = sums.Setting(layer.strides, layer.dilations, layer.pads_begin, layer.groups)
    found, expected = sums.compare(x, w, y, setting, "xwy"[[result is a for a in arrays].index(True)])
    if bias is not None:
        expected += np.asarray(bias, np.float64).reshape((-1,) + (1,) * layer.rank)
    np.testing.assert_allclose(found, expected, atol=1e-2, rtol=1e-3, err_msg=str(layer))
