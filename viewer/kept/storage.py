"""Where the program keeps things, and how a file is written in one piece or not at all; no Qt.

A full disk never costs the file that was there before.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


class SessionError(Exception):
    """A session that cannot be read or written; the message is one plain sentence."""


@contextmanager
def in_one_piece(target: Path) -> Iterator[Path]:
    """A path to write to; it becomes ``target`` when the block ends, and is removed when the block fails.

    What is no regular file, such as ``/dev/stdout``, is written directly. Raises ``OSError``.
    """
    if target.exists() and not target.is_file():
        yield target
        return
    whole = Path(os.path.realpath(target))
    part = whole.with_name(f".{whole.name[:200]}.{os.getpid()}.part")
    try:
        yield part
        part.replace(whole)
    finally:
        part.unlink(missing_ok=True)


def is_filled(path: Path) -> bool:
    """Whether there is a file with something in it: a disk that was full leaves empty ones."""
    return path.exists() and path.stat().st_size > 0


def write_text(target: Path, text: str) -> None:
    """Write text as UTF-8, without what is no text, such as bytes of a file's name; raises ``OSError``."""
    with in_one_piece(target) as part:
        part.write_text(text, "utf-8", "replace")


def write_bytes(target: Path, data: bytes) -> None:
    """Write bytes; raises ``OSError``."""
    with in_one_piece(target) as part:
        part.write_bytes(data)


def data_folder() -> Path:
    """Where the program keeps what it remembers; made when missing."""
    import platformdirs

    return platformdirs.user_data_path("stallscope", appauthor=False, ensure_exists=True)
