"""The files opened lately with their verdicts and small pictures, and notes of what crashed windows showed; no Qt."""

from __future__ import annotations

import contextlib
import json
import os
import sys
from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

from parsers.model.late import dataclass
from viewer.user_data.storage import data_folder, write_text

RECENT_LIMIT = 12
COLUMNS = 64  # of the small picture
MAX_ROWS = 4
WHOLE = 100  # a column's parts add up to this, but for rounding

Row = Mapping[str, Sequence[int]]  # part of the budget -> percent of each column


@dataclass(frozen=True, slots=True)
class Summary:
    """``rows`` are devices, the idlest first; ``opened`` is seconds of wall clock time."""

    opened: float
    duration_ns: int
    device: str
    rows: tuple[Row, ...] = ()

    def to_data(self) -> dict[str, Any]:
        rows = [{key: list(values) for key, values in row.items()} for row in self.rows]
        return {"opened": self.opened, "duration_ns": self.duration_ns, "device": self.device, "rows": rows}

    @classmethod
    def from_data(cls, data: Any) -> Summary | None:
        """What ``to_data`` gave; None where it is something else."""
        try:
            rows = tuple(
                {str(key): tuple(int(value) for value in values[:COLUMNS]) for key, values in row.items()}
                for row in data["rows"][:MAX_ROWS]
            )
            return cls(float(data["opened"]), int(data["duration_ns"]), str(data["device"]), rows)
        except (TypeError, ValueError, KeyError, AttributeError, OverflowError):
            return None


def when(opened: float, now: float) -> str:
    """How long ago, as people say it: "today 14:32", "yesterday", "3 days ago", "12 Mar 2026"."""
    try:
        then, today = datetime.fromtimestamp(opened), datetime.fromtimestamp(now)
    except (ValueError, OverflowError, OSError):
        return ""
    days = (today.date() - then.date()).days
    if days == 0:
        return f"today {then:%H:%M}"
    if days == 1:
        return "yesterday"
    return f"{days} days ago" if 0 < days < 7 else f"{then.day} {then:%b %Y}"


@dataclass(frozen=True, slots=True)
class Recent:
    """Files that were opened together, the verdict they got, and a summary for the start page."""

    paths: tuple[str, ...]
    verdict: str = ""
    summary: Summary | None = None

    @classmethod
    def from_data(cls, data: Any) -> Recent | None:
        """An entry of the list; None where it is something else, which costs no other entry."""
        try:
            paths = tuple(map(str, data["paths"]))
            return cls(paths, str(data["verdict"]), Summary.from_data(data.get("summary"))) if paths else None
        except (TypeError, KeyError, AttributeError):
            return None

    @property
    def name(self) -> str:
        first = Path(self.paths[0])
        return first.name if len(self.paths) == 1 else f"{first.name} and {len(self.paths) - 1} more"

    @property
    def folder(self) -> str:
        return str(Path(self.paths[0]).parent)

    @property
    def exists(self) -> bool:
        return all(os.path.exists(path) for path in self.paths)


def recent_files() -> list[Recent]:
    """What was opened lately, the newest first; empty when nothing was, or the list is damaged."""
    try:
        stored = json.loads((data_folder() / "recent.json").read_text("utf-8"))
        return [recent for each in stored if (recent := Recent.from_data(each)) is not None]
    except (OSError, ValueError, TypeError, RecursionError):
        return []


def remember(paths: Sequence[Path], verdict: str = "", summary: Summary | None = None) -> None:
    """Put these files first in the list of recent ones; a list that cannot be written is no reason to fail."""
    key = tuple(str(Path(path).absolute()) for path in paths)
    known = recent_files()
    former = next((recent.summary for recent in known if recent.paths == key), None)
    kept = [recent for recent in known if recent.paths != key]
    _store([Recent(key, verdict, summary or former), *kept][:RECENT_LIMIT])


def forget_recent() -> None:
    """Empty the list of recent files."""
    _store([])


def forget(recent: Recent) -> None:
    """Take one entry off the list of recent files; the files themselves stay."""
    _store([each for each in recent_files() if each.paths != recent.paths])


def _store(recents: Sequence[Recent]) -> None:
    text = json.dumps([_as_data(recent) for recent in recents])
    with contextlib.suppress(OSError):
        write_text(data_folder() / "recent.json", text)


def _as_data(recent: Recent) -> dict[str, Any]:
    data: dict[str, Any] = {"paths": recent.paths, "verdict": recent.verdict}
    return data if recent.summary is None else data | {"summary": recent.summary.to_data()}


class OpenNote:
    """A note on disk of what one window shows, taken away when it closes: what is left over tells of a crash."""

    def __init__(self) -> None:
        self._path: Path | None = None

    def write(self, paths: Sequence[Path]) -> None:
        """This window now shows these files; a note that cannot be written is no reason to fail."""
        with contextlib.suppress(OSError):
            folder = data_folder() / "open"
            folder.mkdir(exist_ok=True)
            self._path = self._path or folder / f"{os.getpid()}-{id(self)}.json"
            write_text(self._path, json.dumps([str(Path(path).absolute()) for path in paths]))

    def remove(self) -> None:
        if self._path is not None:
            self._path.unlink(missing_ok=True)
            self._path = None


def left_open() -> list[Recent]:
    """What windows showed when their program ended without closing them; each is told of once."""
    found = []
    for note in sorted((data_folder() / "open").glob("*.json")):
        try:
            owner = int(note.name.partition("-")[0])
            if owner == os.getpid() or _runs(owner):
                continue
            paths = tuple(map(str, json.loads(note.read_text("utf-8"))))
            note.unlink()
        except (OSError, ValueError, TypeError):
            continue
        if paths:
            found.append(Recent(paths))
    return [recent for recent in found if recent.exists]


def _runs(process: int) -> bool:
    if sys.platform == "win32":
        return True  # os.kill would end the process there: rather miss a crash than cause one
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except OSError:
        return True
    return True
