"""When a layer is tried by both engines: only as calls allow, only in directions in use, and what stands until then."""

import pytest
import torch
from torch import nn

import dnnl_graph_ops as dgo
import dnnl_graph_ops.torch as dgt
from dnnl_graph_ops.torch.choice import budget, verdicts
from dnnl_graph_ops.torch.choice.verdicts import ESTIMATED, MEASURED, NEAR, Case, Verdict
from dnnl_graph_ops.torch.layers import modules
from dnnl_graph_ops.torch.layers.compute import calls
from dnnl_graph_ops.torch.layers.conv_params import BACKWARD_DATA, BACKWARD_WEIGHTS, FORWARD

KIND = "a kind of layer"


@pytest.fixture(autouse=True)
def unmeasured(monkeypatch):
    """Nothing is known and no time was spent."""
    calls.clear()
    monkeypatch.setattr(verdicts, "_measured", {})
    monkeypatch.setattr(verdicts, "_least", {})
    monkeypatch.setattr(verdicts, "budget", budget.Budget())
    yield
    calls.clear()


class Clock:
    """A clock that runs of both engines advance."""

    def __init__(self, monkeypatch):
        self.now, self.runs = 0.0, {"ours": 0, "theirs": 0}
        for name in ("perf_counter", "process_time"):
            monkeypatch.setattr(verdicts.time, name, lambda: self.now)

    def run(self, name, seconds):
        def run():
            self.runs[name] += 1
            self.now += seconds
            return name

        return run


@pytest.fixture
def clock(monkeypatch):
    return Clock(monkeypatch)


def call(case, ours, theirs):
    """As a layer does; the verdict and who computed."""
    found = verdicts.verdict(case, ours, theirs)
    return found, verdicts.run(case, found, ours, theirs)


def test_trials_take_a_tenth_of_the_calls_at_most(clock):
    case, both = Case(KIND, (1, 64)), (clock.run("ours", 2e-3), clock.run("theirs", 1e-3))
    for number in range(1000):  # noqa: B007
        found, who = call(case, *both)
        assert verdicts.budget.trials <= 0.1 * verdicts.budget.calls + 1e-9
        if found.why == MEASURED:
            break
        assert (found.why, who) == (ESTIMATED, "ours")
    # four runs of each are as long as six calls
    assert 59 <= number <= 81 and found == Verdict(False, pytest.approx(2e-3), pytest.approx(1e-3))
    assert call(case, *both)[1] == "theirs"


def test_a_clear_difference_needs_few_runs(clock):
    with verdicts.measuring():
        assert verdicts.verdict(Case(KIND, (64,)), clock.run("ours", 1e-4), clock.run("theirs", 2e-4)).ours
    assert clock.runs == {"ours": 4, "theirs": 4}
    with verdicts.measuring():
        assert verdicts.verdict(Case(KIND, (32,)), clock.run("ours", 1e-4), clock.run("theirs", 1.1e-4)).ours
    assert clock.runs["ours"] == 20


@pytest.mark.parametrize(("seconds", "why"), [(2e-3, NEAR), (1.1e-3, ESTIMATED)])
def test_sizes_within_a_factor_of_two_have_the_same_clear_verdict(clock, seconds, why):
    both = clock.run("ours", seconds), clock.run("theirs", 1e-3)
    with verdicts.measuring():
        verdicts.verdict(Case(KIND, (1, 64)), *both)
    for extents, wanted in (
        ((1, 128), why),
        ((1, 32), why),
        ((2, 64), why),
        ((1, 160), ESTIMATED),
        ((3, 64), ESTIMATED),
    ):
        found = verdicts.verdict(Case(KIND, extents), *both)
        assert not found.ours and found.why == wanted, extents
    # a report measures each at its own size
    with verdicts.measuring():
        assert verdicts.verdict(Case(KIND, (1, 128)), *both).why == MEASURED


def test_verdicts_are_bounded(clock, monkeypatch):
    monkeypatch.setattr(verdicts, "_MOST", 8)
    both = clock.run("ours", 1e-3), clock.run("theirs", 1e-3)
    for number in range(20):
        with verdicts.measuring():
            verdicts.verdict(Case(number, (1,)), *both)
            verdicts.verdict(Case(KIND, (number,)), *both)
        verdicts.expect(Case(KIND, (number,)), 1.0)
    assert max(len(verdicts._measured), len(verdicts._least), *map(len, verdicts._measured.values())) <= 8


def test_an_estimate_that_fails_leaves_the_call_to_pytorch():
    def refuses():
        raise dgo.UnsupportedError("not on this CPU")

    case = Case(KIND, (64,))
    found, who = call(case, refuses, lambda: "theirs")
    assert found.why == ESTIMATED and who == "theirs"
    assert verdicts.verdict(case, refuses, refuses) == Verdict(False, why="not on this CPU")
    # measured ones that fail later are errors
    with pytest.raises(dgo.UnsupportedError):
        verdicts.run(case, Verdict(True, 1.0, 2.0), refuses, refuses)


@pytest.mark.parametrize("modes", [(False, True), (True, False)])
@pytest.mark.parametrize("training", [False, True])
def test_a_mode_that_changes_changes_who_computes(monkeypatch, request, training, modes):
    monkeypatch.setattr(verdicts, "tried", lambda ours, theirs: Verdict(False, 2.0, 1.0))
    layer, x = dgt.optimize(nn.Conv2d(4, 4, 3)).train(training), torch.randn(1, 4, 16, 16, requires_grad=training)
    request.addfinalizer(lambda: torch.use_deterministic_algorithms(False))
    for deterministic in modes:
        known = set(calls)
        torch.use_deterministic_algorithms(deterministic)
        with torch.set_grad_enabled(training), verdicts.measuring():
            for _ in range(3):
                layer(x).square().sum().backward() if training else layer(x)
        assert [calls[key].verdict.ours for key in set(calls) - known] == (1 + 2 * training) * [deterministic]


def directions():
    return {kind[0] for kind, known in verdicts._measured.items() if known}


def test_only_directions_in_use_are_tried(monkeypatch):
    monkeypatch.setattr(verdicts.budget, "allows", lambda seconds: True)
    layer, x = dgt.optimize(nn.Conv2d(4, 4, 3)), torch.randn(1, 4, 16, 16, requires_grad=True)
    for _ in range(5):
        layer.eval()(x)  # gradients are recorded, and never asked for
    assert directions() == {FORWARD}
    for _ in range(5):
        layer.train()(x).square().sum().backward()
    assert {FORWARD, BACKWARD_DATA, BACKWARD_WEIGHTS} <= directions()


def test_a_call_costs_no_trial_until_there_is_time_for_one():
    layer, x = dgt.optimize(nn.Conv2d(4, 4, 3)).eval(), torch.randn(1, 4, 16, 16)
    with torch.inference_mode():
        wanted = layer(x)
        assert not directions()
        verdicts.budget.calls = 1e3
        assert torch.allclose(layer(x), wanted, atol=1e-5)
        assert FORWARD in directions()
        layer(x)
    assert modules.state_of(layer).routes


@pytest.mark.parametrize("how", ["example_inputs", "report"])
def test_who_asks_to_measure_waits_for_it(how):
    x = torch.randn(1, 4, 16, 16)
    layer = dgt.optimize(nn.Conv2d(4, 4, 3), example_inputs=x if how == "example_inputs" else None)
    if how == "report":
        assert {row.why for row in dgt.report(layer, x)} == {MEASURED}
    assert FORWARD in directions()
