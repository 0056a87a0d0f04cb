"""One dtype against another in this package: `python -m dnnl_graph_ops.bench.against --dtype f16 --than f32`.

Nets of the suite's layers, in all directions and forward with a bias too, run in turns in one process, so that what
else the machine does falls on both. Printed: the ratio of least seconds of each, the geometric mean and the worst.
"""

from __future__ import annotations

import argparse
import itertools
import math
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

from ..runtime.threads import get_num_threads
from .fit import smaller
from .options import DTYPES
from .peers import own
from .peers.task import Task
from .problem import DIRECTIONS, LAYOUTS, Problem
from .suite import real_layers

LEAST_ROUNDS, MOST_ROUNDS = 7, 200


class Ratio(NamedTuple):
    """Least seconds of one net in the two dtypes."""

    times: float
    where: str
    seconds: tuple[float, float]
    detail: tuple[str, str]


def layers(count: int, gmacs: float) -> list[Problem]:
    """So many layers from all over the suite, halved to so many 1e9 products."""
    every = real_layers()
    chosen = (smaller(every[i * len(every) // count], gmacs) for i in range(min(count, len(every))))
    return [layer for layer in chosen if layer is not None]


def questions(problems: Sequence[Problem], layout: str) -> Iterator[tuple[str, Task]]:
    """A name and a task, in f32, for every layer and direction; the forward without a bias and with one."""
    for problem, direction in itertools.product(problems, DIRECTIONS):
        for bias in (False, True) if direction == DIRECTIONS[0] else (False,):
            weights = "constant" if direction == DIRECTIONS[0] else "variable"
            name = f"{problem.name} {direction} {layout}{' bias' if bias else ''}"
            task = Task(replace(problem, bias=bias), direction, "f32", layout, weights, get_num_threads())
            yield name, task


def in_turn(runs: Sequence[Callable[[], object]], seconds: float) -> tuple[float, ...]:
    """Least seconds of each."""
    for run in runs:
        run()
    found = [math.inf] * len(runs)
    begin = time.perf_counter()
    for number in range(MOST_ROUNDS):
        if number >= LEAST_ROUNDS and time.perf_counter() - begin > seconds:
            break
        for i, run in enumerate(runs):
            start = time.perf_counter()
            run()
            found[i] = min(found[i], time.perf_counter() - start)
    return tuple(found)


def compare(name: str, task: Task, dtype: str, than: str, seconds: float) -> Ratio:
    """One net in both dtypes."""
    prepared = [own.prepare(replace(task, dtype=one)) for one in (dtype, than)]
    one, other = in_turn([item.run for item in prepared], seconds)
    return Ratio(one / other, name, (one, other), (prepared[0].detail, prepared[1].detail))


def main(arguments: Sequence[str] | None = None) -> list[Ratio]:
    """The command."""
    parser = argparse.ArgumentParser(prog="python -m dnnl_graph_ops.bench.against", description=__doc__)
    parser.add_argument("--dtype", choices=DTYPES, default="f16")
    parser.add_argument("--than", choices=DTYPES, default="f32")
    parser.add_argument("--layers", type=int, default=30)
    parser.add_argument("--layout", choices=LAYOUTS, default="NXC")
    parser.add_argument("--max-gmacs", type=float, default=0.1, help="layers are halved down to this")
    parser.add_argument("--seconds", type=float, default=0.3, help="for one net in both dtypes")
    options = parser.parse_args(arguments)
    found = []
    for name, task in questions(layers(options.layers, options.max_gmacs), options.layout):
        ratio = compare(name, task, options.dtype, options.than, options.seconds)
        found.append(ratio)
        milliseconds = " ".join(f"{1000 * s:9.3f}" for s in ratio.seconds)
        print(f"{ratio.times:6.2f} {milliseconds} {ratio.where}: {' against '.join(ratio.detail)}", flush=True)
    mean = math.exp(sum(math.log(ratio.times) for ratio in found) / max(len(found), 1))
    print(f"{options.dtype} / {options.than}: geometric mean {mean:.3f} of {len(found)}; the worst:")
    for ratio in sorted(found, reverse=True)[:5]:
        print(f"  {ratio.times:.2f} {ratio.where}")
    return found


if __name__ == "__main__":
    main()
