"""The bindings' tests once more, in a build with the address and undefined behaviour sanitizers."""

import os
import re
import subprocess
import sys
import time

import pytest

from .builds import ROOT, build, findings

pytestmark = pytest.mark.timeout(5400)

SANITIZERS = {"DGO_SANITIZE": "address,undefined,float-cast-overflow"}
BUILDS = {
    "address": SANITIZERS,
    "address-emulated": {**SANITIZERS, "DGO_EMULATE_AVX512": "ON"},
}
TESTS = (
    "bindings",
    "family",
    "lowering",
    "graph/test_json.py",
    "graph/test_json_fuzz.py",
    "device/test_device_array.py",
    "test_threads.py",
)
SECONDS = 3600

# What each sanitizer must say of mistakes that are made on purpose
AWAKE = {
    "heap-buffer-overflow": "import ctypes\nctypes.memset(ctypes.CDLL(None).malloc(8), 0, 9)\n",
}


@pytest.mark.parametrize("name", BUILDS)
def test_without_a_finding(name, tmp_path, seed, figures):
    built = build(name, BUILDS[name])

    def python(*arguments, reports):
        # in the folder of the package, so that neither the sources nor what is installed is imported
        environment = {**os.environ, **built.environment(tmp_path / reports)}
        return subprocess.run(
            [sys.executable, *arguments],
            cwd=built.package,
            env=environment,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=SECONDS,
        )

    for finding, code in AWAKE.items():
        python("-c", "import dnnl_graph_ops._core\n" + code, reports="awake")
        assert any(finding in text for text in findings(tmp_path / "awake"))

    where = python("-c", "import dnnl_graph_ops._core as c; print(c.__file__)", reports="where")
    assert where.stdout.startswith(str(built.package)), where.stderr[-3000:]

    start = time.monotonic()
    done = python(
        *("-m", "pytest", "-q", "-n", "2", "-p", "no:cacheprovider", "--timeout", "1200", f"--seed={seed}"),
        *("--rootdir", ROOT, "-c", ROOT / "pyproject.toml"),
        *(ROOT / "tests" / part for part in TESTS),
        reports="tests",
    )
    found = findings(tmp_path / "tests")
    assert not found, f"{len(found)} findings\n" + "\n".join(text[:5000] for text in found[:10])
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-3000:]
    counts = dict(re.findall(r"(\d+) (passed|skipped)", done.stdout.splitlines()[-1]))
    figures(
        **{what: int(number) for number, what in counts.items()},
        findings=len(found),
        seconds=round(time.monotonic() - start),
    )
