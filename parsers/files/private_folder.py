"""Folders for what is unpacked or handed over: for this user's eyes only, and gone with the process that made them.

A process that is killed removes nothing. So that the next one can, files and folders carry a lock, which the system
lets go when their owner ends, however it ends.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import sys
import tempfile
import weakref
from collections.abc import Iterator
from pathlib import Path
from typing import ClassVar

if sys.platform != "win32":
    import fcntl

PREFIX = "stallscope-private-"
_OWNER = "owner"


class PrivateFolder:
    """A new folder that only this user may look into, removed with this object, which is at the end at the latest."""

    _all: ClassVar[weakref.WeakSet[PrivateFolder]] = weakref.WeakSet()

    def __init__(self) -> None:
        self.path = Path(tempfile.mkdtemp(prefix=PREFIX))
        lock = None
        with contextlib.suppress(OSError):  # a folder that nobody can clear away is better than none
            being_made = self.path / f".{_OWNER}"
            lock = hold(being_made)
            being_made.rename(self.path / _OWNER)
        self.remove = weakref.finalize(self, _remove, self.path, lock)
        self._all.add(self)

    @classmethod
    def remove_all(cls) -> None:
        """Before a process ends without Python: whoever still holds one of them will not use it again."""
        for each in cls._all.copy():
            each.remove()

    @classmethod
    def around(cls, file: Path) -> PrivateFolder | None:
        """The private folder that a file lies in; None for the user's own files."""
        return next((each for each in cls._all if each.path in file.parents), None)


def _remove(folder: Path, lock: int | None) -> None:
    if lock is not None:
        os.close(lock)  # first: what removes the folder may find no other handle free
    shutil.rmtree(folder, ignore_errors=True)


def clear_abandoned() -> None:
    """Remove the private folders of processes that were killed."""
    for folder in _private_folders():
        with _of_nobody(folder / _OWNER) as abandoned:
            if abandoned:
                shutil.rmtree(folder, ignore_errors=True)


def hold(file: Path) -> int:
    """Make a file that is this process's own until it closes the descriptor or ends; raises ``OSError``."""
    descriptor = os.open(file, os.O_RDWR | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0), 0o600)
    if sys.platform != "win32":
        with contextlib.suppress(OSError):  # where files cannot be locked, no file counts as abandoned
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    return descriptor


def remove_if_abandoned(file: Path) -> None:
    """Remove a file that a process held which is gone."""
    with _of_nobody(file) as abandoned, contextlib.suppress(OSError):
        if abandoned:
            file.unlink(missing_ok=True)


@contextlib.contextmanager
def _of_nobody(file: Path) -> Iterator[bool]:
    """Whether whoever held the file is gone; while this lasts nobody else finds so."""
    if sys.platform == "win32":  # where an open file cannot be removed, and so needs no lock
        there = file.exists()
        with contextlib.suppress(OSError):
            file.unlink(missing_ok=True)
        yield there and not file.exists()
        return
    try:
        descriptor = os.open(file, os.O_RDWR)
    except OSError:
        yield False
        return
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        yield False
    else:
        yield True
    finally:
        os.close(descriptor)


def _private_folders() -> Iterator[Path]:
    try:
        with os.scandir(tempfile.gettempdir()) as entries:
            for entry in entries:
                if entry.name.startswith(PREFIX) and entry.is_dir(follow_symlinks=False):
                    yield Path(entry.path)
    except OSError:
        return
