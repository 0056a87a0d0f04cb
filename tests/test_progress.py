"""Progress of long work: what a function is told, and the bar on a terminal."""

import io
import pickle
import sys
import types

import numpy as np
import pytest

import dnnl_graph_ops as dgo
from dnnl_graph_ops import progress
from dnnl_graph_ops.bench import runner, times
from dnnl_graph_ops.bench.options import Options
from dnnl_graph_ops.compile import tune
from dnnl_graph_ops.quantize import calibrate


class Terminal(io.StringIO):
    def isatty(self):
        return True


def convolution(graph, name="x"):
    return dgo.ops.convolution(graph.input(name, (1, 6, 6, 4)), graph.constant(np.ones((3, 3, 4, 8), np.float32)))


def told(calls):
    """The steps in order, of one total."""
    assert calls and len({total for _, total, _ in calls}) == 1
    return [done for done, _, _ in calls]


def test_calibrate_tells_of_ranges_and_errors():
    graph, calls = dgo.Graph(), []
    net = graph.compile(convolution(graph))
    samples = [np.ones((1, 6, 6, 4), np.float32)] * 3
    calibrate(net, samples, progress=lambda *call: calls.append(call))
    assert told(calls) == [1, 2, 3, 4, 5, 6]
    assert [text for *_, text in calls] == ["ranges"] * 3 + ["errors"] * 3


def test_measuring_tells_of_each_op(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(tune, "BUDGET", 0.05)
    graph, calls = dgo.Graph(), []
    outputs = [convolution(graph, "x"), convolution(graph, "y")]
    graph.compile(outputs, tune="measure", progress=lambda *call: calls.append(call))
    assert told(calls) == [1, 2]
    assert all("1x4x4x8" in text or "1x8x4x4" in text for *_, text in calls)


@pytest.mark.parametrize("copied", [False, True])
def test_measuring_at_a_call_tells_of_each_op(copied, monkeypatch, tmp_path):
    """With unknown dims ops are measured at the first call with a size; a pickle keeps no function."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(tune, "BUDGET", 0.05)
    graph, calls = dgo.Graph(), []
    x = graph.input("x", (1, None, None, 4))
    y = dgo.ops.convolution(x, graph.constant(np.ones((3, 3, 4, 8), np.float32)))
    net = graph.compile(y, tune="measure", progress=lambda *call: calls.append(call))
    net = pickle.loads(pickle.dumps(net)) if copied else net
    assert not calls
    for size in (6, 7, 6):
        net(np.ones((1, size, size, 4), np.float32))
    assert [call[:2] for call in calls] == ([] if copied else [(1, 1), (1, 1)])
    assert ["4x4" in text or "5x5" in text for *_, text in calls] == [True] * len(calls)


def test_fit_tells_of_each_layer(monkeypatch):
    monkeypatch.setattr(times, "measure", lambda problem, env: {})
    env, head = times.here("f32", 0.3)
    asked, calls = list(times.questions("0/40", "NXC")), []
    times.record(times.Recorded(head, []), asked, env, None, lambda *call: calls.append(call))
    assert told(calls) == list(range(len(asked)))


def test_optimize_tells_of_each_layer():
    torch = pytest.importorskip("torch")
    import dnnl_graph_ops.torch as dgt

    model, calls = torch.nn.Sequential(torch.nn.Conv1d(2, 2, 3), torch.nn.ReLU(), torch.nn.Conv1d(2, 2, 3)), []
    dgt.optimize(model, example_inputs=torch.ones(1, 2, 9), progress=lambda *call: calls.append(call))
    assert told(calls) == [0, 1, 2]
    assert [text for *_, text in calls] == ["0", "2", ""]


def test_a_terminal_shows_a_bar(monkeypatch):
    stream = Terminal()
    monkeypatch.setattr(sys, "stderr", stream)
    monkeypatch.setitem(sys.modules, "tqdm", None)
    monkeypatch.delitem(sys.modules, "tqdm.auto", raising=False)
    with progress.shown() as tell:
        for done in range(1, 4):
            tell(done, 3, "a layer")
    assert f"[{'#' * 8}{'.' * 16}] 1/3  a layer" in stream.getvalue() and f"[{'#' * 24}] 3/3" in stream.getvalue()
    # nothing is left of it
    assert stream.getvalue().endswith("\r\x1b[K")


BARS = []


class Tqdm:
    """As much of tqdm as is used."""

    def __init__(self, total, file, leave):
        assert file is sys.stderr and not leave
        self.total, self.n, self.closed = total, 0, False
        BARS.append(self)

    def set_description(self, text, refresh):
        self.text = text

    def update(self, more):
        self.n += more

    def close(self):
        self.closed = True


def test_a_notebook_has_no_bar_without_tqdm(monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "ipykernel", types.ModuleType("ipykernel"))
    monkeypatch.setitem(sys.modules, "tqdm", None)
    monkeypatch.delitem(sys.modules, "tqdm.auto", raising=False)
    with progress.shown() as tell:
        tell(1, 2, "a layer")
    assert capsys.readouterr() == ("", "")


@pytest.mark.parametrize("notebook", [False, True])
def test_the_bar_is_of_tqdm_where_that_is_installed(notebook, monkeypatch):
    BARS.clear()
    if notebook:
        monkeypatch.setitem(sys.modules, "ipykernel", types.ModuleType("ipykernel"))
    else:
        monkeypatch.setattr(sys, "stderr", Terminal())
    monkeypatch.setitem(sys.modules, "tqdm", types.ModuleType("tqdm"))
    monkeypatch.setitem(sys.modules, "tqdm.auto", types.SimpleNamespace(tqdm=Tqdm))
    with progress.shown() as tell:
        assert not BARS
        for done in (1, 3):
            tell(done, 3, "a layer")
    (bar,) = BARS
    assert (bar.total, bar.n, bar.text, bar.closed) == (3, 3, "a layer", True)


def test_without_a_terminal_nobody_is_told(capsys):
    with progress.shown() as tell:
        tell(1, 2, "a layer")
    assert capsys.readouterr() == ("", "")


def test_a_function_takes_the_place_of_the_bar(monkeypatch):
    monkeypatch.setattr(sys, "stderr", terminal := Terminal())
    calls = []
    with progress.telling(lambda *call: calls.append(call)), progress.shown() as tell:
        tell(1, 2, "a layer")
    assert calls == [(1, 2, "a layer")] and not terminal.getvalue()


def test_no_function_leaves_the_one_of_before(monkeypatch):
    calls = []
    with progress.telling(lambda *call: calls.append(call)), progress.telling(None), progress.shown() as tell:
        tell(1, 2, "a layer")
    assert calls == [(1, 2, "a layer")] and progress.listener() is None


@pytest.mark.parametrize("where", ["Graph.compile", "calibrate"])
def test_what_is_no_function_is_refused(where):
    graph = dgo.Graph()
    value = convolution(graph)
    with pytest.raises(TypeError, match=f"{where}: 'progress' is a function of done, total and a text, .* got bool"):
        graph.compile(value, progress=True) if where == "Graph.compile" else calibrate(graph, [], value, progress=True)


def test_what_a_run_of_the_harness_takes():
    options = Options(case_seconds=20.0)
    assert runner.expected_seconds(3, options) == pytest.approx(3 * 22)
    assert runner.expected_seconds(300, Options(case_seconds=20.0, budget=140.0)) == 140
