"""`dnnl-graph-ops explain MODEL`: the fusion groups and steps of a model, drawn and timed."""

from __future__ import annotations

import argparse
import json
from typing import Any

from ..bench.document import check_writable
from ..errors import InvalidArgumentError
from ..net.net import Net
from . import models


def arguments(parser: argparse.ArgumentParser) -> None:
    models.add_file(parser, "file")
    parser.add_argument("--svg", metavar="FILE", help="draw the graph, coloured by partition, as SVG")
    models.add_shape(parser)
    parser.add_argument("--rewrites", action="store_true", help="list which rewrites fired, and why others did not")
    parser.add_argument(
        "--passes", action="store_true", help="print the graph after each pass, then its fusion groups and steps"
    )
    parser.add_argument("--profile", action="store_true", help="run on random data and time each step")
    parser.add_argument("--trace", metavar="FILE", help="time each step, and write a trace that Perfetto opens (.json)")
    parser.add_argument("--json", action="store_true", help="print JSON: an object with explanation and profile")
    models.add_options(parser)


def run(options: argparse.Namespace) -> int:
    if options.svg:
        if not options.svg.lower().endswith(".svg"):
            raise InvalidArgumentError(f"{options.svg}: the picture is SVG; end the name in .svg")
        check_writable(options.svg)
    if options.trace:
        if not options.trace.lower().endswith(".json"):
            raise InvalidArgumentError(f"{options.trace}: a trace is JSON; end the name in .json")
        check_writable(options.trace)
    if options.file.lower().endswith(".onnx"):
        from ..frontends.onnx.importer import survey

        found = survey(options.file)
        if found.problems or not options.json:
            print(found, end="\n" if found.problems else "\n\n")
        if found.problems:
            return 1
    net = models.compiled(options.file, options)
    # steps are chosen per shape; the stages of a staged graph are shown without shapes
    timed = options.profile or options.trace
    undecided = type(net) is Net and net._latest() is None
    arrays = models.random(net, options.shape) if undecided or timed or options.shape else []
    if undecided:
        net.prepare([{name: array.shape for name, array in zip(net.input_names, arrays, strict=True)}])
    said = net.explain(rewrites=options.rewrites, passes=options.passes)
    profile = net.profile(*arrays) if timed else None
    if profile is not None and options.trace:
        profile.save(options.trace)
    if options.json:
        record: dict[str, Any] = {"explanation": said.to_dict()}
        if profile is not None:
            record["profile"] = [vars(step) for step in profile]
        print(json.dumps(record, indent=2))
    else:
        print(said)
        if profile is not None:
            print(f"\n{profile}")
    if options.svg:
        net.to_svg(options.svg)
    if not options.json:
        for done, path in (("drawn in", options.svg), ("traced in", options.trace)):
            if path:
                print(f"\n{done} {path}")
    return 0
