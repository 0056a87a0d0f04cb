"""The page of other packages' words, from the table that the package reads."""

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from op_pages import put
from sphinx.application import Sphinx

from dnnl_graph_ops import words


def _rows(table: Mapping[str, Any]) -> Iterator[str]:
    """A row for each of ours, with all words for it."""
    by_ours: dict[str, list[str]] = {}
    for word, ours in table.items():
        names = ours if isinstance(ours, tuple) else (ours,)
        by_ours.setdefault(" and ".join(f"`{name}`" for name in names), []).append(f"`{word}`")
    yield from (f"| {', '.join(theirs)} | {ours} |" for ours, theirs in by_ours.items())


def _table(title: str, rows: Iterable[str]) -> Iterator[str]:
    yield f"\n## {title}\n"
    yield "| there | here |"
    yield "|---|---|"
    yield from rows


def page() -> Iterator[str]:
    yield "# Names of other packages\n"
    yield "These synonyms are accepted in place of this package's names. Strings may be in any case.\n"
    yield from _table("Arguments", _rows(words.ARGUMENTS))
    yield (
        "\nBoth spellings of one argument are an error. `padding=p` pads p at both ends of an axis. "
        "Modules of `dgo.nn` have the names on the left, and accept the names on the right.\n"
    )
    yield from _table("Layouts and orders of weights", _rows(words.VALUES))
    yield (
        "\nWhere a framework's name has two orders, a transposed convolution takes the first and an ordinary one the "
        "second ([layouts](../howto/layouts.md)). `auto_pad=None` is `none`.\n"
    )
    yield from _table("Data types", _rows(words.DTYPES))
    yield "\nAlso NumPy's and ml_dtypes' types and names, and PyTorch's: `torch.half`, `\"torch.half\"`.\n"
    yield "\nThe following names are refused with an error that tells this package's name.\n"
    yield from _table("Names of ops", _rows(words.OPS))
    yield from _table("Further arguments", _rows(words.OTHER_ARGUMENTS))


def write(app: Sphinx) -> None:
    put(Path(app.srcdir, "api", "words.md"), page())


def setup(app: Sphinx) -> dict[str, Any]:
    app.connect("builder-inited", write)
    return {"parallel_read_safe": True}
