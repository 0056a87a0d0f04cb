"""Published files: measured in parts, gone on from, and their pages; the figures that the documentation has of them."""

from __future__ import annotations

import json
import re
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

from dnnl_graph_ops.bench import cli, publish
from dnnl_graph_ops.bench.cases import Wanted
from dnnl_graph_ops.bench.document import Document
from dnnl_graph_ops.bench.models import Model
from dnnl_graph_ops.bench.report import machine_page
from dnnl_graph_ops.bench.rows import Entry, Row
from dnnl_graph_ops.bench.streams import Stream
from dnnl_graph_ops.errors import InvalidArgumentError

from . import synthetic

ROOT = Path(__file__).resolve().parents[2]
MACHINES = ROOT / "docs/benchmarks/machines"
FEW = {"interval": 0.5, "min_rounds": 2, "max_rounds": 2, "burst": 0.002, "case_seconds": 5.0}


@pytest.fixture
def parts(fakes, monkeypatch):
    """One part of three layers, measured between fakes."""

    def layers(count):
        return [Wanted(replace(synthetic.problem(i), name=f"Net/{i}")) for i in range(min(count, 3))]

    part = publish.Part(1.0, 20.0, layers, {"peers": ("fake",), "layouts": ("NCX",)}, publish._of_layer)
    monkeypatch.setattr(publish, "_PARTS", {"layers": part, "models": replace(part, share=0.01)})
    monkeypatch.setattr(publish, "_OPTIONS", FEW)


def test_a_file_and_its_page_are_written_and_more_time_adds_rows(parts, tmp_path, capsys):
    words = ["publish", "--out", str(tmp_path), "--threads", "1", "--quiet"]
    assert cli.main([*words, "--minutes", "0.7"]) == 0
    target = Path(capsys.readouterr().out.splitlines()[-1])
    record = machine_page.load(target)
    assert [row["name"] for row in record["rows"]] == ["Net/0", "Net/1"]
    assert record["machine"]["threads"] == 1
    assert record["versions"] == {"fake": "1.0"}
    assert target.with_suffix(".md").read_text() == machine_page.page(record)
    (full,) = target.with_suffix("").iterdir()
    before = {row.name: row.when for row in Document.load(full)}
    assert cli.main([*words, "--minutes", "1"]) == 0
    assert [row["name"] for row in machine_page.load(target)["rows"]] == ["Net/0", "Net/1", "Net/2"]
    # the two are those of before
    assert before.items() <= {row.name: row.when for row in Document.load(full)}.items()


def test_a_page_is_made_again_and_other_files_are_refused(tmp_path):
    path = tmp_path / "a.json"
    path.write_text(json.dumps(record([published("a", 1.5)])))
    assert cli.main(["publish", "--page", str(path)]) == 0
    assert path.with_suffix(".md").read_text() == machine_page.page(machine_page.load(path))
    path.write_text("[]")
    with pytest.raises(InvalidArgumentError, match="measure again"):
        machine_page.load(path)


def published(name: str, ratio: float | None, **more) -> dict:
    others = {"torch": [ratio, 0.9, 2.5], "openvino": 9.0, "dgo-compile": [0.1, 0.1, 0.1]} if ratio else {}
    kind = {"suite": "transposed", "direction": "fwd", "dtype": "f32", "unit": "ms", "by": "NXC", "marks": []}
    return {"name": name, "ours": 1.0, "others": others, **kind, **more}


def record(rows: list[dict]) -> dict:
    head = {"schema": machine_page.SCHEMA, "schema_version": machine_page.SCHEMA_VERSION, "date": "2026-01-02"}
    machine = {**synthetic.MACHINE, "cpu_family": "1/2/3", "load": 0.5}
    counts = {"seconds": 60, "measured": len(rows), "contended": 1}
    return {
        **head,
        "machine": machine,
        "versions": {"torch": "2"},
        "method": {**FEW, "clock": "wall"},
        **counts,
        "rows": rows,
    }


def test_losers_come_first_and_means_are_of_several_rows():
    rows = [
        published("wins", 4.0),
        published("loses", 0.5, marks=["contended"]),
        published("alone", None),
        published("fails", 2.0, ours=None, by="it broke"),
        published("single", 3.0, direction="bwd_d"),
    ]
    lines = machine_page.page(record(rows)).splitlines()
    table = [line for line in lines if line.startswith("| ") and "transposed | " in line]
    means, *every = table
    # 4 and 0.5: what this package itself does otherwise is no rival
    assert means == "| transposed | forward | f32 | 2 | 1.41 | 0.50 | 1 |"
    assert [line.split()[1] for line in every] == ["fails", "loses", "single", "wins", "alone"]
    assert (
        "| loses * | transposed | fwd | f32 | 1 ms |  | NXC | 0.50 [0.90 2.50] | torch | 0.50 | 9.00 | 0.10 |" in every
    )
    said = machine_page.page(record(rows)).splitlines()[2]
    assert said.startswith("1 of 3 rows are slower, or larger, than the fastest peer in the same precision; ")
    assert said.endswith("the lowest speedup is 0.50 (loses: transposed, against torch). One row failed.")
    alone = machine_page.page(record(rows[:1]))
    assert "\n0 of 1 rows are slower, or larger, than the fastest peer in the same precision. No row failed.\n" in alone
    assert "Means" not in alone


def test_means_are_in_the_order_of_their_size():
    rows = [published(f"{suite}{i}", ratio, suite=suite) for suite, ratio in (("a", 3.0), ("b", 1.0)) for i in (1, 2)]
    means = [line.split()[1] for line in machine_page.page(record(rows)).splitlines() if "| 2 |" in line]
    assert means == ["b", "a"]


def test_the_file_is_written_once_for_each_part_that_was_measured(parts, monkeypatch, tmp_path):
    written = []
    monkeypatch.setattr(publish, "write", lambda target, documents, *_: written.append([*documents]))
    for _ in range(2):
        publish.run(0.7, tmp_path, threads=1)
    assert written == [["layers"], ["layers"]]
    publish.run(40.0, tmp_path, threads=1)
    assert written[2:] == [["layers"], ["layers", "models"]]


def stream(peer: str, count: int, throughput: float, p99: float) -> Stream:
    return Stream("unet", peer, count, 2 // count, 100, throughput, p99 / 2, p99 / 2, p99)


def test_streams_give_throughput_and_the_slowest_calls():
    rows = [stream("dgo", 1, 30.0, 0.02), stream("onnxruntime", 1, 20.0, 0.05)]
    rows += [stream("dgo", 2, 40.0, 0.08), stream("onnxruntime", 2, 50.0, 0.06)]
    assert publish._groups(rows) == [("unet", 1), ("unet", 2)]
    calls, wait = publish._of_streams("unet", 2, rows)
    assert (calls["suite"], calls["ours"], calls["others"]) == (
        "ONNX, calls in a second, 2 streams", 40.0, {"onnxruntime": 0.8},
    )  # fmt: skip
    assert (wait["suite"], wait["ours"], wait["others"]) == (
        "ONNX, 99th percentile of a call, 2 streams", 80.0, {"onnxruntime": 0.75},
    )  # fmt: skip
    assert calls["by"] == "1 thread a call" and next(publish._of_streams("unet", 1, rows))["by"] == "2 threads a call"
    page = machine_page.page(record([calls, wait]))
    assert "| unet | ONNX, calls in a second, 2 streams |  | f32 | 40 /s |" in page
    assert page.splitlines()[2].startswith("2 of 2 rows are slower")


def test_several_threads_are_measured_in_streams_once(parts, monkeypatch, tmp_path):
    asked = []

    def run(models, counts, **how):
        asked.append(([model.name for model in models], tuple(counts), how["threads"]))
        yield [stream("dgo", count, 40.0, 0.05) for count in counts]

    monkeypatch.setattr(publish.streams, "run", run)
    monkeypatch.setattr(publish, "_STREAM_SECONDS", 0.01)
    monkeypatch.setattr(publish, "_FIRST", ("unet",))
    wanted = Wanted(synthetic.problem(), model=Model("unet", "unet.onnx", "").text())
    monkeypatch.setattr(publish.models, "wanted", lambda names: [wanted])
    for _ in range(2):
        target = publish.run(0.4, tmp_path, threads=2)
    assert asked == [(["unet"], (1, 2), 2)]
    suites = [row["suite"] for row in machine_page.load(target)["rows"]]
    assert suites.count("ONNX, calls in a second, 2 streams") == 1
    publish.run(0.4, tmp_path, threads=1)
    assert len(asked) == 1


def test_one_thread_and_one_for_each_core_are_measured(monkeypatch, capsys):
    monkeypatch.setattr(publish.pool, "physical_cores", lambda: 2)
    monkeypatch.setattr(publish, "run", lambda minutes, out, threads, **_: threads)
    assert cli.main(["publish", "--quiet"]) == 0 and capsys.readouterr().out.split() == ["1", "2"]
    assert cli.main(["publish", "--quiet", "--threads", "4,2"]) == 0 and capsys.readouterr().out.split() == ["4", "2"]
    monkeypatch.setattr(publish.pool, "physical_cores", lambda: 1)
    assert publish.thread_counts() == [1]


def test_a_model_in_its_chosen_precision_is_compared_with_peers_that_choose_too():
    def entry(peer: str, *rounds: float, label: str = "") -> Entry:
        return Entry(label or f"{peer} NCX", peer, "NCX", "ok", median=sorted(rounds)[1], rounds=list(rounds))

    entries = [entry("dgo", 4.0, 4.0, 4.0), entry("dgo auto", 2.0, 2.0, 1.0, label="dgo NCX auto")]
    entries += [entry("openvino", 4.0, 4.0, 4.0), entry("openvino-default", 1.0, 1.0, 1.0)]
    row = Row("key", "unet", "", "fwd", "f32", "constant", {}, "", 0.0, entries=entries)
    calls = [each for each in publish._of_file(row) if each["suite"] == "ONNX, a call"]
    assert [each["dtype"] for each in calls] == ["f32", "auto"]
    assert calls[1]["ours"] == 2000.0 and calls[1]["others"]["openvino-default"] == [0.5, 0.5, 1.0]
    assert machine_page.fastest(calls[1]) == (0.5, "openvino-default")
    assert "In rows of dtype `auto` each framework chooses" in machine_page.page(record(calls))
    assert "each framework chooses" not in machine_page.page(record(calls[:1]))


def test_the_first_layers_are_of_every_kind_and_more_time_keeps_them():
    first = publish._layers(30)
    assert publish._layers(60)[:30] == first
    kinds = Counter((w.problem.family if w.problem.family in ("call", "ansor") else w.problem.op,
                     *w.directions, *w.dtypes) for w in first)  # fmt: skip
    assert {("call", "fwd", "f32"), ("ansor", "fwd", "f32"), ("conv", "fwd", "int8")} < set(kinds)
    assert all(
        kinds[op, direction, "f32"] >= 2 for op in ("conv", "conv_transpose") for direction in ("bwd_d", "bwd_w")
    )
    every = publish._layers(10**6)
    assert len(every) == len(set(every))


@pytest.mark.parametrize("path", sorted(MACHINES.glob("*.json")), ids=lambda path: path.stem)
def test_pages_of_machines_are_those_of_their_files(path):
    assert path.with_suffix(".md").read_text() == machine_page.page(machine_page.load(path))


def test_the_readme_has_the_means_of_all_machines_and_no_other_figures():
    section = (ROOT / "README.md").read_text().partition("## Figures")[2].partition("\n## ")[0]
    table = machine_page.overview([machine_page.load(path) for path in sorted(MACHINES.glob("*.json"))])
    assert "\n".join(table) in section
    assert not re.search(r"\d\.\d\d", "".join(line for line in section.splitlines() if line not in table))
    assert all(f"({path.relative_to(ROOT)})" in section for path in MACHINES.glob("*.md"))


@pytest.mark.parametrize("page", ["README.md", "docs/index.md"])
def test_the_first_table_has_what_users_wait_for(page):
    table = machine_page.short_table([machine_page.load(path) for path in sorted(MACHINES.glob("*.json"))])
    assert "\n".join(table) in (ROOT / page).read_text()


@pytest.mark.parametrize("page", ["README.md", "docs/index.md"])
def test_the_mean_of_drawn_models_is_that_of_their_page(page):
    drawn = (ROOT / "docs/benchmarks/packages.md").read_text()
    mean = re.search(r"geometric mean of the speedups of (\d+) models is ([\d.]+)\*\*", drawn)
    assert mean
    words = " ".join((ROOT / page).read_text().split())
    assert re.search(rf"{mean[1]} models that were drawn at random .* have a mean speedup of {mean[2]}\b", words)


def test_a_core_without_a_name_has_its_numbers():
    def head(**machine):
        return machine_page.head_of({"machine": {"isa": "avx2", "threads": 2, **machine}, "date": "today"})

    assert head(cpu="A(R) B(TM)", cpu_family="1/2/3") == "A B 1/2/3 (avx2), 2 threads, today"
    assert head(cpu="Intel(R) Xeon(R) Processor", cpu_family="6/143/8") == (
        "Intel Xeon, Sapphire Rapids (avx2), 2 threads, today"
    )


def test_a_row_that_one_machine_lacks_is_empty_there():
    def record(suites, threads):
        rows = [
            {"suite": suite, "name": name, "direction": "fwd", "dtype": "f32", "unit": "ms", "ours": 1.0, "by": "NXC",
             "others": {"torch": speedup}, "marks": []}
            for suite, speedups in suites.items() for name, speedup in enumerate(speedups)
        ]  # fmt: skip
        machine = {"cpu": "A(R) B(TM)", "cpu_family": "1/2/3", "isa": "avx2", "threads": threads}
        return {"machine": machine, "date": "today", "rows": rows}

    heads, _, *body, last = machine_page.overview(
        [record({"fast": [4.0, 1.0], "slow": [0.5, 0.5], "single": [0.1]}, 1), record({"fast": [9.0, 1.0]}, 2)]
    )
    assert "| A B 1/2/3 (avx2), today | A B 1/2/3 (avx2), 2 threads, today |" in heads
    assert body == ["| slow | forward | f32 | 0.50 (0.50) |  |", "| fast | forward | f32 | 2.00 (1.00) | 3.00 (1.00) |"]
    assert last == "| rows slower than the fastest peer |  |  | 3 of 5 | 0 of 2 |"
