"""Ranks that run on CPUs: collectives that nothing covers, and waiting for the rank that arrives last."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from parsers.model.units import duration
from rules.analysis.analysis import Analysis
from rules.analysis.arithmetic.intervals import clip, pairs
from rules.analysis.ranks.on_cpu import RanksOnCpu, ranks_on_cpu
from rules.findings.base import Category, Finding, Need, Rule, rule
from rules.losses.cpu_messages import MIN_MESSAGES, SMALL, reduced_in_each_pass, small_messages
from rules.losses.lost_time import evidence_of
from rules.remedies.communication import JOINED_ON_CPU, LESS_ON_CPU, REDUCE_ONCE, keep_up_on_cpu
from rules.terms import MIN_SHARE, Culprit, CulpritKind, quoted
from rules.wording.words import Headline, counted, of_every_step, part_of_steps

MAX_EVIDENCE = 20
NOT_HIDDEN = "Communication between CPUs is not hidden"


@rule
class CpuCommunication(Rule):
    id = "cpu-communication"
    category = Category.EXPOSED_COMMUNICATION
    needs = frozenset({Need.CPU_EVENTS})
    explanation = f"""
What it found
    Only CPUs were recorded, and the training thread waits while a collective (gloo, MPI) runs.

Why it costs time
    Communication is free as long as computation covers it. What is not covered makes the step longer.

How it decides
    It adds up the time in which a collective of a rank runs and its training thread runs neither an operator nor a
    data loader. If one rank is late, its own time shows the transfers alone: anything the others wait beyond that is
    another finding. Otherwise it takes the mean of the ranks. Below {{least-share}} of the step nothing is reported.
    Where each forward pass of DistributedDataParallel is followed by a reduction, and several passes come to one
    update, all but the last one's part could go. Where most of the time goes to {MIN_MESSAGES} or more messages a step
    of at most {SMALL:,} elements, all but one of them could, with what starting them takes.

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
        passes = reduced_in_each_pass(ranks)
        small, small_ns = small_messages(ranks, worst) if passes == 1 else (0, 0)
        could_go = 1 - 1 / passes if passes > 1 else 1.0
        takes = max(ranks.transfers, small_ns)
        if takes < analysis.thresholds[MIN_SHARE] * step_ns:
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
            headline=Headline(_what(passes, small), of_every_step(analysis, takes / step_ns)),
            account=f"{often} on the CPU, up to {duration(int(table.duration[inside].max(initial=0)))} each. "
            f"For {waits} the training thread does nothing but wait for them."
            + (
                f" {small:,} of them hold few numbers, and would take about as long as one together."
                if small
                else ""
            )
            + (" Part of it may be waiting for another rank: only one is open." if alone else ""),
            remedy=REDUCE_ONCE if passes > 1 else JOINED_ON_CPU if small else LESS_ON_CPU,
            ceiling_ns=small_ns or round(ranks.transfers * could_go),
            window_ns=step_ns,
            culprit=Culprit(CulpritKind.OPERATOR, trace.name(int(longest[0]))),
            rank=ranks.ranks[worst],
            evidence=evidence_of(trace, inside[:MAX_EVIDENCE]),
            intervals=pairs(clip(ranks.times[worst].communicating, *analysis.window)),
        )


def _what(passes: int, small: int) -> str:
    if passes > 1:
        return f"Gradients are reduced after each of {passes} backward passes"
    return f"{small:,} small messages are sent one by one" if small else NOT_HIDDEN


MIN_MORE = 0.25  # of what the others wait: so much longer in one range explains the lateness


@rule
class CpuLateRank(Rule):
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
