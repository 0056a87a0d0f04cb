"""Every finished row on disk at once: a run that was killed goes on where it was."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import IO, Any

from ..errors import InvalidArgumentError
from .rows import Row


class Journal:
    """An append-only file: a line with the run's settings, then a line a row.

    Args:
        path: the file. It is begun anew unless `resume`.
        settings: what must be equal for rows to be comparable.
        resume: keep what is there.

    Raises:
        InvalidArgumentError: it cannot be written, or belongs to a run with other settings.
    """

    def __init__(self, path: str | Path, settings: dict[str, Any], resume: bool) -> None:
        self.path = Path(path)
        self.rows: dict[str, Row] = {}
        kept = self._read(settings) if resume else 0
        try:
            self._file: IO[bytes] = open(self.path, "r+b" if kept else "wb")  # noqa: SIM115
            # a line that a kill cut short is overwritten
            self._file.truncate(kept)
            self._file.seek(kept)
        except OSError as error:
            raise InvalidArgumentError(f"journal {path}: cannot be written ({error.strerror})") from None
        if not kept:
            self._append({"settings": settings})

    def add(self, row: Row) -> None:
        self.rows[row.key] = row
        self._append({"row": row.as_dict()})

    def close(self, discard: bool = False) -> None:
        self._file.close()
        if discard:
            self.path.unlink(missing_ok=True)

    def _append(self, record: dict[str, Any]) -> None:
        self._file.write(json.dumps(record, allow_nan=False).encode() + b"\n")
        self._file.flush()
        os.fsync(self._file.fileno())

    def _read(self, settings: dict[str, Any]) -> int:
        """Fills `rows`; the number of bytes that are whole lines."""
        try:
            content = self.path.read_bytes()
        except FileNotFoundError:
            return 0
        except OSError as error:
            raise InvalidArgumentError(f"journal {self.path}: cannot be read ({error.strerror})") from None
        kept = 0
        for line in content.splitlines(keepends=True):
            if not line.endswith(b"\n"):
                break
            try:
                record = json.loads(line)
                if "settings" in record:
                    self._compare(record["settings"], settings)
                else:
                    row = Row.from_dict(record["row"])
                    self.rows[row.key] = row
            except (ValueError, KeyError, TypeError) as error:
                if isinstance(error, InvalidArgumentError):
                    raise
                break
            kept += len(line)
        return kept

    def _compare(self, old: dict[str, Any], new: dict[str, Any]) -> None:
        different = sorted(k for k in old.keys() | new.keys() if old.get(k) != new.get(k))
        if different:
            name = different[0]
            raise InvalidArgumentError(
                f"journal {self.path}: it belongs to a run with other settings ({name} was "
                f"{old.get(name)!r}, now {new.get(name)!r}); "
                "resume with the same options or name another journal"
            )
