"""Command lines: parses words, and says what is meant by commands, options and files that have no place in them."""

from __future__ import annotations

import argparse
from collections.abc import Collection, Mapping, Sequence
from typing import Final, NoReturn

from .schema.arguments import suggest

# options of other programs: what the option of a command is
_OPTIONS: Final[dict[str, tuple[str, ...]]] = {
    **dict.fromkeys(
        ("--batch", "--batch-size", "--batch_size", "-b", "--input-shape", "--shapes"), ("--shape", "--mb")
    ),
    **dict.fromkeys(("--atol", "--rtol", "--tol", "--threshold"), ("--tolerance",)),
    **dict.fromkeys(("--inputs", "-i", "--input-file", "--data"), ("--input",)),
    **dict.fromkeys(("--outputs", "-o", "--out", "--save"), ("--output", "--json")),
    **dict.fromkeys(("--time", "-t", "--duration", "--iterations", "--niter", "-n"), ("--seconds", "--rounds")),
    **dict.fromkeys(("--nthreads", "--num-threads", "-j", "-nthreads"), ("--threads",)),
    **dict.fromkeys(("--dtype", "--fp16", "--bf16", "--half"), ("--precision",)),
    **dict.fromkeys(("--format", "--report"), ("--json",)),
    **dict.fromkeys(("--deconv", "--conv"), ("--suite",)),
}
# ends of files: the options that take them
_FILES: Final = {**dict.fromkeys((".npy", ".npz"), "--input"), ".net": "--output", ".svg": "--svg", ".json": "--json"}


def parsed(parser: argparse.ArgumentParser, words: Sequence[str]) -> argparse.Namespace:
    """Returns the options that words say; unknown words end the process with status 2, and what may be meant.

    A subcommand's parser is its default `parser`.
    """
    options, rest = parser.parse_known_args(words)
    if rest:
        of_command: argparse.ArgumentParser = getattr(options, "parser", parser)
        known = [name for action in of_command._actions for name in action.option_strings]
        of_command.error(f"unrecognized arguments: {' '.join(rest)}{_meant(rest[0], known)}")
    return options


def _meant(word: str, known: Collection[str]) -> str:
    name = word.partition("=")[0]
    if not name.startswith("-"):
        option = next((option for end, option in _FILES.items() if word.lower().endswith(end)), "")
        return f"; write {option} {word}" if option in known else ""
    other = next((option for option in _OPTIONS.get(name, ()) if option in known), "")
    return f"; it is {other} here" if other else suggest(name, known) or f"; there are {', '.join(known)}"


def unknown_command(
    parser: argparse.ArgumentParser, word: str, known: Collection[str], others: Mapping[str, str]
) -> NoReturn:
    """Ends the process with status 2, and the command that is meant; `others`: {word: command, or a sentence}."""
    meant = others.get(word.lower(), "")
    hint = f"; {meant}" if " " in meant else f"; did you mean {meant!r}?" if meant else suggest(word, known)
    parser.error(f"there is no command {word!r}{hint}; there are {', '.join(known)}")
