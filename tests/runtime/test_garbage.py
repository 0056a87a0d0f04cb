"""Python's garbage collector rests while plans are built."""

from __future__ import annotations

import gc
import threading
from typing import Any

import pytest

import dnnl_graph_ops as dgo
from dnnl_graph_ops import ops
from dnnl_graph_ops.net.net import Net
from dnnl_graph_ops.runtime import garbage


def test_the_collector_rests_until_the_last_of_several_is_through() -> None:
    with garbage.paused():
        with pytest.raises(KeyError), garbage.paused():
            raise KeyError
        assert not gc.isenabled()
        context = garbage.paused()
        thread = threading.Thread(target=context.__enter__)
        thread.start()
        thread.join()
    # the thread has not left
    assert not gc.isenabled()
    garbage._after_fork()
    assert gc.isenabled()


def test_a_collector_that_is_disabled_stays_so() -> None:
    gc.disable()
    try:
        with garbage.paused():
            garbage._after_fork()
            assert not gc.isenabled()
        assert not gc.isenabled()
    finally:
        gc.enable()


@pytest.mark.parametrize(("options", "rests"), [({}, True), ({"tune": "measure"}, False)])
def test_compiles_collect_nothing_unless_they_measure(
    monkeypatch: pytest.MonkeyPatch, options: dict[str, Any], rests: bool
) -> None:
    seen = []
    build = Net._build
    monkeypatch.setattr(Net, "_build", lambda *args: seen.append(gc.isenabled()) or build(*args))
    graph = dgo.Graph()
    graph.compile(ops.relu(graph.input("x", (2, 3))), **options)
    assert seen == [not rests]
    assert gc.isenabled()
