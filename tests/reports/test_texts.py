"""What explain() and profile() print of a net: ops, algorithms and operands in the graph's terms, in 120 columns."""

import re

import numpy as np
import pytest

import dnnl_graph_ops as dgo
from dnnl_graph_ops import ops
from dnnl_graph_ops.compile import tune
from dnnl_graph_ops.reports import peaks
from dnnl_graph_ops.reports.tables import WIDTH, table, with_short_names

SAME = {"pads_begin": 1, "pads_end": 1}
SHAPES = {"x": (1, 8, 8, 16), "w": (3, 3, 16, 16), "y": (1, 8, 8, 16)}


@pytest.fixture(autouse=True)
def given_peaks(monkeypatch):
    monkeypatch.setattr(peaks, "of_products", lambda engine, dtype, threads: peaks.Peak(1e11))
    monkeypatch.setattr(peaks, "of_copies", lambda engine, threads: peaks.Peak(3e10))


def ones(*shape):
    return np.ones(shape, np.float32)


def convolution(graph):
    return ops.relu(ops.convolution(graph.input("x", SHAPES["x"]), ones(*SHAPES["w"]), name="op", **SAME))


def matmul(graph):
    return ops.relu(ops.matmul(graph.input("x", (64, 16)), ones(16, 24), name="op"))


def conv_transpose(graph):
    return ops.relu(ops.conv_transpose(graph.input("x", SHAPES["x"]), ones(3, 3, 8, 16), strides=2, name="op"))


def data_gradient(graph):
    return ops.convolution_backward_data(
        graph.input("dy", SHAPES["y"]), ones(*SHAPES["w"]), src_shape=SHAPES["x"], name="op", **SAME
    )


def weights_gradient(graph):
    x, dy = graph.input("x", SHAPES["x"]), graph.input("dy", SHAPES["y"])
    return ops.convolution_backward_weights(x, dy, weights_shape=SHAPES["w"], name="op", **SAME)


OWN_KIND = {
    convolution: "Convolution",
    matmul: "MatMul",
    conv_transpose: "ConvTranspose",
    data_gradient: "ConvolutionBackwardData",
    weights_gradient: "ConvolutionBackwardWeights",
}
# words that name another direction, or the other family
OTHER = re.compile(r"forward|backward|diff_|transpose|\bsrc\b|\bdst\b", re.IGNORECASE)


def described(build, **options):
    graph = dgo.Graph()
    net = graph.compile(build(graph), **options)
    arrays = [ones(*value.shape) for value in net.inputs]
    return net, net.explain(), net.profile(*arrays, repeat=1)


@pytest.mark.parametrize("build", OWN_KIND)
def test_each_algorithm_is_told_by_the_op_s_own_direction(build):
    net, *_ = described(build)
    names = [info.name for info in net.algorithms("op")]
    assert len(names) > 2
    for name in names:
        _, explained, times = described(build, algorithms={"op": name})
        for step in (*explained.steps, *times):
            assert step.of == f"{OWN_KIND[build]} op"
            assert step.algorithm == name
            assert not OTHER.search(step.step.replace(OWN_KIND[build], "")), (name, step)
        if build in (convolution, matmul):
            assert not OTHER.search(f"{explained}\n{times}"), name


def test_operands_are_named_with_their_shapes():
    graph = dgo.Graph()
    x = graph.input("image", (1, 16, 32, 32))
    weights = graph.constant(ones(3, 3, 16, 16), "kernel")
    y = ops.convolution(x, weights, graph.constant(ones(16), "bias"), data_format="NCX", name="conv", **SAME)
    y = ops.concat(ops.relu(y, name="act"), graph.input("skip", (1, 8, 32, 32)), axis=1, name="join")
    net = graph.compile(ops.max_pool(y, kernel=2, strides=2, pads_begin=0, pads_end=0, data_format="NCX"))
    steps = net.explain().steps
    assert any("image 1x16x32x32 f32" in step.reads for step in steps)
    assert any("skip 1x8x32x32 f32" in step.reads for step in steps)
    (product,) = (step for step in steps if "bias 16 f32" in step.reads)
    assert any(re.fullmatch(r"kernel 3x3x16x16 f32( packed)?", text) for text in product.reads)
    assert any(text.startswith("act 1x16x32x32 f32") for text in product.writes)
    (pool,) = (step for step in steps if step.of.startswith("MaxPool"))
    assert [text.split()[:3] for text in pool.reads] == [["join", "1x24x32x32", "f32"]]


def test_a_broadcast_operand_is_told_as_it_is():
    graph = dgo.Graph()
    bias = graph.constant(ones(8), "bias")
    net = graph.compile(ops.multiply(graph.input("x", (2, 6, 8)), ops.add(bias, graph.input("y", (8,)))))
    (last,) = (step for step in net.explain().steps if "x 2x6x8 f32" in step.reads)
    assert {text.split(" ", 1)[1] for text in last.reads} == {"2x6x8 f32", "8 f32"}


def test_layouts_are_told_where_not_row_major():
    graph = dgo.Graph()
    net = graph.compile(ops.relu(graph.input("x", (2, 3, 4, 5))))
    x = ones(2, 4, 5, 3).transpose(0, 3, 1, 2)
    net(x)
    assert net.explain().steps[0].reads == ("x 2x3x4x5 f32 acdb",)
    net(ones(2, 3, 4, 10)[..., ::2])
    assert net.explain().steps[0].reads == ("x 2x3x4x5 f32 strides 120x40x10x2",)


def vocoder(graph):
    """Long names, and residual blocks of several post-ops."""
    y = graph.input("mel", (1, 32, 16))
    attributes = {"data_format": "NCX", "weights_format": "OIX"}
    for i in range(2):
        scope = f"/vocoder/generator/upsampling_blocks.{i}"
        w = graph.constant(ones(32, 32, 4), f"vocoder.generator.upsampling_blocks.{i}.parametrized.original_weight")
        y = ops.conv_transpose(y, w, strides=2, name=f"{scope}/ConvTranspose", data_format="NCX", weights_format="IOX")
        for j in range(2):
            w = graph.constant(ones(32, 32, 3), f"{scope}.residual_blocks.{j}.convolution.original_weight")
            z = ops.convolution(ops.leaky_relu(y, alpha=0.1), w, name=f"{scope}/block.{j}/Conv", **SAME, **attributes)
            y = ops.add(ops.multiply(z, np.float32(0.5)), y, name=f"{scope}/residual_connection_of_block.{j}/Add")
    return y


@pytest.mark.parametrize("options", ({}, {"tune": "off"}, {"precision": "bf16"}), ids=str)
@pytest.mark.parametrize("build", (*OWN_KIND, vocoder))
def test_texts_fit_in_120_columns(build, options):
    for text in described(build, **options)[1:]:
        assert max(map(len, str(text).splitlines())) <= WIDTH


def test_every_fusion_group_is_listed_and_the_library_s_partitions_apart():
    graph = dgo.Graph()
    y = ops.relu(ops.convolution(graph.input("x", SHAPES["x"]), ones(*SHAPES["w"]), name="conv", **SAME), name="act")
    y = ops.softmax(ops.matmul(y, ones(16, 4), name="head"), axis=-1, name="end")
    net = graph.compile(y, algorithms={"conv": "builtin direct", "head": "builtin direct"})
    explained = net.explain()
    assert explained.partitions is explained.groups
    assert [group.ops for group in explained.groups] == [("conv", "act"), ("head",), ("end",)]
    assert all(group.formulation and group.steps for group in explained.groups)
    data = explained.to_dict()
    assert data["groups"] == data["partitions"] and len(data["groups"]) == 3
    by_library = {name for part in net.partitions for name in part.ops}
    assert "conv" not in by_library and by_library < {"conv", "act", "head", "end"}
    printed = str(explained)
    assert all(f" {name} " in printed for name in ("conv", "head", "end"))


@pytest.mark.parametrize("build", (convolution, conv_transpose))
def test_integer_products_are_told_as_such(build, rng):
    graph = dgo.Graph()
    net = graph.compile(build(graph))
    array = rng.random(SHAPES["x"], np.float32)
    int8 = dgo.quantize.calibrate(net, [array]).compile()
    (group,) = (group for group in int8.explain().groups if OWN_KIND[build] in group.kinds)
    assert group.compute_dtype in ("s8", "u8")
    (step,) = (step for step in int8.profile(array, repeat=1) if step.bound == "arithmetic")
    assert step.of == f"{OWN_KIND[build]} op" and step.step != "Dequantize"


@pytest.mark.parametrize("options", ({}, {"tune": "measure"}), ids=str)
@pytest.mark.parametrize("sizes", [(1, 64, 64), (1, None, None)])
def test_candidates_are_listed_best_first(sizes, options, tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    graph = dgo.Graph()
    x = graph.input("x", (*sizes, 32))
    net = graph.compile(ops.convolution(x, ones(3, 3, 32, 32), name="conv", **SAME), **options)
    for size in (64, 40, 17):
        if None not in sizes and size != 64:
            continue
        net(ones(1, size, size, 32))
        (group,) = net.explain().groups
        times = [seconds for _, seconds in group.candidates]
        assert times and times == sorted(times)
        assert group.formulation in dict(group.candidates)
        how = "measured" if group.measured else "estimated"
        # the constants may be another CPU's, which is told
        how += f" from {group.estimated_from}" if group.estimated_from else ""
        name, seconds = group.candidates[0]
        assert f"{how}: {name} ({seconds * 1e6:.0f} us)" in str(net.explain())


def test_what_nothing_measured_is_told_as_estimated(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(tune, "_race", lambda makers, budget: [])
    (group,) = described(convolution, tune="measure")[1].groups
    assert group.candidates and not group.measured


def test_tables_wrap_their_widest_columns():
    rows = [("step", "text"), ("a", "word " * 60), ("b", "short")]
    lines = list(table(rows, ("", "note " * 40)))
    assert max(map(len, lines)) <= WIDTH
    assert " ".join(lines).split() == ["step", "text", "a", *["word"] * 60, *["note"] * 40, "b", "short"]
    assert lines[-1].split() == ["b", "short"] and lines[-1].index("short") == lines[0].index("text")


def test_long_names_are_shortened_in_the_middle():
    name = "/vocoder/generator/upsampling_blocks.0/ConvTranspose_output_0"
    short = with_short_names(f"{name} 1x2 f32")
    assert short.endswith("ConvTranspose_output_0 1x2 f32") and short.startswith("/vocoder") and len(short) == 44
    assert with_short_names("x 1x2 f32") == "x 1x2 f32"


def test_a_result_that_is_copied_at_the_end_has_its_name_there():
    graph = dgo.Graph()
    x = graph.input("x", (1, 8, 12, 12))
    y = ops.convolution(x, ones(8, 8, 3, 3), data_format="NCX", weights_format="OIX", name="conv")
    pool = ops.max_pool(y, kernel=2, strides=2, pads_begin=0, pads_end=0, data_format="NCX", name="pool")
    *_, before, last = graph.compile(pool).explain().steps
    assert last.writes == ("pool 1x8x5x5 f32",)
    assert last.reads == before.writes == ("scratch of conv 1x8x5x5 f32 acdb",)
