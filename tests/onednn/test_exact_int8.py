"""Which fused int8 partitions are trusted: a table that tells what the library does, and graphs that obey it."""

import itertools
import json
import os
import random
import re
from typing import Any

import numpy as np
import pytest
from children import check_right_cases, child

import dnnl_graph_ops as dgo
from dnnl_graph_ops import _core, ops
from dnnl_graph_ops.onednn import exact_int8
from dnnl_graph_ops.runtime import cache_files, cpu
from dnnl_graph_ops.trial import __main__ as trial
from dnnl_graph_ops.trial.combinations import combinations
from dnnl_graph_ops.trial.graphs import SIZES, Trial
from dnnl_graph_ops.trial.graphs import trial as drawn
from dnnl_graph_ops.trial.truth import right, truth

from .int8_cases import CASES, error_of


@pytest.mark.slow
@pytest.mark.parametrize("tune", ["heuristic", "off"])
@pytest.mark.parametrize("limit", ["DEFAULT", "AVX2"])
def test_what_the_library_gets_wrong(tune, limit):
    done = child("-m", "onednn.int8_cases", tune, ONEDNN_MAX_CPU_ISA=limit)
    off = dict(re.findall(r"^(.*): (.*)$", done.stdout, re.M))
    assert done.returncode == 0, f"exit {done.returncode} in {list(off)[-1:]}\n{done.stderr[-2000:]}"
    assert list(off) == list(CASES)
    assert {name: error for name, error in off.items() if error.startswith(("I", "U", "E")) or float(error) > 1} == {}


@pytest.mark.parametrize("tune", ["heuristic", "off"])
@pytest.mark.parametrize(
    "name", ["means of u8 to s8", "maxima of u8 to s8", "data scaled along the sum", "weights of u8"]
)
def test_what_the_library_refuses_runs_op_by_op(monkeypatch, name, tune):
    monkeypatch.setattr(exact_int8, "trusted", lambda nodes, env: True)
    assert error_of(CASES[name], tune) <= 1


def refuse(*arguments, **keywords):
    raise dgo.Error("status 7")


def test_an_op_that_the_library_refuses_runs_in_numpy(monkeypatch, rng):
    monkeypatch.setattr(_core.Partition, "compile", refuse)
    graph = dgo.Graph()
    x = graph.input("x", (3, 5), "f32")
    net = graph.compile(ops.softmax(ops.exp(x) - x, axis=1), tune="off")
    data = rng.standard_normal((3, 5), np.float32)
    values = np.exp(np.exp(data) - data)
    np.testing.assert_allclose(net(data), values / values.sum(1, keepdims=True), rtol=1e-5)
    assert {step.step for step in net.explain().steps} == {"Exp (NumPy)", "Subtract (NumPy)", "SoftMax (NumPy)"}


def test_what_nothing_runs_is_named(monkeypatch):
    monkeypatch.setattr(_core.Partition, "compile", refuse)
    graph = dgo.Graph()
    y = ops.convolution(graph.input("x", (1, 5, 5, 3), "f32"), graph.input("w", (3, 3, 3, 4), "f32"))
    text = r"Convolution of f32: oneDNN 3\.\S+ on .* refuses it .*; use f32 there, or .*: status 7\)"
    with pytest.raises(dgo.UnsupportedError, match=text):
        graph.compile(y, tune="off")


# ---- the table -------------------------------------------------------------------------------------------------------

ISA = cpu.isa(dgo.engine())
LIMIT = os.environ.get("ONEDNN_MAX_CPU_ISA", "DEFAULT")
LIBRARIES = ("omp", "3.2.0"), ("sycl", "3.13.2")
RELEASE = dgo.engine().runtime.cpu_runtime, dgo.engine().runtime.version


@pytest.mark.parametrize("library", LIBRARIES)
def test_the_package_s_table_has_combinations_that_were_tried(library):
    content = cache_files.read(exact_int8.package_file(*library))
    heads = {row.head for row in combinations()}
    for table in content["tables"]:
        parsed = exact_int8.parse(table)
        assert {head for box in parsed.exact for head in box[0]} <= heads
        assert set(table["isa"]) <= {row.name for row in cpu.SETS} & content["tried"].keys()
    assert all(counts["exact"] and counts["wrong"] for counts in content["tried"].values())


@pytest.mark.slow
def test_the_table_says_what_the_library_does(seed):
    """A sample, tried in another process in all sizes."""
    print(f"--seed={seed}")
    rows = random.Random(seed).sample(combinations(), 96)
    said = [list(trial._tried(rows, size, None, LIMIT)) for size in range(len(SIZES))]
    verdicts = [{verdict for _, verdict, _ in some} for some in zip(*said, strict=True)]
    table = exact_int8.table(*RELEASE, ISA)
    wrong = [(row, some) for row, some in zip(rows, verdicts, strict=True) if table.knows(row) and some != {"exact"}]
    assert not wrong
    assert not table.exact or any(map(table.knows, rows))


EACH_NET = 12


@pytest.mark.cases(48, 240, 10_800, each=EACH_NET)
@pytest.mark.parametrize("tune", ["heuristic", "off"])
def test_nets_of_the_combinations_are_right(tune, start, seed):
    """Whatever the library makes of them."""
    rows = random.Random(seed).sample(combinations(), start + EACH_NET)
    for number, row in enumerate(rows[start:], start):
        made = drawn(row, SIZES[number % len(SIZES)], number)
        net = made.graph.compile(made.result, tune=tune)
        found = net(**{value.name: array for value, array in made.data.items() if value.name in net.input_names})
        assert right(found, truth(made)), f"--seed {seed}, {number}: {row}"


def enlarging(spatial, channels, kernel, **attrs):
    """A layer of a decoder between integers, u8 by s8 without a bias; scales are powers of two, and sums exact."""
    graph, rng = dgo.Graph(), np.random.default_rng(3)
    shape = (1, *spatial, channels[0])
    x = graph.input("x", shape, "u8")
    weights = graph.constant(rng.integers(-127, 128, (*channels, *kernel)).astype(np.int8))
    factors = (ops.dequantize(value, scales=[2.0**-4], zps=[0]) for value in (x, weights))
    y = ops.conv_transpose(*factors, data_format="NXC", weights_format="IOX", **attrs)
    y = ops.quantize(y, dtype="u8", scales=[8.0], zps=[128])
    return Trial(graph, y, {x: rng.integers(0, 256, shape).astype(np.uint8)})


@pytest.mark.parametrize("tune", ["heuristic", "off"])
@pytest.mark.parametrize(
    "layer",
    [
        pytest.param(((43,), (64, 32), (16,), {"strides": 8, "pads_begin": 4, "pads_end": 4}), id="HiFiGAN_v2/ups1"),
        pytest.param(
            ((8, 16), (64, 16), (3, 3), {"strides": 2, "pads_begin": 1, "pads_end": 1, "output_padding": 1}),
            id="ERFNet/up2",
        ),
    ],
)
def test_layers_of_decoders_are_trusted(layer, tune):
    """Output padding that is no more than the padding at the end adds places that taps reach as they do others."""
    *sizes, attrs = layer
    enlarged = enlarging(*sizes, **attrs)
    row = exact_int8.features(enlarged.graph.nodes)
    assert row == ("ConvTranspose", len(sizes[0]), "strided", "u8", "s8", "", "", "u8 zp")
    for library in LIBRARIES:
        assert exact_int8.table(*library, "avx512_core_vnni").knows(row)
        assert not exact_int8.table(*library, "avx512_core").knows(row)
    wanted = np.clip(np.rint(truth(enlarged)), 0, 255)
    assert np.ptp(wanted) > 16
    np.testing.assert_array_equal(enlarged.graph.compile(enlarged.result, tune=tune)(*enlarged.data.values()), wanted)


@pytest.mark.parametrize(
    ("attrs", "form"),
    [
        ({}, ""), ({"dilations": 2, "pads_end": 1, "output_padding": 1}, "dilated"),
        ({"strides": 3}, "strided"), ({"strides": 2}, "strided uneven"),
        ({"strides": 2, "pads_begin": 1, "pads_end": 1, "output_padding": 1}, "strided"),
        # places that no tap reaches, at the end and between the taps
        ({"strides": 2, "output_padding": 1}, "strided gaps"),
        ({"strides": 2, "pads_end": (1, 0), "output_padding": (0, 1)}, "strided gaps"),
        ({"strides": 4, "pads_begin": 3}, "strided gaps"), ({"strides": (1, 4)}, "strided gaps uneven"),
    ],
)  # fmt: skip
def test_forms_of_transposed_convolutions(attrs, form):
    assert exact_int8.features(enlarging((5, 6), (4, 8), (3, 3), **attrs).graph.nodes).form == form


def test_groups_that_sum_channels_into_one_are_not_trusted():
    form = exact_int8.features(enlarging((5, 6), (4, 1), (3, 3), groups=2).graph.nodes).form
    assert form == "depthwise contracted"
    assert exact_int8.features(enlarging((5, 6), (4, 1), (3, 3), groups=4).graph.nodes).form == "depthwise"
    assert not any(form in box[2] for library in LIBRARIES for box in exact_int8.table(*library, "avx2").exact)


def test_results_of_any_size_are_not_trusted_everywhere():
    """The library of the extra `sycl` writes beyond memory where strides do not divide the sizes of the result."""
    row = exact_int8.features(enlarging((5,), (4, 8), (3,), strides=2).graph.nodes)
    bundled, sycl = (exact_int8.table(*library, "avx512_core_vnni") for library in LIBRARIES)
    assert bundled.knows(row)
    assert not sycl.knows(row)


@pytest.mark.slow
def test_combinations_are_drawn_with_their_features(seed):
    """In all sizes."""
    print(f"--seed={seed}")
    for row in random.Random(seed).sample(combinations(), 300):
        for size in SIZES:
            assert exact_int8.features(drawn(row, size).graph.nodes) == row, size


def test_a_crash_loses_one_combination(monkeypatch):
    rows = combinations()[:5]
    left = [3, 2]

    def child(given, size, path, limit):
        assert (size, path, limit) == (1, None, "AVX2")
        if left and len(given) > left[0]:
            left.pop(0)
            yield {"row": 0, "verdict": "exact", "kernel": "jit"}
        else:
            yield from ({"row": i, "verdict": "wrong", "kernel": "jit"} for i in range(len(given)))

    monkeypatch.setattr(trial, "_child", child)
    verdicts = [(row, verdict) for row, verdict, _ in trial._tried(rows, 1, None, "AVX2")]
    assert verdicts == list(zip(rows, ["exact", "crashed", "exact", "crashed", "wrong"], strict=True))


def test_boxes_are_the_combinations():
    rows = set(random.Random(1).sample(combinations(), 700))
    boxes = trial._boxes(rows)
    assert {exact_int8.Features(*values) for box in boxes for values in itertools.product(*box)} == rows
    assert len(boxes) < len(rows)


ROW = exact_int8.Features("MatMul", 2, "", "u8", "s8", "bias, ReLU", "", "f32")


@pytest.mark.parametrize(
    ("post_ops", "known"),
    [
        ("bias, ReLU", True), ("bias, Tanh", True), ("bias, Sigmoid, Multiply own", True), ("bias, Abs", False),
        ("bias, ReLU, Tanh", False), ("Tanh", False),
    ],
)  # fmt: skip
def test_what_is_as_good_as_relu(post_ops, known):
    table = exact_int8.Table({"MatMul": ["Tanh", exact_int8.SWISH]}, [tuple({value} for value in ROW)])
    assert table.knows(ROW._replace(post_ops=post_ops)) is known
    assert not table.knows(ROW._replace(post_ops=post_ops, head="Convolution"))


def test_the_user_s_table_comes_first(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    path = exact_int8.user_file(*RELEASE)
    path.parent.mkdir(parents=True)
    tables: list[dict[str, Any]] = [{"isa": ["other"], "like ReLU": {}, "exact": [[[value] for value in ROW]]}]
    path.write_text(json.dumps({"tables": tables}))
    find = exact_int8.table.__wrapped__
    assert find(*RELEASE, "other").knows(ROW)
    assert find(*RELEASE, ISA) == exact_int8.table(*RELEASE, ISA)
    assert not find("omp", "99.1.0", "other").exact
    tables[0]["exact"] = [[1]]
    path.write_text(json.dumps({"tables": tables}))
    with pytest.warns(RuntimeWarning, match="damaged and are ignored"):
        assert find(*RELEASE, "other") == exact_int8.table(*RELEASE, "other")


# ---- random graphs ---------------------------------------------------------------------------------------------------

EACH = 50


@pytest.mark.child
@pytest.mark.cases(50, 100, 10_000, each=EACH)
@pytest.mark.parametrize("limit", ["DEFAULT", "AVX2"])
def test_random_graphs_between_integers(seed, start, limit):
    check_right_cases("graph.quantized_graphs", seed, start, start + EACH, limit)


@pytest.mark.parametrize("known", [True, False])
def test_explain_tells_a_cpu_that_was_never_tried(known, monkeypatch):
    """Of nets that multiply integers; by a table that the test gives."""
    exact = [tuple(frozenset(["x"]) for _ in exact_int8.Features._fields)]
    monkeypatch.setattr(exact_int8, "table", lambda *names: exact_int8.Table({}, exact if known else ()))
    graph = dgo.Graph()
    floats = [ops.dequantize(graph.input(name, (4, 8, 8), "s8"), scales=[0.5]) for name in "ab"]
    texts = [graph.compile(ops.matmul(*floats)).explain(), graph.compile(ops.relu(floats[0])).explain()]
    word = f"never tried on {ISA}"
    assert [word in told.untried for told in texts] == [not known, False]
    assert [word in " ".join(str(told).split()) for told in texts] == [not known, False]
