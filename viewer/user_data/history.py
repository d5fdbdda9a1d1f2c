"""Runs that are kept as figures, never as traces: baselines by name, the recordings of each program in order; no Qt.

One SQLite file in the user's data folder, or where the user asked for it, so that a repository or a build server can
keep one. It may come from a stranger: it is read like a recording, and nothing is written to a file that holds
anything but our table.
"""

from __future__ import annotations

import json
import sqlite3
import time
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import asdict, replace
from enum import Enum
from pathlib import Path
from typing import Any

from parsers.model import TraceError
from parsers.model.late import dataclass
from parsers.sqlite.guarded import GuardedConnection, Watch
from parsers.sqlite.read_only import read_only_uri
from rules.gates.figures import RunFigures
from rules.gates.kept_promises import KeptPromise
from rules.trials.record import KeptTrial
from viewer.user_data.storage import RUNS_FILE, data_folder, is_filled

MAX_ENTRIES = 10_000
MAX_TEXT_LENGTH = 8_192
_MAX_READING_S = 5.0
_TABLE = "kept_runs"
_COLUMNS = {
    "id": int,
    "series": str,
    "name": str,
    "saved": float,
    "revision": str,
    "reason": str,
    "runs": str,
    "promises": str,
}


class Series(Enum):
    """What kind of name an entry is kept under."""

    BASELINE = "baseline"
    PROGRAM = "program"
    TRIAL = "trial"
    INCIDENT = "incident"


@dataclass(frozen=True, slots=True)
class Entry:
    """Recordings of one state of a program; ``saved`` is seconds of wall clock, ``reason`` why a regression was taken.

    ``id`` orders the entries; it is 0 before one is kept. Of a trial (``Series.TRIAL``) only ``trials`` are kept, of a
    slow step (``Series.INCIDENT``) only what it took.
    """

    name: str
    runs: tuple[RunFigures, ...]
    series: Series = Series.BASELINE
    revision: str = ""
    reason: str = ""
    promises: tuple[KeptPromise, ...] = ()
    saved: float = 0.0
    trials: tuple[KeptTrial, ...] = ()
    id: int = 0


class History:
    """The file; it is made when the first run is kept. Every method raises ``TraceError``."""

    def __init__(self, path: Path | None = None) -> None:
        self.path = path or data_folder() / RUNS_FILE

    def entries(self, series: Series, name: str | None = None) -> list[Entry]:
        """In the order in which they were kept; of every name where none is given."""
        found = [
            _entry(row, self.path)
            for row in self._rows()
            if row["series"] == series.value and name in (None, row["name"])
        ]
        return sorted(found, key=lambda each: each.id)

    def latest(self, series: Series, name: str) -> Entry:
        found = self.entries(series, name)
        if not found:
            known = sorted({each.name for each in self.entries(series)})
            raise TraceError(
                self.path,
                f"There is no {series.value} {name!r}.",
                f"Kept are: {', '.join(known)}."
                if known
                else "Save one with `stallscope baseline save NAME RUN`.",
            )
        return found[-1]

    def keep(self, entry: Entry) -> Entry:
        """Add a run; returns it as it is kept."""
        for text in (entry.name, entry.revision, entry.reason):
            if len(text) > MAX_TEXT_LENGTH:
                raise TraceError(self.path, "A name or a reason is too long to be saved.", "Shorten it.")
        entry = replace(
            entry, runs=tuple(run.shortened() for run in entry.runs), saved=entry.saved or time.time()
        )
        row = {
            "series": entry.series.value,
            "name": entry.name,
            "saved": entry.saved,
            "revision": entry.revision,
            "reason": entry.reason,
            "runs": json.dumps([run.to_data() for run in entry.runs]),
            "promises": json.dumps(
                [asdict(each) for each in (entry.trials if entry.series is Series.TRIAL else entry.promises)]
            ),
        }
        with self._writable() as database:
            return replace(entry, id=int(database.table(_TABLE).insert(row).last_pk))

    def forget(self, series: Series, name: str) -> int:
        """Remove all runs of a name; returns how many there were."""
        count = len(self.entries(series, name))
        if count:
            with self._writable() as database:
                database.table(_TABLE).delete_where("series = ? AND name = ?", [series.value, name])
        return count

    def _rows(self) -> list[dict[str, Any]]:
        if not is_filled(self.path):
            return []
        watch = Watch(longest_s=_MAX_READING_S, whole=True)
        try:
            with closing(GuardedConnection(read_only_uri(self.path), watch)) as database:
                if not database.tables:
                    return []  # another process has just made the file
                stored = database.tables.get(_TABLE)
                if stored is None or not _COLUMNS.keys() <= stored.columns.keys():
                    raise self._not_ours()
                chosen = ", ".join(f'"{name}"' for name in _COLUMNS)
                sql = f"SELECT {chosen} FROM {_TABLE} LIMIT {MAX_ENTRIES}"
                return [dict(zip(_COLUMNS, row, strict=True)) for row in database.rows(sql)]
        except (sqlite3.Error, OSError) as error:
            raise TraceError(
                self.path, f"The saved runs cannot be read: {error}.", "Choose another file with --store."
            ) from error

    @contextmanager
    def _writable(self) -> Iterator[Any]:
        """The database, which holds our table and nothing else."""
        import sqlite_utils

        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            if is_filled(self.path):
                self._refuse_others()
            database = sqlite_utils.Database(self.path)
            with closing(database.conn), database.conn:
                database.table(_TABLE).create(_COLUMNS, pk="id", if_not_exists=True)
                yield database
        except (sqlite3.Error, OSError) as error:
            raise TraceError(
                self.path, f"The run could not be saved: {error}.", "Choose another place with --store."
            ) from error

    def _refuse_others(self) -> None:
        import sqlite_utils

        own = sqlite_utils.Database(memory=True)
        listed = "SELECT type, name, sql FROM sqlite_master ORDER BY name"
        watch = Watch(longest_s=_MAX_READING_S, whole=True)
        with closing(own.conn), closing(GuardedConnection(read_only_uri(self.path), watch)) as database:
            own.table(_TABLE).create(_COLUMNS, pk="id")
            there = database.rows(listed)
            if there and there != own.conn.execute(listed).fetchall():
                raise self._not_ours()

    def _not_ours(self) -> TraceError:
        return TraceError(
            self.path, "This file does not contain saved runs.", "Choose another one with --store."
        )


def _entry(row: dict[str, Any], path: Path) -> Entry:
    import msgspec  # late: where nothing is kept nothing is decoded

    try:
        told = json.loads(str(row["promises"]))
        if row["series"] == Series.TRIAL.value:
            kept = msgspec.convert(told, tuple[KeptTrial, ...])
            return Entry(
                str(row["name"]), (), Series.TRIAL, saved=float(row["saved"]), trials=kept, id=int(row["id"])
            )
        runs = tuple(RunFigures.from_data(each) for each in json.loads(str(row["runs"])))
        promises = msgspec.convert(told, tuple[KeptPromise, ...])
        if not runs and row["series"] != Series.INCIDENT.value:
            raise ValueError("it holds no run")
        return Entry(
            name=str(row["name"]),
            runs=runs,
            series=Series(row["series"]),
            revision=str(row["revision"]),
            reason=str(row["reason"]),
            promises=promises,
            saved=float(row["saved"]),
            id=int(row["id"]),
        )
    except (msgspec.MsgspecError, ValueError, TypeError, KeyError, RecursionError, OverflowError) as error:
        raise TraceError(
            path,
            f"A saved run is damaged, or was written by a newer Stallscope: {error}.",
            "Choose another file with --store.",
        ) from error


def names_of(entries: Sequence[Entry]) -> list[str]:
    """The different names, in the order of their newest entry, the latest first."""
    return list(dict.fromkeys(each.name for each in reversed(entries)))
