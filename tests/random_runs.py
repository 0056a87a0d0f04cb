"""A long run of random cases in processes of their own, in blocks, and the table of what they covered."""

import faulthandler
import multiprocessing
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from multiprocessing.connection import Connection

# how often a cell is to be drawn; cases of a process
FEW, BLOCK = 20, 250
# an operator and one property of its node or of the whole
Cell = tuple[str, str]
Aim = tuple[str, ...]
Judged = Callable[[int, int, Aim], tuple[set[Cell], list[str]]]


def long_run(judged: Judged, names: Iterable[str], seed: int, count: int, first: int = 0) -> None:
    """Judge cases `first` and on until interrupted, and print how they ended and which cells were drawn seldom."""
    seen: Counter[Cell] = Counter()
    outcomes: Counter[str] = Counter()
    with suppress(KeyboardInterrupt):
        _run(judged, seed, range(first, first + count), seen, outcomes)
    print(*(f"{number:6} {text}" for text, number in outcomes.most_common()), sep="\n")
    rare = [f"{op} {text}: {number}" for (op, text), number in sorted(seen.items()) if number < FEW]
    drawn = {op for op, _ in seen}
    print(f"{len(drawn)} operators, {len(seen)} cells, below {FEW}: {len(rare)}", *rare, sep="\n")
    print("never drawn:", *sorted(set(names) - drawn))


def _run(judged: Judged, seed: int, cases: range, seen: Counter[Cell], outcomes: Counter[str]) -> None:
    """Every other case aims at a cell drawn seldom so far; a case that ends its process is left out."""
    case = cases.start
    while case < cases.stop:
        few = sorted((cell for cell, number in seen.items() if number < FEW), key=lambda cell: (seen[cell], cell))
        block = {i: few[i // 2 % len(few)] if few and i % 2 else () for i in range(case, min(case + BLOCK, cases.stop))}
        for cells, texts in _block(judged, seed, block):
            seen.update(cells)
            for text in texts:
                if "\n" in text:
                    print(text, flush=True)
                outcomes["failed" if "\n" in text else text] += 1
            case += 1
        if case in block:
            print(f"seed {seed}, case {case}, aim {block[case]}: the process ended", flush=True)
            outcomes["ended the process"] += 1
            case += 1


def _block(judged: Judged, seed: int, block: dict[int, Aim]) -> Iterator[tuple[set[Cell], list[str]]]:
    """The cells and the texts of cases, until one ends the process; memory stays in it, too."""
    fork = multiprocessing.get_context("fork")
    receiver, sender = fork.Pipe(duplex=False)
    child = fork.Process(target=_judge, args=(judged, seed, block, sender))
    child.start()
    sender.close()
    try:
        while True:
            yield receiver.recv()
    except EOFError:
        child.join()


def _judge(judged: Judged, seed: int, block: dict[int, Aim], sender: Connection) -> None:
    # says who ended the process
    faulthandler.enable()
    for case, aim in block.items():
        sender.send(judged(seed, case, aim))
