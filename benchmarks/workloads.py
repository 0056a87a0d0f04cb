"""Convolutions that oneDNN's vendor collected from framework workloads, compared with the better of PyTorch's layouts.

`python benchmarks/workloads.py FILE.json ... --journal FILE` measures forward and both gradients with one thread.
FILE.json are lists of rows with G, N, IC, OC, I, K, S, P, P_end, D by spatial axis, and count, how often the workloads
have them. Batches are halved until 1 GMAC; rows above 4 GMAC at a batch of 1 are left out and listed. Rows are taken in
an order drawn by a seed, so that any part of them is a sample, and each is written into the journal, from which the
next run goes on. Results are compared first; times are those of the process, medians of rounds in which all take turns.
`--report` prints means by class and direction, also weighted by count, and the rows below 0.95, without measuring.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import random
import statistics
import sys
import time
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

os.environ["OMP_NUM_THREADS"] = "1"

import numpy as np
from turns import counts, in_turns

import dnnl_graph_ops as dgo
from dnnl_graph_ops.bench.peers import own, pytorch
from dnnl_graph_ops.bench.peers.task import Task
from dnnl_graph_ops.bench.problem import CLASSES, DIRECTIONS, LAYOUTS, OPS, Problem

GMACS, MOST = 1.0, 4.0
TOLERANCES = {"f32": 1e-5, "bf16": 1e-2, "f16": 2e-3}
LEAST_SECONDS = 5e-3
LOW = 0.95


def problem_of(row: Mapping[str, Any], op: str) -> Problem:
    sizes, groups, extra = (row.get(a, row.get(b)) for a, b in (("I", "spatial"), ("G", "groups"), ("OP", "OP")))
    # what a negative pad keeps from being read is left out
    spatial = [n + min(p, 0) for n, p in zip(sizes, row["P_end"], strict=True)]
    return Problem(
        name=row.get("id") or row["name"],
        op=op,
        batch=row["N"],
        in_channels=row["IC"],
        out_channels=row["OC"],
        groups=groups,
        output_padding=tuple(extra or ()),
        spatial=tuple(spatial),
        kernel=tuple(row["K"]),
        strides=tuple(row["S"]),
        dilations=tuple(row["D"]),
        pads_begin=tuple(row["P"]),
        pads_end=tuple(max(p, 0) for p in row["P_end"]),
    )


def read(files: Sequence[Path], op: str) -> Iterator[tuple[Problem, int]]:
    """Yields each problem, its batch halved, and its count; prints those that are left out."""
    # the same layer of several batches, now halved, by all but its name
    counts: dict[Problem, tuple[str, int]] = {}
    for file in files:
        for row in json.loads(file.read_text(encoding="utf-8")):
            problem = problem_of(row, op)
            limited = problem.limited(GMACS) or replace(problem, batch=1).limited(MOST)
            if limited is None:
                print(f"left out: {problem.name}, {problem.macs / problem.batch / 1e9:.1f} GMAC an image")
                continue
            layer = replace(limited, name="")
            name, count = counts.get(layer, (problem.name, 0))
            counts[layer] = name, count + row.get("count", 1)
    for layer, (name, count) in counts.items():
        yield replace(layer, name=name), count


def measured(problem: Problem, direction: str, dtype: str, rounds: int) -> dict[str, Any]:
    """Milliseconds of ours and of PyTorch in both layouts, and our algorithm."""
    task = {layout: Task(problem, direction, dtype, layout, "constant", 1) for layout in LAYOUTS}
    sides = {"ours": own.prepare(task["NXC"])} | {f"torch {n}": pytorch.prepare(t) for n, t in task.items()}
    for side in sides.values():
        if side.poison is not None:
            side.poison()
        side.run()
    # operands are small integers, so that f32 is exact; PyTorch 2.13.0 has wrong gradients of some weights
    judge = pytorch.prepare(replace(task["NCX"], dtype="f32"))
    judge.run()
    truth, tolerance = judge.result(), TOLERANCES[dtype]
    errors = {name: error(side.result(), truth) for name, side in sides.items()}
    if not errors["ours"] < tolerance:
        raise ValueError(f"{problem}: {direction}: {errors}")
    runs = {name: side.run for name, side in sides.items()}
    times = in_turns(runs, counts(runs, LEAST_SECONDS), range(rounds))
    milliseconds = {name: statistics.median(each) * 1e3 for name, each in times.items()}
    ratios = [min(each) / mine for mine, *each in zip(*times.values(), strict=True)]
    wrong = [name for name, each in errors.items() if not each < tolerance]
    more = {"ratio": statistics.median(ratios), "algorithm": sides["ours"].detail}
    return {**milliseconds, **more, **({"wrong": wrong} if wrong else {})}


def error(result: np.ndarray, want: np.ndarray) -> float:
    """The largest, of the largest value; NaN counts."""
    difference = np.abs(result - want).max(initial=0.0)
    return float(difference / max(float(np.abs(want).max(initial=0.0)), 1.0))


def mean(values: Sequence[tuple[float, int]]) -> float:
    """Of ratios and weights, geometric."""
    return math.exp(sum(math.log(v) * n for v, n in values) / sum(n for _, n in values))


def report(journal: Sequence[Mapping[str, Any]]) -> None:
    rows = medians(journal)
    cells: dict[tuple[str, str], list[tuple[float, int]]] = defaultdict(list)
    for row in rows:
        problem = Problem.from_dict(row["problem"])
        kind = problem.family or ("transposed" if problem.transposed else problem.layer_class)
        cells[kind, row["direction"]].append((row["ratio"], row["count"]))
    print("| class | " + " | ".join(f"{d}: rows, mean, by count, lowest" for d in DIRECTIONS) + " |")
    families = dict.fromkeys(family for row in rows if (family := row["problem"]["family"]))
    for kind in families or (*CLASSES, "transposed"):
        texts = []
        for direction in DIRECTIONS:
            each = cells[kind, direction]
            plain = [(v, 1) for v, _ in each]
            texts.append(f"{len(each)}, {mean(plain):.2f}, {mean(each):.2f}, {min(each)[0]:.2f}" if each else "-")
        print(f"| {kind} | " + " | ".join(texts) + " |")
    low = sorted((row for row in rows if row["ratio"] < LOW), key=lambda row: row["ratio"])
    print(f"{len(low)} of {len(rows)} rows below {LOW}:")
    for row in low:
        p = Problem.from_dict(row["problem"])
        geometry = f"k{p.kernel} s{p.strides} p{p.pads_begin} d{p.dilations}".replace(", ", ",")
        sizes = f"{p.batch}x{p.in_channels}->{p.out_channels} {'x'.join(map(str, p.spatial))} g{p.groups} {geometry}"
        print(f"{row['ratio']:.2f} {row['direction']:5} {p.op} {sizes}: {row['ours']:.3f} ms, {row['algorithm']}")


def journalled(
    work: Sequence[tuple[Problem, int]], options: argparse.Namespace, left_out: Collection[tuple[str, str]] = ()
) -> list[dict[str, Any]]:
    """Returns the rows of the journal; before, measures layers with their counts that it lacks, unless for a report.

    `left_out`: names of layers and directions.
    """
    journal: Path = options.journal
    lines = journal.read_text(encoding="utf-8").splitlines() if journal.exists() else []
    rows = [json.loads(line) for line in lines]
    if options.report:
        return rows
    ratios = {key(row): row["ratio"] for row in medians(rows)}
    end = time.monotonic() + options.seconds
    print(dgo.info()["cpu"], f"{len(work)} layers", file=sys.stderr)
    for problem, count in work:
        for direction in DIRECTIONS:
            ratio = ratios.get((problem.name, direction))
            wanted = ratio is None or (options.again and ratio < LOW)
            if not wanted or (problem.name, direction) in left_out or time.monotonic() > end:
                continue
            row = {"problem": problem.as_dict(), "direction": direction, "count": count}
            row |= measured(problem, direction, options.dtype, options.rounds)
            rows.append(row)
            with journal.open("a", encoding="utf-8") as file:
                file.write(json.dumps(row) + "\n")
    return rows


def key(row: Mapping[str, Any]) -> tuple[str, str]:
    return row["problem"]["name"], row["direction"]


def medians(rows: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Returns of each layer and direction the measurement of the lower median ratio."""
    measurements: dict[tuple[str, str], list[Mapping[str, Any]]] = defaultdict(list)
    for row in rows:
        measurements[key(row)].append(row)
    return [sorted(each, key=lambda row: row["ratio"])[(len(each) - 1) // 2] for each in measurements.values()]


def parser(description: str | None) -> argparse.ArgumentParser:
    """Returns a parser of what any list of layers is measured by."""
    command = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    command.add_argument("--journal", type=Path, required=True)
    command.add_argument("--dtype", default="f32", choices=TOLERANCES)
    command.add_argument("--seconds", type=float, default=math.inf, help="stop after so long")
    command.add_argument("--rounds", type=int, default=7)
    command.add_argument("--again", action="store_true", help=f"measure rows below {LOW} once more")
    command.add_argument("--report", action="store_true")
    return command


def main(arguments: Sequence[str] | None = None) -> None:
    command = parser(__doc__)
    command.add_argument("files", nargs="*", type=Path)
    command.add_argument("--transposed", action="store_true", help="the files' rows are transposed convolutions")
    command.add_argument("--seed", type=int, default=1)
    options = command.parse_args(arguments)
    work = sorted(read(options.files, OPS[not options.transposed]), key=lambda pair: pair[0].name)
    random.Random(options.seed).shuffle(work)
    report(journalled(work, options))


if __name__ == "__main__":
    main()
