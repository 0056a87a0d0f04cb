"""Whole runs: worker processes, failures as rows, kill and resume, shards, the command line."""

from __future__ import annotations

import os
import re
import signal
import threading
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from children import child

from dnnl_graph_ops.bench import Options, cli, data, lineup, pool, reference, runner
from dnnl_graph_ops.bench.cases import Entrant, Wanted
from dnnl_graph_ops.bench.document import Document, merge
from dnnl_graph_ops.bench.peers import registry
from dnnl_graph_ops.bench.peers.task import Task
from dnnl_graph_ops.bench.problem import OPS
from dnnl_graph_ops.errors import Error, InvalidArgumentError, UnsupportedError
from dnnl_graph_ops.progress import Progress

from . import synthetic
from .conftest import FAKE, OWN
from .thread_worker import ThreadWorker

FAST = Options(
    peers=("fake",),
    layouts=("NCX",),
    interval=0.5,
    min_rounds=2,
    max_rounds=2,
    burst=0.002,
    threads=1,
    case_seconds=5,
)


def task(name: str) -> dict:
    problem = replace(synthetic.problem(), name=name)
    return Task(problem, "fwd", "f32", "NCX", "constant", 1).as_dict()


@pytest.mark.slow
def test_a_worker_from_start_to_end(tmp_path):
    with pool.WorkerProcess(FAKE, 1, pool.cpu_list(1)) as worker:
        assert worker.ask("hello")["versions"] == {"fake": "1.0"}
        with pytest.raises(Error, match="holds no problem"):
            worker.ask("burst", seconds=0.01)
        assert worker.ask("prepare", task=task("x"))["detail"] == "fake"
        problem = replace(synthetic.problem(), name="x")
        np.save(tmp_path / "e.npy", reference.compute(problem, "fwd", data.operands(problem, "fwd")))
        assert worker.ask("check", expected=str(tmp_path / "e.npy"))["error"] == 0
        answer = worker.ask("burst", seconds=0.01, native=True)
        assert len(answer["times"]) >= 1
        assert worker.ask("burst", seconds=0.001)["times"]
        worker.settle()
        with pytest.raises(UnsupportedError, match="not this one"):
            worker.ask("prepare", task=task("unsupported"))
        with pytest.raises(Error, match="it broke"):
            worker.ask("prepare", task=task("broken"))
        with pytest.raises(pool.WorkerLost, match="exit code 7"):
            worker.ask("prepare", task=task("dies"))
        with pytest.raises(pool.WorkerLost):
            worker.ask("release")


def test_a_worker_is_pinned_waits_without_running_and_knows_no_native_library():
    with pool.WorkerProcess(FAKE, 1, pool.cpu_list(1)) as worker:
        worker.ask("hello")
        assert os.sched_getaffinity(worker.pid) == set(pool.cpu_list(1))
        maps = Path(f"/proc/{worker.pid}/maps").read_text()
        assert "libdnnl" not in maps
        assert "_core." not in maps
        worker.settle()
        # one that other processes keep from the CPU still has to come to rest
        asleep = 0
        for _ in range(2000):
            states = [
                file.read_text().rpartition(")")[2].split()[0]
                for file in Path(f"/proc/{worker.pid}/task").glob("*/stat")
            ]
            asleep = asleep + 1 if set(states) == {"S"} else 0
            if asleep == 20:
                break
            time.sleep(0.002)
        assert asleep == 20, "a thread that waits for work runs"


@pytest.mark.child
def test_every_competitor_has_a_process_of_its_own():
    one, other = (Entrant(OWN, layout, {}, f"dgo {layout}") for layout in OWN.layouts)
    with lineup.Lineup(FAST, 1, pool.cpu_list(1)) as competitors:
        workers = competitors.workers([one, other, Entrant(FAKE, "NCX", {}, "fake NCX")])
        pids = {label: worker.pid for label, worker in workers.items()}
        assert len({*pids.values(), os.getpid()}) == 4
        # the same ones for the next problem
        assert {label: worker.pid for label, worker in competitors.workers([one, other]).items()}.items() < pids.items()


def test_a_worker_that_does_not_answer_is_ended():
    with pool.WorkerProcess(FAKE, 1, pool.cpu_list(1)) as worker:
        with pytest.raises(pool.WorkerLost, match="did not answer anything within 0 s"):
            worker.receive(timeout=0.05)
        with pytest.raises(pool.WorkerLost):
            worker.send("hello")


def wanted(*names: str) -> list[Wanted]:
    return [Wanted(replace(synthetic.problem(), name=name)) for name in names]


def test_failures_become_rows_and_the_rest_goes_on(fakes):
    names = ("good", "wrong", "unsupported", "broken", *(("dies",) if fakes else ()), "last")
    document = runner.run_wanted(wanted(*names), FAST)
    statuses = {row.name: (row.status, {e.status for e in row.entries}) for row in document}
    assert statuses["good"] == ("ok", {"ok"})
    assert statuses["wrong"] == ("failed", {"wrong"})
    assert statuses["unsupported"] == ("failed", {"unsupported"})
    assert statuses["broken"] == ("failed", {"failed"})
    assert statuses["last"] == ("ok", {"ok"})
    assert document[0].ratio("fake").rounds
    assert document[0].own.native == pytest.approx(0.0004)
    assert document[0].own.p50 <= document[0].own.p90 <= document[0].own.p99
    # what computes other numbers is not timed
    assert not any(entry.rounds for entry in document[1].entries)
    assert "it broke" in document[3].reason
    assert not fakes or (statuses["dies"] == ("failed", {"failed"}) and "exit code 7" in document[4].reason)
    assert document.complete
    assert document.versions["fake"] == {"fake": "1.0"}


@pytest.mark.parametrize("apart", ["in threads"], indirect=True)
def test_numbers_are_compared_before_anything_is_timed(fakes, monkeypatch):
    asked = []
    send = ThreadWorker.send

    def recorded(worker, do, **arguments):
        asked.append((worker.peer.name, do))
        send(worker, do, **arguments)

    monkeypatch.setattr(ThreadWorker, "send", recorded)
    (row,) = runner.run_wanted(wanted("rough"), FAST)
    assert [entry.status for entry in row.entries] == ["ok", "wrong"]
    commands = [do for _, do in asked]
    assert commands.count("check") == 2
    assert "burst" not in commands[: len(commands) - commands[::-1].index("check")]
    assert {name for name, do in asked if do == "burst"} == {"dgo"}


def test_a_peer_may_be_given_a_larger_error_and_is_marked_then(fakes, monkeypatch):
    lenient = replace(FAKE, tolerance=0.5)
    monkeypatch.setattr(registry, "peers", lambda: {"dgo": OWN, "fake": lenient})
    rows = runner.run_wanted(wanted("rough", "wrong"), FAST)
    assert [row.status for row in rows] == ["ok", "failed"]
    (entry,) = [e for e in rows[0].entries if e.peer == "fake"]
    assert entry.status == "ok"
    assert 1e-5 < entry.error < 0.5
    assert re.fullmatch("off by .* of the largest expected value, more than 1e-05", entry.flags[0])
    assert rows[0].ratio("fake").rounds


@pytest.mark.bench
@pytest.mark.parametrize("apart", ["in processes"], indirect=True)
def test_a_preparation_without_end_is_a_failed_row_and_the_rest_goes_on(fakes, monkeypatch):
    monkeypatch.setattr(lineup, "_LEAST_PREPARE", 3.0)
    document = runner.run_wanted(wanted("sleeps", "last"), replace(FAST, case_seconds=0.5))
    assert [row.status for row in document] == ["failed", "ok"]
    assert {entry.status for entry in document[0].entries} == {"failed"}
    assert "did not answer prepare within 3 s" in document[0].reason


def test_one_that_is_hopelessly_slow_is_said_so_and_not_raced(fakes):
    (row,) = runner.run_wanted(wanted("slow"), FAST)
    assert row.status == "ok"
    entry = next(e for e in row.entries if e.peer == "fake")
    assert entry.status == "slow"
    assert "times this package's" in entry.reason
    assert row.ratios == []


def test_one_slow_call_of_two_is_no_verdict(fakes):
    (row,) = runner.run_wanted(wanted("cold"), FAST)
    assert {entry.status for entry in row.entries} == {"ok"}
    assert row.ratios


def test_too_large_for_memory_is_a_row(fakes):
    huge = replace(synthetic.problem(), name="huge", batch=10**9)
    (row,) = runner.run_wanted([Wanted(huge)], FAST)
    assert row.status == "failed"
    assert "GiB" in row.reason


def test_when_the_budget_is_used_up_the_rest_is_skipped(fakes):
    # the first takes longer than that wherever it runs
    document = runner.run_wanted(wanted("slow", "b", "c"), replace(FAST, budget=0.05))
    assert [row.status for row in document] == ["ok", "skipped", "skipped"]
    assert "budget of 0 s" in document[1].reason
    assert "2 of 3 rows" in document.notes[-1]


def test_over_the_cost_limit_is_skipped(fakes):
    rows = runner.run_wanted(wanted("a"), replace(FAST, max_gmacs=1e-9))
    assert [r.status for r in rows] == ["skipped"]


def stop_after(rows: int) -> Progress:
    """Interrupts the run when so many rows are done."""

    def tell(done: int, total: int, text: str) -> None:
        if done == rows:
            os.kill(os.getpid(), signal.SIGINT)

    return tell


def test_interrupted_and_resumed_it_has_the_same_rows(fakes, tmp_path):
    names = ("a", "b", "c", "d")
    path = tmp_path / "out.json"
    half = runner.run_wanted(wanted(*names), FAST, path=path, progress=stop_after(2))
    assert not half.complete
    assert len(half) == 2
    assert Document.load(path) == half
    whole = runner.run_wanted(wanted(*names), FAST, path=path, resume=True)
    assert Document.load(path) == whole
    assert whole.complete
    assert [row.name for row in whole] == list(names)
    # the first two were taken from the file, not measured again
    assert [r.as_dict() for r in whole[:2]] == [r.as_dict() for r in half]
    with pytest.raises(InvalidArgumentError, match="other settings"):
        runner.run_wanted(wanted(*names), replace(FAST, interval=0.4), path=path, resume=True)


def test_a_killed_run_has_its_finished_rows_in_the_file(fakes, tmp_path):
    path = tmp_path / "out.json"
    held = []

    def read(done: int, total: int, text: str) -> None:
        held.extend([Document.load(path)] if done else [])

    whole = runner.run_wanted(wanted("a", "b"), FAST, path=path, progress=read)
    assert [(len(document), document.complete) for document in held] == [(1, False), (2, False)]
    assert [row.name for row in held[1]] == [row.name for row in whole]


def test_shards_together_are_the_whole(fakes):
    names = ("a", "b", "c")
    parts = [runner.run_wanted(wanted(*names), FAST, shard=(i, 2)) for i in (1, 2)]
    assert [len(p) for p in parts] == [2, 1]
    assert sorted(row.name for row in merge(parts)) == list(names)
    # one that has nothing to do
    assert len(merge([*parts, runner.run_wanted(wanted(*names), FAST, shard=(4, 4))])) == 3
    with pytest.raises(InvalidArgumentError, match="shard 3/2"):
        runner.run_wanted(wanted(*names), FAST, shard=(3, 2))


def test_a_run_outside_the_main_thread(fakes):
    found: list[Document] = []
    thread = threading.Thread(target=lambda: found.append(runner.run_wanted(wanted("a"), FAST)))
    thread.start()
    thread.join()
    assert found[0][0].status == "ok"


def test_the_command_line_writes_everything(fakes, tmp_path, capsys):
    outputs = {k: tmp_path / f"out.{k}" for k in ("json", "csv", "markdown")}
    if fakes:
        pytest.importorskip("matplotlib")
        outputs |= {"html": tmp_path / "out.html", "plot": tmp_path / "out.png"}
    words = [w for k, path in outputs.items() for w in (f"--{k}", str(path))]
    small = [
        "--peers",
        "fake",
        "--min-rounds",
        "2",
        "--max-rounds",
        "2",
        "--burst",
        "0.002",
        "--threads",
        "1",
    ]
    assert cli.main(["--suite", "mb1ic4iw8oc4kw3nx", *small, *words]) == 0
    assert all(path.stat().st_size > 100 for path in outputs.values())
    captured = capsys.readouterr()
    assert "fake 1.0" in captured.out
    assert "[1/1]" in captured.err
    assert cli.main(["compare", str(outputs["json"]), str(outputs["json"])]) == 0
    assert "no change" in capsys.readouterr().out
    assert cli.main(["merge", str(outputs["json"]), "--csv", str(tmp_path / "m.csv"), "--quiet"]) == 0
    assert (tmp_path / "m.csv").read_text() == outputs["csv"].read_text()


@pytest.mark.bench
@pytest.mark.parametrize("apart", ["in processes"], indirect=True)
def test_the_command_line_measures_both_ops(fakes, tmp_path, capsys):
    path = tmp_path / "out.json"
    words = ["--op", "conv_transpose,conv", "--suite", "mb1ic4iw8oc4kw3nx"]
    words += ["--suite", "--conv mb1ic8ih6oc8kh3ny", "--suite", "--conv mb1ic4iw8oc4kw3nx"]
    few = ["--min-rounds", "2", "--max-rounds", "2", "--burst", "0.002", "--threads", "1"]
    assert cli.main([*words, *few, "--peers", "fake", "--direction", "fwd,bwd_d,bwd_w", "--json", str(path)]) == 0
    document = Document.load(path)
    assert [(row.name, row.op, row.direction, row.status) for row in document] == [
        (name, op, direction, "ok")
        for name, op in (("x", "conv_transpose"), ("y", "conv"), ("x", "conv"))
        for direction in ("fwd", "bwd_d", "bwd_w")
    ]
    assert all(entry.error == 0 for row in document for entry in row.entries)
    assert document[3].descriptor.startswith("--conv mb1_ic8")
    said = capsys.readouterr()
    assert "geometric means (" in said.out
    assert "y conv bwd_w f32" in said.err
    assert cli.main(["compare", str(path), str(path)]) == 0


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--suite", "no_such_suite"], "no_such_suite"),
        (["--suite", "mb1ic3oc4ih5"], "kh is missing"),
        (["--peers", "nobody"], "nobody"),
        (["--peers", "opencv"], "did you mean 'openvino'?"),
        (["--dtype", "f64"], "f64"),
        (["--dtype", "bf17"], "did you mean 'bf16'?"),
        (["--direction", "sideways"], "sideways"),
        (["--json", "/nonexistent/x.json"], "no directory"),
        (["--op", "matmul"], "op: unknown ['matmul']; known: conv_transpose, conv"),
        (["--class", "5x5"], "class: unknown ['5x5']; known: 3x3 stride 1, other"),
        (["--op", ""], "known: conv_transpose, conv"),
        (["--resume"], "--resume needs --json"),
        (["--min-rounds", "9", "--max-rounds", "3"], "max_rounds 3 is below min_rounds 9: give both --min-rounds"),
        (["--plot", "x.bmpp"], "x.bmpp: no picture format; end the name in .png, .svg, .pdf"),
        (["--html", "/proc/x.html"], "/proc/x.html: cannot be written"),
        (["merge", "absent.json", "--plot", "x"], "absent.json"),
        (["compare", "absent.json", "absent.json"], "absent.json"),
        (["merge", "absent.json"], "absent.json"),
    ],
)
def test_bad_input_is_one_clear_line(words, said, capsys):
    assert cli.main(words) == 2
    error = capsys.readouterr().err.strip()
    assert error.startswith("error: ")
    assert said in error
    assert "\n" not in error


def test_listing_measures_nothing(capsys):
    assert cli.main(["list", "--op", "conv", "--match", "DQN/conv3"]) == 0
    assert "--conv mb32_ic64ih9iw9_oc64oh7ow7_kh3kw3ph0pw0" in capsys.readouterr().out
    assert cli.main(["list", "--match", "LapSRN"]) == 0
    out = capsys.readouterr().out
    assert "LapSRN/embedding" in out
    assert "pytorch-LapSRN" in out
    assert "peer torch" in out


@pytest.mark.child
def test_importing_the_package_imports_none_of_this():
    code = (
        "import sys, dnnl_graph_ops; "
        "assert not [m for m in ('torch', 'matplotlib', 'dnnl_graph_ops.bench') if m in sys.modules]; "
        "import dnnl_graph_ops.bench; "
        "assert not [m for m in ('torch', 'matplotlib', 'dask') if m in sys.modules]"
    )
    done = child("-c", code)
    assert done.returncode == 0, done.stderr


@pytest.mark.bench
@pytest.mark.parametrize("op", OPS)
def test_one_real_layer_from_end_to_end(op):
    from dnnl_graph_ops import bench

    document = bench.run(
        ["mb1ic4iw8oc4kw4sw2pw1nreal"],
        op=op,
        directions=("fwd", "bwd_d", "bwd_w"),
        peers=("none",),
        min_rounds=2,
        max_rounds=2,
        burst=0.002,
        threads=1,
    )
    assert [(row.direction, row.status, row.reason) for row in document] == [
        ("fwd", "ok", ""), ("bwd_d", "ok", ""), ("bwd_w", "ok", ""),
    ]  # fmt: skip
    assert {row.op for row in document} == {op}
    assert all(entry.error == 0 for row in document for entry in row.entries)
    assert all(entry.native and entry.compile_s for row in document for entry in row.entries)
    for row in document:
        assert len(row.peak_rounds) == len(row.own.rounds)
        assert row.own.peak_share == pytest.approx(
            np.median([2 * row.gmacs / t / peak for t, peak in zip(row.own.rounds, row.peak_rounds, strict=True)])
        )
