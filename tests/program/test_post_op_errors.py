"""Post-ops behind every head over the whole range of a dtype, against float64 in units in the last place.

`python -m program.test_post_op_errors` in tests/ prints the table of docs/accuracy.md.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from bindings.test_epilogue import OF_KINDS
from reference.graph import evaluate_built

import dnnl_graph_ops as dgo
from dnnl_graph_ops import dtypes, ops, schema
from dnnl_graph_ops.ir.env import Env
from dnnl_graph_ops.onednn import exact_int8
from dnnl_graph_ops.onednn.ops import native_op
from dnnl_graph_ops.program import post_op_errors
from dnnl_graph_ops.program.post_op_errors import ALONE, MOST, Measured
from dnnl_graph_ops.runtime import cache_files, cpu
from dnnl_graph_ops.trial import post_op_table
from dnnl_graph_ops.trial.functions import FALLING, FUNCTIONS, errors, numbers
from dnnl_graph_ops.trial.graphs import SIZES, trial
from dnnl_graph_ops.trial.post_ops import CASES, DTYPES, TRIED, tried

Array = np.ndarray[Any, Any]
LIBRARIES = ("omp", "3.2.0"), ("sycl", "3.13.2")
# what builtin code keeps to in f32 where that is more: GELU takes e to the power of a square
BUILTIN = {"GELU": 200.0}
UNARY = [
    (kind, attrs)
    for kind in sorted(schema.POST_OPS - {"BiasAdd"})
    if not schema.OPS[kind].binary
    for attrs in TRIED.get(kind, [{}])
]


def convolution(graph: dgo.Graph, dtype: str, channels: int, layout: str, transposed: bool) -> Any:
    """A layer whose data is 0, so that its result is the bias."""
    kernel, size = (4, 3) if transposed else (3, 5)
    shape = (1, size, size, channels) if layout == "NXC" else (1, channels, size, size)
    x = graph.input("x", shape, dtype)
    weights = graph.constant(np.ones((channels, channels, kernel, kernel), dtypes.numpy_dtype(dtype)))
    bias = graph.input("bias", (channels,), dtype)
    build = ops.conv_transpose if transposed else ops.convolution
    order: Any = "IOX" if transposed else "OIX"
    return build(
        x, weights, bias, strides=2 if transposed else 1, pads_begin=1, pads_end=1, data_format=layout,
        weights_format=order,
    )  # fmt: skip


def matmul(graph: dgo.Graph, dtype: str, rows: tuple[int, ...], batched: bool = False) -> Any:
    x = graph.input("x", (*rows, 16), dtype)
    weights = graph.constant(np.ones((*(rows[:-1] if batched else ()), 16, 64), dtypes.numpy_dtype(dtype)))
    return ops.matmul(x, weights, graph.input("bias", (64,), dtype))


HEADS: dict[str, Callable[[dgo.Graph, str], Any]] = {
    "8 channels": lambda g, dtype: convolution(g, dtype, 8, "NXC", False),
    "8 channels first": lambda g, dtype: convolution(g, dtype, 8, "NCX", False),
    "48 channels": lambda g, dtype: convolution(g, dtype, 48, "NXC", False),
    "transposed": lambda g, dtype: convolution(g, dtype, 16, "NXC", True),
    "one row": lambda g, dtype: matmul(g, dtype, (1,)),
    "rows": lambda g, dtype: matmul(g, dtype, (4,)),
    "batches": lambda g, dtype: matmul(g, dtype, (2, 3), batched=True),
}


def largest_error(
    net: Any, values: Array, function: Callable[[Array], Array], dtype: str, kind: str = "", bound: float = MOST
) -> str:
    """Feeds values as the bias; returns the worst result, "" if all are within the bound in units in the last place."""
    x, bias = net.inputs
    zeros, width = np.zeros(x.shape, dtypes.numpy_dtype(dtype)), bias.shape[0]
    rows = np.resize(values, (-(-values.size // width), width)).astype(dtypes.numpy_dtype(dtype))
    worst, told = 0.0, ""
    for row in rows:
        out = np.asarray(net(zeros, row)).astype(np.float64)
        wide = row.astype(np.float64)
        if out.shape[-1] != width:
            out = np.moveaxis(out, 1, -1)
        with np.errstate(all="ignore"):
            exact = function(wide)
        error = errors(kind, dtype, out, *(np.broadcast_to(array, out.shape) for array in (exact, wide)))
        if error.max() > worst:
            place = np.unravel_index(np.argmax(error), error.shape)
            worst = float(error.max())
            told = f"{worst:.3g} units off: {wide[place[-1]]!r} gives {out[place]!r}, not {exact[place[-1]]!r}"
    return told if worst > bound else ""


def few(dtype: str, kind: str, count: int) -> Array:
    """Some of the numbers that are tried, always those that a library got wrong."""
    known = np.array([-15, -20, -12, -80, -1e-6, 1 + 2.0**-20, 1 - 2.0**-20, np.inf, -np.inf, np.nan, -7.6, 88.0])
    drawn = np.random.default_rng(7).choice(numbers(dtype), count)
    values = np.concatenate([known.astype(np.float32), drawn])
    if kind in FALLING:
        values = values[values != -np.inf]
    return values


@pytest.mark.sweep
@pytest.mark.parametrize("tune", ["heuristic", "off"])
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("head", HEADS)
@pytest.mark.parametrize(("kind", "attrs"), UNARY, ids=lambda one: one if isinstance(one, str) else "")
def test_post_ops_are_right_in_the_tails(kind, attrs, head, dtype, tune, amount):
    graph = dgo.Graph()
    product = HEADS[head](graph, dtype)
    net = graph.compile(getattr(ops, schema.OPS[kind].builder)(product, **attrs), tune=tune)
    values = few(dtype, kind, amount(40, 120, 4000))
    if tune == "off":
        values = values[np.isfinite(values)]
    if dtype == "bf16":
        # numbers below the smallest normal one count as zero, of which a root is no NaN
        values = values[(np.abs(values) >= 2.0**-126) | (values == 0) | np.isnan(values)]
    bound = BUILTIN.get(kind, MOST) if dtype == "f32" else MOST
    told = largest_error(net, values, lambda x: FUNCTIONS[kind](x, **attrs), dtype, kind, bound)
    assert not told, told


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(("kind", "attrs"), UNARY, ids=lambda one: one if isinstance(one, str) else "")
def test_infinities_behind_direct_convolutions(kind, attrs, dtype):
    """Of data: one output pixel reads an Inf, which algorithm="direct" spreads no farther."""
    graph = dgo.Graph()
    x = graph.input("x", (1, 6, 6, 8), dtype)
    w = graph.constant(np.ones((3, 3, 8, 8), dtypes.numpy_dtype(dtype)))
    product = ops.convolution(x, w, data_format="NXC", weights_format="XIO", name="head")
    net = graph.compile(getattr(ops, schema.OPS[kind].builder)(product, **attrs), algorithm="direct")
    data = np.full(x.shape, 0.125, dtypes.numpy_dtype(dtype))
    data[0, 0, 0, 3] = np.inf
    sums = np.full((1, 4, 4, 8), 9.0)
    sums[0, 0, 0] = np.inf
    wanted = FUNCTIONS[kind](sums, **attrs)
    assert errors(kind, dtype, net(data).astype(np.float64), wanted, sums).max() <= MOST


@pytest.mark.parametrize("tune", ["heuristic", "off"])
@pytest.mark.parametrize("head", HEADS)
def test_roots_and_logarithms_behind_soft_plus(head, tune):
    """Which were NaN where a library's SoftPlus was negative."""
    graph = dgo.Graph()
    soft = ops.softplus(HEADS[head](graph, "f32"))
    values = np.linspace(-60, 20, 200).astype(np.float32)
    soft_plus = FUNCTIONS["SoftPlus"]
    told = largest_error(graph.compile(ops.sqrt(soft), tune=tune), values, lambda x: np.sqrt(soft_plus(x)), "f32")
    assert not told, told
    graph = dgo.Graph()
    soft = ops.softplus(HEADS[head](graph, "f32"))
    told = largest_error(
        graph.compile(ops.log(soft), tune=tune), values[values < -1], lambda x: np.log(soft_plus(x)), "f32"
    )
    assert not told, told


@pytest.mark.parametrize("tune", ["heuristic", "off"])
@pytest.mark.parametrize("head", HEADS)
def test_mish_of_three_ops(head, tune):
    """As models of older opsets have it."""
    graph = dgo.Graph()
    x = HEADS[head](graph, "f32")
    net = graph.compile(ops.multiply(x, ops.tanh(ops.softplus(x))), tune=tune)
    values = np.linspace(-60, 20, 200).astype(np.float32)
    told = largest_error(net, values, FUNCTIONS["Mish"], "f32", "Mish")
    assert not told, told


# ---- attributes that are newer than the library ----------------------------------------------------------------------

NEWER = [
    (kind, name, value)
    for kind, op in schema.OPS.items()
    for name, attr in op.attrs.items()
    if attr.since > op.since
    for value in (attr.allowed or ())
]


@pytest.mark.parametrize(("kind", "name", "value"), NEWER)
def test_no_version_gets_an_attribute_that_it_lacks(kind, name, value):
    engine = dgo.engine()
    op, attr = schema.OPS[kind], schema.OPS[kind].attrs[name]
    attrs = schema.native_attrs(kind, {name: value}, engine.runtime.version_info)
    if engine.runtime.version_info < attr.since:
        assert (name in attrs) == (value != attr.default)
        assert (schema.availability(kind, [], engine.runtime.version_info, {name: value}) is None) == (
            value == attr.default
        )
    if value == attr.default and op.since <= engine.runtime.version_info:
        native_op(engine, kind, {name: value}, "", [], [])


def gelu(head: Any) -> Any:
    return ops.gelu(head, mode="gelu_tanh")


# an op with a newer attribute behind a product
BEHIND: dict[str, Callable[[Any, str], Any]] = {
    "GELU": lambda head, value: ops.gelu(head, mode=value),
    "GELUBackward": lambda head, value: ops.gelu_backward(head, ops.relu(head), mode=value),
    "SoftMax": lambda head, value: ops.softmax(head, axis=-1, mode=value),
    "MatMul": lambda head, value: ops.matmul(
        head, np.eye(int(head.shape[-1]), dtype=np.float32), accumulation_mode=value
    ),
}


@pytest.mark.sweep
@pytest.mark.parametrize(("tune", "policy"), [("heuristic", "fusion"), ("heuristic", "debug"), ("off", "fusion")])
@pytest.mark.parametrize("head", ["8 channels", "one row", "rows", "batches"])
@pytest.mark.parametrize(("kind", "name", "value"), NEWER)
def test_newer_attributes_in_fused_steps(kind, name, value, head, tune, policy, rng):
    graph = dgo.Graph()
    y = ops.relu(BEHIND[kind](HEADS[head](graph, "f32"), value))
    net = graph.compile(y, tune=tune, policy=policy)
    data = {v: rng.integers(-3, 4, v.shape).astype(np.float32) for v in net.inputs}
    np.testing.assert_allclose(net(*data.values()), evaluate_built(graph, data)[y], rtol=1e-4, atol=1e-4)


def test_newer_attributes_are_tried():
    assert {(kind, name) for kind, name, _ in NEWER} == {
        ("GELU", "mode"), ("GELUBackward", "mode"), ("SoftMax", "mode"), ("MatMul", "accumulation_mode"),
    }  # fmt: skip


@pytest.mark.parametrize("tune", ["heuristic", "off"])
@pytest.mark.parametrize("sizes", [(4, 8, 6), (16, 64, 256), (1, 64, 64), (77, 48, 96)])
def test_gelu_by_tanh_behind_products(sizes, tune, rng):
    m, k, n = sizes
    graph = dgo.Graph()
    x, w = graph.input("x", (m, k)), rng.standard_normal((k, n), np.float32) / np.float32(k**0.5)
    net = graph.compile(gelu(ops.matmul(x, graph.constant(w))), tune=tune)
    data = rng.standard_normal((m, k), np.float32)
    wanted = FUNCTIONS["GELU"](data.astype(np.float64) @ w.astype(np.float64), "gelu_tanh")
    np.testing.assert_allclose(net(data), wanted, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("tune", ["heuristic", "off"])
@pytest.mark.parametrize("head", HEADS)
@pytest.mark.parametrize("dtype", DTYPES)
def test_gelu_by_tanh_behind_every_head(head, dtype, tune):
    graph = dgo.Graph()
    net = graph.compile(gelu(HEADS[head](graph, dtype)), tune=tune)
    values = np.linspace(-3, 6, 40).astype(np.float32)
    told = largest_error(net, values, lambda x: FUNCTIONS["GELU"](x, "gelu_tanh"), dtype)
    assert not told, told


@pytest.mark.constants("avx512")
def test_gelu_by_tanh_is_fused_by_builtin_kernels():
    graph = dgo.Graph()
    x = graph.input("x", (1, 24, 24, 64))
    w = graph.constant(np.ones((3, 3, 64, 64), np.float32))
    y = ops.convolution(x, w, pads_begin=1, pads_end=1, data_format="NXC", weights_format="XIO")
    net = graph.compile(gelu(y), algorithms={y.node.name: "builtin direct"})
    assert [group.kinds for group in net.explain().groups] == [("Convolution", "GELU")]


# ---- the tables ------------------------------------------------------------------------------------------------------


@pytest.fixture(params=LIBRARIES, ids=lambda one: one[0])
def tables(request) -> Mapping[str, post_op_errors.Table]:
    content = cache_files.read(post_op_errors.package_file(*request.param))
    return {isa: post_op_errors.parse(one) for isa, one in content.items()}


@pytest.mark.parametrize("library", LIBRARIES)
def test_tables_have_every_post_op(library):
    content = cache_files.read(post_op_errors.package_file(*library))
    version = tuple(map(int, library[1].split(".")))
    named = {post_op_errors.name_of(kind, attrs) for kind, attrs in tried(version)}
    heads = {case.head for case in CASES}
    assert {"avx2", "avx512_core", "avx512_core_vnni", "avx512_core_bf16", "avx512_core_fp16"} <= set(content)
    assert set(content) <= {row.name for row in cpu.SETS}
    for isa, table in content.items():
        halves = [dtype for dtype in DTYPES if cpu.multiplies(dtype, isa)]
        assert set(table) == {f"{head} {dtype}" for head in heads for dtype in halves}
        for head, post_ops in table.items():
            # a library without a kernel of its own for roundings refuses those alone
            assert named - set(post_ops) <= ({"Round"} if head.startswith(ALONE) else set()), (isa, head)


def test_what_was_wrong_is_known_to_be(tables):
    for table in tables.values():
        for head in ("Convolution", "ConvTranspose", "MatMul", ALONE):
            for post_op in ("SoftPlus", "Log", "Mish", "GELU gelu_erf", "Elu"):
                assert table[head, "f32", post_op].ulps > MOST
            for post_op in ("Abs", "Add", "Multiply", "Subtract", "Divide", "Sqrt", "Square", "Round", "LeakyReLU"):
                assert table[head, "f32", post_op] == Measured(table[head, "f32", post_op].ulps)
                assert table[head, "f32", post_op].ulps <= 0.5
            for post_op in ("ReLU", "Clamp", "Maximum", "Exp"):
                assert table[head, "f32", post_op].nan


def test_what_is_good_behind_a_convolution_is_good_alone(tables):
    """Boxes of a transposed convolution that no tap reaches get post-ops as steps of their own."""
    for table in tables.values():
        for (head, dtype, post_op), measured in table.items():
            alone = table.get((ALONE, dtype, post_op))
            if head.startswith("Conv") and not measured.text and alone is not None:
                assert not alone.text, (head, dtype, post_op)


def env(tune: str = "heuristic") -> Env:
    return Env(dgo.engine(), 1, tune)


def test_a_library_that_was_not_measured_is_as_bad_as_the_worst(monkeypatch):
    monkeypatch.setattr(post_op_errors, "table", lambda *names: None)
    said = post_op_errors.refusal("SoftPlus", {}, "Convolution", "f32", env())
    assert "units in the last place off, as far as is known: oneDNN" in said and "was not measured with" in said
    assert not post_op_errors.refusal("Abs", {}, "Convolution", "f32", env())
    assert post_op_errors.refusal("ReLU", {}, "Convolution", "f32", env()).startswith(
        "the library's ReLU after its convolution in f32 makes a number of NaN"
    )


def test_worst_is_the_worst_of_each():
    tables = [cache_files.read(post_op_errors.package_file(*library)) for library in LIBRARIES]
    parsed = [post_op_errors.parse(one) for content in tables for one in content.values()]
    for key, measured in post_op_errors.worst().items():
        assert measured.ulps == max(one[key].ulps for one in parsed if key in one)


@pytest.mark.parametrize("tune", ["heuristic", "off"])
def test_reasons(tune):
    asked = env(tune)
    refused = {kind: post_op_errors.refusal(kind, {}, "MatMul", "f32", asked) for kind in ("ReLU", "SoftPlus", "Abs")}
    assert not refused["Abs"] and "SoftPlus after its MatMul in f32 is" in refused["SoftPlus"]
    # nothing but the library has a ReLU then
    assert bool(refused["ReLU"]) == (tune == "heuristic")
    assert post_op_errors.refusal("PReLU", {}, "MatMul", "f32", asked) == "the library has no post-op PReLU"
    assert post_op_errors.refusal("Abs", {}, "Convolution", "f8", asked).endswith("in f8 was not measured")
    newer = post_op_errors.refusal("GELU", {"mode": "gelu_tanh"}, "MatMul", "f32", asked)
    assert "needs oneDNN 3.9 or later" in newer or "units in the last place off" in newer


def test_the_user_s_table_comes_first(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(post_op_errors, "_content", post_op_errors._content.__wrapped__)
    find, head = post_op_errors.table.__wrapped__, ("MatMul", "f32")
    path = post_op_errors.user_file("omp", "3.2.0")
    path.parent.mkdir(parents=True)
    path.write_text(json.dumps({"other": {"MatMul f32": {"Log": [3, "lost"]}}}))
    assert find("omp", "3.2.0", "other", *head) == {(*head, "Log"): Measured(3.0, post_op_errors.LOST)}
    assert find("omp", "3.2.0", "other", "MatMul", "bf16") == {}
    assert find("omp", "3.2.0", "avx2", *head) == post_op_errors.table("omp", "3.2.0", "avx2", *head)
    assert find("omp", "99.1.0", "avx2", *head) is None
    path.write_text(json.dumps({"other": {"MatMul f32": {"Log": [3, "unknown"]}}}))
    with pytest.warns(RuntimeWarning, match="damaged and are ignored"):
        assert find("omp", "3.2.0", "other", *head) is None


def test_a_table_has_the_worst_of_all_cases():
    said = {"isa": "avx2", "head": "MatMul", "dtype": "f32", "kind": "Log", "lost": False, "made": False}
    lines = [said | {"ulps": 0.123}, said | {"ulps": 234.1, "lost": True}, said | {"refused": "no"}]
    assert json.loads(post_op_table.text(lines)) == {"avx2": {"MatMul f32": {"Log": [240.0, "lost"]}}}


def test_a_crash_loses_one_case(monkeypatch):
    left = [2]

    def child(path, limit, start):
        for number in range(start, post_op_table._PAIRS):
            yield {"next": number}
            if number in left:
                left.remove(number)
                return
            yield {"head": "MatMul", "number": number}

    monkeypatch.setattr(post_op_table, "_child", child)
    measured = [line["number"] for line in post_op_table._measured(None, "AVX2")]
    assert measured == [n for n in range(post_op_table._PAIRS) if n != 2]


@pytest.mark.slow
def test_the_table_says_what_the_library_does(seed):
    """A case of each head, measured in another process."""
    rng = np.random.default_rng(seed)
    print(f"--seed={seed}")
    engine = dgo.engine()
    library = engine.runtime.cpu_runtime, engine.runtime.version, cpu.isa(engine)
    limit = os.environ.get("ONEDNN_MAX_CPU_ISA", "DEFAULT")
    start = int(rng.integers(len(CASES)))
    for line in post_op_table._child(None, limit, start):
        if line.get("next", start) > start:
            break
        if "ulps" in line:
            attrs = {"mode": line["mode"]} if "mode" in line else {}
            head = line["head"], line["dtype"]
            table = post_op_errors.table(*library, *head)
            post_op = post_op_errors.name_of(line["kind"], attrs)
            stated = (post_op_errors.worst() if table is None else table)[(*head, post_op)]
            assert line["ulps"] <= stated.ulps * 1.01 or stated.ulps > MOST, line
            assert stated.nan or not (line["lost"] or line["made"]), line


# ---- partitions of integers ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("post_ops", "dst", "trusted"),
    [
        ("bias, SoftPlus", "f32", False), ("bias, SoftPlus", "u8 zp", True), ("bias, ReLU", "f32", True),
        ("bias, Sigmoid, Multiply own", "f32", True),
    ],
)  # fmt: skip
@pytest.mark.parametrize("head", ["Convolution", "MatMul"])
def test_floats_of_integers_are_as_good(head, post_ops, dst, trusted, monkeypatch):
    """Only what is quantized at once may be far off in units in the last place."""
    monkeypatch.setattr(exact_int8.Table, "knows", lambda table, row: True)
    layer = trial(exact_int8.Features(head, 2, "", "u8 zp", "s8 channel", post_ops, "", dst), SIZES[0])
    assert exact_int8.trusted(layer.graph.nodes, env("off")) is trusted


# ---- what is told ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("tune", ["heuristic", "off"])
def test_explain_tells_why_a_post_op_runs_apart(tune):
    graph = dgo.Graph()
    y = ops.softplus(HEADS["one row"](graph, "f32"), name="soft")
    told = graph.compile(y, tune=tune).explain()
    assert list(told.apart) == ["soft"]
    assert told.apart["soft"].startswith("the library's SoftPlus after its MatMul in f32 is ")
    assert "apart from the library's kernel: soft: the library's SoftPlus after" in str(told).replace("\n  ", " ")
    graph = dgo.Graph()
    assert not graph.compile(ops.abs(HEADS["one row"](graph, "f32")), tune=tune).explain().apart


# ---- the page --------------------------------------------------------------------------------------------------------

PAGE = Path(__file__).parents[2] / "docs" / "accuracy.md"
TITLE = "| post-op | library: f32 | bf16 | f16 | NaN | builtin: f32 |"


def page_table() -> list[str]:
    """The worst of both libraries, all instruction sets and heads, and what builtin code keeps to."""
    lines = [TITLE, "|---|---|---|---|---|---|"]
    for post_op in sorted({key[2] for key in post_op_errors.worst()}):
        known = {key: one for key, one in post_op_errors.worst().items() if key[2] == post_op}
        cells = [max(one.ulps for key, one in known.items() if key[1] == dtype) for dtype in DTYPES]
        nan = {one.nan for one in known.values()} - {""}
        words = [word for said, word in ((post_op_errors.LOST, "lost"), (post_op_errors.MADE, "made")) if said in nan]
        numbers = [f"{cell:.2g}" for cell in (*cells, OF_KINDS.get(post_op, 0.5))]
        lines.append(f"| {' | '.join([post_op, *numbers[:3], ', '.join(words), numbers[3]])} |")
    return lines


def test_the_page_has_the_tables():
    lines = PAGE.read_text("utf-8").splitlines()
    start = lines.index(TITLE)
    assert lines[start : lines.index("", start)] == page_table()


def test_the_page_s_bound_is_the_code_s():
    assert f"more than {MOST} units in the last place" in " ".join(PAGE.read_text("utf-8").split())


if __name__ == "__main__":
    print(*page_table(), sep="\n")
