"""Ranks of one group that call different collectives, or the same one with different sizes."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from parsers.model import Attribute, Trace
from parsers.model.units import capital
from rules.analysis.analysis import Analysis
from rules.analysis.ranks.flight_recorders import Called, Mismatch, is_open, mismatches
from rules.findings.base import Category, Finding, Need, Rule, Severity, remedy, rule
from rules.losses.flight_recorders import at_place, evidence_of_call, named_call, ranks_in_words, when
from rules.terms.culprit import Culprit, CulpritKind, SourceLine
from rules.wording.headline import Headline

_CODE = """# TORCH_DISTRIBUTED_DEBUG=DETAIL    # checks each collective against the other ranks, at some cost
sizes = [torch.zeros_like(size) for _ in range(dist.get_world_size())]
dist.all_gather(sizes, size)        # ranks that hold unequal parts agree on sizes first
padded = torch.nn.functional.pad(part, (0, int(max(sizes)) - len(part)))"""


@rule
class MismatchedCollective(Rule):
    """Speaks of the first collective of each group for which the ranks do not call the same."""

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
            headline=_headline(found, who),
            account=_account(trace, found, hangs),
            remedy=remedy(
                f"Compare how the ranks reach these calls{at_place(odd)}: the same branches, as many batches, the "
                "same order of groups."
                if found.collectives
                else f"Use equal sizes on all ranks{at_place(odd)}: pad, or drop the last incomplete batch.",
                "TORCH_DISTRIBUTED_DEBUG=DETAIL checks each collective against the other ranks before it runs.",
                code=_CODE,
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


def _headline(found: Mismatch, who: str) -> Headline:
    odd, usual = found.odd[0], found.usual[0]
    if found.collectives:
        return Headline(
            f"{capital(who)} called {named_call(odd)}, not {usual.collective}", names_culprit=True
        )
    return Headline(f"{capital(who)} reached {named_call(odd)} with other sizes", names_culprit=True)


def _account(trace: Trace, found: Mismatch, hangs: list[Called]) -> str:
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
