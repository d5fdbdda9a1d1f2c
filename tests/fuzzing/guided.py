"""``python -m tests.fuzzing.guided FOLDER SECONDS SEED FORMAT``: atheris chooses the injuries.

It chooses among ours and its own by the code of the parsers that they reach, and keeps in
``FOLDER/corpus/FORMAT`` what reached something new. What it tries again of an earlier run is not counted.
"""

from __future__ import annotations

import hashlib
import random
import signal
import sys
import tempfile
import warnings
from collections.abc import Hashable
from pathlib import Path

import atheris

with atheris.instrument_imports(include=["parsers"]):
    from tests.fuzzing.injuries import injured
    from tests.fuzzing.seeds import seeds
    from tests.fuzzing.trial import MAX_SECONDS, OPENED, REFUSED, use_file
    from tests.fuzzing.worker import IN_MEMORY, Worker

MAX_INPUT_LENGTH = 4 << 20
OURS = 0.5


class InThisProcess:
    """Inputs of one format, tried where their way through the code is watched; they may take so much processor time."""

    def __init__(self, format: str, folder: Path, chance: random.Random) -> None:
        self.format = format
        self.forms: set[Hashable] = set()
        self._file, self._chance = folder / "input", chance
        signal.signal(signal.SIGPROF, _too_slow)

    def of(self, data: bytes) -> str:
        """``OPENED`` or ``REFUSED``. Anything else is raised: a fault of the program."""
        self._file.unlink(missing_ok=True)  # a trace that still lives reads the bytes that it was made of
        self._file.write_bytes(data)
        signal.setitimer(signal.ITIMER_PROF, MAX_SECONDS)
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("error", RuntimeWarning)
                place = use_file(self.format, self._file, self._chance, self._is_new)
        except TooSlow as fault:
            raise TimeoutError(f"more than {MAX_SECONDS:g} s for {len(data):,} bytes") from fault
        finally:
            signal.setitimer(signal.ITIMER_PROF, 0)
        self.forms.add(place)
        return OPENED if place is None else REFUSED

    def _is_new(self, form: Hashable) -> bool:
        known = form in self.forms
        self.forms.add(form)
        return not known


class TooSlow(BaseException):
    """An input took too long; no ``except`` of the program may take it for damage of the file."""


def _too_slow(_: int, __: object) -> None:
    raise TooSlow


def main(folder: Path, seconds: float, seed: int, format: str) -> None:
    """Ends the process."""
    corpus = folder / "corpus" / format
    corpus.mkdir(parents=True, exist_ok=True)
    for data in seeds(format):
        (corpus / hashlib.sha256(data).hexdigest()[:16]).write_bytes(data)
    scratch = tempfile.TemporaryDirectory(dir=IN_MEMORY if IN_MEMORY.is_dir() else None)
    worker = Worker(format, folder, seed, InThisProcess(format, Path(scratch.name), random.Random(seed)))
    is_new = False

    def take(data: bytes) -> None:
        if is_new:
            worker.take(data)

    def mutate(data: bytes, largest: int, _: int) -> bytes:
        nonlocal is_new
        is_new = True
        if worker.chance.random() < OURS:
            return injured(bytes(data), worker.chance)[:largest]
        return bytes(atheris.Mutate(data, largest))

    flags = [f"-max_total_time={max(round(seconds), 1)}", f"-seed={seed + 1}", f"-max_len={MAX_INPUT_LENGTH}"]
    quiet = [
        "-rss_limit_mb=0",
        "-verbosity=0",
        "-timeout=300",
        f"-artifact_prefix={folder}/",
        "-detect_leaks=0",
    ]
    atheris.Setup([sys.argv[0], str(corpus), *flags, *quiet, "-len_control=0"], take, custom_mutator=mutate)
    atheris.Fuzz()


if __name__ == "__main__":
    main(Path(sys.argv[1]), float(sys.argv[2]), int(sys.argv[3]), sys.argv[4])
