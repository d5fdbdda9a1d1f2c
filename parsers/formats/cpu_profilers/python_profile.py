"""Profiles of functions: Python's own, cProfile and profile, as text and for pstats, and what gprof prints."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from parsers.data_marshal import NoData, loads
from parsers.files.base import Accompanying, Source, parser
from parsers.files.texts import decoded, utf8
from parsers.model import F64, I64, Malformed, Progress, ResultTable, Trace
from parsers.model.late import dataclass, regex
from parsers.model.names.source_files import frame_parts, is_own_frame
from parsers.model.results import OWN_CODE, Cell, TimeOf, Totals, titled
from parsers.printed_profile import PrintedProfile, read_profile

_GPROF_HEADER = regex(rb"^ *time +seconds +seconds +calls +\S+/call +\S+/call +name\s*$", re.MULTILINE)
_START = regex(r" *time +seconds +seconds +calls +\S+/call +\S+/call +name\s*$")
_SECONDS = r"(\d{1,9}\.\d{1,6})"
_GPROF_ROW = regex(rf" *{_SECONDS} +{_SECONDS} +{_SECONDS} +(?:(\d{{1,19}}) +\d\S* +\d\S* +)?(\S.*)$")
_GPROF_COLUMNS = titled("Function", "Calls", "Own time (s)", "Own share (%)")


@parser
class Gprof(PrintedProfile):
    """Recognised by the header of the flat profile."""

    format = "gprof"
    title = "CPU profilers"
    files = "output of gprof"
    suffixes = (".txt",)
    priority = 59
    producer = "gprof"

    def recognises(self, source: Source) -> bool:
        head = utf8(source.head)
        return b"cumulative" in head and _GPROF_HEADER.search(head) is not None

    def tables(self, text: str) -> Iterator[ResultTable]:
        """A table for each flat profile; the time of all functions is the last one of the column that adds up."""
        lines = iter(text.splitlines())
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
_SAVED = regex(rb"[{\xfb][()\xa8\xa9](?:\x03|\x03\0\0\0)[sutzZaA\xf5\xf4\xfa\xda\xe1\xc1]", re.DOTALL)
_MAX_DEPTH = 200  # calls of libraries in one another
_LEFT = 1e-4  # of the time, that has not reached an own function: no more is looked for
_ENABLES = "_lsprof.Profiler.enable"  # its time is what another profiler saw, which was started inside
_COLUMNS = titled("Function", "Calls", "Own time (s)", "Own share (%)", "With what it calls (s)")


@dataclass(frozen=True, slots=True)
class _Function:
    name: str
    calls: int
    own_s: float
    whole_s: float


class _Call(NamedTuple):
    """One function called by another one, by their places: its own seconds for it, and with what it calls."""

    callee: int
    caller: int
    own_s: float
    whole_s: float


@parser
class PythonProfile(Accompanying):
    """Recognised by the header of the printed table, or by a saved dictionary whose keys are (file, line, function)."""

    format = "python-profile"
    title = "CPU profilers"
    files = "cProfile, as text and as saved for pstats"
    suffixes = (".prof", ".pstats", ".txt")
    priority = 57  # before the tables of torch.utils.bottleneck, which prints both
    version = 6

    def recognises(self, source: Source) -> bool:
        if _SAVED.match(source.head) or any(_HEADER.encode() in each for each in source.printed):
            return True
        return _ROWS.search(source.tail) is not None

    def read(self, source: Source, progress: Progress) -> Trace:
        def tables(content: bytes) -> Iterator[ResultTable]:
            if _SAVED.match(content):
                functions, calls = _saved(source, content)
                yield _table(functions, 0.0)
                yield _own_code(functions, calls)
            else:
                for functions, in_all in printed_functions(decoded(content).splitlines()):
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


def _saved(source: Source, content: bytes) -> tuple[list[_Function], list[_Call]]:
    try:
        stats: Any = loads(content)
        places = {key: place for place, key in enumerate(stats)}
        functions = [
            _Function(_place(*key), int(calls), float(own), float(whole))
            for key, (_, calls, own, whole, _) in stats.items()
        ]
        called = [
            _Call(places[key], places[caller], *_times_of(times))
            for key, (*_, callers) in stats.items()
            for caller, times in callers.items()
            if caller in places and caller != key
        ]
    except (NoData, TypeError, ValueError, AttributeError) as error:
        raise Malformed(source.path, "This profile of Python cannot be read.", "Write it again.") from error
    return functions, called


def _times_of(times: Any) -> tuple[float, float]:
    """Its own seconds and those with what it calls; profile, which is not cProfile, counts calls alone."""
    return (float(times[2]), float(times[3])) if isinstance(times, tuple) else (float(times), float(times))


def _own_code(functions: Sequence[_Function], calls: Sequence[_Call]) -> ResultTable:
    """The time of each function that is not the program's own, by the own functions that called it.

    A function is called by several: each has the share of its time that it took for them, and what is called in turn
    by libraries passes on to their callers as their own time does. No row where all files are without their folders:
    modules of libraries then look like those of the program.
    """
    files = [frame_parts(each.name)[1] for each in functions]
    has_folders = any("/" in file or "\\" in file for file in files)
    own = np.array(
        [
            has_folders and bool(file) and is_own_frame(each.name)
            for each, file in zip(functions, files, strict=True)
        ],
        bool,
    )
    spent = np.array([each.own_s for each in functions], np.float64)
    callee, caller = (np.array([each[place] for each in calls], np.int64) for place in (0, 1))
    weights = [_shares(callee, np.array([each[place] for each in calls], np.float64)) for place in (2, 3)]
    passing = np.where(own, 0.0, spent)
    arrived = np.zeros(len(calls), np.float64)
    for number in range(_MAX_DEPTH):
        flow = passing[callee] * weights[0 if number == 0 else 1]
        arrived += np.where(own[caller], flow, 0.0)
        passing = np.where(own, 0.0, np.bincount(caller, flow, len(functions)))
        if passing.sum() <= _LEFT * spent.sum():
            break
    whole = spent.sum()
    mine = np.where(own, spent, 0.0) + np.bincount(
        caller, np.where(own[caller], arrived, 0.0), len(functions)
    )
    rows: list[tuple[Cell, ...]] = []
    for place in np.argsort(-mine, kind="stable").tolist():
        if not own[place] or mine[place] <= 0:
            continue
        below = np.flatnonzero(caller == place)
        most = int(below[np.argmax(arrived[below])]) if len(below) else -1
        name = functions[int(callee[most])].name if most >= 0 and arrived[most] > 0 else None
        rows.append(
            (
                functions[place].name,
                float(mine[place]),
                float(mine[place] / whole * 100.0),
                name,
                float(arrived[most]) if name else None,
            )
        )
    return ResultTable("Own functions of cProfile", OWN_CODE, tuple(rows))


def _shares(callee: I64, times: F64) -> F64:
    """Each call's share of what its function takes in all calls."""
    whole = np.bincount(callee, times)
    return np.divide(times, whole[callee], out=np.zeros(len(times)), where=whole[callee] > 0)


def _place(file: str, line: int, function: str) -> str:
    return f"{function} ({file}:{line})" if line or file != "~" else _built_in(function)
