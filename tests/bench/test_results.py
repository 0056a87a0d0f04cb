"""Documents, merging and every kind of report."""

from __future__ import annotations

import csv
import io
import json
import re
import sys
from dataclasses import replace

import pytest

from dnnl_graph_ops.bench import cli
from dnnl_graph_ops.bench.document import Document, check_writable, merge
from dnnl_graph_ops.bench.report import columns, html, summary, table
from dnnl_graph_ops.bench.rows import Entry, Ratio
from dnnl_graph_ops.errors import InvalidArgumentError

from . import synthetic


def test_saved_and_loaded_again_it_is_the_same(tmp_path):
    document = synthetic.document(3)
    document.save(tmp_path / "a.json")
    assert Document.load(tmp_path / "a.json") == document
    assert json.loads((tmp_path / "a.json").read_text())["schema_version"] == 3
    assert list(document) == document.rows
    assert document[0].ratio("torch").median == pytest.approx(1.8, rel=0.02)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("{", "not JSON"),
        ("[]", "not a result of this bench"),
        ('{"schema": "dnnl_graph_ops.bench", "schema_version": 2}', "schema version 2, known is 3"),
        ('{"schema": "dnnl_graph_ops.bench", "schema_version": 3}', "damaged"),
        ('{"schema": "dnnl_graph_ops.bench", "schema_version": 3, "rows": [{"a": 1}]}', "damaged"),
    ],
)
def test_damaged_results(tmp_path, text, said):
    (tmp_path / "a.json").write_text(text)
    with pytest.raises(InvalidArgumentError, match=said):
        Document.load(tmp_path / "a.json")


def test_unwritable_outputs_are_found_before_measuring(tmp_path):
    check_writable(tmp_path / "new.json")
    for bad, said in ((tmp_path, "is a directory"), (tmp_path / "no" / "a.json", "no directory")):
        with pytest.raises(InvalidArgumentError, match=said):
            check_writable(bad)


def test_merge_puts_shards_together():
    whole = synthetic.document(5)
    first, second = synthetic.document(5), synthetic.document(5)
    first.rows, second.rows = first.rows[::2], second.rows[1::2]
    first.machines[0]["load"], second.machines[0]["load"] = 1.0, 2.0
    assert len(merge([first, second]).machines) == 1
    second.machines = [{**synthetic.MACHINE, "host": "there"}]
    merged = merge([first, second])
    assert {r.key for r in merged} == {r.key for r in whole}
    assert [m["host"] for m in merged.machines] == ["here", "there"]
    assert {r.key: r.machine for r in merged}[second.rows[0].key] == 1
    second.options["interval"] = 0.5
    with pytest.raises(InvalidArgumentError, match="differ in interval"):
        merge([first, second])


def test_a_good_row_wins_over_a_failed_one():
    good, bad = synthetic.document(1), synthetic.document(1)
    bad.rows[0].status = "failed"
    for order in ([good, bad], [bad, good]):
        assert merge(order).rows[0].status == "ok"


def test_table_is_aligned_and_complete():
    document = synthetic.document(3)
    document.rows[1].flags.append("contended")
    text = table.text(document)
    assert "1 of 3 rows are contended" in text
    for said in (
        "A CPU",
        "2 threads",
        "avx2",
        "torch 2.13",
        "Net/layer2",
        "contended",
    ):
        assert said in text
    lines = text.splitlines()
    head = next(i for i, line in enumerate(lines) if line.startswith("layer"))
    ends = {line.index("] ") for line in lines[head + 2 : head + 5]}
    assert len(ends) == 1
    assert "1.8" in table.markdown(document).split("|")[5:][0] + table.markdown(document)


def test_errors_stand_beside_times_where_bits_are_few():
    document = synthetic.document(1)
    row = document.rows[0]
    assert "error" not in table.text(document).partition("\n\n")[2]
    row.dtype = "int8"
    for entry in row.entries:
        entry.error = 0.0 if entry.peer == "dgo" else 4e-3
    text = table.text(document)
    assert "(error 0e+00)" in text and "(error 4e-03)" in text
    row.ratios = []
    row.entries.append(Entry("openvino NCX", "openvino", "NCX", "unsupported", "knows no such thing"))
    cell = summary.cells(row, ["openvino", "mnn"])[-3:-1]
    assert [(one.text, one.title) for one in cell] == [("unsupported", "knows no such thing"), ("-", "")]


@pytest.mark.bench
def test_failed_rows_are_shown_with_their_reason():
    document = synthetic.document(2)
    document.rows[0].entries, document.rows[0].ratios = [], []
    document.rows[0].status, document.rows[0].reason = "failed", "does not fit"
    assert "does not fit" in table.text(document)
    assert "does not fit" in html.page(document)
    assert "does not fit" in columns.as_csv(document)


def test_csv_has_a_line_per_competitor():
    records = list(csv.DictReader(io.StringIO(columns.as_csv(synthetic.document(2)))))
    assert len(records) == 8
    best = next(r for r in records if r["label"] == "torch NXC")
    assert float(best["ratio"]) == pytest.approx(1.8, rel=0.02)
    assert float(best["gflops"]) > 0
    assert best["cpu"] == "A CPU"


@pytest.mark.slow
def test_html_is_one_file_that_loads_nothing():
    document = synthetic.document(2)
    document.rows[0].flags.append("<script>alert(1)</script>")
    page = html.page(document)
    assert "<script>alert" not in page
    assert not re.search(r"(?:src|href)=\"?(?:https?:)?//", page)
    assert "Net/layer1" in page
    assert "A CPU" in page


def means(document: Document) -> list[dict[str, summary.Cell]]:
    names = summary.columns_of_means(document.peers())
    return [dict(zip(names, cells, strict=True)) for cells in summary.means(document)]


def test_means_compare_best_layouts():
    (found,) = means(synthetic.document(4))
    assert (found["class"].text, found["rows"].value) == ("all", 4)
    assert found["torch"].value == found["best peer"].value == pytest.approx(1.8, rel=0.02)


def both_ops(count: int = 10) -> Document:
    document = synthetic.document(3)
    document.rows += synthetic.document(count, slower=1.5, only=3, op="conv").rows
    return document


@pytest.mark.slow
def test_rows_of_both_ops_are_told_apart_everywhere():
    document = both_ops()
    assert len({row.key for row in document}) == 13
    assert [row.way for row in document[2:4]] == ["fwd", "conv fwd"]
    assert {(row["direction"].text, row["rows"].text) for row in means(document) if row["class"].text == "all"} == {
        ("forward", "3"), ("conv forward", "10"),
    }  # fmt: skip
    records = list(csv.DictReader(io.StringIO(columns.as_csv(document))))
    assert [(r["op"], r["layer_class"]) for r in records[8:16:4]] == [
        ("conv_transpose", "other"),
        ("conv", "3x3 stride 1"),
    ]
    assert "Transposed convolutions and convolutions: dnnl_graph_ops" in html.page(document)
    assert "conv fwd" in table.text(document)


def test_results_from_before_there_were_two_ops_are_readable(tmp_path):
    document = synthetic.document(2)
    record = document.as_dict()
    for row in record["rows"]:
        del row["problem"]["op"]
    (tmp_path / "old.json").write_text(json.dumps(record))
    old = Document.load(tmp_path / "old.json")
    assert {row.op for row in old} == {"conv_transpose"}
    assert [row.key for row in old] == [row.key for row in document]
    assert columns.as_csv(old) == columns.as_csv(document)


@pytest.mark.slow
def test_means_by_class_are_of_ordinary_convolutions_and_name_the_lowest_row():
    document = both_ops()
    rows = [row for row in means(document) if row["direction"].text == "conv forward"]
    assert [(r["class"].text, r["rows"].value) for r in rows] == [
        ("3x3 stride 1", 2), ("other", 2), ("1x1", 2), ("depthwise and small groups", 2), ("first layers", 2),
        ("all", 10),
    ]  # fmt: skip
    assert rows[0]["torch"].value == pytest.approx(1.8, rel=0.02)
    # one of the two is slower by half
    assert rows[3]["best peer"].value == pytest.approx(1.8 / 1.5**0.5, rel=0.02)
    assert rows[-1]["lowest"].value == pytest.approx(1.2, rel=0.02)
    assert re.fullmatch(r"\[1\.\d+ 1\.\d+\]", rows[-1]["lowest"].note)
    assert rows[-1]["lowest row"].text == "Net/conv3 (torch)"
    assert "Net/conv3" in rows[-1]["torch"].title
    for text in (table.text(document), table.markdown(document), html.page(document)):
        assert "depthwise and small groups" in text


def test_one_row_has_no_mean():
    assert not summary.means(synthetic.document(1))
    assert not summary.means(synthetic.document(1, op="conv"))
    for text in (table.text, table.markdown, html.page):
        assert "eometric mean" not in text(synthetic.document(1))
        assert "eometric mean" in text(synthetic.document(2))


def test_the_best_peer_is_each_row_s_own():
    document = synthetic.document(2, op="conv")
    for row, (torch, other) in zip(document, ((2.0, 0.5), (0.8, 3.0)), strict=True):
        row.ratios = [Ratio("torch", "t", "o", torch, torch, torch), Ratio("other", "x", "o", other, other, other)]
    whole = means(document)[-1]
    assert whole["best peer"].value == pytest.approx((0.5 * 0.8) ** 0.5)
    assert whole["torch"].value == pytest.approx((2.0 * 0.8) ** 0.5)
    assert whole["lowest row"].text == "Net/conv0 (other)"


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (None, "-"),
        (3.2e-7, "0.32 us"),
        (5.61e-6, "5.61 us"),
        (9.996e-4, "1000 us"),
        (0.0123, "12.3 ms"),
        (2.5, "2.5 s"),
    ],
)
def test_seconds_text(seconds, text):
    assert summary.seconds_text(seconds) == text


def test_pictures_have_room_for_every_peer_and_both_ops():
    pytest.importorskip("matplotlib")
    from dnnl_graph_ops.bench.report import plot

    document = both_ops(2)
    for row in document:
        row.ratios = [replace(row.ratios[0], peer=f"peer{i}") for i in range(9)]
    drawn = plot.render(document, "svg").decode()
    assert "peer8" in drawn
    assert "Net/conv1  conv fwd f32" in drawn


@pytest.mark.parametrize("count", [0, 3])
def test_pictures(count, tmp_path):
    pytest.importorskip("matplotlib")
    from dnnl_graph_ops.bench.report import plot

    document = synthetic.document(count)
    plot.save(document, tmp_path / "a.png")
    assert (tmp_path / "a.png").read_bytes().startswith(b"\x89PNG")
    drawn = plot.render(document, "svg").decode()
    assert "Speedup per layer" in drawn
    if count:
        assert "Net/layer0" in drawn


def test_a_row_is_said_in_a_line():
    assert re.fullmatch(r"Net/layer0 fwd f32: 1\.\d+ ms, torch 1\.8\dx", synthetic.row(0).said)


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.mark.parametrize("terminal", [False, True])
def test_rows_are_lines_or_a_bar(terminal, monkeypatch):
    stream = Terminal() if terminal else io.StringIO()
    monkeypatch.setattr(sys, "stderr", stream)
    monkeypatch.setitem(sys.modules, "tqdm", None)
    with cli._told(quiet=False) as tell:
        tell(1, 3, "2 rows take about 75 min at most")
        tell(2, 3, "a row")
    assert "[1/3] 2 rows take about 75 min at most\n" in stream.getvalue()
    assert ("[2/3] a row\n" in stream.getvalue()) != terminal
    assert ("#] 2/3" in stream.getvalue() or "2/3  a row" in stream.getvalue()) == terminal
