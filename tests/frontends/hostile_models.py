"""Models that ask for far more than they hold. Run as a child process: python -m frontends.hostile_models SET

Each is read under a limit of memory. Prints "NAME ERROR MILLISECONDS MESSAGE"; ERROR is - where the model is read.
"""

import re
import resource
import sys
import time
from pathlib import Path

import numpy as np
from onnx import helper, numpy_helper

import dnnl_graph_ops as dgo

LIMIT = 1 << 30


def model(nodes, constants=(), functions=(), outputs=("y",), shape=(2, 3)):
    """A model with the input x; a node from x to y is added where none makes y."""
    made = {name for node in nodes for name in node.output}
    nodes = [*nodes, *(helper.make_node("Relu", ["x"], ["y"]) for _ in [0] if "y" in outputs and "y" not in made)]
    graph = helper.make_graph(
        nodes,
        "hostile",
        [helper.make_tensor_value_info("x", 1, shape)],
        [helper.make_tensor_value_info(name, 1, None) for name in outputs],
        [numpy_helper.from_array(np.asarray(array), name) for name, array in dict(constants).items()],
    )
    imports = [helper.make_opsetid("", 18), helper.make_opsetid("f", 1)]
    return helper.make_model(graph, functions=list(functions), opset_imports=imports, ir_version=10)


def function(name, *nodes, inputs=("a",), outputs=("b",), **more):
    imports = [helper.make_opsetid("", 18), helper.make_opsetid("f", 1)]
    return helper.make_function("f", name, list(inputs), list(outputs), list(nodes), imports, **more)


def call(name, source="a", target="b", **attrs):
    return helper.make_node(name, [source], [target], domain="f", **attrs)


def relu():
    return helper.make_node("Relu", ["a"], ["b"])


def bomb(levels):
    """Each calls the next one twice."""
    calls = [(f"F{i}", f"F{i + 1}") for i in range(levels)]
    pairs = [function(name, call(below, "a", "m"), call(below, "m", "b")) for name, below in calls]
    return [*pairs, function(f"F{levels}", relu())]


def branches(name):
    inner = helper.make_graph([call(name, "a", "q")], "g", [], [helper.make_tensor_value_info("q", 1, None)])
    return helper.make_node("If", ["a"], ["b"], then_branch=inner, else_branch=inner)


def functions():
    start = [call("F0", "x", "y")]
    yield "three levels", model(start, functions=bomb(3))
    yield "sixty levels", model(start, functions=bomb(60))
    yield "two thousand levels", model(start, functions=bomb(2000))
    yield (
        "a chain of 5000",
        model(
            start, functions=[*(function(f"F{i}", call(f"F{i + 1}")) for i in range(5000)), function("F5000", relu())]
        ),
    )
    yield "itself", model(start, functions=[function("F0", call("F0"))])
    yield "each other", model(start, functions=[function("F0", call("F1")), function("F1", call("F0"))])
    yield "itself in a branch", model(start, functions=[function("F0", branches("F0"))])
    yield "never called", model([], functions=[function("F0", call("F0"))])
    yield "twice", model(start, functions=[function("F0", relu()), function("F0", relu())])
    # the inliner of onnx joins the parts of a name by colons
    colons = helper.make_function("f::g", "h", ["a"], ["b"], [helper.make_node("g::h", ["a"], ["b"], domain="f")], [])
    yield "colons", model([helper.make_node("h", ["x"], ["y"], domain="f::g")], functions=[colons])
    wide = function("F0", helper.make_node("Sum", ["a"] * 50_000, ["b"]))
    yield (
        "wide nodes",
        model(
            [call("F0", "x" if not i else f"t{i}", f"t{i + 1}") for i in range(500)],
            functions=[wide],
            outputs=("t500",),
        ),
    )
    long = function("F0", relu(), inputs=("a", *[""] * 200_000))
    yield (
        "long signatures",
        model(
            [call("F0", "x" if not i else f"t{i}", f"t{i + 1}") for i in range(500)],
            functions=[long],
            outputs=("t500",),
        ),
    )
    zeros = numpy_helper.from_array(np.zeros(1 << 20, np.float32))
    heavy = function(
        "F0", helper.make_node("Constant", [], ["c"], value=zeros), helper.make_node("Add", ["a", "c"], ["b"])
    )
    yield (
        "heavy constants",
        model(
            [call("F0", "x", f"t{i}") for i in range(2000)],
            functions=[heavy],
            outputs=("t0",),
            shape=(1 << 20,),
        ),
    )
    yield "many unused", model([], functions=[function(f"F{i}", relu()) for i in range(60_000)])
    yield "too many inputs", model([helper.make_node("F0", ["x", "x"], ["y"], domain="f")], functions=bomb(0))


def whole(*values):
    return np.array(values, np.int64)


def folding():
    node = helper.make_node
    one, filled = {"one": np.float32([1])}, {"n": whole(1 << 24)}
    zeros = numpy_helper.from_array(whole(0))

    def many(kind, inputs, count, target="c{}", **attrs):
        return [node(kind, inputs, [target.format(i)], **attrs) for i in range(count)]

    def span(start, limit, delta):
        return model(many("Range", ["a", "l", "d"], 10), {"a": start, "l": limit, "d": delta})

    yield "ConstantOfShape", model(many("ConstantOfShape", ["n"], 60), filled)
    yield "Expand", model(many("Expand", ["one", "n"], 60), filled | one)
    yield "Expand to all axes", model(many("Expand", ["one", "n"], 1), one | {"n": whole(*[1 << 20] * 3)})
    yield "Range", span(*np.array([0, 1 << 24, 1], np.int64))
    yield "Range of all integers", span(*np.array([-(1 << 63), (1 << 63) - 1, 1], np.int64))
    for name, numbers in {
        "to infinity": (0, np.inf, 1),
        "to NaN": (0, np.nan, 1),
        "by 0": (0, 5, 0),
        "by infinity": (0, 5, np.inf),
        "by next to nothing": (0, 3e38, 1e-45),
    }.items():
        yield f"Range {name}", span(*map(np.float32, numbers))
    yield "Range by arrays", span(whole(0), whole(5), whole(1, 2))
    yield "negative size", model(many("ConstantOfShape", ["n"], 1), {"n": whole(-1)})
    yield (
        "sizes in millions",
        model([*many("ConstantOfShape", ["n"], 1, value=zeros), node("ConstantOfShape", ["c0"], ["d"])], filled),
    )
    yield (
        "axes in millions",
        model(
            [*many("ConstantOfShape", ["n"], 1, value=zeros), node("ReduceProd", ["c0", "c0"], ["d"])],
            {"n": whole(1 << 23)},
        ),
    )
    yield (
        "long products",
        model([*many("Expand", ["one", "n"], 1), *many("ReduceProd", ["c0"], 3000, "d{}")], filled | one),
    )
    column, row = {"a": np.zeros((1 << 12, 1), np.float32)}, {"b": np.zeros((1, 1 << 12), np.float32)}
    yield "Max", model([node("Max", ["a"] * 60 + ["b"], ["m"])], column | row)
    yield "Where", model(many("Where", ["t", "a", "b"], 60), column | row | {"t": np.array(True)})
    yield (
        "Gather",
        model(
            [node("ConstantOfShape", ["n"], ["i"], value=zeros), *many("Gather", ["a", "i"], 60)],
            {"n": whole(1 << 20), "a": np.zeros((1, 64), np.float32)},
        ),
    )
    yield "Concat", model([node("Concat", ["a"] * 5000, ["c"], axis=0)], {"a": np.zeros(1 << 18, np.float32)})
    yield (
        "Cast",
        model(
            [*many("Expand", ["one", "n"], 1), *many("Cast", ["c0"], 60, "d{}", to=11)], filled | {"one": np.uint8([1])}
        ),
    )
    yield (
        "Div",
        model(
            [
                node("Unsqueeze", ["v", "zero"], ["r"]),
                node("Unsqueeze", ["v", "first"], ["s"]),
                *many("Div", ["r", "s"], 60),
            ],
            {"v": np.ones(1 << 12, np.int64), "zero": whole(0), "first": whole(1)},
        ),
    )
    names = [f"y{i}" for i in range(600)]
    big = {"a": np.zeros(1 << 20, np.float32)}
    yield (
        "constants under many names",
        model(
            [
                part
                for i, name in enumerate(names)
                for part in (node("Identity", ["a"], [f"i{i}"]), node("Add", ["x", f"i{i}"], [name]))
            ],
            big,
            outputs=names,
            shape=(1 << 20,),
        ),
    )
    yield "outputs", model([node("Identity", ["a"], [name]) for name in names], big, outputs=names)
    yield (
        "slopes",
        model(
            [node("PRelu", ["x", "a"], [name]) for name in names],
            {"a": np.zeros((1 << 20, 1), np.float32)},
            outputs=names,
            shape=(1, 1 << 20, 1),
        ),
    )
    statistics = {
        "w": np.zeros((3, 4, 1), np.float32),
        "g": np.zeros((1 << 18, 1), np.float32),
        "v": np.ones(1 << 18, np.float32),
    }
    yield (
        "statistics that broadcast",
        model(
            [node("ConvTranspose", ["x", "w"], ["t"]), node("BatchNormalization", ["t", "g", "g", "g", "v"], ["y"])],
            statistics,
            shape=(1, 3, 2),
        ),
    )
    yield (
        "resized points",
        model(
            [node("Resize", ["x", "", "s"], [name], mode="linear") for name in names],
            {"s": np.float32([1, 1, 4])},
            outputs=names,
            shape=(1, 1, 1 << 22),
        ),
    )


def limit_memory(extra=LIMIT):
    """No more address space than `extra` bytes beyond what the process has now."""
    pages = re.search(r"VmSize:\s+(\d+) kB", Path("/proc/self/status").read_text())
    most = int(pages[1]) * 1024 + extra
    resource.setrlimit(resource.RLIMIT_AS, (most, most))


def main(which):
    contents = {name: proto.SerializeToString() for name, proto in globals()[which]()}
    # what is loaded once is not the model's
    dgo.from_onnx(model([]).SerializeToString())
    limit_memory()
    for name, content in contents.items():
        print(f"CASE {name}", flush=True)
        start = time.perf_counter()
        try:
            found = f"- {len(dgo.from_onnx(content).nodes)} ops"
        except Exception as error:
            found = f"{type(error).__name__} {str(error)!r}"
        kind, _, text = found.partition(" ")
        print(f"{name}|{kind}|{(time.perf_counter() - start) * 1000:.0f}|{text}", flush=True)
    print("DONE")


if __name__ == "__main__":
    main(*sys.argv[1:])
