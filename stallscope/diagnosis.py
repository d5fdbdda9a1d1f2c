"""The diagnosis of a run as plain values."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from parsers.model.late import dataclass
from rules.analysis.analysis import Analysis
from rules.verdict.verdict import verdict
from viewer.tables.rows.found import findings_of


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that is wrong; ``ceiling_ns`` is how much shorter the analysed time could be at most without it."""

    rule: str
    category: str
    severity: str
    title: str
    explanation: str
    advice: tuple[str, ...]
    culprit: str
    rank: int | None
    ceiling_ns: int
    cannot_tell: str
    evidence: tuple[tuple[int, int], ...]  # where to see it: start and end, ns


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """One sentence, the findings, the first first, and which checks lacked their data."""

    verdict: str
    findings: tuple[Finding, ...]
    not_checked: Mapping[str, str]
    _analysis: Analysis

    @classmethod
    def of(cls, analysis: Analysis) -> Diagnosis:
        """The diagnosis of an analysed recording."""
        found = findings_of(analysis)
        findings = tuple(
            Finding(
                each.rule,
                str(each.category),
                each.severity.value,
                each.title,
                each.explanation,
                tuple(each.advice),
                each.culprit.text,
                each.rank,
                int(each.ceiling_ns),
                each.cannot_tell,
                tuple((int(place.start), int(place.end)) for place in each.evidence),
            )
            for each in found.findings
        )
        return cls(verdict(analysis, found), findings, dict(sorted(found.skipped.items())), analysis)

    def __str__(self) -> str:
        from viewer.reports.text_report import as_text

        return as_text(self._analysis.trace, findings_of(self._analysis), self._analysis)

    def __repr__(self) -> str:
        return f"<Diagnosis: {self.verdict}; {len(self.findings)} findings>"

    def as_json(self) -> dict[str, Any]:
        """What ``stallscope diagnose --json`` prints; resources/diagnosis.schema.json describes it."""
        from viewer.reports.json_report import as_json

        return as_json(self._analysis.trace, findings_of(self._analysis), self._analysis)

    def _repr_html_(self) -> str:
        from viewer.reports.diagnosis_report import diagnosis_report
        from viewer.reports.rendering.pages import IN_A_NOTEBOOK, framed, page_of

        report = diagnosis_report(self._analysis.trace, findings_of(self._analysis), self._analysis)
        return framed(page_of(report, most_bytes=IN_A_NOTEBOOK))
