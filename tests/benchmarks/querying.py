"""``python -m tests.benchmarks.querying [EVENTS ...]``: sums over all events, asked in SQL.

The floor is DuckDB itself over the same columns in a Parquet file. Seconds depend on the machine, ratios less so.
"""

from __future__ import annotations

import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

SIZES = (1_000_000, 10_000_000)
ROUNDS = 5
QUESTIONS = {
    "sum of all durations": "SELECT sum({duration}) AS total FROM {events}",
    "sums by name": "SELECT name, count(*) AS n, sum({duration}) AS total FROM {events} "
    "GROUP BY name ORDER BY total DESC",
    "kernels of 10 ms": "SELECT count(*) AS n, sum({duration}) AS total FROM {events} "
    "WHERE kind = 'kernel' AND start_ns BETWEEN 9000000000 AND 9010000000",
}  # fmt: skip


def median_seconds(work: Callable[[], object], rounds: int = ROUNDS) -> float:
    """Median wall clock time of some rounds."""
    taken = []
    for _ in range(rounds):
        begun = time.perf_counter()
        work()
        taken.append(time.perf_counter() - begun)
    return statistics.median(taken)


def report(sizes: Sequence[int] = SIZES) -> None:
    """Print a table."""
    import duckdb

    from rules.analysis.analysis import Analysis
    from tests.benchmarks.drawing import synthetic
    from viewer.query.database import Database
    from viewer.tables.table import frame_of

    print("Questions in SQL")
    print("    events  question                  first time    again  DuckDB over Parquet    again / Parquet")
    for size in sizes:
        analysis = Analysis(synthetic(size))
        with tempfile.TemporaryDirectory(prefix="stallscope-bench-") as folder:
            file = Path(folder) / "events.parquet"
            frame_of(analysis, "events").to_parquet(file, index=False)
            parquet = duckdb.connect()
            database = Database(analysis)
            for title, question in QUESTIONS.items():
                ours = question.format(events="events", duration="duration_ns")
                theirs = question.format(events=f"'{file}'", duration="duration_ns")
                first = median_seconds(lambda ours=ours, database=database: database.run(ours), 1)
                again = median_seconds(lambda ours=ours, database=database: database.run(ours))
                floor = median_seconds(lambda theirs=theirs, parquet=parquet: parquet.execute(theirs).df())
                print(
                    f"{len(analysis.trace.events):>10,}  {title:<25} {first:>8.3f} s {again:>6.3f} s {floor:>18.3f} s"
                    f" {again / floor:>18.2f}",
                    flush=True,
                )
    print()


if __name__ == "__main__":
    report([int(word) for word in sys.argv[1:]] or SIZES)
