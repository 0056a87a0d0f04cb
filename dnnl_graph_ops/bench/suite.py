"""The suites: layers of published models, one list an op, with their sizes' source; and the public lists of others."""

from __future__ import annotations

import json
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Final

from . import batchfile
from .cases import Wanted
from .problem import OPS, Problem

NAME: Final = "real_layers"
# lists of others, as batch files of benchdnn; the first line says where from
PUBLIC: Final = ("phoronix", "xnnpack", "ansor", "deepbench")
_FILES: Final = dict(zip(OPS, ("real_layers.json", "conv_layers.json"), strict=True))
# small layers of every family, of every class of ordinary convolutions: what `--quick` measures
QUICK: Final = (
    "HiFiGAN_v2/ups1",
    "EnCodec_24k/up_r8",
    "DCCRN/istft_400_100",
    "Denoiser_dns48/dec2",
    "CenterNet_ResDCN/up2",
    "SAM/output_upscaling.0",
    "LapSRN/embedding",
    "ERFNet/up2",
    "nnUNet_3d/up0",
    "CenterNet_DLA34/ida_up_f4_g64",
    "HRNetW32/branch1",
    "ECAPA_TDNN/res2_d3",
    "ENet/dilated16",
    "SlowFast/fast_res2",
    "ShuffleNetV2/pw_116_116",
    "DenseNet121/denseblock4.layer16.conv1",
    "MobileNetV1/dw512",
    "ShuffleNetV1_g3/stage3.gconv1",
    "DQN/conv1",
    "VoxNet/conv1",
)


@cache
def real_layers(op: str = OPS[0]) -> tuple[Problem, ...]:
    text = Path(__file__).with_name(_FILES[op]).read_text(encoding="utf-8")
    return tuple(Problem.from_dict({**record, "op": op}) for record in json.loads(text))


def quick_layers(op: str = OPS[0]) -> tuple[Problem, ...]:
    return tuple(problem for problem in real_layers(op) if problem.name in QUICK)


@cache
def by_name() -> dict[str, Problem]:
    """Every layer of every op."""
    return {problem.name: problem for op in OPS for problem in real_layers(op)}


@cache
def public(name: str) -> tuple[Wanted, ...]:
    """The problems of one of `PUBLIC`; their family is its name."""
    wanted = batchfile.read(Path(__file__).parent / "suites" / f"{name}.txt")
    return tuple(replace(each, problem=replace(each.problem, family=name)) for each in wanted)
