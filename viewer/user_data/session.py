"""What the user adds to a recording: bookmarks, notes and the arrangement of lanes, in a `.stallscope` file; no Qt.

The file is an SQLite database. It lies in the user's data folder, one for each recording, or where the user asked for
it; never beside the recording unasked. There it names its recordings from its own place, so that a folder can be moved
and shared with the notes in it. Every change is written at once, so that a crash loses nothing. It may come from
a stranger: it is read like a recording, and a file with anything but our tables in it is written anew before a change.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import sqlite3
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

from parsers.files.signatures import DATABASE
from parsers.model import TraceError
from parsers.model.late import dataclass
from parsers.sqlite.guarded import GuardedConnection, Watch
from parsers.sqlite.read_only import has_pending_changes, read_only_uri
from viewer.user_data.storage import SessionError as SessionError
from viewer.user_data.storage import anything, data_folder, in_one_piece, is_filled

FORMAT = 1
SUFFIX = ".stallscope"
MAX_BOOKMARKS = 10_000
MAX_RECORDINGS = 4_096
MAX_BESIDE = 50  # sessions in one folder that are asked whose they are
MAX_TITLE, MAX_NOTE = 100_000, 1_000_000
_MAX_PATH_LENGTH = 8_192
_MAX_SETTING_LENGTH = 8 << 20
_MAX_READING_S = 2.0  # the window waits for it
_SESSION, _BOOKMARKS, _SETTINGS = "stallscope_session", "bookmarks", "settings"


@dataclass(frozen=True, slots=True)
class Bookmark:
    """A span of time (ns from the trace start) with a title and a note; ``event`` is an index or -1."""

    id: int
    start: int
    end: int
    title: str
    note: str = ""
    event: int = -1

    @staticmethod
    def of(row: Mapping[str, Any]) -> Bookmark | None:
        """From a row that a stranger may have written; None for one that is no bookmark."""
        import msgspec  # late: a window without a file needs none

        try:
            mark = msgspec.convert(row, Bookmark)
        except msgspec.ValidationError:
            return None
        return mark if len(mark.title) <= MAX_TITLE and len(mark.note) <= MAX_NOTE else None


def session_path(paths: Sequence[Path]) -> Path:
    """Where the session of these files lies: the same files in any order have the same one."""
    names = "\n".join(sorted(str(Path(path).absolute()) for path in paths))
    name = hashlib.sha256(names.encode("utf-8", "surrogateescape")).hexdigest()[:24]
    return data_folder() / "sessions" / f"{name}{SUFFIX}"


def is_session(path: Path) -> bool:
    """Whether a file is a session of this program, by its content."""
    try:
        if not path.is_file():
            return False
        with path.open("rb") as file:
            if file.read(len(DATABASE)) != DATABASE:
                return False
        with _reading(path) as database:
            return _SESSION in database.tables
    except (OSError, sqlite3.Error, TraceError):
        return False


def shared_session(paths: Sequence[Path]) -> Path | None:
    """The session that lies beside these files and belongs to them; None where there is none."""
    folder = Path(paths[0]).absolute().parent
    try:
        beside = sorted(each for each in folder.iterdir() if each.suffix == SUFFIX)
    except OSError:
        return None
    wanted = {Path(os.path.abspath(path)) for path in paths}
    for each in beside[:MAX_BESIDE]:
        if is_session(each):
            try:
                if set(Session(each).recordings) == wanted:
                    return each
            except SessionError:
                continue
    return None


@contextmanager
def _reading(path: Path) -> Iterator[GuardedConnection]:
    watch = Watch(longest_s=_MAX_READING_S, whole=True)
    with closing(GuardedConnection(read_only_uri(path), watch)) as database:
        yield database


class Session:
    """One session file; it is made when the first thing is kept in it."""

    def __init__(self, path: Path, recordings: Sequence[Path] = ()) -> None:
        self.path = path
        self.left_out = 0  # bookmarks of the last reading that are none
        self._recordings = tuple(str(Path(each).absolute()) for each in recordings)
        self._database: Any = None

    @property
    def recordings(self) -> tuple[Path, ...]:
        """The files this session belongs to; raises ``SessionError`` when the session is damaged."""
        if not is_filled(self.path):
            return tuple(Path(each) for each in self._recordings)
        return tuple(self._found(Path(each)) for each in self._stated())

    def _found(self, stated: Path) -> Path:
        """Where a recording lies: where the session says, from its own place, else beside it."""
        folder = self.path.absolute().parent
        there = Path(os.path.abspath(folder / stated))
        return there if there.exists() or not (folder / stated.name).is_file() else folder / stated.name

    def _stated(self) -> list[str]:
        try:
            stored = next(iter(self._rows(_SESSION, ("recordings",), 1)), {})
            return _texts(json.loads(str(stored.get("recordings"))))
        except (ValueError, RecursionError) as error:
            raise SessionError(
                f"{self.path.name} does not say which recording it belongs to: {error}."
            ) from error

    def bookmarks(self) -> list[Bookmark]:
        """All bookmarks, by time; ``left_out`` says how many rows are no bookmarks. Raises ``SessionError``."""
        found: list[Bookmark] = []
        self.left_out = 0
        for row in self._rows(_BOOKMARKS, tuple(each.name for each in fields(Bookmark)), MAX_BOOKMARKS):
            mark = Bookmark.of(row)
            if mark is None:
                self.left_out += 1
            else:
                found.append(mark)
        return sorted(found, key=lambda mark: (mark.start, mark.id))

    def kept(self, key: str) -> dict[str, Any]:
        """Plain data stored before; empty when there is none or it is damaged."""
        try:
            return next((value for name, value in self._settings() if name == key), {})
        except SessionError:
            return {}

    def _settings(self) -> Iterator[tuple[str, dict[str, Any]]]:
        for row in self._rows(_SETTINGS, ("key", "value"), MAX_BOOKMARKS):
            key, value = row.get("key"), row.get("value")
            if isinstance(key, str) and isinstance(value, str) and len(value) <= _MAX_SETTING_LENGTH:
                try:
                    stated = json.loads(value)
                except (ValueError, RecursionError):
                    continue
                if isinstance(stated, dict):
                    yield key, stated

    def _rows(self, table: str, wanted: Sequence[str], most: int) -> list[dict[str, Any]]:
        """At most ``most`` rows of one of our tables, by the names of its columns; none where it is no table."""
        if not is_filled(self.path):
            return []
        try:
            with _reading(self.path) as database:
                stored = database.tables.get(table)
                columns = [name for name in wanted if stored is not None and name in stored.columns]
                if not columns:
                    return []
                chosen = ", ".join(f'"{name}"' for name in columns)
                sql = f"SELECT {chosen} FROM {table} LIMIT {most}"
                return [dict(zip(columns, row, strict=True)) for row in database.rows(sql)]
        except (sqlite3.Error, OSError, TraceError) as error:
            raise _unusable(self.path, error) from error

    def add(self, start: int, end: int, title: str, note: str = "", event: int = -1) -> Bookmark:
        """Keep a place; returns it with its number."""
        row = {"start": start, "end": end, "title": title, "note": note, "event": event}
        number = self._write(lambda database: database[_BOOKMARKS].insert(row).last_pk)
        return Bookmark(int(number), start, end, title, note, event)

    def change(self, bookmark: int, *, title: str | None = None, note: str | None = None) -> None:
        changes = {key: value for key, value in (("title", title), ("note", note)) if value is not None}
        self._write(lambda database: database[_BOOKMARKS].update(bookmark, changes))

    def remove(self, bookmark: int) -> None:
        self._write(lambda database: database[_BOOKMARKS].delete(bookmark))

    def keep(self, key: str, value: Mapping[str, Any]) -> None:
        """Store plain data, such as the arrangement of lanes."""
        text = json.dumps(value)
        self._write(lambda database: database[_SETTINGS].upsert({"key": key, "value": text}, pk="key"))

    def copy_to(self, path: Path) -> Session:
        """Write the session to another place and go on there."""
        import sqlite_utils

        self._writable()
        recordings = self.recordings
        self.close()
        try:
            with in_one_piece(path, is_session) as part:
                shutil.copyfile(self.path, part)
                copy = sqlite_utils.Database(part)
                with closing(copy.conn), copy.conn:
                    stated = json.dumps(_as_stated(path, recordings))
                    copy.execute(f"UPDATE {_SESSION} SET recordings = ?", [stated])
        except (OSError, sqlite3.Error) as error:
            reason = error.strerror if isinstance(error, OSError) else None
            raise SessionError(f"{path.name} could not be written: {reason or error}.") from error
        return Session(path, recordings)

    def close(self) -> None:
        if self._database is not None:
            self._database.conn.close()
            self._database = None

    def _write(self, change: Any) -> Any:
        database = self._writable()
        try:
            with database.conn:
                return change(database)
        except (sqlite3.Error, OSError, UnicodeError) as error:
            raise SessionError(f"{self.path.name} could not be written: {error}.") from error

    def _writable(self) -> Any:
        """The database with exactly our tables in it."""
        if self._database is not None:
            return self._database
        import sqlite_utils

        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            if is_filled(self.path) and not self._is_ours():
                if self._format() > FORMAT:
                    raise SessionError(
                        f"{self.path.name} was written by a newer Stallscope: it can be read, but not changed here."
                    )
                if has_pending_changes(self.path):
                    raise SessionError(f"Another program has not finished writing {self.path.name}.")
                self._write_anew()
            self._database = sqlite_utils.Database(self.path)
            if _SESSION not in self._database.table_names():
                _make_tables(self._database, _as_stated(self.path, map(Path, self._recordings)))
        except (sqlite3.Error, OSError, TraceError) as error:
            self.close()
            raise _unusable(self.path, error) from error
        return self._database

    def _format(self) -> int:
        stated = next(iter(self._rows(_SESSION, ("format",), 1)), {}).get("format")
        return stated if isinstance(stated, int) else 0

    def _is_ours(self) -> bool:
        """Whether the file holds what ``_make_tables`` makes and nothing else."""
        import sqlite_utils

        own = sqlite_utils.Database(memory=True)
        _make_tables(own, ())
        listed = "SELECT type, name, sql FROM sqlite_master ORDER BY name"
        with closing(own.conn), _reading(self.path) as database:
            stored = database.rows(listed)
            return not stored or stored == own.conn.execute(listed).fetchall()

    def _write_anew(self) -> None:
        """What can be read of a file that is not quite ours, in a new file in its place."""
        import sqlite_utils

        recordings, bookmarks, settings = self._stated(), self.bookmarks(), list(self._settings())
        with in_one_piece(self.path, anything) as part:
            fresh = sqlite_utils.Database(part)
            with closing(fresh.conn):
                _make_tables(fresh, recordings)
                fresh.table(_BOOKMARKS).insert_all([asdict(mark) for mark in bookmarks], ignore=True)
                fresh.table(_SETTINGS).insert_all(
                    [{"key": key, "value": json.dumps(value)} for key, value in settings], ignore=True
                )


def _as_stated(session: Path, recordings: Iterable[Path]) -> list[str]:
    """How a session names its recordings: by the way from its own place, unless it lies in the user's data folder."""
    folder = session.absolute().parent
    if folder.is_relative_to(data_folder()):
        return [str(each.absolute()) for each in recordings]
    stated = []
    for each in recordings:
        try:
            stated.append(Path(os.path.relpath(each.absolute(), folder)).as_posix())
        except ValueError:  # on another drive
            stated.append(str(each.absolute()))
    return stated


def _texts(stated: Any) -> list[str]:
    """A list of paths; raises ``ValueError`` for anything else."""
    if not isinstance(stated, list) or len(stated) > MAX_RECORDINGS:
        raise ValueError("there is no list of files in it")
    for each in stated:
        if not isinstance(each, str) or len(each) > _MAX_PATH_LENGTH:
            raise ValueError("a file in it has no name")
    return stated


def _unusable(path: Path, error: Exception) -> SessionError:
    problem = error.problem if isinstance(error, TraceError) else f"{error}."
    return SessionError(f"{path.name} cannot be used as a session: {problem}")


def _make_tables(database: Any, recordings: Sequence[str]) -> None:
    stated = {"format": FORMAT, "recordings": json.dumps(list(recordings))}
    database.table(_SESSION).insert(stated)
    database.table(_BOOKMARKS).create(
        {"id": int, "start": int, "end": int, "title": str, "note": str, "event": int}, pk="id"
    )
    database.table(_SETTINGS).create({"key": str, "value": str}, pk="key")
