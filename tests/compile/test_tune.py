"""tune="measure": the winner computes the same, is remembered in a file, and a damaged file is no fault."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
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


def test_a_damaged_file_is_measured_anew(folder: Path, seed: int) -> None:
    rng = np.random.default_rng(seed)
    src, weights = integers(rng, (2, 6, 5, 16)), integers(rng, (4, 4, 24, 16))
    layer("measure", weights)(src)
    for file in folder.glob("*.json"):
        file.write_text("{", "utf-8")
    with pytest.warns(RuntimeWarning, match="damaged"):
        net = layer("measure", weights)
    np.testing.assert_array_equal(net(src), layer("off", weights)(src))
