"""Attention with dtypes or features that no graph takes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ....errors import ShapeError
from ..node import Array, OnnxNode
from . import sizes
from .common import item, wide
from .table import computes


def _heads(node: OnnxNode, data: Array, name: str) -> Array:
    """Returns (N, heads, length, size) from (N, length, heads * size)."""
    if data.ndim == 4:
        return data
    heads = int(node.attrs.get(name) or 0)
    if data.ndim != 3 or heads < 1 or data.shape[2] % heads:
        raise ShapeError(f"{node.where}: {heads} heads of data of shape {data.shape}")
    return data.reshape(*data.shape[:2], heads, -1).swapaxes(1, 2)


def _shared(node: OnnxNode, queries: Array, *others: Array) -> list[Array]:
    """Returns keys or values repeated to one head for each query head."""
    times, rest = divmod(queries.shape[1], others[0].shape[1])
    if rest:
        raise ShapeError(f"{node.where}: {queries.shape[1]} heads of queries for {others[0].shape[1]} of keys")
    return [one if times == 1 else np.repeat(one, times, 1) for one in others]


def visible(length: int, total: int, offset: Any, causal: bool, left: int, right: int) -> Array:
    """Returns the mask of the keys, of `total`, that each query sees by a window; -1: unbounded on that side."""
    distance = np.arange(total) - (np.arange(length)[:, None] + np.asarray(offset)[..., None, None])
    seen = np.ones(distance.shape, bool)
    if causal:
        seen &= distance <= 0
    if left >= 0:
        seen &= distance >= -left
    if right >= 0:
        seen &= distance <= right
    return seen


def _added(node: OnnxNode, inputs: Sequence[Any], length: int, total: int) -> Array:
    """Returns the summand of the scores: the mask, and -Inf for hidden keys."""
    mask, past, valid = item(inputs, 3), item(inputs, 4), item(inputs, 6)
    offset = np.asarray(0 if past is None else past.shape[2]) if valid is None else valid.reshape(-1) - length
    window = (int(node.attrs.get(f"{side}_window_size", -1)) for side in ("left", "right"))
    seen = visible(length, total, offset, bool(node.attrs.get("is_causal", 0)), *window)
    if valid is not None:
        seen = seen[:, None] & (np.arange(total) < valid.reshape(-1, 1, 1, 1))
    bias = np.where(seen, 0.0, -np.inf)
    if mask is None:
        return bias
    more = np.where(mask, 0.0, -np.inf) if mask.dtype.kind == "b" else wide(mask)
    short = total - more.shape[-1]
    if short > 0:
        more = np.pad(more, [(0, 0)] * (more.ndim - 1) + [(0, short)], constant_values=-np.inf)
    return np.asarray(bias + more)


@computes("Attention", size=sizes.scores)
def _attention(node: OnnxNode, inputs: Sequence[Any]) -> tuple[Array, ...]:
    queries = _heads(node, inputs[0], "q_num_heads")
    keys, values = (_heads(node, one, "kv_num_heads") for one in inputs[1:3])
    past = item(inputs, 4), item(inputs, 5)
    keys, values = (
        new if old is None else np.concatenate((old, new), 2) for old, new in zip(past, (keys, values), strict=True)
    )
    stages = [np.empty(0)] * 4
    scale = node.attrs.get("scale")
    all_keys, all_values = map(wide, _shared(node, queries, keys, values))
    scale = queries.shape[3] ** -0.5 if scale is None else scale
    scores = stages[0] = wide(queries) @ all_keys.swapaxes(2, 3) * scale
    if cap := node.attrs.get("softcap", 0.0):
        scores = np.tanh(scores / cap) * cap
    stages[1] = scores
    bias = _added(node, inputs, queries.shape[2], keys.shape[2])
    stages[2] = scores = scores + bias
    # a query that sees no key gives zeros
    most = scores.max(-1, keepdims=True, initial=-np.inf)
    shares = np.exp(scores - np.where(np.isfinite(most), most, 0))
    blind = np.isneginf(bias.max(-1, keepdims=True, initial=-np.inf))
    total = shares.sum(-1, keepdims=True)
    stages[3] = shares = np.where(blind, 0, shares / np.where(total == 0, 1, total))
    result = shares @ all_values
    if inputs[0].ndim == 3:
        result = result.swapaxes(1, 2).reshape(*inputs[0].shape[:2], -1)
    shown = stages[int(node.attrs.get("qk_matmul_output_mode", 0))]
    return (result, keys, values, shown)[: len(node.outputs)]
