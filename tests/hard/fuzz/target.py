"""What a target of the fuzzers is, and how one of its cases is judged."""

from __future__ import annotations

import linecache
import random
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from importlib import import_module
from pathlib import Path

SEEDS = Path(__file__).with_name("seeds")
# of the thread that makes the call, so that a busy machine is no finding
SECONDS_PER_CASE = 5.0
LONGEST = 4096


class TooSlow(Exception):
    """A case that ended, but late."""


@dataclass(frozen=True)
class Target:
    """`one(data)` makes a call of bytes and lets only the family's errors, TypeError and MemoryError pass."""

    name: str
    # whether coverage can lead to anything: the bytes mean something
    guided: bool = True

    @cached_property
    def one(self) -> Callable[[bytes], object]:
        return self._module.one

    @cached_property
    def change(self) -> Callable[[random.Random, bytes], bytes]:
        """The target's own mutator, or one of plain bytes."""
        from .mutators import changed_bytes

        return getattr(self._module, "change", changed_bytes)

    @cached_property
    def has_mutator(self) -> bool:
        return hasattr(self._module, "change")

    @cached_property
    def _module(self):
        return import_module(f"hard.fuzz.targets.{self.name}")

    @cached_property
    def seeds(self) -> list[bytes]:
        """The kept ones, and for all targets the empty case."""
        return [b"", *(path.read_bytes() for path in seed_files(self.name))]

    def case(self, seed: int, number: int) -> bytes:
        """The kept cases, and from their number on those of the plain mutator."""
        if number < len(self.seeds):
            return self.seeds[number]
        rng = random.Random(f"{self.name} {seed} {number}")
        if not self.has_mutator and rng.random() < 0.3:
            return rng.randbytes(rng.choice((16, 64, 160)))
        data = rng.choice(self.seeds)
        for _ in range(rng.choice((1, 1, 2, 4))):
            data = self.change(rng, data)
        return data[:LONGEST]

    def judge(self, data: bytes) -> bool:
        """Whether the case was refused as it should be; what may not come out of it does."""
        import dnnl_graph_ops as dgo

        one, start = self.one, time.thread_time()
        try:
            one(data)
            refused = False
        except (dgo.Error, TypeError, MemoryError):
            refused = True
        if time.thread_time() - start > SECONDS_PER_CASE:
            raise TooSlow(f"{time.thread_time() - start:.1f} s of processor time")
        return refused


def seed_files(target: str) -> list[Path]:
    return sorted(path for path in (SEEDS / target).glob("*") if path.is_file())


def place_of(error: BaseException) -> str:
    """Where an error comes from: the last line of the package, or else the last of all."""
    frames = traceback.extract_tb(error.__traceback__)
    ours = [frame for frame in frames if "dnnl_graph_ops" in frame.filename] or frames
    last = ours[-1]
    short = "/".join(Path(last.filename).parts[-2:])
    return f"{type(error).__name__} at {short}:{last.lineno} ({linecache.getline(last.filename, last.lineno).strip()})"
