"""Whole models: where they come from, a run from start to end, its tables and memory."""

from __future__ import annotations

import csv
import io
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dnnl_graph_ops.bench import cli, data, memory, models
from dnnl_graph_ops.bench.document import Document
from dnnl_graph_ops.bench.peers import registry
from dnnl_graph_ops.bench.problem import Problem
from dnnl_graph_ops.bench.report import models as report
from dnnl_graph_ops.bench.report import table
from dnnl_graph_ops.bench.rows import Entry, Ratio, Row
from dnnl_graph_ops.errors import InvalidArgumentError

from . import synthetic

onnx = pytest.importorskip("onnx")


def saved(path: Path, kind: str = "Relu", sizes: Any = (1, 3, 8, 8), domain: str = "") -> Path:
    """A model of one node."""
    helper, real = onnx.helper, onnx.TensorProto.FLOAT
    node = helper.make_node(kind, ["given"], ["made"], domain=domain)
    graph = helper.make_graph(
        [node],
        "one",
        [helper.make_tensor_value_info("given", real, sizes)],
        [helper.make_tensor_value_info("made", real, None)],
    )
    versions = [helper.make_opsetid("", 17), *([helper.make_opsetid(domain, 1)] if domain else ())]
    onnx.save(helper.make_model(graph, opset_imports=versions, ir_version=8), str(path))
    return path


def saved_of_a_domain_not_known(path: Path, sizes: Any = (2, 2)) -> Path:
    """A model that ONNX Runtime has an operator for, and this package not."""
    return saved(path, "Inverse", sizes, "com.microsoft")


def test_models_are_found_by_path_and_by_name(tmp_path: Path) -> None:
    pytest.importorskip("onnxruntime")
    (item,) = models.wanted([str(saved(tmp_path / "relu.onnx"))] * 2)
    model = models.Model.of(item.model)
    assert (model.name, model.zoo) == ("relu", "")
    with np.load(model.arrays) as held:
        assert np.array_equal(model.expected(), np.maximum(held["x0"], 0).ravel())
    assert model.record()["inputs"] == model.record()["outputs"] == [[1, 3, 8, 8]]
    with pytest.raises(InvalidArgumentError, match="'nothing' is not in the zoo"):
        models.wanted(["nothing"])
    with pytest.raises(InvalidArgumentError, match="no such file"):
        models.wanted([str(tmp_path / "nothing.onnx")])
    for sizes in (("n", 3), None):
        with pytest.raises(InvalidArgumentError, match="input 'given' has sizes that are not known"):
            models.wanted([str(saved(tmp_path / "batch.onnx", sizes=sizes))])
    (tmp_path / "text.onnx").write_text("no model")
    with pytest.raises(InvalidArgumentError, match="no ONNX model"):
        models.wanted([str(tmp_path / "text.onnx")])


def test_numbered_arrays_are_in_the_order_of_their_numbers() -> None:
    assert data.numbered(["x10", "y0", "x2", "x0"], "x") == ["x0", "x2", "x10"]


def test_every_module_of_a_peer_for_models_is_there() -> None:
    found = {peer.name for peer in registry.peers().values() if peer.models}
    assert {registry.OWN, "openvino-default", *models.RIVALS} <= found
    for peer in registry.peers().values():
        if peer.models:
            assert (Path(cli.__file__).parent / "peers" / f"{peer.models.rpartition('.')[2]}.py").is_file()


def test_a_run_from_start_to_end_has_every_column(
    apart: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("torch")
    pytest.importorskip("onnxruntime")
    files = {kind: str(tmp_path / f"result.{kind}") for kind in ("json", "csv", "markdown")}
    words = [word for kind, path in files.items() for word in (f"--{kind}", path)]
    refused = str(saved_of_a_domain_not_known(tmp_path / "refused.onnx"))
    small = _small(tmp_path, apart)
    options = ["--quick", "--peers", "onnxruntime,torch", "--threads", "1"]
    few = ["--min-rounds", "2", "--max-rounds", "2", "--burst", "0.002"]
    options += ["--case-seconds", "2"] if apart else few
    status = cli.main(["--model", small, "--model", refused, *options, *words])
    assert status == 0
    document = Document.load(files["json"])
    good, bad = document
    entries = {entry.label: entry for entry in good.entries}
    assert good.model["inputs"] == [[1, 1, 24, 24]]
    assert apart == ("fsrcnn" in good.name)
    for label in ("dgo NCX", "onnxruntime NCX"):
        entry = entries[label]
        assert entry.status == "ok", entry.reason
        for name in ("median", "p50", "p90", "p99", "memory_bytes", "peak_bytes", "compile_s", "error"):
            assert getattr(entry, name) is not None, (label, name)
        assert entry.p50 <= entry.p90 <= entry.p99
        assert not apart or 0 < entry.memory_bytes < entry.peak_bytes
        assert entry.error < models.TOLERANCE
    assert "models of the zoo, no ONNX files" in entries["torch NCX"].reason
    assert good.ratio("onnxruntime") is not None
    assert bad.status == "failed"
    assert "Inverse" in bad.reason
    out = capsys.readouterr().out
    assert "speedup against the fastest" not in out  # of a single row
    assert "not run here: refused (" in out
    lines = list(csv.DictReader(io.StringIO(Path(files["csv"]).read_text())))
    assert all(lines[0][name] for name in ("p50", "p99", "peak_bytes"))


def _small(folder: Path, apart: bool) -> str:
    if not apart:
        return str(saved(folder / "tanh.onnx", "Tanh", (1, 1, 24, 24)))
    from dnnl_graph_ops.bench.zoo import export

    return str(export.path("fsrcnn", small=True))


@pytest.mark.parametrize("output", ["plot", "html", "cluster"])
def test_what_has_no_meaning_for_models_is_refused(output: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["--model", "fsrcnn", f"--{output}", "x"]) == 2
    assert f"--{output} is for layers" in capsys.readouterr().err


def row(name: str, **times: float) -> Row:
    """Ours takes 10 ms in all of six rounds, the others as told."""
    seconds = {"dgo": 0.01, **{peer.replace("_", "-"): value for peer, value in times.items()}}
    problem = Problem(name, 1, 1, 1, (1,), (1,))
    made = Row(f"{name}|model|f32", name, "model", "fwd", "f32", "constant", [], problem.as_dict(), "", 0.0, 0.0)
    made.model = {"file": "x.onnx"}
    for peer, value in seconds.items():
        entry = Entry(f"{peer} NCX", peer, "NCX", "ok", median=value, rounds=[value] * 6, error=1e-6)
        made.entries.append(entry)
        if peer != "dgo":
            factor = value / 0.01
            ratio = Ratio(peer, entry.label, "dgo NCX", factor, factor * 0.95, factor * 1.05, [factor] * 6)
            made.ratios.append(ratio)
    return made


def test_the_conclusion_counts_rivals_in_f32_only() -> None:
    rows = [
        row("fast", onnxruntime=0.02, torch=0.03, openvino_default=0.005),
        row("even", onnxruntime=0.03, openvino=0.0099),
        row("slow", onnxruntime=0.005),
    ]
    rows.append(row("refused"))
    rows[-1].entries, rows[-1].reason = [], "no op for Det"
    document = Document(rows, machines=[synthetic.MACHINE])
    (said, _) = report.conclusion(document)
    mean = (2 * 0.99 * 0.5) ** (1 / 3)
    assert f"mean {mean:.3f} of 3 models, lowest 0.500" in said
    assert "(slow, onnxruntime); faster in 1, slower" in said
    for text in (table.text(document), table.markdown(document)):
        assert "not run here: refused (no op for Det)" in text
        assert "slower by more than the interval in 1: slow" in text
        assert "2.00 [1.90 2.10]" in text
    assert Document.from_dict(document.as_dict()).rows[0].model == rows[0].model


def test_the_peak_of_memory_counts_from_a_look_on() -> None:
    if not memory.resident():
        pytest.skip("the system does not tell")
    # a process of its own: the system may take pages of a large one back meanwhile
    program = """
import numpy as np
from dnnl_graph_ops.bench import memory
before = memory.resident()
held = np.ones(1 << 23)
assert memory.peak() - before > 0.9 * held.nbytes, (memory.peak(), before)
"""
    subprocess.run([sys.executable, "-c", program], check=True, timeout=60)
