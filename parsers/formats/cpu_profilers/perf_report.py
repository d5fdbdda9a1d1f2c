"""What ``perf report --stdio`` prints: the share of each function, a table for each event that was counted."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import pairwise

from parsers.files.base import Parser, Source, parser
from parsers.model import Progress, ResultColumn, ResultTable, Trace
from parsers.model.late.regex import regex
from parsers.model.results import Cell, TimeOf, Totals
from parsers.printed_profile import read_profile

_HEADER = regex(r"# +(?:Children +Self|Overhead) .*\bSymbol\b", re.MULTILINE)
_ROW = regex(r"\s{1,8}\d{1,3}\.\d\d%\s")
_EVENT = regex(r"# Samples: \S+\s+of event '([\w-]{1,80})")
_COUNT = regex(r"# Event count \(approx\.\): (\d{1,19})")
_OF_TIME = ("cpu-clock", "task-clock")  # events that count ns
_SHARES = ("Overhead", "Children", "Self")
_MODE = regex(r"\[[.kuHg]\] ")


@parser
class PerfReport(Parser):
    """Recognised by the header of its table, which is a comment with the names of its columns."""

    format = "perf-report"
    accompanies = True
    title = "CPU profilers"
    files = "output of perf report --stdio"
    suffixes = (".txt",)
    priority = 59

    def recognises(self, source: Source) -> bool:
        return b"Symbol" in source.head and _HEADER.search(source.head.decode("latin-1")) is not None

    def read(self, source: Source, progress: Progress) -> Trace:
        return read_profile(source, progress, (self.format, "perf report"), _tables)


def _tables(content: bytes) -> Iterator[ResultTable]:
    lines = content.decode("utf-8", "replace").splitlines()
    headers = [place for place, line in enumerate(lines[:-1]) if _HEADER.match(line)]
    ns = _lengths(lines)
    for place, until in pairwise([*headers, len(lines)]):
        titles, rows = _rows(lines[place], lines[place + 1 : until], ns.get(place, 0))
        if not rows:
            continue
        columns = tuple(ResultColumn(title, unit) for title, unit in titles)
        totals = Totals(
            TimeOf.CPU,
            next(at for at, (title, _) in enumerate(titles) if title == "Symbol"),
            next((at for at, (title, _) in enumerate(titles) if title == "Time"), -1),
            next(at for at, (title, _) in enumerate(titles) if title in ("Overhead", "Self")),
        )
        yield ResultTable("Functions of perf", columns, rows, totals=(totals,))


def _lengths(lines: list[str]) -> dict[int, int]:
    """By the place of each header: ns of all samples, where their event counts time."""
    found: dict[int, int] = {}
    is_time, ns = False, 0
    for place, line in enumerate(lines):
        if event := _EVENT.match(line):
            is_time, ns = event[1] in _OF_TIME, 0
        elif count := _COUNT.match(line):
            ns = int(count[1]) if is_time else 0
        elif ns and _HEADER.match(line):
            found[place] = ns
    return found


def _rows(
    header: str, below: list[str], ns: int
) -> tuple[list[tuple[str, str]], tuple[tuple[Cell, ...], ...]]:
    """Titles with units, and rows; ``below`` begins with the dots that say where columns are."""
    edges = [found.start() for found in re.finditer(r"\.+", below[0])]
    places = [slice(start, end) for start, end in pairwise([*edges, None])]
    names = [header[place].strip() for place in places]
    own = next((at for at, name in enumerate(names) if name in ("Overhead", "Self")), None)
    if own is None or "Symbol" not in names:
        return [], ()
    titles = [(name, "%" if name in _SHARES else "") for name in names]
    rows: list[tuple[Cell, ...]] = []
    for line in below[1:]:
        if not _ROW.match(line):
            continue
        cells = [_cell(line[place].strip(), unit) for place, (_, unit) in zip(places, titles, strict=True)]
        share = cells[own]
        time = (share / 100.0 * ns,) if ns and isinstance(share, float) else ()
        rows.append((*cells, *time))
    rows = [row for row in rows if len(row) == len(titles) + bool(ns)]
    return ([*titles, ("Time", "ns")] if ns else titles), tuple(rows)


def _cell(text: str, unit: str) -> Cell:
    if unit:
        try:
            return float(text.rstrip("%"))
        except ValueError:
            return None
    return _MODE.sub("", text, 1) or None
