"""A run of many ranks as a window holds it: its facts, where its files lie, and which ranks are shown in full."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from parsers.model import Progress, Trace
from parsers.model.late import dataclass
from rules import Diagnosis, Finding
from rules.findings.base import Evidence
from rules.summaries.facts import ManyRanksDiagnosis
from rules.summaries.findings import diagnosis_of_many
from rules.summaries.page import sentence
from rules.terms import Thresholds
from viewer.loading.ranks.opening import FilesOfRun, many_ranks_of

MAX_PINNED = 4  # timelines beside one another


@dataclass(frozen=True, slots=True, eq=False)
class ManyRanksOpened:
    """``compared`` are the rows whose ranks are read in full: the slowest, a typical one, and what was chosen."""

    facts: ManyRanksDiagnosis
    diagnosis: Diagnosis
    files: FilesOfRun
    compared: tuple[int, ...]

    @property
    def sentence(self) -> str:
        return sentence(self.facts, self.diagnosis)

    @property
    def paths(self) -> tuple[Path, ...]:
        """The files of the ranks that are compared, each once."""
        by_name = {each.shown: each for each in self.files.wanted}
        found = []
        for row in self.compared:
            words = self.facts.run.members[self.facts.run.rows[row].member].summary.words
            found += [Path(file) for file in by_name[words.input.path].files]
        return tuple(dict.fromkeys(found))

    def comparing(self, row: int, pinned: bool) -> ManyRanksOpened:
        """The same with another rank as the third timeline, or with one more."""
        kept = self.compared[: MAX_PINNED - 1] if pinned else self.compared[:2]
        return replace(self, compared=tuple(dict.fromkeys((*kept, row))))

    def told_of(self, trace: Trace, local: Diagnosis) -> Diagnosis:
        """The run's findings, with devices of the trace that is shown, and with places on it where it has any."""
        places = {each.rule: each for each in reversed(local.findings)}
        return replace(
            self.diagnosis,
            findings=tuple(
                self._shown(trace, each, places.get(each.rule)) for each in self.diagnosis.findings
            ),
        )

    def _shown(self, trace: Trace, finding: Finding, local: Finding | None) -> Finding:
        device = next(
            (
                index
                for index, each in enumerate(trace.devices)
                if finding.rank is not None
                and each.rank == finding.rank
                and len(trace.operations_of_device(index))
            ),
            None,
        )
        evidence: tuple[Evidence, ...] = local.evidence if local is not None else ()
        return replace(finding, device=device, evidence=evidence, intervals=local.intervals if local else ())


def opened_many(paths: Sequence[Path], progress: Progress, thresholds: Thresholds) -> ManyRanksOpened | None:
    """The run of these files where it has so many ranks that it is judged by summaries; None for others."""
    found = many_ranks_of(paths, progress.part(0.0, 0.85), thresholds)
    if found is None:
        return None
    files, run = found
    facts, diagnosis = diagnosis_of_many(run, progress.part(0.85, 1.0))
    _ = facts.patterns, facts.pattern_reasons, facts.costly, facts.slow_links, facts.scaling
    compared = tuple(dict.fromkeys(row for row in (facts.slowest, facts.typical) if row >= 0))
    return ManyRanksOpened(facts, diagnosis, files, compared)
