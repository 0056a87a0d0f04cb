"""Where problems come from: the suite, files, descriptors, Python lists; and which of them are kept."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from ..errors import InvalidArgumentError
from . import batchfile, suite
from .cases import Wanted
from .descriptor import looks_like_descriptor, parse
from .document import read_json
from .problem import CLASSES, DIRECTIONS, OPS, Problem


@dataclass(frozen=True)
class Filters:
    """Which problems to keep. `match` is a regular expression on the name."""

    match: str = ""
    families: tuple[str, ...] = ()
    batch: int = 0
    classes: tuple[str, ...] = ()

    def apply(self, wanted: Iterable[Wanted]) -> list[Wanted]:
        """Raises InvalidArgumentError for a bad expression, or if nothing is left."""
        try:
            pattern = re.compile(self.match)
        except re.error as error:
            raise InvalidArgumentError(f"match {self.match!r}: not a regular expression ({error})") from None
        unknown = [name for name in self.classes if name not in CLASSES]
        if unknown:
            raise InvalidArgumentError(f"class: unknown {unknown}; known: {', '.join(CLASSES)}")
        every = list(wanted)
        kept = []
        for item in every:
            problem = replace(item.problem, batch=self.batch) if self.batch else item.problem
            if pattern.search(problem.name) and self._keeps(problem):
                kept.append(replace(item, problem=problem))
        if not kept:
            raise InvalidArgumentError(
                f"no problem is left of {len(every)}: match {self.match!r}, families {list(self.families)}, "
                f"classes {list(self.classes)}{_nearest(self.match, [w.problem.name for w in every])}"
            )
        return kept

    def _keeps(self, problem: Problem) -> bool:
        return (not self.families or problem.family in self.families) and (
            not self.classes or problem.layer_class in self.classes
        )


def _nearest(text: str, names: Sequence[str]) -> str:
    near = difflib.get_close_matches(text, names, n=3)
    return f"; did you mean {', '.join(near)}?" if near else ""


def find(what: Any, *, quick: bool = False, ops: Sequence[str] = OPS[:1]) -> list[Wanted]:
    """Problems from a suite's name, a file, a descriptor, a `Problem`, a dict, or a list of these.

    Each of `ops` has its own suite; descriptors, dicts and files that do not say their op are of the first.

    Files: a list of problems in JSON, a batch file of benchdnn.

    Raises:
        InvalidArgumentError: it is none of these, or an op is not known; the message says what was tried.
    """
    unknown = [op for op in ops if op not in OPS]
    if unknown or not ops:
        raise InvalidArgumentError(f"op: unknown {unknown}; known: {', '.join(OPS)}")
    if isinstance(what, Problem):
        return [Wanted(what)]
    if isinstance(what, Mapping):
        return [_from_record(what, "problem", ops[0])]
    if isinstance(what, Path):
        return _from_file(what, ops[0])
    if isinstance(what, str):
        return _from_text(what, quick, ops)
    if isinstance(what, Iterable):
        return [item for each in what for item in find(each, quick=quick, ops=ops)]
    raise InvalidArgumentError(
        f"problems: expected a suite, file, descriptor, Problem, dict or list, got {type(what).__name__}"
    )


def _from_text(text: str, quick: bool, ops: Sequence[str]) -> list[Wanted]:
    if text == suite.NAME:
        layers = suite.quick_layers if quick else suite.real_layers
        return [Wanted(problem) for op in ops for problem in layers(op)]
    if text in suite.PUBLIC:
        return list(suite.public(text))
    path = Path(text)
    if path.suffix.lower() == ".onnx":
        raise InvalidArgumentError(f"suite {text!r}: a model is no list of layers; measure it with --model {text}")
    if path.is_file():
        return _from_file(path, ops[0])
    if looks_like_descriptor(text):
        return [Wanted(parse(text, op=ops[0]))]
    by_name = suite.by_name()
    if text in by_name:
        return [Wanted(by_name[text])]
    if re.search(r"[a-z]+\d", text) and re.match(r"_?(g|mb|ic|oc)\d", text):
        return [Wanted(parse(text, op=ops[0]))]
    raise InvalidArgumentError(
        f"suite {text!r}: not {suite.NAME!r}, not a layer of it, none of {', '.join(suite.PUBLIC)}, not a file, not a "
        f"descriptor{_nearest(text, [suite.NAME, *suite.PUBLIC, *by_name])}"
    )


def _from_file(path: Path, op: str) -> list[Wanted]:
    if path.suffix != ".json":
        return list(dict.fromkeys(batchfile.read(path, op)))
    records = read_json(path)
    if isinstance(records, dict) and isinstance(records.get("problems"), list):
        records = records["problems"]
    if not isinstance(records, list):
        raise InvalidArgumentError(f"{path}: no list of problems")
    return [_from_record(record, f"{path}, entry {i}", op) for i, record in enumerate(records)]


def _from_record(record: Any, where: str, op: str) -> Wanted:
    if isinstance(record, str):
        return Wanted(parse(record, op=op))
    if not isinstance(record, Mapping):
        raise InvalidArgumentError(f"{where}: expected an object or a descriptor, got {type(record).__name__}")
    if "desc" in record:
        return Wanted(parse(str(record["desc"]), name=record.get("name"), op=op))
    values = dict(record)
    directions = tuple(values.pop("directions", ()))
    dtypes = tuple(values.pop("dtypes", ()))
    if any(d not in DIRECTIONS for d in directions):
        raise InvalidArgumentError(f"{where}: directions {list(directions)}; known: {', '.join(DIRECTIONS)}")
    try:
        return Wanted(Problem.from_dict({"op": op, **values}), directions, dtypes)
    except InvalidArgumentError as error:
        raise InvalidArgumentError(f"{where}: {error}") from None
