"""Options and fixtures that all tests share."""

import gc
import json
from collections.abc import Callable, Iterator
from pathlib import Path

import bytecode_folder  # noqa: F401
import numpy as np
import pytest
from budget import Seconds
from corpora.cases import FOLDER, VARIABLE
from tiers import LEFT_OUT, split, tier
from tiers import amount as amount_of

import dnnl_graph_ops as dgo

DEFAULT_SEED = 20260101
HARD = Path(__file__).resolve().parent / "hard"
HARD_MINUTES = 90
pytest_plugins = ["constants"]


def pytest_addoption(parser):
    group = parser.getgroup("dnnl_graph_ops")
    group.addoption("--seed", type=int, default=DEFAULT_SEED, help="seed of the random tests")
    group.addoption("--case", type=int, default=None, help="run this one case of a random test")
    group.addoption("--all", action="store_true", help="every fixed case, those that start processes included")
    group.addoption("--rest", action="store_true", help="with --all: without what plain pytest runs in the same way")
    group.addoption(
        "--random",
        choices=("some", "full"),
        default="some",
        help="full: --all with every random case, and the largest fixed ones",
    )
    group.addoption("--seconds", metavar="FILE", default=None, help="write the process seconds of each test")
    group.addoption(
        "--hard",
        action="store_true",
        help="tests/hard in full: sanitizer builds, races, fuzzers and soaks, "
        f"at most {HARD_MINUTES} minutes on two cores; without it, the short forms of those that have one",
    )
    group.addoption("--hard-report", metavar="FILE", default=None, help="write the figures of tests/hard as JSON")


def pytest_configure(config):
    if config.getoption("--seconds"):
        config.pluginmanager.register(Seconds(config.getoption("--seconds")))


def pytest_generate_tests(metafunc):
    config, mark = metafunc.config, metafunc.definition.get_closest_marker
    done = config.getoption("--rest") and not any(map(mark, LEFT_OUT))
    if cases := mark("cases"):
        first = cases.args[0] if done and len(cases.args) == 3 else 0
        metafunc.parametrize("start", range(first, amount_of(config, *cases.args), cases.kwargs["each"]))
    if "number" in metafunc.fixturenames and (numbers := mark("numbers")):
        case, steps = config.getoption("--case"), numbers.kwargs["every"]
        drawn = range(0, *numbers.args, amount_of(config, *steps))
        drawn = [number for number in drawn if not done or number % steps[0]]
        metafunc.parametrize("number", drawn if case is None else [case])


def pytest_collection_modifyitems(config, items):
    for item in items:
        if HARD in item.path.parents:
            item.add_marker("child")
            if not config.getoption("--hard") and not item.get_closest_marker("short"):
                item.add_marker(pytest.mark.skip(reason="only with --hard"))
    items[:], left_out = split(config, items)
    if left_out:
        config.hook.pytest_deselected(items=left_out)


def pytest_collection_finish():
    """Modules and tests stay: without them a collection, which many tests ask for, takes no second."""
    gc.collect()
    gc.freeze()


def pytest_report_header(config):
    name = ("default: --all runs every fixed case", "--all", "--random=full")[tier(config)]
    return [f"tier: {name}", f"random tests: --seed={config.getoption('--seed')}"]


def pytest_terminal_summary(terminalreporter, config):
    """What the tests of tests/hard counted; user_properties come back from xdist's workers too."""
    rows = {
        report.nodeid: value
        for reports in terminalreporter.stats.values()
        for report in reports
        for name, value in getattr(report, "user_properties", ())
        if name == "figures" and report.when == "call"
    }
    if rows:
        terminalreporter.section("hardening")
    for test, counts in rows.items():
        terminalreporter.line(f"{test}: " + ", ".join(f"{name} {value}" for name, value in counts.items()))
    if config.getoption("--hard-report"):
        Path(config.getoption("--hard-report")).write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")


@pytest.fixture(scope="session")
def seed(request) -> int:
    return request.config.getoption("--seed")


@pytest.fixture
def rng(seed: int) -> np.random.Generator:
    return np.random.default_rng(seed)


@pytest.fixture
def limit() -> Iterator[Callable[[int | None], None]]:
    """What sets the limit of all caches, which are empty at first; the default comes back at the end."""
    gc.collect()
    dgo.clear_caches()
    yield dgo.set_cache_limit
    dgo.set_cache_limit(None)


@pytest.fixture
def one_thread() -> Iterator[None]:
    before = dgo.get_num_threads()
    dgo.set_num_threads(1)
    yield
    dgo.set_num_threads(before)


@pytest.fixture(scope="session")
def full(request) -> bool:
    """Every random case and the largest fixed ones."""
    return tier(request.config) == 2


@pytest.fixture(scope="session")
def amount(request) -> Callable[..., int]:
    """`amount(10, 100, 1000)`: the number of the default tier, of --all, of --random=full."""
    return lambda *numbers: amount_of(request.config, *numbers)


@pytest.fixture(scope="session")
def hard(request) -> bool:
    """Full length, not the short form."""
    return request.config.getoption("--hard")


@pytest.fixture
def figures(record_property) -> Callable[..., None]:
    """`figures(calls=100, seconds=2.5)`: what this test did, for the summary and the report."""
    return lambda **counts: record_property("figures", counts)


@pytest.fixture(scope="session")
def corpora() -> Path:
    """Folder of cases that no one here wrote; its tests are skipped where it is absent."""
    if FOLDER is None:
        pytest.skip(f"{VARIABLE} is not set")
    return FOLDER
