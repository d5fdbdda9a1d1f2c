"""What the user adds to a recording: bookmarks, notes and the arrangement of lanes, in a `.stallscope` file; no Qt.

The file is an SQLite database. It lies in the user's data folder, one for each recording, or where the user asked for
it; never beside the recording unasked. Every change is written at once, so that a crash loses nothing.
"""

from __future__ import annotations

import hashlib
import json
import shutil
import sqlite3
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from viewer.kept.storage import data_folder, in_one_piece

FORMAT = 1
SUFFIX = ".stallscope"
_MAGIC = b"SQLite format 3\x00"


class SessionError(Exception):
    """A session that cannot be read or written; the message is one plain sentence."""


@dataclass(frozen=True, slots=True)
class Bookmark:
    """A span of time (ns from the trace start) with a title and a note; ``event`` is an index or -1."""

    id: int
    start: int
    end: int
    title: str
    note: str = ""
    event: int = -1


def session_path(paths: Sequence[Path]) -> Path:
    """Where the session of these files lies: the same files in any order have the same one."""
    names = "\n".join(sorted(str(Path(path).absolute()) for path in paths))
    folder = data_folder() / "sessions"
    return folder / f"{hashlib.sha256(names.encode()).hexdigest()[:24]}{SUFFIX}"


def is_session(path: Path) -> bool:
    """Whether a file is a session of this program, by its content."""
    try:
        with path.open("rb") as file:
            if file.read(16) != _MAGIC:
                return False
        with closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)) as database:
            rows = database.execute(
                "SELECT name FROM sqlite_master WHERE name = 'stallscope_session'"
            ).fetchall()
        return bool(rows)
    except (OSError, sqlite3.Error):
        return False


class Session:
    """One session file; it is made when the first thing is kept in it."""

    def __init__(self, path: Path, recordings: Sequence[Path] = ()) -> None:
        self.path = path
        self._recordings = tuple(str(Path(each).absolute()) for each in recordings)
        self._database: Any = None

    def _open(self, *, make: bool) -> Any:
        if self._database is not None:
            return self._database
        if not make and not self.path.exists():
            return None
        import sqlite_utils

        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            database = sqlite_utils.Database(self.path)
            if "stallscope_session" not in database.table_names():
                database.table("stallscope_session").insert(
                    {"format": FORMAT, "recordings": json.dumps(self._recordings)}
                )
                database.table("bookmarks").create(
                    {"id": int, "start": int, "end": int, "title": str, "note": str, "event": int}, pk="id"
                )
                database.table("settings").create({"key": str, "value": str}, pk="key")
        except (sqlite3.Error, OSError) as error:
            raise SessionError(f"{self.path.name} cannot be used as a session: {error}.") from error
        self._database = database
        return database

    @property
    def recordings(self) -> tuple[Path, ...]:
        """The files this session belongs to; raises ``SessionError`` when the session is damaged."""
        database = self._open(make=False)
        if database is None:
            return tuple(Path(each) for each in self._recordings)
        try:
            stored = next(iter(database["stallscope_session"].rows))
            return tuple(Path(str(each)) for each in json.loads(stored["recordings"]))
        except (sqlite3.Error, StopIteration, KeyError, ValueError, TypeError) as error:
            raise SessionError(
                f"{self.path.name} does not say which recording it belongs to: {error}."
            ) from error

    def bookmarks(self) -> list[Bookmark]:
        """All bookmarks, by time."""
        database = self._open(make=False)
        if database is None:
            return []
        try:
            return [Bookmark(**row) for row in database["bookmarks"].rows_where(order_by="start, id")]
        except (sqlite3.Error, TypeError) as error:
            raise SessionError(f"The bookmarks of {self.path.name} cannot be read: {error}.") from error

    def add(self, start: int, end: int, title: str, note: str = "", event: int = -1) -> Bookmark:
        """Keep a place; returns it with its number."""
        row = {"start": start, "end": end, "title": title, "note": note, "event": event}
        number = self._write(lambda database: database["bookmarks"].insert(row).last_pk)
        return Bookmark(int(number), start, end, title, note, event)

    def change(self, bookmark: int, *, title: str | None = None, note: str | None = None) -> None:
        """Change the title or the note of a bookmark."""
        changes = {key: value for key, value in (("title", title), ("note", note)) if value is not None}
        self._write(lambda database: database["bookmarks"].update(bookmark, changes))

    def remove(self, bookmark: int) -> None:
        """Forget a bookmark."""
        self._write(lambda database: database["bookmarks"].delete(bookmark))

    def keep(self, key: str, value: Mapping[str, Any]) -> None:
        """Store plain data, such as the arrangement of lanes."""
        text = json.dumps(value)
        self._write(lambda database: database["settings"].upsert({"key": key, "value": text}, pk="key"))

    def kept(self, key: str) -> dict[str, Any]:
        """Plain data stored before; empty when there is none or it is damaged."""
        database = self._open(make=False)
        if database is None:
            return {}
        try:
            rows = list(database["settings"].rows_where("key = ?", [key]))
            value = json.loads(rows[0]["value"]) if rows else {}
        except (sqlite3.Error, ValueError):
            return {}
        return value if isinstance(value, dict) else {}

    def _write(self, change: Any) -> Any:
        database = self._open(make=True)
        try:
            with database.conn:
                return change(database)
        except (sqlite3.Error, OSError) as error:
            raise SessionError(f"{self.path.name} could not be written: {error}.") from error

    def copy_to(self, path: Path) -> Session:
        """Write the session to another place and go on there."""
        self._open(make=True)
        self.close()
        try:
            with in_one_piece(path) as part:
                shutil.copyfile(self.path, part)
        except OSError as error:
            raise SessionError(f"{path.name} could not be written: {error.strerror or error}.") from error
        return Session(path, [Path(each) for each in self._recordings])

    def close(self) -> None:
        """Close the file."""
        if self._database is not None:
            self._database.conn.close()
            self._database = None
