"""Runs side by side as reports: two with what changed and where the time went, or several in their order."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from parsers.model.names.kernels import kernel_name
from parsers.model.units import duration, three_digits
from rules.comparison.compare import Comparison
from rules.comparison.gate import Decision
from rules.comparison.kernel_rows import KernelChange
from rules.gates.judging import Answer, overall
from viewer.appearance.plain_text import one_line
from viewer.reports.charts import bridge_chart, steps_chart, trend_chart
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
from viewer.reports.interactive.recording import packed_recording
from viewer.reports.pictures.timeline_picture import shown_stretch, timeline_picture
from viewer.reports.rendering.blocks import Block, Chart, Form, Points, Report, Table, Text
from viewer.reports.rendering.terminal_report import as_terminal_text
from viewer.reports.series_report import COLUMNS, Point, series_rows

MAX_FINDINGS, MAX_KERNELS = 8, 12  # where room is scarce
_ANSWERS = {
    Decision.PASSED: "✅ Passed",
    Decision.FAILED: "❌ Failed",
    Decision.INCONCLUSIVE: "⚠️ Not decided",
}


def as_text(result: Comparison) -> str:
    """A comparison for a terminal."""
    return as_terminal_text(comparison_report(result))


def comparison_report(result: Comparison, answers: Sequence[Answer] = ()) -> Report:
    """A comparison, with what a gate answered."""
    careful = [*same_work_lines(result), *(f"careful: {each}" for each in result.cautions)]
    measures = [
        (each.name, *sides(each, result), change(each, result)) for each in (result.step, *result.measures)
    ]
    findings = [
        (each.finding.title_beside_its_cost, each.change.value, *finding_sides(each, result))
        for each in result.findings
    ]
    families = _kernels(result.families, [each.name for each in result.families])
    kernels = _kernels(result.kernels, kernel_titles(result.kernels))
    without_gpu = result.sides is not None and not any(side.gpus for side in result.sides)
    any_kernel = result.kernels or result.profiles or result.of_memory or without_gpu
    calls = ("", "before", "after", "calls before", "calls after")
    return Report(
        result.verdict,
        (
            Text((f"before: {one_line(result.before)}", f"after: {one_line(result.after)}"), quiet=True),
            Table(
                "", ("limit", "before", "after", "answer"), [_answer(each) for each in answers], prose=(0, 3)
            ),
            Points("", tuple(careful), quiet=False),
            *_pictures(result),
            Table("Memory" if result.of_memory else "Time", ("", "before", "after", "change"), measures),
            Table(
                "Findings, and what each costs at most",
                ("", "now", "before", "after"),
                findings,
                few=MAX_FINDINGS,
                prose=(0, 1),
            ),
            *(
                Chart(
                    partial(bridge_chart, bridge),
                    heading=(title := f"Where the time went, by {bridge.title}{each_step(result)}"),
                    table=Table(title, ("", "time"), bridge_rows(bridge), folded=True),
                )
                for bridge in result.bridges
            ),
            Table(
                f"Kinds of kernel that changed{each_step(result)}",
                calls,
                families,
                folded=True,
                values=_values(result.families),
            ),
            Table(
                f"Kernels that changed most{each_step(result)}: {SIGNS}",
                calls,
                kernels,
                few=MAX_KERNELS,
                folded=True,
                values=_values(result.kernels),
            ),
            *([] if any_kernel else [Text(("No kernel took noticeably more or less time.",))]),
            *(
                Table(
                    f"{kernel_name(profile.after.name)}: {profile.why.rstrip('.')}",
                    ("", "before", "after"),
                    [
                        (row.label, row.before_text, row.after_text)
                        for row in profile.rows
                        if row.is_noticeable
                    ],
                    folded=True,
                )
                for profile in result.profiles
            ),
        ),
        lead=_ANSWERS[overall(answers)] if answers else "",
    )


def _answer(each: Answer) -> tuple[str, ...]:
    told = _ANSWERS[each.decision]
    return (
        f"{each.limit.written} {each.limit.percent:g} %",
        each.before or "-",
        each.after or "-",
        told if each.decision is Decision.PASSED else f"{told}: {each.why}",
    )


def _pictures(result: Comparison) -> list[Block]:
    """A step of each side, drawn to one scale, and the steady steps; none of kernel reports, or of kept figures."""
    found: list[Block] = []
    if result.sides is not None:
        stretches = [shown_stretch(side.analysis) for side in result.sides]
        scale = max(t1 - t0 for t0, t1, _ in stretches)
        for name, side, (t0, t1, words) in zip(("Before", "After"), result.sides, stretches, strict=True):
            draw = partial(timeline_picture, side.analysis, (t0, t1), scale)
            pack = partial(packed_recording, side.analysis, (t0, t1))
            found.append(Chart(draw, caption=f"{name}: {words}", recording=pack, form=Form.PAGE))
    if (ratio := result.judgement.ratio) is not None:
        steps = partial(steps_chart, ratio.before.ns, ratio.after.ns)
        found.append(Chart(steps, heading="Steady steps", form=Form.PAGE))
    return found


def _kernels(kernels: Sequence[KernelChange], titles: Sequence[str]) -> list[tuple[str, ...]]:
    return [
        (
            title,
            or_dash(each.ns_before, duration),
            or_dash(each.ns_after, duration),
            or_dash(each.calls_before, three_digits),
            or_dash(each.calls_after, three_digits),
        )
        for each, title in zip(kernels, titles, strict=True)
    ]


def _values(kernels: Sequence[KernelChange]) -> list[tuple[object, ...]]:
    return [("", each.ns_before, each.ns_after, each.calls_before, each.calls_after) for each in kernels]


def trend_report(name: str, points: Sequence[Point]) -> Report:
    """Runs in their order, and how each differs from the first and from the one before."""
    return Report(
        f"Step time of {name}",
        (
            Chart(partial(trend_chart, points), form=Form.PAGE),
            Table("", COLUMNS, series_rows(points), prose=(0, 3, 4), few=len(points)),
        ),
    )
