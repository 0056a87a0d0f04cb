"""The fuzzers: in their short form always, with --hard guided by coverage (atheris, extra `hard`) for minutes.

One case again: the command that a failure prints, in the folder tests.
"""

import os

import pytest
from children import check_faulty_cases

from .fuzz import GUIDED, TARGETS
from .fuzz.campaign import hunt

MUTATIONS = 40
SECONDS = 240


@pytest.fixture(params=TARGETS)
def target(request):
    if request.param == "onnx_model":
        pytest.importorskip("onnx")
    return request.param


def test_seeds_and_some_mutations(target, seed):
    """Every kept case once, then a few numbered ones."""
    check_faulty_cases(f"hard.fuzz {target}", seed, 0, len(TARGETS[target].seeds) + MUTATIONS, least=0)


@pytest.mark.parametrize("name", GUIDED)
def test_hunt(request, name, tmp_path, record_property):
    if not request.config.getoption("--hard"):
        pytest.skip("--hard is not given")
    pytest.importorskip("atheris")
    if name == "onnx_model":
        pytest.importorskip("onnx")
    outcome = hunt(name, float(os.environ.get("DNNL_GRAPH_OPS_HUNT_SECONDS", SECONDS)), tmp_path)
    print(outcome)
    record_property("hard", str(outcome))
    assert outcome.executions > 0
    assert not outcome.findings, "\n".join([str(outcome), *outcome.findings])
