"""Profiles of functions: Python's own, cProfile and profile, as text and for pstats, and what gprof prints."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any

from parsers.data_marshal import NoData, loads
from parsers.files.base import Parser, Source, parser
from parsers.files.texts import utf8
from parsers.model import Malformed, Progress, ResultColumn, ResultTable, Trace
from parsers.model.late import dataclass, regex
from parsers.model.results import Cell, TimeOf, Totals
from parsers.printed_profile import read_profile

_GPROF_HEADER = regex(rb"^ *time +seconds +seconds +calls +\S+/call +\S+/call +name\s*$", re.MULTILINE)
_START = regex(r" *time +seconds +seconds +calls +\S+/call +\S+/call +name\s*$")
_SECONDS = r"(\d{1,9}\.\d{1,6})"
_GPROF_ROW = regex(rf" *{_SECONDS} +{_SECONDS} +{_SECONDS} +(?:(\d{{1,19}}) +\d\S* +\d\S* +)?(\S.*)$")
_GPROF_COLUMNS = (
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
        return b"cumulative" in head and _GPROF_HEADER.search(head) is not None

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
        while found := _GPROF_ROW.match(next(lines, "")):
            share, so_far, own, calls, name = found.groups()
            whole = max(whole, float(so_far))
            if float(own) > 0:
                rows.append((name.strip(), float(calls) if calls else None, float(own), float(share)))
        totals = Totals(TimeOf.CPU, 0, 2, 3, 1, whole=whole)
        yield ResultTable("Functions of gprof", _GPROF_COLUMNS, tuple(rows), totals=(totals,))


_HEADER = "ncalls  tottime  percall  cumtime  percall filename:lineno(function)"
_IN_ALL = regex(r"\s*\d+ function calls .*\bin (\d{1,12}\.\d{1,9}) (?:CPU )?seconds")
_ROW = regex(
    r"\s*(\d{1,15})(?:/\d{1,15})?\s+(\d{1,9}\.\d{1,9})\s+\d\S*\s+(\d{1,9}\.\d{1,9})\s+\d\S*\s+(\S.*)$"
)
_ROWS = regex(rb"(?:\n *\d+(?:/\d+)? +(?:\d+\.\d{3} +){4}[^\n]+){5}")  # of a table that begins above the tail
_PLACE = regex(r"(.*):(\d{1,9})\((.*)\)$")
_BUILT_IN = regex(r"[<{](?:built-in )?method '?([\w.]+)'?(?: of '([\w.]+)' objects)?[>}]")
_SAVED = regex(rb"[{\xfb][()\xa8\xa9](?:\x03|\x03\0\0\0)[utzZaA\xf5\xf4\xfa\xda\xe1\xc1]", re.DOTALL)
_ENABLES = "_lsprof.Profiler.enable"  # its time is what another profiler saw, which was started inside
_COLUMNS = (
    ResultColumn("Function"),
    ResultColumn("Calls"),
    ResultColumn("Own time", "s"),
    ResultColumn("Own share", "%"),
    ResultColumn("With what it calls", "s"),
)


@dataclass(frozen=True, slots=True)
class _Function:
    name: str
    calls: int
    own_s: float
    whole_s: float


@parser
class PythonProfile(Parser):
    """Recognised by the header of the printed table, or by a saved dictionary whose keys are (file, line, function)."""

    format = "python-profile"
    accompanies = True
    title = "CPU profilers"
    files = "cProfile, as text and as saved for pstats"
    suffixes = (".prof", ".pstats", ".txt")
    priority = 57  # before the tables of torch.utils.bottleneck, which prints both
    version = 4

    def recognises(self, source: Source) -> bool:
        if _SAVED.match(source.head) or any(_HEADER.encode() in each for each in source.printed):
            return True
        return _ROWS.search(source.tail) is not None

    def read(self, source: Source, progress: Progress) -> Trace:
        def tables(content: bytes) -> Iterator[ResultTable]:
            if _SAVED.match(content):
                yield _table(_saved(source, content), 0.0)
            else:
                for functions, in_all in printed_functions(
                    utf8(content).decode("utf-8", "replace").splitlines()
                ):
                    yield _table(functions, in_all)

        return read_profile(source, progress, (self.format, "cProfile"), tables)


def _table(functions: Sequence[_Function], in_all: float) -> ResultTable:
    by_time = sorted((each for each in functions if each.name != _ENABLES), key=lambda each: -each.own_s)
    elsewhere = sum(each.own_s for each in functions if each.name == _ENABLES)
    whole = max(in_all - elsewhere, 0.0) or sum(each.own_s for each in by_time)
    rows = tuple(
        (
            each.name,
            float(each.calls),
            each.own_s,
            each.own_s / whole * 100.0 if whole else None,
            each.whole_s,
        )
        for each in by_time
    )
    totals = Totals(TimeOf.PROGRAM, 0, 2, 3, 1, whole=whole)
    return ResultTable("Functions of cProfile", _COLUMNS, rows, totals=(totals,))


def printed_functions(lines: list[str]) -> Iterator[tuple[list[_Function], float]]:
    """Each table with the seconds of the whole run, 0 where they are not stated."""
    in_all, place = 0.0, 0
    while place < len(lines):
        line = lines[place]
        place += 1
        if found := _IN_ALL.match(line):
            in_all = float(found[1])
        if line.strip() != _HEADER:
            continue
        functions: list[_Function] = []
        while place < len(lines) and (row := _ROW.match(lines[place])):
            functions.append(_Function(_named(row[4].strip()), int(row[1]), float(row[2]), float(row[3])))
            place += 1
        yield functions, in_all


def _named(text: str) -> str:
    """ "step (train.py:12)" for "train.py:12(step)"."""
    found = _PLACE.match(text)
    return f"{found[3]} ({found[1]}:{found[2]})" if found else _built_in(text)


def _built_in(text: str) -> str:
    """ "EngineBase.run_backward" for "{method 'run_backward' of 'EngineBase' objects}"."""
    found = _BUILT_IN.fullmatch(text)
    return (f"{found[2]}.{found[1]}" if found[2] else found[1]) if found else text


def _saved(source: Source, content: bytes) -> list[_Function]:
    try:
        stats: Any = loads(content)
        return [
            _Function(_place(*key), int(calls), float(own), float(whole))
            for key, (_, calls, own, whole, _) in stats.items()
        ]
    except (NoData, TypeError, ValueError, AttributeError) as error:
        raise Malformed(source.path, "This profile of Python cannot be read.", "Write it again.") from error


def _place(file: str, line: int, function: str) -> str:
    return f"{function} ({file}:{line})" if line or file != "~" else _built_in(function)
