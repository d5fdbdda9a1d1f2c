"""How to open a SQLite file without touching it or its folder, whatever state its owner left it in."""

from __future__ import annotations

import os
import shutil
import sqlite3
from pathlib import Path

from parsers.model import Malformed, QualityRecorder, TraceError
from parsers.model.quality import Effect
from parsers.sqlite.private_copy import private_copy

SQLITE_MAGIC = b"SQLite format 3\0"
_WAL_VERSION = 2
_SIDECARS = ("-wal", "-journal")


def read_only_uri(path: Path, quality: QualityRecorder | None = None) -> str:
    """The URI to open; raises ``TraceError`` when the file is cut too short to be a database.

    Changes that another program left in a ``-wal`` or ``-journal`` are read from a private copy. A file in
    write-ahead mode without one is opened as unchangeable, because SQLite would create files beside it.
    """
    with path.open("rb") as file:
        header = file.read(100)
    if len(header) < 100 or not header.startswith(SQLITE_MAGIC):
        raise Malformed(path, "The file is cut off or is not a SQLite database.", "Export or copy it again.")
    if any(_size(Path(f"{path}{suffix}")) for suffix in _SIDECARS):
        return _plain(_with_pending_changes(path))
    if header[18] == _WAL_VERSION or header[19] == _WAL_VERSION:
        return _plain(path) + "?mode=ro&immutable=1"
    uri = _plain(path) + "?mode=ro"
    if _is_locked(uri):
        if quality is not None:
            quality.note(
                "database in use",
                Effect.NOTED,
                "Another program has the database locked: read as it is on disk.",
            )
        return uri + "&immutable=1"
    return uri


def _plain(path: Path) -> str:
    return path.resolve().as_uri()


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0


def _is_locked(uri: str) -> bool:
    try:
        connection = sqlite3.connect(uri, uri=True, timeout=0.5)
        try:
            connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
        finally:
            connection.close()
    except sqlite3.OperationalError as error:
        return "locked" in str(error) or "unable to open" in str(error) or "readonly" in str(error)
    except (sqlite3.Error, UnicodeDecodeError):
        return False
    return False


def _with_pending_changes(path: Path) -> Path:
    """A private copy of the database with the changes applied that lie beside it."""

    def fill(target: Path) -> None:
        shutil.copyfile(path, target)
        for suffix in _SIDECARS:
            beside = Path(f"{path}{suffix}")
            if _size(beside):
                shutil.copyfile(beside, f"{target}{suffix}")
        os.chmod(target, 0o600)
        connection = sqlite3.connect(target)
        try:
            connection.execute("PRAGMA journal_mode = DELETE").fetchone()
        except sqlite3.Error as error:
            raise TraceError(
                path, f"Its unfinished changes cannot be applied ({error}).", "Export it again."
            ) from error
        finally:
            connection.close()
            for suffix in (*_SIDECARS, "-shm"):
                Path(f"{target}{suffix}").unlink(missing_ok=True)

    stamps = [f"{_size(Path(f'{path}{suffix}'))}" for suffix in _SIDECARS]
    return private_copy(path, "with-changes-" + "-".join(stamps), fill)
