"""``make fuzz ARGS="[FORMAT ...] [--minutes N] [--processes N] [--folder F]"``: damaged recordings of all formats.

The formats share the time. A folder that was used before is gone on with: its corpus, and the count of what was tried.
"""

from __future__ import annotations

import argparse
import json
import random
import subprocess
import sys
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tests.fuzzing.seeds import seeds

ROUND_S = 60.0  # one format's turn, so that every format had one soon
MOST_BYTES = 6 << 30  # of address space, for one process


def tried(folder: Path) -> dict[str, Counter[str]]:
    """What became of the inputs so far, by format."""
    found: dict[str, Counter[str]] = {}
    file = folder / "tried.jsonl"
    for line in file.read_text().splitlines() if file.exists() else ():
        outcomes = json.loads(line)
        found.setdefault(outcomes.pop("format"), Counter()).update(outcomes)
    return found


def take_turns(formats: list[str], folder: Path, seconds: float, processes: int) -> None:
    """Workers on one format after the other, until each had its share of ``seconds``."""
    turns = max(round(seconds * processes / ROUND_S / len(formats)), 1)
    turn_s = seconds * processes / turns / len(formats)

    def turn(format: str) -> None:
        worker = [sys.executable, "-m", "tests.fuzzing.worker", format, str(folder), f"{turn_s:.0f}"]
        limited = ["prlimit", f"--as={MOST_BYTES}", *worker] if sys.platform == "linux" else worker
        subprocess.run([*limited, str(random.randrange(1 << 30))], check=False, stdout=subprocess.DEVNULL)

    with ThreadPoolExecutor(processes) as pool:
        list(pool.map(turn, formats * turns))


def main() -> int:
    """Fuzz, then say what was tried; 1 where a fault was found."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzzing", description=__doc__)
    known = sorted(seeds())
    parser.add_argument(
        "formats", nargs="*", metavar="FORMAT", help=f"of {', '.join(known)}; all if left out"
    )
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--folder", type=Path, default=Path("build/fuzzing"))
    options = parser.parse_args()
    unknown = set(options.formats) - set(known)
    if unknown:
        parser.error(f"no format is called {', '.join(sorted(unknown))}")
    options.folder.mkdir(parents=True, exist_ok=True)
    take_turns(options.formats or known, options.folder, options.minutes * 60, options.processes)
    total: Counter[str] = Counter()
    for format, outcomes in sorted(tried(options.folder).items()):
        print(
            f"{format:<18}"
            + "".join(f"{count:>10,} {outcome}" for outcome, count in sorted(outcomes.items()))
        )
        total.update(outcomes)
    faults = sorted((options.folder / "faults").glob("*.txt"))
    print(
        f"{total.total():,} inputs, {len(faults)} sorts of faults" + "".join(f"\n{each}" for each in faults)
    )
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
