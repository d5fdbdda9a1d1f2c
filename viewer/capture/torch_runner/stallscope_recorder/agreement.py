"""Lets the ranks of one machine end their recording at the same step: none waits for a collective of another."""

from __future__ import annotations

import contextlib
import mmap
import os
import struct

SLOTS = 4096
MARGIN = 3
"""Steps between the farthest rank and the agreed last one: nobody has passed it when it becomes known."""
_SLOT = struct.Struct("<q")
_GONE = -1


class Agreement:
    """A shared table of how many steps each rank has ended, and one file that names the last step of all."""

    def __init__(self, folder: str, name: str, rank: int) -> None:
        os.makedirs(folder, exist_ok=True)
        stem = os.path.join(folder, ".{}.{}".format(name, os.getppid()))
        self._table_path = stem + ".ranks"
        self._stop_path = stem + ".last-step"
        self._offset = rank * _SLOT.size
        self._last: int | None = None
        with open(self._table_path, "a+b") as file:
            file.truncate(SLOTS * _SLOT.size)
            self._table = mmap.mmap(file.fileno(), SLOTS * _SLOT.size)

    def note(self, ended: int) -> None:
        """This rank has ended so many steps."""
        _SLOT.pack_into(self._table, self._offset, ended)

    def propose(self) -> None:
        """Ask all ranks to end a few steps after the farthest of them, unless a last step is agreed already."""
        if self.last_step() is not None:
            return
        farthest = max(value for (value,) in _SLOT.iter_unpack(self._table[:]))
        draft = "{}.{}".format(self._stop_path, os.getpid())
        with open(draft, "w", encoding="ascii") as file:
            file.write(str(farthest + MARGIN))
        with contextlib.suppress(OSError):
            os.link(draft, self._stop_path)
        os.remove(draft)

    def last_step(self) -> int | None:
        """Steps after which every rank ends its recording; ``None`` while nobody has asked."""
        if self._last is None and os.path.exists(self._stop_path):
            with open(self._stop_path, encoding="ascii") as file:
                self._last = int(file.read())
        return self._last

    def leave(self) -> None:
        """This rank is done; the last one to leave removes the files."""
        self.note(_GONE)
        if all(value in (0, _GONE) for (value,) in _SLOT.iter_unpack(self._table[:])):
            for path in (self._table_path, self._stop_path):
                with contextlib.suppress(OSError):
                    os.remove(path)


def agreement_for(folder: str, name: str, rank: int) -> Agreement | None:
    """The table for a rank of a distributed run; ``None`` for a single process or where it cannot be made."""
    if not 0 <= rank < SLOTS:
        return None
    try:
        return Agreement(folder, name, rank)
    except (OSError, ValueError):
        return None
