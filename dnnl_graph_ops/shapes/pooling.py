"""Average and maximum pooling and their gradients."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ..errors import InvalidArgumentError, ShapeError
from .common import agree, channels_of, data_shape, expect, need_rank, per_axis, spatial_of, text
from .registry import Meta, Shape, rule
from .windows import positions


def _pooled(where: str, src: Shape, attrs: Mapping[str, Any], *, ceil: bool, name: str = "src") -> Shape:
    layout = attrs["data_format"]
    need_rank(where, name, src, 3, 5, f"{layout} with 1 to 3 spatial axes")
    spatial = spatial_of(src, layout)
    kernel = per_axis(where, attrs, "kernel", len(spatial), 1)
    pooled = positions(where, attrs, spatial, kernel, name, ceil=ceil, crops=True)
    return data_shape(src[0], channels_of(src, layout), pooled, layout)


@rule("AvgPool", "MaxPool")
def pool(inputs: Sequence[Meta], attrs: Mapping[str, Any], where: str) -> list[Meta]:
    shape = _pooled(where, inputs[0].shape, attrs, ceil=attrs["rounding_type"] == "ceil")
    return [Meta(shape, inputs[0].dtype)]


def _check_gradient(where: str, src: Shape, diff_dst: Shape, attrs: Mapping[str, Any], name: str) -> None:
    # the backward ops have no rounding_type: both results of the forward op are good
    floor, ceil = (_pooled(where, src, attrs, ceil=ceil, name=name) for ceil in (False, True))
    if len(diff_dst) != len(src) or not any(all(map(agree, pooled, diff_dst)) for pooled in (floor, ceil)):
        raise ShapeError(
            f"{where}: pooling {name} of shape {text(src)} gives {text(floor)}, but diff_dst has shape "
            f"{text(diff_dst)}; change the shapes, or kernel, strides and pads"
        )


@rule("MaxPoolBackward")
def max_pool_backward(inputs: Sequence[Meta], attrs: Mapping[str, Any], where: str) -> list[Meta]:
    src, diff_dst = inputs
    _check_gradient(where, src.shape, diff_dst.shape, attrs, "src")
    return [src]


@rule("AvgPoolBackward")
def avg_pool_backward(inputs: Sequence[Meta], attrs: Mapping[str, Any], where: str) -> list[Meta]:
    diff_dst, given = inputs[0], attrs.get("src_shape")
    rank, layout = len(diff_dst.shape), attrs["data_format"]
    need_rank(where, "diff_dst", diff_dst.shape, 3, 5, f"{layout} with 1 to 3 spatial axes")
    if len(inputs) > 1:
        expect(where, "src_shape_input", inputs[1].shape, (rank,), f"diff_src has {rank} axes")
    elif given is None:
        raise InvalidArgumentError(
            f"{where}: src_shape is needed; diff_dst {text(diff_dst.shape)} does not determine the shape of diff_src"
        )
    if given is None:
        unknown = (None,) * (rank - 2)
        shape = data_shape(diff_dst.shape[0], channels_of(diff_dst.shape, layout), unknown, layout)
    else:
        shape = tuple(given)
        need_rank(where, "src_shape", shape, rank, rank)
    _check_gradient(where, shape, diff_dst.shape, attrs, "src_shape")
    return [Meta(shape, diff_dst.dtype)]
