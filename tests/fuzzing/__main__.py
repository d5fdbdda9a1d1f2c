"""``make fuzz ARGS="[FORMAT ...] [--minutes N] [--processes N] [--guided] [--folder F]"``: damaged recordings.

Some are crafted instead: one thing in them comes thousands of times. Each input is tried in a process of its own with
10 s and 1 GB. The formats share the time; ``--guided`` lets atheris choose the injuries, which is slower, reaches
further, and happens in one process.
A folder that was used before is gone on with: its corpus, and the count of what was tried.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import subprocess
import sys
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tests.fuzzing.seeds import formats


def tried(folder: Path) -> dict[str, Counter[str]]:
    """What became of the inputs so far, by format."""
    found: dict[str, Counter[str]] = {}
    file = folder / "tried.jsonl"
    for line in file.read_text().splitlines() if file.exists() else ():
        outcomes = json.loads(line)
        found.setdefault(outcomes.pop("format"), Counter()).update(outcomes)
    return found


def work(folder: Path, formats: list[str], seconds: float, processes: int, guided: bool) -> None:
    """Let workers try inputs for some seconds: each all formats in turn, or a guided one a format after the other."""
    turns = [[format] for format in formats] if guided else [formats] * processes
    share_s = seconds * processes / len(turns)

    def begin(of: list[str]) -> None:
        module = "tests.fuzzing.guided" if guided else "tests.fuzzing.worker"
        worker = [
            sys.executable,
            "-m",
            module,
            str(folder),
            f"{share_s:.0f}",
            str(random.randrange(1 << 30)),
            *of,
        ]
        subprocess.run(worker, check=False, stdout=subprocess.DEVNULL)

    with ThreadPoolExecutor(processes) as pool:
        list(pool.map(begin, turns))


def main() -> int:
    """Fuzz, then say what was tried; 1 where a fault was found."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzzing", description=__doc__)
    known = formats()
    parser.add_argument(
        "formats", nargs="*", metavar="FORMAT", help=f"of {', '.join(known)}; all if left out"
    )
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--guided", action="store_true", help="let atheris choose the injuries")
    parser.add_argument(
        "--crafted", default="", metavar="SHARE", help="of the inputs; one costs as much as a hundred others"
    )
    parser.add_argument(
        "--wait", default="", metavar="SECONDS", help="by the clock, more than 10 where the machine is busy"
    )
    parser.add_argument("--folder", type=Path, default=Path("build/fuzzing"))
    options = parser.parse_args()
    unknown = set(options.formats) - set(known)
    if unknown:
        parser.error(f"no format is called {', '.join(sorted(unknown))}")
    options.folder.mkdir(parents=True, exist_ok=True)
    chosen = options.formats or known
    given = {"FUZZING_CRAFTED": options.crafted, "FUZZING_WAIT_S": options.wait}
    os.environ.update({name: value for name, value in given.items() if value})
    work(options.folder, chosen, options.minutes * 60, options.processes, options.guided)
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
