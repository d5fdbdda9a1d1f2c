"""An execution trace: what the program computes, operator by operator; beside a timeline, how fast."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from parsers.model.units import NS_PER_S, duration, operations, percent, size
from rules.analysis.analysis import Analysis
from rules.analysis.beside.recorded_work import (
    OperatorWork,
    RecordedWork,
    is_of_this_timeline,
    kernel_time,
    recorded_work,
)
from rules.findings.base import Category, Finding, Need, Rule, remedy, rule
from rules.kernels.operator_roofs import shown_shapes, work_of
from rules.terms.culprit import NOBODY, Culprit, CulpritKind
from rules.wording.headline import Headline
from rules.wording.phrases import listed, shortened

MAX_NAMED = 3
MIN_NAMED = 0.05  # of all operations
MAX_NAME = 40  # characters
_CODE = """observer = ExecutionTraceObserver().register_callback("operators.json")
with torch.profiler.profile(execution_trace_observer=observer) as prof:   # both of the same steps
    run()
prof.export_chrome_trace("trace.json")"""


@rule
class RecordedWorkOfOperators(Rule):
    """Information: which operators have most to compute."""

    id = "recorded-work"
    category = Category.WHAT_WAS_RECORDED
    needs = frozenset({Need.EXECUTION_TRACE})
    explanation = f"""
What it found
    An execution trace lists every operator that ran, with the shapes and types of its inputs.

Why it costs time
    It does not. Operators with most operations are those that a GPU should spend most of its time in.

How it decides
    Operations of matrix products, convolutions and attention follow from their shapes. Operators with at least
    {percent(MIN_NAMED)} of all operations are named. Beside a timeline that has each of these operators exactly as
    often, the operations are divided by the time of its kernels.

What to try
    Open it together with the timeline of the same steps. If the GPU spends its time elsewhere than the operations,
    look at what it does there.

When it is wrong
    Operators of custom kernels have operations that nobody knows here. A rate counts the time of all kernels, also of
    those that compute nothing.
"""

    def check(self, analysis: Analysis) -> Iterable[Finding]:
        trace = analysis.trace
        work = recorded_work(trace, _operations_of)
        rate = ""
        if work.operations and len(trace.gpu_operations) and is_of_this_timeline(trace, work):
            time = kernel_time(trace)
            if time > 0:
                rate = (
                    f" The timeline has the same operators; its kernels took {duration(time)}, which makes "
                    f"{operations(work.operations / time * NS_PER_S)}."
                )
        first = work.operators[0] if work.operators else None
        yield self.finding(
            analysis,
            headline=_headline(work, first),
            account=_account(work) + rate,
            remedy=remedy()
            if rate
            else remedy(
                "Open it together with a timeline of the same steps, to see how fast they are.", code=_CODE
            ),
            culprit=Culprit(CulpritKind.OPERATOR, first.name) if first is not None else NOBODY,
            unknown=() if rate else ("How long the operators took: this requires a timeline.",),
        )


def _operations_of(name: str, shapes: str, types: str, values: Callable[[], Sequence[str]]) -> float:
    work = work_of(name, shapes, types, "", values)
    return work.operations if work is not None else 0.0


def _headline(work: RecordedWork, first: OperatorWork | None) -> Headline:
    if first is None:
        return Headline(f"{_times(work.calls, 'operator call')} without matrix products or convolutions")
    mine = sum(each.operations for each in work.operators if each.name == first.name)
    share = percent(mine / work.operations)
    return Headline(f"{share} of all arithmetic is in {shortened(first.name, MAX_NAME)}", names_culprit=True)


def _account(work: RecordedWork) -> str:
    text = f"{_times(work.calls, 'operator call')} {'was' if work.calls == 1 else 'were'} recorded."
    if work.operations:
        told = [
            f"{shortened(each.name, MAX_NAME)} of {shown_shapes(each.shapes)} "
            f"({percent(each.operations / work.operations)})"
            for each in work.operators
            if each.operations >= MIN_NAMED * work.operations
        ][:MAX_NAMED]
        text += f" Products and convolutions need {operations(work.operations).removesuffix('/s')}"
        text += f", most of it in {listed(told)}." if told else "."
    for each in work.copies[:MAX_NAMED]:
        moved = size(each.megabytes * 1e6)
        copies = _times(each.count, "copy", "copies")
        text += f" {copies} from {each.source} to {each.target} moved {moved}."
    return text


def _times(count: int, one: str, several: str = "") -> str:
    return f"{count:,} {one if count == 1 else several or one + 's'}"
