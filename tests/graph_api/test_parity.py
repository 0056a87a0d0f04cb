"""Graphs are cut as the C API cuts them, by both libraries and both policies: ctypes beside graph_api."""

import json
import subprocess
import sys

import numpy as np
import pytest
from children import TESTS, surroundings
from corpora.cases import FOLDER, needed

import dnnl_graph_ops as dgo
from dnnl_graph_ops.graph_api import engine, graph, op, partition
from dnnl_graph_ops.runtime.defects import Edges, crashes_matcher

from .common import LT, RUNTIMES, runtime_or_skip, strided

FILES = sorted(map(str, FOLDER.glob("graph_json*/**/*.json"))) if FOLDER else []
POLICIES = 2


def cut(runtime, lines):
    """What graphs of files or random numbers are cut into, in a process of its own: the C API may end it."""
    done = subprocess.run(
        [sys.executable, "-m", "graph_api.parity", runtime_or_skip(runtime)],
        input="\n".join(lines),
        cwd=TESTS,
        env=surroundings(),
        capture_output=True,
        text=True,
        timeout=500,
    )
    assert done.returncode == 0, f"exit {done.returncode}\n{done.stderr[-3000:]}"
    counted = json.loads(done.stdout.splitlines()[-1])
    assert counted.pop("differences") == []
    assert counted["graphs"] == POLICIES * len(lines)
    return counted


@needed
@pytest.mark.corpus
@pytest.mark.parametrize("runtime", RUNTIMES)
def test_every_file(runtime, figures):
    assert len(FILES) == 345
    counted = cut(runtime, FILES)
    figures(**counted)
    # the library lacks ops or attributes of the others
    assert counted["refused"] <= POLICIES * (3 if runtime == "sycl" else 96) and counted["partitions"] > 1000


@pytest.mark.child
@pytest.mark.parametrize("runtime", RUNTIMES)
def test_random_graphs(runtime, seed, figures):
    counted = cut(runtime, [f"{seed} {number}" for number in range(800)])
    figures(**counted)
    assert counted["refused"] == 0 and counted["spared"] < 0.02 * counted["graphs"]
    assert counted["partitions"] > 4 * counted["graphs"] and counted["supported"] > 3 * counted["graphs"]


@pytest.mark.slow
def test_some_random_graphs(seed):
    """The bundled library alone, in a few seconds."""
    assert cut("omp", [f"{seed} {number}" for number in range(25)])["refused"] == 0


CONV = Edges("Convolution", [1, 2], [3])
DEQUANTIZE = Edges("Dequantize", [0], [1])
OTHER = Edges("Tanh", [3], [4])


@pytest.mark.parametrize(
    ("ops", "crashing"),
    [
        ([DEQUANTIZE, CONV, OTHER], [1]),
        ([CONV, OTHER, DEQUANTIZE], [0]),
        ([DEQUANTIZE, CONV], []),
        ([Edges("TypeCast", [0], [1]), CONV, OTHER], []),
        ([DEQUANTIZE, Edges("TypeCast", [5], [2]), CONV, OTHER], []),
        ([DEQUANTIZE, Edges("ConvTranspose", [1, 2], [3]), OTHER], []),
    ],
)
def test_what_crashes_the_matcher(ops, crashing):
    assert crashes_matcher(ops, (3, 13)) == crashing and crashes_matcher(ops, (3, 2)) == []


def test_nets_go_round_the_crash():
    """A net of these ops, which ended the process with oneDNN 3.13."""
    engine = dgo.engine("cpu", runtime=runtime_or_skip("sycl"))
    g = dgo.Graph(engine)
    x, w, z = g.input("x", (2, 4, 4, 3), "u8"), g.input("w", (1, 1, 3, 8)), g.input("z", (4,))
    y = dgo.ops.convolution(dgo.ops.dequantize(x, scales=[0.5], zps=[0]), w, weights_format="XIO")
    net = g.compile({"y": y, "t": dgo.ops.tanh(z)}, tune="off")
    ones = np.ones((1, 1, 3, 8), np.float32)
    y, _ = net(np.full((2, 4, 4, 3), 2, np.uint8), ones, np.zeros(4, np.float32))
    np.testing.assert_array_equal(y, np.full((2, 4, 4, 8), 3))


def test_get_partitions_refuses_what_crashes():
    runtime = runtime_or_skip("sycl")
    x, f, w, y = (
        strided(0, [2, 4, 4, 3], LT.s8),
        strided(1, [2, 4, 4, 3]),
        strided(2, [1, 1, 3, 8]),
        strided(3, [2, 4, 4, 8]),
    )
    conv = op(1, op.Convolution, [f, w], [y], "conv").set_attr(op.weights_format, "XIO")
    for name, value in {"strides": 1, "dilations": 1, "pads_begin": 0, "pads_end": 0}.items():
        conv.set_attr(op.attr[name], [value] * 2)
    g = graph(engine.cpu, runtime=runtime)
    g.add_op(op(0, op.Dequantize, [x], [f]).set_attr(op.scales, [0.5]).set_attr(op.zps, [0]))
    g.add_op(conv)
    g.add_op(op(2, op.End, [y]))
    g.finalize()
    with pytest.raises(dgo.UnsupportedError, match=r"op 1 \(Convolution 'conv'\).*partition\.debug"):
        g.get_partitions()
    assert len(g.get_partitions(partition.debug)) == 3
