"""Races run in threads of this process by default, in processes of their own with --all."""

import pytest

from dnnl_graph_ops.bench import lineup

from .thread_worker import ThreadWorker


@pytest.fixture(params=["in threads", pytest.param("in processes", marks=pytest.mark.bench)])
def apart(monkeypatch, request) -> bool:
    """Whether competitors have processes of their own."""
    if request.param == "in threads":
        monkeypatch.setattr(lineup, "WorkerProcess", ThreadWorker)
    return request.param == "in processes"
