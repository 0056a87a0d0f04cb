"""Python's garbage collector rests while plans are built."""

from __future__ import annotations

import gc
import threading
import weakref
from collections.abc import Iterator
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


@pytest.fixture
def nothing_frozen(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Undoes that the test run froze what it had imported."""
    monkeypatch.setattr(garbage, "_frozen", False)
    monkeypatch.setattr(garbage, "_moved", 0)
    gc.unfreeze()
    gc.collect()
    yield
    gc.freeze()


def _cycles(count: int) -> list[weakref.ref[Any]]:
    """Returns references to garbage: objects that refer to themselves."""

    class Node:
        itself: Node

    nodes = [Node() for _ in range(count)]
    for node in nodes:
        node.itself = node
    return list(map(weakref.ref, nodes))


@pytest.mark.usefixtures("nothing_frozen")
def test_many_new_objects_are_not_looked_at_after_a_pause() -> None:
    collections = []
    gc.callbacks.append(lambda phase, info: collections.append(info["generation"]))
    try:
        with garbage.paused():
            dropped = _cycles(2 * garbage._MANY)
        more = [[] for _ in range(100)]
    finally:
        gc.callbacks.pop()
    assert not collections
    assert len(more) < len([one for one in dropped if one() is not None])
    gc.collect()
    assert all(one() is None for one in dropped)


@pytest.mark.usefixtures("nothing_frozen")
def test_moved_garbage_is_collected_in_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(garbage, "_most_moved", 4 * garbage._MANY)
    dropped = []
    for _ in range(5):
        with garbage.paused():
            dropped += _cycles(garbage._MANY)
    assert dropped[0]() is None


@pytest.mark.usefixtures("nothing_frozen")
def test_what_the_user_has_frozen_stays_so() -> None:
    gc.freeze()
    with garbage.paused():
        _cycles(2 * garbage._MANY)
    assert gc.get_freeze_count() > 0
