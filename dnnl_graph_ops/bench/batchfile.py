"""benchdnn batch files: descriptors and options line by line, `--batch=` including others."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from ..errors import InvalidArgumentError
from .cases import Wanted
from .descriptor import DRIVERS, parse
from .problem import OPS
from .quantized import DTYPE

_DIRECTIONS: Final = {
    **dict.fromkeys(("FWD_B", "FWD_D", "FWD_I"), "fwd"),
    "BWD_D": "bwd_d",
    **dict.fromkeys(("BWD_W", "BWD_WB"), "bwd_w"),
}
_MAX_DEPTH: Final = 16


@dataclass(frozen=True)
class _State:
    op: str
    directions: tuple[str, ...] = ()
    bias: bool = False
    dtypes: tuple[str, ...] = ()
    batch: int = 0
    match: str = ""


def read(path: str | Path, op: str = OPS[0]) -> list[Wanted]:
    """Every problem of a batch file, in order. Options that say nothing about sizes are skipped.

    Read and used: `--reset`, `--dir`, `--dt` (source type; s8 and u8 are int8), `--mb`, `--match`, `--batch`, and the
    drivers `--conv` and `--deconv`; before one of them problems are those of `op`.

    Raises:
        InvalidArgumentError: a file that cannot be read or a malformed line; the message gives file and line.
    """
    return list(_read(Path(path), _State(op), 0))


def _read(path: Path, state: _State, depth: int) -> Iterator[Wanted]:
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
            for word in shlex.split(re.sub(r"(^|\s)#.*", "", line), posix=False):
                if word.startswith("--batch="):
                    yield from _read(path.parent / word.split("=", 1)[1], state, depth + 1)
                elif word.startswith("-"):
                    state = _option(word, state)
                elif re.search(state.match, word):
                    problem = parse(word.strip("'"), batch=state.batch, op=state.op)
                    yield Wanted(replace(problem, bias=state.bias), state.directions, state.dtypes)
        except (InvalidArgumentError, ValueError, re.error) as error:
            if str(error).startswith("batch file"):
                raise
            raise InvalidArgumentError(f"batch file {path}, line {number}: {error}") from None


def _option(word: str, state: _State) -> _State:
    key, _, value = word.lstrip("-").partition("=")
    match key:
        case "reset":
            return _State(state.op)
        case "conv" | "deconv":
            return replace(state, op=DRIVERS[word])
        case "dir":
            names = [v.strip().upper() for v in value.split(",")]
            unknown = [n for n in names if n not in _DIRECTIONS]
            if unknown:
                raise InvalidArgumentError(f"--dir={value}: unknown {unknown}; known: {sorted(_DIRECTIONS)}")
            directions = tuple(dict.fromkeys(_DIRECTIONS[n] for n in names))
            return replace(state, directions=directions, bias="FWD_B" in names)
        case "dt" | "cfg":
            sources = (v.split(":")[0] for v in value.split(","))
            return replace(state, dtypes=tuple(dict.fromkeys(DTYPE if v in ("s8", "u8") else v for v in sources)))
        case "mb":
            return replace(state, batch=int(value))
        case "match":
            re.compile(value.strip("\"'"))
            return replace(state, match=value.strip("\"'"))
        case _:
            return state
