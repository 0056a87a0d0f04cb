"""oneDNN's verbose log as records."""

from __future__ import annotations

import re
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

from .._core import LogCapture
from ..errors import InvalidArgumentError
from .libraries import loaded
from .locks import renew_after_fork

_LOCK = threading.RLock()
renew_after_fork(sys.modules[__name__], "_LOCK")
_OPEN: list[Log] = []  # under the lock
_MARK = "onednn_verbose,"
# a field key:value or a plain word; the fields before the event differ by version
_EVENTS = ("exec", "create", "compile", "info", "error")
# names of reference implementations in the log: ref:any, ref_int8:any, gemm:ref
_REFERENCE = re.compile("(^|[:+])ref(_|:|$)")


@dataclass(frozen=True)
class Record:
    """One line of the log. Fields that a version does not print are empty.

    `event` is exec, create:cache_hit, compile, ...; `milliseconds` is the time of an exec or create line,
    `thread` the native id of the thread that printed it.
    """

    event: str
    engine: str = ""
    primitive: str = ""
    implementation: str = ""
    layouts: str = ""
    problem: str = ""
    milliseconds: float | None = None
    text: str = ""
    thread: int = 0

    @property
    def reference(self) -> bool:
        """Whether the implementation is a reference kernel, which is slow."""
        return _REFERENCE.search(self.implementation) is not None


@dataclass
class Log:
    """The printed records; filled when the context ends."""

    records: list[Record] = field(default_factory=list)

    def executed(self) -> list[Record]:
        """The primitives that ran, in order."""
        return [record for record in self.records if record.event.startswith("exec")]

    def created(self) -> list[Record]:
        """The primitives that were created or found in oneDNN's cache, in order."""
        return [record for record in self.records if record.event.startswith("create")]


@contextmanager
def verbose(level: int = 1) -> Iterator[Log]:
    """Collect the verbose log of every loaded library, which oneDNN writes to C's `stdout`; other output passes.

    The log has the executions of all threads (`Record.thread`). Lines that ONEDNN_VERBOSE asks for are still printed.
    At run time oneDNN takes only the levels 0, 1 and 2, so other words of ONEDNN_VERBOSE, such as `dispatch`, are lost
    with the first log whose level does not include them.

    Args:
        level: 1 for executions, 2 for creations as well.

    Raises:
        InvalidArgumentError: another level.
        UnsupportedError: the C library is not glibc.
    """
    if isinstance(level, bool) or not isinstance(level, int):
        raise TypeError(f"verbose: 'level' must be an int, got {type(level).__name__}")
    if level not in (1, 2):
        raise InvalidArgumentError(f"verbose: 'level' must be 1 or 2, got {level}")
    log = Log()
    with _LOCK:
        before = [(library, library.verbose) for library in loaded()]
        # a log within another log has the outer log's levels
        capture = LogCapture(pass_on=not _OPEN and any(asked for _, asked in before))
        _OPEN.append(log)
        try:
            for library, asked in before:
                if asked < level:
                    library.set_verbose(level)
            yield log
        finally:
            for library, asked in before:
                if asked < level:
                    library.set_verbose(asked)
            _OPEN.pop()
            lines = [replace(parse(line), thread=thread) for thread, line in capture.stop()]
            # a log within this one may have raised the level
            log.records += [record for record in lines if level > 1 or not record.event.startswith("create")]


def parse(line: str) -> Record:
    """The record of a line. Fields before the event differ by version: a format version, a component, a time stamp."""
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
