"""Scalene's JSON: the share of each line of the program in Python, in native code and in waiting."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from parsers.files.base import Parser, Source, parser
from parsers.files.decoders import from_json
from parsers.model import Malformed, Progress, ResultColumn, ResultTable, Trace
from parsers.model.late.regex import regex
from parsers.model.results import Cell, TimeOf, Totals
from parsers.printed_profile import read_profile

_START = regex(rb'\s*\{\s*"alloc_samples"\s*:\s*\d')
_COLUMNS = (
    ResultColumn("Line"),
    ResultColumn("Time", "s"),
    ResultColumn("Share", "%"),
    ResultColumn("Python", "%"),
    ResultColumn("Native", "%"),
    ResultColumn("System", "%"),
    ResultColumn("GPU", "%"),
    ResultColumn("Peak", "MB"),
    ResultColumn("Code"),
)
_MAX_CODE = 200  # characters


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
class Scalene(Parser):
    """Recognised by its first key."""

    format = "scalene"
    accompanies = True
    title = "CPU profilers"
    files = "Scalene's JSON"
    suffixes = (".json",)
    priority = 46

    def recognises(self, source: Source) -> bool:
        return _START.match(source.head) is not None

    def read(self, source: Source, progress: Progress) -> Trace:
        def tables(content: bytes) -> Iterator[ResultTable]:
            try:
                profile = from_json(content, _Profile)
            except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
                raise Malformed(
                    source.path, f"This profile of Scalene cannot be read ({error}).", "Write it again."
                ) from error
            yield _table(profile)

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
    totals = Totals(TimeOf.PROGRAM, 0, 1, 2, whole=profile.elapsed_time_sec)
    return ResultTable("Lines of Scalene", _COLUMNS, tuple(rows), totals=(totals,))


def _within(file: _File, line: _Line) -> str:
    """The function that holds a line: the last one that begins above it; its own text where none does."""
    if not line.line[:1].isspace():
        return line.line.strip()[:_MAX_CODE] or "<module>"
    above = [each for each in file.functions if each.lineno <= line.lineno]
    return max(above, key=lambda each: each.lineno).line if above else "<module>"
