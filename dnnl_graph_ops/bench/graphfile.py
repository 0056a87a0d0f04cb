"""Graphs in benchdnn's JSON format as problems: those of one layer."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from ..errors import InvalidArgumentError
from .cases import Wanted
from .problem import OPS, Problem

# direction, and which of the two inputs and the output is src, weights, dst
_PLACES: Final = {
    "": ("fwd", 0, 1, 2),
    "BackwardData": ("bwd_d", 2, 1, 0),
    "BackwardWeights": ("bwd_w", 0, 2, 1),
}
_KINDS: Final = {
    prefix + suffix: (op, *places)
    for prefix, op in (("ConvTranspose", OPS[0]), ("Convolution", OPS[1]))
    for suffix, places in _PLACES.items()
}


def is_graph(record: Any) -> bool:
    return isinstance(record, Mapping) and isinstance(record.get("graph"), list) and "version" in record


def wanted(record: Mapping[str, Any], path: Path) -> Wanted:
    """The layer of a graph of one op.

    Raises:
        InvalidArgumentError: an entry is malformed, or there are other ops.
    """
    try:
        ops = record["graph"]
        kinds = [op["kind"] for op in ops]
        if len(ops) == 1 and kinds[0] in _KINDS:
            return _layer(ops[0], path.stem)
        raise InvalidArgumentError(f"{path}: ops {kinds}, not one convolution; time such graphs by net.benchmark")
    except (KeyError, IndexError, TypeError, ValueError) as error:
        if isinstance(error, InvalidArgumentError):
            raise
        raise InvalidArgumentError(f"{path}: malformed graph ({type(error).__name__}: {error})") from None


def _layer(op: Mapping[str, Any], name: str) -> Wanted:
    name_of_op, direction, src_place, weights_place, dst_place = _KINDS[op["kind"]]
    tensors = [*op["inputs"][:2], op["outputs"][0]]
    attributes = {key: entry["value"] for key, entry in op["attrs"].items()}
    last = attributes.get("data_format", "NXC") == "NXC"
    shapes = [list(tensors[place]["shape"]) for place in (src_place, weights_place, dst_place)]
    src, dst = (([s[0], s[-1], *s[1:-1]] if last else s) for s in (shapes[0], shapes[2]))
    weights, rank = shapes[1], len(shapes[0]) - 2
    kernel = weights[:rank] if attributes.get("weights_format", "X").startswith("X") else weights[2:]
    begin, end = attributes["pads_begin"], attributes["pads_end"]
    extent = [(k - 1) * d + 1 for k, d in zip(kernel, attributes["dilations"], strict=True)]
    if str(attributes.get("auto_pad", "None")).upper() != "NONE":
        begin, end = _auto_pad(
            attributes["auto_pad"].upper(),
            [
                e - s if name_of_op == OPS[0] else (o - 1) * s + e - i
                for e, s, i, o in zip(extent, attributes["strides"], src[2:], dst[2:], strict=True)
            ],
        )
    problem = Problem(
        name,
        src[0],
        src[1],
        dst[1],
        tuple(src[2:]),
        tuple(kernel),
        tuple(attributes["strides"]),
        tuple(begin),
        tuple(end),
        () if name_of_op == OPS[1] else _output_padding(src[2:], dst[2:], attributes["strides"], extent, begin, end),
        tuple(attributes["dilations"]),
        int(attributes.get("groups", 1)),
        len(op["inputs"]) == 3 and direction == "fwd",
        op=name_of_op,
    )
    return Wanted(problem, (direction,), (tensors[0]["dtype"],))


def _output_padding(src: list[int], dst: list[int], *each: list[int]) -> tuple[int, ...]:
    """What the written result has beyond the formula; the attribute itself may be over-long."""
    return tuple(o - (s * (i - 1) + e - pb - pe) for i, o, s, e, pb, pe in zip(src, dst, *each, strict=True))


def _auto_pad(mode: str, overhang: list[int]) -> tuple[list[int], list[int]]:
    total = [0 if mode == "VALID" else max(0, size) for size in overhang]
    small, large = [t // 2 for t in total], [t - t // 2 for t in total]
    return (large, small) if mode == "SAME_LOWER" else (small, large)
