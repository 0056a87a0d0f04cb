"""What runs inside the zoo's models beside the work itself: copies, reference kernels, steps in NumPy.

The numbers are those of today on one thread by the constants of AVX-512. None may grow; all are to become zero.
"""

from __future__ import annotations

import re
from typing import Any, NamedTuple

import pytest

import dnnl_graph_ops as dgo
from dnnl_graph_ops.program.program import HostStep, Place

pytest.importorskip("torch")
pytest.importorskip("onnx")

from dnnl_graph_ops.bench.zoo import export

_COPY = re.compile(r"channels (last|first)|\bcop(y|ies)\b|Reshape|Transpose$|Concat|in another order|after zeros")
_ENDS = (Place.INPUT, Place.OUTPUT)


class Counts(NamedTuple):
    """Of one net's steps.

    Attributes:
        copies: steps that move numbers from scratch memory to scratch memory, and the library's reorders in its own.
        references: steps left to the library's reference kernels.
        hosts: steps in NumPy.
    """

    copies: int
    references: int
    hosts: int


def counts(net: Any) -> Counts:
    """Of the plan made last."""
    parts, reports = net._latest().plan.parts, net.explain().steps
    copies = references = hosts = 0
    for part, report in zip(parts, reports, strict=True):
        hosts += isinstance(part, HostStep)
        references += report.reference
        copies += _copies(part, report)
    return Counts(copies, references, hosts)


def _copies(part: Any, report: Any) -> int:
    """A copy from an input or to an output is what the caller's layout costs."""
    if any(view.buffer.place in _ENDS for view in (*part.reads, *part.writes)):
        return 0
    return max(int(bool(_COPY.search(report.step))), report.reorders)


PRESENT = {
    "dcgan": Counts(0, 0, 0),
    "dcgan_b16": Counts(0, 0, 0),
    "pix2pix_in": Counts(0, 0, 0),
    "pix2pix_bn": Counts(0, 0, 0),
    "cyclegan": Counts(0, 0, 0),
    "unet": Counts(0, 0, 0),
    # phases and GEMM tie in one layer: 1129 and 1165 us by estimate; the library reorders in each phase
    "unet_wide": Counts(4, 0, 0),
    "nnunet_decoder": Counts(0, 0, 0),
    "erfnet": Counts(0, 0, 0),
    "deeplab": Counts(7, 0, 0),
    "hifigan": Counts(3, 0, 0),
    "hifigan_v2": Counts(6, 0, 0),
    "encodec_decoder": Counts(1, 0, 0),
    "wavenet": Counts(0, 0, 0),
    "fsrcnn": Counts(0, 0, 0),
    "resnet18": Counts(2, 0, 0),
    "mobilenet": Counts(0, 0, 0),
    "centernet_head": Counts(0, 0, 0),
    "convnext": Counts(0, 0, 0),
    "edsr": Counts(2, 0, 0),
    "vae_decoder": Counts(3, 0, 0),
    "convtranspose1d": Counts(0, 0, 0),
}


@pytest.mark.bench
@pytest.mark.constants("avx512_bf16")
@pytest.mark.parametrize("name", PRESENT)
def test_nothing_runs_beside_the_work_that_did_not(name: str, one_thread: None) -> None:
    net = dgo.from_onnx(str(export.path(name))).compile()
    explanation = net.explain()
    found = counts(net)
    grown = [field for field, now, before in zip(Counts._fields, found, PRESENT[name], strict=True) if now > before]
    assert not grown, f"{name}: {found}, was {PRESENT[name]}\n{explanation}"
