"""Collectives and messages that never ended, and those in which ranks do not agree."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from parsers.model import Attribute, Trace
from parsers.model.units import capital
from rules.analysis.analysis import Analysis
from rules.analysis.ranks.flight_recorders import (
    Absent,
    Called,
    Mismatch,
    OpenMessage,
    Stuck,
    is_open,
    mismatches,
    recorded_ranks,
    stuck_collectives,
    unmet_messages,
)
from rules.findings.base import Category, Finding, Need, Remedy, Rule, Severity, remedy, rule
from rules.losses.flight_recorders import (
    at_place,
    evidence_of_call,
    named_call,
    place_of,
    ranks_in_words,
    when,
)
from rules.terms import NOBODY, Culprit, CulpritKind, SourceLine
from rules.wording.words import Headline

MAX_LISTED = 3  # groups in which something hangs, and ranks that are told about one by one
_STUCK_CODE = """# py-spy dump --pid PID             # where the rank that is missing is now
if dist.get_rank() == 0:            # a branch that not all ranks take ...
    log(loss)                       # ... must not hold a collective
dist.all_reduce(loss)               # every rank of the group comes here, in the same order"""

_CIRCLE = " The ranks wait for each other in a circle."
_SAME_ORDER = "Call the collectives of different groups in the same order on all ranks that share them."


@rule
class HangingCollective(Rule):
    id = "hanging-collective"
    category = Category.HANG
    needs = frozenset({Need.FLIGHT_RECORDER})
    explanation = """
What it found
    Some ranks called a collective and it did not end. If a rank of its group never called it, that rank is named,
    with the last call it made.

Why it costs time
    All others wait until the watchdog aborts the run, and then everything since the last checkpoint is lost.

How it decides
    From flight recorder dumps. Ranks number the collectives of a process group in the order in which they call them.
    In each group it takes the lowest number that did not end on some rank: a rank of the group whose last call has a
    lower number never got there. If that rank is waiting in another group, this is reported too, and the group that
    holds up no rank waiting elsewhere comes first. If the dumps say which ranks a group has, those without a dump are
    named.

What to try
    Look at the code after the last call of the missing rank: a branch or an early end that only it takes, an exception,
    a data loader with fewer batches, an evaluation. py-spy shows where it is now.

When it is wrong
    A dump of a healthy run, taken by hand, contains collectives that are in progress. gloo and older versions of
    PyTorch do not state who belongs to a group: a rank that never called anything in it is then not reported missing.
"""

    def check(self, analysis: Analysis) -> Iterable[Finding]:
        trace = analysis.trace
        explained = {each.odd[0].group: each.odd[0].sequence for each in mismatches(trace)}
        stuck = [
            each
            for each in stuck_collectives(trace)
            if explained.get(each.first.group, each.first.sequence + 1) > each.first.sequence
        ]
        in_a_circle = all(each.is_waited_for_elsewhere for each in stuck)
        for each in stuck[:MAX_LISTED]:
            yield self._finding(analysis, each, len(stuck), in_a_circle)

    def _finding(self, analysis: Analysis, stuck: Stuck, groups: int, in_a_circle: bool) -> Finding:
        trace, first = analysis.trace, stuck.first
        waiting = [each for each in stuck.came if is_open(each)]
        end = max(int(trace.events.end[each.event]) for each in waiting)
        missing = stuck.missing
        follows = stuck.is_waited_for_elsewhere and not in_a_circle
        calls = [*waiting, *(each.last for each in stuck.absent)]
        return self.finding(
            analysis,
            severity=Severity.HIGH if missing and not follows else Severity.MEDIUM,
            headline=_stuck_headline(stuck, waiting),
            account=_stuck_account(trace, stuck, waiting, groups) + (_CIRCLE if in_a_circle else ""),
            remedy=Remedy(((_SAME_ORDER,) if in_a_circle else ()) + _remedies(stuck), _STUCK_CODE),
            ceiling_ns=0 if follows else min(end - first.start, trace.duration),
            window_ns=trace.duration,
            culprit=Culprit(CulpritKind.RANK, ranks_in_words(missing)) if missing else NOBODY,
            because=f"{_waiting_since(trace, stuck, waiting)}.",
            rank=missing[0] if len(missing) == 1 else None,
            evidence=tuple(evidence_of_call(trace, each) for each in calls[:20]),
            intervals=((first.start, end),) if end > first.start else (),
            unknown=(_unknown(trace, stuck),),
        )


def _stuck_headline(stuck: Stuck, waiting: Sequence[Called]) -> Headline:
    call = named_call(stuck.first)
    if stuck.absent:
        who = ranks_in_words(stuck.missing)
        return Headline(f"{capital(who)} never reached {call}", names_culprit=True)
    who = ranks_in_words([each.rank for each in waiting])
    if stuck.unrecorded:
        return Headline(
            f"{capital(who)} {'waits' if len(waiting) == 1 else 'wait'} in {call}; {len(stuck.unrecorded)} left no dump"
        )
    if len(stuck.came) == 1:
        return Headline(f"{capital(who)} waits in {call}")
    return Headline(f"All reached {call}, and it did not end")


def _stuck_account(trace: Trace, stuck: Stuck, waiting: Sequence[Called], groups: int) -> str:
    text = _waiting_since(trace, stuck, waiting, f" in {named_call(stuck.first)} of {stuck.first.group}")
    text += f"{at_place(stuck.first)}."
    by_guilt = sorted(stuck.absent, key=lambda each: each.rank not in stuck.missing)
    for each in by_guilt[:MAX_LISTED]:
        text += f" {_told(trace, each)}"
    if len(stuck.absent) > MAX_LISTED:
        text += f" {len(stuck.absent) - MAX_LISTED:,} more are missing."
    if not stuck.absent:
        text += _without_absent(stuck, waiting)
    if stuck.unrecorded:
        text += f" There is no dump of {ranks_in_words(stuck.unrecorded)}."
    return text if groups == 1 else f"{text} Something hangs in {groups} groups."


def _waiting_since(trace: Trace, stuck: Stuck, waiting: Sequence[Called], where: str = "") -> str:
    who = capital(ranks_in_words([each.rank for each in waiting]))
    return f"{who} {'has' if len(waiting) == 1 else 'have'} waited{where} since {when(trace, stuck.first)}"


def _told(trace: Trace, absent: Absent) -> str:
    last = absent.last
    text = f"{capital(ranks_in_words([absent.rank]))} called {named_call(last)} last, at {when(trace, last)}"
    text += at_place(last)
    if absent.waits is not None:
        waits = absent.waits
        return f"{text}; since {when(trace, waits)} it waits in {named_call(waits)} of {waits.group}{at_place(waits)}."
    return f"{text}, and that ended: no further call of that rank was seen."


def _without_absent(stuck: Stuck, waiting: Sequence[Called]) -> str:
    if len(stuck.came) == 1 and not stuck.unrecorded:
        return " The dumps of the other ranks show which one is missing."
    states = {each.state for each in waiting}
    if len(states) < 2:
        return ""
    late = [each.rank for each in waiting if each.state is min(states, key=lambda state: state.value)]
    return (
        f" On {ranks_in_words(late)} the GPU has not started it: earlier work on the same stream blocks it."
    )


def _remedies(stuck: Stuck) -> tuple[str, ...]:
    if not stuck.absent:
        return (
            "Open the dumps of all ranks together: the rank that is missing has none, or its process has ended."
            if stuck.unrecorded or len(stuck.came) == 1
            else "Check the network and the GPUs of these ranks: NCCL_DEBUG=INFO, XIDs in the kernel log.",
        )
    missing = next(each for each in stuck.absent if each.rank in stuck.missing)
    who = ranks_in_words([missing.rank])
    after = f"after {place_of(missing.last)}" if missing.last.place else "after its last call"
    return (
        f"Check what {who} does {after}: a branch, an exception or an early end that the others do not take.",
        "If its process still runs, py-spy dump --pid PID shows where it is; if not, its own log tells why.",
        "If it is only slow there (evaluation, a checkpoint, its data), let all ranks do the same, or raise the "
        "timeout.",
    )


def _unknown(trace: Trace, stuck: Stuck) -> str:
    if stuck.absent:
        return "Where the missing rank is now: see its stack (py-spy dump) or its log."
    if len(recorded_ranks(trace)) == 1:
        return "What the other ranks called: open all dumps together."
    return "Whether it would still have ended: how long a collective may take is not recorded."


_MESSAGES_CODE = """# Both ends in the same order, at once: neither waits for the other to begin
works = dist.batch_isend_irecv([dist.P2POp(dist.isend, out, after), dist.P2POp(dist.irecv, into, before)])
for work in works:
    work.wait()"""


@rule
class HangingMessage(Rule):
    id = "hanging-message"
    category = Category.HANG
    needs = frozenset({Need.FLIGHT_RECORDER})
    explanation = """
What it found
    A rank sends to another, or waits for a message from it, and the other never made the matching call.

Why it costs time
    Both wait until the watchdog aborts the run, and so do all ranks that wait for them.

How it decides
    From flight recorder dumps: a send or a receive that did not end, while the rank at the other end has no open
    message between the two. If that rank is waiting in something else, this is reported too.

What to try
    Match every send with a receive, in the same order on both ends: the same number of micro-batches on all stages of
    a pipeline, and batch_isend_irecv if both directions are used at once.

When it is wrong
    A dump of a healthy run, taken by hand, contains messages that are in progress. Only ranks with a dump can be
    checked.
"""

    def check(self, analysis: Analysis) -> Iterable[Finding]:
        unmet = unmet_messages(analysis.trace)
        known = [each for each in unmet if each.is_recorded]
        for each in (known or list(unmet))[:MAX_LISTED]:
            yield self._finding(analysis, each)

    def _finding(self, analysis: Analysis, unmet: OpenMessage) -> Finding:
        trace, call = analysis.trace, unmet.call
        other, end = ranks_in_words([unmet.other]), int(trace.events.end[call.event])
        never = f"{capital(other)} never answered {named_call(call)}"
        lost = f"{capital(ranks_in_words([call.rank]))} waits in {named_call(call)}; {other} left no dump"
        return self.finding(
            analysis,
            severity=Severity.HIGH if unmet.is_recorded else Severity.MEDIUM,
            headline=Headline(never, names_culprit=True) if unmet.is_recorded else Headline(lost),
            account=_unmet_account(trace, unmet),
            remedy=remedy(
                f"Compare what {ranks_in_words([call.rank])} and {other} send and receive, and in which order: as "
                "many micro-batches, the same stages.",
                "Use batch_isend_irecv if both directions are used at once.",
                code=_MESSAGES_CODE,
            ),
            ceiling_ns=min(end - call.start, trace.duration),
            window_ns=trace.duration,
            culprit=Culprit(CulpritKind.RANK, other),
            because=f"{capital(ranks_in_words([call.rank]))} has waited since {when(trace, call)}.",
            rank=unmet.other,
            evidence=(evidence_of_call(trace, call),),
            intervals=((call.start, end),) if end > call.start else (),
            unknown=("Where the other rank is now: see its stack (py-spy dump) or its log.",),
        )


def _unmet_account(trace: Trace, unmet: OpenMessage) -> str:
    call, other = unmet.call, capital(ranks_in_words([unmet.other]))
    text = f"{capital(ranks_in_words([call.rank]))} has waited in {named_call(call)} of {call.group} since "
    text += f"{when(trace, call)}{at_place(call)}."
    if not unmet.is_recorded:
        return f"{text} There is no dump of {ranks_in_words([unmet.other])}."
    if unmet.other_waits is None:
        return f"{text} {other} has nothing open between the two, nor anything else."
    waits = unmet.other_waits
    return f"{text} {other} waits in {named_call(waits)} of {waits.group}{at_place(waits)} instead."


_MISMATCH_CODE = """# TORCH_DISTRIBUTED_DEBUG=DETAIL    # checks each collective against the other ranks, at some cost
sizes = [torch.zeros_like(size) for _ in range(dist.get_world_size())]
dist.all_gather(sizes, size)        # ranks that hold unequal parts agree on sizes first
padded = torch.nn.functional.pad(part, (0, int(max(sizes)) - len(part)))"""


@rule
class MismatchedCollective(Rule):
    id = "mismatched-collective"
    category = Category.HANG
    needs = frozenset({Need.FLIGHT_RECORDER})
    explanation = """
What it found
    At one point in a group's sequence of collectives, ranks call different ones, or the same one with different sizes
    or types.

Why it costs time
    Collectives are matched by their order alone. Different ones wait for each other forever; different sizes hang,
    crash or give wrong numbers.

How it decides
    From flight recorder dumps. For each number in a group it compares the collective, how many elements each rank
    sends and receives, and their type; where a collective may take unequal parts (all_to_all, scatter, gather and
    those with sizes for each rank), these are not compared. The first number that differs is reported; later ones
    follow from it.

What to try
    Make every rank take the same path to the same collectives in the same order, and agree on sizes first.

When it is wrong
    If the program sends unequal parts on purpose and NCCL allows it. Group names must be the same on all ranks, as
    PyTorch creates them.
"""

    def check(self, analysis: Analysis) -> Iterable[Finding]:
        trace = analysis.trace
        found = mismatches(trace)
        for each in found:
            yield self._finding(analysis, trace, each)

    def _finding(self, analysis: Analysis, trace: Trace, found: Mismatch) -> Finding:
        odd, usual = found.odd[0], found.usual[0]
        calls = [*found.usual, *found.odd]
        hangs = [each for each in calls if is_open(each)]
        start = min(each.start for each in calls)
        end = max((int(trace.events.end[each.event]) for each in hangs), default=start)
        who = ranks_in_words([each.rank for each in found.odd])
        return self.finding(
            analysis,
            severity=Severity.HIGH if hangs else Severity.MEDIUM,
            headline=_mismatch_headline(found, who),
            account=_mismatch_account(trace, found, hangs),
            remedy=remedy(
                f"Compare how the ranks reach these calls{at_place(odd)}: the same branches, as many batches, the "
                "same order of groups."
                if found.collectives
                else f"Use equal sizes on all ranks{at_place(odd)}: pad, or drop the last incomplete batch.",
                "TORCH_DISTRIBUTED_DEBUG=DETAIL checks each collective against the other ranks before it runs.",
                code=_MISMATCH_CODE,
            ),
            ceiling_ns=min(end - start, trace.duration),
            window_ns=trace.duration,
            culprit=Culprit(CulpritKind.RANK, who, at=SourceLine.of(odd.place)),
            because=f"{capital(who)} called {named_call(odd)}, the others {usual.collective}."
            if found.collectives
            else "",
            rank=odd.rank if len(found.odd) == 1 else None,
            evidence=tuple(evidence_of_call(trace, each) for each in calls[:20]),
            intervals=((start, end),) if end > start else (),
        )


def _mismatch_headline(found: Mismatch, who: str) -> Headline:
    odd, usual = found.odd[0], found.usual[0]
    if found.collectives:
        return Headline(
            f"{capital(who)} called {named_call(odd)}, not {usual.collective}", names_culprit=True
        )
    return Headline(f"{capital(who)} reached {named_call(odd)} with other sizes", names_culprit=True)


def _mismatch_account(trace: Trace, found: Mismatch, hangs: list[Called]) -> str:
    usual, odd = found.usual[0], found.odd[0]
    parts = [
        f"{ranks_in_words([each.rank for each in calls])} called {_said(trace, calls[0], found.collectives)}"
        for calls in (found.usual, found.odd)
    ]
    text = f"In {usual.group}, {parts[0]}, and {parts[1]}, at {when(trace, odd)}."
    if hangs:
        text += f" On {ranks_in_words([each.rank for each in hangs])} it did not end."
    return text


def _said(trace: Trace, call: Called, by_name: bool) -> str:
    """ "all_reduce #4 (train.py:21)", with its sizes where these differ."""
    if by_name:
        return f"{named_call(call)}{at_place(call)}"
    one = np.array([call.event], np.int64)
    sent = int(trace.attribute(Attribute.SENT_ELEMENTS, one)[0])
    received = int(trace.attribute(Attribute.RECEIVED_ELEMENTS, one)[0])
    dtype = trace.text_attribute(Attribute.MESSAGE_DTYPE, call.event)
    sizes = f"{sent:,}" if sent == received else f"{sent:,} sent and {received:,} received"
    return f"{named_call(call)} with {sizes} elements{f' of {dtype}' if dtype else ''}{at_place(call)}"
