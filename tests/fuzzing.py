"""``python -m tests.fuzzing [MINUTES] [SEED]``: opens and diagnoses damaged recordings until the time is up.

Each input is a real recording with random damage. Anything but an answer or a ``TraceError`` is a fault: another
exception, more than ``MOST_SECONDS``, or more than ``MOST_BYTES`` of memory. The input that caused it is kept.
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

from parsers import open_trace
from parsers.model import TraceError
from resources import path as resource_path
from rules import diagnose

MOST_SECONDS = 30
MOST_BYTES = 6 << 30
LONGEST_INPUT = 300_000
FIXTURES = Path(__file__).parent / "fixtures"
FORMATS = {
    "Chrome JSON": (".json", ".json.gz"),
    "Nsight Systems": (".sqlite", ".sqlite.gz"),
    "Nsight Compute": (".csv", ".csv.gz", ".ncu-rep", ".ncu-rep.gz"),
}
TOKENS = (
    b"NaN", b"-Infinity", b"null", b"{}", b"[]", b"]", b"}", b'"', b"\\", b"\x00", b"\xff", b"1e999", b"-1",
    b"99999999999999999999", b'{"ph":"X"}', b",", b"\n", b"==ERROR== x", b"n/a", b"(!) nan", b"\xef\xbb\xbf",
)  # fmt: skip


def seeds() -> dict[str, list[bytes]]:
    """Real recordings by format, unpacked; large text ones cut, which damages their end already."""
    found: dict[str, list[bytes]] = {format: [] for format in FORMATS}
    for root in (FIXTURES, resource_path("samples")):
        for file in sorted(root.rglob("*")):
            for format, endings in FORMATS.items():
                if file.is_file() and file.name.endswith(endings):
                    data = file.read_bytes()
                    data = gzip.decompress(data) if data.startswith(b"\x1f\x8b") else data
                    found[format].append(data if format == "Nsight Systems" else data[:LONGEST_INPUT])
    return found


def damaged(data: bytes, chance: random.Random) -> bytes:
    """The same bytes after one to eight random injuries."""
    text = bytearray(data)
    for _ in range(chance.randint(1, 8)):
        where = chance.randrange(len(text) + 1)
        until = min(where + chance.choice((1, 2, 8, 64, 4096)), len(text))
        injury = chance.randrange(6)
        if injury == 0:
            text[where:until] = chance.randbytes(until - where)
        elif injury == 1:
            del text[where:until]
        elif injury == 2:
            text[where:where] = chance.choice(TOKENS)
        elif injury == 3:
            text[where:where] = text[where:until]
        elif injury == 4 and where < len(text):
            text[where] ^= 1 << chance.randrange(8)
        elif injury == 5 and chance.random() < 0.3:
            del text[where:]
    return bytes(text)


def _too_slow(_: int, __: FrameType | None) -> None:
    raise TimeoutError(f"more than {MOST_SECONDS} s")


def attempt(data: bytes, folder: Path, compress: bool) -> str:
    """Open and diagnose one input; "opened" or "refused". Anything else is raised."""
    file = folder / "input"
    file.write_bytes(gzip.compress(data, 1) if compress else data)
    signal.alarm(MOST_SECONDS)
    try:
        diagnosis = diagnose(open_trace([file]))
    except TraceError:
        return "refused"
    finally:
        signal.alarm(0)
    if diagnosis.crashed:
        raise AssertionError("a rule failed: " + "; ".join(diagnosis.crashed.values()))
    return "opened"


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
        data = damaged(chance.choice(originals[format]), chance)
        with tempfile.TemporaryDirectory() as folder:
            try:
                outcome = attempt(data, Path(folder), compress=chance.random() < 0.2)
            except Exception:
                outcome = "FAULT"
                file = kept / f"{sum(outcomes.values())}"
                file.write_bytes(data)
                say(f"{format}, kept as {file}\n{traceback.format_exc(limit=-6)}")
        outcomes[format, outcome] += 1
    for (format, outcome), count in sorted(outcomes.items()):
        say(f"{format:<16}{outcome:<10}{count:>8,}")
    faults = sum(count for (_, outcome), count in outcomes.items() if outcome == "FAULT")
    say(f"{sum(outcomes.values()):,} inputs, {faults} faults, seed {seed}")
    return faults


if __name__ == "__main__":
    arguments = sys.argv[1:]
    faults = run(float(arguments[0]) if arguments else 1.0, int(arguments[1]) if len(arguments) > 1 else 0)
    sys.exit(1 if faults else 0)
