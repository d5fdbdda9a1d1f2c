"""``python -m tests.fuzzing [MINUTES] [SEED]``: opens and diagnoses damaged recordings until the time is up.

Each input is a real recording with random damage: to its bytes, to its numbers and lines, or to its rows. It is
opened, diagnosed, reported, and some of its arguments are fetched. Anything but an answer or a ``TraceError`` is a
fault: another exception, more than ``MOST_SECONDS``, or more than ``MOST_BYTES`` of memory. The input that caused it
is kept.
"""

from __future__ import annotations

import gzip
import random
import resource
import signal
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from types import FrameType

import zstandard

from parsers import open_trace
from parsers.model import Trace, TraceError
from rules import diagnose
from rules.analysis.analysis import Analysis
from tests.fuzz_injuries import damage_rows, damaged_bytes, damaged_text
from tests.fuzz_seeds import DATABASES, seeds
from viewer.reports.html_report import as_html
from viewer.reports.json_report import as_json
from viewer.reports.text_report import as_text

MOST_SECONDS = 30
MOST_BYTES = 6 << 30
ASKED_EVENTS = 4


class TooSlow(BaseException):
    """An input took too long; no ``except`` of the program may take it for damage of the file."""


def _too_slow(_: int, __: FrameType | None) -> None:
    raise TooSlow(f"more than {MOST_SECONDS} s")


def damaged(data: bytes, format: str, folder: Path, chance: random.Random) -> bytes:
    """A recording with injuries of the sorts that its format can have."""
    if format in DATABASES and chance.random() < 0.6:
        path = folder / "rows"
        path.write_bytes(data)
        damage_rows(path, chance)
        data = path.read_bytes()
        path.unlink()
        return data if chance.random() < 0.8 else damaged_bytes(data, chance)
    if format not in (*DATABASES, "archive", "ncu report") and chance.random() < 0.5:
        data = damaged_text(data, chance)
        return data if chance.random() < 0.7 else damaged_bytes(data, chance)
    return damaged_bytes(data, chance)


def packed(data: bytes, chance: random.Random) -> bytes:
    """Mostly as it is; else as gzip or zstd, sometimes with injuries to the packed bytes."""
    how = chance.random()
    if how < 0.75:
        return data
    data = gzip.compress(data, 1) if how < 0.88 else zstandard.compress(data)
    return data if chance.random() < 0.6 else damaged_bytes(data, chance)


def attempt(data: bytes, folder: Path, chance: random.Random) -> str:
    """Open, diagnose and report one input; "opened" or "refused". Anything else is raised."""
    file = folder / "input"
    file.write_bytes(data)
    signal.alarm(MOST_SECONDS)
    try:
        trace = open_trace([file])
        _use(trace, chance)
    except TraceError:
        return "refused"
    finally:
        signal.alarm(0)
    quality = trace.quality
    if quality.events_read != quality.events_kept + quality.quarantined:
        raise AssertionError(f"the account does not add up: {quality}")
    return "opened"


def _use(trace: Trace, chance: random.Random) -> None:
    diagnosis, analysis = diagnose(trace), Analysis(trace)
    if diagnosis.crashed:
        raise AssertionError("a rule failed: " + "; ".join(diagnosis.crashed.values()))
    for report in (as_text, as_html, as_json):
        report(trace, diagnosis, analysis)
    for _ in range(min(len(trace.events), ASKED_EVENTS)):
        trace.arguments(chance.randrange(len(trace.events)))


def run(minutes: float, seed: int, say: Callable[[str], None] = print) -> int:
    """Fuzz for some minutes; returns the number of faults."""
    resource.setrlimit(resource.RLIMIT_AS, (MOST_BYTES, MOST_BYTES))
    signal.signal(signal.SIGALRM, _too_slow)
    chance = random.Random(seed)
    originals = seeds()
    outcomes: Counter[tuple[str, str]] = Counter()
    kept = Path(tempfile.mkdtemp(prefix="stallscope-fuzz-"))
    end = time.monotonic() + minutes * 60
    while time.monotonic() < end:
        format = chance.choice(list(originals))
        with tempfile.TemporaryDirectory() as folder:
            data = packed(damaged(chance.choice(originals[format]), format, Path(folder), chance), chance)
            try:
                outcome = attempt(data, Path(folder), chance)
            except (Exception, TooSlow):
                outcome = "FAULT"
                file = kept / f"{sum(outcomes.values())}"
                file.write_bytes(data)
                say(f"{format}, kept as {file}\n{traceback.format_exc(limit=-6)}")
        outcomes[format, outcome] += 1
    for (format, outcome), count in sorted(outcomes.items()):
        say(f"{format:<18}{outcome:<10}{count:>8,}")
    faults = sum(count for (_, outcome), count in outcomes.items() if outcome == "FAULT")
    say(f"{sum(outcomes.values()):,} inputs, {faults} faults, seed {seed}")
    return faults


if __name__ == "__main__":
    arguments = sys.argv[1:]
    faults = run(float(arguments[0]) if arguments else 1.0, int(arguments[1]) if len(arguments) > 1 else 0)
    sys.exit(1 if faults else 0)
