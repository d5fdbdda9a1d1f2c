"""``python -m tests.fuzzing.worker FOLDER SECONDS SEED FORMAT ...``: one process that tries damaged inputs.

The formats take turns, and each input has a process of its own. Injuries are dealt out at random, most of them to small
recordings; an input that is read in a new way is injured further, and some are crafted: one thing in them comes
thousands of times. What was tried is added to ``FOLDER/tried.jsonl``, and an input that showed a fault is kept in
``FOLDER/faults`` with its traceback.
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
from collections import Counter
from collections.abc import Callable, Hashable
from pathlib import Path
from typing import Protocol

WRITTEN_EVERY = 100  # inputs
FAULT = "fault"
TURN_INPUTS, TURN_S = 500, 4.0  # a turn of a format ends with the first of both
MAX_KEPT_LENGTH = 16_000
CANDIDATES = 3  # of which the shortest is injured
IN_MEMORY = Path("/dev/shm")
CRAFTED = float(os.environ.get("FUZZING_CRAFTED", "0.04"))  # of the inputs


class Trials(Protocol):
    """Tries inputs of one format."""

    forms: set[Hashable]

    def of(self, data: bytes) -> str:
        """What became of an input; raises what is a fault."""


class Worker:
    """Tries inputs of one format, counts what became of them and keeps those that showed a fault."""

    def __init__(self, format: str, folder: Path, seed: int, trials: Trials) -> None:
        self.format, self.folder = format, folder
        self.chance = random.Random(seed)
        self._trials = trials
        self._outcomes: Counter[str] = Counter()

    def take(self, data: bytes) -> bool:
        """Try one input; whether it opened in a new way."""
        forms = len(self._trials.forms)
        try:
            outcome = self._trials.of(data)
        except Exception as fault:
            outcome = FAULT
            self._keep(data, fault)
        self._outcomes[outcome] += 1
        if self._outcomes.total() >= WRITTEN_EVERY:
            self.write()
        return outcome == "opened" and len(self._trials.forms) > forms

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
        stated = getattr(fault, "sort", " ".join([type(fault).__name__, *places]))
        sort = hashlib.sha256(stated.encode()).hexdigest()
        name = f"{self.format}-{sort[:12]}"
        if not (faults / name).exists():
            trouble = str(fault) if hasattr(fault, "sort") else "".join(traceback.format_exception(fault))
            (faults / name).write_bytes(data)
            (faults / f"{name}.txt").write_text(trouble)
            print(f"{name}\n{trouble}", file=sys.stderr)


def at_random(
    worker: Worker, inputs: list[bytes], injure: Callable[[bytes, random.Random], bytes], seconds: float
) -> None:
    """A turn of at most ``seconds``; inputs that opened in a new way are added to ``inputs``."""
    end = time.monotonic() + min(seconds, TURN_S)
    for _ in range(TURN_INPUTS):
        if time.monotonic() > end:
            break
        data = injure(min(worker.chance.choices(inputs, k=CANDIDATES), key=len), worker.chance)
        if worker.take(data) and len(data) <= MAX_KEPT_LENGTH:
            inputs.append(data)
    worker.write()


def changed(data: bytes, chance: random.Random) -> bytes:
    """A recording that is damaged, or crafted, or both."""
    from tests.fuzzing.crafting import crafted
    from tests.fuzzing.injuries import injured

    if chance.random() >= CRAFTED:
        return injured(data, chance)
    data = crafted(data, chance)
    return data if chance.random() < 0.9 else injured(data, chance)


def main(folder: Path, seconds: float, seed: int, formats: list[str]) -> None:
    """Try inputs of ``formats`` for some seconds, of which each has a share."""
    from tests.fuzzing.apart import Apart
    from tests.fuzzing.crafting import made
    from tests.fuzzing.seeds import MADE, seeds

    end = time.monotonic() + seconds
    with tempfile.TemporaryDirectory(dir=IN_MEMORY if IN_MEMORY.is_dir() else None) as scratch:
        os.environ["XDG_CACHE_HOME"] = os.environ["LOCALAPPDATA"] = f"{scratch}/cache"
        begun: dict[str, tuple[Worker, list[bytes]]] = {}
        turns = itertools.cycle(formats)
        while (left := end - time.monotonic()) > 0:
            if (format := next(turns)) not in begun:
                (own := Path(scratch) / format).mkdir()
                trials = Apart(format, own, random.Random(seed))
                begun[format] = Worker(format, folder, seed, trials), seeds(format)
            at_random(*begun[format], made if format == MADE else changed, left)


if __name__ == "__main__":
    main(Path(sys.argv[1]), float(sys.argv[2]), int(sys.argv[3]), sys.argv[4:])
