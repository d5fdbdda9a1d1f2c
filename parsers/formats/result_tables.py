"""Tables of results as CSV: summaries of nsys stats and rocprof, perf_analyzer, genai-perf."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from parsers.base import Source, parser
from parsers.csv_tables import CsvTable, header_of, plain, read_csv
from parsers.model import Effect, Malformed, Progress, ResultColumn, ResultTable, Trace, TraceInput
from parsers.model.builder import TraceBuilder
from parsers.model.results import MOST_ROWS, Cell


@dataclass(frozen=True, slots=True)
class Kind:
    """One tool's table, recognised by plain names of columns that it always has."""

    producer: str
    title: str
    columns: frozenset[str]
    unit: Callable[[str], str]  # of a column that states none


def _nanoseconds(name: str) -> str:
    return "ns" if name.lower().endswith("ns") else "%" if name.lower() in ("percentage", "pct") else ""


def _microseconds(name: str) -> str:
    if name.lower().startswith(("p50", "p90", "p95", "p99", "avg")) or "server" in name.lower():
        return "us"
    return "us" if name.lower().startswith(("client", "network")) else ""


def _nothing(_: str) -> str:
    return ""


KINDS = (
    Kind("nsys stats", "Summary of nsys stats", frozenset({"time%", "totaltimens", "name"}), _nothing),
    Kind("nsys stats", "Summary of nsys stats", frozenset({"time%", "totaltimens", "operation"}), _nothing),
    Kind("nsys stats", "Summary of nsys stats", frozenset({"time%", "totaltimens", "range"}), _nothing),
    Kind("nsys stats", "Sizes of nsys stats", frozenset({"totalmb", "count", "operation"}), _nothing),
    Kind(
        "nsys stats",
        "GPU operations of nsys stats",
        frozenset({"startns", "durationns", "strm", "name"}),
        _nothing,
    ),
    Kind("rocprof", "Summary of rocprof", frozenset({"name", "calls", "totaldurationns"}), _nanoseconds),
    Kind(
        "perf_analyzer",
        "Load test of perf_analyzer",
        frozenset({"concurrency", "inferencessecond"}),
        _microseconds,
    ),
    Kind(
        "perf_analyzer",
        "Load test of perf_analyzer",
        frozenset({"requestrate", "inferencessecond"}),
        _microseconds,
    ),
    Kind("genai-perf", "Load test of genai-perf", frozenset({"metric", "avg", "p99"}), _nothing),
)


def kind_of(head: bytes) -> Kind | None:
    """Whose table begins like this."""
    names = {plain(name) for name in header_of(head)}
    return next((kind for kind in KINDS if kind.columns <= names), None)


@parser
class ResultTables:
    """Recognised by the names of its columns."""

    format: ClassVar[str] = "result-csv"
    title: ClassVar[str] = "benchmarks"
    files: ClassVar[str] = "CSV of nsys stats, perf_analyzer and genai-perf"
    suffixes: ClassVar[tuple[str, ...]] = (".csv",)
    priority: ClassVar[int] = 58
    version: ClassVar[int] = 1

    def recognises(self, source: Source) -> bool:
        return kind_of(source.head) is not None

    def read(self, source: Source, progress: Progress) -> Trace:
        builder = TraceBuilder()
        kind = kind_of(source.head)
        table = read_csv(source, builder.quality, progress.part(0.0, 0.8))
        if kind is None or not table.length:
            raise Malformed(source.path, "The table has a header and no rows.", "Write it again.")
        kept = min(table.length, MOST_ROWS)
        builder.quality.read(table.length)
        builder.quality.keep(kept)
        builder.quality.note(
            "rows-left-out",
            Effect.QUARANTINED,
            f"a table shows its first {MOST_ROWS:,} rows",
            "",
            table.length - kept,
        )
        builder.tables.append(_table(kind, table, kept))
        builder.inputs.append(TraceInput(source.shown or str(source.path), self.format, kind.producer))
        builder.sources.append(None)
        return builder.build(progress.part(0.8, 1.0))


def _table(kind: Kind, table: CsvTable, rows: int) -> ResultTable:
    columns, cells = [], []
    for title in dict.fromkeys(title for title in table.header if title):
        columns.append(_column(title, kind))
        cells.append(_cells(table, plain(title), rows))
    return ResultTable(kind.title, tuple(columns), tuple(zip(*cells, strict=True)))


def _column(title: str, kind: Kind) -> ResultColumn:
    """A column whose unit stands in brackets behind its name, or follows from its tool."""
    for opening, closing in ("()", "[]"):
        name, found, unit = title.rpartition(opening)
        if found and unit.endswith(closing):
            return ResultColumn(name.strip(), unit.removesuffix(closing))
    return ResultColumn(title, kind.unit(title))


def _cells(table: CsvTable, name: str, rows: int) -> list[Cell]:
    """Numbers where the column has any and no other text, else texts."""
    numbers = table.numbers(name)
    texts, which = table.texts(name)
    stripped = [text.strip() for text in texts]
    empty = np.array([text in ("", "-", "N/A", "nan") for text in stripped], bool)[which]
    if np.all(np.isfinite(numbers) | empty) and not empty.all():
        return [None if value != value else value for value in numbers[:rows].tolist()]
    return [stripped[place] or None for place in which[:rows].tolist()]
