"""The fuzzers: in their short form always, with --hard guided by coverage (atheris, extra `hard`) for minutes.

One case again: the command that a failure prints, in the folder tests.
"""

import os

import pytest
from children import check_faulty_cases

from .fuzz import GUIDED, TARGETS
from .fuzz.campaign import hunt

MUTATIONS = 40
# of each hunt; all of them together take three minutes for each target
SECONDS = float(os.environ.get("DNNL_GRAPH_OPS_HUNT_SECONDS", 180))


def needs(target: str) -> None:
    if target == "onnx_model":
        pytest.importorskip("onnx")


@pytest.mark.short
@pytest.mark.parametrize("target", TARGETS)
def test_seeds_and_some_mutations(target, seed, figures):
    """Every kept case once, then a few numbered ones."""
    needs(target)
    cases = len(TARGETS[target].seeds) + MUTATIONS
    refused, _ = check_faulty_cases(f"hard.fuzz {target}", seed, 0, cases, least=0)
    figures(cases=cases, refused=refused)


@pytest.mark.timeout(3600)
@pytest.mark.parametrize("target", GUIDED)
def test_hunt(target, tmp_path, figures):
    needs(target)
    pytest.importorskip("atheris")
    outcome = hunt(target, SECONDS, tmp_path)
    figures(
        executions=outcome.executions,
        minutes=round(outcome.seconds / 60, 1),
        processes=outcome.starts,
        findings=len(outcome.findings),
    )
    assert outcome.executions > 0
    assert not outcome.findings, "\n".join([str(outcome), *outcome.findings])
