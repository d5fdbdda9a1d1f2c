"""How time and memory of a diagnosis grow with the number of ranks, and whether what was put in is named."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

from parsers.model.late import dataclass
from tests.benchmarks.published import Table
from tests.rank_runs import LAYERS, Run

SIZES = (64, 256, 1_024)
EVENTS = 10_000  # of one rank
COMPARED = 256  # ranks that one process reads alone, too; of fewer, the start of two would be measured
SUMMARIES = 4_096  # ranks whose summaries alone are joined
STEPS = 8
STRAGGLER, SLOW_GROUP, SLOW_STAGE = 13, 20, 3

DIAGNOSE = """
import json, os, pathlib, resource, sys, time
os.environ["OPENBLAS_NUM_THREADS"] = "1"  # as the command does: a process without threads is copied
from rules.summaries.findings import diagnosis_of_many
from viewer.loading.ranks import summaries
from viewer.loading.ranks.opening import Workers, files_of_many, open_many
from viewer.reports.many_ranks_report import as_json, as_text

def main():
    begin, started = time.perf_counter(), time.process_time()
    files = files_of_many([pathlib.Path(sys.argv[1])])
    run = open_many(files, workers=Workers(int(sys.argv[2])))
    read = time.perf_counter()
    facts, diagnosis = diagnosis_of_many(run)
    text = as_text(facts, diagnosis)
    end = time.perf_counter()
    whose = (resource.getrusage(resource.RUSAGE_SELF), resource.getrusage(resource.RUSAGE_CHILDREN))
    cpu = [each.ru_utime + each.ru_stime for each in whose]
    peak = [resource.getrusage(which).ru_maxrss * 1024 for which in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    told = as_json(facts, diagnosis)["ranks"]
    print(json.dumps({
        "own_cpu": cpu[0] - started, "workers_cpu": cpu[1],
        "reading": read - begin, "judging": end - read, "own": peak[0], "worker": peak[1], "lines": text.count("\\n"),
        "late": told["late"], "links": [each["ranks"] for each in told["slow_links"]],
        "patterns": [each["name"] for each in told["patterns"]],
        "bytes": sum(each.stat().st_size for each in summaries.ENTRIES.folder.iterdir()) / len(run.members),
    }))

if __name__ == "__main__":
    main()
"""


@dataclass(frozen=True, slots=True)
class Taken:
    """One diagnosis: seconds, bytes of memory, and what it named."""

    ranks: int
    reading: float
    judging: float
    peak: int  # of the process and its workers together, at most
    summary: float  # bytes of one, mean
    lines: int
    named: bool
    shared_cpu: float  # seconds of processors if its workers' were spread evenly over as many


def simulated(ranks: int, events: int = EVENTS) -> Run:
    """A run with a straggler, a slow link and an uneven stage."""
    operators = round((events / STEPS / 6 - LAYERS - 2) / LAYERS)
    return Run(
        ranks=ranks, steps=STEPS, operators=operators, straggler=STRAGGLER, since=2, slow_group=SLOW_GROUP,
        slow_stage=SLOW_STAGE,
    )  # fmt: skip


def measure(run: Run, folder: Path, cache: Path, workers: int) -> Taken:
    """Diagnose the run's files in a process of its own, with nothing in the cache."""
    shutil.rmtree(cache, ignore_errors=True)
    program = folder.parent / "diagnose_many.py"
    program.write_text(DIAGNOSE)
    command = [sys.executable, str(program), str(folder), str(workers)]
    found = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    slow = [rank for rank in range(run.ranks) if run.data_group[rank] == SLOW_GROUP]
    return Taken(
        run.ranks,
        found["reading"],
        found["judging"],
        found["own"] + workers * found["worker"],
        found["bytes"],
        found["lines"],
        found["late"] == [f"rank {STRAGGLER}"]
        and slow in found["links"]
        and {f"rank {STRAGGLER}", f"pipeline stage {SLOW_STAGE}"} <= set(found["patterns"]),
        found["own_cpu"] + found["workers_cpu"] / workers,
    )


def diagnosed(folder: Path, ranks: int, workers: int = 2) -> Taken:
    """A diagnosis of so many ranks, whose recordings lie on the disk meanwhile (3 GB for 1,024 ranks)."""
    run, where = simulated(ranks), folder / "ranks"
    run.write(where)
    try:
        return measure(run, where, Path(os.environ["XDG_CACHE_HOME"]), workers)
    finally:
        shutil.rmtree(where)


def report(folder: Path, sizes: tuple[int, ...] = SIZES) -> Table:
    """Print the table, and what is measured of summaries alone."""
    first, told = None, ""
    table = Table(
        "ranks",
        "",
        "ranks",
        "reading",
        f"/ {sizes[0]:,} ranks",
        "judging",
        "memory",
        "a summary",
        "page",
        "named",
    )
    for ranks in sizes:
        taken = diagnosed(folder, ranks)
        first = first or taken
        if ranks == COMPARED or sizes == (ranks,):
            alone = diagnosed(folder, ranks, workers=1)
            told = (
                f"speed-up of two processes with {ranks:,} ranks: {alone.reading / taken.reading:.2f}, by the seconds "
                f"of processors, which others on the machine change less: {alone.shared_cpu / taken.shared_cpu:.2f}; "
            )
        table.row(
            f"{ranks:,}",
            f"{taken.reading:.1f} s",
            f"{taken.reading / first.reading:.2f}",
            f"{taken.judging:.2f} s",
            f"{taken.peak / 1e9:.2f} GB",
            f"{taken.summary / 1e3:.0f} kB",
            f"{taken.lines} lines",
            "all three" if taken.named else "NOT ALL",
        )
    print(f"\n{told}memory: of this process and both others together, at most")
    _report_summaries()
    return table


def _report_summaries() -> None:
    """Joining and judging summaries alone, of more ranks than anybody has files of here."""
    import time

    from rules.summaries.findings import diagnosis_of_many
    from tests.benchmarks.rank_map import frames
    from tests.rank_summaries import summaries_of
    from viewer.loading.ranks.opening import joined

    taken = {}
    for ranks in (SUMMARIES // 4, SUMMARIES):
        made = summaries_of(simulated(ranks))
        begin = time.perf_counter()
        facts, _ = diagnosis_of_many(joined(made))
        _ = facts.patterns, facts.costly, facts.slow_links
        taken[ranks] = time.perf_counter() - begin
        shown = frames(facts)
        del made, facts
    told = ", ".join(f"{ranks:,} ranks {seconds:.1f} s" for ranks, seconds in taken.items())
    print(f"summaries alone, joined and judged: {told}, {taken[SUMMARIES] / taken[SUMMARIES // 4]:.1f} times")
    for what, (middle, most) in shown.items():
        print(f"map of {SUMMARIES:,} ranks, {what}: {middle:.1f} ms a frame, p99 {most:.1f} ms")
    print()
