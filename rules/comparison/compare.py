"""What changed between two recordings of the same program: step time, budget, kernels, findings."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TypeAlias

from parsers.model import EventKind, Trace
from parsers.model.late import dataclass
from parsers.model.units import duration, percent, size, three_digits
from rules.analysis.analysis import Analysis
from rules.analysis.idle.causes import Cause
from rules.comparison.bridge import Bridge, bridges
from rules.comparison.comparable import (
    another_size,
    are_the_same,
    cautions,
    cautions_of_reports,
    copy_as_much,
    hold_other_steps,
    holds_memory_alone,
    look_like_different_programs,
    not_the_same_work,
    refuse_incomparable,
)
from rules.comparison.findings import Change, FindingChange, compare_findings
from rules.comparison.gate import Decision, Judgement, Outcome
from rules.comparison.kernel_rows import KernelChange, Work
from rules.comparison.kernels import KernelComparison, compare_reports
from rules.comparison.matched_steps import matched_steps
from rules.comparison.recorders import NOTICEABLE, recorder_cost, with_and_without
from rules.comparison.same_work import Answer, SameWork, same_work
from rules.comparison.scaling import Scaling, scaling
from rules.comparison.side import Side, by_family
from rules.comparison.step_times import StepRatio, StepTimes, ratio_of_runs
from rules.diagnosis import Diagnosis, diagnose, diagnosis_of
from rules.findings.base import LOUD, Finding
from rules.memory.summary import MemorySummary, memory_of
from rules.terms import DEFAULTS, Thresholds

NOISE_SHARE = 0.02  # of the step; what changed by less, beside the step itself, is as before
MIN_CHANGE = 0.001  # of the kernel time; a kernel that changed by less changed nothing
MIN_SHOWN = 0.0005  # a smaller share of the step, on both sides, is not worth a row
SAME_AMOUNT = 0.05  # so many more or fewer kernels, without steps, are the same work
KERNEL_ROWS = 30

Repeats: TypeAlias = tuple[Sequence[StepTimes], Sequence[StepTimes]]  # further runs before and after


@dataclass(frozen=True, slots=True)
class Measure:
    """One quantity before and after; ``unit`` is "ns", "bytes", "count" or "share" (a fraction of the step)."""

    name: str
    before: float
    after: float
    unit: str

    @property
    def change(self) -> float:
        """(after - before) / before; infinite when it appeared from nothing."""
        if self.before:
            return (self.after - self.before) / self.before
        return float("inf") if self.after else 0.0


@dataclass(frozen=True, slots=True)
class Comparison:
    """Two recordings side by side; ``cautions`` say why they may not be comparable.

    ``by_step`` is False where ``step`` is all of what was analysed. ``kernels`` and ``families`` hold what changed
    noticeably, the largest change first. ``sides`` is None for kernel reports and memory snapshots without a timeline;
    of snapshots ``step`` is the peak.
    """

    before: str
    after: str
    verdict: str
    step: Measure
    measures: tuple[Measure, ...]
    kernels: tuple[KernelChange, ...]
    findings: tuple[FindingChange, ...]
    cautions: tuple[str, ...]
    judgement: Judgement
    headline: str = ""  # how the verdict begins, without its reasons
    profiles: tuple[KernelComparison, ...] = ()  # launches that kernel reports on both sides hold
    families: tuple[KernelChange, ...] = ()
    by_step: bool = True
    files: tuple[tuple[str, ...], tuple[str, ...]] = ((), ())  # of ``before`` and ``after``
    work: SameWork | None = None
    bridges: tuple[Bridge, ...] = ()
    scaling: Scaling | None = None  # where the numbers of GPUs differ
    sides: tuple[Side, Side] | None = None

    @property
    def of_memory(self) -> bool:
        """Whether two snapshots are compared, which hold no times."""
        return self.step.unit == "bytes"

    @property
    def resolved(self) -> tuple[Finding, ...]:
        """What mattered before and no longer does, as it was before."""
        return tuple(each.before for each in self.findings if each.is_resolved and each.before is not None)

    @property
    def appeared(self) -> tuple[Finding, ...]:
        """What matters now and did not before."""
        return tuple(each.after for each in self.findings if each.is_new and each.after is not None)

    def gate(self, most_percent: float) -> tuple[Decision, str]:
        """Whether the mean step got longer by less than this many percent, with a sentence that says why."""
        return self.judgement.gate(most_percent)


def compare(
    before: Trace, after: Trace, thresholds: Thresholds = DEFAULTS, repeats: Repeats = ((), ())
) -> Comparison:
    """Compare the steady steps of two traces; where no steps were found, the analysed windows as a whole.

    ``repeats`` are the steps of further runs like ``before`` and like ``after``; the step time is that of all runs.
    Raises TraceError where nothing in one can be set against the other.
    """
    refuse_incomparable(before, after)
    profiles = tuple(compare_reports(before.kernels, after.kernels)[0])
    if holds_memory_alone(before) and holds_memory_alone(after):
        return _of_snapshots(before, after, thresholds)
    if profiles and not (len(before.gpu_operations) and len(after.gpu_operations)):
        return _of_reports(before, after, profiles, thresholds)
    first, second = (
        Side(trace, analysis, diagnosis_of(analysis))
        for trace in (before, after)
        for analysis in (Analysis(trace, thresholds),)
    )
    by_step = bool(first.step_ns and second.step_ns) and not hold_other_steps(first, second)
    if not by_step:
        first, second = replace(first, whole=True), replace(second, whole=True)
    runs = (first.step_times, *repeats[0]), (second.step_times, *repeats[1])
    ratio = ratio_of_runs(*runs) if by_step else None
    times = (ratio.before.mean, ratio.after.mean) if ratio is not None else (first.step_ns, second.step_ns)
    step = Measure(
        "step time, mean" if by_step else "analysed time",
        times[0] if by_step else first.window_ns,
        times[1] if by_step else second.window_ns,
        "ns",
    )
    kernels = first.work(EventKind.KERNEL), second.work(EventKind.KERNEL)
    works = _works(kernels[0]), _works(kernels[1])
    measures = _measures(first, second, works, " a step" if by_step else "")
    if by_step:
        measures.append(Measure("step time, median", first.step_times.median, second.step_times.median, "ns"))
    matched = matched_steps((first, second), (first.typical, second.typical))
    other_program = look_like_different_programs(*works)
    different = not_the_same_work(first, second, works)
    cost = recorder_cost(first.analysis, second.analysis)
    judgement = Judgement.of(with_and_without(ratio, cost) if ratio else None, different)
    findings = compare_findings(
        first.diagnosis.findings,
        second.diagnosis.findings,
        (step.before, step.after),
        NOISE_SHARE * step.before,
    )
    work = same_work(
        matched,
        different_programs=other_program,
        other_size=another_size(first, second, works) if first.gpus == second.gpus else None,
        exposed=(first.share("communication") * step.before, second.share("communication") * step.after),
    )
    scaled = scaling(first, second)
    because: list[str] = []
    if are_the_same(before, after) and not any(repeats):
        headline = "The same recording twice: nothing differs"
    elif by_step or abs(measures[0].change) <= SAME_AMOUNT or copy_as_much(first, second):
        headline = headline_on(step, "a step takes" if by_step else "all of it takes", judgement)
        because = _because(step, findings, second.diagnosis, judgement)
        if other_program:
            headline = f"These look like two different programs. If not, {headline[:1].lower()}{headline[1:]}"
        elif judgement.outcome is Outcome.NOT_COMPARABLE and by_step:
            headline = (
                f"Not comparable: {judgement.reason}. As recorded: {headline[:1].lower()}{headline[1:]}"
            )
    elif abs(step.change) < NOISE_SHARE and (work is None or work.answer is not Answer.NO):
        headline = headline_on(step, "all of it takes", judgement)
        headline += f", with {_more_or_fewer(measures[0])} kernels"
    else:
        headline = (
            f"Not comparable: the two contain different amounts of work, {three_digits(measures[0].before)} kernels "
            f"in {duration(step.before)}, then {three_digits(measures[0].after)} in {duration(step.after)}"
        )
    return Comparison(
        before=_label(before),
        after=_label(after),
        verdict=". ".join([headline, *because]),
        headline=headline,
        step=step,
        measures=tuple(measures if first.gpus or second.gpus else measures[OF_KERNELS:]),
        kernels=tuple(_noticeable(matched.rows.rows)[:KERNEL_ROWS]),
        findings=tuple(findings),
        cautions=(
            *cautions(first, second, works),
            *_about_repeats(runs),
            *(judgement.ratio.about() if judgement.ratio else ()),
            *([cost.told()] if by_step and cost is not None and cost.is_noticeable else ()),
        ),
        work=work,
        bridges=bridges(first, second, (step.before, step.after), matched.calls, matched.texts),
        scaling=scaled,
        sides=(first, second),
        judgement=judgement,
        profiles=profiles,
        families=tuple(changes_of_work(by_family(kernels[0]), by_family(kernels[1]))),
        by_step=by_step,
        files=(_files(before), _files(after)),
    )


def _of_reports(
    before: Trace, after: Trace, profiles: tuple[KernelComparison, ...], thresholds: Thresholds
) -> Comparison:
    """Two kernel reports without a timeline: the kernels that both hold, under the profiler."""
    total_before = sum(each.before.duration_ns or 0.0 for each in profiles)
    total_after = sum(each.after.duration_ns or 0.0 for each in profiles)
    step = Measure("profiled kernels of both", total_before, total_after, "ns")
    diagnoses = [diagnose(trace, thresholds=thresholds) for trace in (before, after)]
    totals = [sum(each.duration_ns or 0.0 for each in trace.kernels) for trace in (before, after)]
    findings = compare_findings(
        diagnoses[0].findings, diagnoses[1].findings, (totals[0], totals[1]), NOISE_SHARE * total_before
    )
    judgement = Judgement.of(None, ["kernel reports contain no steps and no variation between launches"])
    what = "the kernel takes" if len(profiles) == 1 else "the kernels found in both take"
    return Comparison(
        before=_label(before),
        after=_label(after),
        verdict="The same report twice: nothing differs"
        if are_the_same(before, after)
        else verdict_on(step, what, findings, diagnoses[1], judgement),
        step=step,
        measures=(),
        kernels=tuple(
            KernelChange(
                each.before.name, 1, 1, each.before.duration_ns or 0.0, each.after.duration_ns or 0.0
            )
            for each in profiles
            if each.before.duration_ns != each.after.duration_ns
        ),
        findings=tuple(findings),
        cautions=tuple(cautions_of_reports(before, after)),
        judgement=judgement,
        profiles=profiles,
        by_step=False,
        files=(_files(before), _files(after)),
    )


def _of_snapshots(before: Trace, after: Trace, thresholds: Thresholds) -> Comparison:
    """Two memory snapshots without the timelines of their runs: the fullest GPU of each."""
    first, second = (Analysis(trace, thresholds) for trace in (before, after))
    fullest = _fullest(first, second)
    assert fullest is not None
    peak, *others = _memory(*fullest)
    kinds = [each.account.by_kind(each.peak_at) if each.account else {} for each in fullest]
    others += [
        Measure(f"{kind} at the peak", kinds[0].get(kind, 0), kinds[1].get(kind, 0), "bytes")
        for kind in sorted(kinds[0] | kinds[1], key=lambda kind: -max(each.get(kind, 0) for each in kinds))
    ]
    findings = compare_findings(
        diagnosis_of(first).findings, diagnosis_of(second).findings, (0.0, 0.0), NOISE_SHARE
    )
    judgement = Judgement.of(None, ["memory snapshots contain no steps to time"])
    headline = _on_peak(peak)
    new = [each.after.title for each in findings if each.is_new and each.after is not None]
    gone = [each.finding.title for each in findings if each.change is Change.GONE]
    because = [f"New: {new[0]}"] if new else [f"Gone: {gone[0]}"] if gone else []
    return Comparison(
        before=_label(before),
        after=_label(after),
        verdict="The same snapshot twice: nothing differs"
        if are_the_same(before, after)
        else ". ".join([headline, *because]),
        headline=headline,
        step=peak,
        measures=tuple(others),
        kernels=(),
        findings=tuple(findings),
        cautions=(),
        judgement=judgement,
        by_step=False,
        files=(_files(before), _files(after)),
    )


def _on_peak(peak: Measure) -> str:
    before, after = size(round(peak.before)), size(round(peak.after))
    if abs(peak.change) < NOISE_SHARE:
        return f"As much memory as before, within {NOISE_SHARE * 100:.0f} %: {after} at the peak ({before} before)"
    more = "more" if peak.change > 0 else "less"
    return f"{percent(abs(peak.change))} {more} memory at the peak: {after} instead of {before}"


def _about_repeats(runs: Repeats) -> list[str]:
    if len(runs[0]) == len(runs[1]) == 1:
        return []
    return [
        f"{len(runs[0])} recorded before and {len(runs[1])} after: the step time covers all of them, everything "
        "else the first on each side"
    ]


def _label(trace: Trace) -> str:
    return ", ".join(_files(trace))


def _files(trace: Trace) -> tuple[str, ...]:
    return tuple(each.path for each in trace.inputs)


def verdict_on(
    step: Measure, what: str, findings: list[FindingChange], after: Diagnosis, judgement: Judgement
) -> str:
    """How much faster or slower, the largest reason, and what is first now."""
    return ". ".join([headline_on(step, what, judgement), *_because(step, findings, after, judgement)])


def headline_on(step: Measure, what: str, judgement: Judgement) -> str:
    """How much faster or slower, with its interval."""
    before, now = duration(step.before), duration(step.after)
    ratio = judgement.ratio
    if judgement.outcome is Outcome.NO_DIFFERENCE_SEEN and ratio is not None:
        return (
            f"No difference beyond the noise: {what} {now} ({before} before), {three_digits(ratio.low * 100)} to "
            f"{three_digits(ratio.high * 100)} % of the time before"
        )
    if ratio is None and abs(step.change) < NOISE_SHARE:
        return f"As fast as before, within {NOISE_SHARE * 100:.0f} %: {what} {now} ({before} before)"
    faster = step.change < 0
    slow, fast = (step.before, step.after) if faster else (step.after, step.before)
    text = f"{three_digits(slow / max(fast, 1))}x {'faster' if faster else 'slower'}: {what} {now} instead of {before}"
    if ratio is not None:
        bounds = (1 / ratio.high, 1 / ratio.low) if faster else (ratio.low, ratio.high)
        text += f" (between {three_digits(bounds[0])}x and {three_digits(bounds[1])}x{_unrecorded(ratio)})"
    return text


def _because(
    step: Measure, findings: list[FindingChange], after: Diagnosis, judgement: Judgement
) -> list[str]:
    """The largest reason, and what is first now; nothing where no difference is seen."""
    alike = judgement.ratio is None and abs(step.change) < NOISE_SHARE
    if alike or judgement.outcome is Outcome.NO_DIFFERENCE_SEEN:
        return []
    faster, said = step.change < 0, []
    gone = [each for each in findings if each.change in (Change.GONE, Change.NEARLY_GONE)]
    new = [each.after for each in findings if each.is_new and each.after is not None]
    if faster and gone:
        said.append(f"{gone[0].change.value.capitalize()}: {gone[0].finding.title}")
    elif not faster and new:
        said.append(f"New: {new[0].title}")
    elif not faster and (more := [each for each in findings if each.change is Change.MORE]):
        worst = max(more, key=lambda each: each.after_ns - each.before_ns)
        said.append(f"More than before: {worst.finding.title}")
    first = next((each for each in after.findings if each.severity in LOUD and not each.of_recording), None)
    if faster and first is not None:
        said.append(f"Now first: {first.title}")
    return said


def _unrecorded(ratio: StepRatio) -> str:
    """What the ratio is without the recorders, where that is another one."""
    if ratio.unrecorded is None or abs(ratio.unrecorded / ratio.mean - 1) < NOTICEABLE:
        return ""
    faster = ratio.unrecorded < 1
    factor = three_digits(1 / ratio.unrecorded if faster else ratio.unrecorded)
    return f"; about {factor}x {'faster' if faster else 'slower'} without the profiler"


OF_KERNELS = 2  # the first measures are of kernels


def _measures(
    first: Side, second: Side, works: tuple[dict[str, Work], dict[str, Work]], of_what: str
) -> list[Measure]:
    parts = [
        ("GPU busy", "busy"),
        ("exposed communication", "communication"),
        ("exposed copies", "copy"),
        *((cause.label, cause.name) for cause in Cause),
    ]
    shares = [Measure(name, first.share(part), second.share(part), "share") for name, part in parts]
    counts = [sum(calls for calls, _ in side.values()) for side in works]
    times = [sum(time for _, time in side.values()) for side in works]
    return [
        Measure(f"kernels{of_what}", counts[0], counts[1], "count"),
        Measure(f"kernel time{of_what}", times[0], times[1], "ns"),
        *(measure for measure in shares if max(measure.before, measure.after) >= MIN_SHOWN),
        *_memory(*(_fullest(first.analysis, second.analysis) or ())),
    ]


def _fullest(first: Analysis, second: Analysis) -> tuple[MemorySummary, MemorySummary] | None:
    """The GPU of each side that held most; None where a side did not record it."""
    known = memory_of(first), memory_of(second)
    if not all(known):
        return None
    before, after = (max(each, key=lambda gpu: gpu.peak_allocated) for each in known)
    return before, after


def _memory(*sides: MemorySummary) -> list[Measure]:
    """The peak of both sides, and what each step leaves; nothing without sides."""
    if not sides:
        return []
    before, after = sides
    found = [Measure("memory peak", before.peak_allocated, after.peak_allocated, "bytes")]
    if before.peak_reserved is not None and after.peak_reserved is not None:
        found.append(Measure("memory reserved", before.peak_reserved, after.peak_reserved, "bytes"))
    grown = before.growth.per_step, after.growth.per_step
    return [*found, Measure("memory left by each step", *grown, "bytes")] if any(grown) else found


def _works(kernels: dict[str, tuple[str, Work]]) -> dict[str, Work]:
    return {name: work for name, (_, work) in kernels.items()}


def _more_or_fewer(kernels: Measure) -> str:
    return f"{percent(abs(kernels.change))} {'more' if kernels.change > 0 else 'fewer'}"


def changes_of_work(
    before: dict[str, Work], after: dict[str, Work], shown: dict[str, str] | None = None
) -> list[KernelChange]:
    """What changed by a noticeable part of the kernel time, the largest change first; ``shown``: how to write it."""
    nothing = (0.0, 0.0)
    changes = []
    for name in before.keys() | after.keys():
        (calls_before, ns_before), (calls_after, ns_after) = (
            before.get(name, nothing),
            after.get(name, nothing),
        )
        written = (shown or {}).get(name, name)
        changes.append(KernelChange(written, calls_before, calls_after, ns_before, ns_after))
    return _noticeable(changes)


def _noticeable(changes: Sequence[KernelChange]) -> list[KernelChange]:
    """What changed by a noticeable part of the kernel time, the largest change first."""
    total = max(sum(each.ns_before for each in changes), sum(each.ns_after for each in changes))
    noticeable = [each for each in changes if abs(each.ns_change) > MIN_CHANGE * total]
    return sorted(noticeable, key=lambda each: (-abs(each.ns_change), each.name))
