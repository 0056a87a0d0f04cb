"""A hundred thousand malformed calls and files: no signal, no hang, no foreign exception, no growth.

With --hard. A part of them again: python -m hard.fuzz TARGET SEED START STOP, in the folder tests; a failure prints it
for the one case.
"""

import time

import pytest
from children import check_faulty_cases

CASES = {
    "calls": 30_000,
    "graph_json": 30_000,
    "onnx_model": 20_000,
    "dlpack": 10_000,
    "tuning": 4_000,
    "kernels": 2_000,
    "one_shot": 2_000,
    "builders": 2_000,
    "graph_api": 3_000,
}
PER_PROCESS = 1_000

assert sum(CASES.values()) >= 100_000


@pytest.mark.timeout(7200)
@pytest.mark.parametrize("target", CASES)
def test_malformed(target, seed, figures):
    if target == "onnx_model":
        pytest.importorskip("onnx")
    begin = time.monotonic()
    parts = [
        check_faulty_cases(f"hard.fuzz {target}", seed, start, start + PER_PROCESS, least=0)
        for start in range(0, CASES[target], PER_PROCESS)
    ]
    figures(
        cases=CASES[target],
        refused=sum(refused for refused, _ in parts),
        minutes=round((time.monotonic() - begin) / 60, 1),
        most_kilobytes_grown=max(grown for _, grown in parts),
    )
