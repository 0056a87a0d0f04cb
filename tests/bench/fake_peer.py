"""A competitor for tests: computes the truth, sleeps as told by the problem's name, fails as told by it."""

from __future__ import annotations

import os
import time

import numpy as np

from dnnl_graph_ops.bench import reference
from dnnl_graph_ops.bench.peers.task import Prepared, Task
from dnnl_graph_ops.errors import Error, UnsupportedError


def versions() -> dict[str, str]:
    return {"fake": "1.0"}


def prepare(task: Task) -> Prepared:
    name = task.problem.name
    if "unsupported" in name:
        raise UnsupportedError("not this one")
    if "broken" in name:
        raise Error("it broke")
    if "dies" in name:
        os._exit(7)
    if "sleeps" in name:
        time.sleep(600)
    print("noise on stdout that must not reach the protocol")
    result = reference.compute(task.problem, task.direction, task.operands())
    if "wrong" in name:
        result = result + 1
    if "rough" in name and task.layout == "NCX" and not task.options:
        result = result * np.float32(1.01)
    held: dict[str, np.ndarray] = {}

    # our side has two layouts and is quick; the other may be told to be slow
    pauses = [0.0005]
    if task.layout == "NCX" and not task.options:
        pauses = [0.35] if "slow" in name else [0.35, 0.0005] if "cold" in name else pauses

    def run() -> None:
        time.sleep(pauses[0] if len(pauses) == 1 else pauses.pop(0))
        held["out"] = result

    return Prepared(run, lambda: held["out"], "fake", held.clear, lambda count: [0.0004] * count)
