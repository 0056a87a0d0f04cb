"""How each op kind runs with one version of the library, as a table."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from .. import schema
from ..lowering.family import DIRECTIONS
from ..lowering.host import EQUAL, OWN
from ..lowering.host_ops import HOST, ONLY_EMPTY

Version = tuple[int, ...]
# the bundled library, and the newest one that was tried
VERSIONS: tuple[Version, ...] = ((3, 2), (3, 13))


class Row(NamedTuple):
    """One op kind: where its results come from, by version."""

    kind: str
    since: str
    how: tuple[str, ...]
    reason: str


def how(kind: str, version: Version) -> tuple[str, str]:
    """What runs an op of ordinary data and default attributes, and the library's reason if it is not the library."""
    op = schema.OPS[kind]
    if kind in DIRECTIONS:
        return "library or own kernels", ""
    reason = schema.availability(kind, [], version)
    if kind == "End":
        return "nothing to do", ""
    if reason is None:
        return "library", ""
    if kind in OWN:
        return "own kernel", reason
    if kind in EQUAL and kind not in ("Pow",):
        return "equal op", reason
    if kind in HOST and kind not in ONLY_EMPTY:
        return "NumPy", reason
    return "not supported", reason if op.cpu_since is not None else f"nothing computes {kind}"


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
