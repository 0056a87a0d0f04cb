"""benchdnn batch files: descriptors and options line by line, `--batch=` including others."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from ..errors import InvalidArgumentError
from .descriptor import DRIVERS, looks_like_descriptor, parse
from .problem import OPS, Problem

_DIRECTIONS: Final = {
    "FWD_B": ("fwd", True),
    "FWD_D": ("fwd", False),
    "FWD_I": ("fwd", False),
    "BWD_D": ("bwd_d", False),
    "BWD_W": ("bwd_w", False),
    "BWD_WB": ("bwd_w", False),
}
_TAGS: Final = {
    "axb": "NXC",
    "acb": "NXC",
    "acdb": "NXC",
    "acdeb": "NXC",
    "abx": "NCX",
    "abc": "NCX",
    "abcd": "NCX",
}
_MAX_DEPTH: Final = 16


@dataclass(frozen=True)
class Entry:
    """One problem of a batch file with the settings in force there (empty: the command line's)."""

    problem: Problem
    directions: tuple[str, ...] = ()
    dtypes: tuple[str, ...] = ()
    layouts: tuple[str, ...] = ()


@dataclass(frozen=True)
class _State:
    directions: tuple[str, ...] = ()
    bias: bool = False
    dtypes: tuple[str, ...] = ()
    layouts: tuple[str, ...] = ()
    batch: int = 0
    match: str = ""
    op: str = OPS[0]


def read(path: str | Path, op: str = OPS[0]) -> list[Entry]:
    """Every problem of a batch file, in order. Options that say nothing about sizes are skipped.

    Read and used: `--reset`, `--dir`, `--dt` (source type), `--stag`/`--dtag`, `--mb`, `--match`, `--batch`,
    and the drivers `--conv` and `--deconv`; before one of them problems are those of `op`.

    Raises:
        InvalidArgumentError: a file that cannot be read or a malformed line; the message gives file and line.
    """
    return list(_read(Path(path), _State(op=op), 0))


def _read(path: Path, state: _State, depth: int) -> Iterator[Entry]:
    if depth > _MAX_DEPTH:
        raise InvalidArgumentError(
            f"batch file {path}: --batch nests deeper than {_MAX_DEPTH}; does it include itself?"
        )
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidArgumentError(f"batch file {path}: cannot be read ({error})") from None
    # a list broken after a comma goes on without a blank
    joined = re.sub(r"\\\n", " ", re.sub(r",\s*\\\n\s*", ",", text))
    for number, line in enumerate(joined.splitlines(), start=1):
        try:
            # quotes stay: a descriptor's name may hold blanks and '#'
            words = shlex.split(re.sub(r"(^|\s)#.*", "", line), posix=False)
            for word in words:
                if word.startswith("--batch="):
                    yield from _read(path.parent / word.split("=", 1)[1], state, depth + 1)
                elif word.startswith("-"):
                    state = _option(word, state)
                else:
                    entry = _problem(word, state)
                    if entry is not None:
                        yield entry
        except (InvalidArgumentError, ValueError, re.error) as error:
            if isinstance(error, InvalidArgumentError) and str(error).startswith("batch file"):
                raise
            raise InvalidArgumentError(f"batch file {path}, line {number}: {error}") from None


def _option(word: str, state: _State) -> _State:
    key, _, value = word.lstrip("-").partition("=")
    match key:
        case "reset":
            return _State(op=state.op)
        case "conv" | "deconv":
            return replace(state, op=DRIVERS[word])
        case "dir":
            names = [v.strip().upper() for v in value.split(",")]
            unknown = [n for n in names if n not in _DIRECTIONS]
            if unknown:
                raise InvalidArgumentError(f"--dir={value}: unknown {unknown}; known: {sorted(_DIRECTIONS)}")
            directions = tuple(dict.fromkeys(_DIRECTIONS[n][0] for n in names))
            return replace(state, directions=directions, bias=any(_DIRECTIONS[n][1] for n in names))
        case "dt" | "cfg":
            return replace(state, dtypes=tuple(dict.fromkeys(v.split(":")[0] for v in value.split(","))))
        case "stag" | "dtag":
            layouts = tuple(dict.fromkeys(_TAGS[v] for v in value.split(",") if v in _TAGS))
            return replace(state, layouts=layouts)
        case "mb":
            return replace(state, batch=int(value))
        case "match":
            re.compile(value.strip("\"'"))
            return replace(state, match=value.strip("\"'"))
        case _:
            return state


def _problem(word: str, state: _State) -> Entry | None:
    word = word.strip("'") if word.startswith("'") else word
    if not looks_like_descriptor(word):
        parse(word, op=state.op)
    if state.match and not re.search(state.match, word):
        return None
    problem = parse(word, batch=state.batch, op=state.op)
    return Entry(replace(problem, bias=state.bias), state.directions, state.dtypes, state.layouts)
