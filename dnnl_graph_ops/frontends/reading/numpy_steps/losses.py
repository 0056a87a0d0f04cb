"""Classification losses: SoftmaxCrossEntropyLoss and NegativeLogLikelihoodLoss."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..node import Array, OnnxNode
from .activations import log_softmax
from .common import among, item, places, wide
from .table import computes


def _reduced(node: OnnxNode, scores: Array, inputs: Sequence[Any]) -> Array:
    """Returns the reduced loss of log-probabilities (N, C, ...) and labels; ignored labels have weight 0."""
    labels, weights = inputs[1], item(inputs, 2)
    ignored = node.attrs.get("ignore_index")
    skipped = np.zeros(labels.shape, bool) if ignored is None else labels == ignored
    chosen = places(node, np.where(skipped, 0, labels), scores.shape[1], back=False)
    each = np.ones(labels.shape) if weights is None else wide(weights)[chosen]
    each = np.where(skipped, 0, each)
    cost = np.where(skipped, 0, -np.take_along_axis(scores, chosen[:, None], 1)[:, 0]) * each
    reduction = among(node, "reduction", "mean", ("none", "sum", "mean"))
    if reduction == "none":
        return np.asarray(cost)
    return np.asarray(cost.sum() if reduction == "sum" else cost.sum() / each.sum())


@computes("NegativeLogLikelihoodLoss")
def _likelihood(node: OnnxNode, inputs: Sequence[Any]) -> Array:
    return _reduced(node, wide(inputs[0]), inputs)


@computes("SoftmaxCrossEntropyLoss")
def _entropy(node: OnnxNode, inputs: Sequence[Any]) -> tuple[Array, ...]:
    scores = log_softmax(inputs[0], 1)
    return (_reduced(node, scores, inputs), scores)[: len(node.outputs)]
