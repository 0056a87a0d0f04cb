"""The plans of all nets and one-shot functions: how many, how large, what bounds them, and giving memory back."""

from __future__ import annotations

from typing import TypedDict

from . import functional
from ._core import clear_plans, drop_idle_scratch, give_back, idle_scratch_bytes, plan_totals, set_plan_limit
from .errors import InvalidArgumentError
from .runtime.libraries import loaded
from .runtime.memory_limit import memory_limit


class CacheBytes(TypedDict):
    """What `total` is the sum of, and the `limit` of what plans hold (all but `shared_scratch`)."""

    total: int
    constants: int
    library: int
    objects: int
    shared_scratch: int
    limit: int


class CacheInfo(TypedDict):
    """`hits` to `size` are of the one-shot functions' cache; `net_plans` and `bytes` of everything alive."""

    hits: int
    misses: int
    size: int
    net_plans: int
    bytes: CacheBytes


def cache_info() -> CacheInfo:
    """How full the caches of plans are. A plan counts once, whatever calls it serves.

    Of the bytes, `constants` are what plans packed or computed for own kernels, once however many plans read it;
    `library` is at most what a library before oneDNN 3.4 packed of the constants that its partitions read; `objects`
    is what plans are besides, by estimate: some KB each, and 128 KB for each partition of the library, most of it
    compiled code. `shared_scratch` waits for the next run of any plan: 64 KB for each thread that calls, and blocks as
    large as the largest plan alive needs. Not counted: the graphs' own constants (they go with the graph), a newer
    library's store of packed constants (bounded at 1 GiB), the library's cache of primitives (1,024 of them), and the
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


def set_cache_limit(bytes: int | None) -> None:
    """Let all plans together hold so many bytes.

    Where a new plan needs room, those go first that took the least time to make for the bytes they alone hold, divided
    by how many calls ago they were used last. The plan that a net used last stays whatever it takes, and so does the
    last one of the one-shot functions.

    Args:
        bytes: None: a quarter of the machine's memory, or of what a control group (a container's limit, v1 or v2) of
            the process allows where that is less; as when the package was imported.

    Raises:
        InvalidArgumentError: a negative number. TypeError: not an int.
    """
    if bytes is not None and (isinstance(bytes, bool) or not isinstance(bytes, int)):
        raise TypeError(f"set_cache_limit: 'bytes' must be an int or None, got {type(bytes).__name__}")
    if bytes is not None and not 0 <= bytes < 1 << 63:
        raise InvalidArgumentError(f"set_cache_limit: 'bytes' must be from 0 to 2**63 - 1, got {bytes}")
    set_plan_limit(memory_limit() // 4 if bytes is None else bytes)


def clear_caches() -> None:
    """Drop every plan, what the libraries cache, and the scratch memory that waits for the next call.

    The memory goes back to the system, as far as the allocator can tell that it is free; without this call it does so
    whenever plans or constants of 8 MB have been dropped. Plans are built anew when needed. Waits for what other
    threads have a library compile at the moment.

    What a library never gives back stays: oneDNN 3.2 keeps the code of every `brgemm` kernel unlike all before, 1 to 6
    KB for each new shape of a MatMul, Convolution or ConvTranspose that it runs. Nets of own forms leave less
    than 1 KB each.
    """
    clear_plans()
    for library in loaded():
        library.drop_caches()
    drop_idle_scratch()
    give_back()


set_cache_limit(None)
