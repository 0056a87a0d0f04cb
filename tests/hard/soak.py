"""Long runs in a process of its own: `python -m hard.soak NAME SEED [NUMBER...]` prints what it counted as JSON."""

import ctypes
import faulthandler
import gc
import json
import multiprocessing
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

import dnnl_graph_ops as dgo
from dnnl_graph_ops import graph_api as api
from dnnl_graph_ops import ops
from dnnl_graph_ops.compile import tune
from dnnl_graph_ops.net.net import Net

from .work import FAMILY, Case, Draw, cases, dense_net, image_net, up_net

LT = api.logical_tensor
REBUILD_EVERY = 2000  # calls of a thread
FORK_SECONDS = 20


# -- calls --------------------------------------------------------------------------------------------------------


def _hammer(todo: list[Case], seed: int, calls: int) -> None:
    """Calls in an order of its own, half of them into one `out` each, and now and then a net of its own."""
    rng = np.random.default_rng(seed)
    outs = [np.empty_like(case.expected) for case in todo]
    for done, pick in enumerate(rng.integers(0, len(todo), calls)):
        todo[pick].check(outs[pick] if done % 2 else None)
        if done % REBUILD_EVERY == REBUILD_EVERY - 1:
            src = Draw(seed + done)(2, 32)
            first, second = Draw(seed + done + 1)(32, 16), Draw(seed + done + 2)(16, 4)
            assert np.array_equal(dense_net(first, second)(src), np.maximum(src @ first, 0) @ second)


def calls(seed: int, threads: int, each: int) -> dict[str, Any]:
    todo = cases(seed)
    with ThreadPoolExecutor(threads) as pool:
        for future in [pool.submit(_hammer, todo, seed + 1 + n, each) for n in range(threads)]:
            future.result()
    return {"threads": threads, "calls": threads * each, "kinds of call": len(todo)}


# -- rebuilds -----------------------------------------------------------------------------------------------------


def _up(draw: Draw) -> None:
    up_net(draw(4, 4, 8, 16))(draw(1, 4, 5, 16))


def _dense(draw: Draw) -> None:
    dense_net(draw(32, 48), draw(48, 8))(draw(4, 32))


def _image(draw: Draw) -> None:
    image_net(draw(8, 4, 3, 3))(draw(1, 4, 12, 12))


def _looked_at(draw: Draw) -> None:
    """Everything that a net can be asked for."""
    net = up_net(draw(4, 4, 8, 16))
    src = draw(1, 4, 5, 16)
    net(src)
    net.submit(src).result()
    str(net.explain()), net.to_dot(), net.to_svg(), net.partitions, net.profile(src), net.benchmark(src, repeat=1)


class _Shapes:
    """More shapes in turn than the stores of plans hold: every call builds anew and drops what was built first.

    Without a post-op: oneDNN 3.2 never frees the code of its brgemm kernels that have one, 26 KB each, once its own
    cache of 1024 primitives has dropped them.
    """

    HEIGHTS, WIDTHS = 24, 25

    def __init__(self) -> None:
        g = dgo.Graph()
        src = g.input("src", (None, None, None, 4))
        self.net = g.compile(ops.conv_transpose(src, g.constant(Draw(1)(2, 2, 4, 4)), **FAMILY))
        self.number = 0

    def __call__(self, draw: Draw) -> None:
        height, width = divmod(self.number % (self.HEIGHTS * self.WIDTHS), self.WIDTHS)
        self.number += 1
        src = draw(1, 1 + height, 1 + width, 4)
        self.net(src)
        dgo.conv_transpose(src, draw(2, 2, 4, 4), **FAMILY)


def _by_graph_api(draw: Draw) -> None:
    """A graph of both policies by the objects of the Graph API, with the gradient of its first op."""
    shapes = [[1, 4, 5, 16], [4, 4, 8, 16], [1, 8, 10, 8], [1, 8, 10, 8]]
    x, w, y, z = (LT(i, LT.f32, shape, LT.strided) for i, shape in enumerate(shapes))
    up = api.op(0, api.op.ConvTranspose, [x, w], [y], "up")
    back = api.op(2, api.op.ConvTransposeBackwardWeights, [x, z], [LT(4, LT.f32, shapes[1], LT.strided)])
    for name, value in {"strides": 2, "pads_begin": 1, "pads_end": 1, "dilations": 1}.items():
        for op in (up, back):
            op.set_attr(api.op.attr[name], [value] * 2)
    g = api.graph(api.engine.cpu)
    for op in (up, api.op(1, api.op.ReLU, [y], [z]), back):
        g.add_op(op)
    g.finalize()
    e = api.engine(api.engine.cpu)
    s = api.stream(e)
    memory = {i: api.tensor(t, e, draw(*t.get_dims())) for i, t in enumerate((x, w, y, z))}
    for policy in api.partition.policy:
        for part in g.get_partitions(policy):
            ins, outs = part.get_input_ports(), part.get_output_ports()
            tensors = [[memory.setdefault(t.get_id(), api.tensor(t, e)) for t in side] for side in (ins, outs)]
            part.compile(ins, outs, e).execute(s, *tensors)
    s.wait()


REBUILDS: dict[str, Callable[[], Callable[[Draw], None]]] = {
    "up": lambda: _up,
    "dense": lambda: _dense,
    "image": lambda: _image,
    "looked at": lambda: _looked_at,
    "shapes": _Shapes,
    "graph_api": lambda: _by_graph_api,
}


def _resident() -> int:
    """Bytes, without what malloc holds for later."""
    gc.collect()
    ctypes.CDLL(None).malloc_trim(0)
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def rebuilds(seed: int, kind: str, warm: int, count: int) -> dict[str, Any]:
    draw, build = Draw(seed), REBUILDS[kind]()
    start = 0
    for number in range(count):
        if number == warm:
            start = _resident()
        build(draw)
    grown = _resident() - start
    return {"nets": count, "bytes a net": round(grown / (count - warm)), "grown": grown, "resident": start + grown}


# -- threads that end --------------------------------------------------------------------------------------------


def endings(seed: int, count: int) -> dict[str, Any]:
    """Nets are dropped just when the threads that called them end, and what these keep for each net with them."""
    draw, threads = Draw(seed), 4
    first, second, src = draw(8, 8), draw(8, 8), draw(4, 8)
    expected = np.maximum(src @ first, 0) @ second
    for _ in range(count):
        nets = [dense_net(first, second) for _ in range(4)]

        def call(nets: list[Net] = nets) -> None:
            for net in nets:
                assert np.array_equal(net(src), expected)

        with ThreadPoolExecutor(threads) as pool:
            for future in [pool.submit(call) for _ in range(threads)]:
                future.result()
        # joined, but the threads' own destructors may still run
        nets.clear()
    return {"threads": threads * count, "nets": 4 * count}


# -- processes ----------------------------------------------------------------------------------------------------


@contextmanager
def _busy(todo: list[Case]) -> Iterator[Callable[[], int]]:
    """Threads that build, call and drop nets meanwhile; gives how many calls they have made."""
    ends, made, errors = threading.Event(), [0, 0, 0], []

    def work(number: int) -> None:
        try:
            while not ends.is_set():
                todo[made[number] % len(todo)].check()
                made[number] += 1
                if made[number] % 10 == 0:
                    _dense(Draw(number))
                if made[number] % 100 == 0:
                    dgo.clear_caches()
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(len(made))]
    for thread in threads:
        thread.start()
    try:
        yield lambda: sum(made)
    finally:
        ends.set()
        for thread in threads:
            thread.join()
    assert not errors, errors


def _in_fork(case: Case) -> int:
    """0: every way of computing gave the right result, or was refused with the package's error."""
    ways: list[Callable[[], object]] = [
        case.check,
        lambda: _dense(Draw(1)),
        lambda: dgo.conv_transpose(np.ones((1, 2, 2, 1), np.float32), np.ones((1, 1, 1, 1), np.float32)),
    ]
    for way in ways:
        try:
            way()
        except AssertionError:
            return 1
        except dgo.Error as error:
            if "spawn" not in str(error):
                return 2
    dgo.cache_info()
    return 0


def forks(seed: int, count: int) -> dict[str, Any]:
    """Children made at random moments while other threads hold any lock: right results or errors, never a hang."""
    todo = cases(seed)
    rng = np.random.default_rng(seed)
    hangs, wrong = 0, 0
    with _busy(todo) as made:
        for _ in range(count):
            time.sleep(rng.random() * 0.01)
            child = os.fork()
            if child == 0:
                code = 3
                faulthandler.dump_traceback_later(FORK_SECONDS / 2)
                try:
                    code = _in_fork(todo[0])
                finally:
                    os._exit(code)
            end = time.monotonic() + FORK_SECONDS
            while (ended := os.waitpid(child, os.WNOHANG))[0] == 0 and time.monotonic() < end:
                time.sleep(0.002)
            if ended[0] == 0:
                hangs += 1
                os.kill(child, signal.SIGKILL)
                os.waitpid(child, 0)
            else:
                wrong += os.waitstatus_to_exitcode(ended[1]) != 0
        total = made()
    return {"forks": count, "hangs": hangs, "wrong": wrong, "calls meanwhile": total}


def _in_spawned(seed: int) -> int:
    todo = cases(seed)
    for case in todo:
        case.check()
    return len(todo)


def spawns(seed: int, count: int) -> dict[str, Any]:
    with _busy(cases(seed)) as made:
        with multiprocessing.get_context("spawn").Pool(2, maxtasksperchild=1) as pool:
            checked = sum(pool.map(_in_spawned, [seed] * count, chunksize=1))
        total = made()
    return {"processes": count, "calls in them": checked, "calls meanwhile": total}


# -- interruptions ------------------------------------------------------------------------------------------------


def interrupts(seed: int, count: int) -> dict[str, Any]:
    """KeyboardInterrupt at random moments of a compile, a tuning and a call: all of them work right afterwards."""
    rng, draw = np.random.default_rng(seed), Draw(seed)
    weights, src = draw(4, 4, 8, 16), draw(2, 6, 6, 16)
    expected = np.maximum(dgo.conv_transpose(src, weights, **FAMILY), 0)
    caught = 0

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    def build() -> Any:
        g = dgo.Graph()
        y = ops.conv_transpose(g.input("src", (None, 6, 6, 16)), g.constant(weights), **FAMILY)
        return g.compile(ops.relu(y), tune="measure" if rng.random() < 0.5 else "heuristic")

    net = build()
    begin = time.perf_counter()
    assert np.array_equal(build()(src), expected)
    usual = 2 * (time.perf_counter() - begin)
    signal.signal(signal.SIGALRM, interrupt)
    for _ in range(count):
        for path in tune.folder().glob("*"):
            path.unlink()
        try:
            signal.setitimer(signal.ITIMER_REAL, float(rng.random() * usual) + 1e-6)
            assert np.array_equal(net(src), expected)
            assert np.array_equal(build()(src), expected)
            dgo.clear_caches()
            assert np.array_equal(np.maximum(dgo.conv_transpose(src, weights, **FAMILY), 0), expected)
            signal.setitimer(signal.ITIMER_REAL, 0)
        except KeyboardInterrupt:
            caught += 1
        assert np.array_equal(net(src), expected)
        assert np.array_equal(build()(src), expected)
        assert np.array_equal(np.maximum(dgo.conv_transpose(src, weights, **FAMILY), 0), expected)
    return {"rounds": count, "interrupted": caught}


def write_for_ever(seed: int) -> dict[str, Any]:
    """Tuning files of two lengths in turn, until somebody ends the process."""
    path = tune.folder() / "written.json"
    rows = [[(f"form {number}", float(number)) for number in range(length)] for length in (3, 2_000)]
    tune._save(path, rows[0])
    print("ready", flush=True)
    while True:
        for some in rows:
            tune._save(path, some)


def tune_once(seed: int, number: int) -> dict[str, Any]:
    """Measures an op when the file `go` appears beside the tuning folder."""
    draw = Draw(seed)
    weights, src = draw(4, 4, 8, 16), draw(2, 6, 6, 16)
    expected = dgo.conv_transpose(src, weights, **FAMILY)
    print("ready", flush=True)
    go = tune.folder().parents[1] / "go"
    while not go.exists():
        time.sleep(0.001)
    g = dgo.Graph()
    net = g.compile(ops.conv_transpose(g.input("src", src.shape), g.constant(weights), **FAMILY), tune="measure")
    assert np.array_equal(net(src), expected)
    return {"process": number}


TASKS: dict[str, Callable[..., dict[str, Any]]] = {
    task.__name__: task for task in (calls, rebuilds, endings, forks, spawns, interrupts, write_for_ever, tune_once)
}


def main(name: str, *arguments: str) -> None:
    start = time.monotonic()
    numbers = [int(text) if text.lstrip("-").isdigit() else text for text in arguments]
    counted = TASKS[name](*numbers)
    print(json.dumps({**counted, "seconds": round(time.monotonic() - start, 1)}))


if __name__ == "__main__":
    main(*sys.argv[1:])
