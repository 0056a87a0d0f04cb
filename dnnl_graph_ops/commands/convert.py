"""`dnnl-graph-ops convert MODEL -o FILE.net`: compiles a model and writes the net, with packed weights, to a file."""

from __future__ import annotations

import argparse
from pathlib import Path

from ..bench.document import check_writable
from ..errors import InvalidArgumentError
from ..graph import Value
from . import models


def arguments(parser: argparse.ArgumentParser) -> None:
    models.add_file(parser)
    parser.add_argument("-o", "--output", required=True, metavar="FILE.net", help="the file for dgo.load to write")
    models.add_shape(parser)
    models.add_options(parser)


def run(options: argparse.Namespace) -> int:
    if not options.output.lower().endswith(".net"):
        raise InvalidArgumentError(f"{options.output}: a compiled net is written; end the name in .net")
    check_writable(options.output)
    net = models.compiled(options.model, options)
    # a net of unknown dims packs its weights at the first call
    if options.shape or not net.plan_count():
        net(*models.random(net, options.shape))
    net.save(options.output)
    size = Path(options.output).stat().st_size
    inputs, outputs = ", ".join(_told(net.inputs)), ", ".join(net.output_names)
    print(f"{options.output}: {size:,} bytes, inputs {inputs}, outputs {outputs}")
    return 0


def _told(values: tuple[Value, ...]) -> list[str]:
    return [f"{value.name} {value.dtype} {models.spelt(value.shape)}" for value in values]
