"""Ranks that run on CPUs: collectives that nothing covers, and waiting for the rank that arrives last."""

from __future__ import annotations

import math
from collections.abc import Iterable

import numpy as np

from parsers.model import BOOL, I64, Attribute, EventKind, Trace
from parsers.model.arrays import distinct_values
from parsers.model.late import regex
from parsers.model.names.per_name import named
from parsers.model.units import duration
from rules.analysis.analysis import Analysis
from rules.analysis.arithmetic.intervals import clip, pairs, union
from rules.analysis.cpu.cpu_time import CpuTime
from rules.analysis.ranks.on_cpu import RanksOnCpu, ranks_on_cpu
from rules.analysis.stretches.backward_again import passes_of_an_update
from rules.findings.base import Category, Finding, Need, Rule, rule
from rules.kernels.recorded_shapes import tensors_in
from rules.losses.lost_time import evidence_of
from rules.remedies.communication import JOINED_ON_CPU, LESS_ON_CPU, REDUCE_ONCE, keep_up_on_cpu
from rules.terms import MAJORITY, MIN_SHARE, NEARLY_ALL, Culprit, CulpritKind, quoted
from rules.wording.words import Headline, counted, of_every_step, part_of_steps

MIN_MESSAGES = 8  # small ones of a rank in a step: fewer may be one for each of a few buckets
SMALL = 16_384  # elements: 64 KiB take a tenth of a millisecond at 1 GB/s, as starting a message does
MIN_GRADIENTS = 256  # elements: less is a loss, or how often a metric was right
_FORWARD = "DistributedDataParallel.forward"
_REDUCES = regex(r"(gloo|mpi|ucc):_?all_?reduce")
_STARTS = regex(r"c10d::")


def reduced_in_each_pass(ranks: RanksOnCpu) -> int:
    """After how many backward passes of an update each the gradients are reduced; 1 where they are once, or unknown."""
    trace = ranks.times[0].trace
    passes = passes_of_an_update(trace, _FORWARD)
    if passes < 2:
        return 1
    table, regions = trace.events, trace.events.of_kind(EventKind.REGION)
    forward = regions[named(trace, regions, lambda name: name.startswith(_FORWARD))]
    reduces = ranks.events[named(trace, ranks.events, _REDUCES.match)]
    reduces = reduces[_elements(trace, reduces) >= MIN_GRADIENTS]
    for rank in ranks.ranks:
        begins, mine = (each[_is_of_rank(trace, each, rank)] for each in (forward, reduces))
        behind = np.searchsorted(np.sort(table.start[begins]), table.start[mine], side="right")
        if np.count_nonzero(distinct_values(behind)) < NEARLY_ALL * len(begins):
            return 1
    return passes


def small_messages(ranks: RanksOnCpu, row: int) -> tuple[int, int]:
    """How many small messages a rank sends in a step one by one, and what all but one of them cost in the window (ns).

    0 where they are few, or take less than half of the time of all. Starting them counts, as well as waiting for them.
    """
    time, trace = ranks.times[row], ranks.times[0].trace
    table, events = trace.events, ranks.events[_is_of_rank(trace, ranks.events, ranks.ranks[row])]
    inside = (table.start[events] >= time.window[0]) & (table.start[events] < time.window[1])
    events = events[inside]
    took, small = table.duration[events], _elements(trace, events) <= SMALL
    often = round(np.count_nonzero(small) / max(time.steps, 1))
    part = float(took[small].sum() / max(took.sum(), 1))
    if often < MIN_MESSAGES or part < MAJORITY:
        return 0, 0
    return often, round((ranks.transfers + _starting_ns(time)) * part * (1 - 1 / often))


def _starting_ns(time: CpuTime) -> int:
    """How long the thread is in operators that hand a message over."""
    mine = time.activity.of_kind(EventKind.CPU_OP)
    mine = mine[named(time.trace, mine, _STARTS.match)]
    return time.without_recorder(clip(union(*time.trace.events.spans(mine)), *time.window))


def _elements(trace: Trace, events: I64) -> I64:
    """How many elements each message has; more than any where that was not recorded."""
    dims = trace.attribute(Attribute.INPUT_DIMS, events, -1)
    known = {
        each: sum(map(math.prod, tensors_in(trace.strings[each])))
        for each in distinct_values(dims).tolist()
        if each >= 0
    }
    return np.array([known.get(each, np.iinfo(np.int64).max) for each in dims.tolist()], np.int64)


def _is_of_rank(trace: Trace, events: I64, rank: int | None) -> BOOL:
    lanes = np.array([each.rank == rank for each in trace.lanes], bool)
    return np.asarray(lanes[trace.events.lane[events]])


MAX_EVIDENCE = 20
NOT_HIDDEN = "Communication between CPUs is not hidden"


@rule
class CpuCommunication(Rule):
    id = "cpu-communication"
    category = Category.EXPOSED_COMMUNICATION
    needs = frozenset({Need.CPU_EVENTS})
    of_the_cpu_alone = True
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
    of_the_cpu_alone = True
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
