"""Options and fixtures that all tests share."""

from pathlib import Path

import numpy as np
import pytest
from corpora.cases import FOLDER, VARIABLE

DEFAULT_SEED = 20260101


def pytest_addoption(parser):
    group = parser.getgroup("dnnl_graph_ops")
    group.addoption("--seed", type=int, default=DEFAULT_SEED, help="seed of the random tests")
    group.addoption("--case", type=int, default=None, help="run this one case of a random test")
    group.addoption("--all", action="store_true", help="every random case and the largest fixed ones")
    group.addoption("--hard", action="store_true", help="the hardening runs too: minutes to hours")


def pytest_report_header(config):
    return f"random tests: --seed={config.getoption('--seed')}"


@pytest.fixture(scope="session")
def seed(request) -> int:
    return request.config.getoption("--seed")


@pytest.fixture
def rng(seed: int) -> np.random.Generator:
    return np.random.default_rng(seed)


@pytest.fixture(scope="session")
def run_all(request) -> bool:
    return request.config.getoption("--all")


@pytest.fixture(scope="session")
def corpora() -> Path:
    """Folder of cases that no one here wrote; its tests are skipped where it is absent."""
    if FOLDER is None:
        pytest.skip(f"{VARIABLE} is not set")
    return FOLDER
