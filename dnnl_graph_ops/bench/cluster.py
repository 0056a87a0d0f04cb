"""A run spread over a Dask cluster: shards as tasks, rows and progress in one place.

Dask moves a lost worker's shard to another one by itself. Each Dask worker should have one thread and a
machine (or CPU set) of its own: competitors in parallel on one machine would measure each other.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from ..errors import InvalidArgumentError, RuntimeUnavailableError, extra
from ..progress import Progress, silent
from ..words import counted
from . import runner
from .cases import Wanted, expand
from .document import Document, merge
from .options import Options
from .problem import Problem


def run_on_cluster(
    wanted: Sequence[Wanted],
    options: Options,
    address: str,
    *,
    shards: int = 0,
    progress: Progress | None = None,
) -> Document:
    """Like `runner.run_wanted`, over the workers of a cluster.

    Args:
        address: of a Dask scheduler, "local" or "local:N" for N processes here, or an existing Client.
        shards: how many tasks; 0: four for each worker, so that a slow or lost worker costs little.

    Raises:
        RuntimeUnavailableError: Dask is not installed, or no worker can be reached.
    """
    try:
        import distributed  # type: ignore[import-untyped, import-not-found, unused-ignore]
    except ImportError as error:
        raise RuntimeUnavailableError(f"cluster: {error}; install it: {extra('cluster')}") from None
    tell = progress or silent
    cases, _ = expand(wanted, options)
    client, own = _connect(distributed, address)
    try:
        workers = len(client.scheduler_info()["workers"])
        if workers == 0:
            raise RuntimeUnavailableError(f"cluster {address!r}: it has no workers")
        count = min(len(cases), shards or 4 * workers)
        # each shard has the whole budget, and a worker runs its shards one after another
        turns, largest = -(-count // workers), -(-len(cases) // max(1, count))
        most = turns * runner.expected_seconds(largest, options)
        tell(0, len(cases), f"{counted(len(cases), 'row')}: about {runner.rounded(most)} at most")
        records = [_pack(item) for item in wanted]
        futures = [
            client.submit(_shard, records, options.as_dict(), i + 1, count, pure=False, retries=2) for i in range(count)
        ]
        documents: list[Document] = []
        try:
            for future, result in distributed.as_completed(futures, with_results=True):
                del future
                documents.append(Document.from_dict(result))
                done = sum(map(len, documents))
                tell(done, len(cases), documents[-1].rows[-1].said if documents[-1].rows else "")
        except distributed.scheduler.KilledWorker as error:
            raise RuntimeUnavailableError(f"cluster: a shard ended several workers ({error})") from None
        merged = merge(documents)
        order = {case.key: i for i, case in enumerate(cases)}
        merged.rows.sort(key=lambda row: order.get(row.key, len(order)))
        return merged
    finally:
        for each in own:
            each.close()


def _connect(distributed: Any, address: Any) -> tuple[Any, list[Any]]:
    """A client, and what must be closed afterwards."""
    if isinstance(address, distributed.Client):
        return address, []
    if address.split(":")[0] == "local":
        _, _, number = address.partition(":")
        if number and not number.isdigit():
            raise InvalidArgumentError(f"cluster {address!r}: expected local or local:N")
        local = distributed.LocalCluster(
            n_workers=int(number or 1), threads_per_worker=1, dashboard_address=None, processes=True
        )
        client = distributed.Client(local)
        return client, [client, local]
    try:
        client = distributed.Client(address, timeout=10)
    except (OSError, ValueError, TimeoutError) as error:
        raise RuntimeUnavailableError(f"cluster {address!r}: no scheduler answers ({error})") from None
    return client, [client]


def _pack(item: Wanted) -> dict[str, Any]:
    return {**asdict(item), "problem": item.problem.as_dict()}


def _shard(records: list[dict[str, Any]], options: dict[str, Any], index: int, count: int) -> dict[str, Any]:
    """Runs on a worker. Plain data in and out, so that versions of Python may differ."""
    wanted = [Wanted(Problem.from_dict(r["problem"]), tuple(r["directions"]), tuple(r["dtypes"])) for r in records]
    document = runner.run_wanted(wanted, Options.from_dict(options), shard=(index, count))
    return document.as_dict()
