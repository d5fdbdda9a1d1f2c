"""The diagnosis, the comparison of two recordings, and a trend as pages; every text is escaped; no Qt."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from parsers.model import Trace
from parsers.model.names.devices import device_name
from parsers.model.units import duration, three_digits
from rules import Diagnosis, Finding
from rules.analysis.analysis import Analysis
from rules.comparison.compare import Comparison
from rules.comparison.kernel_rows import KernelChange
from rules.fixes.plan import Promise, plan_of
from rules.gates.judging import Answer
from rules.memory.summary import memory_of
from rules.wording.memory import memory_lines
from rules.wording.promises import about_replay, first_step, gain, worded
from rules.wording.verdict import gpus_that_ran, lacks_a_gpu, shows_no_run, verdict, what_lacks_a_gpu
from rules.wording.words import Reader, told
from viewer.reports.comparison_report import (
    SIGNS,
    change,
    each_step,
    finding_sides,
    kernel_titles,
    or_dash,
    same_work_lines,
    sides,
)
from viewer.reports.pages import Page
from viewer.reports.pictures.charts import bridge_chart, budget_chart, steps_chart, trend_chart
from viewer.reports.pictures.timeline_picture import shown_stretch, timeline_picture
from viewer.reports.plain_text import one_line
from viewer.reports.series_report import COLUMNS, Point, series_rows
from viewer.reports.tables_report import FEW, MOST_PRINTED, every_table, rows_that_matter, tables_html
from viewer.timeline.geometry.naming import place_name

MOST_PLACES = 5


def as_html(trace: Trace, diagnosis: Diagnosis, analysis: Analysis, *, all_tables: bool = False) -> str:
    """The whole diagnosis as a page."""
    return diagnosis_page(trace, diagnosis, analysis, Page(), all_tables=all_tables).text


def diagnosis_page(
    trace: Trace, diagnosis: Diagnosis, analysis: Analysis, page: Page, *, all_tables: bool = False
) -> Page:
    """The whole diagnosis: pictures, budgets, fixes, findings, tables."""
    plan, reader = plan_of(analysis), Reader.of(trace)
    is_run = not shows_no_run(analysis, diagnosis)
    shown = gpus_that_ran(trace) if is_run else []
    return page.fill(
        "diagnosis.html",
        verdict(analysis, diagnosis),
        files=one_line(", ".join(f"{each.path} ({each.producer})" for each in trace.inputs)),
        timeline=timeline_picture(analysis, ink=page.ink) if shown else "",
        stretch=shown_stretch(analysis)[2] if shown else "",
        budgets=[budget for index in shown if (budget := _budget(trace, analysis, index, page))],
        first_step=first_step(plan, diagnosis),
        fixes=[_fix(promise, reader) for promise in plan.promises if is_run],
        about_fixes=about_replay(plan) if is_run else "",
        cards=[card(finding, gain(finding, plan)) for finding in diagnosis.findings],
        tables=tables_html(every_table(analysis), MOST_PRINTED)
        if all_tables
        else tables_html(rows_that_matter(analysis), FEW),
        memory=[line for each in memory_of(analysis) for line in memory_lines(each, trace)],
        skipped=[what_lacks_a_gpu(diagnosis)]
        if lacks_a_gpu(trace, diagnosis)
        else [f"{rule}: {reason}" for rule, reason in sorted(diagnosis.skipped.items())],
        changed_thresholds=diagnosis.thresholds.changed(),
    )


def _budget(trace: Trace, analysis: Analysis, index: int, page: Page) -> dict[str, Any]:
    budget = analysis.budget(index, *analysis.window)
    if not budget.window_ns:
        return {}
    return {
        "name": f"{device_name(trace, index)} {trace.devices[index].name}",
        "length": duration(budget.window_ns),
        "chart": budget_chart(budget, analysis.idle, page.ink),
    }


def _fix(promise: Promise, reader: Reader) -> dict[str, Any]:
    return {
        "title": promise.proposal.title,
        "gives": worded(promise),
        "advice": told(promise.proposal.advice, reader),
        "code": promise.proposal.code,
    }


def card(finding: Finding, gives: str) -> dict[str, Any]:
    """What the template shows of a finding."""
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


def comparison_as_html(result: Comparison, answers: Sequence[Answer] = ()) -> str:
    """A comparison as a page, with what a gate answered."""
    return comparison_page(result, answers, Page()).text


def comparison_page(result: Comparison, answers: Sequence[Answer], page: Page) -> Page:
    """A comparison: the gate, both timelines, steps, where the time went, and tables."""
    findings = [
        (each.finding.title_beside_its_cost, each.change.value, *finding_sides(each, result))
        for each in result.findings
    ]
    measures = [
        (each.name, *sides(each, result), change(each, result)) for each in (result.step, *result.measures)
    ]
    families = _kernels(result.families, [each.name for each in result.families])
    kernels = _kernels(result.kernels, kernel_titles(result.kernels))
    tables = (
        ("Memory" if result.of_memory else "Time", ("", "before", "after", "change"), measures),
        ("Findings, and what each costs at most", ("", "now", "before", "after"), findings),
        (f"Kinds of kernel that changed{each_step(result)}", *families),
        (f"Kernels that changed most{each_step(result)}: {SIGNS}", *kernels),
    )
    ratio = result.judgement.ratio
    return page.fill(
        "comparison.html",
        result.verdict,
        before=one_line(result.before),
        after=one_line(result.after),
        answers=answers,
        timelines=_timelines(result, page),
        steps=steps_chart(ratio.before.ns, ratio.after.ns, page.ink) if ratio is not None else "",
        bridges=[
            (f"Where the time went, by {bridge.title}{each_step(result)}", bridge_chart(bridge, page.ink))
            for bridge in result.bridges
        ],
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


def _timelines(result: Comparison, page: Page) -> list[tuple[str, str]]:
    """A step of each side, drawn to one scale; none of kernel reports, or of kept figures."""
    if result.sides is None:
        return []
    stretches = [shown_stretch(side.analysis) for side in result.sides]
    scale = max(t1 - t0 for t0, t1, _ in stretches)
    return [
        (f"{name}: {words}", timeline_picture(side.analysis, (t0, t1), scale, page.ink))
        for name, side, (t0, t1, words) in zip(("Before", "After"), result.sides, stretches, strict=True)
    ]


def trend_page(name: str, points: Sequence[Point], page: Page) -> Page:
    """Runs in their order, as a chart and a table."""
    return page.fill(
        "trend.html",
        f"Step time of {name}",
        chart=trend_chart(points, page.ink),
        columns=COLUMNS,
        rows=series_rows(points),
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
