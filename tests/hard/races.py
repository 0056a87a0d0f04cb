"""What threads do to the native code at once: `python -m hard.races SEED ROUNDS`, made for a race detector.

One OpenMP thread: the runtime's own synchronisation is invisible to the detectors.
"""

import gc
import queue
import sys
from collections.abc import Callable
from typing import Any
from unittest import mock

import numpy as np
from concurrently import in_threads

import dnnl_graph_ops as dgo
from dnnl_graph_ops.compile import bands, tile_rows

from .work import FAMILY, Case, Draw, cases, chain_net, dense_net, plain_net, up_net, wide_net

THREADS = 4

Work = Callable[[int], None]


def together(*work: Work) -> None:
    """Each in a thread of its own, started at once."""
    in_threads(len(work), lambda number: work[number](number))


def plan_stores(todo: list[Case], draw: Draw) -> None:
    """One-shot functions and open nets find, miss, insert and drop plans."""

    def call(number: int) -> None:
        for step in range(2 * len(todo)):
            todo[(step * (number + 1)) % len(todo)].check()

    def drop(_: int) -> None:
        for _ in range(10):
            dgo.clear_caches()
            dgo.cache_info()

    together(*[call] * (THREADS - 1), drop)


def first_run(todo: list[Case], draw: Draw) -> None:
    """The library packs constants while the first call runs; here there are several first calls."""
    first, second, up = draw(32, 48), draw(48, 8), draw(4, 4, 8, 16)
    src, image = draw(4, 32), draw(1, 5, 5, 16)
    dense, wide = dense_net(first, second), up_net(up)
    expected = np.maximum(src @ first, 0) @ second
    expected_image = np.maximum(dgo.conv_transpose(image, up, **FAMILY), 0)

    def call(_: int) -> None:
        assert np.array_equal(dense(src), expected)
        assert np.array_equal(wide(image), expected_image)

    together(*[call] * THREADS)


def pools(todo: list[Case], draw: Draw) -> None:
    """Scratch that all plans share is borrowed, given back, measured and dropped."""
    nets = [wide_net(draw(2, 2, 4, 4)) for _ in range(2)]
    sources = [draw(1 + n, 24, 24, 4) for n in range(2)]
    expected = [[net(src) for src in sources] for net in nets]

    def call(number: int) -> None:
        for step in range(8):
            net, src = (number + step) % 2, (number * step) % 2
            assert np.array_equal(nets[net](sources[src]), expected[net][src])

    def drop(_: int) -> None:
        for _ in range(20):
            dgo.cache_info()
            dgo._core.idle_scratch_bytes()
            dgo._core.drop_idle_scratch()

    together(*[call] * (THREADS - 1), drop)


def workers(todo: list[Case], draw: Draw) -> None:
    """Calls behind the caller's back, from several threads, beside direct ones."""
    net, src = up_net(draw(4, 4, 8, 16)), draw(1, 5, 5, 16)
    expected = net(src)

    def submit(_: int) -> None:
        for future in [net.submit(src) for _ in range(10)]:
            assert np.array_equal(future.result(), expected)

    def call(_: int) -> None:
        for _ in range(10):
            assert np.array_equal(net(src), expected)

    together(*[submit, call] * (THREADS // 2))


def dropped(todo: list[Case], draw: Draw) -> None:
    """Nets end while others run, in whatever thread lets go of them last."""
    shared: list[Any] = [dense_net(draw(32, 48), draw(48, 8))]
    src = draw(4, 32)

    def call(_: int) -> None:
        for _ in range(20):
            assert shared[0](src).shape == (4, 8)

    def replace(number: int) -> None:
        for n in range(5):
            shared[0] = dense_net(Draw(n)(32, 48), Draw(n + 1)(48, 8))
        gc.collect()

    together(*[call] * (THREADS - 1), replace)


def looked_at(todo: list[Case], draw: Draw) -> None:
    """Timing loops and tables beside calls."""
    net, src = up_net(draw(4, 4, 8, 16)), draw(1, 5, 5, 16)
    expected = net(src)

    def call(_: int) -> None:
        for _ in range(20):
            assert np.array_equal(net(src), expected)

    def look(_: int) -> None:
        net.benchmark(src, repeat=3)
        net.profile(src)
        str(net.explain())

    together(call, look, call, look)


def exchanged(todo: list[Case], draw: Draw) -> None:
    """Arrays go through DLPack and end in another thread than the one that made them."""
    left: queue.SimpleQueue[Any] = queue.SimpleQueue()

    def give(_: int) -> None:
        for _ in range(50):
            array = draw(3, 4)
            left.put(dgo.from_dlpack(dgo.to_dlpack(array)))
            left.put(np.from_dlpack(dgo.to_dlpack(array)))

    def drop(_: int) -> None:
        for _ in range(100):
            assert left.get(timeout=60).shape == (3, 4)

    together(give, drop, give, drop)


def new_sizes(todo: list[Case], draw: Draw) -> None:
    """Sizes that a net has not met come from all threads at once: it compiles one, traces one, and evaluates others."""
    weights = [draw(8, 8, 3) for _ in range(3)]
    meet(lambda length: chain_net(weights, length), [draw(1, 8, length) for length in range(30, 54, 2)])


def new_bands(todo: list[Case], draw: Draw) -> None:
    """As `new_sizes`, for layers that compute bands of rows, each size other ones."""
    weights = [draw(8, 8, 3) for _ in range(3)]
    with (
        mock.patch.object(tile_rows, "saving", lambda chain, env: float(len(chain))),
        mock.patch.object(bands, "NEAR", 1 << 14),
    ):
        meet(lambda length: plain_net(weights, length), [draw(1, 8, length) for length in range(1000, 1480, 40)])


def meet(net_of: Callable[[int | None], dgo.Net], sources: list[np.ndarray]) -> None:
    """Threads call a net with sources that they meet in different orders, and another thread drops its plans."""
    net, expected = net_of(None), [net_of(src.shape[2])(src) for src in sources]

    def call(number: int) -> None:
        for step in range(2 * len(sources)):
            at = step * (number + 1) % len(sources)
            assert np.array_equal(net(sources[at]), expected[at])

    def drop(_: int) -> None:
        for _ in range(3):
            net.prepare([src.shape for src in sources[::3]])
            net.clear_plans()

    together(*[call] * (THREADS - 1), drop)


SCENES = (plan_stores, first_run, pools, workers, dropped, looked_at, exchanged, new_sizes, new_bands)


def main(seed: int, rounds: int) -> None:
    todo = cases(seed)
    for number in range(rounds):
        for scene in SCENES:
            print(scene.__name__, number, flush=True)
            scene(todo, Draw(seed + number))
    print(f"DONE {rounds * len(SCENES)} scenes in {THREADS} threads")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:3]))
