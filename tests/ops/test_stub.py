"""The stub of the builders lists every one of them with its signature."""

from pathlib import Path

import dnnl_graph_ops as dgo
from dnnl_graph_ops.ops import stubs


def test_stub_is_up_to_date():
    stub = Path(dgo.ops.__file__).with_suffix(".pyi").read_text(encoding="utf-8")
    assert stub == stubs.text(), "run python -m dnnl_graph_ops.ops.stubs > dnnl_graph_ops/ops/__init__.pyi"


def test_every_builder_is_there():
    for name in dgo.ops.__all__:
        assert callable(getattr(dgo.ops, name)), name
        assert f"{name}" in stubs.text()
