"""What the cost model's choices cost on machines whose times were recorded: tests/lowering/times/*.json.

A row holds the least seconds of every formulation of one layer of the suite, which were run in turn; each file says on
which CPU, with which library, and how far layers were halved.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import dnnl_graph_ops as dgo
from dnnl_graph_ops.bench.fit import described, mean, smaller
from dnnl_graph_ops.bench.suite import real_layers
from dnnl_graph_ops.lowering.env import Env
from dnnl_graph_ops.lowering.registry import FORMULATIONS

TIMES = Path(__file__).with_name("times")
# file, instruction set, and what choosing may cost in the mean: today's constants were fitted on another machine
MACHINES = (("zen5_f32.json", "avx512_core_bf16", {"forward": 1.16, "backward_data": 1.1, "backward_weights": 1.14}),)


class Recorded(Env):
    """The environment of a recorded machine, as far as estimates ask."""

    isa = ""


@pytest.mark.parametrize(("name", "isa", "limits"), MACHINES)
def test_choices_by_estimates(name, isa, limits):
    recorded = json.loads((TIMES / name).read_text("utf-8"))
    layers = {layer.name: layer for layer in real_layers()}
    env = type("Here", (Recorded,), {"isa": isa})(dgo.engine("cpu"), 2)
    losses = {direction: [] for direction in limits}
    for row in recorded["rows"]:
        layer = smaller(layers[row["layer"]], recorded["max_gmacs"])
        problem = described(layer, row["direction"], row["layout"], row["constant"])
        forms = [f for f in FORMULATIONS if f.direction == row["direction"] and f.name in row["seconds"]]
        assert len(forms) == len(row["seconds"]), "a form was renamed: measure again, or rename it in the file"
        chosen = min(forms, key=lambda form: form.seconds(problem, env))
        times = row["seconds"][chosen.name] / min(row["seconds"].values())
        losses[row["direction"]].append((times, row["layer"], chosen.name, ""))
    for direction, limit in limits.items():
        worst = sorted(losses[direction], reverse=True)[:5]
        print(f"{name}, {direction}: {mean(losses[direction]) - 1:.1%} in the mean; the worst: {worst}")
        assert mean(losses[direction]) < limit
