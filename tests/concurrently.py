"""Tests of what several threads do at once."""

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor


def in_threads(count: int, function: Callable[[int], object]) -> None:
    """function(0), function(1), ... in a thread each, started at once; what one of them raises is raised here."""
    barrier = threading.Barrier(count)

    def one(index: int) -> None:
        barrier.wait(60)
        function(index)

    with ThreadPoolExecutor(count) as pool:
        for done in [pool.submit(one, index) for index in range(count)]:
            done.result()
