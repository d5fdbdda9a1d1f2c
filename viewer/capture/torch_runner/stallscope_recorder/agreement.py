"""Lets all ranks of a run end their recording at the same step, on one machine or several: none waits for another.

Every rank owns a small file in the folder that all of them see. Once one asks for the end, a thread of each rank writes
down the step that its rank will not pass before it knows what the others wrote; the farthest of these is the last step.
"""

from __future__ import annotations

import contextlib
import os
import time
from typing import List, Mapping, Optional

AHEAD = 3.0
"""Polls that go by before the announced step is there: all ranks have announced theirs then, and none has to wait."""
POLL = 0.2
POLL_BETWEEN_MACHINES = 1.0
"""Seconds between two looks at the file that asks; more where it lies on another machine."""
PATIENCE = 30.0
"""Seconds to wait at an announced step for the ranks that have announced none."""
_GONE = -1


class Agreement:
    """What this rank and the others have written; ``ranks`` is 0 where nobody knows how many there are."""

    def __init__(self, folder: str, stem: str, rank: int, ranks: int = 0, poll: float = POLL) -> None:
        os.makedirs(folder, exist_ok=True)
        self._folder = folder
        self._start = "." + stem
        self._own = os.path.join(folder, "{}.rank{}".format(self._start, rank))
        self._asked_path = os.path.join(folder, self._start + ".asked")
        self._ranks = ranks
        self._poll = poll
        self._ended = 0
        self._looked_at = time.monotonic()
        self._rate = 0.0
        self._ended_then = 0
        self._mine: Optional[int] = None
        self._last: Optional[int] = None
        self._write("")
        with open(self._asked_path, "a", encoding="ascii"):
            pass

    def note(self, ended: int) -> None:
        self._ended = ended

    def propose(self) -> None:
        """Ask all ranks to end soon."""
        with contextlib.suppress(OSError), open(self._asked_path, "a", encoding="ascii") as file:
            file.write("asked\n")
        self._announce()

    def look(self) -> bool:
        """Whether anybody has asked; called again and again by a thread that does not make the steps."""
        now = time.monotonic()
        if self._mine is None and now - self._looked_at >= self._poll:
            self._rate = (self._ended - self._ended_then) / (now - self._looked_at)
            self._looked_at, self._ended_then = now, self._ended
            if _read(self._asked_path):
                self._announce()
        return self._mine is not None

    def last_step(self) -> Optional[int]:
        """Steps after which every rank ends its recording; ``None`` while that is open.

        Waits where this rank has come to the step that it announced, and others have announced none.
        """
        if self._last is not None or self._mine is None:
            return self._last
        until = time.monotonic() + PATIENCE
        while True:
            announced = self._announced()
            if all(value is not None for value in announced) or time.monotonic() > until:
                self._last = max([value for value in announced if value is not None] + [self._mine])
                return self._last
            if self._ended < self._mine:
                return None
            time.sleep(min(self._poll, 0.05))

    def leave(self) -> None:
        """This rank is done; the last one to leave removes the files."""
        with contextlib.suppress(OSError):
            self._write(str(_GONE))
            if all(value == _GONE for value in self._announced()):
                for path in [*self._files(), self._asked_path]:
                    with contextlib.suppress(OSError):
                        os.remove(path)

    def _announce(self) -> None:
        if self._mine is None:
            mine = self._ended + 2 + int(self._rate * AHEAD * self._poll)
            with contextlib.suppress(OSError):
                self._write(str(mine))
            self._mine = mine

    def _write(self, text: str) -> None:
        with open(self._own, "w", encoding="ascii") as file:
            file.write(text + "\n" if text else "")

    def _files(self) -> List[str]:
        if self._ranks:
            start = os.path.join(self._folder, self._start)
            return ["{}.rank{}".format(start, rank) for rank in range(self._ranks)]
        names = [name for name in os.listdir(self._folder) if name.startswith(self._start + ".rank")]
        return [os.path.join(self._folder, name) for name in names]

    def _announced(self) -> List[Optional[int]]:
        """What each rank wrote; ``None`` of one that has written nothing yet."""
        said = [_read(path) for path in self._files()]
        return [int(text) if text.endswith("\n") else None for text in said]


def _read(path: str) -> str:
    """A file's content as of now: opening it asks a network file system again."""
    try:
        with open(path, encoding="ascii") as file:
            return file.read()
    except OSError:
        return ""


def agreement_for(
    folder: str, name: str, rank: int, environment: Mapping[str, str] = os.environ
) -> Optional[Agreement]:
    """That of a rank of a distributed run; ``None`` for a single process or where it cannot be made."""
    if rank < 0:
        return None
    machines = environment.get("SLURM_NNODES", "1")
    of_several = machines.isdigit() and int(machines) > 1
    run = str(os.getppid())
    if of_several:
        run = "-".join(environment.get(name, "") for name in ("SLURM_JOB_ID", "SLURM_STEP_ID"))
    try:
        poll = POLL_BETWEEN_MACHINES if of_several else POLL
        return Agreement(folder, "{}.{}".format(name, run), rank, ranks_in(environment), poll)
    except (OSError, ValueError):
        return None


def ranks_in(environment: Mapping[str, str]) -> int:
    """How many ranks a run has, by what launchers set; 0 where they do not say."""
    for name in ("WORLD_SIZE", "OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "SLURM_NTASKS"):
        value = environment.get(name, "")
        if value.isdigit() and int(value) > 1:
            return int(value)
    return 0
