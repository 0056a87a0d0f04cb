"""Command line: `dnnl-graph-ops`, and `python -m dnnl_graph_ops`, say what a bug report needs.

Exit status: 0 fine; 1 an error of the package or of a file, or a check that failed; 2 wrong usage; those of `bench`
are in its help; 130 interrupted.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib import import_module
from typing import Any, NamedTuple

from . import explain_command, selftest
from .errors import Error
from .runtime import cache_files, info
from .runtime.info import version

_INTERRUPTED = 130
_STATUSES = "Exit status: 0 fine, 1 an error or a failed check, 2 wrong usage, 130 interrupted."
_MODULE = "python -m dnnl_graph_ops"


class Command(NamedTuple):
    """One subcommand: its help, and what it does with its options; returns the exit status.

    `run` may be the name of a module whose `main` has a command line of its own.
    """

    help: str
    run: Callable[[argparse.Namespace], int] | str
    arguments: Callable[[argparse.ArgumentParser], None] = lambda parser: None


def _switches(**helps: str) -> Callable[[argparse.ArgumentParser], None]:
    """Arguments that are given or not, by name, with their help."""

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
    from .compile.supported import markdown

    print("\n".join(markdown(options.missing)))
    return 0


def _cache(options: argparse.Namespace) -> int:
    """Files only: what plans hold in memory is a process's own, `dgo.cache_info()`."""
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
    "bench": Command("measure layers and whole models against other frameworks; compare results", "bench.cli"),
    "cache": Command(
        "choices that were measured, fits and models in the user's cache directory",
        _cache,
        _switches(clear="delete these files", json="print JSON"),
    ),
    "explain": Command(
        "partitions, implementations and times of a graph file", explain_command.run, explain_command.arguments
    ),
    "fit": Command("fit the cost model to this machine", "bench.fit"),
    "info": Command("versions, libraries, engines, CPU and threads (the default)", _info, _switches(json="print JSON")),
    "selftest": Command(
        "whether an engine computes right; the report can be pasted into an issue", selftest.run, selftest.arguments
    ),
    "status": Command(
        "how each op runs, by version of the library", _status, _switches(missing="only the ops that cannot be run")
    ),
}


def _parser(prog: str) -> argparse.ArgumentParser:
    """The command line of all subcommands."""
    parser = argparse.ArgumentParser(prog=prog, description="Without a command: info.", epilog=_STATUSES)
    parser.add_argument("--version", action="version", version=f"dnnl_graph_ops {version()}")
    commands = parser.add_subparsers(dest="command", metavar="command")
    for name, command in COMMANDS.items():
        command.arguments(commands.add_parser(name, help=command.help, description=command.help, epilog=_STATUSES))
    return parser


def main(arguments: Sequence[str] | None = None, prog: str = _MODULE) -> int:
    """Run a subcommand; an error of the package or of a file becomes one line and status 1."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    named = COMMANDS.get(words[0]) if words else None
    try:
        if named is not None and isinstance(named.run, str):
            return import_module(f".{named.run}", __package__).main(words[1:], f"{prog} {words[0]}") or 0
        options = _parser(prog).parse_args(words)
        run = COMMANDS[options.command or "info"].run
        assert not isinstance(run, str)
        return run(options)
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
