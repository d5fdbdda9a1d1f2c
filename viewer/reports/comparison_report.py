"""A comparison of two recordings as text, JSON and HTML."""

from __future__ import annotations

import math
from html import escape
from typing import Any

from parsers.model.units import duration, percent, three_digits
from rules.compare import Comparison, Measure
from viewer.plain_text import safe
from viewer.timeline.geometry.naming import kernel_name

TEXT_KERNELS = 10


def _value(measure: Measure, value: float) -> str:
    if measure.unit == "ns":
        return duration(value)
    return percent(value) if measure.unit == "share" else three_digits(value)


def _change(measure: Measure) -> str:
    """Relative change; of a share of the step, percentage points."""
    if measure.unit == "share":
        return f"{(measure.after - measure.before) * 100:+.1f} points"
    return "new" if math.isinf(measure.change) else f"{measure.change * 100:+.1f} %"


def as_text(result: Comparison) -> str:
    """A table for a terminal."""
    lines = [result.verdict, f"  before: {result.before}", f"  after:  {result.after}", ""]
    for measure in (result.step, *result.measures):
        row = (_value(measure, measure.before), _value(measure, measure.after), _change(measure))
        lines.append(f"  {measure.name:<32}{row[0]:>12}{row[1]:>12}{row[2]:>14}")
    lines += ["", "Kernels that changed most, a step:"]
    for kernel in result.kernels[:TEXT_KERNELS]:
        times = f"{duration(kernel.ns_before):>10} -> {duration(kernel.ns_after):>10}"
        calls = f"{three_digits(kernel.calls_before):>7} -> {three_digits(kernel.calls_after):>7} calls"
        lines.append(f"  {times} {calls}  {kernel_name(kernel.name)[:60]}")
    lines += _profiles_as_text(result)
    lines += ["", *(f"Gone: {finding.title}" for finding in result.resolved)]
    lines += [f"New:  {finding.title}" for finding in result.appeared]
    lines += [f"Careful: {caution}" for caution in result.cautions]
    return "\n".join(safe(line) for line in lines).rstrip() + "\n"


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
        f"<tr><td>{escape(measure.name)}<td>{_value(measure, measure.before)}<td>{_value(measure, measure.after)}"
        f"<td>{_change(measure)}"
        for measure in (result.step, *result.measures)
    )
    kernels = "".join(
        f"<tr><td>{escape(kernel.name)}<td>{duration(kernel.ns_before)}<td>{duration(kernel.ns_after)}"
        f"<td>{three_digits(kernel.calls_before)} -> {three_digits(kernel.calls_after)}"
        for kernel in result.kernels
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
    notes = "".join(f"<li>Gone: {escape(finding.title)}" for finding in result.resolved)
    notes += "".join(f"<li>New: {escape(finding.title)}" for finding in result.appeared)
    notes += "".join(f"<li>Careful: {escape(caution)}" for caution in result.cautions)
    return safe(
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">"
        "<title>Comparison</title><style>:root{color-scheme:light dark;font:15px/1.5 system-ui}"
        "body{max-width:70rem;margin:2rem auto;padding:0 1rem}td{padding:.15rem 1rem .15rem 0;overflow-wrap:anywhere}"
        f"</style></head><body><h1>{escape(result.verdict)}</h1><p>{escape(result.before)}<br>{escape(result.after)}"
        f"</p><table><tr><th><th>before<th>after<th>change{rows}</table><ul>{notes}</ul>"
        f"<h2>Kernels, a step</h2><table><tr><th><th>before<th>after<th>calls{kernels}</table>"
        f"{'<h2>Profiled kernels</h2>' if profiles else ''}{profiles}</body></html>\n"
    )
