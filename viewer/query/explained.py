"""The sum behind the figure of a finding, as a question in SQL."""

from __future__ import annotations

from typing import TYPE_CHECKING

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
