"""Reports of graphs that PyTorch captures: how many, for what, and why code was captured again."""

import logging

import pytest
import torch
from torch import nn

import dnnl_graph_ops as dgo
import dnnl_graph_ops.torch as dgt
from dnnl_graph_ops.words import counted


class Plain(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Conv1d(2, 3, 3)

    def forward(self, x):
        return self.layer(x)


class Broken(nn.Module):
    """A model of two graphs, the second of which has no parameters."""

    def __init__(self):
        super().__init__()
        self.layer = nn.Conv1d(2, 3, 3)

    def forward(self, x):
        y = self.layer(x)
        torch._dynamo.graph_break()
        return y.relu()


def compiled_of(model, **options):
    torch._dynamo.reset()
    return torch.compile(model, backend="dnnl_graph_ops", **options)


def test_a_compiled_model_lists_its_graphs():
    model, other = compiled_of(Plain()), torch.compile(nn.Conv1d(2, 3, 1), backend="dnnl_graph_ops")
    with pytest.raises(dgo.InvalidArgumentError, match=r"no graph of the model was captured.*call the model first"):
        dgt.report(model)
    model(torch.randn(1, 2, 8)).sum().backward()
    with torch.no_grad():
        other(torch.randn(1, 2, 8))
    report = dgt.report(model, torch.randn(1, 2, 8))
    ((name, state),) = report.captures.items()
    assert name.startswith("graph ") and state.startswith("captured for training in ")
    assert str(report) == f"{name}: {state}"
    assert report.to_dict()["captures"] == {name: state} and report.recompilations == {}
    ((_, state),) = dgt.report(other).captures.items()
    assert state.startswith("captured for inference in ")


def test_recompilations_have_reasons(caplog):
    model = compiled_of(Broken().eval(), dynamic=False)
    with torch.no_grad(), caplog.at_level(logging.INFO, "dnnl_graph_ops.torch.backend"):
        for size in (8, 9, 8):
            model(torch.randn(1, 2, size))
    report = dgt.report(model)
    assert len(report.captures) == 4 and sum("again" in state for state in report.captures.values()) == 2
    assert sum(report.recompilations.values()) == 2
    assert all("size mismatch at index 2" in reason for reason in report.recompilations)
    assert report.to_dict()["recompilations"] == report.recompilations
    reason, count = next(iter(report.recompilations.items()))
    assert f"captured again {counted(count, 'time')}: {reason}" in str(report).splitlines()
    assert sum("captured again for inference" in message for message in caplog.messages) == 2


def test_a_model_compiled_in_place():
    torch._dynamo.reset()
    model = Broken()
    model.compile(backend="dnnl_graph_ops")
    model(torch.randn(1, 2, 8))
    assert len(dgt.report(model).captures) == 2


def test_captures_of_optimized_models_are_counted():
    torch._dynamo.reset()
    model = dgt.optimize(nn.Sequential(nn.Conv1d(2, 3, 3), nn.ReLU(), nn.Conv1d(3, 2, 1)).eval())
    dgt.warm_up(model, torch.randn(1, 2, 64))
    assert dgt.report(model, torch.randn(1, 2, 64)).recompilations == {}
    dgt.warm_up(model, torch.randn(3, 2, 64))
    ((reason, count),) = dgt.report(model, torch.randn(3, 2, 64)).recompilations.items()
    assert count == 1 and "size mismatch at index 0" in reason


def test_a_backend_called_by_others_is_not_counted():
    from dnnl_graph_ops.torch.whole_model import captured

    before = len(captured._captured)
    with captured.noted(False):
        pass
    assert len(captured._captured) == before
