"""The report that a user with a GPU pastes, on the engines that are here; and that it can fail."""

import numpy as np
import pytest

import dnnl_graph_ops as dgo
from dnnl_graph_ops import __main__ as command
from dnnl_graph_ops import functional, selftest

from .engines import ENGINES, open_engine


@pytest.mark.slow
@pytest.mark.parametrize("name", ENGINES)
def test_report(name, capsys):
    open_engine(name)
    arguments = [f"--{key}={value}" for key, value in ENGINES[name].items()]
    assert command.main(["selftest", "--engine", "cpu", *arguments]) == 0
    report = capsys.readouterr().out
    count = len(selftest.checks())
    assert f"{count} of {count} passed" in report and "FAILED" not in report
    for word in (
        "dnnl_graph_ops",
        "oneDNN",
        "k4 s2, backward weights, bf16",
        "k4 s2, convolution, f32",
        "submit",
        "50 rounds",
    ):
        assert word in report


def test_no_gpu(capsys):
    if any(engine.kind == "gpu" for engine in dgo.engines()):
        pytest.skip("there is a GPU")
    assert command.main(["selftest", "--engine", "gpu"]) == 1
    assert "error: " in capsys.readouterr().err


@pytest.mark.parametrize(
    ("name", "dtypes"), [("conv_transpose", selftest.DTYPES), ("convolution_backward_weights", ("f32",))]
)
def test_wrong_results_are_reported(name, dtypes, monkeypatch, capsys):
    right = getattr(functional, name)

    def wrong(*args, **kwargs):
        result = right(*args, **kwargs)
        result.reshape(-1)[7] += 1
        return result

    monkeypatch.setattr(functional, name, wrong)
    assert selftest.report(dgo.engine("cpu")) == 1
    report = capsys.readouterr().out
    layers = len(selftest.LAYERS) * len(dtypes)
    assert report.count("FAILED: AssertionError: 1 of") == layers
    assert f", {layers} FAILED" in report
    assert np.count_nonzero([line.startswith("bias gradient") and "exact" in line for line in report.splitlines()])
