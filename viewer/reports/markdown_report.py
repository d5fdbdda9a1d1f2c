"""A diagnosis and a comparison as Markdown, to be pasted into a review or a summary of a build; names stay names."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from parsers.model import Trace
from parsers.model.names.devices import device_name
from parsers.model.units import duration
from rules import Diagnosis
from rules.analysis.analysis import Analysis
from rules.comparison.compare import Comparison
from rules.comparison.gate import Decision
from rules.fixes.plan import plan_of
from rules.gates.judging import Answer, overall
from rules.wording.promises import first_step, gain, worded
from rules.wording.verdict import budget_parts, gpus_that_ran, share_of, shows_no_run, verdict
from viewer.reports.comparison_report import (
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
from viewer.reports.series_report import COLUMNS, Point, series_rows

MOST_FIXES, MOST_FINDINGS, MOST_KERNELS, MOST_GPUS = 5, 8, 12, 4
LEAST_SHARE = 0.005  # of the window
_MARKS = re.compile(r"[\\`*_{}\[\]|~$]|^[#+=-]|(?<=^\d)[.)](?=\s)|(?<=^\d\d)[.)](?=\s)")
_REFERENCES = re.compile(r"([@#])(?=\w)")  # sites turn these into links to people and to other threads
_SIGNS = {
    Decision.PASSED: "✅ Passed",
    Decision.FAILED: "❌ Failed",
    Decision.INCONCLUSIVE: "⚠️ Not decided",
}


def plain(text: str) -> str:
    """``text`` as Markdown that shows it letter by letter, in one line."""
    apart = _REFERENCES.sub("\\1\N{ZERO WIDTH SPACE}", " ".join(safe(text).split()))
    shown = _MARKS.sub(r"\\\g<0>", apart).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return shown.replace("://", ":\N{ZERO WIDTH SPACE}//")


def diagnosis_markdown(trace: Trace, diagnosis: Diagnosis, analysis: Analysis) -> str:
    """The verdict, where the time goes, what to change, and the findings."""
    plan = plan_of(analysis)
    is_run = not shows_no_run(analysis, diagnosis)
    lines = [f"## {plain(verdict(analysis, diagnosis))}", ""]
    if first := first_step(plan, diagnosis):
        lines += [plain(first), ""]
    lines += [plain(", ".join(f"{each.path} ({each.producer})" for each in trace.inputs)), ""]
    for index in gpus_that_ran(trace)[:MOST_GPUS] if is_run else ():
        budget = analysis.budget(index, *analysis.window)
        parts = [
            (share_of(ns, budget.window_ns), duration(ns), label)
            for _, label, ns in budget_parts(budget, analysis.idle)
            if ns >= LEAST_SHARE * budget.window_ns
        ]
        name = f"{device_name(trace, index)} {trace.devices[index].name}"
        lines += table(("share", "time", name), parts)
    if plan.promises and is_run:
        lines += ["### What to change, in this order", ""]
        for number, promise in enumerate(plan.promises[:MOST_FIXES], 1):
            lines.append(f"{number}. **{plain(promise.proposal.title)}**: {plain(worded(promise))}")
        lines.append("")
    if diagnosis.findings:
        lines += ["### Findings", ""]
        lines += table(
            ("", "finding", "gives"),
            [
                (each.severity.value, each.title, gain(each, plan, short=True))
                for each in diagnosis.findings[:MOST_FINDINGS]
            ],
        )
    return "\n".join(lines).rstrip() + "\n"


def comparison_markdown(result: Comparison, answers: Sequence[Answer] = ()) -> str:
    """What the gate answered, the verdict, and what changed; long tables are folded."""
    lines = []
    if answers:
        lines += [f"## {_SIGNS[overall(answers)]}", ""]
    lines += [f"**{plain(result.verdict)}**", ""]
    lines += [f"before: {plain(result.before)}  ", f"after: {plain(result.after)}", ""]
    if answers:
        lines += table(
            ("limit", "before", "after", "answer"),
            [
                (
                    f"{each.limit.written} {each.limit.percent:g} %",
                    each.before or "-",
                    each.after or "-",
                    _SIGNS[each.decision]
                    if each.decision is Decision.PASSED
                    else f"{_SIGNS[each.decision]}: {each.why}",
                )
                for each in answers
            ],
        )
    careful = [
        *(line.strip() for line in same_work_lines(result)),
        *(f"careful: {each}" for each in result.cautions),
    ]
    lines += [*(f"* {plain(each)}" for each in careful), *([""] if careful else [])]
    lines += table(
        ("", "before", "after", "change"),
        [(each.name, *sides(each, result), change(each, result)) for each in (result.step, *result.measures)],
    )
    if result.findings:
        lines += ["### Findings, and what each costs at most", ""]
        lines += table(
            ("now", "before", "after", "finding"),
            [
                (each.change.value, *finding_sides(each, result), each.finding.title_beside_its_cost)
                for each in result.findings[:MOST_FINDINGS]
            ],
        )
    for bridge in result.bridges[:1]:
        lines += _folded(
            f"Where the time went, by {bridge.title}{each_step(result)}", ("", "time"), bridge_rows(bridge)
        )
    most = result.kernels[:MOST_KERNELS]
    lines += _folded(
        f"Kernels that changed most{each_step(result)}",
        ("kernel", "before", "after", "calls before", "calls after"),
        [
            (
                title,
                or_dash(each.ns_before, duration),
                or_dash(each.ns_after, duration),
                or_dash(each.calls_before, lambda calls: f"{calls:.3g}"),
                or_dash(each.calls_after, lambda calls: f"{calls:.3g}"),
            )
            for each, title in zip(most, kernel_titles(most), strict=True)
        ],
    )
    return "\n".join(lines).rstrip() + "\n"


def trend_markdown(name: str, points: Sequence[Point]) -> str:
    """Runs in their order, as a table."""
    return (
        "\n".join([f"## Step time of {plain(name)}", "", *table(COLUMNS, series_rows(points))]).rstrip()
        + "\n"
    )


def table(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    """Numbers are set to the right; an empty line follows."""
    rows = list(rows)
    if not rows:
        return []
    ends = [":---" if not _is_number(rows[0][place]) else "---:" for place in range(len(columns))]
    return [
        f"| {' | '.join(plain(column) for column in columns)} |",
        f"| {' | '.join(ends)} |",
        *(f"| {' | '.join(plain(cell) for cell in row)} |" for row in rows),
        "",
    ]


def _is_number(cell: str) -> bool:
    return cell[:1] in "0123456789+-<" and bool(cell) and cell[1:2] != " "


def _folded(title: str, columns: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    lines = table(columns, rows)
    return [f"<details><summary>{plain(title)}</summary>", "", *lines, "</details>", ""] if lines else []
