"""What a figure on the screen is the sum of, as a question in SQL."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import TYPE_CHECKING

from parsers.model.arrays import distinct_values
from parsers.model.late import dataclass
from parsers.model.names.devices import short_device_name
from parsers.model.units import base_unit, duration, how_many, percent
from rules.analysis.idle.causes import Cause
from rules.analysis.names.families import Family
from rules.verdict.promises import promise_for, worded_shortly
from viewer.appearance.plain_text import one_line
from viewer.query.questions import Question

if TYPE_CHECKING:
    from parsers.model import Counter, Trace
    from rules import Finding
    from rules.analysis.analysis import Analysis
    from rules.fixes.plan import Plan, Promise
    from rules.memory.account import DeviceMemory
    from viewer.statistics.memory import MemoryRow

_OF_ALLOCATIONS = ("kind", "function", "file", "line", "operator", "start_ns", "end_ns")
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
    recorded = f"{duration(analysis.window_ns)}, {how_many(steps, 'step')}, as recorded"
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
    named: tuple[str, ...] = ("event", "name", "start_ns")
    said: str = "what it is the sum of"

    @property
    def question(self) -> Question:
        """The rows, the largest first amount leading."""
        shown = [f"{sql} AS {name}" if sql != name else name for name, sql in self.amounts.items()]
        sql = "\n".join(
            [
                f"-- {one_line(self.title)}: {self.said}",
                f"SELECT {', '.join([*self.named, *shown])}",
                f"FROM {self.table}",
                f"WHERE {self.where}",
                f"ORDER BY {next(iter(self.amounts))} DESC NULLS LAST",
            ]
        )
        return Question(f"explain {self.title}", one_line(self.title), "", sql, (self.table,))


def quoted(text: str) -> str:
    """A text in SQL."""
    return "'" + text.replace("'", "''") + "'"


def of_device(trace: Trace, device: int) -> str:
    """The condition that rows are of a device (an index)."""
    gpu = trace.devices[device]
    return f"device = {gpu.id}" + (f" AND rank = {gpu.rank}" if gpu.rank is not None else "")


def starting_in(span: tuple[int, int]) -> str:
    """The condition that rows start in [t0, t1), ns."""
    return f"start_ns >= {span[0]} AND start_ns < {span[1]}"


def is_explained(key: str) -> bool:
    """Whether a part of the budget is the sum of rows of a table."""
    return key in ("compute", "communication", "copy", "other") or any(cause.key == key for cause in Cause)


def part_behind(analysis: Analysis, device: int, key: str, label: str, span: tuple[int, int]) -> Behind:
    """What a part of the budget of a device (an index) adds up, as recorded; by the key of the part."""
    inside = f"{of_device(analysis.trace, device)} AND end_ns > {span[0]} AND start_ns < {span[1]}"
    if any(cause.key == key for cause in Cause):
        where = f"{inside} AND cause = {quoted(key)}"
        return Behind(label, "gaps", where, _within(span), ("event", "culprit", "start_ns"))
    return Behind(
        label, "device_time", f"{inside} AND part = {quoted(key)}", _within(span), ("part", "start_ns")
    )


def device_behind(analysis: Analysis, device: int) -> Behind:
    """What a GPU did all the time that was analysed, of which its figures are the sums."""
    start, end = analysis.window
    title = short_device_name(analysis.trace, device)
    where = f"{of_device(analysis.trace, device)} AND end_ns > {start} AND start_ns < {end}"
    return Behind(title, "device_time", where, _within(analysis.window), ("part", "cause", "start_ns"))


def promise_behind(finding: Finding, plan: Plan | None) -> Promise | None:
    """The fix whose gain a card tells, where that is the difference of two steps."""
    promise = promise_for(finding, plan) if finding.leads else None
    told_otherwise = finding.of_recording or finding.kernel is not None
    return None if promise is None or promise.proposal.redesign or told_otherwise else promise


def gain_behind(promise: Promise) -> Behind:
    """The parts of a step before and after a fix, which is what its gain compares."""
    amounts = {name: name for name in ("saved_ns", "before_ns", "after_ns")}
    said = f"{worded_shortly(promise)}, which compares the sums before and after"
    where = f"fix = {quoted(promise.id)}"
    return Behind(promise.proposal.title, "predicted_steps", where, amounts, ("part",), said)


def held_behind(trace: Trace, memory: DeviceMemory, when: int, row: MemoryRow | None = None) -> Behind:
    """The allocations that a GPU's memory holds at a moment (ns), or those that a row of the moment adds up."""
    alive = f"coalesce(start_ns <= {when}, true) AND coalesce(end_ns > {when}, true)"
    where = f"{of_device(trace, memory.device)} AND {alive}"
    title = f"Allocated at {duration(when)}"
    if row is not None:
        title, where = row.what, f"{where} AND {_alike(memory, row)}"
    return Behind(title, "allocations", where, {"size_bytes": "size_bytes"}, _OF_ALLOCATIONS)


def _alike(memory: DeviceMemory, row: MemoryRow) -> str:
    """What the allocations of a row have in common."""
    table = memory.memory.allocations
    if row.column == "stack":
        stacks = distinct_values(table.stack[row.members])
        known = ", ".join(map(str, stacks[stacks >= 0].tolist()))
        told = [f"stack IN ({known})"] * bool(known) + ["stack IS NULL"] * bool((stacks < 0).any())
        return f"({' OR '.join(told)})"
    if not row.is_known:
        return f"{row.column} IS NULL"
    starts, sizes = table.start[row.members], table.size[row.members]
    return {
        "start_ns": f"start_ns BETWEEN {starts.min()} AND {starts.max()}",
        "size_bytes": f"size_bytes = {sizes[0]}",
    }.get(row.column, f"{row.column} = {quoted(row.what)}")


def counter_behind(trace: Trace, counter: Counter) -> Behind:
    """The samples of a counter of memory, the largest first."""
    factor, _ = base_unit(counter.unit)
    where = f"name = {quoted(counter.name)}"
    where += f" AND rank = {counter.rank}" if counter.rank is not None else ""
    where += f" AND device = {trace.devices[counter.device].id}" if counter.device is not None else ""
    amounts = {"held_bytes": f"value * {factor:.0f}" if factor != 1 else "value"}
    return Behind(counter.name, "counters", where, amounts, ("time_ns AS start_ns",))


def _within(span: tuple[int, int]) -> dict[str, str]:
    return {"inside_ns": f"least(end_ns, {span[1]}) - greatest(start_ns, {span[0]})"}
