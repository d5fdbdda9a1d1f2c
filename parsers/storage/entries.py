"""What is kept in the cache folder, sort by sort: one file each, whole or not there at all. Knows no numpy."""

from __future__ import annotations

import contextlib
import os
import shutil
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

import platformdirs

from parsers.files.private_folder import hold, remove_if_abandoned
from parsers.files.user_folders import user_folder
from parsers.model.late import dataclass

WRONG_CLOCK_S = 24 * 3600


def log_failure(module: str, what: str, *, warn: bool = False) -> None:
    """Log the error that is being handled, which without ``warn`` is no news for a terminal."""
    import logging  # late: it is seldom needed

    logging.getLogger(module).log(logging.WARNING if warn else logging.INFO, what, exc_info=True)


@dataclass(frozen=True, slots=True)
class Entries:
    """Those of one sort, which take ``most_bytes`` together; what is read back is for its reader to check."""

    name: str
    most_bytes: int

    @property
    def folder(self) -> Path:
        return user_folder(platformdirs.user_cache_path) / self.name

    def read(self, key: str) -> bytes | None:
        """What is kept under that name; None where there is nothing."""
        entry = self.folder / key
        try:
            content = entry.read_bytes()
            os.utime(entry)
        except FileNotFoundError:
            return None
        except OSError:
            log_failure(__name__, "what was kept could not be read")
            return None
        return content

    def write(self, key: str, content: bytes) -> None:
        """Keep something under that name, for its owner alone; where there is no room it is not kept."""
        try:
            with written_whole(self.folder / key) as file:
                file.write(content)
        except OSError:
            log_failure(__name__, "a result could not be kept")

    def trim(self) -> None:
        """Remove those used longest ago until the rest fits, and what killed writers and older versions left."""
        trim(self.folder, self.most_bytes)


@contextlib.contextmanager
def written_whole(entry: Path) -> Iterator[BinaryIO]:
    """A file to write an entry to: it becomes the entry when it is complete, else it goes; raises ``OSError``.

    The folder is made, for its owner alone. Until it is complete the file has no name where the system can do that, so
    that a killed writer leaves nothing.
    """
    part = entry.with_name(f".{entry.name}.{os.getpid()}.{threading.get_ident()}.part")
    entry.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    entry.parent.chmod(0o700)
    unnamed = _without_a_name(entry.parent)
    try:
        with os.fdopen(hold(part) if unnamed is None else unnamed, "wb") as file:
            yield file
            file.flush()
            if unnamed is not None and _named(unnamed, entry):
                return
            if unnamed is not None and not _named(unnamed, part):
                raise FileExistsError(part)
        part.replace(entry)
    finally:
        _remove(part)


def _without_a_name(folder: Path) -> int | None:
    """A descriptor of a new file in no folder; None where neither the system nor its disk has any."""
    if not hasattr(os, "O_TMPFILE") or not Path("/proc/self/fd").is_dir():
        return None
    with contextlib.suppress(OSError):
        return os.open(folder, os.O_TMPFILE | os.O_RDWR, 0o600)
    return None


def _named(descriptor: int, path: Path) -> bool:
    """Give a file without a name this one, unless it is taken; raises ``OSError``."""
    folder = os.open(path.parent, os.O_RDONLY)
    try:  # a folder must be given: only then is the link in /proc followed
        os.link(
            f"/proc/self/fd/{descriptor}",
            path.name,
            src_dir_fd=folder,
            dst_dir_fd=folder,
            follow_symlinks=True,
        )
    except FileExistsError:
        return False
    finally:
        os.close(folder)
    return True


def trim(entries: Path, most_bytes: int) -> None:
    """Remove from a folder what ``Entries.trim`` removes."""
    try:
        found = [(each.stat(), each) for each in entries.iterdir()]
    except OSError:
        return
    total, now = 0, time.time()
    soon = now + WRONG_CLOCK_S  # what was used later than that was used while the clock was wrong
    found.sort(key=lambda each: (each[0].st_mtime < soon, each[0].st_mtime), reverse=True)
    for state, entry in found:
        unfinished = entry.name.startswith(".")
        total += 0 if unfinished else state.st_size
        if unfinished and not entry.is_dir():
            remove_if_abandoned(entry)
        elif total > most_bytes or entry.is_dir():
            _remove(entry)


def _remove(entry: Path) -> None:
    if entry.is_dir() and not entry.is_symlink():
        shutil.rmtree(entry, ignore_errors=True)
        return
    with contextlib.suppress(OSError):
        entry.unlink(missing_ok=True)
