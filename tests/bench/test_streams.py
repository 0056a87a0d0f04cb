"""Several clients of one model: numbers of streams, a run from start to end, its table."""

from __future__ import annotations

import itertools
import json
import threading
import time
from pathlib import Path

import pytest

from dnnl_graph_ops.bench import cli, streams
from dnnl_graph_ops.errors import Error, InvalidArgumentError

from .test_models import saved

pytest.importorskip("onnx")


def test_streams_share_the_threads() -> None:
    assert streams.numbers([1, 2, 4, 8, 1], 4) == [(1, 4), (2, 2), (4, 1), (8, 1)]


@pytest.mark.parametrize("counts", [[], [0], [-1], [257]])
def test_other_numbers_are_refused(counts: list[int]) -> None:
    with pytest.raises(InvalidArgumentError, match="--streams"):
        streams.numbers(counts, 2)


def test_clients_call_at_the_same_time() -> None:
    meeting = threading.Barrier(3)
    times, took = streams._turn(lambda: meeting.wait(60), 3, 0.0)
    assert len(times) == 3 and max(times) <= took


def test_a_row(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streams, "TURN", 0.001)
    (row,) = streams.measure({("one", 2, 1): lambda: None}, 0.002, "model")
    assert (row.model, row.peer, row.streams, row.threads) == ("model", "one", 2, 1)
    assert row.calls >= 4 and row.p50 <= row.p90 <= row.p99 and row.throughput > 0


def test_a_client_that_fails_fails_the_run() -> None:
    def fails() -> None:
        raise Error("as told")

    with pytest.raises(Error, match="as told"):
        streams.measure({("one", 2, 1): fails}, 0.01)


def test_turns_go_round(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streams, "TURN", 0.001)
    order: list[str] = []

    def call(name: str) -> streams.Call:
        return lambda: (time.sleep(0.002), order.append(name))

    streams.measure({(name, 1, 1): call(name) for name in "abc"}, 0.003)
    assert [name for name, _ in itertools.groupby(order)][:6] == [*"abc", *"abc"]


@pytest.mark.bench
def test_a_run(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streams, "TURN", 0.01)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    path, out = saved(tmp_path / "relu.onnx"), tmp_path / "rows.json"
    assert cli.main(["--model", str(path), "--streams", "1,2", "--threads", "2", "--quick", "--json", str(out)]) == 0
    rows = json.loads(out.read_text())["rows"]
    assert {(row["streams"], row["threads"]) for row in rows} == {(1, 2), (2, 1)}
    assert all(row["calls"] and row["model"] == "relu" for row in rows)
    assert "calls/s" in capsys.readouterr().out


@pytest.mark.bench
def test_sizes_that_the_calls_take_in_turns(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(streams, "TURN", 0.01)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    path, out = saved(tmp_path / "relu.onnx", sizes=("n", 3)), tmp_path / "rows.json"
    words = ["--model", str(path), "--sizes", "3:9x4", "--streams", "2", "--quick", "--json", str(out)]
    assert cli.main(words) == 0
    assert all(row["calls"] and row["streams"] == 2 for row in json.loads(out.read_text())["rows"])


def test_calls_take_the_next_inputs() -> None:
    call = streams._in_turns(lambda inputs: inputs, [[1], [2]])  # type: ignore[list-item]
    assert [call() for _ in range(3)] == [[1], [2], [1]]


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["--streams", "2", "--quick"], "--streams is for --model"),
        (["--model", "FILE", "--streams", "2", "--csv", "x.csv"], "not by --csv"),
        (["--model", "FILE", "--streams", "300"], "--streams 300"),
    ],
)
def test_what_streams_do_not_have(
    words: list[str], told: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    path = str(saved(tmp_path / "relu.onnx"))
    assert cli.main([path if word == "FILE" else word for word in words]) == 2
    assert told in capsys.readouterr().err
