"""Models that are no single graph: shapes that depend on data, types that are not the package's, control flow."""

import itertools
import pickle
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import dnnl_graph_ops as dgo
from dnnl_graph_ops.compile import tune

onnx = pytest.importorskip("onnx", reason="needs the extra 'onnx'")
from onnx import TensorProto, helper, numpy_helper  # noqa: E402

node = helper.make_node
FLOAT, DOUBLE, INT64, BOOL, STRING = (
    getattr(TensorProto, name) for name in ("FLOAT", "DOUBLE", "INT64", "BOOL", "STRING")
)


def info(name, kind=FLOAT, shape=None):
    return helper.make_tensor_value_info(name, kind, shape)


def model(nodes, inputs, outputs, constants=(), opset=18, imports=()):
    graph = helper.make_graph(
        nodes, "cut", inputs, outputs, [numpy_helper.from_array(a, n) for n, a in dict(constants).items()]
    )
    versions = [helper.make_opsetid("", opset), *imports]
    return helper.make_model(graph, opset_imports=versions, ir_version=9)


def body(nodes, inputs, outputs, constants=()):
    stored = [numpy_helper.from_array(a, n) for n, a in dict(constants).items()]
    return helper.make_graph(nodes, "body", inputs, outputs, stored)


def x(shape=(3, 4), seed=5):
    return np.random.default_rng(seed).normal(size=shape).astype(np.float32)


def selected(shape=(3, 4)):
    """The positive elements of x times 2, after a matrix product, and where they are."""
    nodes = [
        node("MatMul", ["x", "w"], ["m"]),
        node("NonZero", ["r"], ["places"]),
        node("Relu", ["m"], ["r"]),
        node("Transpose", ["places"], ["t"]),
        node("GatherND", ["m", "t"], ["some"]),
        node("Mul", ["some", "two"], ["y"]),
        node("ReduceSum", ["y"], ["sum"], keepdims=0),
    ]
    outputs = [info("y"), info("t", INT64), info("sum")]
    constants = {"w": np.eye(4, dtype=np.float32), "two": np.float32([2])}
    return model(nodes, [info("x", FLOAT, shape)], outputs, constants)


def check(net, data):
    y, places, total = net(data)
    np.testing.assert_array_equal(places, np.argwhere(data > 0))
    np.testing.assert_allclose(y, 2 * data[data > 0], rtol=1e-6)
    np.testing.assert_allclose(total, y.sum(), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("shape", [(3, 4), ("n", 4)])
def test_shapes_that_depend_on_data(shape):
    net = dgo.from_onnx(selected(shape)).compile()
    assert net.input_names == ("x",) and net.output_names == ("y", "t", "sum")
    for seed in range(6):
        check(net, x(seed=seed))
    check(net, np.zeros((3, 4), np.float32))
    if shape[0] == "n":
        check(net, x((7, 4)))


def test_what_a_call_measures_is_told(monkeypatch, tmp_path):
    """A branch becomes a net at the call that takes it."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(tune, "BUDGET", 0.05)
    branches = {
        "then_branch": body([node("Conv", ["x", "w"], ["a"])], [], [info("a")]),
        "else_branch": body([node("Identity", ["x"], ["b"])], [], [info("b")]),
    }
    nodes, weights = [node("If", ["which"], ["y"], **branches)], np.ones((8, 4, 3, 3), np.float32)
    inputs, calls = [info("x", FLOAT, [1, 4, 6, 6]), info("which", BOOL, [])], []
    graph = dgo.from_onnx(model(nodes, inputs, [info("y")], {"w": weights}))
    net = graph.compile(tune="measure", progress=lambda *call: calls.append(call[:2]))
    data = np.ones((1, 4, 6, 6), np.float32)
    np.testing.assert_array_equal(net(data, np.array(False)), data)
    assert calls == []
    np.testing.assert_array_equal(net(data, np.array(True)), np.full((1, 8, 4, 4), 36, np.float32))
    assert calls == [(1, 1)]


def test_the_rest_is_planned_for_each_shape():
    net = dgo.from_onnx(selected()).compile()
    check(net, np.ones((3, 4), np.float32))
    before = net.plan_count()
    check(net, np.ones((3, 4), np.float32))
    assert net.plan_count() == before
    check(net, np.eye(3, 4, dtype=np.float32))
    assert net.plan_count() > before
    net.clear_plans()
    assert net.plan_count() == 0
    check(net, x())


def test_pickled_and_several_threads():
    net = pickle.loads(pickle.dumps(dgo.from_onnx(selected()).compile()))
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda seed: check(net, x(seed=seed)), range(20)))


def test_calls_of_every_kind():
    net = dgo.from_onnx(selected()).compile()
    data = x()
    y, places, _ = net(x=data)
    found = net.run({"x": data}, out={"y": np.full_like(y, np.nan)})
    np.testing.assert_array_equal(found["y"], y)
    np.testing.assert_array_equal(net.submit(data).result()[1], places)
    assert net.benchmark(data, repeat=2).median > 0
    times = net.profile(data, repeat=2)
    assert {"NonZero (NumPy)"} <= {step.step for step in times} and "NonZero (NumPy)" in str(times)
    with pytest.raises(dgo.ShapeError, match="'out' for 'y'"):
        net.run({"x": data}, out={"y": np.zeros((1,), np.float32)})
    with pytest.raises(dgo.InvalidArgumentError, match="float64"):
        net(data.astype(np.float64))
    with pytest.raises(dgo.ShapeError):
        net(data.T)


def test_explain_says_what_runs_where():
    net = dgo.from_onnx(selected()).compile()
    net(x())
    kinds = [kind for part in net.explain().partitions for kind in part.kinds]
    assert kinds.index("MatMul") < kinds.index("NonZero") < kinds.index("Multiply")
    assert "Wildcard" not in kinds
    assert "NonZero" in str(net.explain())


RUN_TIME = {
    "Reshape": ([2, 6], lambda a, s: a.reshape(s)),
    "Expand": ([2, 3, 4], np.broadcast_to),
    "Tile": ([2, 3], np.tile),
    "Unsqueeze": ([0, 2], lambda a, s: np.expand_dims(a, tuple(s))),
    "ReduceSum": ([0], lambda a, s: a.sum(tuple(s), keepdims=True)),
    "Pad": ([1, 0, 0, 2], lambda a, s: np.pad(a, [(s[0], s[2]), (s[1], s[3])])),
}


@pytest.mark.parametrize("kind", RUN_TIME)
def test_sizes_and_axes_of_the_call(kind):
    sizes, expected = RUN_TIME[kind]
    nodes = [node(kind, ["x", "s"], ["r"]), node("Abs", ["r"], ["y"])]
    sizes = np.int64(sizes)
    net = dgo.from_onnx(model(nodes, [info("x", FLOAT, (3, 4)), info("s", INT64, sizes.shape)], [info("y")])).compile()
    np.testing.assert_allclose(net(x(), sizes), np.abs(expected(x(), sizes)), rtol=1e-6, atol=1e-6)


def test_more_memory_than_there_is():
    nodes = [node("ConstantOfShape", ["s"], ["r"])]
    net = dgo.from_onnx(model(nodes, [info("s", INT64, (2,))], [info("r")])).compile()
    assert net(np.int64([2, 3])).shape == (2, 3)
    with pytest.raises(dgo.Error, match="bytes"):
        net(np.int64([1 << 19, 1 << 19]))


def test_types_that_no_graph_has():
    nodes = [
        node("Mul", ["d", "d"], ["q"]),
        node("Cast", ["q"], ["f"], to=FLOAT),
        node("Relu", ["f"], ["y"]),
    ]
    net = dgo.from_onnx(model(nodes, [info("d", DOUBLE, (3, 4))], [info("y"), info("q", DOUBLE)])).compile()
    data = x().astype(np.float64)
    y, squares = net(data)
    assert squares.dtype == np.float64
    np.testing.assert_array_equal(squares, data * data)
    np.testing.assert_array_equal(y, (data * data).astype(np.float32))
    with pytest.raises(dgo.InvalidArgumentError, match="float64"):
        net(x())


def test_strings_that_become_numbers():
    encode = node("LabelEncoder", ["s"], ["i"], domain="ai.onnx.ml", keys_strings=["a", "b"], values_floats=[1.5, 2.5])
    nodes = [encode, node("Neg", ["i"], ["y"])]
    made = model(nodes, [info("s", STRING, (3,))], [info("y")], imports=[helper.make_opsetid("ai.onnx.ml", 2)])
    np.testing.assert_array_equal(
        dgo.from_onnx(made).compile()(np.array(["b", "a", "b"])), np.float32([-2.5, -1.5, -2.5])
    )


def branching(condition):
    """x @ w or x + 1, and behind it a relu."""
    then = body([node("MatMul", ["x", "w"], ["a"])], [], [info("a", FLOAT, (3, 4))])
    other = body([node("Add", ["x", "one"], ["b"])], [], [info("b", FLOAT, (3, 4))], {"one": np.float32([1])})
    nodes = [node("If", ["c"], ["r"], then_branch=then, else_branch=other), node("Relu", ["r"], ["y"])]
    constants = {"w": np.full((4, 4), 2, np.float32)}
    inputs = [info("x", FLOAT, (3, 4))]
    if condition is None:
        inputs.append(info("c", BOOL, ()))
    else:
        constants["c"] = np.array(condition)
    return model(nodes, inputs, [info("y")], constants)


def test_branches():
    wanted = {True: np.maximum(x() @ np.full((4, 4), 2, np.float32), 0), False: np.maximum(x() + 1, 0)}
    net = dgo.from_onnx(branching(None)).compile()
    for condition in (True, False, True):
        np.testing.assert_allclose(net(x(), np.array(condition)), wanted[condition], rtol=1e-5, atol=1e-6)
        graph = dgo.from_onnx(branching(condition))
        # the branch is part of the graph
        assert len(graph.nodes) == 2
        np.testing.assert_allclose(graph.compile()(x()), wanted[condition], rtol=1e-5, atol=1e-6)


def looped(turns):
    """Adds w to a sum in each turn, until that is above 10; gives the sums of all turns, too."""
    nodes = [
        node("Add", ["s", "w"], ["next"]),
        node("ReduceMax", ["next"], ["top"], keepdims=0),
        node("Less", ["top", "ten"], ["goes"]),
        node("Identity", ["next"], ["row"]),
    ]
    inputs = [info("i", INT64, ()), info("c", BOOL, ()), info("s", FLOAT, (3, 4))]
    outputs = [info("goes", BOOL, ()), info("next", FLOAT, (3, 4)), info("row", FLOAT, (3, 4))]
    inner = body(nodes, inputs, outputs, {"ten": np.float32(10)})
    loop = node("Loop", ["n", "", "x"], ["last", "rows"], body=inner)
    nodes = [node("Relu", ["v"], ["w"]), loop, node("Mul", ["rows", "rows"], ["y"])]
    made = [info("x", FLOAT, (3, 4)), info("v", FLOAT, (3, 4))]
    constants = {} if turns is None else {"n": np.int64(turns)}
    if turns is None:
        made.append(info("n", INT64, ()))
    return model(nodes, made, [info("last"), info("y")], constants)


@pytest.mark.parametrize("given", [False, True])
@pytest.mark.parametrize("turns", [0, 3, 100])
def test_loops(given, turns):
    net = dgo.from_onnx(looped(turns if given else None)).compile()
    step = np.maximum(x(seed=7), 0)
    sums = []
    last = x()
    while len(sums) < turns and (not sums or last.max() < 10):
        last = last + step
        sums.append(last)
    found, squares = net(x(), x(seed=7), *([] if given else [np.array(turns)]))
    np.testing.assert_allclose(found, last, rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(squares, np.square(np.stack(sums)) if sums else np.zeros((0, 3, 4)), rtol=1e-5)


def test_a_loop_whose_tensors_grow():
    nodes = [node("Concat", ["s", "x"], ["next"], axis=0), node("Identity", ["c"], ["goes"])]
    inputs = [info("i", INT64, ()), info("c", BOOL, ()), info("s", FLOAT, ("k", 4))]
    inner = body(nodes, inputs, [info("goes", BOOL, ()), info("next", FLOAT, ("k", 4))])
    made = model(
        [node("Loop", ["n", "", "x"], ["all"], body=inner), node("Abs", ["all"], ["y"])],
        [info("x", FLOAT, (3, 4)), info("n", INT64, ())],
        [info("y")],
    )
    net = dgo.from_onnx(made).compile()
    for turns in (0, 1, 4):
        np.testing.assert_allclose(net(x(), np.array(turns)), np.abs(np.tile(x(), (turns + 1, 1))))


def test_scans_and_sequences():
    nodes = [node("Add", ["s", "row"], ["sum"]), node("Identity", ["sum"], ["out"])]
    inner = body(
        nodes, [info("s", FLOAT, (4,)), info("row", FLOAT, (4,))], [info("sum", FLOAT, (4,)), info("out", FLOAT, (4,))]
    )
    scan = node("Scan", ["zero", "x"], ["last", "sums"], body=inner, num_scan_inputs=1)
    split = node("SplitToSequence", ["sums"], ["parts"], axis=1)
    join = node("ConcatFromSequence", ["parts"], ["again"], axis=0)
    made = model(
        [scan, split, join, node("Neg", ["again"], ["y"])],
        [info("x", FLOAT, (3, 4))],
        [info("last"), info("y")],
        {"zero": np.zeros(4, np.float32)},
    )
    last, y = dgo.from_onnx(made).compile()(x())
    sums = np.cumsum(x(), 0)
    np.testing.assert_allclose(last, sums[-1], rtol=1e-5)
    np.testing.assert_allclose(y, -sums.T.reshape(-1, 1), rtol=1e-5)


def strings():
    """Numbers of two words, one of them in the model, and of a sparse tensor."""
    encode = node("LabelEncoder", ["s"], ["i"], domain="ai.onnx.ml", keys_strings=["a", "b"], values_floats=[1.5, 2.5])
    values, indices = (numpy_helper.from_array(a, n) for a, n in ((np.float32([3]), "v"), (np.int64([2]), "i")))
    sparse = helper.make_sparse_tensor(values, indices, [3])
    nodes = [
        node("Concat", ["s", "more"], ["all"], axis=0),
        encode,
        node("Constant", [], ["zeros"], sparse_value=sparse),
        node("Add", ["i", "zeros"], ["y"]),
    ]
    nodes[1].input[0] = "all"
    versions = [helper.make_opsetid("ai.onnx.ml", 2)]
    return model(nodes, [info("s", STRING, (2,))], [info("y")], {"more": np.array(["b"], object)}, imports=versions)


def doubled():
    """A product in 64 bits, of weights that lie beside a net's record."""
    weights = np.random.default_rng(3).normal(size=(4, 300))
    nodes = [node("MatMul", ["d", "w"], ["q"]), node("Cast", ["q"], ["y"], to=FLOAT)]
    return model(nodes, [info("d", DOUBLE, (3, 4))], [info("y"), info("q", DOUBLE)], {"w": weights})


KEPT = {
    "shapes": (selected, lambda: [x()]),
    "open": (lambda: selected(("n", 4)), lambda: [x((5, 4))]),
    "branches": (lambda: branching(None), lambda: [x(), np.array(True)]),
    "loops": (lambda: looped(None), lambda: [x(), x(seed=7), np.array(3)]),
    "strings": (strings, lambda: [np.array(["b", "a"])]),
    "64 bits": (doubled, lambda: [x().astype(np.float64)]),
}


@pytest.mark.parametrize("called", [False, True])
@pytest.mark.parametrize("kind", KEPT)
def test_nets_are_saved_pickled_and_drawn(kind, called, tmp_path):
    """As any net, before a call and behind it."""
    made, given = KEPT[kind]
    net = dgo.from_onnx(made()).compile()
    expected = net.run(dict(zip(net.input_names, given(), strict=True)))
    net = net if called else dgo.from_onnx(made()).compile()
    net.save(tmp_path / "net")
    for again in (dgo.load(tmp_path / "net"), pickle.loads(pickle.dumps(net))):
        found = again.run(dict(zip(again.input_names, given(), strict=True)))
        for name, array in expected.items():
            assert found[name].dtype == array.dtype
            np.testing.assert_array_equal(found[name], array)
        assert again.output_names == net.output_names
        assert again.profile(*given(), repeat=1) and again.explain().steps
        again.save(tmp_path / "again")
        assert (tmp_path / "again").read_bytes() == (tmp_path / "net").read_bytes()
    assert net.to_svg(tmp_path / "net.svg") == (tmp_path / "net.svg").read_text()
    text = net.to_dot()
    assert all(f'"{name}"' in text for name in (*net.input_names, *net.output_names))


def test_a_picture_joins_graphs_and_nodes_between_them():
    text = dgo.from_onnx(selected()).compile().to_dot()
    number = {
        line.split('label="')[1].split("\\n")[0].split('"')[0]: line.split()[0]
        for line in text.splitlines()
        if "label" in line
    }
    assert "3 NonZero (NumPy)" in number
    lines = {tuple(line.strip(" ;").split(" -> ")) for line in text.splitlines() if "->" in line}
    assert (number["2 ReLU"], number["3 NonZero (NumPy)"]) in lines
    assert {target for source, target in lines if source == number["3 NonZero (NumPy)"]} >= {number["4 Wildcard"]}
    assert {number[name] for name in ("y", "t", "sum")} <= {target for _, target in lines}


def test_random_numbers_are_drawn_at_each_call():
    made = model(
        [node("RandomNormalLike", ["x"], ["r"]), node("Add", ["x", "r"], ["y"])],
        [info("x", FLOAT, (3, 4))],
        [info("y")],
    )
    net = dgo.from_onnx(made).compile()
    assert not np.array_equal(net(x()), net(x()))


def test_all_that_nothing_runs_is_said_at_once():
    then = body([node("Relux", ["x"], ["a"])], [], [info("a")])
    nodes = [
        node("NonZero", ["x"], ["z"]),
        node("Strange", ["z"], ["q"], name="first"),
        node("If", ["c"], ["r"], then_branch=then, else_branch=then, name="second"),
    ]
    with pytest.raises(dgo.UnsupportedError) as caught:
        dgo.from_onnx(model(nodes, [info("x", FLOAT, (3, 4)), info("c", BOOL, ())], [info("r"), info("q")]))
    assert "2 parts" in str(caught.value) and "Strange" in str(caught.value) and "Relux" in str(caught.value)


def test_results_are_the_callers_own():
    net = dgo.from_onnx(
        model(
            [node("Reshape", ["x", "s"], ["y"]), node("NonZero", ["one"], ["z"])],
            [info("x", FLOAT, (3, 4)), info("s", INT64, (2,))],
            [info("y"), info("x"), info("z", INT64)],
            {"one": np.float32([1])},
        )
    ).compile()
    data = x()
    for result in net(data, np.int64([4, 3])):
        assert not np.may_share_memory(result, data)
        result[...] = 7
    np.testing.assert_array_equal(net(data, np.int64([4, 3]))[2], [[0]])


def turned(turns, rows=True, opset=18):
    """Adds w, and the number of the turn, to a sum in each turn; gives the sums of all turns, too."""
    nodes = [
        node("Cast", ["i"], ["number"], to=FLOAT),
        node("Add", ["s", "w"], ["more"]),
        node("Add", ["more", "number"], ["next"]),
        node("Less", ["i", "most"], ["goes"]),
        node("Identity", ["next"], ["row"]),
    ]
    inputs = [info("i", INT64, ()), info("c", BOOL, ()), info("s", FLOAT, (3, 4))]
    outputs = [info("goes", BOOL, ()), info("next", FLOAT, (3, 4)), info("row", FLOAT, (3, 4))][: 3 if rows else 2]
    inner = body(nodes, inputs, outputs, {"most": np.int64(4)})
    loop = node("Loop", ["n", "", "x"], ["last", "rows"][: 2 if rows else 1], body=inner)
    more = [node("Neg", ["last"], ["y"]), *([node("Mul", ["rows", "rows"], ["z"])] if rows else [])]
    given = [info("x", FLOAT, (3, 4)), info("w", FLOAT, (3, 4))]
    return model([loop, *more], given, [info("y"), *([info("z")] if rows else [])], {"n": np.int64(turns)}, opset)


@pytest.mark.parametrize("opset", [11, 18])
@pytest.mark.parametrize("turns", [1, 3, 100])
def test_known_turns_are_part_of_the_graph(turns, opset):
    graph = dgo.from_onnx(turned(turns, opset=opset))
    assert type(graph) is dgo.Graph
    total, sums = x(), []
    # the condition ends it as well
    for i in range(min(turns, 5)):
        total = total + x(seed=7) + np.float32(i)
        sums.append(total)
    y, z = graph.compile()(x(), x(seed=7))
    np.testing.assert_allclose(y, -total, rtol=1e-5)
    np.testing.assert_allclose(z, np.square(np.stack(sums)), rtol=1e-5)


def test_no_turns():
    graph = dgo.from_onnx(turned(0, rows=False))
    assert type(graph) is dgo.Graph
    np.testing.assert_array_equal(graph.compile()(x(), x()), -x())
    assert dgo.from_onnx(turned(0)).compile()(x(), x())[1].shape == (0, 3, 4)


def test_many_turns_stay_a_loop():
    nodes = [node("Add", ["s", "s"], ["next"]), node("Identity", ["c"], ["goes"])]
    inputs = [info("i", INT64, ()), info("c", BOOL, ()), info("s", FLOAT, (2,))]
    inner = body(nodes, inputs, [info("goes", BOOL, ()), info("next", FLOAT, (2,))])
    loop = node("Loop", ["n", "", "x"], ["y"], body=inner)
    made = model([loop], [info("x", FLOAT, (2,))], [info("y")], {"n": np.int64(5000)})
    graph = dgo.from_onnx(made)
    assert type(graph) is not dgo.Graph
    np.testing.assert_array_equal(graph.compile()(np.zeros(2, np.float32)), np.zeros(2))


SEQUENCES = {
    "joined": ([node("ConcatFromSequence", ["s"], ["y"], axis=0)], lambda a, b: np.concatenate([b, a, a])),
    "stacked": (
        [node("ConcatFromSequence", ["s"], ["y"], axis=1, new_axis=1)], lambda a, b: np.stack([b, a, a], 1)
    ),
    "element": ([node("SequenceAt", ["s", "last"], ["e"]), node("Neg", ["e"], ["y"])], lambda a, b: -a),
    "length": (
        [node("SequenceLength", ["s"], ["k"]), node("Cast", ["k"], ["f"], to=FLOAT), node("Mul", ["x", "f"], ["y"])],
        lambda a, b: a * 3,
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", SEQUENCES)
@pytest.mark.parametrize("empty", [False, True])
def test_sequences_of_known_tensors_are_no_nodes(name, empty):
    nodes, wanted = SEQUENCES[name]
    first = (
        [node("SequenceEmpty", [], ["none"]), node("SequenceInsert", ["none", "x"], ["one"])]
        if empty
        else [node("SequenceConstruct", ["x"], ["one"])]
    )
    filled = [
        node("Identity", ["one"], ["same"]),
        node("Relu", ["x"], ["r"]),
        node("SequenceInsert", ["same", "x"], ["two"]),
        node("SequenceInsert", ["two", "r", "zero"], ["s"]),
    ]
    constants = {"zero": np.int64(0), "last": np.int64(-1)}
    made = model([*first, *filled, *nodes], [info("x", FLOAT, (3, 4))], [info("y")], constants)
    graph = dgo.from_onnx(made)
    assert type(graph) is dgo.Graph
    np.testing.assert_array_equal(graph.compile()(x()), wanted(x(), np.maximum(x(), 0)))


@pytest.mark.parametrize(("place", "wanted"), [(2, [1, 2, 3]), (-1, [1, 3, 2]), (0, [3, 1, 2])])
def test_places_in_sequences_of_a_call(place, wanted):
    """Behind the last one is a place, too."""
    nodes = [node("SequenceInsert", ["s", "x", "at"], ["t"]), node("ConcatFromSequence", ["t"], ["y"], axis=0)]
    given = [helper.make_tensor_sequence_value_info("s", FLOAT, (1,)), info("x", FLOAT, (1,)), info("at", INT64, ())]
    net = dgo.from_onnx(model(nodes, given, [info("y")])).compile()
    arrays = [np.float32([number]) for number in (1, 2, 3)]
    np.testing.assert_array_equal(net(arrays[:2], arrays[2], np.int64(place)), wanted)


@pytest.mark.parametrize("begun", [False, True])
def test_sequences_that_something_reads_as_a_whole(begun):
    """A Loop of unknown turns, and the model's outputs."""
    nodes = [node("SequenceInsert", ["s", "x"], ["next"]), node("Identity", ["c"], ["goes"])]
    kind = helper.make_sequence_type_proto(helper.make_tensor_type_proto(FLOAT, None))
    listed = [helper.make_value_info(name, kind) for name in ("s", "next", "given", "all")]
    inputs = [info("i", INT64, ()), info("c", BOOL, ()), listed[0]]
    inner = body(nodes, inputs, [info("goes", BOOL, ()), listed[1]])
    begin = node("SequenceConstruct", ["x", "x"], ["given"]) if begun else node("SequenceEmpty", [], ["given"])
    made = model(
        [
            begin,
            node("Loop", ["n", "", "given"], ["all"], body=inner),
            node("ConcatFromSequence", ["all"], ["joined"], axis=0),
            node("Sigmoid", ["joined"], ["y"]),
        ],
        [info("x", FLOAT, (3, 4)), info("n", INT64, ())],
        [info("y"), listed[2]],
    )
    net = dgo.from_onnx(made).compile()
    for turns in (1, 2):
        y, given = net(x(), np.array(turns))
        wanted = np.tile(x(), (turns + 2 * begun, 1))
        # of the type that ONNX has, though only the call tells it
        assert y.dtype == np.float32
        np.testing.assert_allclose(y, 1 / (1 + np.exp(-wanted)), rtol=1e-6)
        assert len(given) == 2 * begun


def test_weights_in_the_file_are_let_go_once_packed(tmp_path):
    weights = {f"w{i}": np.full((128, 128, 3, 3), i + 1, np.float32) for i in range(2)}
    nodes = [
        node("Conv", ["x", "w0"], ["t"], pads=[1, 1, 1, 1]),
        node("Conv", ["t", "w1"], ["y"], pads=[1, 1, 1, 1]),
        node("NonZero", ["y"], ["places"]),
    ]
    proto = model(nodes, [info("x", FLOAT, (1, 128, 8, 8))], [info("y"), info("places", INT64)], weights)
    path = tmp_path / "model.onnx"
    path.write_bytes(proto.SerializeToString())
    net = dgo.from_onnx(path).compile()
    y, _ = net(np.ones((1, 128, 8, 8), np.float32))
    held = net.graph._whole.arrays._held
    assert [held[name]._weak() for name in weights] == [None, None]
    again, _ = pickle.loads(pickle.dumps(net))(np.ones((1, 128, 8, 8), np.float32))
    np.testing.assert_array_equal(again, y)
    assert [held[name]._weak() for name in weights] == [None, None]


def test_an_array_that_calls_of_a_function_share_is_saved_once(tmp_path):
    table = np.arange(1000, dtype=np.int64)
    constant = node("Constant", [], ["table"], value=numpy_helper.from_array(table))
    imports = [helper.make_opsetid("", 18)]
    shared = helper.make_function("f", "Look", ["a"], ["b"], [constant, node("Gather", ["table", "a"], ["b"])], imports)
    nodes = [node("NonZero", ["x"], ["n"])]
    names = ["n", *(f"t{i}" for i in range(4))]
    nodes += [node("Look", [one], [other], domain="f") for one, other in itertools.pairwise(names)]
    proto = model(nodes, [info("x", FLOAT, (5,))], [info(names[-1], INT64)], imports=[helper.make_opsetid("f", 1)])
    proto.functions.append(shared)
    net = dgo.from_onnx(proto).compile()
    net.save(tmp_path / "net")
    assert (tmp_path / "net").stat().st_size < 2 * table.nbytes
    x = np.float32([0, 1, 0, 2, 3])
    np.testing.assert_array_equal(dgo.load(tmp_path / "net")(x), [[1, 3, 4]])


@pytest.mark.parametrize("name", ["\ud800", "é"])
def test_names_in_files_are_whole_characters(name, tmp_path):
    net = dgo.from_onnx(selected()).compile()
    net.graph._whole.name = name
    net.save(tmp_path / "net")
    if name == "é":
        assert name in repr(dgo.load(tmp_path / "net"))
    else:
        with pytest.raises(dgo.InvalidArgumentError, match="damaged"):
            dgo.load(tmp_path / "net")
