"""Every rewrite gives the same numbers where it fires, and declines where a condition does not hold."""

import pytest

from dnnl_graph_ops.lowering.rewrites import REWRITES

from . import folds, groups, patterns, placement, quantized  # noqa: F401
from .harness import PROVERS, prove

EACH = (8, 50, 500)
CLAIMS = [(name, unmet) for name, rewrite in REWRITES.items() for unmet in (None, *rewrite.conditions)]


def test_every_rewrite_is_proved():
    assert set(PROVERS) == set(REWRITES)


@pytest.mark.parametrize(("name", "unmet"), CLAIMS, ids=[f"{name}: {unmet or 'fires'}" for name, unmet in CLAIMS])
def test_same_numbers(name, unmet, seed, amount):
    prove(name, unmet, amount(*EACH), seed)
