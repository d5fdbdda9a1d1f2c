"""Reduces the files of many ranks on a Dask cluster, which was named by its scheduler, or is started for it here.

A worker that is lost costs a retry. Nothing of this is imported unless a cluster was asked for.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator, Sequence
from typing import Any

from parsers.model import Progress, TraceError
from viewer.loading.ranks.pool import Answer, processes
from viewer.loading.ranks.reducing import reduce_rank
from viewer.loading.ranks.summaries import Reduced, Wanted

RETRIES = 3  # of a recording whose worker was lost
LOCAL = "local"  # in place of an address: a cluster of this machine
_AHEAD = 2  # recordings asked for, for each worker
_LOOK_EVERY_S = 0.05
_CONNECT_S = 10


def reduce_on_cluster(
    wanted: Sequence[Wanted], scheduler: str, count: int, answer: Answer, progress: Progress
) -> None:
    """Reduce every recording on the cluster at ``scheduler``, or on one of ``count`` workers started here ("local").

    As ``pool.reduce_here``. The workers must see the files under the same paths. Raises ``TraceError`` where there is
    no such cluster, or Dask is not installed, and ``Cancelled``.
    """
    with _client(scheduler, count) as client:
        _reduce(client, wanted, answer, progress)


@contextlib.contextmanager
def _client(scheduler: str, count: int) -> Iterator[Any]:
    try:
        from distributed import Client, LocalCluster
    except ImportError as error:
        raise TraceError(
            scheduler,
            "Dask is not installed.",
            "Install Stallscope with its extra: pip install 'stallscope[cluster]'.",
        ) from error
    if scheduler == LOCAL:
        with (
            LocalCluster(  # type: ignore[no-untyped-call]
                n_workers=count or processes(),
                threads_per_worker=1,
                processes=True,
                host="127.0.0.1",
                dashboard_address=None,
            ) as cluster,
            Client(cluster) as client,  # type: ignore[no-untyped-call]
        ):
            yield client
        return
    try:
        client = Client(scheduler, timeout=_CONNECT_S)  # type: ignore[no-untyped-call]
    except (OSError, ValueError) as error:
        raise TraceError(
            scheduler, "There is no Dask scheduler at this address.", "Write it like tcp://HOST:8786."
        ) from error
    with client:
        yield client


def _reduce(client: Any, wanted: Sequence[Wanted], answer: Answer, progress: Progress) -> None:
    """Ask for so many at once as the workers need, so that neither summaries nor requests pile up."""
    from distributed import as_completed
    from distributed.scheduler import KilledWorker

    numbers: dict[str, int] = {}
    left = iter(range(len(wanted)))

    def ask(number: int) -> Any:
        future = client.submit(reduce_rank, wanted[number], pure=False, retries=RETRIES)
        numbers[future.key] = number
        return future

    workers = max(len(client.scheduler_info()["workers"]), 1)
    asked = as_completed([ask(next(left)) for _ in range(min(_AHEAD * workers, len(wanted)))])  # type: ignore[no-untyped-call]
    answered = 0
    while numbers:
        progress.step(
            answered / len(wanted), f"reading rank {answered + 1:,} of {len(wanted):,} on the cluster"
        )
        done = asked.next_batch(block=False)  # type: ignore[no-untyped-call]
        if not done:
            time.sleep(_LOOK_EVERY_S)
        for future in done:
            number = numbers.pop(future.key)
            answered += 1
            try:
                answer(number, future.result())
            except KilledWorker:
                answer(number, Reduced(problem="Every worker that read it was lost."))
            if (following := next(left, None)) is not None:
                asked.add(ask(following))  # type: ignore[no-untyped-call]
