"""Algorithms of convolutions as values: listed, selected by name and by predicate, saved with the net."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from net.file_mutations import header_of, with_header
from reference import conv_transpose, convolution
from reference.data import integers, unwritten

import dnnl_graph_ops as dgo
from dnnl_graph_ops import AlgorithmInfo, ops
from dnnl_graph_ops.compile import tile_rows

Array = np.ndarray[Any, Any]
LAYERS: dict[str, dict[str, Any]] = {
    "strided": {"size": (6, 5), "kernel": (4, 4), "channels": (16, 8), "strides": 2, "pads_begin": 1, "pads_end": 1},
    "plain": {"size": (7, 6), "kernel": (3, 3), "channels": (8, 16), "pads_begin": 1, "data_format": "NCX"},
    "apart": {"size": (4, 3), "kernel": (2, 2), "channels": (8, 8), "strides": 2},
    "depthwise": {"size": (8, 7), "kernel": (3, 3), "channels": (16, 16), "groups": 16, "strides": 2},
    "groups": {"size": (8,), "kernel": (3,), "channels": (16, 16), "groups": 2, "dilations": 2},
    "few channels": {"size": (12, 9), "kernel": (3, 3), "channels": (3, 8), "pads_begin": 1, "pads_end": 1},
}
BUILDERS: dict[str, Callable[..., dgo.Value]] = {
    "ConvTranspose": ops.conv_transpose,
    "ConvTransposeBackwardData": ops.conv_transpose_backward_data,
    "ConvTransposeBackwardWeights": ops.conv_transpose_backward_weights,
    "ConvTransposeBackpropFilters": ops.conv_transpose_backprop_filters,
    "Convolution": ops.convolution,
    "ConvolutionBackwardData": ops.convolution_backward_data,
    "ConvolutionBackwardWeights": ops.convolution_backward_weights,
}
Case = tuple[Callable[..., dgo.Net], list[Array], Array]


def case_of(kind: str, layer: str, rng: np.random.Generator) -> Case:
    """Compiles an op named "op" by given options; what the net is called with, and what the definition gives."""
    plain = {"strides": 1, "pads_begin": 0, "pads_end": 0, "dilations": 1, "groups": 1, "data_format": "NXC"}
    attrs = {**plain, **LAYERS[layer]}
    size, kernel, (ic, oc) = (attrs.pop(name) for name in ("size", "kernel", "channels"))
    x = integers(rng, (2, *size, ic) if attrs["data_format"] == "NXC" else (2, ic, *size))
    transposed, groups = kind.startswith("ConvTranspose"), attrs["groups"]
    truth: Any = conv_transpose if transposed else convolution
    w = integers(rng, (*kernel, oc // groups, ic) if transposed else (*kernel, ic // groups, oc))
    y = integers(rng, truth.forward(x, w, **attrs).shape)
    shapes: dict[str, Any] = {}
    constant: list[Array] = [w]
    if kind.endswith("BackwardData"):
        shapes, given = {"src_shape": x.shape}, [y]
        want = truth.backward_data(y, w, src_spatial=size, **attrs)
    elif kind.endswith("Weights"):
        shapes, given, constant = {"weights_shape": w.shape}, [x, y], []
        want = truth.backward_weights(x, y, kernel, **attrs)
    elif kind.endswith("Filters"):
        want = truth.backward_weights(x, y, kernel, weights_format="XIO", **attrs)
        shapes, given, constant = {"filter_shape": want.shape}, [x, y], []
    else:
        given, want = [x], truth.forward(x, w, **attrs)

    def compiled(**options: Any) -> dgo.Net:
        graph = dgo.Graph()
        values = [graph.input(f"x{i}", array.shape) for i, array in enumerate(given)]
        return graph.compile(BUILDERS[kind](*values, *constant, **attrs, **shapes, name="op"), **options)

    return compiled, given, want


def check(net: dgo.Net, given: list[Array], want: Array) -> None:
    """Exact, whatever was in the result's memory."""
    out = unwritten(want.shape)
    net(*given, out=out)
    np.testing.assert_array_equal(out, want)


def chosen(net: dgo.Net, op: str = "op") -> str:
    """The name that explain() shows for an op."""
    return next(part.formulation for part in net.explain().partitions if op in part.ops)


@pytest.mark.isa
@pytest.mark.parametrize("layer", LAYERS)
@pytest.mark.parametrize("kind", BUILDERS)
def test_every_listed_algorithm_is_right_by_its_name(kind: str, layer: str, seed: int) -> None:
    print(f"seed {seed}")
    compiled, given, want = case_of(kind, layer, np.random.default_rng([seed, 1]))
    net = compiled()
    infos = net.algorithms("op")
    assert len(infos) > 1 and infos[0].name == chosen(net)
    assert len({info.name for info in infos}) == len(infos)
    assert all(info.measured is None and info.seconds > 0 and "fast" not in info.error for info in infos)
    for info in infos:
        selected = compiled(algorithms={"op": info.name})
        assert chosen(selected) == info.name
        assert info.workspace == selected.explain().scratch_bytes, info.name
        check(selected, given, want)
        assert [other.name for other in selected.algorithms("op")] == [other.name for other in infos]


def test_an_algorithm_is_copied_and_pickled_with_its_workspace() -> None:
    compiled, *_ = case_of("Convolution", next(iter(LAYERS)), np.random.default_rng(0))
    for info in compiled().algorithms("op"):
        for other in (copy.copy(info), copy.deepcopy(info), pickle.loads(pickle.dumps(info))):
            assert other == info
            assert other.workspace == info.workspace


def product(**options: Any) -> tuple[dgo.Net, Array, Array]:
    """A MatMul with constant weights and a ReLU, its operand, and its result."""
    rng = np.random.default_rng(0)
    x, w = integers(rng, (6, 5, 16)), integers(rng, (16, 8))
    graph = dgo.Graph()
    net = graph.compile(ops.relu(ops.matmul(graph.input("x", x.shape), w, name="op")), **options)
    return net, x, np.maximum(x @ w, 0)


def test_products_have_algorithms_as_well() -> None:
    infos = product()[0].algorithms("op")
    assert len(infos) > 1
    for info in infos:
        net, x, want = product(algorithms={"op": info.name})
        assert chosen(net) == info.name
        check(net, [x], want)


def test_products_of_one_row_have_the_choice_of_many() -> None:
    graph = dgo.Graph()
    x = graph.input("x", (None, 16))
    y = ops.matmul(x, np.ones((16, 8), np.float32), name="op")
    net, selected = graph.compile(y), graph.compile(y, algorithms={"op": "builtin direct"})
    for rows in (4, 1):
        array = np.ones((rows, 16), np.float32)
        check(net, [array], np.full((rows, 8), 16, np.float32))
        check(selected, [array], np.full((rows, 8), 16, np.float32))
        assert "builtin direct" in {info.name for info in net.algorithms("op")}


def strided(**options: Any) -> dgo.Net:
    return case_of("ConvTranspose", "strided", np.random.default_rng(0))[0](**options)


def test_errors_are_told() -> None:
    errors = {info.name: info.error for info in strided(algorithm="fast").algorithms("op")}
    assert errors["builtin direct"] == frozenset()
    assert errors["Winograd 2"] == {"filtered"}
    assert errors["Winograd 4"] == {"filtered", "fast"}
    assert "Winograd 4" not in {info.name for info in strided().algorithms("op")}
    assert all(not info.error for info in strided(algorithm="direct").algorithms("op"))


def test_errors_of_what_became_of_an_op_are_told() -> None:
    graph, rng = dgo.Graph(), np.random.default_rng(0)
    x = graph.input("x", (1, 8, 8, 16))
    scaled = ops.multiply(ops.convolution(x, integers(rng, (3, 3, 16, 16)), name="op"), np.full(16, 2, np.float32))
    infos = graph.compile(scaled).algorithms("op")
    assert infos and all("folded" in info.error for info in infos)
    branches = (ops.convolution(x, integers(rng, (k, k, 16, 16)), pads_begin=k // 2, pads_end=k // 2) for k in (3, 1))
    (net,) = (graph.compile(first + second) for first, second in [branches])
    (group,) = net.explain().groups
    assert sorted(group.ops) == ["add_0", "convolution_0", "convolution_1"]
    assert all("folded" in info.error for info in net.algorithms("convolution_0"))
    loose = dgo.Graph(fpmath_mode="bf16")
    y = ops.convolution(loose.input("x", (1, 8, 8, 16)), integers(rng, (3, 3, 16, 16)), name="op")
    narrow = {info.name for info in loose.compile(y).algorithms("op") if "narrow" in info.error}
    assert {"convolution", "deconvolution"} <= narrow and "builtin direct" not in narrow


def test_products_in_a_narrow_type_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    from dnnl_graph_ops.passes import mixed_precision

    monkeypatch.setattr(mixed_precision, "_gain", lambda node, dtype, env: (0.9, ""))
    net = strided(precision="bf16")
    assert net._narrow()
    assert all("narrow" in info.error for info in net.algorithms("op"))


@pytest.mark.parametrize("kind", ["ConvTranspose", "ConvolutionBackwardWeights"])
def test_a_predicate_leaves_the_best_of_those_that_it_allows(kind: str, seed: int) -> None:
    print(f"seed {seed}")
    compiled, given, want = case_of(kind, "strided", np.random.default_rng([seed, 2]))
    infos = compiled().algorithms("op")
    asked: list[AlgorithmInfo] = []

    def exact(info: AlgorithmInfo) -> bool:
        asked.append(info)
        return not info.error

    net = compiled(algorithms={"op": exact})
    assert asked == list(infos)
    assert chosen(net) == next(info.name for info in infos if not info.error)
    check(net, given, want)
    least = min(info.workspace for info in infos)
    net = compiled(algorithms={"op": lambda info: info.workspace <= least})
    assert chosen(net) == next(info.name for info in infos if info.workspace == least)
    check(net, given, want)


WRONG: dict[str, tuple[Any, type[Exception], str]] = {
    "no mapping": (["builtin direct"], TypeError, "must be a dict"),
    "no name of an op": ({3: "builtin direct"}, TypeError, "names of ops must be strings, got int"),
    "no selection": ({"op": 3}, TypeError, "'op' needs the name of an algorithm or a predicate, got int"),
    "no such op": ({"opp": "builtin direct"}, dgo.InvalidArgumentError, "no op 'opp'; did you mean 'op'"),
    "an op of another kind": ({"after": "builtin direct"}, dgo.InvalidArgumentError, "'after' is a ReLU"),
    "no such algorithm": ({"op": "builtin dirct"}, dgo.InvalidArgumentError, "did you mean 'builtin direct'"),
    "of another direction": ({"op": "builtin few-channel"}, dgo.InvalidArgumentError, "no algorithm of ConvTr"),
    "not there": ({"op": "GEMM"}, dgo.InvalidArgumentError, r"algorithm 'GEMM' .* \(2, 6, 5, 16\)"),
    "of another set": ({"op": "Winograd 4"}, dgo.InvalidArgumentError, "algorithm='fast' allows it"),
    "none left": ({"op": lambda info: False}, dgo.InvalidArgumentError, "leaves no algorithm .*builtin direct"),
}  # fmt: skip


@pytest.mark.parametrize("wrong", WRONG)
def test_wrong_selections_are_refused(wrong: str) -> None:
    algorithms, error, words = WRONG[wrong]
    graph = dgo.Graph()
    weights = np.ones((4, 4, 8, 16), np.float32)
    up = ops.conv_transpose(graph.input("x", (2, 6, 5, 16)), weights, strides=2, pads_begin=1, pads_end=1, name="op")
    with pytest.raises(error, match=words):
        graph.compile(ops.relu(up, name="after"), algorithms=algorithms)


@pytest.mark.parametrize("data_format", ["NXC", "NCX"])
def test_gradients_that_leave_rows_of_src_are_not_literal(data_format: str) -> None:
    """Of 1x1 weights; with AVX2 the library's op writes past its memory where src has few channels."""
    rng = np.random.default_rng(0)
    last = data_format == "NXC"
    src, diff = (integers(rng, shape) for shape in ((2, 8, 15, 4), (2, 4, 8, 16)))
    want = np.einsum("nhwi,nhwo->oi", src[:, ::2, ::2].astype(np.float64), diff)
    arrays = [src, diff] if last else [array.transpose(0, 3, 1, 2).copy() for array in (src, diff)]
    graph = dgo.Graph()
    x, d = (graph.input(name, array.shape) for name, array in zip("xd", arrays, strict=True))
    attrs = {"strides": 2, "data_format": data_format, "weights_format": "OIX"}
    net = graph.compile(dgo.ops.convolution_backward_weights(x, d, weights_shape=(16, 4, 1, 1), **attrs), tune="off")
    assert net.explain().groups[0].formulation != "literal"
    np.testing.assert_array_equal(net(*arrays)[..., 0, 0], want)


def test_literal_ops_leave_nothing_to_select() -> None:
    with pytest.raises(dgo.InvalidArgumentError, match="tune='off' runs the literal ops"):
        strided(tune="off", algorithms={"op": "builtin direct"})
    assert "builtin direct" not in {chosen(strided(tune="off"))}
    assert strided(tune="off").algorithms("op")


def test_an_error_of_a_predicate_is_the_users() -> None:
    with pytest.raises(ZeroDivisionError):
        strided(algorithms={"op": lambda info: 1 // 0})


def test_what_cannot_be_listed_is_refused() -> None:
    graph = dgo.Graph()
    x = graph.input("x", (2, 6, 5, 16))
    y = ops.conv_transpose(x, np.ones((2, 2, 8, 16), np.float32), name="op")
    fixed = ops.conv_transpose(
        graph.constant(np.ones((1, 3, 3, 4), np.float32)), np.ones((2, 2, 4, 4), np.float32), name="fixed"
    )
    net = graph.compile([ops.relu(y, name="after"), fixed])
    for name, words in (("opp", "did you mean 'op'"), ("after", "is a ReLU"), ("fixed", "computed from constants")):
        with pytest.raises(dgo.InvalidArgumentError, match=words):
            net.algorithms(name)
    with pytest.raises(TypeError, match="names of ops must be strings, got int"):
        net.algorithms(3)  # type: ignore[arg-type]
    with pytest.raises(dgo.InvalidArgumentError, match="computed from constants"):
        graph.compile([y, fixed], algorithms={"fixed": "builtin direct"})


def test_a_product_that_the_library_runs_has_no_choice() -> None:
    graph = dgo.Graph()
    y = ops.matmul(graph.input("x", (3, 8, 64)), graph.input("w", (3, 64, 16)), name="op")
    net = graph.compile(y)
    for use in (lambda: net.algorithms("op"), lambda: graph.compile(y, algorithms={"op": "builtin direct"})):
        with pytest.raises(
            dgo.InvalidArgumentError, match=r"'op' has no choice of algorithms here: .* by backend 'onednn'"
        ):
            use()


@pytest.mark.parametrize("how", ["pickle", "file"])
def test_selections_are_kept_with_nets(how: str, tmp_path: Path, seed: int) -> None:
    print(f"seed {seed}")
    compiled, given, want = case_of("ConvTranspose", "strided", np.random.default_rng([seed, 3]))
    best, second, *_, last = (info.name for info in compiled().algorithms("op"))
    selections: list[tuple[Any, str]] = [(last, last), (lambda info: info.name != best, second)]
    for selection, name in selections:
        net = compiled(algorithms={"op": selection})
        if how == "file":
            net.save(tmp_path / "a.net")
            kept = dgo.load(tmp_path / "a.net", verify=True)
        else:
            kept = pickle.loads(pickle.dumps(net))
        assert chosen(kept) == chosen(net) == name
        assert kept._options.algorithms == (("op", name),)
        check(kept, given, want)


@pytest.mark.parametrize("selections", [3, ["op"], [["op", 3]], [["op", "builtin dirct"]], [["opp", "builtin direct"]]])
def test_damaged_selections_in_a_file_are_refused(selections: Any, tmp_path: Path) -> None:
    path = tmp_path / "a.net"
    strided(algorithms={"op": "builtin direct"}).save(path)
    data = path.read_bytes()
    header = header_of(data)
    assert header["options"]["algorithms"] == [["op", "builtin direct"]]
    header["options"]["algorithms"] = selections
    path.write_bytes(with_header(data, header))
    with pytest.raises(dgo.InvalidArgumentError, match=r"damaged: the algorithms of ops|did you mean"):
        dgo.load(path)


def open_net(**options: Any) -> tuple[dgo.Net, Array]:
    """A layer on images of any size, whose weights are the second of what is returned."""
    w = integers(np.random.default_rng(1), (4, 4, 8, 16))
    graph = dgo.Graph()
    x = graph.input("x", (None, None, None, 16))
    return graph.compile(ops.conv_transpose(x, w, strides=2, pads_begin=1, pads_end=1, name="op"), **options), w


def check_open(net: dgo.Net, w: Array, shape: tuple[int, ...]) -> None:
    x = integers(np.random.default_rng(2), shape)
    check(net, [x], conv_transpose.forward(x, w, strides=2, pads_begin=1, pads_end=1))


@pytest.mark.parametrize("algorithm", ["auto", "direct"])
def test_nets_of_open_sizes_list_and_select_at_each_size(algorithm: str) -> None:
    net, w = open_net(algorithm=algorithm)
    with pytest.raises(dgo.InvalidArgumentError, match="has no plan; call it once"):
        net.algorithms("op")
    check_open(net, w, (1, 5, 7, 16))
    small = net.algorithms("op")
    assert chosen(net) == small[0].name
    check_open(net, w, (2, 40, 30, 16))
    large = net.algorithms("op")
    # some have more to choose from where rows are long
    assert {info.name for info in small} <= {info.name for info in large}
    assert min(info.seconds for info in large) > min(info.seconds for info in small)
    for info in small:
        selected, w = open_net(algorithm=algorithm, algorithms={"op": info.name})
        for shape in ((1, 5, 7, 16), (2, 9, 11, 16), (0, 5, 7, 16)):
            check_open(selected, w, shape)
            assert chosen(selected) == info.name if shape[0] else selected.algorithms("op") == ()


def test_a_selection_that_no_size_of_a_call_meets_is_refused_there(tmp_path: Path) -> None:
    net, w = open_net(algorithms={"op": "GEMM"})
    with pytest.raises(dgo.InvalidArgumentError, match=r"ConvTranspose 'op': algorithm 'GEMM' .* \(1, 5, 7, 16\)"):
        check_open(net, w, (1, 5, 7, 16))
    excluding, w = open_net(algorithms={"op": lambda info: not info.error})
    for keep in (lambda: excluding.save(tmp_path / "a.net"), lambda: pickle.dumps(excluding)):
        with pytest.raises(
            dgo.InvalidArgumentError, match="call it once, then there is one that predicates have chosen"
        ):
            keep()
    check_open(excluding, w, (0, 5, 7, 16))
    with pytest.raises(dgo.InvalidArgumentError, match="the predicate for 'op' has chosen nothing yet"):
        pickle.dumps(excluding)
    check_open(excluding, w, (1, 5, 7, 16))
    excluding.save(tmp_path / "a.net")
    assert dgo.load(tmp_path / "a.net")._options.algorithms == (("op", chosen(excluding)),)


@pytest.fixture
def tuned(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))


def test_measured_times_come_first(tuned: None, seed: int) -> None:
    print(f"seed {seed}")
    compiled, given, want = case_of("ConvTranspose", "strided", np.random.default_rng([seed, 4]))
    net = compiled(tune="measure")
    infos = net.algorithms("op")
    times = [info.measured for info in infos if info.measured is not None]
    assert times and times == sorted(times) and all(info.measured is None for info in infos[len(times) :])
    assert infos[0].name == chosen(net)
    # a predicate is asked before anything is timed, and what it leaves out is not
    net = compiled(tune="measure", algorithms={"op": lambda info: info.measured is None and not info.error})
    assert all(info.measured is None for info in net.algorithms("op") if info.error)
    assert chosen(net) == next(info.name for info in net.algorithms("op") if not info.error)
    check(net, given, want)
    check(compiled(tune="measure", algorithms={"op": "im2col"}), given, want)


def test_rows_are_tiled_by_selected_algorithms_alone(monkeypatch: pytest.MonkeyPatch, seed: int) -> None:
    print(f"seed {seed}")
    monkeypatch.setattr(tile_rows, "saving", lambda chain, env: len(chain) - 1)
    rng = np.random.default_rng(seed)
    x, first, second = (
        integers(rng, (1, 24, 10, 16)),
        integers(rng, (3, 3, 16, 16), limit=1),
        integers(rng, (1, 1, 16, 8)),
    )
    want = convolution.forward(convolution.forward(x, first).astype(np.float32), second)

    def steps(**algorithms: str) -> list[str]:
        graph = dgo.Graph()
        inner = ops.convolution(graph.input("x", x.shape), first, name="first")
        net = graph.compile(ops.convolution(inner, second, name="second"), algorithms=algorithms)
        check(net, [x], want)
        assert all(chosen(net, op) == name for op, name in algorithms.items())
        return [step.step for step in net.explain().steps if " | " in step.step]

    assert steps() and steps(first="builtin direct", second="builtin direct")
    assert not steps(first="Winograd 2")
    assert not steps(second="convolution")


def test_a_model_of_several_graphs_takes_selections_of_each() -> None:
    onnx = pytest.importorskip("onnx", reason="needs the extra 'onnx'")
    from onnx import TensorProto, helper, numpy_helper

    rng = np.random.default_rng(0)
    w = integers(rng, (8, 16, 3, 3))
    # where what is not zero lies depends on data: the graph ends there
    nodes = [
        helper.make_node(
            "Conv",
            ["x", "w"],
            ["y"],
        ),
        helper.make_node("NonZero", ["y"], ["z"]),
    ]
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, (1, 16, 6, 6))],
        [
            helper.make_tensor_value_info("y", TensorProto.FLOAT, (1, 8, 4, 4)),
            helper.make_tensor_value_info("z", TensorProto.INT64, (4, None)),
        ],
        [numpy_helper.from_array(w, "w")],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)
    onnx.checker.check_model(model)
    net = dgo.from_onnx(model).compile(algorithms={"y": "builtin direct"})
    x = integers(rng, (1, 16, 6, 6))
    want = convolution.forward(x, w, data_format="NCX", weights_format="OIX")
    for one in (net, pickle.loads(pickle.dumps(net))):
        np.testing.assert_array_equal(one(x)[0], want)
        assert chosen(one, "y") == "builtin direct"
        assert {"builtin direct", "convolution"} <= {info.name for info in one.algorithms("y")}
        with pytest.raises(dgo.InvalidArgumentError, match="no op 'yy'; did you mean 'y'"):
            one.algorithms("yy")
    with pytest.raises(dgo.InvalidArgumentError, match="no op 'yy'; did you mean 'y'"):
        dgo.from_onnx(model).compile(algorithms={"yy": "builtin direct"})


def test_an_op_whose_attributes_a_call_tells_takes_selections() -> None:
    pytest.importorskip("onnx", reason="needs the extra 'onnx'")
    from onnx import TensorProto, helper, numpy_helper

    rng = np.random.default_rng(0)
    w, x = integers(rng, (16, 8, 4, 4)), integers(rng, (1, 16, 6, 6))
    # pads follow from sizes
    node = helper.make_node("ConvTranspose", ["x", "w"], ["y"], strides=[2, 2], output_shape=[12, 12])
    ends = [
        helper.make_tensor_value_info(name, TensorProto.FLOAT, ("n", channels, "h", "v"))
        for name, channels in (("x", 16), ("y", 8))
    ]
    graph = helper.make_graph([node], "g", ends[:1], ends[1:], [numpy_helper.from_array(w, "w")])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)
    net = dgo.from_onnx(model).compile(algorithms={"y": "builtin direct"})
    pads = {"strides": 2, "pads_begin": 1, "pads_end": 1}
    check(net, [x], conv_transpose.forward(x, w, data_format="NCX", weights_format="IOX", **pads))
    assert chosen(net, "y") == "builtin direct" and len(net.algorithms("y")) > 1
    with pytest.raises(dgo.InvalidArgumentError, match="algorithm 'builtin dirct' may not be used"):
        dgo.from_onnx(model).compile(algorithms={"y": "builtin dirct"})(x)


def test_an_algorithm_that_strides_of_a_call_exclude_says_so() -> None:
    g = dgo.Graph()
    x, w = np.ones((1, 17, 10), np.float32), np.ones((17, 8, 7), np.float32)
    layout = {"data_format": "NCX", "weights_format": "IOX"}
    y = dgo.ops.conv_transpose(g.input("x", (1, 17, 5)), g.constant(w), name="up", strides=4, **layout)
    net = g.compile(y, algorithms={"up": "im2col per image"})
    assert net(x[:, :, :5].copy()).shape == (1, 8, 23)
    with pytest.raises(dgo.InvalidArgumentError, match=r"may not be used with .*; arrays without gaps"):
        net(x[:, :, ::2])
