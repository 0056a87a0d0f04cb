"""Known defects of oneDNN by version, and what this package does instead.

Looked at were 3.2 and 3.13, and the source between: what was seen to go wrong in 3.2 alone counts for that one.
"""

from __future__ import annotations

from typing import NamedTuple

from .. import schema

Version = tuple[int, ...]
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


_ALL: Version = (3, 0)

DEFECTS: tuple[Defect, ...] = (
    Defect(
        _ALL,
        None,
        "ConvTransposeBackwardData ignores dilations",
        "computed as a Convolution; graph_api refuses it",
    ),
    Defect(
        _ALL,
        None,
        "ConvTransposeBackwardWeights takes the pads of auto_pad SAME_* from the wrong tensor",
        "pads are resolved before; graph_api refuses it",
    ),
    Defect(
        _ALL,
        None,
        "ConvolutionBackwardData has no kernel for groups",
        "computed as a ConvTranspose or by own kernels",
    ),
    Defect(
        _ALL,
        None,
        "shapes, lengths of attributes, groups and tensors of a call are hardly checked: reads past lists, crashes",
        "all are checked before the native call",
    ),
    Defect(
        _ALL,
        None,
        "a partition that was compiled with the cache of constants and runs without it ends the process",
        "the cache is never switched",
    ),
    Defect(
        _ALL,
        None,
        "a thread that ends inside of a call of another corrupts memory",
        "ends of threads wait for calls under way",
    ),
    Defect(
        _ALL,
        None,
        "a forked child of a process that has computed waits for ever",
        "it raises",
    ),
    Defect(
        _ALL,
        None,
        "Quantize adds the zero point before it rounds, which turns ties where it is odd",
        "own code rounds first",
    ),
    Defect(
        _ALL,
        None,
        "SoftMax, LogSoftmax and MaxPool lose NaN",
        "own kernels keep it, but for max_pool as its page says",
    ),
    Defect(
        (3, 2),
        (3, 7),
        "the cache of constants does not look at their addresses: other weights on one compiled partition are ignored",
        "a compiled partition keeps to one set of constants",
    ),
    Defect(
        (3, 2),
        (3, 6),
        "an op that the version does not know is accepted, and ends the process later",
        "such ops are refused",
    ),
    Defect(
        (3, 2),
        (3, 5),
        "compilation never ends where an input has the layout any",
        "refused",
    ),
    Defect(
        (3, 2),
        (3, 4),
        "code that is evicted from the cache of primitives while it is made loses its post-ops for all later users",
        "the cache is never emptied while something is compiled",
    ),
    Defect(
        (3, 2),
        (3, 4),
        "tensors cannot be allocated by the library",
        "this package brings the memory",
    ),
    Defect(
        (3, 2),
        (3, 3),
        "gradients of convolutions run only in the thread that compiled them",
        "one for each thread that may run them",
    ),
    Defect(
        (3, 2),
        (3, 3),
        "gradients of 3-D weights are wrong, or written past their end, where taps reach over both ends (AVX-512)",
        "computed on a copy with zeros in front; graph_api refuses them",
    ),
    Defect(
        (3, 2),
        (3, 3),
        "gradients of weights in bf16 are wrong, or written past their end, where the window is as long as an axis",
        "computed in f32; graph_api refuses them",
    ),
    Defect(
        (3, 2),
        (3, 3),
        "Interpolate ends the process on results of 16 MB and more that are not aligned to 64 bytes",
        "computed in an aligned copy",
    ),
    Defect(
        (3, 2),
        (3, 3),
        "binary ops fused behind poolings, resizes, batched products and each other misread some operands",
        "run apart",
    ),
    Defect(
        (3, 2),
        (3, 3),
        "fused int8 partitions are wrong for many combinations of types, post-ops and windows",
        "only combinations that were tried and are exact are fused",
    ),
    Defect(
        (3, 2),
        (3, 3),
        "PReLU takes wrong slopes in some layouts, and crashes on one axis",
        "computed on a copy, or by own code",
    ),
    Defect(
        (3, 2),
        (3, 3),
        "reductions of arrays that repeat elements along an axis give one number for all",
        "computed on a copy; graph_api refuses them",
    ),
    Defect(
        (3, 2),
        (3, 3),
        "DynamicQuantize and DynamicDequantize by channel are compiled, and cannot be executed",
        "own code",
    ),
    Defect(
        (3, 2),
        (3, 3),
        "several zero points of one tensor: the first is used for all channels",
        "own code",
    ),
    Defect(
        (3, 2),
        (3, 4),
        "LayerNorm normalises the last axis whatever begin_norm_axis says",
        "own code where it says another",
    ),
    Defect(
        (3, 3),
        None,
        "Interpolate and its gradient of one position write past the end",
        "own code; graph_api refuses them",
    ),
    Defect(
        (3, 3),
        None,
        "several kernels misread operands that do not lie row-major, or write past their end",
        "computed on copies; graph_api refuses them",
    ),
)


def known(version: Version) -> list[Defect]:
    """The defects of a version."""
    return [d for d in DEFECTS if version >= d.since and (d.until is None or version < d.until)]


def lacking(version: Version) -> list[str]:
    """The op kinds that a version does not have, or has no CPU kernel for when they stand alone."""
    found = []
    for kind, op in schema.OPS.items():
        if not op.own and (version < op.since or op.cpu_since is None or version < op.cpu_since):
            found.append(kind)
    return found
