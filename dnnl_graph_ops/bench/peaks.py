"""The machine's peaks as the library reaches them: a large MatMul per data type, and copying memory."""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final, cast

import numpy as np

from ..dtypes import numpy_dtype
from . import timing

_SIZE: Final = 1536
_COPY_BYTES: Final = 256 << 20


def measure(threads: int, dtypes: list[str], seconds: float = 1.0) -> dict[str, Any]:
    """Runs in a worker of this package. Rates of the best repetition.

    Returns:
        "gflops": data type -> 1e9 floating-point operations a second of a 1536 x 1536 x 1536 MatMul; None
        with the reason under "notes" where the library cannot run it; "gbytes": bytes read plus written by a
        copy far larger than the caches, 1e9 a second.
    """
    rates: dict[str, float | None] = {}
    notes: dict[str, str] = {}
    for dtype in dtypes:
        try:
            rates[dtype] = rate(product(dtype, threads), seconds / (len(dtypes) + 1))
        except Exception as error:
            rates[dtype] = None
            notes[dtype] = " ".join(str(error).split())[:200]
    return {"gflops": rates, "gbytes": _copy(threads, seconds / (len(dtypes) + 1)), "notes": notes}


def product(dtype: str, threads: int) -> Callable[[], object]:
    """One execution of the MatMul, ready to run."""
    import dnnl_graph_ops as dgo

    dgo.set_num_threads(threads)
    kind = numpy_dtype(dtype)
    rng = np.random.default_rng(0)
    left, right = (rng.integers(-4, 5, (_SIZE, _SIZE)).astype(kind) for _ in range(2))
    graph, ops = dgo.Graph(), cast(Any, dgo.ops)
    net = graph.compile(ops.matmul(graph.input("left", left.shape, dtype), graph.constant(right)), tune="off")
    out = net(left)
    return lambda: net(left, out=out)


def rate(run: Callable[[], object], seconds: float) -> float:
    """1e9 floating-point operations a second of the best of at least two executions."""
    times = [*timing.burst(run, 0.0), *timing.burst(run, seconds)]
    return float(2 * _SIZE**3 / min(times) * 1e-9)


def _copy(threads: int, seconds: float) -> float:
    source = np.ones(_COPY_BYTES // 8)
    target = np.empty_like(source)
    parts = list(zip(np.array_split(target, threads), np.array_split(source, threads), strict=True))
    best = float("inf")
    with ThreadPoolExecutor(threads) as workers:
        deadline = time.perf_counter() + seconds
        repetitions = 0
        # the first one also maps the pages
        while repetitions < 3 or time.perf_counter() < deadline:
            begin = time.perf_counter()
            list(workers.map(lambda pair: np.copyto(*pair), parts))
            best = min(best, time.perf_counter() - begin)
            repetitions += 1
    return 2 * source.nbytes / best * 1e-9
