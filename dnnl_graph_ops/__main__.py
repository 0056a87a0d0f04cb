"""Command line: `dnnl-graph-ops`, and `python -m dnnl_graph_ops`, say what a bug report needs.

Exit status: 0 fine; 1 an error of the package or of a file, or a check that failed; 2 wrong usage; those of `bench`
are in its help; 130 interrupted.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from . import explain_command, selftest
from .errors import Error
from .runtime import cache_files, info
from .runtime.info import version

_INTERRUPTED = 130
_STATUSES = "Exit status: 0 fine, 1 an error or a failed check, 2 wrong usage, 130 interrupted."
_MODULE = "python -m dnnl_graph_ops"


class Command(NamedTuple):
    """One subcommand: its help, its arguments, and what it does; returns the exit status."""

    help: str
    arguments: Callable[[argparse.ArgumentParser], None]
    run: Callable[[argparse.Namespace], int]


class Forwarded(NamedTuple):
    """A subcommand with a command line of its own, which is given the words behind its name."""

    help: str
    run: Callable[[Sequence[str], str], int]


def _info_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true", help="print JSON")


def _info(options: argparse.Namespace) -> int:
    found = info()
    print(json.dumps(found, indent=2) if getattr(options, "json", False) else "\n".join(_lines(found)))
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


def _status_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--missing", action="store_true", help="only the ops that cannot be run")


def _status(options: argparse.Namespace) -> int:
    from .compile.supported import markdown

    print("\n".join(markdown(options.missing)))
    return 0


def _cache_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--clear", action="store_true", help="delete these files")
    parser.add_argument("--json", action="store_true", help="print JSON")


def _cache(options: argparse.Namespace) -> int:
    """Files only: what plans hold in memory is a process's own, `dgo.cache_info()`."""
    folder = cache_files.folder(".")
    subjects = sorted(path for path in folder.iterdir() if path.is_dir()) if folder.is_dir() else []
    found = {path.name: sorted(file for file in path.iterdir() if file.is_file()) for path in subjects}
    if options.clear:
        for file in (file for files in found.values() for file in files):
            file.unlink(missing_ok=True)
    said = {
        name: {"files": len(files), "bytes": 0 if options.clear else _bytes(files)} for name, files in found.items()
    }
    done = {"deleted": options.clear, "folder": str(folder), "subjects": said}
    print(json.dumps(done, indent=2) if options.json else "\n".join(_lines(done)))
    return 0


def _bytes(files: Sequence[Path]) -> int:
    return sum(file.stat().st_size for file in files)


def _bench(words: Sequence[str], prog: str) -> int:
    from .bench.cli import main

    return main(words, prog)


def _fit(words: Sequence[str], prog: str) -> int:
    from .bench.fit import main

    main(words, prog)
    return 0


COMMANDS: dict[str, Command | Forwarded] = {
    "bench": Forwarded("measure layers and whole models against other frameworks; compare results", _bench),
    "cache": Command(
        "choices that were measured, fits and models in the user's cache directory", _cache_arguments, _cache
    ),
    "explain": Command(
        "partitions, implementations and times of a graph file",
        explain_command.arguments,
        explain_command.run,
    ),
    "fit": Forwarded("fit the cost model to this machine", _fit),
    "info": Command("versions, libraries, engines, CPU and threads (the default)", _info_arguments, _info),
    "selftest": Command(
        "whether an engine computes right; the report can be pasted into an issue",
        selftest.arguments,
        selftest.run,
    ),
    "status": Command("how each op runs, by version of the library", _status_arguments, _status),
}


def parser(prog: str = _MODULE) -> argparse.ArgumentParser:
    """The command line of all subcommands."""
    made = argparse.ArgumentParser(
        prog=prog,
        description="Without a command: info.",
        epilog=_STATUSES,
    )
    made.add_argument("--version", action="version", version=f"dnnl_graph_ops {version()}")
    commands = made.add_subparsers(dest="command", metavar="command")
    for name, command in COMMANDS.items():
        one = commands.add_parser(name, help=command.help, description=command.help, epilog=_STATUSES)
        if isinstance(command, Command):
            command.arguments(one)
    return made


def main(arguments: Sequence[str] | None = None, prog: str = _MODULE) -> int:
    """Run a subcommand; an error of the package or of a file becomes one line and status 1."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    command = COMMANDS.get(words[0]) if words else None
    try:
        if isinstance(command, Forwarded):
            return command.run(words[1:], f"{prog} {words[0]}")
        options = parser(prog).parse_args(words)
        chosen = COMMANDS[options.command or "info"]
        assert isinstance(chosen, Command)
        return chosen.run(options)
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
