"""Profiles of lines: what line_profiler (kernprof) prints, and Scalene's JSON."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace

import msgspec

from parsers.files.base import Accompanying, Source, parser
from parsers.files.decoders import from_json_of
from parsers.model import Malformed, Progress, ResultTable, Trace
from parsers.model.late import dataclass, regex
from parsers.model.results import Cell, TimeOf, Totals, titled
from parsers.model.units import NS_PER_S, duration
from parsers.printed_profile import PrintedProfile, read_profile

_START = regex(rb'\s*\{\s*"alloc_samples"\s*:\s*\d')
_SCALENE_COLUMNS = titled(
    "Line", "Time (s)", "Share (%)", "Python (%)", "Native (%)", "System (%)", "GPU (%)", "Peak (MB)", "Code"
)
_MAX_CODE = 200  # characters
# percent of the stated time: lines that hold less were not all that ran in it, so it is no time of the program
MIN_HELD = 5.0


class _Line(msgspec.Struct):
    """A line, or a function where it begins; shares are percent of the whole run."""

    lineno: int
    line: str = ""
    n_cpu_percent_python: float = 0.0
    n_cpu_percent_c: float = 0.0
    n_sys_percent: float = 0.0
    n_gpu_percent: float = 0.0
    n_peak_mb: float = 0.0

    @property
    def share(self) -> float:
        return self.n_cpu_percent_python + self.n_cpu_percent_c + self.n_sys_percent


class _File(msgspec.Struct):
    lines: list[_Line] = []
    functions: list[_Line] = []


class _Profile(msgspec.Struct):
    files: dict[str, _File]
    elapsed_time_sec: float = 0.0


@parser
class Scalene(Accompanying):
    """Recognised by its first key."""

    format = "scalene"
    title = "CPU profilers"
    files = "Scalene's JSON"
    suffixes = (".json",)
    priority = 46
    version = 2

    def recognises(self, source: Source) -> bool:
        return _START.match(source.head) is not None

    def read(self, source: Source, progress: Progress) -> Trace:
        def tables(content: bytes) -> Iterator[ResultTable]:
            profile = from_json_of(source, content, _Profile, "This profile of Scalene", "Write it again.")
            table = _table(profile)
            if not table.rows:
                raise Malformed(
                    source.path,
                    "This profile of Scalene holds no line that took time on the CPU.",
                    "Let the program run longer, or record all that it runs: scalene run --profile-all train.py.",
                )
            yield table

        return read_profile(source, progress, (self.format, "Scalene"), tables)


def _table(profile: _Profile) -> ResultTable:
    """One row for each line that took time, the longest first."""
    rows: list[tuple[Cell, ...]] = [
        (
            f"{_within(told, line)} ({file}:{line.lineno})",
            line.share / 100.0 * profile.elapsed_time_sec,
            line.share,
            line.n_cpu_percent_python,
            line.n_cpu_percent_c,
            line.n_sys_percent,
            line.n_gpu_percent,
            line.n_peak_mb,
            line.line.strip()[:_MAX_CODE],
        )
        for file, told in profile.files.items()
        for line in told.lines
        if line.share > 0
    ]
    rows.sort(key=lambda row: -float(row[2] or 0))
    held = sum(float(row[2] or 0) for row in rows)
    if held >= MIN_HELD:
        totals = Totals(TimeOf.PROGRAM, 0, 1, 2, whole=profile.elapsed_time_sec)
        return ResultTable("Lines of Scalene", _SCALENE_COLUMNS, tuple(rows), totals=(totals,))
    seconds = held / 100.0 * profile.elapsed_time_sec
    return ResultTable(
        f"Lines of Scalene, {duration(seconds * NS_PER_S)} of the {duration(profile.elapsed_time_sec * NS_PER_S)} "
        "that it states",
        _SCALENE_COLUMNS,
        tuple(rows),
        totals=(Totals(TimeOf.PROGRAM, 0, 1, whole=seconds),),
    )


def _within(file: _File, line: _Line) -> str:
    """The function that holds a line: the last one that begins above it; its own text where none does."""
    if not line.line[:1].isspace():
        return line.line.strip()[:_MAX_CODE] or "<module>"
    above = [each for each in file.functions if each.lineno <= line.lineno]
    return max(above, key=lambda each: each.lineno).line if above else "<module>"


_HEADER = regex(r"^Line # +Hits +Time +Per Hit +% Time +Line Contents[ \t\r]*$", re.MULTILINE)
_UNIT = regex(r"Timer unit: (\d\S{0,15}) s")
_TOTAL = regex(r"Total time: (\d\S{0,30}) s")
_FILE = regex(r"File: (.+)")
_FUNCTION = regex(r"Function: (.+) at line \d")
_ROW = regex(r" *(\d{1,9}) +(\d{1,15}) +(\d[\d.e+]{0,30}) +\d\S* +(\d{1,3}\.\d)(?: (.*))?$")
_COLUMNS = titled("Line", "Hits", "Time with what it calls (s)", "Share (%)", "Code")
# percent of a function: a line with more that calls another printed one is told by that one
MIN_DESCENT = 50.0


@dataclass(frozen=True, slots=True)
class _Function:
    name: str
    seconds: float
    rows: tuple[tuple[Cell, ...], ...]


@parser
class LineProfile(PrintedProfile):
    """Recognised by the header of its tables."""

    format = "line-profile"
    title = "CPU profilers"
    files = "output of line_profiler"
    suffixes = (".txt",)
    priority = 56  # before cProfile's tables, which some programs print above
    producer = "line_profiler"

    def recognises(self, source: Source) -> bool:
        return any(
            b"Line Contents" in each and _HEADER.search(each.decode("latin-1")) is not None
            for each in source.printed
        )

    def tables(self, text: str) -> Iterator[ResultTable]:
        """The functions, the one that tells most first; its lines alone are added up."""
        functions = list(_functions(text.splitlines()))
        longest = max(functions, key=lambda each: each.seconds, default=None)
        telling = _telling(functions, longest) if longest else None
        for each in sorted(functions, key=lambda each: (each is not telling, -each.seconds)):
            table = ResultTable(f"Lines of {each.name}", _COLUMNS, each.rows)
            if each is telling and longest:
                totals = Totals(TimeOf.PROGRAM, 0, 2, calls=1, whole=longest.seconds)
                table = replace(table, totals=(totals,))
            yield table


def _telling(functions: list[_Function], function: _Function) -> _Function:
    """The function to whose lines most of the time leads, from the longest one down."""
    seen = {function.name}
    while function.rows:
        _, _, _, share, text = function.rows[0]
        called = next(
            (
                each
                for each in functions
                if each.name not in seen
                and re.search(rf"\b{re.escape(each.name.rpartition('.')[2])}\(", str(text))
            ),
            None,
        )
        if called is None or not isinstance(share, float) or share < MIN_DESCENT:
            break
        seen.add(called.name)
        function = called
    return function


def _functions(lines: list[str]) -> Iterator[_Function]:
    unit, seconds, file, name = 1e-6, 0.0, "", ""
    rows: list[tuple[Cell, ...]] | None = None
    for line in [*lines, "Total time: 0 s"]:
        if found := _UNIT.match(line):
            unit = _number(found[1])
        elif found := _TOTAL.match(line):
            if rows:
                yield _Function(name, seconds, tuple(sorted(rows, key=lambda row: -float(row[2] or 0))))
            seconds, rows = _number(found[1]), None
        elif found := _FILE.match(line):
            file = found[1].strip()
        elif found := _FUNCTION.match(line):
            name = found[1].strip()
        elif _HEADER.match(line):
            rows = []
        elif rows is not None and (found := _ROW.match(line)):
            place = f"{name} ({file}:{found[1]})"
            time = _number(found[3]) * unit
            text = (found[5] or "").strip()[:_MAX_CODE]
            rows.append((place, float(found[2]), time, float(found[4]), text))


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return 0.0
