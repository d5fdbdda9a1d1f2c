"""What ``perf stat`` prints: how often each event was counted while a program ran."""

from __future__ import annotations

from collections.abc import Iterator

from parsers.files.base import Parser, Source, parser
from parsers.files.texts import utf8
from parsers.model import Progress, ResultColumn, ResultTable, Trace
from parsers.model.late.regex import regex
from parsers.model.results import Cell
from parsers.printed_profile import read_profile

_TITLE = regex(r" *Performance counter stats for '(.{1,200})'")
_END = "Performance counter stats for '-'"
_ROW = regex(
    r" *(\d[\d.,\u202f']{0,30}) +(?:(msec|Joules) +)?([\w./:=,-]{2,80})(?: +# +([\d.,]+) *(\S.{0,40}?))?(?: +\(.*)?$"
)
_ELAPSED = regex(r" *(\d[\d.,]{0,30}) (?:\+- \S+ )?seconds time elapsed")
_COLUMNS = (
    ResultColumn("Event"),
    ResultColumn("Count"),
    ResultColumn("Unit"),
    ResultColumn("Rate"),
    ResultColumn("Rate of"),
)
_TOLD = {"CPUs utilized": "{} CPUs busy", "insn per cycle": "{} instructions a cycle"}


@parser
class PerfStat(Parser):
    """Recognised by the line above the counts."""

    format = "perf-stat"
    accompanies = True
    title = "CPU profilers"
    files = "output of perf stat"
    suffixes = (".txt", ".log")
    priority = 66

    def recognises(self, source: Source) -> bool:
        return any(
            b"Performance counter stats for" in each
            and any(map(_TITLE.match, each.decode("utf-8", "replace").splitlines()))
            for each in source.printed
        )

    def read(self, source: Source, progress: Progress) -> Trace:
        return read_profile(source, progress, (self.format, "perf stat"), _tables)


def _tables(content: bytes) -> Iterator[ResultTable]:
    """A table for each program; its title says how busy it kept the CPU."""
    program, elapsed = "", ""
    rows: list[tuple[Cell, ...]] = []
    for each in [*utf8(content).decode("utf-8", "replace").splitlines(), _END]:
        line = each.rstrip()
        if found := _TITLE.match(line):
            if program:
                yield _table(program, elapsed, rows)
            program, elapsed, rows = found[1], "", []
        elif found := _ELAPSED.match(line):
            seconds = _number(found[1])
            elapsed = f"{seconds:.3g} s" if isinstance(seconds, float) else ""
        elif program and (found := _ROW.match(line)):
            count, unit, event, rate, of = found.groups()
            rows.append((event, _number(count), unit, None if rate is None else _number(rate), of))


def _table(program: str, elapsed: str, rows: list[tuple[Cell, ...]]) -> ResultTable:
    told = [
        _TOLD[str(of)].format(f"{rate:.3g}")
        for *_, rate, of in rows
        if of in _TOLD and isinstance(rate, float)
    ]
    about = ", ".join([*told, *([elapsed] if elapsed else [])])
    return ResultTable(
        f"perf stat of {program}: {about}" if about else f"perf stat of {program}", _COLUMNS, tuple(rows)
    )


def _number(text: str) -> Cell:
    """The count; commas part thousands."""
    try:
        return float(text.replace(",", ""))
    except ValueError:
        return text
