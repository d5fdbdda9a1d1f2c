"""``python -m tests.benchmarks [EVENTS ...]``: prints one table; seconds depend on the machine, ratios much less so."""

from __future__ import annotations

import argparse
import os
import tempfile
from collections.abc import Sequence
from pathlib import Path

from tests.benchmarks import starting

SIZES = (100_000, 1_000_000)


def main() -> None:
    """Measure every size in a private folder, with a private cache."""
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks", description=__doc__)
    parser.add_argument("events", nargs="*", type=int, default=SIZES, help="sizes to measure")
    sizes = parser.parse_args().events
    with tempfile.TemporaryDirectory(prefix="stallscope-bench-") as name:
        folder = Path(name)
        os.environ.update(HOME=name, XDG_CACHE_HOME=str(folder / "cache"))
        from tests.benchmarks.loading import measure

        print("    events    floor     open  / floor     gzip  diagnose  / open        peak, gzip")
        for size in sizes:
            taken = measure(size, folder)
            print(
                f"{taken.events:>10,} {taken.floor:>6.2f} s {taken.opening:>6.2f} s"
                f" {taken.opening / taken.floor:>8.2f} {taken.opening_gzip:>6.2f} s {taken.diagnosis:>7.2f} s"
                f" {taken.diagnosis / taken.opening:>7.2f} {taken.peak_gzip / taken.events:>9.0f} B/event",
                flush=True,
            )
        print("floor: the same file decoded event by event with msgspec, nothing kept\n")
        _measure_databases(sizes, folder)
        _measure_drawing(sizes)
        starting.report()


def _measure_databases(sizes: Sequence[int], folder: Path) -> None:
    from tests.benchmarks.database_loading import measure

    print("Nsight Systems export")
    print("    events    floor     open  / floor        peak")
    for size in sizes:
        taken = measure(size, folder)
        print(
            f"{taken.events:>10,} {taken.floor:>6.2f} s {taken.opening:>6.2f} s"
            f" {taken.opening / taken.floor:>8.2f} {taken.peak / taken.events:>4.0f} B/event",
            flush=True,
        )
    print("floor: the same columns read with ADBC into numpy, nothing done with them\n")


def _measure_drawing(sizes: Sequence[int]) -> None:
    from tests.benchmarks.drawing import SIZES as DRAWING_SIZES
    from tests.benchmarks.drawing import report

    print("Painting the timeline")
    report(DRAWING_SIZES if tuple(sizes) == SIZES else sizes)


if __name__ == "__main__":
    main()
