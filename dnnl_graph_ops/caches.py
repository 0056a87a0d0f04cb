"""The plans of all nets and one-shot functions: how many, how large, and what bounds them."""

from __future__ import annotations

from typing import TypedDict

from . import functional
from ._core import clear_plans, drop_idle_scratch, idle_scratch_bytes, plan_totals, set_plan_limit
from .errors import InvalidArgumentError


class CacheBytes(TypedDict):
    """What `total` is the sum of, and the `limit` of what plans hold (all but `shared_scratch`)."""

    total: int
    constants: int
    library: int
    scratch: int
    shared_scratch: int
    limit: int


class CacheInfo(TypedDict):
    """`hits` to `capacity` are of the one-shot functions' cache; `net_plans` and `bytes` of everything alive."""

    hits: int
    misses: int
    size: int
    capacity: int
    net_plans: int
    bytes: CacheBytes


def cache_info() -> CacheInfo:
    """How full the caches of plans are. A plan counts once, whatever calls it serves.

    Of the bytes, `constants` are what plans packed or computed for own kernels, `library` is at most what a library
    before oneDNN 3.4 packed of the constants that its partitions read, `scratch` what each plan keeps for itself, and
    `shared_scratch` waits for the next run of any plan. Not counted, because nobody says how much it is: the graphs'
    own constants (they go with the graph), compiled code and descriptors inside the library, a newer library's store
    of packed constants (bounded at 1 GiB), and the Python objects that describe a plan.
    """
    counts, totals, idle = functional.cache.info(), plan_totals(), idle_scratch_bytes()
    return {
        "hits": counts["hits"],
        "misses": counts["misses"],
        "size": counts["size"],
        "capacity": counts["capacity"],
        "net_plans": totals["net_plans"],
        "bytes": {
            "total": totals["constants"] + totals["library"] + totals["scratch"] + idle,
            "constants": totals["constants"],
            "library": totals["library"],
            "scratch": totals["scratch"],
            "shared_scratch": idle,
            "limit": totals["limit"],
        },
    }


def set_cache_limit(bytes: int | None) -> None:
    """Let all plans together hold so many bytes; those used longest ago go first.

    The plan that a net used last stays whatever it takes, and so does the last one of the one-shot functions.

    Args:
        bytes: None: a quarter of the machine's memory, as at the start.

    Raises:
        InvalidArgumentError: a negative number. TypeError: not an int.
    """
    if bytes is not None and (isinstance(bytes, bool) or not isinstance(bytes, int)):
        raise TypeError(f"set_cache_limit: 'bytes' must be an int or None, got {type(bytes).__name__}")
    if bytes is not None and not 0 <= bytes < 1 << 63:
        raise InvalidArgumentError(f"set_cache_limit: 'bytes' must be from 0 to 2**63 - 1, got {bytes}")
    set_plan_limit(bytes)


def clear_caches() -> None:
    """Drop every plan, and the scratch memory that waits for the next call; plans are built anew when needed."""
    clear_plans()
    drop_idle_scratch()
