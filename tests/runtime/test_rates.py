"""Rates of the CPU: where a record is from, that a wrong one is refused or not kept, and that processes share one."""

import json
import os
import warnings
from concurrent.futures import ThreadPoolExecutor

import pytest
from children import child

import dnnl_graph_ops as dgo
from dnnl_graph_ops.compile import measure_rates
from dnnl_graph_ops.runtime import cpu, rates

RATES = {"builtin f32": 100.0, "convolution f32": 90.0, "MatMul f32": 80.0}


@pytest.fixture(autouse=True)
def empty(monkeypatch, tmp_path):
    """An empty cache directory, a CPU of which the package has no record, and a measurement that counts its calls."""
    calls = []
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.delenv(rates.VARIABLE, raising=False)
    monkeypatch.setattr(rates, "cpu_model", lambda: "a CPU that nobody has")
    monkeypatch.setattr(rates, "_measure", lambda engine: calls.append(engine) or (dict(RATES), True))
    rates.forget()
    yield calls
    rates.forget()


@pytest.fixture
def here():
    return rates.Machine(rates.cpu_model(), rates.cpu_family(), cpu.isa(dgo.engine("cpu")), dgo.runtimes()[0].version)


def test_a_cpu_without_a_record_is_measured_once(empty, here):
    record = rates.of(dgo.engine("cpu"))
    assert record.rates == RATES and record.machine == here
    assert record.source == str(rates.user_file(here))
    rates.forget()
    again = rates.of(dgo.engine("cpu"))
    assert again.rates == RATES and len(empty) == 1


def test_the_first_record_written_counts(empty, here, monkeypatch):
    """Another process writes its record while this one measures."""

    def measure(engine):
        path = rates.user_file(here)
        path.parent.mkdir(parents=True)
        path.write_text(json.dumps({**here._asdict(), "date": "2026-01-01", "rates": {"builtin f32": 1.0}}))
        return dict(RATES), True

    monkeypatch.setattr(rates, "_measure", measure)
    assert rates.of(dgo.engine("cpu")).rates == RATES  # measured before that file was there to be read
    rates.forget()
    assert rates.of(dgo.engine("cpu")).rates == {"builtin f32": 1.0}


def test_what_is_measured_while_others_compute_is_used_and_not_kept(here, monkeypatch):
    monkeypatch.setattr(rates, "_measure", lambda engine: (dict(RATES), False))
    record = rates.of(dgo.engine("cpu"))
    assert record.rates == RATES and record.source == rates.MEASURED
    assert not rates.user_file(here).exists()


def test_without_a_writable_cache_each_process_measures_once(empty, monkeypatch, tmp_path):
    file = tmp_path / "file"
    file.write_text("no folder")
    monkeypatch.setenv("XDG_CACHE_HOME", str(file))
    for _ in range(2):
        assert rates.of(dgo.engine("cpu")).source == rates.MEASURED
    assert len(empty) == 1


@pytest.mark.parametrize(
    "content",
    [
        "",
        "[]",
        "{}",
        '{"rates": {}}',
        '{"rates": {"builtin f32": 0}}',
        '{"rates": {"builtin f32": NaN}}',
        '{"rates": {"builtin f32": 1}}',
        "[" * 9999,
    ],
)
def test_a_damaged_record_is_ignored_and_named(empty, here, content):
    path = rates.user_file(here)
    path.parent.mkdir(parents=True)
    path.write_text(content)
    with pytest.warns(RuntimeWarning, match="rates in .* are damaged"):
        assert rates.of(dgo.engine("cpu")).rates == RATES
    assert len(empty) == 1


def test_a_file_that_the_variable_names(empty, monkeypatch, tmp_path, here):
    path = tmp_path / "rates.json"
    path.write_text(json.dumps({**here._asdict(), "isa": "another", "date": "", "rates": {"builtin f32": 7}}))
    monkeypatch.setenv(rates.VARIABLE, str(path))
    record = rates.of(dgo.engine("cpu"))
    assert record.rates == {"builtin f32": 7.0} and record.source == str(path) and not empty


@pytest.mark.parametrize("name", ["missing.json", "."])
def test_a_file_without_rates_is_refused(name, monkeypatch, tmp_path):
    monkeypatch.setenv(rates.VARIABLE, str(tmp_path / name))
    with pytest.raises(dgo.InvalidArgumentError, match=f"{rates.VARIABLE}: .* has no rates of a CPU .*'off'"):
        rates.of(dgo.engine("cpu"))
    assert f"{rates.VARIABLE}" in str(dgo.info()["rates"]["error"])


def test_off(empty, monkeypatch):
    monkeypatch.setenv(rates.VARIABLE, "OFF")
    assert rates.of(dgo.engine("cpu")) is None and not empty
    assert dgo.info()["rates"]["source"].startswith("none")


def test_threads_measure_once_and_agree(empty):
    with ThreadPoolExecutor(8) as pool:
        records = list(pool.map(lambda _: rates.of(dgo.engine("cpu")), range(8)))
    assert len(set(map(id, records))) == 1 and len(empty) == 1


def test_what_is_asked_while_measuring_has_no_rates(monkeypatch):
    inside = []
    monkeypatch.setattr(rates, "_measure", lambda engine: inside.append(rates.of(engine)) or (dict(RATES), True))
    assert rates.of(dgo.engine("cpu")).rates == RATES and inside == [None]


def test_a_library_that_computes_nothing_leaves_estimates_as_they_are(monkeypatch):
    def refuse(engine):
        raise dgo.UnsupportedError("no kernels")

    monkeypatch.setattr(rates, "_measure", refuse)
    assert rates.of(dgo.engine("cpu")) is None


def test_a_forked_child_can_ask():
    """The lock is free in the child, though another thread of the parent holds it."""
    with rates._lock, ThreadPoolExecutor(1) as pool:
        child = pool.submit(_fork_and_ask).result()
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def _fork_and_ask() -> int:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of a fork of a process with threads
        child = os.fork()
    if child == 0:
        os._exit(0 if rates._lock.acquire(blocking=False) else 1)
    return child


# ---- measuring -------------------------------------------------------------------------------------------------------


def test_every_unit_of_this_cpu_is_measured(monkeypatch):
    measured, _ = measure_rates.measure(dgo.engine("cpu"))
    assert {"builtin f32", "convolution f32", "MatMul f32"} <= measured.keys() <= measure_rates.UNITS.keys()
    assert all(0 < rate < 1e5 for rate in measured.values())
    for dtype in ("bf16", "f16"):
        native = cpu.computes_natively(dtype, dgo.engine("cpu"), ["Convolution"])
        assert (f"convolution {dtype}" in measured) == native


def test_the_turns_of_a_busy_machine_disagree(monkeypatch):
    """A clock by which each turn takes twice as long as the one before."""
    ticks = iter(2.0**i for i in range(1000))
    monkeypatch.setattr(measure_rates.time, "thread_time", lambda: next(ticks))
    _, sure = measure_rates.measure(dgo.engine("cpu"))
    assert not sure


@pytest.mark.child
def test_the_first_compile_measures_and_later_processes_read(tmp_path):
    """By the real measurement, of a CPU that the package has no record of."""
    code = """
import numpy as np
import dnnl_graph_ops as dgo
from dnnl_graph_ops.runtime import rates
from dnnl_graph_ops.compile import measure_rates
rates.cpu_model = lambda: "a CPU that nobody has"
calls = []
rates.measure_by(lambda engine: calls.append(1) or (measure_rates.measure(engine)[0], True))
dgo.convolution(np.ones((1, 8, 8, 8), "f"), np.ones((3, 3, 8, 8), "f"))
print(len(calls), dgo.info()["rates"]["source"])
"""
    variables = {"XDG_CACHE_HOME": str(tmp_path), rates.VARIABLE: ""}
    first, second = (child("-c", code, **variables).stdout.split() for _ in range(2))
    assert (first[0], second[0]) == ("1", "0") and first[1] == second[1]
