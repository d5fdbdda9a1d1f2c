"""What changed between two recordings of the same program: step time, budget, kernels, findings."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from parsers.model import EventKind, Trace
from parsers.model.units import duration, percent, three_digits
from rules.analysis.analysis import Analysis, analyse
from rules.analysis.causes import Cause
from rules.analysis.kernel_compare import KernelComparison, compare_reports
from rules.base import Finding, Severity
from rules.diagnosis import Diagnosis, diagnose
from rules.thresholds import DEFAULTS, Thresholds

NOISE_SHARE = 0.02  # a change of the step below this is no change: run-to-run spread of a quiet machine
KERNEL_ROWS = 30


@dataclass(frozen=True, slots=True)
class Measure:
    """One quantity before and after; ``unit`` is "ns", "count" or "share" (a fraction of the step)."""

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
class KernelChange:
    """One kernel name: launches and ns a step, before and after."""

    name: str
    calls_before: float
    calls_after: float
    ns_before: float
    ns_after: float

    @property
    def ns_change(self) -> float:
        return self.ns_after - self.ns_before


@dataclass(frozen=True, slots=True)
class Comparison:
    """Two recordings side by side; ``cautions`` say why they may not be comparable."""

    before: str
    after: str
    verdict: str
    step: Measure
    measures: tuple[Measure, ...]
    kernels: tuple[KernelChange, ...]
    resolved: tuple[Finding, ...]
    appeared: tuple[Finding, ...]
    cautions: tuple[str, ...]
    profiles: tuple[KernelComparison, ...] = ()  # launches that kernel reports on both sides hold

    def is_regression(self, at_least_percent: float) -> bool:
        """Whether a step became longer by this many percent or more."""
        return self.step.change * 100 >= at_least_percent


def compare(before: Trace, after: Trace, thresholds: Thresholds = DEFAULTS) -> Comparison:
    """Compare the steady steps of two traces; where no steps were found, the analysed windows as a whole."""
    profiles = tuple(compare_reports(before.kernels, after.kernels)[0])
    if profiles and not len(before.gpu_operations) and not len(after.gpu_operations):
        return _of_reports(before, after, profiles, thresholds)
    sides = [
        _Side(trace, analyse(trace, thresholds), diagnose(trace, thresholds=thresholds))
        for trace in (before, after)
    ]
    first, second = sides
    by_step = all(side.step_ns for side in sides)
    step = Measure(
        "step time, median" if by_step else "analysed time",
        first.step_ns if by_step else first.window_ns,
        second.step_ns if by_step else second.window_ns,
        "ns",
    )
    resolved, appeared = _changed_findings(first.diagnosis, second.diagnosis)
    return Comparison(
        before=_label(before),
        after=_label(after),
        verdict=_verdict(step, resolved, appeared),
        step=step,
        measures=tuple(_measures(first, second)),
        kernels=tuple(_kernel_changes(first, second)),
        resolved=resolved,
        appeared=appeared,
        cautions=tuple(_cautions(first, second, by_step)),
        profiles=profiles,
    )


def _of_reports(
    before: Trace, after: Trace, profiles: tuple[KernelComparison, ...], thresholds: Thresholds
) -> Comparison:
    """Two kernel reports without a timeline: the kernels that both hold, under the profiler."""
    total_before = sum(each.before.duration_ns or 0.0 for each in profiles)
    total_after = sum(each.after.duration_ns or 0.0 for each in profiles)
    step = Measure("profiled kernels of both", total_before, total_after, "ns")
    resolved, appeared = _changed_findings(
        diagnose(before, thresholds=thresholds), diagnose(after, thresholds=thresholds)
    )
    return Comparison(
        before=_label(before),
        after=_label(after),
        verdict=_verdict(step, resolved, appeared),
        step=step,
        measures=(),
        kernels=tuple(
            KernelChange(
                each.before.name, 1, 1, each.before.duration_ns or 0.0, each.after.duration_ns or 0.0
            )
            for each in profiles
        ),
        resolved=resolved,
        appeared=appeared,
        cautions=("times under the profiler, which serialises kernels: compare them with each other only",),
        profiles=profiles,
    )


@dataclass(frozen=True, slots=True)
class _Side:
    trace: Trace
    analysis: Analysis
    diagnosis: Diagnosis

    @property
    def window_ns(self) -> int:
        return self.analysis.window[1] - self.analysis.window[0]

    @property
    def step_ns(self) -> float:
        lengths = [step.end - step.start for step in self.analysis.steps if step.steady]
        return float(np.median(lengths)) if lengths and self.analysis.steps[0].found_by != "window" else 0.0

    @property
    def repetitions(self) -> int:
        """Steady steps of all ranks together; one where no steps were found."""
        return sum(step.steady for step in self.analysis.steps) or 1

    def share(self, part: str) -> float:
        total = inside = 0
        for device in range(len(self.trace.devices)):
            budget = self.analysis.budget(device, *self.analysis.window)
            total += budget.window_ns
            if part == "busy":
                inside += budget.window_ns - budget.total_idle_ns - budget.residual_ns
            elif part == "communication":
                inside += budget.exposed_communication_ns
            elif part == "copy":
                inside += budget.exposed_copy_ns
            else:
                inside += budget.idle_ns.get(Cause[part], 0)
        return inside / total if total else 0.0

    def kernels(self) -> dict[str, tuple[float, float]]:
        """name -> (launches, ns) a step."""
        events = self.trace.events
        kernels = events.of_kind(EventKind.KERNEL)
        t0, t1 = self.analysis.window
        kernels = kernels[(events.start[kernels] >= t0) & (events.start[kernels] < t1)]
        names = events.name[kernels]
        calls = np.bincount(names, minlength=len(self.trace.strings))
        time = np.bincount(names, (events.end - events.start)[kernels], minlength=len(self.trace.strings))
        return {
            self.trace.strings[name]: (calls[name] / self.repetitions, time[name] / self.repetitions)
            for name in np.flatnonzero(calls)
        }


def _label(trace: Trace) -> str:
    return ", ".join(each.path for each in trace.inputs)


def _verdict(step: Measure, resolved: tuple[Finding, ...], appeared: tuple[Finding, ...]) -> str:
    what = f"{duration(step.before)} to {duration(step.after)}"
    if abs(step.change) < NOISE_SHARE:
        text = f"No difference beyond {percent(NOISE_SHARE)}: {what}"
    elif step.change < 0:
        text = f"{three_digits(step.before / max(step.after, 1))}x faster: {what}"
    else:
        text = f"{three_digits(step.after / max(step.before, 1))}x slower: {what}"
    if resolved and step.change < 0:
        text += f". Gone: {resolved[0].title}"
    if appeared and step.change > 0:
        text += f". New: {appeared[0].title}"
    return text


def _measures(first: _Side, second: _Side) -> list[Measure]:
    parts = [
        ("GPU busy", "busy"),
        ("exposed communication", "communication"),
        ("exposed copies", "copy"),
        *((cause.label, cause.name) for cause in Cause),
    ]
    shares = [Measure(name, first.share(part), second.share(part), "share") for name, part in parts]
    kernels = [side.kernels() for side in (first, second)]
    counts = [sum(calls for calls, _ in side.values()) for side in kernels]
    times = [sum(time for _, time in side.values()) for side in kernels]
    return [
        Measure("kernels a step", counts[0], counts[1], "count"),
        Measure("kernel time a step", times[0], times[1], "ns"),
        *(measure for measure in shares if measure.before or measure.after),
    ]


def _kernel_changes(first: _Side, second: _Side) -> list[KernelChange]:
    before, after = first.kernels(), second.kernels()
    changes = [
        KernelChange(name, *_pairs(before.get(name, (0.0, 0.0)), after.get(name, (0.0, 0.0))))
        for name in before.keys() | after.keys()
    ]
    changes.sort(key=lambda change: (-abs(change.ns_change), change.name))
    return changes[:KERNEL_ROWS]


def _pairs(before: tuple[float, float], after: tuple[float, float]) -> tuple[float, float, float, float]:
    return before[0], after[0], before[1], after[1]


def _changed_findings(before: Diagnosis, after: Diagnosis) -> tuple[tuple[Finding, ...], tuple[Finding, ...]]:
    loud = (Severity.HIGH, Severity.MEDIUM)
    had = {finding.category for finding in before.findings if finding.severity in loud}
    has = {finding.category for finding in after.findings if finding.severity in loud}
    resolved = tuple(each for each in before.findings if each.severity in loud and each.category not in has)
    appeared = tuple(each for each in after.findings if each.severity in loud and each.category not in had)
    return resolved, appeared


def _cautions(first: _Side, second: _Side, by_step: bool) -> list[str]:
    cautions = []
    names = [{device.name for device in side.trace.devices} for side in (first, second)]
    if names[0] != names[1]:
        cautions.append(f"different GPUs: {_listed(names[0])} and {_listed(names[1])}")
    counts = [len(side.trace.devices) for side in (first, second)]
    if counts[0] != counts[1]:
        cautions.append(f"different numbers of GPUs: {counts[0]} and {counts[1]}")
    if not by_step:
        cautions.append("no steps were found in at least one of them: whole recordings are compared")
    elif min(first.repetitions, second.repetitions) < 3:
        cautions.append("fewer than three steady steps in at least one of them")
    formats = [{each.format for each in side.trace.inputs} for side in (first, second)]
    if formats[0] != formats[1]:
        cautions.append("recorded by different profilers, whose overhead differs")
    flags = [(side.trace.capture.with_stack, side.trace.capture.profile_memory) for side in (first, second)]
    if flags[0] != flags[1]:
        cautions.append("one was recorded with stacks or memory, which slows the host")
    return cautions


def _listed(names: set[str]) -> str:
    return ", ".join(sorted(name for name in names if name)) or "unknown"
