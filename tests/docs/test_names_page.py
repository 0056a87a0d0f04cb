"""The page of names has the table of algorithms, and names kernels and columns of the code."""

import re
from pathlib import Path

from dnnl_graph_ops._core import kernels
from dnnl_graph_ops.algorithms import table
from dnnl_graph_ops.convolution.problem import DGRAD, FPROP, WGRAD

PAGE = (Path(__file__).parents[2] / "docs" / "internals" / "names.md").read_text("utf-8")
DIRECTIONS = (FPROP, DGRAD, WGRAD)


def algorithm_rows() -> list[str]:
    """A row for each algorithm's name and family: directions, what multiplies, and the file."""
    rows: dict[tuple[str, str], list[table.Algorithm]] = {}
    for algorithm in (*table.ALGORITHMS, *table.NAIVE.values()):
        rows.setdefault((algorithm.name, algorithm.family), []).append(algorithm)
    return [
        f"| {name} | {', '.join(d for d in DIRECTIONS if d in {a.direction for a in every})} "
        f"| {family if every[0].is_fitted else 'none'} "
        f"| {', '.join(dict.fromkeys(a.op or f'builtin, {a.multiplies}' for a in every))} "
        f"| `{_home(every[0])}.py` |"
        for (name, family), every in rows.items()
    ]


def _home(algorithm: table.Algorithm) -> str:
    """Returns the name of the module that defines an algorithm."""
    of = algorithm.flips or algorithm
    # the work of all algorithms on integers is counted in one module
    return (of.build if of.on_integers else of.counts).__module__.split(".")[-1]


def test_the_page_has_every_algorithm():
    written = re.findall(r"^\| .* \| (?:fprop|dgrad|wgrad).* \|$", PAGE, re.MULTILINE)
    assert written == algorithm_rows(), "write these rows into docs/internals/names.md:\n" + "\n".join(algorithm_rows())


def test_kernels_that_the_page_names_are_there():
    rows = re.findall(r"^\| `(\w+)` \| `[\w/]+/` \|", PAGE, re.MULTILINE)
    assert len(rows) > 10 and set(rows) <= {name for scope, name, *_ in kernels.table() if not scope}
