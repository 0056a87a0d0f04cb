"""Cases of single kernels: every declared kernel has one, whose operands are those that its declaration names."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from children import child

from dnnl_graph_ops.bench import kernel_cases, kernel_operands, kernels
from dnnl_graph_ops.errors import InvalidArgumentError

ROOT = Path(__file__).parents[2]
# runs other kernels
WITHOUT = {"row_tiling"}
KEPT = ("kernel", "stride")
SEVERAL = [row for row in kernel_cases.CASES if not row.startswith(("bf16", "int8"))]


def small(name):
    return {size: n if size in KEPT else min(n, 16) for size, n in kernel_cases.CASES[name].sizes.items()}


def built(name):
    try:
        return kernel_cases.build(name, small(name))
    except InvalidArgumentError as error:
        if "instruction set" not in str(error) and name in SEVERAL:
            raise
        pytest.skip(str(error))


def test_every_kernel_has_a_case():
    assert set(kernel_operands.names()) - WITHOUT == set(kernel_cases.CASES)


@pytest.mark.parametrize("name", kernel_cases.CASES)
def test_cases_run(name):
    case = built(name)
    assert len(case.operands) == case.kernel.arity
    case.kernel.run(*case.operands)
    last = case.operands[-1]
    assert np.isfinite(last.astype(np.float32)).all() or name == "bf16_pack"
    assert 0 < case.moved <= sum(array.nbytes for array in case.operands)


ROWS = """
from dnnl_graph_ops.bench import kernel_cases
for name in ("int8_rows", "int8_product"):
    case = kernel_cases.build(name)
    case.kernel.run(*case.operands)
    print(name, case.operands[name == "int8_rows"].nbytes)
"""


@pytest.mark.child
def test_rows_of_words_have_two_bytes_an_element():
    done = child("-c", ROWS, DNNL_GRAPH_OPS_INT8="avx2words")
    assert done.returncode == 0, done.stderr
    size = 2 * 64 * 56 * 56
    assert done.stdout == f"int8_rows {size}\nint8_product {size}\n"


def test_results_of_a_case():
    case = kernel_cases.build("filter_fprop", {"n": 1, "in_c": 3, "out_c": 5, "size": 4, "kernel": 1, "stride": 1})
    src, packed, _, dst = case.operands
    src[:], packed[:], dst[:] = 1, 2, np.nan
    case.kernel.run(*case.operands)
    assert (dst == 10).all() and dst.shape == (1, 4, 4, 3) and case.macs == 16 * 3 * 5


def test_unknown_kernels_and_sizes():
    with pytest.raises(InvalidArgumentError, match="no case of a kernel 'conv'; there are attention"):
        kernel_cases.build("conv")
    with pytest.raises(InvalidArgumentError, match="copy has no size m; it has n, c, size"):
        kernel_cases.build("copy", {"m": 1})


def test_the_farthest_kernel_comes_first():
    rows = [
        kernels.Row("near", "", {"n": 1}, "f32", 1e-3, 10**9, 100, 0.9, 0.1),
        kernels.Row("far", "", {"n": 2}, "f32", 2e-3, 0, 10**6, 0.0, 0.25),
    ]
    assert kernels.table(rows).splitlines()[2:] == [
        "| far | n 2 | 2000 |  |  | 0.5 | 25% |",
        "| near | n 1 | 1000 | 1000.0 | 90% | 0.0 | 10% |",
    ]


def test_recorded_tables():
    """The page has the rows of the file of its machine."""
    page = (ROOT / "docs/benchmarks/kernels.md").read_text("utf-8")
    for path in (ROOT / "benchmarks/kernels").glob("*.json"):
        assert kernels.table(kernels.read(path)) in page
        assert set(json.loads(path.read_text("utf-8"))) == {"machine", "date", "rows"}


def test_mistakes(tmp_path, capsys):
    (tmp_path / "a.json").write_text("[]")
    for arguments, message in [
        (["--table", str(tmp_path / "a.json")], "has no rows of kernels"),
        (["--shape", "n=1"], "name it"),
        (["conv"], "no case of a kernel 'conv'"),
    ]:
        assert kernels.main(arguments) == 2
        assert message in capsys.readouterr().err
    with pytest.raises(SystemExit):
        kernels.main(["copy", "--shape", "n=one"])


@pytest.mark.bench
def test_the_command(tmp_path, capsys):
    path = tmp_path / "rows.json"
    sizes = ["--shape", "images=1", "rows=64", "columns=64", "depth=64"]
    assert kernels.main(["row_product", *sizes, "--seconds", "0.001", "--save", str(path)]) == 0
    printed = capsys.readouterr().out
    assert "images 1, rows 64, columns 64, depth 64" in printed
    (row,) = kernels.read(path)
    assert row.kernel == "row_product" and row.share_of_rate > 0 and row.macs == 64**3
    assert kernels.main(["--table", str(path)]) == 0
    assert capsys.readouterr().out == printed
