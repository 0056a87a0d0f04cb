"""A long run of random cases in processes of their own, in blocks, and the table of what they covered."""

import faulthandler
import multiprocessing
from collections import Counter
from collections.abc import Callable, Container, Iterable, Iterator
from contextlib import suppress
from multiprocessing.connection import Connection
from typing import Any, TypeVar

# how often a cell is to be drawn; cases of a process; operators that one case aims at
FEW, BLOCK, MOST_AIMED = 20, 250, 6
# items of which the nearest to an aim is taken, once one has a part of it
AIMED_TRIES, MOST_AIMED_TRIES = 3, 60
# an operator and one property of its node or of the whole
Cell = tuple[str, str]
# operators, each with properties that it was seldom drawn with
Aim = dict[str, tuple[str, ...]]
Item = TypeVar("Item")
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
    """Three of four cases aim at cells drawn seldom so far; a case that ends its process is left out."""
    case = cases.start
    while case < cases.stop:
        aims = _aims(seen)
        numbers = range(case, min(case + BLOCK, cases.stop))
        block = {i: aims[3 * i // 4 % len(aims)] if aims and i % 4 else {} for i in numbers}
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


def _aims(seen: Counter[Cell]) -> list[Aim]:
    """The cells below FEW of some operators at a time, those with the most of them first."""
    lacking: dict[str, tuple[str, ...]] = {}
    for (op, text), number in sorted(seen.items()):
        if number < FEW:
            lacking[op] = (*lacking.get(op, ()), text)
    ops = sorted(lacking, key=lambda op: -len(lacking[op]))
    return [{op: lacking[op] for op in ops[i : i + MOST_AIMED]} for i in range(0, len(ops), MOST_AIMED)]


def properties(rng: Any, aim: Aim, kinds: Container[str]) -> set[str]:
    """Some of an aim's properties that one program can have: of types, ranks and opsets one each."""
    texts = [text for texts in aim.values() for text in texts]
    rng.shuffle(texts)
    return set({"type" if text in kinds else text.split()[0]: text for text in texts}.values())


def nearest(draw: Callable[[], Item | None], aim: Aim, cells: Callable[[Item], set[Cell]]) -> Item:
    """Of a few items that have some cells of an aim, the one with most of them; any item without an aim."""
    aimed = {(op, text) for op, texts in aim.items() for text in texts}
    best, most, tries = None, 0, 0
    while best is None or tries < (AIMED_TRIES if most else MOST_AIMED_TRIES) * bool(aimed):
        tries += 1
        item = draw()
        count = len(aimed & cells(item)) if aimed and item is not None else 0
        if item is not None and (best is None or count > most):
            best, most = item, count
    return best


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
