"""The library's own log as records."""

from __future__ import annotations

import ctypes
import os
import re
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from ..errors import InvalidArgumentError
from .libraries import runtimes

_LOCK = threading.RLock()
_MARK = "onednn_verbose,"
# a field of the form key:value or a plain word; what stands before the event differs by version
_EVENTS = ("exec", "create", "compile", "info", "error")


@dataclass(frozen=True)
class Record:
    """One line of the log. Fields that a version does not print are empty.

    `event` is exec, create:cache_hit, compile, ...; `milliseconds` the time that an exec or create line gives.
    """

    event: str
    engine: str = ""
    primitive: str = ""
    implementation: str = ""
    layouts: str = ""
    problem: str = ""
    milliseconds: float | None = None
    text: str = ""


@dataclass
class Log:
    """What was printed; filled when the context ends."""

    records: list[Record] = field(default_factory=list)

    def executed(self) -> list[Record]:
        """The primitives that ran, in order."""
        return [record for record in self.records if record.event.startswith("exec")]


@contextmanager
def verbose(level: int = 1) -> Iterator[Log]:
    """Collect the log of every loaded library; it goes to the process's standard output, which is held meanwhile.

    Args:
        level: 1 for executions, 2 for creations as well.

    Raises:
        InvalidArgumentError: another level.
    """
    if isinstance(level, bool) or not isinstance(level, int):
        raise TypeError(f"verbose: 'level' must be an int, got {type(level).__name__}")
    if level not in (1, 2):
        raise InvalidArgumentError(f"verbose: 'level' must be 1 or 2, got {level}")
    import tempfile

    log = Log()
    libraries = [runtime.library for runtime in runtimes()]
    with _LOCK, tempfile.TemporaryFile() as file:
        for library in libraries:
            library.set_verbose(level)
        try:
            with _standard_output(file.fileno()):
                yield log
        finally:
            for library in libraries:
                library.set_verbose(0)
            file.seek(0)
            _read(file.read().decode("utf-8", "replace"), log)


@contextmanager
def _standard_output(target: int) -> Iterator[None]:
    """Standard output of C code into another file."""
    libc = ctypes.CDLL(None)
    if sys.stdout is not None:
        sys.stdout.flush()
    libc.fflush(None)
    saved = os.dup(1)
    try:
        os.dup2(target, 1)
        yield
    finally:
        if sys.stdout is not None:
            sys.stdout.flush()
        libc.fflush(None)
        os.dup2(saved, 1)
        os.close(saved)


def _read(text: str, log: Log) -> None:
    """Records of the log; lines of others that came between go where they were meant to."""
    for line in text.splitlines():
        if line.startswith(_MARK):
            log.records.append(parse(line))
        elif line:
            os.write(1, (line + "\n").encode())


def parse(line: str) -> Record:
    """One line. Versions differ in what stands before the event: a format version, a component, a time stamp."""
    words = line[len(_MARK) :].split(",")
    start = next((i for i, word in enumerate(words) if word.split(":")[0] in _EVENTS), None)
    if start is None:
        return Record("info", text=line)
    event, rest = words[start], words[start + 1 :]
    if "graph" in words[:start]:
        # a partition, not a primitive
        return Record(f"graph:{event}", text=line)
    if not event.startswith(("exec", "create")) or len(rest) < 4:
        return Record(event, text=line)
    milliseconds = float(rest[-1]) if re.fullmatch(r"[0-9.eE+-]+", rest[-1]) else None
    layouts = rest[4] if len(rest) > 4 else ""
    problem = rest[-2] if milliseconds is not None and len(rest) > 5 else ""
    return Record(event, rest[0], rest[1], rest[2], layouts, problem, milliseconds, line)
