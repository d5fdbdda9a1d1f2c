"""The same recording read by other programs, where they are installed."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable
from pathlib import Path

from parsers import open_trace
from tests.benchmarks import kineto_like
from tests.benchmarks.loading import forget_cached

EVENTS = 1_000_000
HOLISTIC_TRACE_ANALYSIS = """
import sys, time
from hta.common.trace import parse_trace_file
begun = time.perf_counter()
parse_trace_file(sys.argv[1])
print(time.perf_counter() - begun)
"""


def report(python: Path, folder: Path) -> None:
    """One table; ``python`` is an interpreter that has HolisticTraceAnalysis (with pandas before 3)."""
    path = folder / "peers.pt.trace.json"
    events = kineto_like.write(path, EVENTS)
    forget_cached()
    own = _seconds(lambda: open_trace([path]))
    command = [str(python), "-c", HOLISTIC_TRACE_ANALYSIS, str(path)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    theirs = float(done.stdout.split()[-1])
    path.unlink()
    print(f"Other programs, {events:,} events")
    print(f"opened here in {own:.2f} s")
    print(
        f"parsed by HolisticTraceAnalysis in {theirs:.2f} s, {theirs / own:.1f} times as long\n", flush=True
    )


def _seconds(work: Callable[[], object]) -> float:
    begun = time.perf_counter()
    work()
    return time.perf_counter() - begun
