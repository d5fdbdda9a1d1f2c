"""The diagnosis of a run of many ranks as a report: with what only many ranks show."""

from __future__ import annotations

from parsers.model.units import duration
from rules import Diagnosis
from rules.summaries import page as told
from rules.summaries.facts import ManyRanksDiagnosis
from rules.wording.late_ranks import doing
from viewer.reports.blocks import Cards, Form, Points, Report, Table, Text
from viewer.reports.diagnosis_report import card
from viewer.reports.many_ranks_report import MOST_UNREAD, NO_REPLAY, about, budget_rows
from viewer.reports.report_files import Makers, makers_of


def many_ranks_files(facts: ManyRanksDiagnosis, diagnosis: Diagnosis) -> Makers:
    """The reports of a run of many ranks."""
    return makers_of(lambda: many_ranks_report(facts, diagnosis))


def many_ranks_report(facts: ManyRanksDiagnosis, diagnosis: Diagnosis) -> Report:
    """What was found, patterns, ten ranks; nothing is replayed, and it says so."""
    run = facts.run
    costly = [
        (run.name(each.row), run.rows[each.row].node, duration(each.cost_ns), duration(each.late_ns),
         f"{each.latest_in:,}", doing(each.reasons))
        for each in facts.costly
    ]  # fmt: skip
    left_out = [f"{path}: {reason}" for path, reason in run.unread[:MOST_UNREAD]]
    skipped = [f"{rule}: {reason}" for rule, reason in sorted(diagnosis.skipped.items())]
    return Report(
        told.sentence(facts, diagnosis),
        (
            Text((" ".join(told.next_steps(facts)),)),
            Text((", ".join(about(run)),), quiet=True),
            Text((f"What fixes would give is not predicted: {NO_REPLAY}.",), quiet=True),
            Cards(tuple(card(each, "", "") for each in diagnosis.findings)),
            Table("Where the time goes", ("", "mean", "least", "most"), budget_rows(run)),
            Table("Who is late", ("", "why"), told.patterns(facts), prose=(1,)),
            Table(
                "Ranks that cost the most",
                ("", "node", "others wait in a step", "late by", "latest in steps", "why"),
                costly,
                prose=(1, 5),
            ),
            Points("Links and balance", (*told.links(facts), *told.balance(facts))),
            Points("Left out", tuple(left_out)),
            Points("Not checked", tuple(skipped), form=Form.PAGE),
            Points("Thresholds that were changed", tuple(diagnosis.thresholds.changed()), form=Form.PAGE),
        ),
    )
