"""Tabulates what computes each op kind with several versions of the library."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from .. import schema
from ..backends.builtin import KERNELS
from ..backends.convolution import CONVOLUTION
from ..backends.kinds import Kind, Target, Version
from ..backends.table import NOWHERE, who_runs
from ..runtime import cpu

# the bundled library, and the newest release that was tried
VERSIONS: tuple[Version, ...] = ((3, 2), (3, 13))

# what is left to the library's reference kernels; explain() flags it where it happens
REFERENCE = {kind: schema.REFERENCE[op.reference] for kind, op in schema.OPS.items() if op.reference}


class Row(NamedTuple):
    """A row of the table: an op kind, the release of oneDNN that introduced it, and what computes it by version."""

    kind: str
    since: str
    how: tuple[str, ...]
    reason: str


def how(kind: str, version: Version) -> tuple[str, str]:
    """Returns what computes an op of usual dtypes and default attributes, and why not the library, if it does not."""
    if kind in KERNELS and KERNELS[kind].preferred:
        return CONVOLUTION.title, ""
    if kind == "End":
        return "nothing to do", ""
    backend, reason = who_runs(Kind(kind), Target(version))
    if backend is NOWHERE and schema.OPS[kind].cpu_since is None:
        reason = f"nothing computes {kind}"
    return backend.title, reason


def rows(versions: Sequence[Version] = VERSIONS) -> list[Row]:
    """Returns a row for each op kind, sorted by name."""
    found = []
    for kind, op in sorted(schema.OPS.items()):
        results = [how(kind, version) for version in versions]
        reason = next((text for _, text in results if text), "")
        since = "-" if op.own else ".".join(map(str, op.since))
        found.append(Row(kind, since, tuple(name for name, _ in results), reason))
    return found


def markdown(only_missing: bool = False, versions: Sequence[Version] = VERSIONS) -> Iterator[str]:
    """Yields the lines of the table in Markdown; `only_missing`: only ops that some version does not support."""
    names = [".".join(map(str, version)) for version in versions]
    yield "| op | in oneDNN since | " + " | ".join(f"with {name}" for name in names) + " |"
    yield "|---" * (2 + len(names)) + "|"
    for row in rows(versions):
        if not only_missing or any(item == "not supported" for item in row.how):
            yield f"| {row.kind} | {row.since} | " + " | ".join(row.how) + " |"
    if not only_missing:
        yield from reference_kernels()


def reference_kernels() -> Iterator[str]:
    """Yields two tables in Markdown: ops that the library's reference kernels compute, and ops computed in f32 instead.

    The latter would run by reference kernels in bf16 or f16.
    """
    yield ""
    yield "| op by a reference kernel, which is slow | when |"
    yield "|---|---|"
    for kind, when in sorted(REFERENCE.items()):
        yield f"| {kind} | {when} |"
    yield ""
    yield "| op in f32 instead | dtype | with |"
    yield "|---|---|---|"
    for row in cpu.REFERENCE:
        for op in sorted(row.ops):
            yield f"| {op} | {row.dtype} | {row.since} and sets that contain it |"
