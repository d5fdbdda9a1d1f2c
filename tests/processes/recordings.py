"""Recordings of real size, made once for all processes of a run of the tests and removed with the last of them."""

from __future__ import annotations

import gzip
import shutil
from pathlib import Path

from tests.benchmarks import kineto_like
from tests.benchmarks.generate_nsys import write_export
from tests.rank_runs import Run
from tests.shared_folder import SharedFolder

SMALL = 20_000  # events: 4 MB
DAILY = 50_000  # events: 11 MB, which take as long to read as the program takes to start
TWO_PROCESSES = 400_000  # events: 88 MB, of which a second process reads a share
RANKS = 20  # more than are merged
OF_A_RANK = 12  # operators of a layer


class Recordings:
    """What the commands are tried on, by size and kind."""

    def __init__(self, folder: SharedFolder) -> None:
        self._folder = folder

    def json(self, events: int = TWO_PROCESSES) -> Path:
        """As PyTorch's profiler writes it."""
        name = f"{events}.pt.trace.json"
        return self._folder.once(name, lambda path: kineto_like.write(path, events))

    def packed(self, events: int = TWO_PROCESSES) -> Path:
        """The same, packed."""
        plain = self.json(events)

        def pack(path: Path) -> None:
            with plain.open("rb") as file, gzip.open(path, "wb", compresslevel=1) as target:
                shutil.copyfileobj(file, target, 1 << 20)

        return self._folder.once(f"{plain.name}.gz", pack)

    def archive(self, events: int = TWO_PROCESSES) -> Path:
        """The same in an archive, which is unpacked into a file."""
        plain = self.json(events)

        def pack(path: Path) -> None:
            made = shutil.make_archive(str(path), "zip", plain.parent, plain.name)
            Path(made).rename(path)

        return self._folder.once(f"{plain.name}.zip", pack)

    def database(self, rows: int = 300_000) -> Path:
        """As Nsight Systems exports it."""
        return self._folder.once(f"{rows}.sqlite", lambda path: write_export(path, rows))

    def ranks(self, ranks: int = RANKS, operators: int = OF_A_RANK) -> Path:
        """A folder with a file for each rank; their number must go into groups of eight."""
        run = Run(ranks=ranks, operators=operators, tensor=2, stages=2, straggler=3)
        return self._folder.once(f"ranks-{ranks}-{operators}", run.write)
