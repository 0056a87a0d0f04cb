"""Made-up races and documents, so that judging results can be tested without measuring any."""

from __future__ import annotations

import random
from collections.abc import Mapping

from dnnl_graph_ops.bench import measure, rounds
from dnnl_graph_ops.bench.cases import Case
from dnnl_graph_ops.bench.document import Document
from dnnl_graph_ops.bench.options import Options
from dnnl_graph_ops.bench.problem import Problem
from dnnl_graph_ops.bench.rows import Entry, Row

MACHINE = {
    "host": "here",
    "cpu": "A CPU",
    "isa": "avx2",
    "native_types": {"bf16": False, "f16": False, "int8": True},
    "threads": 2,
    "cores": 2,
    "caches": {"L1d": 32768, "L2": 524288},
    "governor": "performance",
    "kernel": "Linux 6",
    "python": "3.11.0",
    "numpy": "2.0.0",
    "pinned_to": [0, 1],
    "virtual": False,
}
PEER_OF = {"dgo NXC": "dgo", "dgo NCX": "dgo", "torch NCX": "torch", "torch NXC": "torch"}
SECONDS = {"dgo NXC": 1.0e-3, "dgo NCX": 1.3e-3, "torch NCX": 2.1e-3, "torch NXC": 1.8e-3}


def problem(index: int = 0, op: str = "conv_transpose") -> Problem:
    if op == "conv":
        # every class in turn
        channels, kernel, groups = ((32, 3, 1), (32, 5, 1), (32, 1, 1), (32, 3, 32), (3, 3, 1))[index % 5]
        sizes = (1, channels, 32, (9 + index, 9), (kernel, kernel))
        return Problem(f"Net/conv{index}", *sizes, groups=groups, source="a paper", op=op)
    return Problem(f"Net/layer{index}", 1, 8, 4, (5 + index, 6), (4, 4), (2, 2), (1, 1), source="a paper")


def race(
    seconds: Mapping[str, float] = SECONDS,
    count: int = 11,
    seed: int = 0,
    noise: float = 0.01,
    drift: float = 0.3,
) -> rounds.Race:
    """Rounds whose speed wanders by `drift` together, and by `noise` each on its own."""
    rng = random.Random(seed)
    result = rounds.Race(precise=True)
    for _ in range(count):
        speed = 1 + drift * rng.random()
        bursts = {}
        for label, value in seconds.items():
            time = value * speed * (1 + noise * rng.gauss(0, 1))
            native = 0.97 * time if label.startswith("dgo") else None
            bursts[label] = rounds.Burst(time, 0.95 * time, native, False)
        result.rounds.append(bursts)
    return result


def row(index: int = 0, made: rounds.Race | None = None, direction: str = "fwd", op: str = "conv_transpose") -> Row:
    made = made or race(seed=index)
    result = measure.blank_row(Case(problem(index, op), direction, "f32", "constant"))
    result.entries = [
        Entry(
            label,
            PEER_OF[label],
            label.split()[1],
            "ok",
            detail="a form",
            compile_s=0.01,
            first_s=0.001,
            error=0.0,
        )
        for label in made.rounds[0]
    ]
    measure._fill(result, made, PEER_OF)
    return result


def document(
    count: int = 12,
    *,
    slower: float = 1.0,
    seed: int = 0,
    only: int | None = None,
    speed: float = 1.0,
    op: str = "conv_transpose",
) -> Document:
    """Rows of a run; `slower` multiplies our times (of row `only`, or of all), `speed` everybody's."""
    rows = []
    for index in range(count):
        factor = slower if only in (None, index) else 1.0
        seconds = {k: speed * v * (factor if PEER_OF[k] == "dgo" else 1.0) for k, v in SECONDS.items()}
        rows.append(row(index, race(seconds, seed=seed + 1000 * index), op=op))
    return Document(
        rows=rows,
        options=Options().as_dict(),
        machines=[dict(MACHINE)],
        versions={"dgo": {"dnnl_graph_ops": "0.1"}, "torch": {"torch": "2.13"}},
        created="2026-01-02T03:04:05+00:00",
        command="bench",
        seconds=12.0,
    )
