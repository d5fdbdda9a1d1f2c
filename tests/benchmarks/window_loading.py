"""``python -m tests.benchmarks.window_loading PATH``: opens a recording in a real window and says when what was there.

A timer beats every 5 ms in the window's own thread; the longest time between two beats is how long the window did not
answer. The same is measured before anything is opened: that much is the machine's doing. The thread's processor time
inside a pause tells the window's own work from waiting for others.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict
from itertools import pairwise
from pathlib import Path

from parsers.model.late import dataclass

BEAT_MS = 5
PAUSE_S = 0.05  # what nobody should have to wait for an answer
QUIET_S = 1.0
SETTLE_S = 1.0  # after the diagnosis, for tables and pictures
GIVE_UP_S = 300


@dataclass(frozen=True, slots=True)
class WindowLoading:
    """Seconds from the request to open; pauses are seconds between two beats."""

    events: int
    first_lanes: float
    all_lanes: float
    diagnosis: float
    longest: float
    own_work: float  # the most processor time of the window's thread inside one pause
    pauses: int  # longer than PAUSE_S
    longest_quiet: float


def watch(path: Path) -> WindowLoading:
    """Open one recording in a window of this process, which must not have one yet."""
    from PySide6.QtCore import Qt, QTimer

    from viewer.app import GIL_SWITCH_S, application, open_window
    from viewer.appearance import theme

    app = application()
    theme.apply(app, "dark")
    sys.setswitchinterval(GIL_SWITCH_S)
    window = open_window()
    window.resize(1440, 900)
    beats: list[tuple[float, float]] = []
    there: dict[str, float] = {}

    def beat() -> None:
        beats.append((time.perf_counter(), time.thread_time()))

    def lanes() -> None:
        there.setdefault("first", time.perf_counter())
        if not window.document.preview:
            there.setdefault("all", time.perf_counter())

    def diagnosis(_: object) -> None:
        there["diagnosis"] = time.perf_counter()
        QTimer.singleShot(round(SETTLE_S * 1000), app.exit)

    pulse = QTimer()
    pulse.setTimerType(Qt.TimerType.PreciseTimer)
    pulse.timeout.connect(beat)
    pulse.start(BEAT_MS)
    window.timeline.ready.connect(lanes)
    window.document.diagnosis_changed.connect(diagnosis)
    window.document.failed.connect(lambda problem, _: (print(problem, file=sys.stderr), app.exit()))
    QTimer.singleShot(500, beats.clear)
    QTimer.singleShot(500 + round(QUIET_S * 1000), app.exit)
    app.exec()
    quiet, begun = longest_pause(beats)[0], time.perf_counter()
    beats[:] = [(begun, time.thread_time())]
    window.open([path])
    QTimer.singleShot(GIVE_UP_S * 1000, app.exit)
    app.exec()
    longest, own = longest_pause(beats)
    trace = window.document.trace
    window.close()
    return WindowLoading(
        events=0 if trace is None else len(trace.events),
        first_lanes=there["first"] - begun,
        all_lanes=there["all"] - begun,
        diagnosis=there["diagnosis"] - begun,
        longest=longest,
        own_work=own,
        pauses=sum(later[0] - earlier[0] > PAUSE_S for earlier, later in pairwise(beats)),
        longest_quiet=quiet,
    )


def longest_pause(beats: Sequence[tuple[float, float]]) -> tuple[float, float]:
    """The longest time between two beats, and the most processor time."""
    pairs = list(pairwise(beats))
    wall = max((later[0] - earlier[0] for earlier, later in pairs), default=0.0)
    return wall, max((later[1] - earlier[1] for earlier, later in pairs), default=0.0)


def measure(path: Path) -> WindowLoading:
    """The same in a process of its own, with a home of its own: nothing is cached."""
    with tempfile.TemporaryDirectory(prefix="stallscope-bench-home-") as home:
        environment = {"QT_QPA_PLATFORM": "offscreen"} | os.environ | {"HOME": home}
        environment |= {f"XDG_{kind}_HOME": f"{home}/{kind}" for kind in ("CACHE", "CONFIG", "DATA", "STATE")}
        command = [sys.executable, "-m", "tests.benchmarks.window_loading", "--json", str(path)]
        done = subprocess.run(command, capture_output=True, text=True, check=True, env=environment)
    return WindowLoading(**json.loads(done.stdout))


def row(taken: WindowLoading) -> str:
    """One line of the table under ``HEADING``."""
    return (
        f"{taken.events:>12,} {taken.first_lanes:>9.2f} s {taken.all_lanes:>8.2f} s {taken.diagnosis:>8.2f} s"
        f" {taken.longest * 1000:>9.0f} ms {taken.own_work * 1000:>6.0f} ms {taken.pauses:>6}"
        f" {taken.longest_quiet * 1000:>9.0f} ms"
    )


HEADING = "      events first lanes  all lanes  diagnosis  longest pause   own  > 50 ms   before opening"
EXPLANATION = (
    "longest pause: between two beats of a timer of the window's thread; own: the most processor time of that thread\n"
    "in one of them; before opening: the longest pause in a second in which nothing was opened"
)


def main() -> None:
    """Measure the recordings of the command line."""
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.window_loading", description=__doc__)
    parser.add_argument("paths", nargs="+", type=Path)
    parser.add_argument("--json", action="store_true", help="in this process, as one JSON object")
    options = parser.parse_args()
    if options.json:
        print(json.dumps(asdict(watch(options.paths[0]))))
        return
    print(HEADING)
    for path in options.paths:
        print(row(measure(path)), flush=True)
    print(EXPLANATION)


if __name__ == "__main__":
    main()
