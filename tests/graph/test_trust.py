"""Int8 graphs whose fused partitions crash, are refused or wrong: parts of them are right."""

import re

import pytest
from children import child

from .int8_cases import CASES


@pytest.mark.parametrize("tune", ["heuristic", "off"])
@pytest.mark.parametrize("limit", ["DEFAULT", "AVX2"])
def test_what_the_library_gets_wrong(tune, limit):
    done = child("-m", "graph.int8_cases", tune, ONEDNN_MAX_CPU_ISA=limit)
    off = dict(re.findall(r"^(.*): (.*)$", done.stdout, re.M))
    assert done.returncode == 0, f"exit {done.returncode} in {list(off)[-1:]}\n{done.stderr[-2000:]}"
    assert list(off) == list(CASES)
    assert {name: error for name, error in off.items() if error.startswith(("I", "U", "E")) or float(error) > 1} == {}
