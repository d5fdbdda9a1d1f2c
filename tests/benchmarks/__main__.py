"""``python -m tests.benchmarks [EVENTS ...]``: prints tables; seconds depend on the machine, ratios much less so."""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from tests.benchmarks.published import Table

SIZES = (100_000, 1_000_000, 5_000_000)
DATABASE_SIZES = (1_000_000, 10_000_000)
SNAPSHOT_SIZES = (100_000, 1_000_000)  # allocations
MANY = 2_000_000  # of more events one round is enough: noise is a small part of it


def main() -> None:
    """Measure every size in a private folder, with a private cache."""
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks", description=__doc__)
    parser.add_argument(
        "events",
        nargs="*",
        help="sizes to measure, of everything; or ranks: runs of many ranks, and nothing else; or processes: "
        "whole commands of the installed program, and nothing else; or asked: the table of what is asked",
    )
    parser.add_argument("--short", action="store_true", help="of processes: on smaller recordings")
    parser.add_argument(
        "--publish",
        action="store_true",
        help="of asked, processes and ranks: put the tables into docs/benchmarks.md in place of those it has",
    )
    parser.add_argument(
        "--peers",
        type=Path,
        metavar="PYTHON",
        help="an interpreter that has HolisticTraceAnalysis, to compare with; of asked: Perfetto's trace_processor",
    )
    options = parser.parse_args()
    os.environ.setdefault("QT_QPA_PLATFORM", "offscreen")
    with tempfile.TemporaryDirectory(prefix="stallscope-bench-") as name:
        folder = Path(name)
        os.environ.update(HOME=name, XDG_CACHE_HOME=str(folder / "cache"))
        if options.events[:1] == ["ranks"]:
            from tests.benchmarks import many_ranks

            ranks = tuple(map(int, options.events[1:])) or many_ranks.SIZES
            _published([many_ranks.report(folder, ranks)], options.publish)
            return
        if options.events[:1] == ["asked"]:
            from tests.benchmarks import asked

            _published([asked.report(folder, options.peers)], options.publish)
            return
        from tests.benchmarks import processes

        if options.events[:1] == ["processes"]:
            tables, faults = processes.report(folder, options.short)
            _published(tables, options.publish)
            sys.exit(min(faults, 1))
        sizes = [int(each) for each in options.events]
        _measure_traces(sizes or SIZES, folder)
        _measure_databases(sizes or DATABASE_SIZES, folder)
        _measure_snapshots(sizes or SNAPSHOT_SIZES, folder)
        _measure_windows(sizes or SIZES, sizes or DATABASE_SIZES, folder)
        if options.peers:
            from tests.benchmarks import peers

            peers.report(options.peers, folder)
        _measure_drawing(sizes)
        from tests.benchmarks import querying, starting

        querying.report(sizes or querying.SIZES)
        starting.report()
        if not sizes:
            sys.exit(min(processes.report(folder)[1], 1))


def _published(tables: Sequence[Table], wanted: bool) -> None:
    for each in tables if wanted else ():
        each.publish()


def _rounds(size: int) -> int:
    return 1 if size > MANY else 3


def _measure_traces(sizes: Sequence[int], folder: Path) -> None:
    from tests.benchmarks.loading import measure

    print("PyTorch trace")
    print(
        "    events    floor     open  / floor     gzip  diagnose  / open  fixes  / open    reopen        peak, gzip"
    )
    for size in sizes:
        taken = measure(size, folder, _rounds(size))
        reopening = "-" if taken.reopening is None else f"{taken.reopening:.3f} s"
        print(
            f"{taken.events:>10,} {taken.floor:>6.2f} s {taken.opening:>6.2f} s"
            f" {taken.opening / taken.floor:>8.2f} {taken.opening_gzip:>6.2f} s {taken.diagnosis:>7.2f} s"
            f" {taken.diagnosis / taken.opening:>7.2f} {taken.planning:>5.2f} s {taken.planning / taken.opening:>5.2f}"
            f" {reopening:>9} {taken.peak_gzip / taken.events:>9.0f} B/event",
            flush=True,
        )
    print("floor: the same file decoded event by event with msgspec, nothing kept; reopen: from the cache\n")


def _measure_databases(sizes: Sequence[int], folder: Path) -> None:
    from tests.benchmarks.database_loading import measure

    print("Nsight Systems export")
    print("    events    floor     open  / floor        peak")
    for size in sizes:
        taken = measure(size, folder, _rounds(size))
        print(
            f"{taken.events:>10,} {taken.floor:>6.2f} s {taken.opening:>6.2f} s"
            f" {taken.opening / taken.floor:>8.2f} {taken.peak / taken.events:>4.0f} B/event",
            flush=True,
        )
    print("floor: the same columns read with ADBC into numpy, nothing done with them\n")


def _measure_snapshots(sizes: Sequence[int], folder: Path) -> None:
    from tests.benchmarks.snapshots import measure

    print("PyTorch memory snapshot")
    print(
        "allocations       size     floor     open  / floor      work  summary   timeline     tab   a moment"
    )
    for size in sizes:
        taken = measure(size, folder)
        print(
            f"{size:>11,} {taken.bytes / 1e6:>7.0f} MB {taken.floor:>7.2f} s {taken.opening:>6.2f} s"
            f" {taken.opening / taken.floor:>8.2f} {taken.work:>7.2f} s {taken.summary:>6.2f} s"
            f" {taken.frames.timeline:>7.1f} ms {taken.frames.allocations:>4.1f} ms {taken.frames.moment:>8.3f} s",
            flush=True,
        )
    print(
        "floor: one pass over the file's bytes, for their SHA-256; work: processor time of opening; timeline, tab:"
        " what the painting thread works in a frame, p99; a moment: until the table tells another one\n"
    )


def _measure_windows(traces: Sequence[int], databases: Sequence[int], folder: Path) -> None:
    from tests.benchmarks import kineto_like
    from tests.benchmarks.generate_nsys import write_export
    from tests.benchmarks.window_loading import EXPLANATION, HEADING, measure, row

    print("A window while it opens a recording")
    print(f"{'':<15}{HEADING}")
    for what, sizes, write in (
        ("PyTorch trace", traces, kineto_like.write),
        ("Nsight Systems", databases, write_export),
    ):
        for size in sizes:
            path = folder / "window.recording"
            write(path, size)
            print(f"{what:<15}{row(measure(path))}", flush=True)
            path.unlink()
    print(f"{EXPLANATION}\n")


def _measure_drawing(sizes: Sequence[int]) -> None:
    from tests.benchmarks.drawing import SIZES as DRAWING_SIZES
    from tests.benchmarks.drawing import report

    print("Painting the timeline")
    report(sizes or DRAWING_SIZES)


if __name__ == "__main__":
    main()
