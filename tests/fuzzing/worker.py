"""``python -m tests.fuzzing.worker FORMAT FOLDER SECONDS SEED``: one process that tries damaged inputs of one format.

Where atheris is installed, it chooses among our injuries and its own by the code of the parsers that they reach, and
keeps in ``FOLDER/corpus/FORMAT`` what reached something new; else injuries are dealt out at random. What was tried is
added to ``FOLDER/tried.jsonl``, and an input that showed a fault is kept in ``FOLDER/faults`` with its traceback.
"""

from __future__ import annotations

import hashlib
import importlib.util
import json
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
LAST_S = 2.0  # before the end, when a guided process may end at any input
FAULT = "fault"
LONGEST_INPUT = 4 << 20


class Worker:
    """Tries inputs of one format, counts what became of them and keeps those that showed a fault."""

    def __init__(self, format: str, folder: Path, seconds: float, seed: int) -> None:
        from tests.fuzzing.trial import TooSlow, try_out

        self._try_out, self._too_slow = try_out, TooSlow
        self.format, self.folder = format, folder
        self.end = time.monotonic() + seconds
        self.chance = random.Random(seed)
        self._outcomes: Counter[str] = Counter()

    @property
    def is_over(self) -> bool:
        return time.monotonic() > self.end

    def take(self, data: bytes) -> None:
        """Try one input."""
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("error", RuntimeWarning)  # numpy met a number that nobody thought of
                outcome = self._try_out(data, self.format, self.chance)
        except (Exception, self._too_slow) as fault:
            outcome = FAULT
            self._keep(data, fault)
        self._outcomes[outcome] += 1
        if self._outcomes.total() >= WRITTEN_EVERY or self.end - time.monotonic() < LAST_S:
            self.write()

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


def at_random(worker: Worker, originals: list[bytes], injure: Callable[[bytes], bytes]) -> None:
    """Injuries at random until the time is up."""
    while not worker.is_over:
        worker.take(injure(worker.chance.choice(originals)))
    worker.write()


def guided(worker: Worker, corpus: Path, injure: Callable[[bytes], bytes], seed: int) -> None:
    """Injuries chosen by what they reach; ends the process."""
    import atheris

    def take(data: bytes) -> None:
        worker.take(data)

    def mutate(data: bytes, largest: int, _: int) -> bytes:
        if worker.chance.random() < 0.5:
            return bytes(injure(bytes(data))[:largest])
        return bytes(atheris.Mutate(data, largest))

    seconds = max(round(worker.end - time.monotonic()), 1)
    flags = [
        f"-max_total_time={seconds}",
        f"-seed={seed + 1}",
        f"-max_len={LONGEST_INPUT}",
        "-rss_limit_mb=0",
    ]
    quiet = [
        "-verbosity=0",
        "-timeout=300",
        "-artifact_prefix=" + str(worker.folder) + "/",
        "-detect_leaks=0",
        "-len_control=0",
    ]
    atheris.Setup([sys.argv[0], str(corpus), *flags, *quiet], take, custom_mutator=mutate)
    atheris.Fuzz()


def main(format: str, folder: Path, seconds: float, seed: int) -> None:
    """Try inputs of ``format`` for some seconds."""
    is_guided = importlib.util.find_spec("atheris") is not None
    if is_guided:
        import atheris

        with atheris.instrument_imports(include=["parsers"]):
            worker = Worker(format, folder, seconds, seed)
    else:
        worker = Worker(format, folder, seconds, seed)
    from tests.fuzzing.injuries import injured
    from tests.fuzzing.seeds import seeds

    originals = seeds()[format]

    def injure(data: bytes) -> bytes:
        with tempfile.TemporaryDirectory() as scratch:
            return injured(data, Path(scratch), worker.chance)

    if not is_guided:
        at_random(worker, originals, injure)
        return
    corpus = folder / "corpus" / format
    corpus.mkdir(parents=True, exist_ok=True)
    for data in originals:
        (corpus / hashlib.sha256(data).hexdigest()[:16]).write_bytes(data)
    guided(worker, corpus, injure, seed)


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), float(sys.argv[3]), int(sys.argv[4]))
