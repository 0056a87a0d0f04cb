"""Known defects of oneDNN by version, read from defects.json, and graphs that crash oneDNN.

Versions 3.2 and 3.13 were tested, and the source between them was read; a defect seen only in 3.2 counts for 3.2.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from .. import schema
from ..schema.table import Version, version

# columns of the table of versions
VERSIONS: tuple[Version, ...] = ((3, 2), (3, 13))
# the smallest pattern that crashes: Convolution after two Dequantize
_SMALLEST = 3


class Defect(NamedTuple):
    """A defect of the versions from `since` on and before `until` (None: of all tested versions)."""

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
    """The op kinds that a version lacks, or that it has no CPU kernel for outside of a fused pattern."""
    return [
        kind
        for kind, op in schema.OPS.items()
        if not op.own and (version < op.since or op.cpu_since is None or version < op.cpu_since)
    ]


class Edges(NamedTuple):
    """The kind of an op, and its input and output tensors."""

    kind: str
    inputs: Sequence[int]
    outputs: Sequence[int]


def crashes_matcher(ops: Sequence[Edges], version: Version) -> list[int]:
    """Positions of Convolutions that crash oneDNN: a Dequantize computes src, and no op computes the weights.

    The pattern matcher of oneDNN after 3.2 dereferences the producer of the weights without a check
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
