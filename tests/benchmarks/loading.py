"""How long it takes to open and to diagnose a recording, against the floor, and how much memory opening takes."""

from __future__ import annotations

import gzip
import os
import shutil
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import platformdirs

from parsers import open_trace
from parsers.model.late import dataclass
from parsers.storage import cache
from rules import diagnosis_of
from rules.analysis.analysis import Analysis
from rules.fixes.plan import make_plan
from tests.benchmarks import floor, kineto_like

# Linux keeps ru_maxrss of the process that started this one; VmHWM counts from its own start.
PEAK_OF_OPENING = """
import pathlib, resource, sys
from parsers import open_trace
from parsers.files.base import parsers

def peak():
    status = pathlib.Path("/proc/self/status")
    if status.exists():
        line = next(line for line in status.read_text().splitlines() if line.startswith("VmHWM"))
        return int(line.split()[1]) * 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)

parsers()
before = peak()
trace = open_trace([pathlib.Path(sys.argv[1])])
print(peak() - before)
"""


@dataclass(frozen=True, slots=True)
class Loading:
    """Medians in seconds over the rounds of one size; memory in bytes above the program before it opens anything."""

    events: int
    floor: float
    opening: float
    opening_gzip: float
    diagnosis: float
    planning: float  # the replay and all fixes, after the diagnosis
    reopening: float | None  # None: too small for the cache
    peak_gzip: int


def measure(events: int, folder: Path, rounds: int = 3) -> Loading:
    """Take floor, opening and diagnosis in turns, so that all of them see the same machine."""
    path = folder / "benchmark.pt.trace.json"
    packed = folder / "benchmark.pt.trace.json.gz"
    count = kineto_like.write(path, events)
    with path.open("rb") as plain, gzip.open(packed, "wb", compresslevel=4) as file:
        shutil.copyfileobj(plain, file, 1 << 20)
    assert floor.scan(path) == count
    taken: dict[str, list[float]] = {
        "floor": [], "opening": [], "opening_gzip": [], "diagnosis": [], "planning": [], "reopening": []
    }  # fmt: skip
    for _ in range(rounds):
        taken["floor"].append(_seconds(lambda: floor.scan(path)))
        for what, recording in (("opening", path), ("opening_gzip", packed)):
            forget_cached()
            taken[what].append(_seconds(lambda recording=recording: open_trace([recording])))
        trace = open_trace([path])  # anew each time: a trace keeps what analyses derived from it
        analysis = Analysis(trace)
        taken["diagnosis"].append(_seconds(lambda analysis=analysis: diagnosis_of(analysis)))
        taken["planning"].append(_seconds(lambda analysis=analysis: make_plan(analysis)))
        cached = cache.store(trace)
        del trace, analysis
        if cached is not None:
            taken["reopening"].append(_seconds(lambda: open_trace([path])))
    medians = {what: statistics.median(times) for what, times in taken.items() if times}
    forget_cached()
    return Loading(
        events=count,
        floor=medians["floor"],
        opening=medians["opening"],
        opening_gzip=medians["opening_gzip"],
        diagnosis=medians["diagnosis"],
        planning=medians["planning"],
        reopening=medians.get("reopening"),
        peak_gzip=peak_of_opening(packed),
    )


def forget_cached() -> None:
    """Openings are measured from the file; a cache of an earlier round would hide them."""
    shutil.rmtree(platformdirs.user_cache_path("stallscope", appauthor=False), ignore_errors=True)


def _seconds(work: Callable[[], object]) -> float:
    begin = time.perf_counter()
    work()
    return time.perf_counter() - begin


def peak_of_opening(path: Path) -> int:
    command = [sys.executable, "-c", PEAK_OF_OPENING, str(path)]
    result = subprocess.run(command, capture_output=True, text=True, check=True, env=dict(os.environ))
    return int(result.stdout)
