"""``python -m tests.benchmarks processes [--short]``: whole commands as users run them, on recordings of real size.

The wheel is installed into an environment of its own. Every command runs with a processor free and with all of them
busy, first with nothing in the cache and then again. A command without an end, or one that leaves a process or a file
behind, makes the benchmark fail; seconds never do.
"""

from __future__ import annotations

import contextlib
import os
import resource
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from parsers.model.late import dataclass
from tests.benchmarks.published import Table
from tests.processes.installed import install, installed_in
from tests.processes.place import Hangs, Place, kill, processes_with
from tests.processes.recordings import Recordings
from tests.shared_folder import SharedFolder

HANGS_AFTER_S = 900.0
COPY_BYTES = 8 << 20
BUSY_LOOP = "import os\nparent = os.getppid()\nwhile os.getppid() == parent:\n    sum(range(100_000))\n"
FLOOR = "import pathlib, sys\nfrom {module} import scan\nscan(pathlib.Path(sys.argv[1]))"
JSON, DATABASE = "tests.benchmarks.floor", "tests.benchmarks.database_loading"
COLUMNS = (
    "command", "file", "reading its bytes", "decoding it in Python", "first", "/ decoding", "again",
    "processors, first", "/ decoding", "memory",
)  # fmt: skip
QUESTION = "SELECT name, sum(duration_ns) AS total FROM kernels GROUP BY name ORDER BY total DESC"


@dataclass(frozen=True, slots=True)
class Sizes:
    """Events, rows and ranks of the recordings."""

    events: int  # 219 bytes each
    many_events: int
    rows: int  # 105 bytes each
    ranks: int
    operators: int  # of a layer of a rank


REAL = Sizes(events=1_370_000, many_events=6_400_000, rows=10_000_000, ranks=64, operators=50)
SHORT = Sizes(events=420_000, many_events=0, rows=400_000, ranks=24, operators=12)


@dataclass(frozen=True, slots=True)
class Recording:
    """What is read, the module that reads it as quickly as can be in Python, and the words before and after it."""

    what: str
    path: Path
    floor: str = ""
    before: tuple[str, ...] = ("diagnose",)
    after: tuple[str, ...] = ("--json",)


@dataclass(frozen=True, slots=True)
class Taken:
    """One command: seconds by the clock and of processors, bytes of memory at most."""

    seconds: float
    work: float
    peak: int = 0


class Faults:
    """What must not happen, counted."""

    def __init__(self) -> None:
        self.found: list[str] = []

    def add(self, what: str) -> None:
        self.found.append(what)
        print(f"  FAULT: {what}", flush=True)


def report(folder: Path, is_short: bool = False) -> tuple[list[Table], int]:
    """Print the tables; and how often a command failed, had no end or left something."""
    sizes = SHORT if is_short else REAL
    shared = SharedFolder(f"stallscope-bench-{os.getpid()}")
    faults, tables = Faults(), list[Table]()
    try:
        installed = installed_in(shared.once("installed", install))
        recordings = Recordings(shared)
        for state, around in (("a processor free", contextlib.nullcontext), ("all processors busy", busy)):
            tables.append(Table(f"processes, {state}", f", {state}", *COLUMNS))
            with around():
                for each in _read(recordings, sizes):
                    _measure(each, Place(folder / "place", installed), faults, tables[-1])
            print()
    finally:
        shared.leave()
    print(f"{len(faults.found)} faults: commands that failed, had no end, or left processes or files")
    return tables, len(faults.found)


def _read(recordings: Recordings, sizes: Sizes) -> Iterator[Recording]:
    plain = recordings.json(sizes.events)
    yield Recording("diagnose, JSON", plain, JSON)
    yield Recording("diagnose, gz", recordings.packed(sizes.events))
    if sizes.many_events:
        yield Recording("diagnose, JSON", recordings.json(sizes.many_events), JSON)
    yield Recording("diagnose, SQLite", recordings.database(sizes.rows), DATABASE)
    yield Recording("diagnose, ranks", recordings.ranks(sizes.ranks, sizes.operators))
    yield Recording("whatif, JSON", plain, JSON, ("whatif",))
    yield Recording("compare, gz", recordings.packed(sizes.events), "", ("compare", str(plain)))
    yield Recording("query, JSON", plain, JSON, ("query",), (QUESTION,))
    yield Recording("query, SQLite", recordings.database(sizes.rows), DATABASE, ("query",), (QUESTION,))
    yield Recording("baseline, JSON", plain, JSON, ("baseline", "save", "kept"), ())
    for ending in ("chrome", "parquet", "csv"):
        yield Recording(
            f"convert to {ending}", plain, JSON, ("convert",), ("--to", ending, f"converted.{ending}")
        )


def _measure(recording: Recording, place: Place, faults: Faults, table: Table) -> None:
    """One row: the command first and again, between floors taken on the same machine."""
    size = sum(each.stat().st_size for each in _files(recording.path))
    reading = _timed(lambda: _read_bytes(recording.path))
    floor = _timed(lambda: _scan(recording)) if recording.floor else None
    words = [*recording.before, str(place.give(recording.path)), *recording.after]
    if words[0] == "convert":
        words[-1] = str(place.written / words[-1])
    try:
        first = _taken(recording.what, place, words, faults)
        again = _taken(recording.what, place, words, faults)
    except Hangs as error:
        faults.add(str(error))
        return
    finally:
        kill(processes_with(place.mark))
        shutil.rmtree(place.root)
    table.row(
        recording.what,
        f"{size / 1e6:,.0f} MB",
        f"{reading.seconds:.2f} s",
        f"{floor.seconds:.2f} s" if floor else "",
        f"{first.seconds:.2f} s",
        f"{first.seconds / floor.seconds:.2f}" if floor else "",
        f"{again.seconds:.2f} s",
        f"{first.work:.2f} s",
        f"{first.work / floor.work:.2f}" if floor else "",
        f"{max(first.peak, again.peak) / 1e9:.2f} GB",
    )


def _taken(what: str, place: Place, words: list[str], faults: Faults) -> Taken:
    for each in place.written.iterdir():
        shutil.rmtree(each) if each.is_dir() else each.unlink()
    before = _work_of_others()
    done = place.run(*words, within=HANGS_AFTER_S)
    work = _work_of_others() - before
    if done.code:
        faults.add(f"{what}: exit code {done.code}: {done.err[-300:]}")
    for each in place.left():
        faults.add(f"{what} left {each}")
    return Taken(done.seconds, work, done.peak)


def _work_of_others() -> float:
    """Seconds of processors that ended processes took, those that they waited for too."""
    taken = resource.getrusage(resource.RUSAGE_CHILDREN)
    return taken.ru_utime + taken.ru_stime


def _files(path: Path) -> list[Path]:
    return sorted(path.iterdir()) if path.is_dir() else [path]


def _read_bytes(path: Path) -> None:
    for each in _files(path):
        with each.open("rb", buffering=0) as file:
            while file.read(COPY_BYTES):
                pass


def _scan(recording: Recording) -> None:
    program = FLOOR.format(module=recording.floor)
    subprocess.run([sys.executable, "-c", program, str(recording.path)], check=True)


def _timed(work: Callable[[], object]) -> Taken:
    begin, before = time.perf_counter(), _work_of_others()
    work()
    return Taken(time.perf_counter() - begin, _work_of_others() - before)


@contextlib.contextmanager
def busy() -> Iterator[None]:
    """As many busy loops as there are processors; they end with this process at the latest."""
    loops = [subprocess.Popen([sys.executable, "-c", BUSY_LOOP]) for _ in range(os.cpu_count() or 1)]
    try:
        yield
    finally:
        for each in loops:
            each.kill()
            each.wait()
