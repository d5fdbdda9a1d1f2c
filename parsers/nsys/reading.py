"""What every part of the reader shares while one export is read."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import field
from typing import Any

import numpy as np

from parsers.model import BOOL, I32, I64, Effect, Lane, LaneKind, Progress
from parsers.model.arrays import ABSENT
from parsers.model.builder import TraceBuilder
from parsers.model.late import dataclass
from parsers.sqlite.database import Batch, Database, Table, TableDamaged
from parsers.sqlite.row_source import source_rows

UNKNOWN = ABSENT
PAGE_FAULT_STREAM = 0xFFFFFFFE  # of no stream: page faults are of the whole GPU
FARTHEST_NS = -ABSENT // 2  # no clock of a recording is farther from its zero
_THREAD_MASK = 0xFFFFFF


def is_possible(time: I64) -> BOOL:
    """Which times some clock may have stated."""
    return (time > -FARTHEST_NS) & (time < FARTHEST_NS)


def global_process(global_id: int) -> int:
    """The globalPid that a globalTid belongs to; ids may be negative."""
    return global_id & ~_THREAD_MASK


def process_id(global_id: int) -> int:
    """The operating system's process number inside a globalPid or globalTid."""
    return (global_id >> 24) & 0xFFFFFF


def thread_id(global_tid: int) -> int:
    """The operating system's thread number inside a globalTid."""
    return global_tid & _THREAD_MASK


class Codes:
    """Gives each different 64-bit value the next small number, over many batches."""

    def __init__(self) -> None:
        self.values: list[int] = []
        self._known: I64 = np.empty(0, np.int64)  # sorted
        self._code_of_known: I32 = np.empty(0, np.int32)
        # by distance from the lowest; -1 for what is not known
        self._code_from_low: I32 = np.empty(0, np.int32)

    def of(self, values: I64) -> I32:
        if not len(values):
            return np.empty(0, np.int32)
        low, high = values.min(), values.max()
        if low == high:
            return np.broadcast_to(self._of_distinct(values[:1]), len(values))
        if len(self._code_from_low) and self._known[0] <= low and high <= self._known[-1]:
            known: I32 = self._code_from_low[values - self._known[0]]
            if known.min() >= 0:
                return known
        import pyarrow as pa

        encoded: Any = pa.array(values).dictionary_encode()
        codes: I32 = self._of_distinct(encoded.dictionary.to_numpy())[encoded.indices.to_numpy()]
        return codes

    def _of_distinct(self, values: I64) -> I32:
        new = np.setdiff1d(values, self._known, assume_unique=True) if len(self._known) else values
        if len(new):
            new = values[np.isin(values, new)]  # in the order they came
            codes = np.arange(len(self.values), len(self.values) + len(new), dtype=np.int32)
            self.values += new.tolist()
            known = np.concatenate((self._known, new))
            order = np.argsort(known)
            self._known = known[order]
            self._code_of_known = np.concatenate((self._code_of_known, codes))[order]
            self._code_from_low = self._by_distance()
        found: I32 = self._code_of_known[np.searchsorted(self._known, values)]
        return found

    def _by_distance(self) -> I32:
        """The codes as an array over the known values; empty where these lie far apart."""
        reach = int(self._known[-1]) - int(self._known[0])
        if reach > _MAX_CODE:
            return np.empty(0, np.int32)
        codes = np.full(reach + 1, -1, np.int32)
        codes[self._known - self._known[0]] = self._code_of_known
        return codes


_MAX_CODE = 0xFFFFF


class RowCodes:
    """The same for rows of several values: ``keys[code]`` is the tuple.

    Beyond a million different values in one column, the further ones count as one.
    """

    def __init__(self, width: int) -> None:
        self._columns = [Codes() for _ in range(width)]
        self._rows = Codes()
        self.keys: list[tuple[int, ...]] = []

    def of(self, *columns: I64) -> I32:
        packed = np.zeros(len(columns[0]), np.int64)
        for codes, column in zip(self._columns, columns, strict=True):
            packed = packed << 20 | np.minimum(codes.of(column), _MAX_CODE)
        numbers = self._rows.of(packed)
        for row in self._rows.values[len(self.keys) :]:
            parts = []
            for codes in reversed(self._columns):
                parts.append(codes.values[row & _MAX_CODE])
                row >>= 20
            self.keys.append(tuple(reversed(parts)))
        return numbers


_NOT_EVENTS = ("TARGET_INFO", "META_DATA", "EXPORT_META", "DIAGNOSTIC_EVENT", "GENERIC_EVENT_", "ANALYSIS")
MAX_NS = 10 * 365 * 86_400 * 1_000_000_000
_NAMES_AT_ONCE = 500
_ROWS_AT_ONCE = 2048
_WORTH_A_SCAN = 20_000


@dataclass(frozen=True, slots=True)
class LaneKey:
    """A lane before names, devices and ranks are known: the recorded numbers."""

    kind: LaneKind
    process: int  # globalPid
    thread: int = UNKNOWN  # globalTid
    device: int = UNKNOWN
    stream: int = UNKNOWN


@dataclass(slots=True)
class Reading:
    """The export, the trace that grows from it, and the lanes found so far."""

    database: Database
    builder: TraceBuilder
    progress: Progress
    lanes: list[LaneKey] = field(default_factory=list)
    tables_read: set[str] = field(default_factory=set)
    thread_names: dict[int, str] = field(default_factory=dict)
    stated_ranks: dict[int, int] = field(default_factory=dict)  # by globalPid
    last_moment: int = UNKNOWN
    _lane_index: dict[LaneKey, int] = field(default_factory=dict)
    _strings: dict[int, str] = field(default_factory=dict)
    _rows_done: int = 0
    _rows_in_all: int = 1

    def expect(self, names: Iterable[str]) -> int:
        """About how many rows these tables have; the progress is told by them."""
        rows = sum(self.rows_in(name) for name in names)
        self._rows_in_all = max(rows, 1)
        return rows

    def rows_in(self, name: str) -> int:
        """About how many rows a table has; none when it is absent."""
        table = self.database.table(name)
        return self.database.size(table) if table is not None else 0

    def lane(self, key: LaneKey) -> int:
        """The number of a lane, created on first use."""
        index = self._lane_index.get(key)
        if index is None:
            index = self._lane_index[key] = len(self.lanes)
            self.lanes.append(key)
            if self.builder.lane(Lane(key.kind, repr(key))) != index:
                raise ValueError("the builder's lanes are not those of this reader")
        return index

    def batches(
        self, table: Table, columns: Mapping[str, str], doing: str, where: str = ""
    ) -> Iterator[Batch]:
        """Every row of a table with its rowid as "row"; a damaged rest is noted, not raised."""
        count = 0
        self.tables_read.add(table.name)
        try:
            for batch in self.database.batches(table, {"row": table.rowid, **columns}, where):
                count += len(batch)
                self._rows_done += len(batch)
                self._step(doing)
                yield batch
        except TableDamaged as damage:
            self.builder.quality.note(
                "damaged table",
                Effect.NOTED,
                f"A table could not be read to its end; the {count:,} rows before the damage are shown.",
                f"{table.name}: {damage}",
            )

    def device_index(self, rank: int | None, number: int) -> int | None:
        """The place among the trace's devices of the GPU that a rank calls ``number``; None for one without work."""
        return self.builder.known_device(rank, number)

    def note_unread(self) -> None:
        """Say which tables of events hold rows that nothing shows."""
        for name, table in sorted(self.database.tables.items()):
            if name in self.tables_read or not table.columns.keys() & {"start", "timestamp", "rawTimestamp"}:
                continue
            if not name.startswith(_NOT_EVENTS) and (rows := self.database.size(table)):
                reason = "Rows of tables that are not shown."
                self.builder.quality.note(f"not shown: {name}", Effect.NOTED, reason, name, rows)

    def rows_of(self, table: Table, batch: Batch) -> I64:
        return source_rows(self.database.number_of(table), batch["row"])

    def chosen(self, table: Table, start: I64, end: I64, rows: I64) -> BOOL | slice:
        """``usable`` as an index, which costs nothing where every row is usable."""
        good = self.usable(table, start, end, rows)
        return slice(None) if good.all() else good

    def usable(self, table: Table, start: I64, end: I64, rows: I64) -> BOOL:
        """Which rows have a possible start and end; the others are counted as quarantined."""
        quality = self.builder.quality
        quality.read(len(start))
        if _all_plausible(start, end):
            self.last_moment = max(self.last_moment, int(end.max(initial=UNKNOWN)))
            return np.ones(len(start), bool)
        missing = (start <= UNKNOWN) | (end <= UNKNOWN)
        backwards = ~missing & (end < start)
        unset = (start == 0) & (end == 0)
        too_long = (end - start > MAX_NS) | (end - start < 0)  # so long that no number holds it
        endless = ~missing & ~backwards & (too_long | (np.abs(start) > FARTHEST_NS))
        for kind, found, reason in (
            ("no time", missing, "Rows without a start or end were left out."),
            ("ends before it starts", backwards, "Rows that end before they start were left out."),
            (
                "time never recorded",
                unset,
                "Rows that start and end at zero were left out: the profiler recorded no time for them.",
            ),
            ("impossible duration", endless, "Rows longer than ten years were left out."),
        ):
            if found.any():
                example = f"{table.name} row {int(rows[np.flatnonzero(found)[0]]) & ((1 << 40) - 1)}"
                quality.note(kind, Effect.QUARANTINED, reason, example, int(found.sum()))
        good: BOOL = ~(missing | backwards | unset | endless)
        if good.any():
            self.last_moment = max(self.last_moment, int(end[good].max()))
        return good

    def optional_rows(self, sql: str) -> list[tuple[object, ...]]:
        """All rows of a small query; none when the file is damaged there, which is noted."""
        try:
            return self.database.rows(sql)
        except sqlite3.Error as error:
            self.builder.quality.note(
                "damaged table", Effect.NOTED, "A part of the file could not be read.", str(error)
            )
            return []

    def streamed(self, sql: str, doing: str) -> Iterator[tuple[Any, ...]]:
        """The rows of a large query, one by one, up to where the file is damaged, which is noted."""
        try:
            for number, row in enumerate(self.database.stream(sql)):
                if number % _ROWS_AT_ONCE == 0:
                    self._step(doing)
                yield row
        except sqlite3.Error as error:
            self.builder.quality.note(
                "damaged table", Effect.NOTED, "A part of the file could not be read.", str(error)
            )

    def _step(self, doing: str) -> None:
        self.progress.step(min(0.05 + 0.75 * self._rows_done / self._rows_in_all, 0.8), doing)

    def strings_of(self, ids: Iterable[int]) -> dict[int, str]:
        """The texts of these StringIds, and of no others; an id without a text becomes "(string N)"."""
        wanted = {each for each in ids if each >= 0}
        missing = sorted(wanted - self._strings.keys())
        table = self.database.table("StringIds")
        if missing and table is not None and {"id", "value"} <= table.columns.keys():
            try:
                self._fetch_strings(missing, table)
            except sqlite3.Error as error:
                self.builder.quality.note(
                    "damaged names", Effect.NOTED, "Some names could not be read.", f"StringIds: {error}"
                )
        return {each: self._strings.get(each) or f"(string {each})" for each in wanted}

    def _fetch_strings(self, ids: list[int], table: Table) -> None:
        if len(ids) > _WORTH_A_SCAN:
            wanted = set(ids)
            for key, value in self.database.stream(f'SELECT id, value FROM "{table.name}"'):
                if key in wanted:
                    self._strings[key] = str(value)
            return
        for first in range(0, len(ids), _NAMES_AT_ONCE):
            some = ids[first : first + _NAMES_AT_ONCE]
            marks = ",".join("?" * len(some))
            rows = self.database.rows(f'SELECT id, value FROM "{table.name}" WHERE id IN ({marks})', some)
            self._strings.update((key, str(value)) for key, value in rows)
            self.progress.step(0.8, "reading names")

    def names(self, ids: list[int], shown: Callable[[str], str] = str) -> I32:
        """Index into the trace's strings for each StringIds id, after ``shown`` tidied its text."""
        texts = self.strings_of(ids)
        return np.array([self.builder.string(shown(texts.get(each, "(no name)"))) for each in ids], np.int32)


def taken(column: I64, rows: BOOL | slice) -> I64:
    """Chosen rows of a batch as an array of their own; a view would keep every column of the batch in memory."""
    return column.copy() if isinstance(rows, slice) else column[rows]


def _all_plausible(start: I64, end: I64) -> bool:
    """Whether no row needs a closer look."""
    if not len(start):
        return True
    lasted = end - start
    return bool(
        start.min() > -FARTHEST_NS
        and end.max() < FARTHEST_NS
        and lasted.min() >= 0
        and lasted.max() <= MAX_NS
        and end.min() > 0
    )
