"""`python -m dnnl_graph_ops explain FILE`: what a graph or an ONNX model becomes, node by node, drawn and timed."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import numpy as np

from . import dtypes
from .compile.net import TUNES, Net
from .errors import InvalidArgumentError
from .graph import Graph, Value


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file", help="a graph in benchdnn's JSON format, or an ONNX model (*.onnx)")
    parser.add_argument("--svg", metavar="FILE", help="draw the graph, coloured by partition, as SVG")
    parser.add_argument("--profile", action="store_true", help="run on random data and time each step")
    parser.add_argument("--tune", choices=TUNES, default="heuristic", help="as in Graph.compile")


def run(options: argparse.Namespace) -> int:
    if options.svg:
        from .bench.document import check_writable

        if not options.svg.lower().endswith(".svg"):
            raise InvalidArgumentError(f"{options.svg}: the picture is SVG; end the name in .svg")
        check_writable(options.svg)
    if _is_onnx(options.file):
        from .interop.onnx.importer import survey

        found = survey(options.file)
        print(found, end="\n" if found.problems else "\n\n")
        if found.problems:
            return 1
    net = _load(options.file).compile(tune=options.tune)
    print(net.explain())
    if options.profile:
        print()
        _print_profile(net)
    if options.svg:
        net.to_svg(options.svg)
        print(f"\ndrawn in {options.svg}")
    return 0


def _is_onnx(file: str) -> bool:
    return file.lower().endswith(".onnx")


def _load(file: str) -> Graph:
    if _is_onnx(file):
        from .interop.onnx import from_onnx

        return from_onnx(file)
    return Graph.from_json(Path(file))


def _print_profile(net: Net) -> None:
    rng = np.random.default_rng(0)
    print(net.profile(*(_random(value, rng) for value in net.inputs)))


def _random(value: Value, rng: np.random.Generator) -> np.ndarray[Any, Any]:
    if None in value.shape:
        raise InvalidArgumentError(f"input {value.name!r} has unknown dims {value.shape}: nothing to profile")
    # near zero and positive: integers fit, and roots and logarithms are defined
    drawn = rng.uniform(0.1, 2.0, value.shape)  # type: ignore[arg-type]
    array: np.ndarray[Any, Any] = drawn.astype(dtypes.numpy_dtype(value.dtype))
    return array
