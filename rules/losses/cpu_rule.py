"""What rules about the steps of a program on the CPU alone have in common."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable
from typing import Any

from parsers.model import Trace
from rules.analysis.analysis import Analysis
from rules.analysis.arithmetic.intervals import Intervals
from rules.analysis.cpu.cpu_time import CpuTime, cpu_time
from rules.findings.base import Category, Finding, Need, Rule
from rules.losses.cpu_work import MIN_STEPS, culprit_of, own_lines
from rules.terms.culprit import Culprit, CulpritKind
from rules.wording.headline import Headline
from rules.wording.phrases import of_every_step, without_stacks
from rules.wording.words import Words


class CpuRule(Rule):
    """A rule that judges recordings of operators on the CPU in which no GPU worked."""

    category = Category.HOST_BOUND
    needs = frozenset({Need.CPU_EVENTS})
    steps_needed = MIN_STEPS

    def check(self, analysis: Analysis) -> Iterable[Finding]:
        time = cpu_time(analysis)
        if time is not None and time.is_all and time.steps >= self.steps_needed:
            yield from self.of_steps(analysis, time)

    @abstractmethod
    def of_steps(self, analysis: Analysis, time: CpuTime) -> Iterable[Finding]:
        """The findings of this rule in the time of the busiest thread."""

    def lost(
        self,
        analysis: Analysis,
        time: CpuTime,
        ns: int,
        title: str,
        *,
        took: float | None = None,
        **said: Any,
    ) -> Finding:
        """A finding that could give back ``ns`` of the window; the title names the share that it ``took``."""
        share = (ns if took is None else took) / time.step_ns
        headline = Headline(title, of_every_step(analysis, share))
        return self.finding(analysis, ceiling_ns=ns, window_ns=time.step_ns, headline=headline, **said)


def line_or_operator(
    analysis: Analysis, time: CpuTime, operator: str, within: Intervals | None = None
) -> Culprit:
    """The program's own line that holds most of some time, or else an operator."""
    return culprit_of(analysis, own_lines(analysis, time, within), Culprit(CulpritKind.OPERATOR, operator))


def unknown_lines(trace: Trace, do_what: str) -> tuple[Words]:
    """That nobody knows which lines it is, where Python's stacks were not recorded."""
    return (
        without_stacks(trace, f"Which of your lines {do_what}: record again with Python stacks (--stacks)."),
    )
