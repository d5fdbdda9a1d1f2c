"""A folder that the processes of one run of the tests share, for what takes long to make."""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path


class SharedFolder:
    """A folder that several processes fill together, each thing once; the last one to leave removes it."""

    def __init__(self, name: str) -> None:
        self.path = Path(tempfile.gettempdir()) / name
        self.path.mkdir(mode=0o755, exist_ok=True)
        self._users = os.open(self.path / ".users", os.O_CREAT | os.O_RDWR)
        fcntl.flock(self._users, fcntl.LOCK_SH)

    def once(self, name: str, make: Callable[[Path], object]) -> Path:
        """The file or folder of that name, made by whoever needs it first."""
        path, stamp = self.path / name, self.path / f".{name}.made"
        with (self.path / f".{name}.lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not stamp.exists():
                make(path)
                stamp.touch()
        return path

    def leave(self) -> None:
        """Remove it unless somebody else uses it."""
        try:
            fcntl.flock(self._users, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return
        finally:
            os.close(self._users)
        shutil.rmtree(self.path, ignore_errors=True)
