"""Races run in threads of this process by default, in processes of their own with --all."""

from dataclasses import replace
from pathlib import Path

import pytest

from dnnl_graph_ops.bench import lineup, measure
from dnnl_graph_ops.bench.peers import registry

from .thread_worker import ThreadWorker

TESTS = Path(__file__).resolve().parents[1]
ENVIRONMENT = {"PYTHONPATH": str(TESTS)}
FAKE = registry.Peer("fake", "bench.fake_peer", directions=("fwd", "bwd_d", "bwd_w"), environment=ENVIRONMENT)
OWN = replace(FAKE, name="dgo", layouts=("NXC", "NCX"))


@pytest.fixture(params=["in threads", pytest.param("in processes", marks=pytest.mark.bench)])
def apart(monkeypatch, request) -> bool:
    """Whether competitors have processes of their own."""
    if request.param == "in threads":
        monkeypatch.setattr(lineup, "WorkerProcess", ThreadWorker)
    return request.param == "in processes"


@pytest.fixture
def fakes(monkeypatch, apart) -> bool:
    """Both sides of a race are played by `fake_peer`; whether in processes of their own."""
    monkeypatch.setattr(registry, "peers", lambda: {"dgo": OWN, "fake": FAKE})
    monkeypatch.setattr(measure, "peak_dtype", lambda case: "")
    return apart
