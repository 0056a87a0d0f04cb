"""Files that tune="measure" remembers its winners in: whatever they hold, the net computes the same."""

from __future__ import annotations

import functools
import json
import os
import random
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

import dnnl_graph_ops as dgo
from dnnl_graph_ops.compile import tune
from hard.fuzz.mutators import changed_bytes

_DIRECT = "builtin direct"
_ODD = [
    None, True, -1, 0, 1e308, -1e308, float("nan"), float("inf"), 10**400, "", "\0", "\ud800", _DIRECT, "x" * 9000,
    [], [[]], {}, [None], [_DIRECT], [_DIRECT, 1], [_DIRECT, 1, 2], [[_DIRECT, "1"]],
    {_DIRECT: 1}, [[[_DIRECT], 1]], [[{}, {}]],
]  # fmt: skip


class Setting:
    """A small layer whose winner is in the only file of a folder of its own."""

    def __init__(self) -> None:
        self.folder = tempfile.TemporaryDirectory(prefix="hard_fuzz_tuning_")
        os.environ["XDG_CACHE_HOME"] = self.folder.name
        # one round, since a damaged file is measured anew
        tune.BUDGET, tune.ROUNDS = 0.0, 1
        rng = np.random.default_rng(0)
        self.src = rng.integers(-3, 4, (1, 4, 4, 8)).astype(np.float32)
        self.weights = rng.integers(-3, 4, (3, 3, 8, 8)).astype(np.float32)
        self.expected = self.net("off")(self.src)
        self.net("measure")
        (self.file,) = Path(self.folder.name).rglob("*.json")
        self.valid = self.file.read_bytes()

    def net(self, how: str) -> Any:
        graph = dgo.Graph()
        src = graph.input("src", self.src.shape)
        return graph.compile(dgo.ops.conv_transpose(src, graph.constant(self.weights), strides=2), tune=how)


setting = functools.cache(Setting)


def one(data: bytes) -> None:
    here = setting()
    here.file.write_bytes(data)
    result = here.net("measure")(here.src)
    if not np.allclose(result, here.expected, atol=1e-3):
        raise AssertionError("another result")


def change(rng: random.Random, data: bytes) -> bytes:
    """Faults in what a good file says: its rows, or the text."""
    try:
        rows = json.loads(data or setting().valid)
    except (ValueError, RecursionError):
        return changed_bytes(rng, data)
    places = list(_places(rows))
    kind = rng.randrange(6)
    if kind == 0 or not places:
        return changed_bytes(rng, data)
    if kind == 1:
        return json.dumps(rng.choice(_ODD)).encode()
    if kind == 2:
        return rng.choice((b"[", b'{"a":', b'[["x",')) * rng.choice((10, 1000, 200_000))
    container, key = rng.choice(places)
    container[key] = rng.choice(_ODD) if kind < 5 else container[rng.choice(list(_keys(container)))]
    return json.dumps(rows).encode()


def _keys(container: Any) -> Any:
    return container.keys() if isinstance(container, dict) else range(len(container))


def _places(node: Any) -> Any:
    if isinstance(node, list | dict):
        for key in _keys(node):
            yield node, key
            yield from _places(node[key])
