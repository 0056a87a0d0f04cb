"""Layers in bf16 with and without "Winograd bf16", compared with PyTorch, on one thread.

`python benchmarks/winograd_bf16.py FILE` times forward of the suite's layers of both ops, with algorithm="fast", to
which that algorithm applies, with constant weights and channels last; it writes FILE (JSON) and prints the means. Times
are the process's, medians of rounds in which all take turns; results are compared with PyTorch's first. "product" is
the machine's own bf16 product: a pointwise convolution of 512 channels.
"""

from __future__ import annotations

import statistics
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch.nn import functional
from turns import Run, counts, in_turns, within

import dnnl_graph_ops as dgo
from dnnl_graph_ops.algorithms import table
from dnnl_graph_ops.bench import times
from dnnl_graph_ops.bench.document import json_lines
from dnnl_graph_ops.bench.problem import OPS, Problem
from dnnl_graph_ops.bench.suite import real_layers

NAME = "Winograd bf16"
GMACS = 1.0  # layers are halved down to this
SECONDS, LEAST, BURST = 0.25, 5, 2e-3
BF16 = dgo.dtypes.numpy_dtype("bf16")
CLOSE = 0.06  # of the largest result
Row = dict[str, Any]


def without(compiled: Callable[[], Any]) -> Any:
    """Returns what the function returns while no layer may take the algorithm."""
    ours = [algorithm for algorithm in table.ALGORITHMS if algorithm.name == NAME]
    for algorithm in ours:
        table.unregister(algorithm)
    try:
        return compiled()
    finally:
        for algorithm in ours:
            table.register(algorithm)


def layers() -> Iterator[Problem]:
    env, _ = times.here("bf16", GMACS)
    for op in OPS:
        for layer in real_layers(op):
            small = times.smaller(layer, GMACS)
            if small is None or list(layer.pads_begin) != list(layer.pads_end):
                continue
            problem = times.described(small.adjoint, times.ASKED[op][0][0], "NXC", True, "bf16", run=False)
            if NAME in times.applicable(problem, env):
                yield small


def product() -> tuple[Run, int]:
    """Returns the machine's own product, and its multiplications."""
    graph = dgo.Graph()
    x = graph.input("x", (1, 16, 16, 512), "bf16")
    w = graph.constant(np.ones((512, 512, 1, 1), BF16))
    y = dgo.ops.convolution(x, w, data_format="NXC", weights_format="OIX", name="product")
    net = graph.compile(y, algorithms={"product": "builtin bf16"})
    ones = np.ones(x.shape, BF16)
    return lambda: net(ones), 16 * 16 * 512 * 512


def runs_of(layer: Problem) -> tuple[dict[str, Run], str]:
    """Returns PyTorch's layer and ours, without the algorithm and with it, and the name of the chosen one."""
    rng, plain = np.random.default_rng(0), layer.op == OPS[1]
    outer, inner = (layer.out_channels, layer.in_channels)[:: 1 if plain else -1]
    x = rng.standard_normal((layer.batch, *layer.spatial, layer.in_channels)).astype("f4")
    w = rng.standard_normal((outer, inner // layer.groups, *layer.kernel)).astype("f4")
    graph = dgo.Graph()
    attrs: dict[str, Any] = {"data_format": "NXC", "weights_format": "OIX" if plain else "IOX", "groups": layer.groups}
    for name in ("strides", "pads_begin", "pads_end", "dilations", *(() if plain else ("output_padding",))):
        attrs[name] = list(getattr(layer, name))
    op = dgo.ops.convolution if plain else dgo.ops.conv_transpose
    y = op(graph.input("x", x.shape, "bf16"), graph.constant(w.astype(BF16)), name="layer", **attrs)
    after, before = graph.compile(y, algorithm="fast"), without(lambda: graph.compile(y, algorithm="fast"))
    data = x.astype(BF16)
    without(lambda: before(data))  # its plan is made now
    function = getattr(functional, f"conv{'' if plain else '_transpose'}{len(layer.spatial)}d")
    last = {2: torch.channels_last, 3: torch.channels_last_3d}.get(len(layer.spatial), torch.contiguous_format)
    theirs = [
        torch.from_numpy(np.ascontiguousarray(array)).bfloat16().contiguous(memory_format=last)
        for array in (np.moveaxis(x, -1, 1), w)
    ]
    options: dict[str, Any] = {
        "stride": tuple(layer.strides), "padding": tuple(layer.pads_begin), "dilation": tuple(layer.dilations),
        "groups": layer.groups, **({} if plain else {"output_padding": tuple(layer.output_padding)}),
    }  # fmt: skip
    runs: dict[str, Run] = {
        "torch": lambda: function(*theirs, **options),
        "without": lambda: before(data),
        "with": lambda: after(data),
    }
    expected = runs["torch"]().float().numpy()
    result = np.moveaxis(np.asarray(after(data), "f4"), -1, 1)
    assert np.abs(result - expected).max() <= CLOSE * np.abs(expected).max(), layer.name
    return runs, after.explain().groups[0].formulation


def measured(layer: Problem, multiply: Run, multiplications: int) -> Row:
    runs, algorithm = runs_of(layer)
    runs = {"product": multiply, **runs}
    turns = in_turns(runs, counts(runs, BURST), within(SECONDS, LEAST, 99))
    times = {name: np.array(seconds) for name, seconds in turns.items()}

    def ratio(one: str, other: str) -> float:
        return round(statistics.median(times[one] / times[other]), 3)

    share = layer.macs / multiplications
    return {
        "layer": layer.name, "op": layer.op, "kernel": list(layer.kernel), "strides": list(layer.strides),
        "channels": [layer.in_channels, layer.out_channels], "spatial": list(layer.spatial), "algorithm": algorithm,
        "microseconds": {name: round(statistics.median(times[name]) * 1e6, 1) for name in runs},
        "torch over without, with": [ratio("torch", name) for name in ("without", "with")],
        "without over with": ratio("without", "with"),
        "share without, with": [round(share * ratio("product", name), 3) for name in ("without", "with")],
    }  # fmt: skip


def summary(rows: Sequence[Row]) -> Iterator[str]:
    def is_3x3(row: Row) -> bool:
        return row["op"] == OPS[1] and set(row["kernel"]) == {3} and set(row["strides"]) == {1}

    groups: dict[str, Callable[[Row], bool]] = {
        "ordinary": lambda row: row["op"] == OPS[1],
        "3 taps, stride 1": is_3x3,
        "the same, 256 channels or more": lambda row: is_3x3(row) and min(row["channels"]) >= 256,
        "transposed": lambda row: row["op"] == OPS[0],
    }
    for name, holds in groups.items():
        for taken in (False, True):
            selected = [row for row in rows if holds(row) and (not taken or row["algorithm"] == NAME)]
            means = [
                statistics.geometric_mean(row[key][i] if i is not None else row[key] for row in selected)
                for key, i in (
                    ("torch over without, with", 0), ("torch over without, with", 1), ("without over with", None),
                    ("share without, with", 0), ("share without, with", 1),
                )
            ]  # fmt: skip
            least = min(row["without over with"] for row in selected)
            cells = [f"{number:.2f}" for number in (*means[:3], least, *means[3:])]
            yield f"| {name}{', where it is chosen' if taken else ''} | {len(selected)} | {' | '.join(cells)} |"


def main(path: str) -> None:
    torch.set_num_threads(1)
    multiply, multiplications = product()
    with torch.inference_mode():
        rows = [measured(layer, multiply, multiplications) for layer in layers()]
    Path(path).write_text(json_lines({"rows": rows}, 3), "utf-8")
    print(*summary(rows), sep="\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
