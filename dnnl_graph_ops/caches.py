"""The plan cache of all nets and one-shot functions: counts, bytes, its limit, and clearing it."""

from __future__ import annotations

import re
from typing import TypedDict

from . import functional
from ._core import clear_plans, drop_idle_scratch, give_back, idle_scratch_bytes, plan_totals, set_plan_limit
from .errors import InvalidArgumentError
from .runtime.control_groups import memory_limit
from .runtime.libraries import loaded
from .schema.arguments import show


class CacheBytes(TypedDict):
    """The parts of `total` in bytes, and the `limit` of the bytes that plans hold (all but `shared_scratch`)."""

    total: int
    constants: int
    library: int
    objects: int
    shared_scratch: int
    limit: int


class CacheInfo(TypedDict):
    """Counts of plans: `hits` to `size` of the one-shot functions' cache; `net_plans` and `bytes` of all live plans."""

    hits: int
    misses: int
    size: int
    net_plans: int
    bytes: CacheBytes


def cache_info() -> CacheInfo:
    """The number and the bytes of cached plans. A plan counts once, however many nets share it.

    `bytes.constants`: packed weights and other constants computed for builtin kernels, each counted once.
    `bytes.library`: an upper bound of the constants that oneDNN before 3.4 packed for its partitions.
    `bytes.objects`: an estimate of the plans themselves, some KB each, and 128 KB for each oneDNN partition, most of
    it compiled code. `bytes.shared_scratch`: scratch memory that plans share, 64 KB for each calling thread and
    blocks as large as the largest live plan needs. Not counted: constants of graphs (freed with the graph), the store
    of packed constants of oneDNN 3.4 and later (at most 1 GiB), oneDNN's cache of 1,024 primitives, and the
    description of the plan that a net made last.
    """
    counts, totals, idle = functional.cache.info(), plan_totals(), idle_scratch_bytes()
    return {
        "hits": counts["hits"],
        "misses": counts["misses"],
        "size": counts["size"],
        "net_plans": totals["net_plans"],
        "bytes": {
            "total": totals["constants"] + totals["library"] + totals["objects"] + idle,
            "constants": totals["constants"],
            "library": totals["library"],
            "objects": totals["objects"],
            "shared_scratch": idle,
            "limit": totals["limit"],
        },
    }


def set_cache_limit(bytes: int | str | None) -> None:
    """Limit the bytes that all plans together hold.

    Where a new plan needs room, plans of the lowest score are evicted first. The score is the time that compiling the
    plan took, divided by the bytes that only this plan holds and by the number of calls since its last use. The plan
    that a net used last is never evicted, nor is the last plan of the one-shot functions.

    Args:
        bytes: the limit, a number or a text such as "2GB" (10**9 bytes each) or "512MiB" (2**20). None: the default, a
            quarter of the machine's memory or, where that is less, of the limit of the process's control group (a
            container's limit, cgroup v1 or v2).

    Raises:
        InvalidArgumentError: a negative number, or another text. TypeError: neither an int nor a text.
    """
    if isinstance(bytes, str):
        bytes = _bytes_of(bytes)
    if bytes is not None and (isinstance(bytes, bool) or not isinstance(bytes, int)):
        raise TypeError(f"set_cache_limit: 'bytes' must be an int, such as 2 << 30, or None, got {show(bytes)}")
    if bytes is not None and not 0 <= bytes < 1 << 63:
        raise InvalidArgumentError(f"set_cache_limit: 'bytes' must be from 0 to 2**63 - 1, got {bytes}")
    set_plan_limit(memory_limit() // 4 if bytes is None else bytes)


def _bytes_of(text: str) -> int:
    """Returns the number of a text such as "2GB"."""
    parts = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*(?:([kmgt])(i?))?b?\s*", text, re.IGNORECASE)
    if parts is None:
        raise InvalidArgumentError(
            f"set_cache_limit: 'bytes' is a number, or a text such as '2GB' or '512MiB', got {show(text)}"
        )
    number, unit, binary = parts.groups()
    return int(float(number) * (1024 if binary else 1000) ** (" kmgt".index(unit.lower()) if unit else 0))


def clear_caches() -> None:
    """Drop every plan, the libraries' caches and the shared scratch memory.

    Free memory goes back to the system, as far as the allocator can return it; without this call that happens whenever
    plans or constants of 8 MB have been dropped. Plans are compiled again when they are needed. Waits for compilations
    of other threads to end.

    oneDNN never frees some memory: 3.2 keeps the code of every new `brgemm` kernel, 1 to 6 KB for each new shape of
    a MatMul, Convolution or ConvTranspose that oneDNN runs. A net of builtin kernels leaves less than 1 KB.
    """
    clear_plans()
    for library in loaded():
        library.drop_caches()
    drop_idle_scratch()
    give_back()


set_cache_limit(None)
