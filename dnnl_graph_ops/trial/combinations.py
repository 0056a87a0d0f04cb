"""The tried combinations of an int8 partition's features: the full product of each block."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

from .. import schema
from ..onednn.exact_int8 import Features

_TYPES = ("u8", "u8 zp", "s8", "s8 zp")
_RESULTS = ("f32", *_TYPES)
_WEIGHTS = ("s8", "s8 channel")
_UNARY = tuple(sorted(kind for kind in schema.POST_OPS if not schema.OPS[kind].binary and kind != "BiasAdd"))
_BINARY = tuple(
    f"{kind} {spread}"
    for kind in sorted(kind for kind, op in schema.OPS.items() if op.binary and kind != "BiasAdd")
    for spread in ("one", "channel", "full")
)


def _forms(*features: str) -> tuple[str, ...]:
    """Yields every combination of features, each left out or with one of its words."""
    return tuple(" ".join(filter(None, words)) for words in product(*(["", *words.split()] for words in features)))


_FORMS = _forms("strided", "groups depthwise")
_WINDOWS = _forms("strided", "padded", "exclude_pad", "ceil")
_ENDS = ("f32", "u8 zp", "s8")
PLAIN = ("", "ReLU", "bias", "bias, ReLU")
_SUMS = ("bias, Add skip", "bias, Add skip, ReLU")
_TWICE = ("bias, Add source", "bias, Multiply source")
_LONG = (
    "bias, Sigmoid, Multiply own",
    *(f"bias, {kind}" for kind in _UNARY),
    *(text for word in _BINARY for text in (f"bias, {word}", f"bias, {word}, ReLU", f"bias, ReLU, {word}")),
)


def _block(
    head: str,
    ranks: tuple[int, ...],
    forms: tuple[str, ...],
    weights: tuple[str, ...],
    all_post_ops: tuple[str, ...],
    sources: tuple[str, ...] = _TYPES,
    results: tuple[str, ...] = _RESULTS,
) -> Iterator[Features]:
    # post-ops with each integer dtype that they may add
    skips = [(post_ops, skip) for post_ops in all_post_ops for skip in (_TYPES if "skip" in post_ops else ("",))]
    for rank, form, src, w, (post_ops, skip), dst in product(ranks, forms, sources, weights, skips, results):
        # each group of a transposed depthwise convolution has one output channel; all groups share one scale
        if head == "ConvTranspose" and "depthwise" in form:
            w = w.removesuffix(" channel")
        yield Features(head, rank, form, src, w, post_ops, skip, dst)


def _convolutions(head: str) -> Iterator[Features]:
    channel = _WEIGHTS[1:]
    uneven = tuple(f"{form} uneven" for form in _FORMS if "strided" in form and head == "ConvTranspose")
    yield from _block(head, (1, 2, 3), _FORMS, _WEIGHTS, PLAIN)
    yield from _block(head, (1, 2), uneven, _WEIGHTS, PLAIN)
    yield from _block(head, (3,), uneven[:1], channel, PLAIN, ("u8 zp", "s8"), _ENDS)
    yield from _block(head, (1, 2), ("dilated",), _WEIGHTS, PLAIN)
    yield from _block(head, (2,), ("", "depthwise"), _WEIGHTS, _SUMS)
    yield from _block(head, (1, 3), ("",), channel, _SUMS, ("u8 zp", "s8"), _ENDS)
    yield from _block(head, (2,), ("strided", "groups", *uneven[:1]), channel, _SUMS, ("u8 zp", "s8"), _ENDS)
    yield from _block(head, (2,), ("", "depthwise", "strided", *uneven[:1]), channel, _LONG, ("u8 zp", "s8"), _ENDS)
    yield from _block(head, (2,), ("",), channel, ("bias",), ("u8 axis", "s8 axis zp"), _ENDS)
    yield from _block(head, (2,), ("",), channel, _TWICE, ("u8 zp",), ("f32", "u8 zp"))


def _matmuls() -> Iterator[Features]:
    head, plain, batches = "MatMul", ("", "transpose_b"), ("batched", "transpose_b batched")
    yield from _block(head, (2, 3, 4), plain, _WEIGHTS, ("", "bias"))
    yield from _block(head, (2, 3, 4), ("",), _WEIGHTS, ("ReLU", "bias, ReLU"))
    yield from _block(head, (3, 4), batches, _TYPES, ("",), results=_ENDS)
    zero_points = ("s8 zp", "u8", "u8 zp", "u8 channel")
    yield from _block(head, (2, 3, 4), plain, zero_points, ("", "bias"), results=("f32", "u8 zp", "s8", "s8 zp"))
    yield from _block(head, (2,), ("transpose_a",), (*_WEIGHTS, *zero_points), ("",), results=_ENDS)
    yield from _block(head, (2, 3), ("",), _WEIGHTS[1:], _SUMS)
    yield from _block(head, (2,), ("",), _WEIGHTS[1:], _LONG, ("u8 zp", "s8"), _ENDS)
    yield from _block(head, (2,), ("",), _WEIGHTS[1:], _TWICE, ("u8 zp",), ("f32", "u8 zp"))
    yield from _block(head, (2,), ("",), ("s8 channel", "s8 axis"), ("bias",), ("u8", "u8 axis", "s8 axis zp"), _ENDS)


def _pools() -> Iterator[Features]:
    for head in sorted(schema.kinds("pools")):
        forms = tuple(form for form in _WINDOWS if head == "AvgPool" or "exclude" not in form)
        yield from _block(head, (2,), forms, ("",), ("",), results=_TYPES)
        yield from _block(head, (1, 3), forms, ("",), ("",), ("u8", "s8 zp"), ("u8", "s8 zp"))
        yield from _block(head, (2,), ("",), ("",), ("ReLU", "Add skip"), ("u8", "s8 zp"), ("u8", "s8 zp"))


def combinations() -> list[Features]:
    """Yields all combinations, each once."""
    heads = (*_convolutions("Convolution"), *_convolutions("ConvTranspose"), *_matmuls(), *_pools())
    return list(dict.fromkeys(heads))
