"""torch.compile compiles a function again and again, because what it was compiled for does not hold."""

from __future__ import annotations

from collections.abc import Iterable

from parsers.model.names.per_name import named
from parsers.model.units import duration
from rules.analysis.analysis import Analysis
from rules.analysis.arithmetic.intervals import pairs, union
from rules.analysis.logs.compilations import CompiledFunction, compiled_functions, compiling
from rules.findings.base import Category, Finding, Need, Rule, Severity, rule, severity_of
from rules.losses.lost_time import evidence_of
from rules.remedies.compiling import advice_on, not_again
from rules.terms.culprit import Culprit, CulpritKind, SourceLine
from rules.wording.compilations import why
from rules.wording.headline import Headline
from rules.wording.phrases import short_place, shortened

MAX_LISTED, MAX_SHOWN = 3, 20  # functions, and compilations of each
MAX_NAME_LENGTH = 40  # characters in a title
RECOMPILE_LIMIT = (
    8  # torch._dynamo.config.recompile_limit: with so many versions the function runs uncompiled
)


@rule
class CompiledAgain(Rule):
    """Speaks of the functions that took longest to compile again, by the log of the compiler."""

    id = "compiled-again"
    category = Category.RECOMPILATION
    needs = frozenset({Need.COMPILER_LOG})
    explanation = f"""
What it found
    torch.compile compiled a function again, because a condition of the earlier compilation no longer held: a size, a
    number, a type, the gradient mode.

Why it costs time
    Each compilation takes seconds in which the step stands still. With {RECOMPILE_LIMIT} versions of a function the
    compiler gives up, and the function runs as slowly as without it.

How it decides
    From the compiler's log (TORCH_TRACE, TORCH_LOGS): a compilation with a reason why an earlier one did not apply.
    The ceiling is the time these took, if the log states it.

What to try
    Whatever the reason names: mark sizes as dynamic or pad them, put numbers in tensors, use one mode for each copy.

When it is wrong
    Two or three versions of a function can be legitimate, as for training and evaluation. Compilation at the start of
    a long run is paid for only once.
"""

    def check(self, analysis: Analysis) -> Iterable[Finding]:
        again = [each for each in compiled_functions(analysis.trace) if each.reasons]
        for each in again[:MAX_LISTED]:
            yield self._finding(analysis, each, len(again))

    def _finding(self, analysis: Analysis, function: CompiledFunction, count: int) -> Finding:
        trace, times = analysis.trace, len(function.reasons)
        events = compiling(trace)
        mine = events[named(trace, events, lambda name: name == function.event_name)][-times:]
        spent = union(*trace.events.spans(mine))
        window = max(trace.duration, 1)
        ceiling = min(function.again_ns or 0, window)
        gives_up = times >= RECOMPILE_LIMIT
        return self.finding(
            analysis,
            severity=Severity.HIGH if gives_up else severity_of(ceiling, window),
            headline=Headline(
                f"{shortened(function.shown, MAX_NAME_LENGTH)} was recompiled {_times(times)}",
                names_culprit=True,
            ),
            account=_account(function, count, gives_up),
            remedy=not_again(function.reasons),
            ceiling_ns=ceiling,
            window_ns=window,
            culprit=Culprit(
                CulpritKind.FRAME,
                f"{function.shown}, {short_place(function.place)}",
                at=SourceLine.of(function.place, function.own_name, is_call=function.is_resumed),
            ),
            because=f"{shortened(why(function.reasons[0]), 100)}.",
            evidence=evidence_of(trace, mine[:MAX_SHOWN]),
            intervals=pairs(spent),
        )


def _times(count: int) -> str:
    return "once" if count == 1 else f"{count} times"


def _account(function: CompiledFunction, count: int, gives_up: bool) -> str:
    took = "" if function.again_ns is None else f" That took {duration(function.again_ns)}."
    text = (
        f"{function.shown} ({short_place(function.place)}) was recompiled {_times(len(function.reasons))}, because "
        f"{why(function.reasons[0])}.{took}"
    )
    different = len(set(map(advice_on, function.reasons)))
    if different > 1:
        text += f" There were {different} different reasons; the last: {why(function.reasons[-1])}."
    if function.processes > 1:
        text += f" {function.processes} processes compiled it again; the times are those of the slowest."
    if gives_up:
        text += f" The compiler gives up at {RECOMPILE_LIMIT} versions: from then on it runs uncompiled."
    return text if count == 1 else f"{text} {count} functions were recompiled in all."
