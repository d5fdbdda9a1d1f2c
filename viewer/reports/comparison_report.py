"""What reports say of a comparison of two recordings, and its JSON."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from parsers.model.names.kernels import distinct_names, kernel_name
from parsers.model.units import duration, percent, size, three_digits
from rules.comparison.bridge import Bridge
from rules.comparison.compare import Comparison, Measure
from rules.comparison.findings import FindingChange
from rules.comparison.kernel_rows import KernelChange, Match
from rules.comparison.step_times import CONFIDENCE, StepRatio
from rules.findings.base import Finding

SIGNS = "= same, ≈ counterpart, ⇒ became, - gone, + new"


def sides(measure: Measure, result: Comparison) -> tuple[str, str]:
    """A measure before and after; a share of the step with the time that it is."""
    return (
        _side(measure.unit, measure.before, result.step.before),
        _side(measure.unit, measure.after, result.step.after),
    )


def _side(unit: str, value: float, step_ns: float) -> str:
    if unit == "share":
        return f"{duration(value * step_ns)}  {percent(value):>6}"
    if unit == "bytes":
        return size(round(value))
    return duration(value) if unit == "ns" else three_digits(value)


def change(measure: Measure, result: Comparison) -> str:
    """Relative change; of a share of the step, the change of its time."""
    if measure.unit == "share":
        return signed_duration(measure.after * result.step.after - measure.before * result.step.before)
    if math.isinf(measure.change):
        return "new"
    return signed(f"{measure.change * 100:+.1f} %")


def signed_duration(ns: float) -> str:
    """ "+5.63 ms", "-412 us", "0 ns"."""
    whole = round(ns)
    return ("+" if whole > 0 else "-" if whole < 0 else "") + duration(abs(whole))


def signed(text: str) -> str:
    """Without the sign of a zero."""
    return text if any(digit in text for digit in "123456789") else text.lstrip("+-")


def finding_sides(each: FindingChange, result: Comparison) -> tuple[str, str]:
    """What a finding costs at most, before and after: of a step as recorded, time and share; a dash without one.

    Where the title names whose fault it is, and that is another one on either side, each side says its own.
    """
    sides = [finding for finding in (each.before, each.after) if finding is not None]
    named = all(finding.headline.names_culprit for finding in sides)
    told = named and len({finding.culprit.name for finding in sides}) > 1
    return (
        _cost(each.before, each.before_ns, result.by_step, told=told),
        _cost(each.after, each.after_ns, result.by_step, told=told),
    )


def _cost(finding: Finding | None, ns: float, by_step: bool, *, told: bool) -> str:
    if finding is None:
        return "-"
    share = percent(finding.recorded_share)
    whose = f" ({finding.culprit.said})" if told else ""
    return f"{duration(ns)}  {share}{whose}" if by_step else f"{share}{whose}"


def same_work_lines(result: Comparison) -> list[str]:
    """Whether both did the same work, what is different, and how well more GPUs were used."""
    lines = [f"scaling: {result.scaling.told()}"] if result.scaling is not None else []
    if result.work is not None:
        lines.append(f"same work: {result.work.answer.value} ({result.work.reason})")
        lines += [f"different: {each}" for each in result.work.differences if each != result.work.reason]
    return lines


def bridge_rows(bridge: Bridge) -> list[tuple[str, str]]:
    """(label, time): before, what each part adds or takes away, what is not explained, after."""
    parts = [(part.label, signed_duration(part.change)) for part in bridge.parts]
    rest = ("not explained", signed_duration(bridge.unexplained))
    return [("before", duration(bridge.before)), *parts, rest, ("after", duration(bridge.after))]


def kernel_titles(kernels: Sequence[KernelChange]) -> list[str]:
    """What each row is called: its sign, the kernels before, and those after where they are others."""
    before = distinct_names([each.name for each in kernels])
    return [
        f"{each.match.value} {_with_more(name, each.before)}"
        + (
            f" → {_with_more(kernel_name(each.after[0]), each.after)}"
            if each.match in (Match.COUNTERPART, Match.JOINED)
            else ""
        )
        for each, name in zip(kernels, before, strict=True)
    ]


def _with_more(name: str, names: Sequence[str]) -> str:
    return name + (f" and {len(names) - 1} more" if len(names) > 1 else "")


def each_step(result: Comparison) -> str:
    """What follows a heading where the numbers are those of one step."""
    return ", a step" if result.by_step else ""


def or_dash(value: float, write: Callable[[float], str]) -> str:
    """A number as ``write`` writes it; a dash for none."""
    return write(value) if value else "-"


def _interval(ratio: StepRatio | None) -> dict[str, Any] | None:
    """Step time after over before: the ratio of means with its bounds, that of medians, and the steps of each, ns."""
    if ratio is None:
        return None
    return {
        "ratio": ratio.mean,
        "low": ratio.low,
        "high": ratio.high,
        "confidence": CONFIDENCE,
        "median_ratio": ratio.median,
        "ratio_without_recorder": ratio.unrecorded,
        "steps_ns": [ratio.before.ns.tolist(), ratio.after.ns.tolist()],
    }


def as_json(result: Comparison) -> dict[str, Any]:
    """A dictionary of plain values."""

    def plain(measure: Measure) -> dict[str, Any]:
        change = None if math.isinf(measure.change) else measure.change
        return {
            "name": measure.name,
            "before": measure.before,
            "after": measure.after,
            "unit": measure.unit,
            "change": change,
        }

    return {
        "schema": 1,
        "before": result.before,
        "after": result.after,
        "verdict": result.verdict,
        "outcome": result.judgement.outcome.value,
        "not_comparable_because": result.judgement.reason or None,
        "interval": _interval(result.judgement.ratio),
        "step": plain(result.step),
        "measures": [plain(measure) for measure in result.measures],
        "kernels": [
            {
                "name": kernel.name,
                "match": kernel.match.name.lower(),
                "before": list(kernel.before),
                "after": list(kernel.after),
                "calls": [kernel.calls_before, kernel.calls_after],
                "ns": [kernel.ns_before, kernel.ns_after],
            }
            for kernel in result.kernels
        ],
        "families": [
            {
                "name": family.name,
                "calls": [family.calls_before, family.calls_after],
                "ns": [family.ns_before, family.ns_after],
            }
            for family in result.families
        ],
        "findings": [
            {
                "change": each.change.value,
                "category": each.finding.category.value,
                "before": None if each.before is None else {"title": each.before.title, "ns": each.before_ns},
                "after": None if each.after is None else {"title": each.after.title, "ns": each.after_ns},
            }
            for each in result.findings
        ],
        "resolved": [finding.category.value for finding in result.resolved],
        "appeared": [finding.category.value for finding in result.appeared],
        "cautions": list(result.cautions),
        "same_work": None
        if result.work is None
        else {
            "answer": result.work.answer.value,
            "reason": result.work.reason,
            "differences": list(result.work.differences),
        },
        "scaling": None
        if result.scaling is None
        else {
            "gpus": [result.scaling.gpus_before, result.scaling.gpus_after],
            "speedup": result.scaling.speedup,
            "possible": result.scaling.possible,
            "work_of_each_gpu": result.scaling.work,
            "because": list(result.scaling.reasons),
        },
        "bridges": [
            {
                "by": bridge.title,
                "before_ns": bridge.before,
                "after_ns": bridge.after,
                "parts": [
                    {"label": part.label, "before_ns": part.before, "after_ns": part.after}
                    for part in bridge.parts
                ],
                "unexplained_ns": bridge.unexplained,
            }
            for bridge in result.bridges
        ],
        "profiles": [
            {
                "name": profile.after.name,
                "before": profile.before.id,
                "after": profile.after.id,
                "speedup": profile.speedup,
                "why": profile.why,
                "rows": [
                    {"label": row.label, "before": row.before, "after": row.after, "unit": row.unit}
                    for row in profile.rows
                ],
            }
            for profile in result.profiles
        ],
    }
