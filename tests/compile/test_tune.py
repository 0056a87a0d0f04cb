"""tune="measure": the winner computes the same, is remembered in a file, and a damaged file is no fault."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from children import child
from reference.data import integers

import dnnl_graph_ops as dgo
from dnnl_graph_ops.compile import tune


def layer(how: str, weights: np.ndarray) -> Any:
    graph = dgo.Graph()
    src = graph.input("src", (2, 6, 5, 16))
    return graph.compile(dgo.ops.conv_transpose(src, graph.constant(weights), strides=2, pads_begin=1), tune=how)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return tune.folder()


def test_what_was_measured_is_right_and_remembered(folder: Path, monkeypatch: pytest.MonkeyPatch, seed: int) -> None:
    rng = np.random.default_rng(seed)
    src, weights = integers(rng, (2, 6, 5, 16)), integers(rng, (4, 4, 24, 16))
    plain = layer("off", weights)
    measured = layer("measure", weights)
    np.testing.assert_array_equal(measured(src), plain(src))
    assert list(folder.glob("*.json"))

    def again(*_: object) -> list[object]:
        raise AssertionError("measured once more")

    monkeypatch.setattr(tune, "_race", again)
    remembered = layer("measure", weights)
    np.testing.assert_array_equal(remembered(src), plain(src))


EXPLAINED = """
import numpy as np
import dnnl_graph_ops as dgo
graph = dgo.Graph()
src = graph.input("src", (2, 6, 5, 16), "{}")
weights = graph.input("weights", (4, 4, 24, 16), "{}")
net = graph.compile(dgo.ops.conv_transpose(src, weights, strides=2, pads_begin=1), tune="{}")
part = net.explain().partitions[0]
print(part.estimated_from, " from " in str(net.explain()), sep="|")
"""


@pytest.mark.child
@pytest.mark.parametrize(
    ("limit", "dtype", "how", "expected"),
    [
        ("SSE41", "f32", "heuristic", "avx2, f32|True"),
        ("SSE41", "bf16", "heuristic", "avx2, f32|True"),
        ("SSE41", "f32", "measure", "|False"),
        ("AVX2", "f16", "heuristic", "|False"),  # computed in f32
    ],
)
def test_explain_says_whose_estimates_they_are(folder: Path, limit: str, dtype: str, how: str, expected: str) -> None:
    done = child("-c", EXPLAINED.format(dtype, dtype, how), ONEDNN_MAX_CPU_ISA=limit, XDG_CACHE_HOME=str(folder))
    assert done.stdout.strip() == expected, done.stderr


def rows(*pairs: tuple[str, Any]) -> bytes:
    return json.dumps(pairs).encode()


GOOD = ("deconvolution", 1e-3)
DAMAGE = {
    "half": b"{",
    "empty": b"",
    "no rows": b"[]",
    "null": b"null",
    "a number": b"7",
    "an object": b"{}",
    "deep": b"[" * 60_000,
    "huge": b"[" + b" " * (1 << 22) + b"]",
    "bytes": b"\xff\xfe\x00",
    "negative": rows(("deconvolution", -1.0)),
    "zero": rows(("deconvolution", 0)),
    "NaN": rows(("deconvolution", float("nan"))),
    "infinity": rows(("deconvolution", float("inf"))),
    "overflow": b'[["deconvolution", 1e999]]',
    "large int": b'[["deconvolution", 1' + b"0" * 400 + b"]]",
    "endless int": b'[["deconvolution", ' + b"1" * 20_000 + b"]]",
    "true": rows(("deconvolution", True)),
    "text": rows(("deconvolution", "1e-3")),
    "twice": rows(GOOD, GOOD),
    "unknown form": rows(GOOD, ("sorcery", 1e-3)),
    "name no string": rows((["deconvolution"], 1e-3)),
    "three": b'[["deconvolution", 1e-3, 2]]',
    "letters": b'["ab", "cd"]',
}


def put(file: Path, damage: str) -> None:
    if damage == "folder":
        file.mkdir()
    elif damage == "pipe":
        os.mkfifo(file)
    else:
        file.write_bytes(DAMAGE[damage])


@pytest.mark.parametrize("damage", [*DAMAGE, "folder", "pipe"])
def test_a_damaged_file_is_ignored(tmp_path: Path, damage: str) -> None:
    put(tmp_path / "file.json", damage)
    with pytest.warns(RuntimeWarning, match=r"file\.json is damaged and is ignored"):
        assert tune._load(tmp_path / "file.json", {"deconvolution", "phases"}) is None


@pytest.mark.parametrize("damage", ["half", "no rows", "deep", "folder"])
def test_a_damaged_file_is_measured_anew(folder: Path, damage: str, seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tune, "_race", lambda makers, budget: [(name, 1.0) for name in makers])
    rng = np.random.default_rng(seed)
    src, weights = integers(rng, (2, 6, 5, 16)), integers(rng, (4, 4, 24, 16))
    layer("measure", weights)
    (file,) = folder.glob("*.json")
    file.unlink()
    put(file, damage)
    with pytest.warns(RuntimeWarning, match="damaged"):
        net = layer("measure", weights)
    np.testing.assert_array_equal(net(src), layer("off", weights)(src))
    assert [one.name for one in folder.iterdir()] == [file.name]


def test_a_form_without_room_is_no_candidate(folder: Path, seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    plain = tune.runner_of

    def cramped(problem: Any, env: Any, form: Any) -> Any:
        if form.name != "deconvolution":
            raise MemoryError
        return plain(problem, env, form)

    monkeypatch.setattr(tune, "runner_of", cramped)
    rng = np.random.default_rng(seed)
    src, weights = integers(rng, (2, 6, 5, 16)), integers(rng, (4, 4, 24, 16))
    np.testing.assert_array_equal(layer("measure", weights)(src), layer("off", weights)(src))
    (file,) = folder.glob("*.json")
    assert [name for name, _ in json.loads(file.read_text("utf-8"))] == ["deconvolution"]


def test_a_file_of_other_algorithms_is_not_read(
    folder: Path, tmp_path: Path, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    weights = integers(np.random.default_rng(seed), (4, 4, 24, 16))
    monkeypatch.setattr(tune, "_race", lambda makers, budget: [(name, 1.0) for name in makers])
    layer("measure", weights)
    copied = tuple(tmp_path / room.name for room in tune.SOURCES)
    for source, target in zip(tune.SOURCES, copied, strict=True):
        shutil.copytree(source, target)
    monkeypatch.setattr(tune, "SOURCES", copied)
    for counted in (1, 2):
        tune._sources.cache_clear()
        layer("measure", weights)
        assert len(list(folder.glob("*.json"))) == counted
        with (copied[0] / "subpixel.py").open("a") as file:
            file.write("# another way\n")
    tune._sources.cache_clear()


def test_folders_that_times_depend_on_exist() -> None:
    assert [folder.name for folder in tune.SOURCES if not list(folder.glob("*.py"))] == []


def several(how: str, x: np.ndarray) -> tuple[Any, Any]:
    """Layers of two sizes and a product with post-ops, and the result."""
    graph = dgo.Graph()
    few, many = (np.ones((3, 3, channels, 8), np.float32) for channels in (8, 32))
    small = dgo.ops.abs(dgo.ops.conv_transpose(graph.input("x", x.shape), few, pads_begin=1, pads_end=1))
    large = dgo.ops.conv_transpose(small, many, strides=2, pads_begin=1, name="large")
    factor = np.full((32, 4), 1e-4, np.float32)
    product = dgo.ops.abs(dgo.ops.square(dgo.ops.matmul(large, graph.input("factor", factor.shape))))
    net = graph.compile(product, tune=how)
    return net, net(x, factor)


def test_the_heaviest_is_measured_first(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    raced = []
    real = tune.choose
    monkeypatch.setattr(tune, "choose", lambda problem, *rest: raced.append(problem.macs) or real(problem, *rest))
    x = np.ones((1, 6, 5, 8), np.float32)
    net, result = several("measure", x)
    assert len(raced) == 2 and raced[0] > raced[1]
    assert [part.measured for part in net.explain().partitions[:2]] == [True, True]
    np.testing.assert_allclose(result, several("off", x)[1], rtol=1e-5)


def test_what_the_budget_does_not_reach_keeps_its_estimate(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tune, "GRAPH_BUDGET", -1.0)
    x = np.ones((1, 6, 5, 8), np.float32)
    net, result = several("measure", x)
    assert not any(part.measured for part in net.explain().partitions)
    assert not folder.exists() or not list(folder.iterdir())
    np.testing.assert_array_equal(result, several("heuristic", x)[1])


@pytest.mark.parametrize("fastest", [tune.WHOLE, tune.PARTS])
def test_partitions_are_measured_against_their_parts(
    folder: Path, monkeypatch: pytest.MonkeyPatch, fastest: str
) -> None:
    real = tune._race

    def race(makers: Any, budget: float) -> list[tuple[str, float]]:
        other = {tune.WHOLE: tune.PARTS, tune.PARTS: tune.WHOLE}[fastest]
        return [(fastest, 1.0), (other, 2.0)] if fastest in makers else real(makers, budget)

    monkeypatch.setattr(tune, "_race", race)
    x = np.ones((1, 6, 5, 8), np.float32)
    for _ in range(2):  # the second time from the file
        net, result = several("measure", x)
        products = [part.kinds for part in net.partitions if "matmul_0" in part.ops]
        assert products == [("MatMul", "Square", "Abs") if fastest == tune.WHOLE else ("MatMul",)]
        np.testing.assert_allclose(result, several("off", x)[1], rtol=1e-5)
        monkeypatch.setattr(tune, "_race", lambda *asked: pytest.fail("measured once more"))
