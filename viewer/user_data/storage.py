"""Where the program keeps things, and how a file is written in one piece or not at all; no Qt.

A full disk never costs the file that was there before, and no result takes the place of a recording.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

RUNS_FILE = "runs.sqlite"  # runs and trials, as figures
_BEGINNINGS_OF_REPORTS = (b"<!doctype html", b"%pdf-", b"<?xml", b"par1", b"\x89png")  # of no recording


class SessionError(Exception):
    """A session that cannot be read or written; the message is one plain sentence."""


class RecordingThere(FileExistsError):
    """A result was to replace ``what``."""

    def __init__(self, path: Path, what: str) -> None:
        super().__init__(errno.EEXIST, f"it looks like {what}, which results never replace", str(path))


def anything(_: Path) -> bool:
    """Of what may be replaced: whatever is there, since the place is the program's own."""
    return True


def no_recording(_: Path) -> bool:
    """Of what may not be replaced: any recording."""
    return False


def refuse_recordings(target: Path, may_replace: Callable[[Path], bool] = no_recording) -> None:
    """Raise ``RecordingThere`` for a recording, by its first bytes, unless ``may_replace`` says that it is our own."""
    if not is_filled(target) or not target.is_file() or may_replace(target):
        return
    with target.open("rb") as file:
        if file.read(16).lower().startswith(_BEGINNINGS_OF_REPORTS):
            return
    from parsers.known_formats import looks_like  # loads every parser

    if what := looks_like(target):
        raise RecordingThere(target, what)


@contextmanager
def in_one_piece(target: Path, may_replace: Callable[[Path], bool] = no_recording) -> Iterator[Path]:
    """A path to write a result to; it becomes ``target`` when the block ends, and is removed when the block fails.

    What is no regular file, such as ``/dev/stdout``, is written directly. Raises ``OSError``, and for a target that is
    a recording ``RecordingThere``.
    """
    if target.exists() and not target.is_file():
        yield target
        return
    refuse_recordings(target, may_replace)
    whole = Path(os.path.realpath(target))
    part = whole.with_name(f".stallscope-{os.getpid()}-{os.urandom(4).hex()}.part")
    try:
        yield part
        part.replace(whole)
    finally:
        part.unlink(missing_ok=True)


def is_filled(path: Path) -> bool:
    """Whether there is a file with something in it: a disk that was full leaves empty ones."""
    return path.exists() and path.stat().st_size > 0


def write_text(target: Path, text: str) -> None:
    """Write what the program keeps for itself as UTF-8, without bytes that are no text; raises ``OSError``."""
    with in_one_piece(target, anything) as part:
        part.write_text(text, "utf-8", "replace")


def write_pieces(target: Path, pieces: Iterator[bytes]) -> None:
    """Write bytes as they come; nothing is touched where the first does not come. Raises ``OSError``."""
    first = next(pieces, b"")
    with in_one_piece(target) as part, part.open("wb") as file:
        file.write(first)
        file.writelines(pieces)


def write_bytes(target: Path, data: bytes) -> None:
    """Write a result; raises ``OSError``."""
    with in_one_piece(target) as part:
        part.write_bytes(data)


def is_written(target: Path, data: bytes, say: Callable[[str], object]) -> bool:
    """Write a result; where that fails ``say`` is told why, in one sentence."""
    try:
        write_bytes(target, data)
    except OSError as error:
        say(f"{target.name} could not be written: {error.strerror or error}.")
        return False
    return True


def data_folder() -> Path:
    """Where the program keeps what it remembers; made when missing."""
    import platformdirs

    from parsers.files.user_folders import user_folder

    folder = user_folder(platformdirs.user_data_path)
    folder.mkdir(parents=True, exist_ok=True)
    return folder
