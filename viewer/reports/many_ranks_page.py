"""The diagnosis of a run of many ranks as files: a page that stands alone, PDF, Markdown."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from parsers.model.units import duration
from rules import Diagnosis
from rules.summaries import page as told
from rules.summaries.facts import ManyRanksDiagnosis
from rules.wording.late_ranks import doing
from viewer.reports.html_report import card
from viewer.reports.many_ranks_report import MOST_UNREAD, NO_REPLAY, about, as_text, budget_rows
from viewer.reports.markdown_report import plain
from viewer.reports.pages import Page
from viewer.reports.report_files import Makers, makers_of

_CODE = "    "  # what is indented by so much is shown letter by letter


def many_ranks_files(facts: ManyRanksDiagnosis, diagnosis: Diagnosis) -> Makers:
    """The reports of a run of many ranks."""
    return makers_of(
        lambda page: many_ranks_page(facts, diagnosis, page), lambda: _markdown(facts, diagnosis)
    )


def many_ranks_page(facts: ManyRanksDiagnosis, diagnosis: Diagnosis, page: Page) -> Page:
    """The page of a diagnosis, with what only many ranks show; nothing is replayed, and it says so."""
    left_out = [f"{path}: {reason}" for path, reason in facts.run.unread[:MOST_UNREAD]]
    return page.fill(
        "diagnosis.html",
        told.sentence(facts, diagnosis),
        files=", ".join(about(facts.run)),
        timeline="",
        stretch="",
        budgets=[],
        first_step=" ".join(told.next_steps(facts)),
        fixes=[],
        about_fixes=f"What fixes would give is not predicted: {NO_REPLAY}.",
        cards=[card(finding, "") for finding in diagnosis.findings],
        tables=[each for each in _tables(facts) if each["rows"]],
        memory=[],
        skipped=[f"{rule}: {reason}" for rule, reason in sorted(diagnosis.skipped.items())] + left_out,
        changed_thresholds=diagnosis.thresholds.changed(),
    )


def _tables(facts: ManyRanksDiagnosis) -> list[dict[str, Any]]:
    run = facts.run
    return [
        _table("Where the time goes", ("", "mean", "least", "most"), budget_rows(run)),
        _table(
            "Who is late",
            ("", "why"),
            told.patterns(facts),
        ),
        _table(
            "Ranks that cost the most",
            ("", "node", "others wait in a step", "late by", "latest in steps", "why"),
            [
                (run.name(each.row), run.rows[each.row].node, duration(each.cost_ns), duration(each.late_ns),
                 f"{each.latest_in:,}", doing(each.reasons))
                for each in facts.costly
            ],
        ),
        _table("Links and balance", ("",), [(line,) for line in (*told.links(facts), *told.balance(facts))]),
    ]  # fmt: skip


def _table(heading: str, columns: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> dict[str, Any]:
    return {"heading": heading, "columns": columns, "rows": rows, "left": 0}


def _markdown(facts: ManyRanksDiagnosis, diagnosis: Diagnosis) -> str:
    lines = [f"{_CODE}{line}".rstrip() for line in as_text(facts, diagnosis).splitlines()]
    return "\n".join([f"## {plain(told.sentence(facts, diagnosis))}", "", *lines]) + "\n"
