"""Known defects of oneDNN by version, and what this package does instead: reads defects.json; graphs that crash it.

Looked at were 3.2 and 3.13, and the source between: what was seen to go wrong in 3.2 alone counts for that one.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from .. import schema
from ..schema.table import Version, version

# those that a table has columns for
VERSIONS: tuple[Version, ...] = ((3, 2), (3, 13))
# the ops of the smallest pattern that reads what it should not: Convolution behind two Dequantize
_SMALLEST = 3


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


class Edges(NamedTuple):
    """The kind of an op, and the tensors that it reads and makes."""

    kind: str
    inputs: Sequence[int]
    outputs: Sequence[int]


def crashes_matcher(ops: Sequence[Edges], version: Version) -> list[int]:
    """Positions of Convolutions whose src a Dequantize makes, and whose weights no op: they end the process.

    The pattern matcher of oneDNN after 3.2 asks for the op that makes the weights without a look whether there is one
    (check_f8_conv_with_no_scale_and_zp in src/graph/backend/dnnl/patterns/conv_post_ops.cpp).
    """
    if version < (3, 3) or len(ops) < _SMALLEST:
        return []
    makers = {tensor: op.kind for op in ops for tensor in op.outputs}
    return [
        i
        for i, op in enumerate(ops)
        if op.kind == "Convolution" and makers.get(op.inputs[0]) == "Dequantize" and op.inputs[1] not in makers
    ]
