"""The diagnosis of a run of many ranks: its facts, and the findings of all ranks together."""

from __future__ import annotations

from parsers.model import Progress
from rules.base import Finding
from rules.diagnosis import Diagnosis
from rules.ranking import ranked
from rules.summaries.facts import ManyRanksDiagnosis
from rules.summaries.findings import findings_of_many
from rules.summaries.run import ManyRanks


def diagnosis_of_many(
    run: ManyRanks, progress: Progress | None = None
) -> tuple[ManyRanksDiagnosis, Diagnosis]:
    """What the run's summaries tell, and the findings, in the order of ``rules.ranking``."""
    progress = progress or Progress()
    run.__dict__["meetings"] = run.matched(progress.part(0.0, 0.7))
    facts = ManyRanksDiagnosis(run)
    progress.step(0.8, "finding who is late")
    findings: list[Finding] = findings_of_many(facts)
    progress.step(1.0, "finding who is late")
    words = [placed.summary.words for placed in run.members]
    skipped = dict(words[0].skipped) if words else {}
    for each in words[1:]:
        skipped = {rule: reason for rule, reason in skipped.items() if rule in each.skipped}
    told = {each.rule for each in findings}
    crashed = {rule: report for each in words for rule, report in each.crashed.items()}
    quiet = sorted({rule for each in words for rule in each.quiet} - told - set(crashed))
    return facts, Diagnosis(
        tuple(ranked(findings)),
        {rule: reason for rule, reason in skipped.items() if rule not in told},
        crashed,
        tuple(quiet),
        run.thresholds,
    )
