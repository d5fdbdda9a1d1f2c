"""How to open a SQLite file without touching it or its folder, whatever state its owner left it in."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import sqlite3
from functools import lru_cache
from pathlib import Path

from parsers.files.base import Source
from parsers.files.signatures import DATABASE
from parsers.model import Effect, Malformed, QualityRecorder, TraceError
from parsers.model.late import regex
from parsers.sqlite.private_copy import private_copy

_IN_SCHEMA = regex(rb"CREATE TABLE\s+(?:IF NOT EXISTS\s+)?[\"'`\[]?(\w{1,200})", re.IGNORECASE)
_MAX_S = 2.0


def tables_of(source: Source) -> frozenset[str]:
    """The names of all tables; what the first bytes tell where the file is packed or damaged.

    Empty for what is no SQLite file. Never raises.
    """
    if not source.head.startswith(DATABASE):
        return frozenset()
    in_head = frozenset(name.decode("utf-8", "replace") for name in _IN_SCHEMA.findall(source.head))
    if source.compression:
        return in_head
    try:
        state = source.path.stat()
    except OSError:
        return in_head
    return in_head | _listed(source.path, state.st_size, state.st_mtime_ns)


@lru_cache(maxsize=8)
def _listed(path: Path, size: int, modified_ns: int) -> frozenset[str]:
    import sqlite3

    from parsers.sqlite.guarded import GuardedConnection, Watch

    try:
        watch = Watch(longest_s=_MAX_S, whole=True)
        with contextlib.closing(GuardedConnection(read_only_uri(path), watch, damaged=True)) as database:
            return frozenset(database.tables)
    except (sqlite3.Error, TraceError, OSError):
        return frozenset()


_WAL_VERSION = 2
_SIDECARS = ("-wal", "-journal")
_JOURNAL_MAGIC = bytes.fromhex("d9d505f920a163d7")


def read_only_uri(path: Path, quality: QualityRecorder | None = None) -> str:
    """The URI to open; raises ``TraceError`` when the file is no regular file, or too short to be a database.

    The file is opened as unchangeable, because SQLite would create files beside it otherwise. Changes that another
    program left in a ``-wal`` or ``-journal`` are read from a private copy; where none can be made, a note says so.
    """
    if not path.is_file():
        raise Malformed(path, "This is not a regular file.", "Save the recording to a file first.")
    with path.open("rb") as file:
        header = file.read(100)
    if len(header) < 100 or not header.startswith(DATABASE):
        raise Malformed(path, "The file is cut off or is not a SQLite database.", "Export or copy it again.")
    if has_pending_changes(path):
        try:
            return _unchangeable(_with_pending_changes(path))
        except TraceError as error:
            _note(
                quality, "changes left out", f"Changes stored beside the file are not shown: {error.problem}"
            )
    elif header[18] != _WAL_VERSION and header[19] != _WAL_VERSION and _is_locked(_plain(path) + "?mode=ro"):
        _note(
            quality,
            "database in use",
            "Another program has locked the database; it was read as it is on disk.",
        )
    return _unchangeable(path)


def _note(quality: QualityRecorder | None, kind: str, reason: str) -> None:
    if quality is not None:
        quality.note(kind, Effect.NOTED, reason)


def _unchangeable(path: Path) -> str:
    return _plain(path) + "?mode=ro&immutable=1"


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

    if _names_another_file(Path(f"{path}-journal")):
        raise TraceError(path, "They are part of a change of several databases at once.", "Export it again.")

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


def has_pending_changes(path: Path) -> bool:
    """Whether another program left changes beside the database that are not in it."""
    return any(_size(Path(f"{path}{suffix}")) for suffix in _SIDECARS)


def _names_another_file(journal: Path) -> bool:
    """Whether a journal ends with the name of a file, which SQLite deletes once the changes are rolled back."""
    if _size(journal) < len(_JOURNAL_MAGIC):
        return False
    with journal.open("rb") as file:
        file.seek(-len(_JOURNAL_MAGIC), os.SEEK_END)
        return file.read() == _JOURNAL_MAGIC
