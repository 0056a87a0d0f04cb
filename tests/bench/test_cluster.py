"""A run over a local Dask cluster, also when a worker is lost on the way."""

from __future__ import annotations

import os
import signal
from dataclasses import replace

import pytest

from dnnl_graph_ops.bench import Options, cluster
from dnnl_graph_ops.bench.cases import Wanted
from dnnl_graph_ops.errors import InvalidArgumentError, RuntimeUnavailableError

from . import synthetic

pytestmark = pytest.mark.bench
OPTIONS = Options(peers=("none",), layouts=("NXC",), min_rounds=1, max_rounds=1, burst=0.002, threads=1, wait="passive")


def test_a_lost_worker_s_shard_is_run_again():
    distributed = pytest.importorskip("distributed")
    wanted = [Wanted(replace(synthetic.problem(), name=f"l{i}")) for i in range(4)]
    killed = []
    with (
        distributed.LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as local,
        distributed.Client(local) as client,
    ):

        def kill_one(done: int, total: int, text: str) -> None:
            """Ends a worker process when the first row arrives."""
            if done and not killed:
                killed.append(next(iter(client.run(os.getpid).values())))
                os.kill(killed[0], signal.SIGKILL)

        document = cluster.run_on_cluster(wanted, OPTIONS, client, shards=4, progress=kill_one)
    assert killed
    assert [(row.name, row.status) for row in document] == [(w.problem.name, "ok") for w in wanted]
    assert len(document.machines) == 1


def test_no_scheduler_is_one_clear_line():
    pytest.importorskip("distributed")
    with pytest.raises(InvalidArgumentError, match="local:N"):
        cluster.run_on_cluster([Wanted(synthetic.problem())], OPTIONS, "local:many")
    with pytest.raises(RuntimeUnavailableError, match="no scheduler answers"):
        cluster.run_on_cluster([Wanted(synthetic.problem())], OPTIONS, "tcp://127.0.0.1:9")
