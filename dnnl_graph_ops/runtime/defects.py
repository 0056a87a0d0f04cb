"""Known defects of oneDNN by version, and what this package does instead: reads defects.json.

Looked at were 3.2 and 3.13, and the source between: what was seen to go wrong in 3.2 alone counts for that one.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import NamedTuple

from .. import schema
from ..schema.table import Version, version

# those that a table has columns for
VERSIONS: tuple[Version, ...] = ((3, 2), (3, 13))


class Defect(NamedTuple):
    """What goes wrong in versions from `since` on, before `until` (None: in all that were looked at)."""

    since: Version
    until: Version | None
    what: str
    instead: str

    def __str__(self) -> str:
        return f"{self.what}: {self.instead}"


DEFECTS = tuple(
    Defect(version(row["since"]), version(row["until"]) if "until" in row else None, row["what"], row["instead"])
    for row in json.loads(Path(__file__).with_name("defects.json").read_text("utf-8"))
)


def known(version: Version) -> list[Defect]:
    """The defects of a version."""
    return [d for d in DEFECTS if version >= d.since and (d.until is None or version < d.until)]


def lacking(version: Version) -> list[str]:
    """The op kinds that a version does not have, or has no CPU kernel for when they stand alone."""
    return [
        kind
        for kind, op in schema.OPS.items()
        if not op.own and (version < op.since or op.cpu_since is None or version < op.cpu_since)
    ]
