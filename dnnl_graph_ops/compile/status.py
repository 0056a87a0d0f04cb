"""How each op kind runs with one version of the library, as a table."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from .. import schema
from ..lowering.family import DIRECTIONS
from ..lowering.routes import How, Target, route

Version = tuple[int, ...]
# the bundled library, and the newest one that was tried
VERSIONS: tuple[Version, ...] = ((3, 2), (3, 13))

_NAMES = {
    How.NATIVELY: "library",
    How.AS_ANOTHER: "equal op",
    How.BY_OWN_CODE: "own kernel",
    How.ON_HOST: "NumPy",
    How.NOWHERE: "not supported",
}


class Row(NamedTuple):
    """One op kind: where its results come from, by version."""

    kind: str
    since: str
    how: tuple[str, ...]
    reason: str


def how(kind: str, version: Version) -> tuple[str, str]:
    """What runs an op of ordinary data and default attributes, and the library's reason if it is not the library."""
    if kind in DIRECTIONS:
        return "library or own kernels", ""
    if kind == "End":
        return "nothing to do", ""
    way = route(kind, Target(version))
    nothing = way.how is How.NOWHERE and schema.OPS[kind].cpu_since is None
    return _NAMES[way.how], f"nothing computes {kind}" if nothing else way.reason


def rows(versions: Sequence[Version] = VERSIONS) -> list[Row]:
    """Every op kind, by name."""
    found = []
    for kind, op in sorted(schema.OPS.items()):
        results = [how(kind, version) for version in versions]
        reason = next((text for _, text in results if text), "")
        found.append(Row(kind, ".".join(map(str, op.since)), tuple(name for name, _ in results), reason))
    return found


def markdown(only_missing: bool = False, versions: Sequence[Version] = VERSIONS) -> Iterator[str]:
    """The table in Markdown, line by line."""
    names = [".".join(map(str, version)) for version in versions]
    yield "| op | in oneDNN since | " + " | ".join(f"with {name}" for name in names) + " |"
    yield "|---" * (2 + len(names)) + "|"
    for row in rows(versions):
        if not only_missing or any(item == "not supported" for item in row.how):
            yield f"| {row.kind} | {row.since} | " + " | ".join(row.how) + " |"
