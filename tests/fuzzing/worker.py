"""``python -m tests.fuzzing.worker FOLDER SECONDS SEED FORMAT ...``: one process that tries damaged inputs.

The formats take turns. Injuries are dealt out at random, most of them to small recordings; an input that is read in a
new way is injured further. What was tried is added to ``FOLDER/tried.jsonl``, and an input that showed a fault is kept
in ``FOLDER/faults`` with its traceback.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import os
import random
import sys
import tempfile
import time
import traceback
import warnings
from collections import Counter
from collections.abc import Callable
from pathlib import Path

WRITTEN_EVERY = 100  # inputs
FAULT = "fault"
TURN_INPUTS, TURN_S = 500, 4.0  # of processor time: a turn of a format ends with the first of both
LONGEST_KEPT = 16_000
CANDIDATES = 3  # of which the shortest is injured
IN_MEMORY = Path("/dev/shm")


class Worker:
    """Tries inputs of one format, counts what became of them and keeps those that showed a fault."""

    def __init__(self, format: str, folder: Path, scratch: Path, seed: int) -> None:
        from tests.fuzzing.trial import OPENED, TooSlow, Trials

        self.format, self.folder = format, folder
        self.chance = random.Random(seed)
        self._opened, self._too_slow = OPENED, TooSlow
        self._trials = Trials(format, scratch, self.chance)
        self._outcomes: Counter[str] = Counter()

    def take(self, data: bytes) -> bool:
        """Try one input; whether it opened in a new way."""
        forms = len(self._trials.forms)
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("error", RuntimeWarning)  # numpy met a number that nobody thought of
                outcome = self._trials.of(data)
        except (Exception, self._too_slow) as fault:
            outcome = FAULT
            self._keep(data, fault)
        self._outcomes[outcome] += 1
        if self._outcomes.total() >= WRITTEN_EVERY:
            self.write()
        return outcome == self._opened and len(self._trials.forms) > forms

    def write(self) -> None:
        """Add the count so far to the file of what was tried."""
        with (self.folder / "tried.jsonl").open("a") as file:
            file.write(json.dumps({"format": self.format, **self._outcomes}) + "\n")
        self._outcomes.clear()

    def _keep(self, data: bytes, fault: BaseException) -> None:
        """Keep the first input of each sort of fault: of an exception at a place."""
        faults = self.folder / "faults"
        faults.mkdir(exist_ok=True)
        places = [f"{each.filename}:{each.lineno}" for each in traceback.extract_tb(fault.__traceback__)]
        sort = hashlib.sha256(" ".join([type(fault).__name__, *places]).encode()).hexdigest()
        name = f"{self.format}-{sort[:12]}"
        if not (faults / name).exists():
            trouble = "".join(traceback.format_exception(fault))
            (faults / name).write_bytes(data)
            (faults / f"{name}.txt").write_text(trouble)
            print(f"{name}\n{trouble}", file=sys.stderr)


def at_random(
    worker: Worker, inputs: list[bytes], injure: Callable[[bytes, random.Random], bytes], seconds: float
) -> None:
    """A turn of at most ``seconds``; inputs that opened in a new way are added to ``inputs``."""
    end, most_s = time.monotonic() + seconds, time.process_time() + TURN_S
    for _ in range(TURN_INPUTS):
        if time.monotonic() > end or time.process_time() > most_s:
            break
        data = injure(min(worker.chance.choices(inputs, k=CANDIDATES), key=len), worker.chance)
        if worker.take(data) and len(data) <= LONGEST_KEPT:
            inputs.append(data)
    worker.write()


def main(folder: Path, seconds: float, seed: int, formats: list[str]) -> None:
    """Try inputs of ``formats`` for some seconds, of which each has a share."""
    from tests.fuzzing.injuries import injured
    from tests.fuzzing.seeds import seeds

    end = time.monotonic() + seconds
    with tempfile.TemporaryDirectory(dir=IN_MEMORY if IN_MEMORY.is_dir() else None) as scratch:
        os.environ["XDG_CACHE_HOME"] = os.environ["LOCALAPPDATA"] = f"{scratch}/cache"
        begun: dict[str, tuple[Worker, list[bytes]]] = {}
        turns = itertools.cycle(formats)
        while (left := end - time.monotonic()) > 0:
            if (format := next(turns)) not in begun:
                (own := Path(scratch) / format).mkdir()
                begun[format] = Worker(format, folder, own, seed), seeds(format)
            at_random(*begun[format], injured, left)


if __name__ == "__main__":
    main(Path(sys.argv[1]), float(sys.argv[2]), int(sys.argv[3]), sys.argv[4:])
