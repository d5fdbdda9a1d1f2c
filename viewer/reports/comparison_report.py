"""A comparison of two recordings as text, JSON and HTML."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from html import escape
from typing import Any

from parsers.model.units import duration, percent, three_digits
from rules.base import Finding
from rules.comparison.compare import Comparison, KernelChange, Measure
from rules.comparison.findings import FindingChange
from viewer.reports.plain_text import safe
from viewer.timeline.geometry.naming import kernel_name

TEXT_KERNELS = 10
_SHARE_OF_STEP = re.compile(r": [^:]*\d %[^:]* (?:of|in) (?:every|the|each|a) step[^:]*$")


def sides(measure: Measure, result: Comparison) -> tuple[str, str]:
    """A measure before and after; a share of the step with the time that it is."""
    return (
        _side(measure.unit, measure.before, result.step.before),
        _side(measure.unit, measure.after, result.step.after),
    )


def _side(unit: str, value: float, step_ns: float) -> str:
    if unit == "share":
        return f"{duration(value * step_ns)}  {percent(value):>6}"
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
    return ("+" if ns > 0 else "-" if ns < 0 else "") + duration(abs(ns))


def signed(text: str) -> str:
    """Without the sign of a zero."""
    return text if any(digit in text for digit in "123456789") else text.lstrip("+-")


def finding_sides(each: FindingChange, result: Comparison) -> tuple[str, str]:
    """What a finding costs at most, before and after: the time of a step and its share; a dash where there is none."""
    return (
        _cost(each.before, each.before_ns, result.by_step),
        _cost(each.after, each.after_ns, result.by_step),
    )


def _cost(finding: Finding | None, ns: float, by_step: bool) -> str:
    if finding is None:
        return "-"
    return f"{duration(ns)}  {percent(finding.share)}" if by_step else percent(finding.share)


def without_share(title: str) -> str:
    """A title without the share that stands beside it in a table."""
    return _SHARE_OF_STEP.sub("", title)


def as_text(result: Comparison) -> str:
    """A table for a terminal."""
    lines = [result.verdict, f"  before: {result.before}", f"  after:  {result.after}"]
    lines += [f"  careful: {caution}" for caution in result.cautions]
    lines += ["", f"  {'':<32}{'before':>18}{'after':>18}{'change':>14}"]
    for measure in (result.step, *result.measures):
        before, after = sides(measure, result)
        lines.append(f"  {measure.name:<32}{before:>18}{after:>18}{change(measure, result):>14}")
    if result.findings:
        lines += ["", "Findings, and what each costs at most:"]
        for each in result.findings:
            cost = finding_sides(each, result)
            lines.append(
                f"  {each.change.value:<12}{cost[0]:>18} -> {cost[1]:<18}{without_share(each.finding.title)}"
            )
    lines += _kernels_as_text("Families of kernels that changed" + _each_step(result), result.families, str)
    lines += _kernels_as_text(
        "Kernels that changed most" + _each_step(result), result.kernels[:TEXT_KERNELS], kernel_name
    )
    if not result.kernels and not result.profiles:
        lines += ["", "No kernel took noticeably more or less time."]
    lines += _profiles_as_text(result)
    return "\n".join(safe(line) for line in lines).rstrip() + "\n"


def _kernels_as_text(title: str, kernels: Sequence[KernelChange], shown: Callable[[str], str]) -> list[str]:
    lines = []
    for kernel in kernels:
        times = f"{_or_dash(kernel.ns_before, duration):>10} -> {_or_dash(kernel.ns_after, duration):>10}"
        calls = f"{_or_dash(kernel.calls_before, three_digits):>7} -> {_or_dash(kernel.calls_after, three_digits):>7}"
        lines.append(f"  {times} {calls} calls  {shown(kernel.name)[:60]}")
    return ["", f"{title}:", *lines] if lines else []


def _each_step(result: Comparison) -> str:
    return ", a step" if result.by_step else ""


def _or_dash(value: float, write: Callable[[float], str]) -> str:
    return write(value) if value else "-"


def _profiles_as_text(result: Comparison) -> list[str]:
    """Each kernel that was profiled on both sides: why it changed, and the numbers that did."""
    lines: list[str] = []
    for profile in result.profiles[:TEXT_KERNELS]:
        lines += ["", f"{kernel_name(profile.after.name)[:80]}: {profile.why}"]
        lines += [
            f"  {row.label:<46}{row.before_text:>14} -> {row.after_text}"
            for row in profile.rows
            if row.is_noticeable
        ]
    return ["", "Profiled kernels:", *lines] if lines else []


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
        "step": plain(result.step),
        "measures": [plain(measure) for measure in result.measures],
        "kernels": [
            {
                "name": kernel.name,
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


def as_html(result: Comparison) -> str:
    """A page that stands alone; every text is escaped."""
    rows = "".join(
        f"<tr><td>{escape(measure.name)}<td>{'<td>'.join(sides(measure, result))}<td>{change(measure, result)}"
        for measure in (result.step, *result.measures)
    )
    findings = "".join(
        f"<tr><td>{each.change.value}<td>{escape(without_share(each.finding.title))}"
        + "".join(f"<td>{cost}" for cost in finding_sides(each, result))
        for each in result.findings
    )
    kernels, families = (
        "".join(
            f"<tr><td>{escape(kernel.name)}<td>{_or_dash(kernel.ns_before, duration)}"
            f"<td>{_or_dash(kernel.ns_after, duration)}"
            f"<td>{_or_dash(kernel.calls_before, three_digits)} -> {_or_dash(kernel.calls_after, three_digits)}"
            for kernel in kernels
        )
        for kernels in (result.kernels, result.families)
    )
    profiles = "".join(
        f"<h3>{escape(profile.after.name)}</h3><p>{escape(profile.why)}</p><table>"
        + "".join(
            f"<tr><td>{escape(row.label)}<td>{escape(row.before_text)}<td>{escape(row.after_text)}"
            for row in profile.rows
            if row.is_noticeable
        )
        + "</table>"
        for profile in result.profiles
    )
    notes = "".join(f"<li>Careful: {escape(caution)}" for caution in result.cautions)
    head = "<tr><th><th>before<th>after"
    tables = "".join(
        f"<h2>{title}</h2><table>{columns}{body}</table>"
        for title, columns, body in (
            ("Findings, and what each costs at most", "<tr><th><th><th>before<th>after", findings),
            ("Families of kernels that changed" + _each_step(result), f"{head}<th>calls", families),
            ("Kernels that changed most" + _each_step(result), f"{head}<th>calls", kernels),
        )
        if body
    )
    return safe(
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">"
        "<title>Comparison</title><style>:root{color-scheme:light dark;font:15px/1.5 system-ui}"
        "body{max-width:70rem;margin:2rem auto;padding:0 1rem}td{padding:.15rem 1rem .15rem 0;overflow-wrap:anywhere}"
        f"</style></head><body><h1>{escape(result.verdict)}</h1><p>{escape(result.before)}<br>{escape(result.after)}"
        f"</p><ul>{notes}</ul><table>{head}<th>change{rows}</table>{tables}"
        f"{'<h2>Profiled kernels</h2>' if profiles else ''}{profiles}</body></html>\n"
    )
