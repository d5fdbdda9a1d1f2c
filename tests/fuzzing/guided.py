"""``python -m tests.fuzzing.guided FOLDER SECONDS SEED FORMAT``: atheris chooses the injuries.

It chooses among ours and its own by the code of the parsers that they reach, and keeps in
``FOLDER/corpus/FORMAT`` what reached something new. What it tries again of an earlier run is not counted.
"""

from __future__ import annotations

import hashlib
import sys
import tempfile
from pathlib import Path

import atheris

with atheris.instrument_imports(include=["parsers"]):
    from tests.fuzzing.injuries import injured
    from tests.fuzzing.seeds import seeds
    from tests.fuzzing.worker import IN_MEMORY, Worker

LONGEST_INPUT = 4 << 20
OURS = 0.5


def main(folder: Path, seconds: float, seed: int, format: str) -> None:
    """Ends the process."""
    corpus = folder / "corpus" / format
    corpus.mkdir(parents=True, exist_ok=True)
    for data in seeds(format):
        (corpus / hashlib.sha256(data).hexdigest()[:16]).write_bytes(data)
    scratch = tempfile.TemporaryDirectory(dir=IN_MEMORY if IN_MEMORY.is_dir() else None)
    worker = Worker(format, folder, Path(scratch.name), seed)
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

    flags = [f"-max_total_time={max(round(seconds), 1)}", f"-seed={seed + 1}", f"-max_len={LONGEST_INPUT}"]
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
