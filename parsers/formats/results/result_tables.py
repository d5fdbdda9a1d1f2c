"""Tables of results as CSV: summaries of nsys stats, nvprof, rocprof and Ascend, perf_analyzer, genai-perf."""

from __future__ import annotations

import csv
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import islice
from typing import Any

import numpy as np

from parsers.csv_tables import CsvTable, header_of, plain, read_csv, stacked, table_of
from parsers.files.base import Accompanying, Source, parser
from parsers.files.texts import utf8
from parsers.files.unpacking_limit import whole_content
from parsers.model import Effect, Excessive, Malformed, Progress, QualityRecorder, Trace
from parsers.model.builder import MAX_TABLES, TraceBuilder
from parsers.model.late import dataclass, regex
from parsers.model.results import Cell, LoadTest, RequestPart, ResultColumn, ResultTable, TimeOf, rows_shown
from parsers.model.units import NS_PER_US
from parsers.nvprof_text import has_nvprof_tables, nvprof_as_csv
from parsers.printed_tables import as_csv, has_rule, in_us
from parsers.table_totals import is_between_events, totals_of


@dataclass(frozen=True, slots=True)
class Kind:
    """One tool's table, recognised by plain names of columns that it always has."""

    producer: str
    title: str
    columns: frozenset[str]
    unit: Callable[[str], str]  # of a column that states none


def _nanoseconds(name: str) -> str:
    return "ns" if name.lower().endswith("ns") else "%" if name.lower() in ("percentage", "pct") else ""


_PERF_ANALYZER = "perf_analyzer"
_BETWEEN_EVENTS = (
    "GPU times were taken between events around each operator, so they include waiting for its launch: the verdict "
    "leaves them out"
)
_STAGES = {
    RequestPart.QUEUE: ("serverqueue",),
    RequestPart.COMPUTE: ("servercomputeinput", "servercomputeinfer", "servercomputeoutput"),
    RequestPart.OUTSIDE: ("clientsend", "networkserversendrecv", "clientrecv"),
}


def _microseconds(name: str) -> str:
    if name.lower().startswith(("p50", "p90", "p95", "p99", "avg")) or "server" in name.lower():
        return "us"
    return "us" if name.lower().startswith(("client", "network")) else ""


def _nothing(_: str) -> str:
    return ""


NSYS_STATS, NVPROF, TORCH, GENAI_PERF = "nsys stats", "nvprof", "torch.profiler", "genai-perf"
DLPROF = "DLProf"
KINDS = (
    Kind(NSYS_STATS, "Summary of nsys stats", frozenset({"time%", "totaltimens", "name"}), _nothing),
    Kind(NSYS_STATS, "Summary of nsys stats", frozenset({"time%", "totaltimens", "operation"}), _nothing),
    Kind(NSYS_STATS, "Summary of nsys stats", frozenset({"time%", "totaltimens", "range"}), _nothing),
    Kind(NSYS_STATS, "Sizes of nsys stats", frozenset({"totalmb", "count", "operation"}), _nothing),
    Kind(
        NSYS_STATS,
        "GPU operations of nsys stats",
        frozenset({"startns", "durationns", "strm", "name"}),
        _nothing,
    ),
    Kind(NVPROF, "Summary of nvprof", frozenset({"time%", "time", "calls", "avg", "name"}), _nothing),
    Kind(NVPROF, "Summary of nvprof", frozenset({"time%", "timeus", "calls", "avgus", "name"}), _nothing),
    Kind(NVPROF, "Unified memory of nvprof", frozenset({"unifiedmemory", "count", "totaltimeus"}), _nothing),
    Kind(NVPROF, "Metrics of nvprof", frozenset({"kernel", "invocations", "metricname", "avg"}), _nothing),
    Kind(TORCH, "Operators of torch.profiler", frozenset({"name", "selfcpu%", "cputotal"}), _nothing),
    Kind(DLPROF, "Kernels of DLProf", frozenset({"kernelname", "totalgputimens", "usestc"}), _nothing),
    Kind(DLPROF, "Operators of DLProf", frozenset({"optype", "totalcputimens", "totalgputimens"}), _nothing),
    Kind("Ascend profiler", "Operators", frozenset({"optype", "count", "totaltimeus"}), _nothing),
    Kind("rocprof", "Summary of rocprof", frozenset({"name", "calls", "totaldurationns"}), _nanoseconds),
    Kind(
        "rocprofiler-compute",
        "Kernels of rocprofiler-compute",
        frozenset({"kernelname", "count", "sumns", "pct"}),
        _nanoseconds,
    ),
    Kind(
        _PERF_ANALYZER,
        "Load test of perf_analyzer",
        frozenset({"concurrency", "inferencessecond"}),
        _microseconds,
    ),
    Kind(
        _PERF_ANALYZER,
        "Load test of perf_analyzer",
        frozenset({"requestrate", "inferencessecond"}),
        _microseconds,
    ),
    Kind(GENAI_PERF, "Load test of genai-perf", frozenset({"metric", "avg", "p99"}), _nothing),
)
_FURTHER = (  # of files that begin with another one
    Kind(GENAI_PERF, "Throughput of genai-perf", frozenset({"metric", "value"}), _nothing),
    Kind(GENAI_PERF, "GPUs while genai-perf ran", frozenset({"metric", "gpu", "avg"}), _nothing),
)


_REMARK = (
    r"[ \t]*(?:[A-Z][\w ]{2,40} Report\r?$|All Iterations\r?$|==\d+==|Generating |Processing \[|SKIPPED: "
    r"|NOTICE: |WARNING: )"
)
_REMARKS = regex(rf"(?:\xef\xbb\xbf)?(?:{_REMARK}[^\n]*\n|[ \t\r]*\n)*".encode("latin-1"), re.MULTILINE)
_IS_REMARK = regex(_REMARK)
_EXECUTED = regex(r"^\[\d+/\d+\] Executing '(\w{1,60})' stats report")
_REPORT = regex(r"^Processing \[.*\] with \[(?:.*[\\/])?(\w{1,60})\.py")
_LACKS_KERNELS = regex(r"SKIPPED: .{1,999} does not contain CUDA kernel data")
_IN_ALL = regex(r"Self (CPU|CUDA|XPU) time total: (\S+)$")
_InAll = dict[tuple[int, TimeOf], float]  # us of all rows of a table, by its place and whose time it is
_PERCENT = regex(r"(-?\d{1,9}(?:\.\d{1,6})?)%")
_READ_AT_ONCE = 1 << 16  # cells; each reading costs as much as some thousand of them


def kind_of(head: bytes, kinds: Sequence[Kind] = KINDS) -> Kind | None:
    """Whose table begins like this."""
    names = {plain(name) for name in header_of(head)}
    return next((kind for kind in kinds if kind.columns <= names), None)


def _prints_several(head: bytes) -> bool:
    """Whether it holds tables one after the other, as nsys stats prints with remarks and genai-perf writes."""
    begins = _REMARKS.match(head)
    first = head[begins.end() :] if begins else head
    kind = kind_of(first)
    if kind is None or kind.producer not in (NSYS_STATS, NVPROF, GENAI_PERF, DLPROF):
        return False
    return len(first) < len(head) or re.search(rb"\n\s*\n", head) is not None


def _is_for_people(source: Source) -> bool:
    """Whether it has a table with columns under one another, as profilers print behind the program's own output."""
    return any(_has_columns(each.decode("latin-1")) for each in source.printed)


def _has_columns(text: str) -> bool:
    if has_nvprof_tables(text):
        return True
    if not has_rule(text):
        return False
    kinds = (kind_of(f"{line}\n".encode("latin-1")) for line in as_csv(text.splitlines()))
    return any(kind is not None and kind.producer in (NSYS_STATS, TORCH) for kind in kinds)


@parser
class ResultTables(Accompanying):
    """Recognised by the names of its columns."""

    format = "result-csv"
    title = "benchmarks"
    files = (
        "CSV of nsys stats, nvprof (also its text), DLProf, rocprofiler-compute, op_statistic, perf_analyzer and "
        "genai-perf"
    )
    suffixes = (".csv", ".txt", ".log")
    priority = 58
    version = 17

    def recognises(self, source: Source) -> bool:
        return kind_of(source.head) is not None or _prints_several(source.head) or _is_for_people(source)

    def read(self, source: Source, progress: Progress) -> Trace:
        builder = TraceBuilder()
        kind = kind_of(source.head)
        found: list[tuple[Kind, CsvTable]]
        in_all: _InAll = {}
        if _prints_several(source.head) or _is_for_people(source):
            content = whole_content(
                source, progress.part(0.0, 0.4), "reading the tables", "Keep its first tables."
            )
            found, in_all = _printed(content, builder, progress.part(0.4, 0.8))
        else:
            table = read_csv(source, builder.quality, progress.part(0.0, 0.8))
            found = [] if kind is None or not table.length else [(kind, table)]
        if not found:
            raise Malformed(source.path, "The table has a header but no rows.", "Write it again.")
        builder.tables.extend(_tables(found, builder.quality, in_all))
        builder.came_from(source.name, self.format, found[0][0].producer)
        return builder.build(progress.part(0.8, 1.0))


def _printed(
    content: bytes, builder: TraceBuilder, progress: Progress
) -> tuple[list[tuple[Kind, CsvTable]], _InAll]:
    """The tables of a text in which each begins with its header and ends with an empty line or a remark."""
    found: list[tuple[Kind, CsvTable]] = []
    in_all: _InAll = {}
    lines, report, bad = list(as_csv([*nvprof_as_csv(utf8(content).decode("latin-1").splitlines())])), "", 0
    place = 0
    while place < len(lines):
        progress.step(place / len(lines), "reading the tables")
        line = lines[place]
        place += 1
        if (told := _REPORT.match(line) or _EXECUTED.match(line)) is not None:
            report = told[1]
        if (total := _IN_ALL.match(line)) is not None and found:
            in_all[len(found) - 1, TimeOf.CPU if total[1] == "CPU" else TimeOf.GPU] = float(
                in_us(total[2]) or 0
            )
            continue
        kind = kind_of(f"{line}\n".encode("latin-1"), (*KINDS, *_FURTHER))
        if kind is None:
            bad += bool(line.strip() and found) and not (_IS_REMARK.match(line) or told)
            continue
        until = next((at for at in range(place, len(lines)) if _ends(lines[at])), len(lines))
        header = header_of(f"{line}\n".encode("latin-1"))
        rows = list(csv.reader(lines[place:until]))
        whole = [row for row in rows if len(row) == len(header)]
        bad += len(rows) - len(whole)
        place = until
        if whole:
            if len(found) >= MAX_TABLES:
                raise Excessive("tables", MAX_TABLES)
            named = replace(kind, title=f"{report} of {NSYS_STATS}") if report else kind
            found.append((named, table_of(header, whole)))
        report = ""
    if any(map(_LACKS_KERNELS.match, lines)):
        builder.quality.note(
            "no-kernels",
            Effect.NOTED,
            f"{NSYS_STATS} found no CUDA kernels in the report: it says nothing of a GPU",
        )
    builder.quality.read(bad)
    builder.quality.note(
        "row-of-another-length", Effect.QUARANTINED, "lines that belong to none of the tables", "", bad
    )
    return found, in_all


def _ends(line: str) -> bool:
    return not line.strip(" \t,") or _IS_REMARK.match(line) is not None


def _tables(
    found: Sequence[tuple[Kind, CsvTable]], quality: QualityRecorder, in_all: _InAll
) -> Iterator[ResultTable]:
    shown = [rows_shown(quality, table.length) for _, table in found]
    columns: dict[tuple[str, tuple[str, ...]], tuple[ResultColumn, ...]] = {}
    for kind, table in found:
        if (kind.title, table.header) not in columns:
            columns[kind.title, table.header] = tuple(_column(title, kind) for title in _titles(table))
    cells = _cells(
        (table.columns[plain(title)], rows)
        for (_, table), rows in zip(found, shown, strict=True)
        for title in _titles(table)
    )
    for index, (kind, table) in enumerate(found):
        named = columns[kind.title, table.header]
        measured = [
            _measured(column, each) for column, each in zip(named, islice(cells, len(named)), strict=True)
        ]
        rows = tuple(zip(*(each for _, each in measured), strict=True))
        titles = _titles(table)
        totals = tuple(
            replace(each, whole=in_all.get((index, each.of), 0.0)) for each in totals_of(titles, rows)
        )
        quality.note(
            "between-events", Effect.NOTED, _BETWEEN_EVENTS, count=int(is_between_events(titles, rows))
        )
        load = _load(titles, rows) if kind.producer == _PERF_ANALYZER else None
        yield ResultTable(kind.title, tuple(column for column, _ in measured), rows, totals=totals, load=load)


def _load(titles: Sequence[str], rows: Sequence[tuple[Cell, ...]]) -> LoadTest | None:
    """The stages of a request under the most load that perf_analyzer tried, which are stated in us."""
    names = [plain(title) for title in titles]
    asked = next((names.index(name) for name in ("concurrency", "requestrate") if name in names), -1)
    loads = [row for row in rows if asked >= 0 and isinstance(row[asked], float)]
    if not loads:
        return None
    row = max(loads, key=lambda each: float(each[asked] or 0))
    stated = {name: cell for name, cell in zip(names, row, strict=True) if isinstance(cell, float)}
    parts = tuple(
        (part, NS_PER_US * sum(stated.get(name, 0.0) for name in stages)) for part, stages in _STAGES.items()
    )
    rate, at_once = (stated.get(name, 0.0) for name in ("requestrate", "concurrency"))
    return LoadTest(parts, rate=rate, at_once=at_once) if any(ns for _, ns in parts) else None


def _measured(column: ResultColumn, cells: list[Cell]) -> tuple[ResultColumn, list[Cell]]:
    """A column of times and shares that state their units in each cell, as numbers of one unit."""
    filled = [cell for cell in cells if cell is not None]
    if not filled or column.unit not in ("", "%") or not all(isinstance(cell, str) for cell in filled):
        return column, cells
    for unit, read in (("us", in_us), ("%", _in_percent)):
        read_cells = ["" if cell is None else read(str(cell)) for cell in cells]
        if all(bool(text) == (cell is not None) for text, cell in zip(read_cells, cells, strict=True)):
            return ResultColumn(column.name.removesuffix("%").strip(), unit), [
                float(text) if text else None for text in read_cells
            ]
    return column, cells


def _in_percent(cell: str) -> str:
    found = _PERCENT.fullmatch(cell)
    return found[1] if found else ""


def _titles(table: CsvTable) -> list[str]:
    return [title for title in dict.fromkeys(table.header) if title]


def _column(title: str, kind: Kind) -> ResultColumn:
    """A column whose unit stands in brackets behind its name, or follows from its tool."""
    for opening, closing in ("()", "[]"):
        name, found, unit = title.rpartition(opening)
        if found and unit.endswith(closing):
            return ResultColumn(name.strip(), unit.removesuffix(closing))
    return ResultColumn(title, kind.unit(title))


def _cells(columns: Iterable[tuple[Any, int]]) -> Iterator[list[Cell]]:
    """The first cells of each column, so many as stand beside it, read from many short columns at once."""
    together: list[tuple[Any, int]] = []
    length = 0
    for column, rows in columns:
        together.append((column, rows))
        length += len(column)
        if length >= _READ_AT_ONCE:
            yield from _cells_of(together)
            together, length = [], 0
    if together:
        yield from _cells_of(together)


def _cells_of(columns: Sequence[tuple[Any, int]]) -> Iterator[list[Cell]]:
    """Numbers where a column has any and no other text, else texts."""
    below = stacked("cell", [column for column, _ in columns])
    numbers = below.numbers("cell")
    texts, which = below.texts("cell")
    stripped = [text.strip() for text in texts]
    empty = np.array([text in ("", "-", "N/A", "nan") for text in stripped], bool)[which]
    starts = np.cumsum([0, *(len(column) for column, _ in columns[:-1])])
    filled = np.logical_or.reduceat(~empty, starts)
    numeric = filled & np.logical_and.reduceat(np.isfinite(numbers) | empty, starts)
    for start, is_numeric, (_, rows) in zip(starts.tolist(), numeric.tolist(), columns, strict=True):
        if is_numeric:
            values = numbers[start : start + rows].tolist()
            yield [None if value != value else value for value in values]
        else:
            yield [stripped[place] or None for place in which[start : start + rows].tolist()]
