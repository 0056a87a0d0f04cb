"""PyTorch's modules against ours inside PyTorch: who runs, training steps, gradients, a run from start to end."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dnnl_graph_ops.bench import cases, cli, data, lineup, models, zoo
from dnnl_graph_ops.bench.document import Document
from dnnl_graph_ops.bench.options import Options
from dnnl_graph_ops.bench.peers import registry
from dnnl_graph_ops.bench.peers.task import ModelTask
from dnnl_graph_ops.bench.rows import Entry
from dnnl_graph_ops.errors import InvalidArgumentError

torch: Any = pytest.importorskip("torch")

from dnnl_graph_ops.bench.zoo import training  # noqa: E402

# one layer, and no ReLU whose input rounding could move to its other side
SMOOTH = "convtranspose1d"


def test_ours_is_the_optimized_module_in_both_layouts() -> None:
    (item,) = models.wanted([SMOOTH], train=True)
    (case,), _ = cases.expand([item], Options(train=True))
    peers, _ = registry.select(["all", "torch-compile"])
    own = registry.peers()[registry.OPTIMIZED]
    found = cases.entrants(case, own, peers, Options(train=True))
    assert [entrant.label for entrant in found][:2] == ["dgo NXC", "dgo NCX"]
    assert {entrant.side for entrant in found} == {"dgo", "torch", "torch-compile"}
    assert found[0].peer.module.endswith("pytorch_models")
    task = found[0].task(case, Options(train=True), 1)
    assert isinstance(task, ModelTask)
    assert task.train
    assert case.key == f"{SMOOTH} train|model|f32"
    inference = {entrant.side for entrant in cases.entrants(case, own, peers, Options(optimized=True))}
    assert "onnxruntime" in inference or not registry.select(["onnxruntime"])[0]


def test_options_that_contradict_each_other(capsys: pytest.CaptureFixture[str]) -> None:
    assert Options(train=True).optimized
    for wrong in ({"tune": ("off",)}, {"engine": "gpu"}):
        with pytest.raises(InvalidArgumentError, match=f"{next(iter(wrong))} and optimized: leave one out"):
            Options(optimized=True, **wrong)  # type: ignore[arg-type]
    with pytest.raises(InvalidArgumentError, match="sizes and train"):
        Options(train=True, sizes="1:4x2")
    assert cli.main(["--train", "--model", "nothing"]) == 2
    assert "not in the zoo" in capsys.readouterr().err
    assert cli.main(["--optimized", "--suite", "mb1ic8ih4oc8kh3ph1", "--peers", "none"]) == 2
    assert "models of the zoo" in capsys.readouterr().err


def test_a_training_step_has_its_own_batch() -> None:
    assert zoo.shapes("unet", train=True) == ((2, *zoo.shapes("unet")[0][1:]),)
    assert zoo.shapes("dcgan", train=True) == zoo.shapes("dcgan")


@pytest.mark.parametrize("name", ["dcgan", "unet", "wavenet", "centernet_head", "vae_decoder"])
def test_gradients_are_over_their_scales(name: str) -> None:
    held = training.arrays(name, small=True)
    gradients = [held[key] for key in data.numbered(held, "y")]
    count = len(list(zoo.build(name, small=True).parameters()))
    assert len(gradients) == len(held["s"]) == count
    largest = [np.abs(each).max() for each in gradients]
    assert max(largest) == pytest.approx(1)
    assert sorted(largest)[count // 2] == pytest.approx(1)
    assert [held[key].shape for key in data.numbered(held, "x")] == list(zoo.shapes(name, small=True, train=True))


def test_the_first_step_can_be_repeated() -> None:
    held = training.arrays(SMOOTH, small=True)
    given, targets, expected = (
        [torch.from_numpy(held[key]) for key in data.numbered(held, letter)] for letter in ("x", "t", "y")
    )
    module = training.trained(zoo.build(SMOOTH, small=True))
    before = module.weight.detach().clone()
    step = training.Step(module, given, targets)
    for _ in range(3):
        step()
    assert not torch.equal(module.weight, before)
    step.restart()
    assert torch.equal(module.weight, before)
    assert all(np.abs(each).max() == 0 for each in step.gradients())
    step()
    for one, other in zip(training.scaled(step.gradients(), held["s"]), expected, strict=True):
        assert data.relative_error(one, other.numpy()) < 1e-5


def test_ours_may_be_as_far_from_the_truth_as_pytorchs_layouts() -> None:
    errors = {"dgo NXC": 3e-5, "dgo NCX": 5e-5, "torch NXC": 1e-5, "torch NCX": 2e-6, "onnxruntime NCX": 1e-4}
    entries = [Entry(label, *label.split(), "ok", error=error) for label, error in errors.items()]
    models.hold_to_torch(entries)
    assert [entry.status for entry in entries] == ["ok", "wrong", "ok", "ok", "ok"]
    assert "off by 5e-05 of the largest expected value, PyTorch's layouts by 1e-05" in entries[1].reason
    entries[1].status = "ok"
    models.hold_to_torch(entries, train=True)
    assert entries[1].status == "ok"
    alone = [Entry("dgo NXC", "dgo", "NXC", "ok", error=5e-4)]
    models.hold_to_torch(alone)
    assert alone[0].status == "ok"


@pytest.mark.bench
@pytest.mark.parametrize("mode", ["--optimized", "--train"])
def test_a_run_from_start_to_end(
    mode: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("dnnl_graph_ops.torch")
    pytest.importorskip("onnx")
    # on a busy machine a side may seem hopelessly slow
    monkeypatch.setattr(lineup, "_SLOW_SECONDS", 60.0)
    file = str(tmp_path / "result.json")
    options = ["--quick", "--peers", "torch,mnn", "--threads", "1", "--case-seconds", "0.4", "--json", file]
    assert cli.main([mode, "--model", "dcgan", *options]) == 0
    document = Document.load(file)
    (row,) = document
    assert row.name == ("dcgan train" if mode == "--train" else "dcgan")
    entries = {entry.label: entry for entry in row.entries if entry.peer != "mnn"}
    assert set(entries) == {"dgo NXC", "dgo NCX", "torch NXC", "torch NCX"}
    for entry in entries.values():
        assert entry.status == "ok", entry.reason
        assert entry.error is not None
        assert entry.error < 1e-4
    ratio = row.ratio("torch")
    assert ratio is not None
    assert 0 < ratio.low <= ratio.median <= ratio.high
    out = capsys.readouterr().out
    assert f"{ratio.median:.2f} [{ratio.low:.2f} {ratio.high:.2f}]" in out
    assert "dnnl_graph_ops" in document.versions[registry.OPTIMIZED]
