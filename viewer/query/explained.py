"""What a figure on the screen is the sum of, as a question in SQL."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from parsers.model.names.devices import short_device_name
from parsers.model.units import duration, percent
from rules.analysis.idle.causes import Cause
from rules.analysis.names.families import Family
from viewer.look.plain_text import one_line
from viewer.query.questions import Question

if TYPE_CHECKING:
    from rules import Finding
    from rules.analysis.analysis import Analysis

_TABLES = {Family.COPY: "copies", Family.COLLECTIVE: "collectives"}


def can_be_explained(finding: Finding) -> bool:
    """Whether a table has the rows that the figure of a finding is the sum of."""
    about = finding.category.about
    return (isinstance(about, Cause) or about in _TABLES) and finding.kernel is None


def explained(finding: Finding, analysis: Analysis) -> Question | None:
    """For each GPU the rows that a finding counts, their time in the analysed window and in a step, as recorded."""
    if not can_be_explained(finding):
        return None
    about, (start, end) = finding.category.about, analysis.window
    if isinstance(about, Cause):
        table = "gaps"
        amount = f"least(end_ns, {end}) - greatest(start_ns, {start})"
        where = f"cause = '{about.key}' AND end_ns > {start} AND start_ns < {end}"
    else:
        assert isinstance(about, Family)
        table, amount = _TABLES[about], "exposed_ns"
        where = f"exposed_ns > 0 AND start_ns >= {start} AND start_ns < {end}"
    steps = max(analysis.steps_in_window, 1)
    recorded = f"{duration(analysis.window_ns)}, {steps} step{'s' if steps != 1 else ''}, as recorded"
    sql = "\n".join(
        [
            f"-- {one_line(finding.title)}",
            f"-- the sum over {recorded}; without the profiler it is {percent(finding.share)}",
            f"SELECT device, count(*) AS {table}, sum(ns) AS total_ns, sum(ns) / {steps} AS a_step_ns,",
            f"       100.0 * sum(ns) / {analysis.window_ns} AS percent",
            f"FROM (SELECT device, {amount} AS ns FROM {table}",
            f"      WHERE {where})",
            "GROUP BY device ORDER BY total_ns DESC",
        ]
    )
    return Question(f"explain {finding.rule}", finding.title, "", sql, (table,))


@dataclass(frozen=True, slots=True)
class Behind:
    """The rows of a table that figures are worked out from: ``amounts`` in SQL by what they are called.

    The line below the answer adds them up, so that it says what the figures say.
    """

    title: str
    table: str
    where: str
    amounts: Mapping[str, str] = field(default_factory=lambda: {"duration_ns": "duration_ns"})
    named: tuple[str, ...] = ("event", "name")

    @property
    def question(self) -> Question:
        """The rows, the largest first amount leading."""
        shown = [f"{sql} AS {name}" if sql != name else name for name, sql in self.amounts.items()]
        sql = "\n".join(
            [
                f"-- {one_line(self.title)}: what it is the sum of",
                f"SELECT {', '.join([*self.named, 'start_ns', *shown])}",
                f"FROM {self.table}",
                f"WHERE {self.where}",
                f"ORDER BY {next(iter(self.amounts))} DESC NULLS LAST",
            ]
        )
        return Question(f"explain {self.title}", one_line(self.title), "", sql, (self.table,))


def quoted(text: str) -> str:
    """A text in SQL."""
    return "'" + text.replace("'", "''") + "'"


def starting_in(span: tuple[int, int]) -> str:
    """The condition that rows start in [t0, t1), ns."""
    return f"start_ns >= {span[0]} AND start_ns < {span[1]}"


def is_explained(key: str) -> bool:
    """Whether a part of the budget is the sum of rows of a table."""
    return key in ("compute", "communication", "copy", "other") or any(cause.key == key for cause in Cause)


def part_behind(analysis: Analysis, device: int, key: str, label: str, span: tuple[int, int]) -> Behind:
    """What a part of the budget of a device (an index) adds up, as recorded; by the key of the part."""
    inside = f"{_of_device(analysis, device)} AND end_ns > {span[0]} AND start_ns < {span[1]}"
    if any(cause.key == key for cause in Cause):
        where = f"{inside} AND cause = {quoted(key)}"
        return Behind(label, "gaps", where, _within(span), ("event", "culprit"))
    return Behind(label, "device_time", f"{inside} AND part = {quoted(key)}", _within(span), ("part",))


def device_behind(analysis: Analysis, device: int) -> Behind:
    """What a GPU did all the time that was analysed, of which its figures are the sums."""
    start, end = analysis.window
    title = short_device_name(analysis.trace, device)
    where = f"{_of_device(analysis, device)} AND end_ns > {start} AND start_ns < {end}"
    return Behind(title, "device_time", where, _within(analysis.window), ("part", "cause"))


def _of_device(analysis: Analysis, device: int) -> str:
    gpu = analysis.trace.devices[device]
    return f"device = {gpu.id}" + (f" AND rank = {gpu.rank}" if gpu.rank is not None else "")


def _within(span: tuple[int, int]) -> dict[str, str]:
    return {"inside_ns": f"least(end_ns, {span[1]}) - greatest(start_ns, {span[0]})"}
