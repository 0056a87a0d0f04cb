"""The command line: `python -m dnnl_graph_ops.bench` and its commands (compare, merge, report, ...)."""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import fields
from pathlib import Path
from typing import Any

from ..errors import Error, InvalidArgumentError
from ..progress import Progress, shown, silent
from ..runtime.threads import get_num_threads
from ..usage import parsed as parsed_words
from ..words import counted
from . import suite, zoo
from .cases import Wanted
from .document import Document, check_writable, merge, write_text
from .options import Options, described
from .problem import CLASSES, DIRECTIONS, OPS
from .sources import Filters

_INTERRUPTED = 130
_USAGE = 2
_STATUS = (
    "0 fine, 1 a comparison found something slower, 2 wrong usage, 3 no row could be measured, 4 a comparison is "
    "undecided, 130 interrupted"
)


def main(arguments: Sequence[str] | None = None, prog: str = "python -m dnnl_graph_ops.bench") -> int:
    """The command; returns the exit status, which its help tells."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    if not words or (words[0].startswith("-") and words[0] not in ("-h", "--help")):
        words.insert(0, "run")
    parsed = parsed_words(_parser(prog), words)
    try:
        status: int = parsed.function(parsed)
        return status
    except Error as error:
        print(f"error: {error}", file=sys.stderr)
        return _USAGE
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return _INTERRUPTED
    except BrokenPipeError:
        return 0


def _commas(text: str) -> tuple[str, ...]:
    return tuple(word.strip() for word in text.split(",") if word.strip())


def _numbers(text: str) -> list[int]:
    if not all(word.strip().isdigit() for word in text.split(",")):
        raise argparse.ArgumentTypeError(f"{text!r}: expected numbers, such as 1,2,4")
    return [int(number) for number in text.split(",")]


def _shard(text: str) -> tuple[int, int]:
    index, slash, count = text.partition("/")
    if not (slash and index.isdigit() and count.isdigit()):
        raise argparse.ArgumentTypeError(f"{text!r}: expected I/N, such as 1/4")
    return int(index), int(count)


def _parser(prog: str) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog=prog,
        description="Measures transposed and ordinary convolutions against other frameworks: every competitor in a "
        "process of its own, in short turns in random order; results are compared first.",
        epilog=f"Exit status: {_STATUS}. Other packages add peers by entry points of dnnl_graph_ops.bench_peers.",
    )
    commands = parser.add_subparsers(required=True, metavar="command", title="commands (run if none is given)")
    _add_run(commands.add_parser("run", help="measure (the default); run --help lists the choices"))
    one = commands.add_parser("compare", help="test two results for change; exit status 1 if something became slower")
    one.add_argument("old", help="result file")
    one.add_argument("new", help="result file")
    one.add_argument("--threshold", type=float, default=0.10, help="least change that counts (0.10)")
    one.add_argument("--alpha", type=float, default=0.01, help="level of the tests (0.01)")
    one.add_argument("--measure", default="auto", choices=("auto", "ratio", "time"))
    one.set_defaults(function=_compare)
    one = commands.add_parser("merge", help="put shards together")
    one.add_argument("results", nargs="+")
    _add_outputs(one)
    one.set_defaults(function=_merge)
    one = commands.add_parser("report", help="write reports of a result again")
    one.add_argument("results", nargs=1)
    _add_outputs(one)
    one.set_defaults(function=_merge)
    one = commands.add_parser("publish", help="measure every suite for some minutes: a small file of this machine")
    one.add_argument(
        "--minutes", type=float, default=15.0, help="of each number of threads, with earlier calls of the same day (15)"
    )
    one.add_argument("--out", default=".", metavar="FOLDER", help="of the file, its page and the full results (.)")
    one.add_argument(
        "--threads",
        type=_numbers,
        default=None,
        metavar="N,...",
        help="of every competitor, a file for each number (1 and the number of cores); with several, whole models are "
        "also called by as many streams of one thread each",
    )
    one.add_argument("--peers", type=_commas, default=(), help="further peers of layers, e.g. onednn@LIBRARY")
    one.add_argument("--page", metavar="FILE", help="only write the page of this file again, next to it")
    one.add_argument("--quiet", action="store_true", help="no progress")
    one.set_defaults(function=_publish)
    one = commands.add_parser("list", help="show problems and peers without measuring")
    _add_problems(one)
    one.set_defaults(function=_list)
    for each in commands.choices.values():
        each.set_defaults(parser=each)
    return parser


def _add_problems(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("problems")
    group.add_argument(
        "--op",
        dest="ops",
        type=_commas,
        default=OPS[:1],
        help=f"of {','.join(OPS)} (conv_transpose): whose real_layers; a file or descriptor that does not say it is "
        "of the first",
    )
    group.add_argument(
        "--suite",
        action="append",
        default=[],
        metavar="WHAT",
        help="real_layers (default), a public list (" + ", ".join(suite.PUBLIC) + "), a layer's name, a file (list of "
        "problems in JSON, batch file of "
        "benchdnn) or a benchdnn descriptor such as mb1ic64ih32oc64oh64kh4sh2ph1 or, quoted, "
        "'--conv mb1ic64ih32oc64kh3ph1'; may be repeated",
    )
    group.add_argument(
        "--model",
        dest="models",
        action="append",
        default=[],
        metavar="NAME|FILE|all",
        help="a whole model instead of layers, of the zoo (" + ", ".join(zoo.ENTRIES) + ") or of an ONNX file; may be "
        "repeated. Of the peers, torch and torch-compile run the zoo's modules; onnxruntime, openvino (in f32), "
        "openvino-default (in the precision that it chooses) and mnn read the file; ncnn's Python package has no "
        "converter. Every model gets new processes, so that compile time and peak memory are those of a first use",
    )
    group.add_argument("--quick", action="store_true", help="a few small layers, few rounds, under three minutes")
    group.add_argument("--match", default="", metavar="REGEX", help="only layers whose name matches")
    group.add_argument("--family", type=_commas, default=(), help="only these families, e.g. vocoder,segmentation3d")
    group.add_argument("--class", dest="classes", type=_commas, default=(), help=f"only these, of {', '.join(CLASSES)}")
    group.add_argument("--mb", type=int, default=0, help="batch instead of each layer's")


# options that have another name than their field
_NAMES = {
    "directions": "direction",
    "dtypes": "dtype",
    "layouts": "layout",
    "precisions": "precision",
}
_TYPES = {"int": int, "float": float, "float | None": float, "str": str, "tuple[str, ...]": _commas}


def _add_run(parser: argparse.ArgumentParser) -> None:
    _add_problems(parser)
    group, told = parser.add_argument_group("options"), described()
    for each in fields(Options):
        value = each.default
        default = ",".join(value) if isinstance(value, tuple) else value
        how: dict[str, Any] = {
            "help": f"{told[each.name].rstrip('.')}{f' ({default})' if default else ''}".replace("%", "%%")
        }
        how |= {"action": "store_true"} if each.type == "bool" else {"type": _TYPES[str(each.type)], "metavar": "..."}
        flag = f"--{_NAMES.get(each.name, each.name).replace('_', '-')}"
        group.add_argument(flag, dest=each.name, default=None, **how)
    group.add_argument(
        "--streams",
        type=_numbers,
        default=None,
        metavar="N,...",
        help="of whole models: so many clients call at a time, as in a server, each call with its part of --threads; "
        "prints calls a second and percentiles of a call, also of ONNX Runtime; with --sizes the calls take the sizes "
        "in turns",
    )
    _add_outputs(parser)
    group = parser.add_argument_group("long runs")
    group.add_argument("--resume", action="store_true", help="go on with the --json of an interrupted run")
    group.add_argument("--shard", type=_shard, metavar="I/N", help="measure the I-th of N parts; see merge")
    group.add_argument("--cluster", metavar="ADDRESS", help="a Dask scheduler, or local[:N]")
    parser.set_defaults(function=_run)


def _add_outputs(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("output")
    group.add_argument("--json", metavar="FILE", help="everything, with a schema version")
    group.add_argument("--csv", metavar="FILE", help="a line per competitor")
    group.add_argument("--markdown", metavar="FILE")
    group.add_argument("--plot", metavar="FILE", help="picture: png, svg or pdf")
    group.add_argument("--html", metavar="FILE", help="one file to share")
    group.add_argument("--quiet", action="store_true", help="no table and no progress")


# what has no meaning for whole models
_OF_LAYERS = ("suite", "cluster", "plot", "html")
_OUTPUTS = ("json", "csv", "markdown", "plot", "html")


def _check_outputs(parsed: argparse.Namespace) -> None:
    from .report import plot

    for name in _OUTPUTS:
        if getattr(parsed, name):
            check_writable(getattr(parsed, name))
    if parsed.plot:
        plot.format_of(parsed.plot)


def _wanted(parsed: argparse.Namespace) -> list[Any]:
    from . import models, sources

    if parsed.models:
        return models.wanted(parsed.models, getattr(parsed, "sizes", None) or "", bool(getattr(parsed, "train", None)))
    filters = Filters(parsed.match, parsed.family, parsed.mb, parsed.classes)
    return filters.apply(sources.find(parsed.suite or ["real_layers"], quick=parsed.quick, ops=parsed.ops))


def _options(parsed: argparse.Namespace) -> Options:
    """Arguments are named as the fields of `Options`; None stands for what --quick, or else its default, says."""
    start: dict[str, Any] = {}
    if parsed.quick:
        start = {**Options(budget=parsed.budget or 0.0).quick().as_dict(), "directions": DIRECTIONS}
    return Options.from_dict({**start, **{name: value for name, value in vars(parsed).items() if value is not None}})


def _run(parsed: argparse.Namespace) -> int:
    from . import runner

    _check_models(parsed)
    _check_outputs(parsed)
    wanted, options = _wanted(parsed), _options(parsed)
    if parsed.streams is not None:
        return _streams(parsed, wanted, options)
    if parsed.resume and not parsed.json:
        raise InvalidArgumentError("--resume needs --json, to know which run goes on")
    with _told(parsed.quiet) as tell:
        if parsed.cluster:
            from .cluster import run_on_cluster

            document = run_on_cluster(wanted, options, parsed.cluster, progress=tell)
        else:
            more = {"path": parsed.json, "resume": parsed.resume, "shard": parsed.shard}
            document = runner.run_wanted(wanted, options, progress=tell, **more)
    _write(document, parsed)
    if not document.complete:
        where = "; go on with --resume" if parsed.json else "; with --json it could go on"
        print(f"interrupted after {counted(len(document.rows), 'row')}{where}", file=sys.stderr)
        return _INTERRUPTED
    return 0 if any(row.status == "ok" for row in document.rows) else 3


def _streams(parsed: argparse.Namespace, wanted: Sequence[Wanted], options: Options) -> int:
    from . import machine, streams
    from .models import Model
    from .report.table import aligned

    if not parsed.models or options.train:
        raise InvalidArgumentError("--streams is for --model, without training")
    for name in ("csv", "markdown"):
        if getattr(parsed, name):
            raise InvalidArgumentError(f"--streams: reported as text and by --json, not by --{name}")
    rows = [
        row
        for some in streams.run(
            [Model.of(item.model) for item in wanted],
            parsed.streams,
            threads=options.threads,
            seconds=1.0 if parsed.quick else 5.0,
            seed=options.seed,
        )
        for row in some
    ]
    here = machine.record(options.threads or get_num_threads(), sorted(os.sched_getaffinity(0)))
    if not parsed.quiet:
        print(machine.describe(here))
        print("\n".join(aligned(list(streams.COLUMNS), streams.cells(rows))))
    if parsed.json:
        write_text(parsed.json, json.dumps({"machine": here, "rows": streams.records(rows)}, indent=1))
    return 0


@contextmanager
def _told(quiet: bool) -> Iterator[Progress]:
    """A bar on a terminal, elsewhere a line for each row; what is told first is a line everywhere."""
    if quiet:
        yield silent
        return
    with shown() as bar:
        begun = False

        def tell(done: int, total: int, text: str) -> None:
            nonlocal begun
            if not (begun and sys.stderr.isatty()):
                print(f"[{done}/{total}] {text}", file=sys.stderr)
            begun = True
            bar(done, total, text)

        yield tell


def _check_models(parsed: argparse.Namespace) -> None:
    unsuited = [name for name in _OF_LAYERS if getattr(parsed, name)]
    if parsed.models and unsuited:
        raise InvalidArgumentError(f"--{unsuited[0]} is for layers; models are reported by --json, --csv, --markdown")


def _write(document: Document, parsed: argparse.Namespace) -> None:
    from .report import columns, html, plot, table

    if not parsed.quiet:
        print(table.text(document), end="")
    if parsed.json:
        document.save(parsed.json)
    texts = {"csv": columns.as_csv, "markdown": table.markdown, "html": html.page}
    for name, render in texts.items():
        if getattr(parsed, name):
            write_text(getattr(parsed, name), render(document))
    if parsed.plot:
        plot.save(document, parsed.plot)


def _publish(parsed: argparse.Namespace) -> int:
    from . import publish
    from .report import machine_page

    if parsed.page:
        write_text(Path(parsed.page).with_suffix(".md"), machine_page.page(machine_page.load(parsed.page)))
        return 0
    with _told(parsed.quiet) as tell:
        for threads in parsed.threads or publish.thread_counts():
            print(publish.run(parsed.minutes, parsed.out, threads=threads, peers=parsed.peers, progress=tell))
    return 0


def _compare(parsed: argparse.Namespace) -> int:
    from . import comparison

    limits = {"threshold": parsed.threshold, "alpha": parsed.alpha, "measure": parsed.measure}
    result = comparison.compare_documents(Document.load(parsed.old), Document.load(parsed.new), **limits)
    print(comparison.text(result), end="")
    return result.exit_status


def _merge(parsed: argparse.Namespace) -> int:
    document = merge([Document.load(path) for path in parsed.results])
    _check_outputs(parsed)
    _write(document, parsed)
    return 0


def _list(parsed: argparse.Namespace) -> int:
    from .descriptor import format_descriptor
    from .peers import registry

    for item in _wanted(parsed):
        if item.model:
            print(f"{'model':15} {item.problem.name}")
            continue
        problem = item.problem
        cost = f"{problem.macs / 1e9:8.3f} gmac"
        kind = problem.family if problem.transposed else problem.layer_class
        print(f"{kind:15} {problem.name:36} {cost}  {format_descriptor(problem)}")
        if problem.source:
            print(f"{'':15} {problem.source}")
    for peer in registry.peers().values():
        state = peer.missing() or f"{peer.name}: installed"
        print(f"peer {state} ({','.join(peer.directions)}; {','.join(peer.dtypes)}; {','.join(peer.layouts)})")
    return 0
