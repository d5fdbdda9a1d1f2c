"""Ranks that run on CPUs wait in a collective for the one that arrives last."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from parsers.model.units import duration
from rules.analysis.analysis import Analysis
from rules.analysis.arithmetic.intervals import clip, pairs
from rules.analysis.ranks.on_cpu import RanksOnCpu, ranks_on_cpu
from rules.findings.base import Category, Finding, Need, Rule, rule
from rules.losses.lost_time import evidence_of
from rules.remedies.communication import keep_up_on_cpu
from rules.terms.culprit import Culprit, CulpritKind, quoted
from rules.terms.thresholds import MIN_SHARE
from rules.wording.headline import Headline
from rules.wording.phrases import of_every_step, part_of_steps

MAX_EVIDENCE = 20
MIN_MORE = 0.25  # of what the others wait: so much longer in one range explains the lateness


@rule
class CpuLateRank(Rule):
    """Waiting inside collectives of CPUs for the rank that arrives last."""

    id = "cpu-late-rank"
    category = Category.STRAGGLER
    needs = frozenset({Need.CPU_EVENTS, Need.SEVERAL_RANKS})
    explanation = f"""
What it found
    Only CPUs were recorded, their collectives (gloo, MPI) run on the CPU, and the same rank arrives at them last.

Why it costs time
    A collective can only start when every rank is there. The whole group runs at the pace of the last rank.

How it decides
    It matches collectives across ranks by name, shape and order. The transfer takes about as long as the shortest
    participant; the rest of each longer one is waiting. Only waiting during which the rank's training thread runs
    neither an operator nor a data loader counts. It fires when more than half of all waiting ends with the arrival of
    one rank and costs more than {{least-share}} of the step. A range of the program is blamed if the late rank spends
    at least {MIN_MORE:.0%} of the others' waiting longer in it than they do.

What to try
    Give that rank the same work as the others, and look at what it does in the meantime.

When it is wrong
    If not all ranks were recorded, or if ranks share the cores of one machine and take turns on them.
"""

    def check(self, analysis: Analysis) -> Iterable[Finding]:
        ranks = ranks_on_cpu(analysis)
        if ranks is None or ranks.late < 0:
            return
        lost, late = ranks.lost_to_late, ranks.late
        patient = int(ranks.others[ranks.exposed[ranks.others].argmax()])
        step_ns = ranks.step_ns
        if lost < analysis.thresholds[MIN_SHARE] * step_ns:
            return
        name = f"rank {ranks.ranks[late]}"
        region, more = ranks.more_in()
        steps = max(analysis.steps_in_window, 1)
        because = ""
        if region and more >= MIN_MORE * lost:
            because = (
                f"{name.capitalize()} spends {duration(more / steps)} more of a step in {quoted(region)}."
            )
        arrives = _arrives(ranks, "It" if because else name.capitalize())
        costs = part_of_steps(lost, step_ns, analysis.steps_in_window)
        yield self.finding(
            analysis,
            headline=Headline(
                f"Other ranks wait for {name}", of_every_step(analysis, lost / step_ns), names_culprit=True
            ),
            account=f"{because} {arrives} That costs up to {costs}.".lstrip(),
            remedy=keep_up_on_cpu(name, region if because else ""),
            ceiling_ns=lost,
            window_ns=step_ns,
            culprit=Culprit(CulpritKind.RANK, name),
            because=because,
            rank=ranks.ranks[late],
            evidence=evidence_of(analysis.trace, ranks.waits(patient)[:MAX_EVIDENCE]),
            intervals=pairs(clip(ranks.times[patient].communicating, *analysis.window)),
            unknown=("Why its CPU is slower: compare clocks and CPU load of the machines.",),
        )


def _arrives(ranks: RanksOnCpu, who: str) -> str:
    meetings = ranks.meetings
    theirs = meetings.meeting[meetings.of_row(ranks.late)]
    met = meetings.in_window & np.isin(np.arange(len(meetings.size)), theirs)
    last = met & (meetings.row[meetings.last] == ranks.late)
    others = len(ranks.others)
    waiters = f"the other {others:,} wait" if others > 1 else "the other one waits"
    counts = f"{int(last.sum()):,} of {int(met.sum()):,} collectives"
    return f"{who} arrives last at {counts}, and {waiters} for it there."
