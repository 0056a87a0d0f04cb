"""Measures convolutions and models against other packages: interleaved, medians, numbers checked first.

`run` from Python, `python -m dnnl_graph_ops.bench` from a shell. Nothing heavy is imported until it is used.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from ..ops.annotations import unquote
from ..progress import Progress
from .descriptor import format_descriptor, parse
from .document import Document, merge
from .options import Options
from .problem import Problem
from .rows import Entry, Ratio, Row

if TYPE_CHECKING:
    from .comparison import Comparison

__all__ = [
    "Document",
    "Entry",
    "Options",
    "Problem",
    "Ratio",
    "Row",
    "compare",
    "format_descriptor",
    "merge",
    "parse",
    "real_layers",
    "run",
]


def real_layers(op: str = "conv_transpose") -> tuple[Problem, ...]:
    """The shipped suite of an op ("conv_transpose", "conv"): layers of published models, their sizes and source."""
    from . import suite

    return suite.real_layers(op)


def run(
    problems: Any = "real_layers",
    *,
    quick: bool = False,
    match: str = "",
    op: str | Sequence[str] = "conv_transpose",
    json: str | Path | None = None,
    resume: bool = False,
    progress: Progress | None = None,
    **options: Any,
) -> Document:
    """Measures `problems` and returns the rows, a sequence with the machine and the versions next to it.

    Args:
        problems: "real_layers", a file, a benchdnn descriptor, a `Problem`, a dict of its fields, or a
            list of these.
        quick: a few small layers and few rounds, within three minutes on two cores.
        match: regular expression; only problems whose name has it.
        op: "conv_transpose", "conv", or both in a list: whose suite; descriptors and dicts that do not say
            it are of the first.
        json: file that the result is written to, whenever a row is finished; with `resume` the rows that it has are
            not measured again.
        progress: called with the number of rows done, of all rows, and a text on the last one; None: silent.
        options: fields of `Options`: directions, dtypes, layouts, peers, threads, tune, ...

    Raises:
        InvalidArgumentError: unknown problems, options or peers. What fails while measuring becomes a row
            with status "failed" and its reason.
    """
    from . import runner, sources

    settings = Options(**options)
    ops = (op,) if isinstance(op, str) else tuple(op)
    wanted = sources.Filters(match=match).apply(sources.find(problems, quick=quick, ops=ops))
    return runner.run_wanted(
        wanted, settings.quick() if quick else settings, progress=progress, path=json, resume=resume
    )


def compare(
    old: Document | str | Path,
    new: Document | str | Path,
    *,
    threshold: float = 0.10,
    alpha: float = 0.01,
    measure: Literal["auto", "ratio", "time"] = "auto",
) -> Comparison:
    """Tests two results, or files of them, for change; arguments and errors as of `comparison.compare_documents`."""
    from .comparison import compare_documents

    before, after = (d if isinstance(d, Document) else Document.load(d) for d in (old, new))
    return compare_documents(before, after, threshold=threshold, alpha=alpha, measure=measure)


unquote(globals())
