"""The diagnosis, and the comparison of two recordings, as self-contained pages; every text is escaped; no Qt.

The pages need no network and run no script. Their templates lie in ``resources/reports``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined

import resources
from parsers.model import Trace
from parsers.model.names.devices import device_name
from parsers.model.units import duration, three_digits
from rules import Diagnosis, Finding
from rules.analysis.analysis import Analysis
from rules.comparison.compare import Comparison
from rules.comparison.kernel_rows import KernelChange
from rules.fixes.plan import Promise, plan_of
from rules.wording.promises import about_replay, first_step, gain, worded
from rules.wording.verdict import budget_parts, gpus_that_ran, share_of, shows_no_run, verdict
from rules.wording.words import Reader, told
from viewer.look import palette
from viewer.reports.comparison_report import (
    SIGNS,
    bridge_rows,
    change,
    each_step,
    finding_sides,
    kernel_titles,
    or_dash,
    same_work_lines,
    sides,
)
from viewer.reports.plain_text import safe
from viewer.reports.tables_report import FEW, MOST_PRINTED, every_table, rows_that_matter, tables_html
from viewer.timeline.geometry.naming import place_name

MOST_PLACES = 5


@cache
def _templates() -> Environment:
    return Environment(
        loader=FileSystemLoader(resources.path("reports")),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )


def _page(template: str, title: str, **values: object) -> str:
    colors = {"grey": palette.GREY, "severities": palette.SEVERITIES}
    return safe(_templates().get_template(template).render(title=title, **colors, **values)) + "\n"


def as_html(trace: Trace, diagnosis: Diagnosis, analysis: Analysis, *, all_tables: bool = False) -> str:
    """The whole diagnosis as a page."""
    plan, reader = plan_of(analysis), Reader.of(trace)
    is_run = not shows_no_run(analysis, diagnosis)
    return _page(
        "diagnosis.html",
        verdict(analysis, diagnosis),
        files=", ".join(f"{each.path} ({each.producer})" for each in trace.inputs),
        budgets=[
            budget for index in gpus_that_ran(trace) if is_run and (budget := _budget(trace, analysis, index))
        ],
        first_step=first_step(plan, diagnosis),
        fixes=[_fix(promise, reader) for promise in plan.promises if is_run],
        about_fixes=about_replay(plan) if is_run else "",
        cards=[_card(finding, gain(finding, plan)) for finding in diagnosis.findings],
        tables=tables_html(every_table(analysis), MOST_PRINTED)
        if all_tables
        else tables_html(rows_that_matter(analysis), FEW),
        skipped=[f"{rule}: {reason}" for rule, reason in sorted(diagnosis.skipped.items())],
        changed_thresholds=diagnosis.thresholds.changed(),
    )


def _budget(trace: Trace, analysis: Analysis, index: int) -> dict[str, Any]:
    budget = analysis.budget(index, *analysis.window)
    if not budget.window_ns:
        return {}
    device = trace.devices[index]
    return {
        "name": f"{device_name(trace, index)} {device.name}",
        "length": duration(budget.window_ns),
        "parts": [
            {
                "percent": 100 * ns / budget.window_ns,
                "color": palette.part(key),
                "label": label,
                "length": duration(ns),
                "share": share_of(ns, budget.window_ns),
            }
            for key, label, ns in budget_parts(budget, analysis.idle)
        ],
    }


def _fix(promise: Promise, reader: Reader) -> dict[str, Any]:
    return {
        "title": promise.proposal.title,
        "gives": worded(promise),
        "advice": told(promise.proposal.advice, reader),
        "code": promise.proposal.code,
    }


def _card(finding: Finding, gives: str) -> dict[str, Any]:
    return {
        "severity": finding.severity.value,
        "gain": gives,
        "title": finding.title,
        "explanation": finding.explanation,
        "advice": finding.advice,
        "code": finding.code,
        "cannot_tell": finding.cannot_tell,
        "places": [
            f"{place_name(each)} at {duration(each.start)}, {duration(each.end - each.start)}"
            for each in finding.evidence[:MOST_PLACES]
        ],
    }


def comparison_as_html(result: Comparison) -> str:
    """A comparison as a page."""
    findings = [
        (each.finding.title_beside_its_cost, each.change.value, *finding_sides(each, result))
        for each in result.findings
    ]
    measures = [
        (each.name, *sides(each, result), change(each, result)) for each in (result.step, *result.measures)
    ]
    bridges = [
        (f"Where the time went, by {bridge.title}{each_step(result)}", ("", "time"), bridge_rows(bridge))
        for bridge in result.bridges
    ]
    families = _kernels(result.families, [each.name for each in result.families])
    kernels = _kernels(result.kernels, kernel_titles(result.kernels))
    tables = (
        ("Time", ("", "before", "after", "change"), measures),
        ("Findings, and what each costs at most", ("", "now", "before", "after"), findings),
        *bridges,
        (f"Families of kernels that changed{each_step(result)}", *families),
        (f"Kernels that changed most{each_step(result)}: {SIGNS}", *kernels),
    )
    return _page(
        "comparison.html",
        result.verdict,
        before=result.before,
        after=result.after,
        cautions=[*(line.strip() for line in same_work_lines(result)), *result.cautions],
        tables=[{"heading": heading, "columns": columns, "rows": rows} for heading, columns, rows in tables],
        profiles=[
            {
                "name": profile.after.name,
                "why": profile.why,
                "rows": [
                    (row.label, row.before_text, row.after_text) for row in profile.rows if row.is_noticeable
                ],
            }
            for profile in result.profiles
        ],
    )


def _kernels(
    kernels: Sequence[KernelChange], titles: Sequence[str]
) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
    def pair(before: float, after: float, write: Callable[[float], str]) -> tuple[str, str]:
        return or_dash(before, write), or_dash(after, write)

    rows: list[tuple[str, ...]] = [
        (
            title,
            *pair(each.ns_before, each.ns_after, duration),
            *pair(each.calls_before, each.calls_after, three_digits),
        )
        for each, title in zip(kernels, titles, strict=True)
    ]
    return ("", "before", "after", "calls before", "calls after"), rows
