"""The bindings' tests once more, in a build with the address and undefined behaviour sanitizers."""

import re
import time
from pathlib import Path

import pytest

from .builds import ROOT, build

pytestmark = pytest.mark.timeout(5400)

SANITIZERS = "address,undefined,float-cast-overflow"
TESTS = (
    "algorithms",
    "backends",
    "bindings",
    "convolution",
    "functional",
    "graph_api",
    "program",
    "graph/test_json.py",
    "graph/test_json_fuzz.py",
    "device/test_device_array.py",
    "test_threads.py",
)
# bounds that hold where functions are inlined, and products and sums become FMA
ROUNDED = (
    "test_the_whole_range_of_f32[GELU gelu_tanh]",
    "test_the_whole_range_of_f32[HardSwish]",
    "test_gelu_above_and_below_minus_3[gelu_erf]",
)
MISTAKE = """
import ctypes, dnnl_graph_ops._core
print(dnnl_graph_ops._core.__file__, flush=True)
ctypes.memset(ctypes.create_string_buffer(10_000), 0, 10_001)
"""
# the scratch memory of a plan begins as NaN
SCRATCH = """
import numpy as np, dnnl_graph_ops._core as core
from bindings.plans import declare
plan = core.Executor(None)
scratch, result = plan.add_scratch(0, 64), plan.add_output(*declare((16,)))
plan.add_callback(lambda array: print(np.isnan(array).all()), [(scratch, 0, *declare((16,)))])
plan.finalize(False)
plan.run([], [np.empty(16, np.float32)])
"""


@pytest.mark.parametrize("emulate", [False, True], ids=["as it is", "emulated"])
def test_without_a_finding(emulate, tmp_path, seed, figures):
    built = build("emulated" if emulate else "checked", SANITIZERS, emulate=emulate)
    found, done = built.python("-c", MISTAKE, reports=tmp_path / "awake")
    assert built.package in Path(done.stdout.strip()).parents
    assert "heap-buffer-overflow" in "".join(found)
    _, done = built.python("-c", SCRATCH, reports=tmp_path / "scratch")
    assert done.stdout.split() == ["True"], done.stderr

    start = time.monotonic()
    found, done = built.python(
        *("-m", "pytest", "-q", "-n", "2", "--timeout", "1200", "--all", f"--seed={seed}"),
        *("-o", f"cache_dir={tmp_path / 'cache'}"),
        *(f"--deselect=tests/bindings/test_epilogue.py::{test}" for test in ROUNDED),
        *("--rootdir", ROOT, "-c", ROOT / "pyproject.toml"),
        *(ROOT / "tests" / part for part in TESTS),
        reports=tmp_path / "tests",
    )
    assert not found, f"{len(found)} findings\n" + "\n".join(text[:5000] for text in found[:10])
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-3000:]
    counts = re.findall(r"(\d+) (passed|skipped)", done.stdout.splitlines()[-1])
    figures(
        **{what: int(number) for number, what in counts},
        findings=len(found),
        seconds=round(time.monotonic() - start),
    )
