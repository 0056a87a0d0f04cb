"""PyTorch's own tests with our backend (suites.py), and the table of those that fail with it alone."""

import os
from pathlib import Path

import pytest

from . import suites
from .suites_known import KNOWN

# a checkout of PyTorch; its tests are skipped without it
VARIABLE = "PYTORCH_CHECKOUT"
FILES = [
    f"test/{folder}/test_{name}.py"
    for folder, names in {
        "inductor": ("torchinductor", "torchinductor_dynamic_shapes", "unbacked_symints", "mkldnn_pattern_matcher"),
        "dynamo": ("repros", "modules", "subgraphs", "functions", "unspec", "hooks", "misc"),
        "export": ("export",),
    }.items()
    for name in names
]
TESTS = """
import sys
from unittest import mock

import torch
import dnnl_graph_ops as dgo

def relu_of(x):
    return torch.relu(x) + 1

class Module(torch.nn.Module):
    def __init__(self, number):
        super().__init__()
        self.number = number

    def forward(self, x):
        return x + self.number, [x.sum(), 2]

def exported(number):
    return torch.export.export(Module(number), (torch.arange(-4.0, 4),))

class Test:
    def test_right(self):
        x = torch.arange(-4.0, 4)
        for backend in ("inductor", "eager"):
            torch._dynamo.reset()
            with torch.no_grad():
                assert torch.equal(torch.compile(relu_of, backend=backend)(x), relu_of(x))

    def test_wrong_with_both(self):
        assert torch.compile(relu_of)(torch.zeros(8)).sum() == 0

    def test_wrong_with_ours(self):
        assert "dnnl_graph_ops.torch.whole_model.backend" not in sys.modules

    def test_export(self):
        exported(1)

    def test_wrong_net_of_export(self):
        graph = dgo.from_torch(exported(1))
        with mock.patch.object(dgo, "from_torch", lambda _: graph):
            exported(2)
"""


@pytest.mark.child
@pytest.mark.timeout(300)
def test_failures_that_aot_eager_does_not_have(tmp_path):
    file = tmp_path / "test_of_theirs.py"
    file.write_text(TESTS)
    results, alone = suites.ours_alone([str(file)])
    named = {suites.name_of(test): result for test, result in results.items()}
    assert {name: result["outcome"] for name, result in named.items()} == {
        "Test::test_right": "passed",
        "Test::test_wrong_with_both": "failed",
        "Test::test_wrong_with_ours": "failed",
        "Test::test_export": "passed",
        "Test::test_wrong_net_of_export": "failed",
    }
    # once for inductor, once for eager
    assert named["Test::test_right"]["nets"] == 2
    assert named["Test::test_export"]["nets"] == 1
    assert [*map(suites.name_of, alone)] == ["Test::test_wrong_with_ours", "Test::test_wrong_net_of_export"]
    causes = [*suites.by_cause(alone)]
    assert causes[0].startswith("AssertionError: assert")
    assert causes[1] == "AssertionError: Tensor-likes are not close!"


@pytest.mark.slow
@pytest.mark.timeout(7200)
@pytest.mark.parametrize("file", FILES)
def test_known_failures_of_pytorchs_tests(file):
    path = Path(os.environ.get(VARIABLE, "/nonexistent"), file)
    if not path.exists():
        pytest.skip(f"needs a checkout of PyTorch, named by {VARIABLE}")
    results, alone = suites.ours_alone([str(path)], "-n", "2")
    assert results
    named = {suites.name_of(test): cause for test, cause in alone.items()}
    assert {test: cause for test, cause in named.items() if test not in KNOWN} == {}


def test_known_failures_have_reasons():
    assert all("::" in test and len(reason) > 10 for test, reason in KNOWN.items())
