"""A long run of random cases in processes of their own, in blocks, and the table of what they covered."""

import faulthandler
import multiprocessing
from collections import Counter
from collections.abc import Callable

# what a cell is to have been drawn; cases of a process
FEW, BLOCK = 20, 250
# an operator and one property of its node or of the whole
Cell = tuple[str, str]
Judged = Callable[[int, int, tuple[str, ...]], tuple[set[Cell], list[str]]]


def long_run(judged: Judged, seed: int, count: int, first: int = 0) -> None:
    """Judge cases `first` and on, every other one of which aims at a cell drawn seldom so far; print how they ended."""
    seen: Counter[Cell] = Counter()
    outcomes: Counter[str] = Counter()
    fork = multiprocessing.get_context("fork")
    for start in range(first, first + count, BLOCK):
        # memory, and what ends a process, stay in it
        results = fork.SimpleQueue()
        block = range(start, min(start + BLOCK, first + count))
        few = sorted((cell for cell, number in seen.items() if number < FEW), key=lambda cell: (seen[cell], cell))
        child = fork.Process(target=lambda: results.put(_block(judged, seed, block, few)))  # noqa: B023
        child.start()
        while child.is_alive() and results.empty():
            child.join(0.1)
        if results.empty():
            print(f"{block}: the process ended with code {child.exitcode}", flush=True)
            continue
        for total, more in zip((seen, outcomes), results.get(), strict=True):
            total.update(more)
        child.join()
    print(f"{count} cases from {first} with seed {seed}")
    print(*(f"{number:6} {text}" for text, number in outcomes.most_common()), sep="\n")
    rare = [f"{op} {text}: {number}" for (op, text), number in sorted(seen.items()) if number < FEW]
    print(f"{len({op for op, _ in seen})} operators, {len(seen)} cells, below {FEW}: {len(rare)}", *rare, sep="\n")


def _block(judged: Judged, seed: int, block: range, few: list[Cell]) -> tuple[Counter[Cell], Counter[str]]:
    """How often each cell was drawn, and how many cases ended how."""
    faulthandler.enable()
    seen: Counter[Cell] = Counter()
    outcomes: Counter[str] = Counter()
    for case in block:
        cells, texts = judged(seed, case, few[case // 2 % len(few)] if few and case % 2 else ())
        seen.update(cells)
        for text in texts:
            if "\n" in text:
                print(text, flush=True)
                text = "failed"
            outcomes[text] += 1
    return seen, outcomes
