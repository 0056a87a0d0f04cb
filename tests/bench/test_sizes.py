"""A model called with one size after another: which sizes, a run from start to end, its tables."""

from __future__ import annotations

import csv
import io
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import dnnl_graph_ops as dgo
from dnnl_graph_ops.bench import cli, data, models, sizes, zoo
from dnnl_graph_ops.bench.document import Document
from dnnl_graph_ops.bench.options import Options
from dnnl_graph_ops.bench.rows import EXCUSED
from dnnl_graph_ops.errors import InvalidArgumentError

from .test_models import saved, saved_of_a_domain_not_known

onnx = pytest.importorskip("onnx")
OPEN = [[sizes.Dim(1), sizes.Dim(1, "a"), sizes.Dim(1, "b")], [sizes.Dim(3), sizes.Dim(2, "a")]]


@pytest.mark.parametrize("text", ["", "20", "20:10x3", "0:4x2", "1:4x0", "1:4:x2", "1:4", "1-4x2", "-1:4x2"])
def test_other_words_than_sizes_are_refused(text: str) -> None:
    with pytest.raises(InvalidArgumentError, match="sizes"):
        sizes.parse(text)


def test_sizes_have_a_first_a_last_a_step_and_a_count() -> None:
    assert sizes.parse("20:400x100") == sizes.Sizes(20, 400, 0, 100)
    assert sizes.parse("16:64:8x5") == sizes.Sizes(16, 64, 8, 5)


def test_all_sizes_are_drawn_once_and_in_the_order_of_the_seed() -> None:
    drawn = sizes.draw("one", sizes.parse("3:9x9"), OPEN, 3, seed=1)
    assert sorted(shape for shape, _ in drawn) == [[1, a, b] for a in (3, 6, 9) for b in (3, 6, 9)]
    assert all(second == [3, 2 * first[1]] for first, second in drawn)
    assert drawn == sizes.draw("one", sizes.parse("3:9x9"), OPEN, 3, seed=1)
    assert drawn != sizes.draw("one", sizes.parse("3:9x9"), OPEN, 3, seed=2)
    assert {shape[1] for shape, _ in sizes.draw("one", sizes.parse("1:9:4x4"), OPEN, 3, seed=1)} == {4, 8}
    with pytest.raises(
        InvalidArgumentError, match="10 asked for, but model 'one' has only 9 with a, b between 3 and 9"
    ):
        sizes.draw("one", sizes.parse("3:9x10"), OPEN, 3, seed=1)
    with pytest.raises(InvalidArgumentError, match="known sizes only"):
        sizes.draw("one", sizes.parse("3:9x2"), [[sizes.Dim(3)]], 1, seed=1)


def test_a_dim_is_a_number_a_name_or_a_multiple_of_one() -> None:
    given = [sizes.dim("x", 4, ""), sizes.dim("x", 0, "n"), sizes.dim("x", 0, "2*n"), sizes.dim("x", 0, "16 * n")]
    assert [each.at({"n": 3}) for each in given] == [4, 3, 6, 48]
    assert [str(each) for each in given] == ["4", "n", "2*n", "16*n"]
    for name in ("", "n + 1", "n*m"):
        with pytest.raises(InvalidArgumentError, match=r"x: dim .* neither a name nor a multiple"):
            sizes.dim("x", 0, name)


def test_options_that_contradict_each_other() -> None:
    with pytest.raises(InvalidArgumentError, match="sizes 'many'"):
        Options(sizes="many")
    with pytest.raises(InvalidArgumentError, match="fixed"):
        Options(fixed=True)
    assert cli.main(["--sizes", "1:4x2"]) == 2


def test_models_that_cannot_take_the_sizes_are_named(tmp_path: Path) -> None:
    with pytest.raises(InvalidArgumentError, match="known sizes only"):
        models.wanted([str(saved(tmp_path / "relu.onnx"))], "1:4x2")
    pytest.importorskip("torch")
    with pytest.raises(
        InvalidArgumentError, match=r"'dcgan' of the zoo has fixed sizes; models with variable sizes: .*unet"
    ):
        models.wanted(["dcgan"], "1:4x2")


def test_a_run_from_start_to_end_has_every_figure(
    apart: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("onnxruntime")
    files = {kind: str(tmp_path / f"result.{kind}") for kind in ("json", "csv", "markdown")}
    words = [word for kind, path in files.items() for word in (f"--{kind}", path)]
    good = str(saved(tmp_path / "tanh.onnx", "Tanh", (1, "channels", "2*channels")))
    refused = str(saved_of_a_domain_not_known(tmp_path / "refused.onnx", ("n", "n")))
    count, burst = (6, "0.005") if apart else (3, "0.0005")
    options = ["--sizes", f"2:40x{count}", "--fixed", "--peers", "onnxruntime", "--threads", "1", "--burst", burst]
    assert cli.main(["--model", good, "--model", refused, *options, *words]) == 0
    document = Document.load(files["json"])
    row, bad = document
    assert row.name == f"tanh 2:40x{count}"
    assert row.model["inputs"] == [["1", "channels", "2*channels"]]
    assert sorted({2 * shape[1] - shape[2] for (shape,) in row.model["sizes"]}) == [0]
    assert [entry.label for entry in row.entries] == ["dgo NCX", "dgo NCX fixed", "onnxruntime NCX"]
    for entry in row.entries:
        assert entry.status == "ok", entry.reason
        assert len(entry.rounds) == len(entry.calls.laters) == count
        excess = [first - EXCUSED * later for first, later in zip(entry.rounds, entry.calls.laters, strict=True)]
        assert entry.calls.excess == pytest.approx(float(np.median(excess)))
        assert entry.calls.excess <= entry.calls.excess_p95
        assert entry.calls.total == pytest.approx(math.fsum(entry.rounds))
        assert not apart or 0 < entry.before_bytes < entry.calls.after_bytes <= entry.peak_bytes + (1 << 22)
        assert entry.calls.alone_bytes > 0
    assert row.own.label == "dgo NCX"
    assert row.own.error < models.TOLERANCE
    assert [ratio.peer for ratio in row.ratios] == ["dgo fixed", "onnxruntime"]
    assert bad.status == "failed"
    assert "Inverse" in bad.reason
    out = capsys.readouterr().out
    assert f"tanh 2:40x{count}, inputs 1xchannelsx2*channels, {count} sizes" in out
    assert "onnxruntime NCX" in Path(files["markdown"]).read_text()
    lines = list(csv.DictReader(io.StringIO(Path(files["csv"]).read_text())))
    assert all(lines[0][name] for name in ("later", "excess", "excess_p95", "total", "after_bytes", "alone_bytes"))


def test_wrong_numbers_at_one_size_are_told(tmp_path: Path) -> None:
    from dnnl_graph_ops.bench import sequence
    from dnnl_graph_ops.bench.rows import Entry

    entries = [Entry(f"{peer} NCX", peer, "NCX", "ok") for peer in ("dgo", "onnxruntime", "torch")]
    paths = {entry.label: str(tmp_path / f"{entry.peer}.npy") for entry in entries}
    for entry, value in zip(entries, (1.0, 1.0, 1.5), strict=True):
        np.save(paths[entry.label], np.full(4, value, np.float32))
    sequence._check(entries, paths, [[1, 4]], dict.fromkeys(paths, 1e-3))
    assert [entry.status for entry in entries] == ["ok", "ok", "wrong"]
    assert "at [[1, 4]] off by 0.5 of onnxruntime's largest value" in entries[2].reason


@pytest.mark.sweep(every=5)
@pytest.mark.parametrize("name", [name for name, entry in zoo.ENTRIES.items() if entry.step])
def test_a_model_of_unknown_sizes_gives_pytorchs_numbers(name: str) -> None:
    torch: Any = pytest.importorskip("torch")
    from dnnl_graph_ops.bench.zoo import export

    path = export.path(name, small=True, unknown=True)
    step, small = zoo.entry(name).step, zoo.shapes(name, small=True)
    model = models.Model(name, str(path), "", name, f"{small[0][-1]}:{small[0][-1] + 2 * step}:{step}x2")
    drawn = models.drawn(model, 0)
    try:
        net = dgo.from_onnx(str(path)).compile()
    except dgo.UnsupportedError as error:
        pytest.skip(str(error).splitlines()[-1])
    module = zoo.build(name, small=True)
    for number, shapes in enumerate(drawn.shapes):
        given = data.drawn(shapes, drawn.dtypes, number)
        made = net(*given)
        with torch.inference_mode():
            expected = module(*map(torch.from_numpy, given))
        for one, other in zip(*(x if isinstance(x, tuple) else (x,) for x in (made, expected)), strict=True):
            assert data.relative_error(one, other.numpy()) < 1e-4, shapes
