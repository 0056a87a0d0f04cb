"""The result file: rows with everything that is needed to read them later, and putting several together."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from ..errors import InvalidArgumentError
from .rows import Row

SCHEMA: Final = "dnnl_graph_ops.bench"
SCHEMA_VERSION: Final = 3


@dataclass
class Document(Sequence[Row]):
    """The rows of a run, a sequence, with machines, versions and notes.

    Attributes:
        machines: `Row.machine` indexes this list.
        versions: competitor -> {library: version}.
        complete: False for a run that was interrupted.
    """

    rows: list[Row] = field(default_factory=list)
    options: dict[str, Any] = field(default_factory=dict)
    machines: list[dict[str, Any]] = field(default_factory=list)
    versions: dict[str, dict[str, str]] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    created: str = ""
    command: str = ""
    seconds: float = 0.0
    complete: bool = True

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, index: Any) -> Any:
        return self.rows[index]

    def peers(self) -> list[str]:
        """Peers with at least one ratio, in the order of the rows."""
        return list(dict.fromkeys(r.peer for row in self.rows for r in row.ratios))

    def as_dict(self) -> dict[str, Any]:
        """The document as dicts and lists, which JSON can hold."""
        head = {k: v for k, v in self.__dict__.items() if k != "rows"}
        return {
            "schema": SCHEMA,
            "schema_version": SCHEMA_VERSION,
            **head,
            "rows": [row.as_dict() for row in self.rows],
        }

    @classmethod
    def from_dict(cls, record: Any, where: str = "result") -> Document:
        """Inverse of `as_dict`.

        Raises:
            InvalidArgumentError: not such a record, or of a newer schema version.
        """
        if not isinstance(record, dict) or record.get("schema") != SCHEMA:
            raise InvalidArgumentError(f"{where}: not a result of this bench (its schema is not {SCHEMA!r})")
        if record.get("schema_version") != SCHEMA_VERSION:
            raise InvalidArgumentError(
                f"{where}: schema version {record.get('schema_version')}, known is {SCHEMA_VERSION}; "
                "update it or measure again"
            )
        try:
            values = {k: v for k, v in record.items() if k not in ("schema", "schema_version", "rows")}
            return cls(rows=[Row.from_dict(r) for r in record["rows"]], **values)
        except (KeyError, TypeError) as error:
            raise InvalidArgumentError(f"{where}: a damaged result file ({error!r})") from None

    def save(self, path: str | Path) -> None:
        """Writes the document as JSON. Raises InvalidArgumentError: the file cannot be written."""
        write_text(path, json.dumps(self.as_dict(), indent=1, allow_nan=False) + "\n")

    @classmethod
    def load(cls, path: str | Path) -> Document:
        """Reads what `save` wrote. Raises InvalidArgumentError: no such file, or no result of this bench."""
        return cls.from_dict(read_json(path), str(path))


def json_lines(content: Mapping[str, Any], depth: int = 2) -> str:
    """JSON whose lists, and dicts that lie less deep than `depth`, have a line for each item."""

    def lines(value: Any, level: int) -> str:
        if level == depth or not value or not isinstance(value, dict | list):
            return json.dumps(value)
        begin, inner, end = "\n" + " " * (level + 1), level + 1, "\n" + " " * level
        if isinstance(value, list):
            return "[" + ",".join(begin + json.dumps(item) for item in value) + end + "]"
        return "{" + ",".join(f"{begin}{json.dumps(k)}: {lines(v, inner)}" for k, v in value.items()) + end + "}"

    return lines(dict(content), 0) + "\n"


def read_json(path: str | Path) -> Any:
    try:
        return json.loads(Path(path).read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidArgumentError(f"{path}: cannot be read ({error})") from None
    except json.JSONDecodeError as error:
        raise InvalidArgumentError(f"{path}: not JSON ({error})") from None


def write_text(path: str | Path, text: str) -> None:
    """Writes whole or not at all, so that an interrupt leaves no half file.

    Raises:
        InvalidArgumentError: the file cannot be written.
    """
    write_bytes(path, text.encode())


def write_bytes(path: str | Path, content: bytes) -> None:
    target = Path(path)
    try:
        if target.exists() and not target.is_file():
            target.write_bytes(content)
            return
        handle, temporary = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.")
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(content)
            os.chmod(temporary, 0o644)
            os.replace(temporary, target)
        except BaseException:
            Path(temporary).unlink(missing_ok=True)
            raise
    except OSError as error:
        raise InvalidArgumentError(f"{path}: cannot be written ({error.strerror or error})") from None


def check_writable(path: str | Path) -> None:
    """Fails now rather than after an hour of measuring."""
    target = Path(path)
    if target.is_dir():
        raise InvalidArgumentError(f"{path}: cannot be written (it is a directory)")
    if not target.parent.is_dir():
        raise InvalidArgumentError(f"{path}: cannot be written (no directory {target.parent})")
    if target.exists() and not os.access(target, os.W_OK):
        raise InvalidArgumentError(f"{path}: cannot be written (permission denied)")
    if target.is_file() or not target.exists():
        # what a superuser may not do either shows only when it is tried
        try:
            tempfile.NamedTemporaryFile(dir=target.parent).close()
        except OSError as error:
            raise InvalidArgumentError(f"{path}: cannot be written ({error.strerror or error})") from None


def _identity(machine: dict[str, Any]) -> dict[str, Any]:
    """Returns the properties by which results are of one machine."""
    return {k: v for k, v in machine.items() if k != "load"}


def merge(documents: Sequence[Document]) -> Document:
    """One document of several shards or machines. Of rows with one key the last good one is kept.

    Raises:
        InvalidArgumentError: nothing to merge, or runs with different settings.
    """
    if not documents:
        raise InvalidArgumentError("merge: no results were given")
    first = documents[0]
    merged = Document(options=first.options, created=first.created, command=first.command)
    rows: dict[str, Row] = {}
    for document in documents:
        different = [k for k, v in first.options.items() if document.options.get(k) != v]
        if different:
            raise InvalidArgumentError(
                f"merge: the runs differ in {', '.join(different)}; only shards of one run go together"
            )
        places = []
        for machine in document.machines:
            known = [_identity(m) for m in merged.machines]
            if _identity(machine) not in known:
                merged.machines.append(machine)
                known.append(_identity(machine))
            places.append(known.index(_identity(machine)))
        for row in document.rows:
            row.machine = places[row.machine] if row.machine < len(places) else 0
            if row.key not in rows or row.status == "ok" or rows[row.key].status != "ok":
                rows[row.key] = row
        merged.notes += [n for n in document.notes if n not in merged.notes]
        merged.versions |= document.versions
        merged.seconds += document.seconds
        merged.complete &= document.complete
    merged.rows = list(rows.values())
    return merged
