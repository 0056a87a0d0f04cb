"""Tests of what several threads do at once."""

import threading
from collections.abc import Callable


def in_threads(count: int, function: Callable[[int], object]) -> None:
    """Calls function(0), function(1), ... in a thread each; what one of them raises fails the test."""
    errors: list[BaseException] = []

    def body(index: int) -> None:
        try:
            function(index)
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=body, args=(i,)) for i in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []
