"""`dnnl-graph-ops diff A [B]`: the errors of a model's outputs against another's, and the first layer that differs."""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from ..errors import Error, InvalidArgumentError
from ..graph import Value
from ..net.net import Net
from ..net.samples import differences
from ..reports.precision import OutputReport
from ..reports.tables import table
from . import models

_TOLERANCE = 1e-4


def arguments(parser: argparse.ArgumentParser) -> None:
    models.add_file(parser, "a")
    parser.add_argument("b", nargs="?", help="another such file; without it, the same model with the options below")
    models.add_inputs(parser)
    parser.add_argument(
        "--tolerance",
        type=float,
        default=_TOLERANCE,
        help=f"the largest error that counts as none, as a part of the largest value of an output ({_TOLERANCE:g})",
    )
    parser.add_argument("--json", action="store_true", help="print JSON")
    models.add_options(parser)


def run(options: argparse.Namespace) -> int:
    """Compares two models; the options of the compilation are of the second one."""
    asked = {"tune": options.tune, "precision": options.precision, "algorithm": options.algorithm}
    if options.b is None and not any(asked.values()):
        raise InvalidArgumentError("diff: pass a second model, or --precision, --algorithm or --tune for the same one")
    if not options.input:
        options.random = True
    first = models.net_of(options.a, threads=options.threads)
    second = models.net_of(options.b or options.a, **asked)
    feeds = dict(zip(first.input_names, models.arrays_of(first, options), strict=True))
    outputs = _compared(first, second, first.outputs, second.outputs, feeds)
    if not outputs:
        ours, theirs = (", ".join(net.output_names) for net in (first, second))
        raise InvalidArgumentError(
            f"diff: no output of numbers is in both: {ours} in {options.a}, {theirs} in the other"
        )
    layers, note = _layers(first, second, asked, feeds)
    culprit = next((one for one in layers if not one.relative_error <= options.tolerance), None)
    differs = any(not one.relative_error <= options.tolerance for one in outputs)
    if options.json:
        record = {
            "differs": differs,
            "outputs": [asdict(one) for one in outputs],
            "first_layer": None if culprit is None else asdict(culprit),
            "layers_compared": len(layers),
        }
        print(json.dumps(record, indent=2))
        return int(differs)
    rows = [("output", "largest error", "of the largest value", "ratio")]
    rows += [
        (o.name, f"{o.max_abs_error:.4g}", f"{o.relative_error:.2g}", f"{o.signal_to_noise_db:.1f} dB") for o in outputs
    ]
    print("\n".join(table(rows)))
    if note:
        print(note)
    elif culprit is None:
        print(f"no layer of {len(layers)} differs by more than {options.tolerance:g} of its largest value")
    else:
        print(f"first layer that differs: {culprit}")
    return int(differs)


def _compared(
    first: Net, second: Net, ours: Mapping[str, Value], theirs: Mapping[str, Value], feeds: Mapping[str, Any]
) -> tuple[OutputReport, ...]:
    """Returns the errors of the results of a call that have a name and a shape in both nets."""
    missing = [name for name in second.input_names if name not in feeds]
    if missing:
        raise InvalidArgumentError(
            f"diff: the inputs are {', '.join(first.input_names)} in the first model, and "
            f"{', '.join(second.input_names)} in the second"
        )
    given = {name: array for name, array in feeds.items() if name in second.input_names}
    want, got = first.run(feeds), second.run(given)
    names = [name for name in ours if name in theirs and want[name].shape == got[name].shape]
    return differences([(want, got)], names)


def _layers(
    first: Net, second: Net, asked: Mapping[str, Any], feeds: Mapping[str, Any]
) -> tuple[tuple[OutputReport, ...], str]:
    """Returns the errors of the results of ops that both graphs have by name, in the first one's order, or why not.

    Both graphs are compiled again with all these results as outputs, so that ops may run apart that are one group
    otherwise.
    """
    ours, theirs = ({v.name: v for node in net.graph.nodes for v in node.outputs} for net in (first, second))
    names = [name for name in ours if name in theirs]
    if not names:
        return (), "layers are not compared: the models have no names in common"
    options = {name: value for name, value in asked.items() if value is not None}
    try:
        probes = (
            first.graph.compile({name: ours[name] for name in names}),
            second.graph.compile({name: theirs[name] for name in names}, **options),
        )
        reads = {name: array for name, array in feeds.items() if name in probes[0].input_names}
        return _compared(*probes, probes[0].outputs, probes[1].outputs, reads), ""
    except Error as error:
        return (), f"layers are not compared: {error}"
