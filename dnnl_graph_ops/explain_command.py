"""`python -m dnnl_graph_ops explain FILE`: the partitions of a graph or an ONNX model, op by op, drawn and timed."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from . import dtypes
from .errors import InvalidArgumentError
from .graph import Graph
from .net.net import Net
from .net.options import TUNES
from .net.sizes import Shapes, all_shapes, by_name


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file", help="a graph in benchdnn's JSON format, or an ONNX model (*.onnx)")
    parser.add_argument("--svg", metavar="FILE", help="draw the graph, coloured by partition, as SVG")
    parser.add_argument(
        "--shape",
        action="append",
        default=[],
        metavar="NAME=1,3,64,64",
        help="shape of an input with dynamic dims; may be repeated",
    )
    parser.add_argument("--rewrites", action="store_true", help="list which rewrites fired, and why others did not")
    parser.add_argument(
        "--passes", action="store_true", help="print the graph after each pass, then its fusion groups and steps"
    )
    parser.add_argument("--profile", action="store_true", help="run on random data and time each step")
    parser.add_argument(
        "--tune", choices=TUNES, default="heuristic", help="how implementations are chosen: see Graph.compile"
    )


def run(options: argparse.Namespace) -> int:
    if options.svg:
        from .bench.document import check_writable

        if not options.svg.lower().endswith(".svg"):
            raise InvalidArgumentError(f"{options.svg}: the picture is SVG; end the name in .svg")
        check_writable(options.svg)
    if options.file.lower().endswith(".onnx"):
        from .frontends.onnx.importer import from_onnx, survey

        found = survey(options.file)
        print(found, end="\n" if found.problems else "\n\n")
        if found.problems:
            return 1
        graph = from_onnx(options.file)
    else:
        graph = Graph.from_json(Path(options.file))
    net = graph.compile(tune=options.tune)
    # steps are chosen per shape; the stages of a staged graph are shown without shapes
    undecided = type(net) is Net and net._latest() is None
    shapes = _shapes(net, options.shape) if undecided or options.profile or options.shape else ()
    if undecided:
        net.prepare([shapes])
    print(net.explain(rewrites=options.rewrites, passes=options.passes))
    if options.profile:
        print()
        print(net.profile(*_random(net, shapes)))
    if options.svg:
        net.to_svg(options.svg)
        print(f"\ndrawn in {options.svg}")
    return 0


def _shapes(net: Net, stated: Sequence[str]) -> Shapes:
    """Returns the shapes of all inputs; `stated`: "NAME=SIZE,SIZE..." for inputs with dynamic dims."""
    given: dict[str, tuple[int, ...]] = {}
    for word in stated:
        name, _, sizes = word.rpartition("=")
        expected = f"--shape {word}: expected {name or next(iter(net.input_names), 'NAME')}=SIZE,SIZE..."
        if not name:
            raise InvalidArgumentError(expected)
        by_name({name: sizes}, net.input_names, f"--shape {word}")
        try:
            given[name] = tuple(int(size) for size in sizes.split(","))
        except ValueError:
            raise InvalidArgumentError(expected) from None
    for value in net.inputs:
        if None in value.shape and value.name not in given:
            text = ", ".join("?" if size is None else str(size) for size in value.shape)
            raise InvalidArgumentError(
                f"input {value.name!r} ({text}) has sizes that are not known: give them with --shape {value.name}=..."
            )
    return all_shapes(net.inputs, [given], "--shape")[0]


def _random(net: Net, shapes: Shapes) -> list[np.ndarray[Any, Any]]:
    rng = np.random.default_rng(0)
    # small positive numbers: they fit into integers, and roots and logarithms are defined
    return [
        rng.uniform(0.1, 2.0, shape).astype(dtypes.numpy_dtype(value.dtype))
        for value, shape in zip(net.inputs, shapes, strict=True)
    ]
