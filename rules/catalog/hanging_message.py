"""A message between two ranks that never arrived: one of them waits, and the other never came to it."""

from __future__ import annotations

from collections.abc import Iterable

from parsers.model import Trace
from parsers.model.units import capital
from rules.analysis.analysis import Analysis
from rules.analysis.ranks.flight_recorders import OpenMessage, unmet_messages
from rules.findings.base import Category, Finding, Need, Rule, Severity, remedy, rule
from rules.losses.flight_recorders import at_place, evidence_of_call, named_call, ranks_in_words, when
from rules.terms.culprit import Culprit, CulpritKind
from rules.wording.headline import Headline

MAX_LISTED = 3  # messages
_CODE = """# Both ends in the same order, at once: neither waits for the other to begin
works = dist.batch_isend_irecv([dist.P2POp(dist.isend, out, after), dist.P2POp(dist.irecv, into, before)])
for work in works:
    work.wait()"""


@rule
class HangingMessage(Rule):
    """Speaks of each message that did not end and has nothing open at its other end."""

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
            account=_account(trace, unmet),
            remedy=remedy(
                f"Compare what {ranks_in_words([call.rank])} and {other} send and receive, and in which order: as "
                "many micro-batches, the same stages.",
                "Use batch_isend_irecv if both directions are used at once.",
                code=_CODE,
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


def _account(trace: Trace, unmet: OpenMessage) -> str:
    call, other = unmet.call, capital(ranks_in_words([unmet.other]))
    text = f"{capital(ranks_in_words([call.rank]))} has waited in {named_call(call)} of {call.group} since "
    text += f"{when(trace, call)}{at_place(call)}."
    if not unmet.is_recorded:
        return f"{text} There is no dump of {ranks_in_words([unmet.other])}."
    if unmet.other_waits is None:
        return f"{text} {other} has nothing open between the two, nor anything else."
    waits = unmet.other_waits
    return f"{text} {other} waits in {named_call(waits)} of {waits.group}{at_place(waits)} instead."
