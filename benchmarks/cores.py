"""Predicts the speedup of more threads than this machine has cores, and what bounds it.

`python benchmarks/cores.py` simulates models of the zoo, `--layers 40` layers of the suites drawn by a seed. Each runs
in a process whose OpenMP is `cores.c`: T threads on one core, the seconds of each part and chunk taken alone. A step's
time on T cores is that of its serial code and of the latest thread of each parallel region, plus waking the threads,
but no less than its bytes from memory take at the memory's bandwidth. Needs compilers of C and C++.

`--verify` compares two threads with a real run, in turns with one thread, alone and beside a process that runs the same
net: two threads of one core are no two cores. `docs/internals/cores.md` says how it works.

Assumed, not measured: `--bandwidth` of the memory and `--caches` of a core, the same for any number of cores; that one
call follows another, so that an operand comes from memory if more bytes than the caches of T cores hold have been
touched since; that bytes in caches take the time that they take on this core; and that each thread that shares a
counter with two others adds `BEYOND`: all of a region of libgomp, up to `GROUP` in a team that stands, and one for each
group of these. Not in the model: lines that travel between caches, clock rates that cores share, NUMA, hybrid cores.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

THREADS: Final = (1, 2, 4, 8, 16, 32, 64)
SHOWN: Final = 16  # the number of threads whose bounds are shown
BEYOND: Final = 0.1e-6  # seconds
GROUP: Final = 8  # as in bindings/kernels/team.cpp
SAME: Final = 5e-9  # seconds between two readings of the clock
WARM: Final = 2  # calls before one that is recorded: nets for other numbers of threads have taken the caches
TRIES: Final = 8  # of a run, while something else takes a part of the core
SLOWER: Final = 1.1  # times the least seconds of a probe: the core is shared
WINDOW: Final = 0.1  # seconds that a process beside works at least
BLOCK: Final = 1 << 16  # bytes of the arena that are told apart
BOUNDS: Final = ("serial", "few tasks", "uneven", "more work", "waking", "bandwidth")
EMPTY = """
#include <omp.h>
#include "kernels/standing.hpp"
#include "kernels/team.hpp"

static void run(int threads) {
#pragma omp parallel num_threads(threads)
    __asm__ volatile("");
}

// Seconds of regions, of `threads` and of `others` in turns.
extern "C" double empty_region(int threads, int others, int times) {
    const double begin = omp_get_wtime();
    for (int i = 0; i < times; ++i) run(i % 2 ? threads : others);
    return (omp_get_wtime() - begin) / times;
}

// Seconds of bodies of two threads that stand.
extern "C" double empty_body(int times) {
    double seconds = 0;
    omp_set_num_threads(2);
    dgo::stand(2, [&] {
        const double begin = omp_get_wtime();
        for (int i = 0; i < times; ++i) dgo::run_team(2, [](int, int) { __asm__ volatile(""); });
        seconds = omp_get_wtime() - begin;
    });
    return seconds / times;
}
"""


CHUNK, EACH, BARRIER = -1, -2, -3  # as in cores.c


class Region(ctypes.Structure):
    """As in cores.c."""

    _fields_ = [(name, ctypes.c_double) for name in ("serial", "time", "threads", "first", "end", "own")]


class Span(NamedTuple):
    """Seconds of a thread, or of CHUNK or EACH; BARRIER has none."""

    of: int
    seconds: float


class Part(NamedTuple):
    """A region of a run, with the serial code before it; 0 threads: serial code alone.

    `own`: a team of the package runs it.
    """

    serial: float
    threads: int
    spans: list[Span]
    own: bool

    def fastest(self, other: Part) -> Part:
        """Returns the part with the least seconds of both runs for each of its spans."""
        if [span.of for span in self.spans] != [span.of for span in other.spans]:
            return min(self, other, key=lambda part: sum(span.seconds for span in part.spans))
        spans = [min(pair, key=lambda span: span.seconds) for pair in zip(self.spans, other.spans, strict=True)]
        return self._replace(serial=min(self.serial, other.serial), spans=spans)

    def scheduled(self) -> dict[str, float]:
        """Returns the fields of a region: a chunk is taken by the thread that ends first."""
        clocks, work = [0.0] * self.threads, 0.0
        for of, seconds in self.spans:
            if of == BARRIER:
                clocks = [max(clocks)] * self.threads
            elif of == EACH:
                clocks = [clock + seconds for clock in clocks]
            else:
                clocks[of if of >= 0 else clocks.index(min(clocks))] += seconds
            work += seconds * (self.threads if of == EACH else 1)
        kinds = [span.of for span in self.spans]
        counts = {"tasks": kinds.count(CHUNK), "barriers": kinds.count(BARRIER)}
        return {"threads": self.threads, "work": work, "makespan": max(clocks), "own": self.own, **counts}


class Step(NamedTuple):
    """A step of a plan: its title, its operands, serial seconds, and its regions' fields.

    `operands`: pairs of bytes, and how many bytes have been touched since these. `range`: the number of the range of
    steps that one team stands in, or -1.
    """

    title: str
    operands: list[tuple[float, float]]
    serial: float
    regions: list[dict[str, float]]
    range: int


class Machine(NamedTuple):
    """Bytes a second of the memory, bytes that a core's caches hold, and seconds.

    `region`: of an empty region of two threads. `body`: of an empty body of two threads of a team that stands.
    `start`: of starting a thread, as libgomp does in a region of more threads than the one before.
    """

    memory: float
    caches: float
    region: float
    body: float
    start: float

    def moving(self, step: Step, threads: int) -> float:
        """Returns the seconds of the bytes of a step that are not in the caches of so many cores."""
        held = self.caches * threads
        return sum(size for size, since in step.operands if since > held) / self.memory

    def waking(self, threads: int) -> float:
        return 0.0 if threads == 1 else self.region + BEYOND * (threads - 2)

    def telling(self, threads: int) -> float:
        """Returns the seconds of a body of a team that stands."""
        groups = -(-threads // GROUP)
        return 0.0 if threads == 1 else self.body + BEYOND * (min(threads, GROUP) - 2 + (groups if groups > 1 else 0))


class Teams:
    """The teams of a call that follows another one: what it takes to have one, region by region."""

    def __init__(self, machine: Machine, threads: int) -> None:
        self.machine, self.threads = machine, threads
        self.size = threads  # of the last region
        self.range = -1

    def step(self, step: Step) -> float:
        """Returns the seconds until a step's team stands."""
        begins = step.range >= 0 and step.range != self.range
        self.range = step.range
        return self.opening(self.threads) if begins else 0.0

    def opening(self, threads: int) -> float:
        more, self.size = max(threads - self.size, 0), threads
        return self.machine.waking(threads) + more * self.machine.start

    def region(self, region: Mapping[str, float]) -> float:
        threads, barriers = int(region["threads"]), region["barriers"] / 2
        if threads <= 1:
            return 0.0
        if not region["own"]:
            return self.opening(threads) + self.machine.waking(threads) * barriers
        told = self.machine.telling(threads)
        return told * (1 + barriers) if self.range >= 0 else self.opening(self.threads) + told * barriers


# -- in the process of a case ---------------------------------------------------------------------------------------


def net_of(case: Mapping[str, Any], threads: int) -> tuple[Any, list[Any]]:
    """Returns a net of so many threads and its inputs."""
    import dnnl_graph_ops as dgo
    from dnnl_graph_ops.bench.peers import own
    from dnnl_graph_ops.bench.peers.task import ModelTask, Task
    from dnnl_graph_ops.bench.problem import Problem

    if "model" in case:
        record = {**case["model"], "zoo": case["name"], "layout": "NCX", "threads": threads}
        inputs = ModelTask(**record).inputs()
        return dgo.from_onnx(record["path"]).compile(threads=threads), inputs
    task = Task(Problem.from_dict(case["problem"]), case["direction"], "f32", "NXC", "constant", threads)
    graph, value, inputs = own.graph_of(task, dgo.engine("cpu"))
    return graph.compile(value, threads=threads), inputs


def simulated(case: Mapping[str, Any], runs: int) -> dict[int, list[Step]]:
    """Returns the steps by number of threads, each span at its least seconds; numbers of threads take turns."""
    import dnnl_graph_ops as dgo
    from dnnl_graph_ops.reports import peaks
    from dnnl_graph_ops.runtime import cpu

    # nobody asks for them, and each number of threads would measure its own
    peaks.of_products = peaks.of_copies = lambda *_: peaks.Peak(1.0)  # type: ignore[assignment]
    library = ctypes.CDLL(os.environ["LD_PRELOAD"])
    library.cores_end.argtypes = [
        ctypes.POINTER(ctypes.POINTER(Region)),
        ctypes.POINTER(ctypes.POINTER(ctypes.c_double)),
    ]
    library.cores_end.restype = ctypes.c_int64
    library.cores_probe.restype = ctypes.c_double
    least = min(library.cores_probe() for _ in range(1000))
    tiles = int(cpu.has_tiles(dgo.engine("cpu").runtime))
    nets = {threads: net_of(case, threads) for threads in THREADS}
    # regions with dynamic loops are known from here on
    for net, inputs in nets.values():
        net(*inputs)
    best: dict[int, list[list[Part]]] = {}
    titles: dict[int, list[str]] = {}
    standing: dict[int, list[tuple[int, int]]] = {}
    for _ in range(runs):
        for threads, (net, inputs) in nets.items():
            for _ in range(TRIES):
                for _ in range(WARM):
                    net(*inputs)
                probes = [library.cores_probe()]
                library.cores_begin(tiles)
                profile = net.profile(*inputs, repeat=1)
                regions, spans = ctypes.POINTER(Region)(), ctypes.POINTER(ctypes.c_double)()
                count = library.cores_end(ctypes.byref(regions), ctypes.byref(spans))
                probes.append(library.cores_probe())
                if max(probes) < SLOWER * least:
                    break
            steps = by_step(regions[:count], spans, [step.seconds for step in profile])
            titles[threads] = [f"{step.step}, {step.algorithm}" for step in profile]
            standing[threads] = net._prepared(inputs, {}, 1)[2].standing
            best[threads] = [
                [one.fastest(other) for one, other in zip(*pair, strict=True)]
                for pair in zip(best.get(threads, steps), steps, strict=True)
            ]
    return {
        threads: [
            Step(
                title,
                of_step,
                sum(part.serial for part in parts),
                [part.scheduled() for part in parts if part.threads],
                next((i for i, (begin, end) in enumerate(standing[threads]) if begin <= place < end), -1),
            )
            for place, (title, of_step, parts) in enumerate(
                zip(titles[threads], touched(*nets[threads]), best[threads], strict=True)
            )
        ]
        for threads in nets
    }


def seconds_of(step: Step) -> float:
    return step.serial + sum(region["makespan"] for region in step.regions)


def touched(net: Any, inputs: Sequence[Any]) -> list[list[tuple[float, float]]]:
    """Returns the operands of each step, for a call that follows another one."""
    from dnnl_graph_ops.compile import plan
    from dnnl_graph_ops.cost import model as cost
    from dnnl_graph_ops.program.program import Place
    from dnnl_graph_ops.reports import profile

    _, _, executor = net._prepared(inputs, {}, 1)
    parts = net._whole(executor).plan.parts
    offsets, _, _ = plan.place([plan._use(part) for part in parts])
    clock, last, steps = 0.0, {}, []
    for part in (*parts, *parts):
        steps.append([])
        for view in profile.moved(part):
            size, begin = cost.nbytes(view), offsets.get(view.buffer, 0)
            is_scratch = view.buffer.place is Place.SCRATCH
            blocks = [(begin + at) // BLOCK for at in range(0, size, BLOCK)] if is_scratch else [view.buffer]
            for block in blocks:
                steps[-1].append((size / len(blocks), clock - last.get(block, clock)))
                clock += size / len(blocks)
                last[block] = clock
    every = sum(BLOCK if isinstance(block, int) else block.nbytes for block in last)
    return [[(size, min(since, every)) for size, since in step] for step in steps[len(parts) :]]


def by_step(regions: Sequence[Region], spans: Any, seconds: Sequence[float]) -> list[list[Part]]:
    """Returns the parts of each step of so many seconds.

    A step lies between two marks that are so many seconds apart; there are others within steps, and around all.
    """
    marks = [place for place, region in enumerate(regions) if not region.threads]
    steps, begin = [], 0
    for wanted in seconds:
        pairs = ((i, j) for i in range(begin, len(marks)) for j in range(i + 1, len(marks)))
        i, j = next((i, j) for i, j in pairs if abs(regions[marks[j]].time - regions[marks[i]].time - wanted) < SAME)
        parts = []
        for region in regions[marks[i] + 1 : marks[j] + 1]:
            values = spans[2 * int(region.first) : 2 * int(region.end)]
            found = [Span(int(kind), taken) for kind, taken in zip(values[::2], values[1::2], strict=True)]
            parts.append(Part(region.serial, int(region.threads), found, bool(region.own)))
        steps.append(parts)
        begin = j + 1
    return steps


def timed(case: Mapping[str, Any], seconds: float) -> dict[str, float]:
    """Returns the least seconds of a call with one thread, with two, and with one beside another process, in turns."""
    nets = {threads: net_of(case, threads) for threads in (1, 2)}
    best = {"1": float("inf"), "2": float("inf"), "beside": float("inf")}
    command = [sys.executable, __file__, "--case", json.dumps(case), "--beside"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as beside:
        assert beside.stdin is not None
        assert beside.stdout is not None
        beside.stdout.readline()
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            for threads, (net, inputs) in nets.items():
                best[str(threads)] = min(best[str(threads)], net.benchmark(*inputs, repeat=3).minimum)
            window = max(WINDOW, 6 * best["1"])
            print(window, file=beside.stdin, flush=True)
            time.sleep(window / 10)
            net, inputs = nets[1]
            best["beside"] = min(best["beside"], net.benchmark(*inputs, repeat=1).minimum)
            beside.stdout.readline()
        beside.stdin.close()
    return best


def run_beside(case: Mapping[str, Any]) -> None:
    """Runs a net with one thread for each number of seconds that comes in."""
    net, inputs = net_of(case, 1)
    net(*inputs)
    print("ready", flush=True)
    for line in sys.stdin:
        end = time.monotonic() + float(line)
        while time.monotonic() < end:
            net.benchmark(*inputs, repeat=1)
        print("done", flush=True)


# -- the prediction -------------------------------------------------------------------------------------------------


def predicted(steps: Sequence[Step], threads: int, machine: Machine) -> tuple[float, list[dict[str, float]]]:
    """Returns the seconds on so many cores, and by step those that each bound adds to an even share of the work."""
    total, bounds = 0.0, []
    teams = Teams(machine, threads)
    for step in steps:
        added = dict.fromkeys(BOUNDS, 0.0)
        added["waking"] = teams.step(step)
        added["serial"] = step.serial * (1 - 1 / threads)
        added["share"] = step.serial / threads
        for region in step.regions:
            work, team = region["work"], max(region["threads"], 1)
            added["share"] += work / threads
            added["few tasks"] += work / team - work / threads
            added["uneven"] += region["makespan"] - work / team
            added["waking"] += teams.region(region)
        seconds = sum(added.values())
        added["bandwidth"] = max(machine.moving(step, threads) - seconds, 0.0)
        total += seconds + added["bandwidth"]
        bounds.append(added)
    return total, bounds


def allowed(steps: Sequence[Step], threads: int, machine: Machine) -> float:
    """Returns the seconds of steps, simulated with one thread, that divide evenly but for what the memory takes."""
    return sum(max(seconds_of(step) / threads, machine.moving(step, threads)) for step in steps)


def row(
    name: str,
    plans: Mapping[int, Sequence[Step]],
    machine: Machine,
    times: Mapping[str, float],
    efficiencies: Mapping[int, list[tuple[float, float]]],
) -> str:
    """Returns a row of the table; adds its efficiency, and of that which the memory allows, by number of threads."""
    one, _ = predicted(plans[1], 1, machine)
    cells = []
    for threads in THREADS[1:]:
        seconds, _ = predicted(plans[threads], threads, machine)
        cells.append(f"{one / seconds:.2f}")
        efficiencies[threads].append((one / seconds / threads, allowed(plans[1], threads, machine) / seconds))
    if times:
        cells[0] += f" ({times['1'] / times['2']:.2f} of {2 * times['1'] / times['beside']:.2f})"
    total, bounds = predicted(plans[SHOWN], SHOWN, machine)
    work = sum(added["share"] for added in bounds)
    sums = {bound: sum(added[bound] for added in bounds) for bound in BOUNDS}
    sums["more work"] = max(work - one / SHOWN, 0.0)
    largest = sorted(sums, key=sums.__getitem__, reverse=True)[:2]
    text = ", ".join(f"{bound} {sums[bound] / total:.0%}" for bound in largest if sums[bound] > 0.05 * total)
    losses = [sum(added[bound] for bound in BOUNDS) for added in bounds]
    worst = losses.index(max(losses))
    return (
        f"| {name} | {one * 1e3:.2f} | {' | '.join(cells)} | {text or '-'} | "
        f"{plans[SHOWN][worst].title}, {losses[worst] / total:.0%} |"
    )


# -- the parent -----------------------------------------------------------------------------------------------------


def built(folder: str, name: str, language: str, source: str, flags: Sequence[str] = ()) -> str:
    path = str(Path(folder) / name)
    command = ["c++", "-O2", "-shared", "-fPIC", *flags, "-x", language, "-", "-o", path]
    subprocess.run(command, input=source, text=True, check=True)
    return path


def machine_of(folder: str, memory: float, caches: float) -> Machine:
    bindings = Path(__file__).parents[1] / "bindings"
    flags = ("-std=c++17", "-fopenmp", f"-I{bindings}", str(bindings / "kernels/team.cpp"))
    library = ctypes.CDLL(built(folder, "empty.so", "c++", EMPTY, flags))
    library.empty_region.restype = library.empty_body.restype = ctypes.c_double
    regions = {
        pair: min(library.empty_region(*pair, times) for _ in range(100))
        for pair, times in (((2, 2), 50), ((3, 3), 20), ((3, 2), 20))
    }
    body = min(library.empty_body(50) for _ in range(100))
    # a thread is started in every second region
    start = 2 * (regions[3, 2] - (regions[2, 2] + regions[3, 3]) / 2)
    return Machine(memory, caches, regions[2, 2], body, max(start, 0.0))


def cases(models: Sequence[str], layers: int, seed: int) -> list[dict[str, Any]]:
    from dnnl_graph_ops.bench import models as zoo_models
    from dnnl_graph_ops.bench import suite, zoo
    from dnnl_graph_ops.bench.problem import DIRECTIONS, OPS

    names = list(zoo.ENTRIES) if list(models) == ["all"] else list(models)
    drawn = []
    for name in names:
        model = json.loads(zoo_models.wanted([name])[0].model)
        drawn.append({"name": name, "model": {key: model[key] for key in ("name", "path", "arrays")}})
    rng = random.Random(seed)
    every = [layer for op in OPS for layer in suite.real_layers(op)]
    for layer in rng.sample(every, layers):
        direction = rng.choice(DIRECTIONS)
        limited = layer.limited(1.0)
        if limited is not None:
            drawn.append({"name": f"{layer.name} {direction}", "problem": limited.as_dict(), "direction": direction})
    return drawn


def in_process(case: Mapping[str, Any], preload: str, *arguments: str) -> Any:
    environment = {**os.environ, **({"LD_PRELOAD": preload} if preload else {})}
    command = [sys.executable, __file__, "--case", json.dumps(case), *arguments]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        print(f"{case['name']}: {done.stderr.strip().splitlines()[-1:]}", file=sys.stderr)
        return None
    return json.loads(done.stdout.splitlines()[-1])


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", nargs="*", default=["all"], help="of the zoo; all: every one")
    parser.add_argument("--layers", type=int, default=0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--bandwidth", type=float, default=200.0, help="GB a second of the memory")
    parser.add_argument("--caches", type=float, default=3.0, help="MB that the caches of a core hold")
    parser.add_argument("--verify", type=float, default=0.0, metavar="SECONDS", help="run one and two threads so long")
    parser.add_argument("--case", help=argparse.SUPPRESS)
    parser.add_argument("--beside", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.case:
        case = json.loads(options.case)
        if options.beside:
            return run_beside(case)
        print(json.dumps(timed(case, options.verify) if options.verify else simulated(case, options.runs)))
        return
    with tempfile.TemporaryDirectory() as folder:
        preload = built(folder, "cores.so", "c", Path(__file__).with_name("cores.c").read_text(encoding="utf-8"))
        machine = machine_of(folder, options.bandwidth * 1e9, options.caches * 2**20)
        print(
            f"an empty region of two threads takes {machine.region * 1e6:.1f} us, a body of a team that stands "
            f"{machine.body * 1e6:.1f}, starting a thread {machine.start * 1e6:.1f}"
        )
        head = " | ".join(f"{threads}" for threads in THREADS[1:])
        efficiencies: dict[int, list[tuple[float, float]]] = {threads: [] for threads in THREADS[1:]}
        measured: list[float] = []  # speedups of two threads, over the predicted ones on what two processes have
        print(f"| | ms, 1 | {head} | bounds at {SHOWN} | step that loses most |\n|---|{'---:|' * 7}---|---|")
        for case in cases(options.models, options.layers, options.seed):
            plans = in_process(case, preload, "--runs", str(options.runs))
            if plans is None:
                continue
            times = in_process(case, "", "--verify", str(options.verify)) if options.verify else {}
            by_threads = {int(threads): [Step(*step) for step in steps] for threads, steps in plans.items()}
            print(row(case["name"], by_threads, machine, times or {}, efficiencies), flush=True)
            if times:
                (one, _), (two, _) = (predicted(by_threads[threads], threads, machine) for threads in (1, 2))
                measured.append(times["beside"] / times["2"] / (one / two))
        for threads, pairs in efficiencies.items():
            plain, of_allowed = (statistics.fmean(values) for values in zip(*pairs, strict=True))
            print(f"{threads} threads: mean efficiency {plain:.2f}, {of_allowed:.2f} of what the bandwidth allows")
        if measured:
            mean, low, high = statistics.fmean(measured), min(measured), max(measured)
            print(f"two threads: {mean:.2f} of the prediction on what two processes have ({low:.2f} to {high:.2f})")


if __name__ == "__main__":
    main()
