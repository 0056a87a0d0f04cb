"""The zoo: every model is built and exported, and runs here as it does in PyTorch."""

from __future__ import annotations

import numpy as np
import pytest

import dnnl_graph_ops as dgo
from dnnl_graph_ops.bench import data, zoo
from dnnl_graph_ops.errors import InvalidArgumentError
from dnnl_graph_ops.reports.tables import WIDTH

pytest.importorskip("torch")
onnx = pytest.importorskip("onnx")

from dnnl_graph_ops.bench.zoo import export  # noqa: E402


@pytest.mark.sweep(every=5)
@pytest.mark.parametrize("name", zoo.ENTRIES)
def test_a_model_gives_pytorchs_numbers(name: str) -> None:
    path = export.path(name, small=True)
    onnx.checker.check_model(str(path))
    with np.load(path.with_suffix(".npz")) as held:
        given, expected = ([held[key] for key in data.numbered(held, letter)] for letter in "xy")
    assert [array.shape for array in given] == list(zoo.shapes(name, small=True))
    assert all(np.isfinite(array).all() and array.std() > 0.01 for array in expected)
    try:
        net = dgo.from_onnx(str(path)).compile()
    except dgo.UnsupportedError as error:
        pytest.skip(str(error).splitlines()[-1])
    made = net(*given)
    for one, other in zip(made if isinstance(made, tuple) else (made,), expected, strict=True):
        assert data.relative_error(one, other) < 1e-4


@pytest.mark.sweep(every=5)
@pytest.mark.parametrize("name", zoo.ENTRIES)
def test_reports_of_a_model_fit_in_120_columns(name: str) -> None:
    net = dgo.from_onnx(str(export.path(name, small=True))).compile()
    times = net.profile(*export.inputs(name, small=True), repeat=1)
    for text in (str(net.explain()), str(times)):
        assert max(map(len, text.splitlines())) <= WIDTH


def test_a_file_is_made_once_and_again_where_it_is_gone() -> None:
    path = export.path("fsrcnn", small=True)
    before = path.stat().st_mtime_ns
    assert export.path("fsrcnn", small=True).stat().st_mtime_ns == before
    path.unlink()
    assert export.path("fsrcnn", small=True) == path
    assert path.exists()


def test_an_unknown_model_is_named() -> None:
    with pytest.raises(InvalidArgumentError, match=r"'alexnet' is not in the zoo; known: .*resnet18"):
        zoo.build("alexnet")
