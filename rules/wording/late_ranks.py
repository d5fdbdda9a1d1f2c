"""Sentences about ranks that come late: who, since when, what they do instead, what to change."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np

from parsers.model.units import duration, percent
from rules.analysis.idle.causes import Cause
from rules.analysis.ranks.late import Ranks
from rules.analysis.ranks.patterns import NEVER, Course, Party
from rules.analysis.ranks.reasons import Reason, Why
from rules.terms import MAJORITY, quoted
from rules.wording.words import Headline, Part, a_step, listed, part_of_steps

AnyRanks: TypeAlias = Ranks[Any]

_DOING = {
    Cause.HOST: "waiting for {its} own Python code",
    Cause.INPUT: "waiting for {its} data",
    Cause.LAUNCH: "waiting for {its} CPU to launch",
    Cause.SYNCHRONIZATION: "blocked by synchronisation",
    Cause.ALLOCATOR: "allocating memory",
    Cause.UNKNOWN: "idle for an unknown reason",
}


def late_names(ranks: AnyRanks) -> str:
    """ "rank 1 and rank 3", "node 277 (8 ranks)"."""
    return listed([each.name for each in ranks.parties])


def headline(ranks: AnyRanks, ceiling: int) -> Headline:
    """Whom the others wait for, and how much of each step that costs."""
    amount = Part(ceiling / max(ranks.run.window_ns, 1), ranks.run.steps_in_window)
    return Headline(f"Other ranks wait for {late_names(ranks)}", amount, names_culprit=True)


def because(ranks: AnyRanks) -> str:
    """ "Rank 1 spends 15.4 ms more of each step waiting.", of the costliest; empty where nothing tells."""
    first = ranks.parties[0]
    spent = spends(ranks, ranks.reasons(first.rows)[:1], len(first.rows) > 1)
    return f"{_capital(first.name)} {spent}." if spent else ""


def explanation(ranks: AnyRanks, ceiling: int) -> str:
    """What the late ranks do instead, how often they come last, what that costs, and since when."""
    first, *beside = ranks.parties
    several = len(first.rows) > 1
    others = ranks.others
    spent = spends(ranks, ranks.reasons(first.rows), several)
    text = f"{_capital(first.name)} {spent}. {'They' if several else 'It'}" if spent else _capital(first.name)
    lasts, every = _lasts(ranks, first)
    waiting = ranks.most_waiting
    text += (
        f" {'arrive' if several else 'arrives'} last at {lasts:,} of {every:,} collectives, and "
        f"{_waiters(len(others))} for {'late ranks' if beside else 'them' if several else 'it'} there, up to "
        f"{a_step(waiting, ranks.run.steps_in_window)}. That costs up to "
        f"{part_of_steps(ceiling, ranks.run.window_ns, ranks.run.steps_in_window)}"
    )
    text += ", including how much the waiting slows their own kernels." if ceiling > waiting else "."
    text += _since(ranks, first)
    if ceiling < MAJORITY * ranks.lost_to_late:
        text += (
            " The other ranks' own work takes nearly as long: without the late ranks they would wait for the next "
            "slowest."
        )
    for party in beside:
        text += (
            f" {_capital(party.name)} {'are' if len(party.rows) > 1 else 'is'} late too: "
            f"{percent(ranks.part_of_waiting(party.rows))} of the waiting is for "
            f"{'them' if len(party.rows) > 1 else 'it'}.{_since(ranks, party)}"
        )
        if spent := spends(ranks, ranks.reasons(party.rows), len(party.rows) > 1):
            text += f" Meanwhile {party.name} {spent}."
    if ranks.lateness.passes_on:
        text += " Other late ranks had already waited for it in another group and are not counted."
    return text


def _lasts(ranks: AnyRanks, party: Party) -> tuple[int, int]:
    """To how many collectives of the window they come last, and of how many that they take part in."""
    meetings = ranks.run.meetings
    theirs = np.isin(meetings.row, party.rows)
    last = meetings.in_window & theirs[meetings.last]
    return int(last.sum()), int(
        (meetings.in_window & np.logical_or.reduceat(theirs, meetings.first[:-1])).sum()
    )


def _waiters(count: int) -> str:
    return f"the other {count:,} wait" if count > 1 else "the other one waits"


def _since(ranks: AnyRanks, party: Party) -> str:
    names = ranks.run.step_names
    told = when(ranks.course(party.rows), names) if len(names) > 1 else ""
    return f" This happens {told}." if told else ""


def when(course: Course, names: Sequence[str]) -> str:
    """ "from ProfilerStep#96 on", "in every step", "every 60th step", "in 5 of 240 steps"; empty for never."""
    steps = len(course.steps)
    if not steps:
        return ""
    if steps == course.count:
        return "in every step"
    if course.since > 0 and steps > 1:
        return f"from {names[course.since]} on"
    if course.every != NEVER:
        return f"every {_ordinal(course.every)} step"
    return f"in {steps:,} of {course.count:,} steps"


def _ordinal(number: int) -> str:
    ending = "th" if 10 <= number % 100 <= 20 else {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
    return f"{number:,}{ending}"


def doing(reasons: Sequence[Reason], several: bool = False) -> str:
    """What a rank, or several, do most: "waiting for its data (data_loading)"."""
    if not reasons:
        return "nothing recorded says why"
    reason, its = reasons[0], "their" if several else "its"
    if reason.why is Why.IDLE and reason.cause is not None:
        return _DOING[reason.cause].format(its=its) + (
            f" ({quoted(reason.culprit)})" if reason.culprit else ""
        )
    if reason.why is Why.CLOCK and reason.clock is not None:
        return f"computing at {reason.clock[0]:,.0f} instead of {reason.clock[1]:,.0f} MHz"
    if reason.why is Why.SLOW:
        gpu = "their GPUs" if several else "its GPU"
        return f"computing: the same kernels take {percent(reason.times - 1)} longer on {gpu}"
    if reason.why is Why.MORE:
        return f"computing: {'they have' if several else 'it has'} {percent(reason.times - 1)} more work"
    return {Why.COMPUTES: "computing", Why.COPIES: "copying", Why.HELD_UP: "held up by a slow transfer"}[
        reason.why
    ]


def spends(ranks: AnyRanks, reasons: Sequence[Reason], several: bool) -> str:
    """ "spends 15.4 ms more of each step waiting and 6.22 ms more computing"; empty where nothing tells."""
    told = [each for each in reasons if each.why is not Why.HELD_UP]
    if not told:
        return ""
    steps = ranks.run.steps_in_window
    spent = [duration(each.share * ranks.run.window_ns / max(steps, 1)) for each in told]
    parts = [f"{more} more {doing([each], several)}" for more, each in zip(spent, told, strict=True)]
    parts[0] = f"{spent[0]} more {'of each step ' if steps else ''}{doing(told, several)}"
    return f"{'spend' if several else 'spends'} {listed(parts)}"


def cannot_tell(ranks: AnyRanks) -> str:
    """ "Whether a rank that is not here comes even later: the run has 4 ranks, and 3 are here. "."""
    return (
        f"Whether a rank that is missing here arrives even later: {ranks.unrecorded}. "
        if ranks.unrecorded
        else ""
    )


def clocks_agree(ranks: AnyRanks) -> str:
    """How well the ranks' clocks are known."""
    return (
        f" The ranks' clocks agree within about {duration(max(int(ranks.clock_error.max(initial=0)), 1000))}."
    )


def _capital(name: str) -> str:
    return name[0].upper() + name[1:]
