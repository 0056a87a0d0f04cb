"""Command line: `python -m dnnl_graph_ops` says what a bug report needs."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from . import explain_command, selftest
from .errors import Error
from .runtime import info


class Command(NamedTuple):
    """One subcommand: its help, its arguments, and what it does; returns the exit status."""

    help: str
    arguments: Callable[[argparse.ArgumentParser], None]
    run: Callable[[argparse.Namespace], int]


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
    from .compile.status import markdown

    print("\n".join(markdown(options.missing)))
    return 0


COMMANDS = {
    "explain": Command(
        "partitions, implementations and times of a graph file",
        explain_command.arguments,
        explain_command.run,
    ),
    "info": Command("versions, libraries, engines, CPU and threads (the default)", _info_arguments, _info),
    "selftest": Command(
        "whether an engine computes right; the report can be pasted into an issue",
        selftest.arguments,
        selftest.run,
    ),
    "status": Command("how each op runs, by version of the library", _status_arguments, _status),
}


def parser() -> argparse.ArgumentParser:
    """The command line of all subcommands."""
    made = argparse.ArgumentParser(prog="python -m dnnl_graph_ops", description="Without a command: info.")
    commands = made.add_subparsers(dest="command", metavar="command")
    for name, command in COMMANDS.items():
        command.arguments(commands.add_parser(name, help=command.help, description=command.help))
    return made


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a subcommand; an error of the package or of a file becomes one line and status 1."""
    options = parser().parse_args(arguments)
    try:
        return COMMANDS[options.command or "info"].run(options)
    except (Error, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main())
