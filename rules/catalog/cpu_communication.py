"""Collectives that a CPU runs and that nothing it computes covers."""

from __future__ import annotations

from collections.abc import Iterable

from parsers.model.units import duration
from rules.analysis.analysis import Analysis
from rules.analysis.arithmetic.intervals import clip, pairs
from rules.analysis.ranks.on_cpu import ranks_on_cpu
from rules.findings.base import Category, Finding, Need, Rule, rule
from rules.losses.lost_time import evidence_of
from rules.remedies.communication import LESS_ON_CPU
from rules.terms.culprit import Culprit, CulpritKind
from rules.terms.thresholds import MIN_SHARE
from rules.wording.headline import Headline
from rules.wording.phrases import counted, of_every_step, part_of_steps

MAX_EVIDENCE = 20


@rule
class CpuCommunication(Rule):
    """Time in collectives of CPUs in which the training thread computes nothing."""

    id = "cpu-communication"
    category = Category.EXPOSED_COMMUNICATION
    needs = frozenset({Need.CPU_EVENTS})
    explanation = """
What it found
    Only CPUs were recorded, and the training thread waits while a collective (gloo, MPI) runs.

Why it costs time
    Communication is free as long as computation covers it. What is not covered makes the step longer.

How it decides
    It adds up the time in which a collective of a rank runs and its training thread runs neither an operator nor a
    data loader. If one rank is late, its own time shows the transfers alone: anything the others wait beyond that is
    another finding. Otherwise it takes the mean of the ranks. Below {least-share} of the step nothing is reported.

What to try
    Send less, send less often, or send while the step computes.

When it is wrong
    In one rank's recording alone, waiting for another rank looks like communication. Open all ranks together.
"""

    def check(self, analysis: Analysis) -> Iterable[Finding]:
        ranks = ranks_on_cpu(analysis)
        if ranks is None:
            return
        worst = ranks.late if ranks.late >= 0 else int(ranks.exposed.argmax())
        step_ns = ranks.step_ns
        if ranks.transfers < analysis.thresholds[MIN_SHARE] * step_ns:
            return
        longest = ranks.longest(worst)
        table, trace = analysis.trace.events, analysis.trace
        start, end = analysis.window
        inside = longest[(table.start[longest] >= start) & (table.start[longest] < end)]
        often = counted(analysis, len(inside), "collective", verb="run")
        waits = part_of_steps(ranks.transfers, step_ns, analysis.steps_in_window)
        alone = len(ranks.ranks) == 1
        yield self.finding(
            analysis,
            headline=Headline(
                "Communication between CPUs is not hidden", of_every_step(analysis, ranks.transfers / step_ns)
            ),
            account=f"{often} on the CPU, up to {duration(int(table.duration[inside].max(initial=0)))} each. "
            f"For {waits} the training thread does nothing but wait for them."
            + (" Part of it may be waiting for another rank: only one is open." if alone else ""),
            remedy=LESS_ON_CPU,
            ceiling_ns=ranks.transfers,
            window_ns=step_ns,
            culprit=Culprit(CulpritKind.OPERATOR, trace.name(int(longest[0]))),
            rank=ranks.ranks[worst],
            evidence=evidence_of(trace, inside[:MAX_EVIDENCE]),
            intervals=pairs(clip(ranks.times[worst].communicating, *analysis.window)),
        )
