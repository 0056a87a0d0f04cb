"""An algorithm's name is written in its own file alone, read from all texts of the package."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import dnnl_graph_ops as dgo
from dnnl_graph_ops.algorithms import table

ROOT = Path(dgo.__file__).parent
# a function of the package has the name of one of them
NAMES = {algorithm.name for algorithm in (*table.ALGORITHMS, *table.NAIVE.values())} - {"convolution"}
# files whose names are other things: words of users of other packages, and kernels of the extension
OTHER_NAMES = {Path("words.py"), Path("bench", "kernel_cases.py")}
# what such a name may begin with and still tells its algorithm: two words
BEGINNINGS = {" ".join(words[:n]) for name in NAMES for words in [name.split()] for n in range(2, len(words))}


def written(path: Path) -> Iterator[tuple[int, str]]:
    """The texts of a file that name an algorithm, and their lines."""
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value.strip() in NAMES | BEGINNINGS:
            yield node.lineno, node.value


@pytest.mark.slow
def test_names_are_written_in_their_own_files() -> None:
    files: dict[str, set[str]] = {}
    for path in sorted(ROOT.rglob("*.py")):
        for line, name in written(path):
            where = path.relative_to(ROOT)
            if where in OTHER_NAMES:
                continue
            assert where.parts[0] == "algorithms", f"{where}:{line}: {name!r}"
            files.setdefault(name, set()).add(str(where))
    assert {name: where for name, where in files.items() if len(where) > 1} == {}


@pytest.mark.parametrize("text", ["builtin direct", "flipped builtin", "im2col", "naive", "phases"])
def test_the_reader_sees_names(tmp_path: Path, text: str) -> None:
    path = tmp_path / "a.py"
    path.write_text(f"form.name == {text!r}\nlabel = 'builtin kernel'\n", "utf-8")
    assert list(written(path)) == [(1, text)]
