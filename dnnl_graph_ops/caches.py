"""Every cache of plans in one place: how full, and empty it."""

from __future__ import annotations

from . import functional
from ._core import drop_idle_scratch
from .compile import net


def cache_info() -> dict[str, int]:
    """Hits, misses, size and capacity of the one-shot functions' cache, and the plans that live nets hold."""
    return {**functional.cache.info(), "net_plans": net.plan_count()}


def clear_caches() -> None:
    """Drop every plan, and the scratch memory that waits for the next call; plans are built anew when needed."""
    functional.cache.clear()
    net.clear_plans()
    drop_idle_scratch()
