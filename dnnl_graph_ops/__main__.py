"""The command line, `dnnl-graph-ops` or `python -m dnnl_graph_ops`: by default the facts that a bug report needs.

Exit status: 0 fine; 1 an error of the package or of a file, or a check that failed; 2 wrong usage; those of `bench`
are in its help; 130 interrupted.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib import import_module
from typing import Any, NamedTuple

from . import selftest
from .commands import benchmark, convert, diff, explain, run
from .errors import Error
from .runtime import cache_files, info
from .runtime.info import version
from .usage import parsed, unknown_command

_INTERRUPTED = 130
_BROKEN_PIPE = 141
_STATUSES = "Exit status: 0 fine, 1 an error or a failed check, 2 wrong usage, 130 interrupted."
_MODULE = "python -m dnnl_graph_ops"
# commands of other programs: the command here, or what does it
_OTHERS = {
    **dict.fromkeys(("infer", "predict", "call", "exec", "execute"), "run"),
    **dict.fromkeys(("compile", "export", "save", "optimize", "optimise", "build"), "convert"),
    **dict.fromkeys(("compare", "verify", "validate", "accuracy"), "diff"),
    **dict.fromkeys(("time", "perf", "perf_test", "benchmark_app", "measure", "latency"), "benchmark"),
    **dict.fromkeys(("inspect", "show", "draw", "summary", "visualize"), "explain"),
    "profile": "it is explain FILE --profile, and --trace FILE for Perfetto",
    **dict.fromkeys(
        ("quantize", "calibrate"), "it is done in Python: dgo.quantize.calibrate(model, samples).to_onnx(path)"
    ),
    **dict.fromkeys(("serve", "server"), "a server is written in Python with dgo.Pool: docs/howto/serving.md"),
    **dict.fromkeys(("version", "--v"), "it is --version, or info"),
    **dict.fromkeys(("test", "check"), "selftest"),
    "tune": "it is convert FILE --tune measure",
}


class Command(NamedTuple):
    """One subcommand: its help, a function that runs it and returns the exit status, one that adds its options.

    `run` may be the name of a module whose `main` has a command line of its own.
    """

    help: str
    run: Callable[[argparse.Namespace], int] | str
    arguments: Callable[[argparse.ArgumentParser], None] = lambda parser: None


def _switches(**helps: str) -> Callable[[argparse.ArgumentParser], None]:
    """Adds options without a value: {name: help}."""

    def arguments(parser: argparse.ArgumentParser) -> None:
        for name, text in helps.items():
            parser.add_argument(f"--{name}", action="store_true", help=text)

    return arguments


def _info(options: argparse.Namespace) -> int:
    return _print(info(), getattr(options, "json", False))


def _print(values: Mapping[str, Any], as_json: bool) -> int:
    print(json.dumps(values, indent=2) if as_json else "\n".join(_lines(values)))
    return 0


def _lines(values: Mapping[str, Any], indent: str = "") -> Iterator[str]:
    """Nested dicts and lists as indented `key: value` lines, the values of a level in one column."""
    width = max((len(name) for name in values), default=0) + 2
    for name, value in values.items():
        label = f"{indent}{name + ':':{width}}"
        if isinstance(value, Mapping):
            yield label.rstrip() + ("" if value else " none")
            yield from _lines(value, indent + "  ")
        elif isinstance(value, list | tuple):
            yield label.rstrip() + ("" if value else " none")
            for item in value:
                if isinstance(item, Mapping):
                    first, *rest = _lines(item, indent + "    ")
                    yield f"{indent}  - {first.lstrip()}"
                    yield from rest
                else:
                    yield f"{indent}  - {item}"
        else:
            yield label + str(value)


def _status(options: argparse.Namespace) -> int:
    from .reports.supported import markdown

    print("\n".join(markdown(options.missing)))
    return 0


def _cache(options: argparse.Namespace) -> int:
    """Lists or deletes cache files; plans in memory belong to a process (`dgo.cache_info()`)."""
    folder = cache_files.folder(".")
    subjects = {}
    for path in sorted(path for path in folder.iterdir() if path.is_dir()) if folder.is_dir() else ():
        files = [file for file in path.iterdir() if file.is_file()]
        subjects[path.name] = {
            "files": len(files),
            "bytes": 0 if options.clear else sum(file.stat().st_size for file in files),
        }
        for file in files if options.clear else ():
            file.unlink(missing_ok=True)
    return _print({"deleted": options.clear, "folder": str(folder), "subjects": subjects}, options.json)


COMMANDS = {
    "benchmark": Command(
        "measure the latency and throughput of a model; bench compares it with other frameworks",
        benchmark.run,
        benchmark.arguments,
    ),
    "bench": Command("benchmark layers and whole models against other frameworks", "bench.cli"),
    "cache": Command(
        "list or delete files in the user's cache directory: autotune results, cost-model fits, downloaded models",
        _cache,
        _switches(clear="delete these files", json="print JSON"),
    ),
    "convert": Command(
        "compile a model, and write the net with its packed weights for dgo.load", convert.run, convert.arguments
    ),
    "diff": Command(
        "compare the results of two models, or of a model in two precisions: the largest error of each output, and the "
        "first layer that differs; status 1 if they differ",
        diff.run,
        diff.arguments,
    ),
    "explain": Command("show the fusion groups, implementations and times of a model", explain.run, explain.arguments),
    "fit": Command("fit the cost model to this machine", "bench.fit"),
    "info": Command(
        "show versions, libraries, engines, CPU and threads (the default)", _info, _switches(json="print JSON")
    ),
    "run": Command("call a model on arrays of files, or on random numbers", run.run, run.arguments),
    "selftest": Command(
        "check an engine's results; the report can be pasted into an issue", selftest.run, selftest.arguments
    ),
    "status": Command(
        "show how each op runs, by oneDNN version", _status, _switches(missing="only the ops that cannot run")
    ),
}


def _parser(prog: str) -> argparse.ArgumentParser:
    """The command line of all subcommands."""
    parser = argparse.ArgumentParser(prog=prog, description="Without a command: info.", epilog=_STATUSES)
    parser.add_argument("--version", action="version", version=f"dnnl_graph_ops {version()}")
    commands = parser.add_subparsers(dest="command", metavar="command")
    for name, command in COMMANDS.items():
        subparser = commands.add_parser(name, help=command.help, description=command.help, epilog=_STATUSES)
        command.arguments(subparser)
        subparser.set_defaults(parser=subparser)
    return parser


def main(arguments: Sequence[str] | None = None, prog: str = _MODULE) -> int:
    """Run a subcommand; an error of the package or of a file becomes one line and status 1."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    named = COMMANDS.get(words[0]) if words else None
    try:
        if named is not None and isinstance(named.run, str):
            return import_module(f".{named.run}", __package__).main(words[1:], f"{prog} {words[0]}") or 0
        parser = _parser(prog)
        if words and named is None and not words[0].startswith("-"):
            unknown_command(parser, words[0], COMMANDS, _OTHERS)
        options = parsed(parser, words)
        command = COMMANDS[options.command or "info"].run
        assert not isinstance(command, str)
        return command(options)
    except BrokenPipeError:  # the reader of the output has ended, as head does
        # the interpreter flushes the output once more at its end
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return _BROKEN_PIPE
    except (Error, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return _INTERRUPTED


def script() -> int:
    """The console script."""
    return main(prog="dnnl-graph-ops")


if __name__ == "__main__":
    sys.exit(main())
