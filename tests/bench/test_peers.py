"""The competitors that are installed compute what the reference does, each in a process as in a run."""

from __future__ import annotations

import importlib.metadata
import itertools
import re
from pathlib import Path

import numpy as np
import pytest

from dnnl_graph_ops.bench import data, pool, quantized, reference
from dnnl_graph_ops.bench.peers import builtin, registry
from dnnl_graph_ops.bench.peers.task import Task
from dnnl_graph_ops.bench.problem import OPS, Problem
from dnnl_graph_ops.errors import UnsupportedError

ROOT = Path(__file__).parents[2]
TRANSPOSED, ORDINARY = OPS
PEERS = [peer for peer in builtin.PEERS if peer.directions and (peer.default or peer.name == registry.OWN)]
PROBLEMS = (
    Problem("t1", 2, 6, 4, (9,), (4,), (2,), (1,), (2,), (1,), bias=True),
    Problem("t2", 1, 16, 32, (5, 6), (3, 3), (2, 1), (1, 0), (1, 1), (1, 0)),
    Problem("t2 grouped", 2, 8, 8, (6, 5), (3, 2), (2, 2), (1, 0), dilations=(1, 2), groups=4),
    Problem("t3", 1, 4, 6, (3, 4, 3), (2, 3, 2), (2, 1, 2)),
    Problem("t2 same", 1, 8, 4, (5, 6), (4, 4), (2, 2), (1, 1), bias=True),
    Problem("c1", 2, 6, 4, (12,), (5,), (2,), (1,), (3,), op=ORDINARY),
    Problem("c1 dilated", 1, 32, 32, (20,), (3,), pads_begin=(2,), dilations=(2,), bias=True, op=ORDINARY),
    Problem("c2 3x3", 2, 32, 32, (12, 13), (3, 3), pads_begin=(1, 1), bias=True, op=ORDINARY),
    Problem("c2 uneven", 1, 16, 8, (8, 9), (3, 4), (2, 2), (0, 2), (1, 0), op=ORDINARY),
    Problem("c2 1x1", 2, 16, 24, (7, 8), (1, 1), (2, 2), op=ORDINARY),
    Problem("c2 depthwise", 1, 16, 16, (9, 9), (5, 5), (1, 2), (2, 2), groups=16, bias=True, op=ORDINARY),
    Problem("c2 grouped", 1, 12, 24, (6, 7), (3, 3), (2, 1), (1, 1), groups=3, op=ORDINARY),
    Problem("c2 first", 1, 3, 16, (16, 16), (4, 4), (4, 4), op=ORDINARY),
    Problem("c3", 1, 4, 8, (5, 4, 6), (3, 2, 3), (2, 1, 1), (1, 0, 1), bias=True, op=ORDINARY),
)


def test_the_package_s_peers_load_by_the_entry_point_of_plugins(monkeypatch):
    declared = re.findall(r'bench_peers"\]\n(\w+) = "(.*)"\n', (ROOT / "pyproject.toml").read_text("utf-8"))
    assert declared == [(registry._OURS.name, registry._OURS.value)]
    other = importlib.metadata.EntryPoint("other", "bench.conftest:FAKE", registry._GROUP)
    thief = importlib.metadata.EntryPoint("thief", "bench.conftest:OWN", registry._GROUP)
    for found in ([], [registry._OURS], [other, thief, registry._OURS]):
        monkeypatch.setattr(importlib.metadata, "entry_points", lambda group, found=found: found)
        known = registry.peers()
        assert [*known.values()][: len(builtin.PEERS)] == [*builtin.PEERS]
        assert [*known][len(builtin.PEERS) :] == (["fake"] if found[1:] else [])


@pytest.mark.bench
@pytest.mark.parametrize("peer", PEERS, ids=[peer.name for peer in PEERS])
def test_a_peer_computes_what_the_reference_does(peer, tmp_path):
    reason = peer.missing()
    if reason:
        pytest.skip(reason)
    done = dict.fromkeys(OPS, 0)
    with pool.WorkerProcess(peer, 1, pool.cpu_list(1)) as worker:
        assert worker.ask("hello", timeout=180.0)["versions"]
        for problem in PROBLEMS:
            for direction in peer.directions:
                path = str(tmp_path / "expected.npy")
                np.save(path, reference.compute(problem, direction, data.operands(problem, direction)))
                for layout in peer.layouts:
                    weights = "constant" if direction == "fwd" else "variable"
                    task = Task(problem, direction, "f32", layout, weights, 1)
                    try:
                        worker.ask("prepare", timeout=60.0, task=task.as_dict())
                    except UnsupportedError:
                        continue
                    error = worker.ask("check", timeout=60.0, expected=path)["error"]
                    assert error <= max(data.TOLERANCE["f32"], peer.tolerance), (problem.name, direction, layout)
                    done[problem.op] += 1
    assert min(done.values()) > 0


def expected_in_integers(problem):
    """NumPy's QDQ: sums of integers, and one rounding."""
    layer = quantized.layer(problem)
    operands = data.operands(problem, "fwd", 0, quantized.DTYPE)
    sums = reference.compute(problem, "fwd", {name: array for name, array in operands.items() if name != "bias"})
    along = (1, -1, *(1,) * problem.rank)
    result = (sums.astype(np.int64) + operands.get("bias", np.zeros(problem.out_channels)).reshape(along)).astype(float)
    result *= layer.bias_scale.astype(float).reshape(along)
    return np.clip(np.rint(result / layer.dst_scale) + layer.dst_zero, 0, 255).astype(np.float32)


@pytest.mark.bench
@pytest.mark.parametrize("name", [peer.name for peer in PEERS if quantized.DTYPE in peer.dtypes])
def test_int8_layers_are_numpy_s_qdq(name, tmp_path):
    peer = registry.peers()[name]
    if reason := peer.missing():
        pytest.skip(reason)
    path = str(tmp_path / "expected.npy")
    with pool.WorkerProcess(peer, 1, pool.cpu_list(1)) as worker:
        worker.ask("hello", timeout=180.0)
        for problem in PROBLEMS:
            np.save(path, expected_in_integers(problem))
            for layout, options in itertools.product(peer.layouts, ({}, {"precision": "f32"})):
                task = Task(problem, "fwd", quantized.DTYPE, layout, "constant", 1, options)
                worker.ask("prepare", timeout=60.0, task=task.as_dict())
                error = worker.ask("check", timeout=60.0, expected=path)["error"]
                # a quantum, where halves are rounded otherwise; none is ours
                assert error <= (0 if name == registry.OWN and not options else data.TOLERANCE["int8"]), problem.name
        with pytest.raises(UnsupportedError, match="constant weights"):
            worker.ask("prepare", task=Task(PROBLEMS[0], "fwd", "int8", peer.layouts[0], "variable", 1).as_dict())


@pytest.mark.parametrize("name", ["ncnn", "mnn"])
def test_runtimes_for_inference_take_constant_weights_and_forward_only(name, tmp_path):
    peer = registry.peers()[name]
    assert (peer.directions, peer.dtypes, peer.layouts) == (("fwd",), ("f32",), ("packed",))
    reason = peer.missing()
    if reason:
        pytest.skip(reason)
    with pool.WorkerProcess(peer, 1, pool.cpu_list(1)) as worker:
        worker.ask("hello", timeout=180.0)
        with pytest.raises(UnsupportedError, match="constant ones only"):
            worker.ask("prepare", task=Task(PROBLEMS[0], "fwd", "f32", "packed", "variable", 1).as_dict())


@pytest.mark.bench
@pytest.mark.parametrize("name", ["torch-compile", "onnxruntime", "openvino"])
def test_narrow_dtypes_and_variable_weights(name, tmp_path):
    peer = registry.peers()[name]
    if reason := peer.missing():
        pytest.skip(reason)
    path = str(tmp_path / "expected.npy")
    with pool.WorkerProcess(peer, 1, pool.cpu_list(1)) as worker:
        worker.ask("hello", timeout=180.0)
        for number, dtype in enumerate(sorted({*peer.dtypes} - {quantized.DTYPE})):
            # a transposed and an ordinary layer, which take turns in either kind of weights
            for weights, problem in zip(("constant", "variable"), PROBLEMS[2::10][:: (-1) ** number], strict=True):
                np.save(path, reference.compute(problem, "fwd", data.operands(problem, "fwd")))
                task = Task(problem, "fwd", dtype, "NCX", weights, 1, peer.options)
                worker.ask("prepare", timeout=120.0, task=task.as_dict())
                error = worker.ask("check", timeout=60.0, expected=path)["error"]
                assert error <= 2 * data.TOLERANCE[dtype], (problem.name, dtype, weights)
