"""What gprof prints: the flat profile of a program that was built with -pg."""

from __future__ import annotations

import re
from collections.abc import Iterator

from parsers.files.base import Parser, Source, parser
from parsers.files.texts import utf8
from parsers.model import Progress, ResultColumn, ResultTable, Trace
from parsers.model.late.regex import regex
from parsers.model.results import Cell, TimeOf, Totals
from parsers.printed_profile import read_profile

_HEADER = regex(rb"^ *time +seconds +seconds +calls +\S+/call +\S+/call +name\s*$", re.MULTILINE)
_START = regex(r" *time +seconds +seconds +calls +\S+/call +\S+/call +name\s*$")
_SECONDS = r"(\d{1,9}\.\d{1,6})"
_ROW = regex(rf" *{_SECONDS} +{_SECONDS} +{_SECONDS} +(?:(\d{{1,19}}) +\d\S* +\d\S* +)?(\S.*)$")
_COLUMNS = (
    ResultColumn("Function"),
    ResultColumn("Calls"),
    ResultColumn("Own time", "s"),
    ResultColumn("Own share", "%"),
)


@parser
class Gprof(Parser):
    """Recognised by the header of the flat profile."""

    format = "gprof"
    accompanies = True
    title = "CPU profilers"
    files = "output of gprof"
    suffixes = (".txt",)
    priority = 59

    def recognises(self, source: Source) -> bool:
        head = utf8(source.head)
        return b"cumulative" in head and _HEADER.search(head) is not None

    def read(self, source: Source, progress: Progress) -> Trace:
        return read_profile(source, progress, (self.format, "gprof"), _tables)


def _tables(content: bytes) -> Iterator[ResultTable]:
    """A table for each flat profile; the time of all functions is the last one of the column that adds up."""
    lines = iter(utf8(content).decode("utf-8", "replace").splitlines())
    for line in lines:
        if not _START.match(line):
            continue
        rows: list[tuple[Cell, ...]] = []
        whole = 0.0
        while found := _ROW.match(next(lines, "")):
            share, so_far, own, calls, name = found.groups()
            whole = max(whole, float(so_far))
            if float(own) > 0:
                rows.append((name.strip(), float(calls) if calls else None, float(own), float(share)))
        totals = Totals(TimeOf.CPU, 0, 2, 3, 1, whole=whole)
        yield ResultTable("Functions of gprof", _COLUMNS, tuple(rows), totals=(totals,))
