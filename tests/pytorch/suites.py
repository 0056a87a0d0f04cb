"""Runs PyTorch's own tests with this package's backend in place of inductor, eager and aot_eager.

    python tests/pytorch/suites.py CHECKOUT/test/inductor/test_torchinductor.py ... [--results FILE]

Prints the failures that aot_eager in the same places does not have, by cause. The tests come from a checkout of
PyTorch, or are single files of it; none is in this repository. `suites_known.py` says why the known failures fail.

Nets run whatever their speed. A test that exports programs also fails if a program that `from_torch` takes gives other
results here than in PyTorch. The module is also the plugin of pytest that the inner runs load.
"""

from __future__ import annotations

import argparse
import copy
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

OURS, THEIRS = "dnnl_graph_ops", "aot_eager"
# environment variables of the inner runs
_BACKEND, _RESULTS = "SUITES_BACKEND", "SUITES_RESULTS"
_SWAPPED = ("inductor", "eager", "aot_eager")
# limits of a test: of processor time, which other processes do not change, and of time
_PROCESSOR_SECONDS, _SECONDS = 40, 900

Results = Mapping[str, Mapping[str, Any]]


def run(paths: Sequence[str], backend: str, *arguments: str) -> Results:
    """Returns {test: {outcome, cause, nets}} of the tests of files with a backend in the places of PyTorch's."""
    with tempfile.TemporaryDirectory() as folder:
        results = Path(folder) / "results"
        results.touch()
        command = [
            *(sys.executable, "-m", "pytest", "-q", "-p", "suites", "-p", "no:cacheprovider", "-c", os.devnull),
            *(f"--rootdir={Path(paths[0]).parent}", f"--timeout={_SECONDS}", "--timeout-method=signal"),
            *("--tb=short", "--show-capture=no", *arguments, *paths),
        ]
        pythonpath = os.pathsep.join(filter(None, (str(Path(__file__).parent), os.environ.get("PYTHONPATH"))))
        settings = {_BACKEND: backend, _RESULTS: str(results), "OMP_NUM_THREADS": "1", "PYTHONPATH": pythonpath}
        subprocess.run(command, env={**_surroundings(), **settings}, check=False, stdout=sys.stderr)
        lines = map(json.loads, results.read_text().splitlines())
        return {line.pop("test"): line for line in lines}


def _surroundings() -> dict[str, str]:
    """Returns the environment of a run that is no part of the one that has started this process, if any has."""
    return {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_XDIST")}


def failures(results: Results) -> list[str]:
    return [test for test, result in results.items() if result["outcome"] == "failed"]


def ours_alone(paths: Sequence[str], *arguments: str) -> tuple[Results, dict[str, str]]:
    """Returns all results of our backend, and {test: cause} of its failures that aot_eager does not have."""
    ours = run(paths, OURS, *arguments)
    failed = failures(ours)
    if not failed:
        return ours, {}
    with tempfile.NamedTemporaryFile("w", suffix=".txt") as chosen:
        chosen.write("\n".join(failed))
        chosen.flush()
        theirs = run(paths, THEIRS, *arguments, f"--suites-only={chosen.name}")
    alone = [test for test in failed if theirs.get(test, {}).get("outcome") == "passed"]
    return ours, {test: ours[test]["cause"] for test in alone}


def by_cause(alone: Mapping[str, str]) -> dict[str, list[str]]:
    groups = defaultdict(list)
    for test, cause in alone.items():
        groups[cause].append(test)
    return dict(sorted(groups.items(), key=lambda group: -len(group[1])))


def name_of(test: str) -> str:
    """Returns `Class::test` of a node id, which is the same in every checkout."""
    return "::".join(test.split("::")[1:])


def main() -> int:
    from suites_known import KNOWN

    parser = argparse.ArgumentParser(description=str(__doc__).partition("\n")[0])
    parser.add_argument("paths", nargs="+", help="test files of PyTorch")
    parser.add_argument("--results", type=Path, help="write {test: result} to this JSON file")
    parser.add_argument("-n", default="2", help="processes")
    parser.add_argument("-k", default="", help="expression of pytest that selects tests")
    parsed = parser.parse_args()
    ours, alone = ours_alone(parsed.paths, "-n", parsed.n, "-k", parsed.k)
    if parsed.results:
        parsed.results.write_text(json.dumps({"ours": ours, "alone": alone}, indent=1))
    counts = Counter(result["outcome"] for result in ours.values())
    print(dict(counts), "nets ran in", sum(bool(result["nets"]) for result in ours.values()))
    new = {test: cause for test, cause in alone.items() if name_of(test) not in KNOWN}
    print(f"failures that {THEIRS} does not have: {len(alone)}, not known: {len(new)}")
    for cause, tests in by_cause(new).items():
        print(f"\n{len(tests)}: {cause}", *sorted(map(name_of, tests)), sep="\n  ")
    return bool(new)


# the plugin of the inner runs


def pytest_addoption(parser: Any) -> None:
    parser.addoption("--suites-only", help="a file of node ids: no other tests run")


def pytest_configure(config: Any) -> None:
    _swap(os.environ[_BACKEND])


def pytest_collection_modifyitems(config: Any, items: list[Any]) -> None:
    if only := config.getoption("--suites-only"):
        chosen = set(Path(only).read_text().splitlines())
        items[:] = [item for item in items if item.nodeid in chosen]


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call() -> Iterator[None]:
    signal.signal(signal.SIGPROF, _expired)
    signal.setitimer(signal.ITIMER_PROF, _PROCESSOR_SECONDS)
    try:
        return (yield)
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)


def _expired(*_: Any) -> None:
    raise TimeoutError(f"more than {_PROCESSOR_SECONDS} s of processor time")


_nets = 0


def pytest_runtest_setup(item: Any) -> None:
    global _nets
    _nets = 0


def pytest_runtest_teardown(item: Any) -> None:
    item.user_properties.append(("nets", _nets))


_seen: dict[str, dict[str, Any]] = {}


def pytest_runtest_logreport(report: Any) -> None:
    """Writes one line a test when it has ended; with several processes, in the one that collects the reports."""
    if "PYTEST_XDIST_WORKER" in os.environ:
        return
    result = _seen.setdefault(report.nodeid, {"outcome": "passed", "cause": "", "nets": 0})
    if report.outcome != "passed" and result["outcome"] != "failed":
        result.update(outcome=report.outcome, cause=_cause(report) if report.outcome == "failed" else "")
    result["nets"] = dict(report.user_properties).get("nets", 0)
    if report.when in ("teardown", "???"):
        with open(os.environ[_RESULTS], "a") as file:
            file.write(json.dumps({"test": report.nodeid, **_seen.pop(report.nodeid)}) + "\n")


def _cause(report: Any) -> str:
    """Returns the error's type and first line, without numbers that vary."""
    crash = getattr(report.longrepr, "reprcrash", None)
    message = crash.message if crash else str(report.longrepr)
    first = next(iter(message.strip().splitlines()), "")
    return re.sub(r"0x[0-9a-f]+|\d+(\.\d+)?(e-?\d+)?", "N", first)[:200]


def _swap(name: str) -> None:
    """Puts a backend in the places of inductor, eager and aot_eager, and of the counters of graphs."""
    import torch
    import torch._dynamo.testing
    import torch._inductor.compile_fx
    from torch._dynamo.backends import registry

    backend = registry.lookup_backend(name)

    def compiled(module: Any, inputs: Any, *_: Any, **__: Any) -> Any:
        return backend(module, inputs)

    torch._inductor.compile_fx.compile_fx = compiled
    for each in _SWAPPED:
        registry.lookup_backend(each)
        registry._COMPILER_FNS[each] = compiled
    counter = torch._dynamo.testing.CompileCounter
    counter.__call__ = _counted(counter.__call__, compiled)
    if name == OURS:
        _force()
        _compute_exports()


def _counted(count: Callable[..., Any], compiled: Callable[..., Any]) -> Callable[..., Any]:
    def call(self: Any, module: Any, inputs: Any) -> Any:
        count(self, module, inputs)
        return compiled(module, inputs)

    return call


def _force() -> None:
    """Makes nets run whatever their speed, and counts them."""
    from dnnl_graph_ops.torch.whole_model import backend

    run_net = backend._Entry.run

    def run(self: Any, args: Any) -> Any:
        global _nets
        _nets += 1
        return run_net(self, args)

    backend._Entry.run = run
    backend._Entry.is_faster = lambda *_: True


def _compute_exports() -> None:
    """Makes the export of a program compute its example as a net as well."""
    from torch.export import _trace

    export = _trace._export

    def exported(*args: Any, **kwargs: Any) -> Any:
        program = export(*args, **kwargs)
        _compare(program)
        return program

    _trace._export = exported


def _compare(program: Any) -> None:
    """Raises an error if a net of an exported program gives other results than PyTorch for the example inputs."""
    global _nets
    import torch
    from torch.utils import _pytree

    import dnnl_graph_ops as dgo

    def example() -> Any:
        return copy.deepcopy(program.example_inputs)

    try:
        net = dgo.from_torch(program).compile()
    except dgo.UnsupportedError:
        return
    try:
        args, kwargs = example()
        with torch.no_grad():
            wanted = program.module()(*args, **kwargs)
    except Exception:  # exported without inputs, or for others
        return
    inputs = [x.detach() for x in _pytree.tree_leaves(example()) if isinstance(x, torch.Tensor)]
    results = net.run(dict(zip(net.input_names, inputs, strict=True)))
    _nets += 1
    leaves = [torch.as_tensor(x).detach() for x in _pytree.tree_leaves(wanted) if x is not None]
    for got, want in zip(results.values(), leaves, strict=True):
        # NumPy has no bfloat16
        kinds = (np.float32, torch.float32) if want.dtype is torch.bfloat16 else (got.dtype, want.dtype)
        tensor = torch.from_numpy(got.astype(kinds[0]))
        # sums may be added in another order
        rounding = {"rtol": 1e-4, "atol": 1e-4} if want.dtype is torch.float32 else {}
        torch.testing.assert_close(tensor, want.to(kinds[1]), equal_nan=True, check_stride=False, **rounding)


if __name__ == "__main__":
    sys.exit(main())
