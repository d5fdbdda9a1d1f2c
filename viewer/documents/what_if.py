"""Which fixes are ticked, and what they would give together; panels and the timeline listen to it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from PySide6.QtCore import QObject, Signal

from parsers.model import Progress
from rules.trials.record import FixRecord, KeptTrial
from rules.trials.trial import Kind
from viewer.documents.document import Document

if TYPE_CHECKING:
    from rules.fixes.plan import Plan, Promise
    from viewer.statistics.what_if import Prediction

AWAITED = "Working out what fixes would give ..."
_SLOT = "what if"


class WhatIf(QObject):
    """Follows a document: its fixes come with the plan, and all that is ticked is replayed together."""

    plan_changed = Signal()
    ticks_changed = Signal()
    predicted = Signal(object)  # Prediction, or None while nothing is ticked
    try_wanted = Signal(object)  # ids of promises to try in the program; empty: all
    measured_changed = Signal()

    def __init__(self, document: Document) -> None:
        super().__init__(document)
        self.document = document
        self.ticked: tuple[str, ...] = ()
        self.prediction: Prediction | None = None
        self._told: Plan | None = None  # the plan that others know
        self._measured: dict[str, KeptTrial] = {}
        self._records: Mapping[str, FixRecord] = {}
        document.plan_changed.connect(lambda _: self._start_anew())
        document.trace_changed.connect(lambda _: self._forget_measured())
        document.trace_changed.connect(lambda _: self._start_anew())
        document.analysis_changed.connect(lambda _: self._start_anew())

    @property
    def plan(self) -> Plan | None:
        """The fixes of what is open; None until they are known."""
        return self.document.plan

    def _start_anew(self) -> None:
        """When there is another plan, or none any more."""
        if self.plan is self._told:
            return
        self._told, self.ticked = self.plan, ()
        self._take(None)
        self.plan_changed.emit()

    def _forget_measured(self) -> None:
        self._measured, self._records = {}, {}

    def measured(self, promise: Promise) -> KeptTrial | None:
        """What a trial made of a promise; None where it was not tried."""
        return self._measured.get(promise.id)

    def keep_measured(self, trials: Sequence[KeptTrial]) -> None:
        """Let these stand beside the promises they belong to, the best of each; a ceiling only where that is all."""
        for each in sorted(trials, key=_rank_of):
            if each.fix and each.measured is not None:
                self._measured[each.fix] = each
        self.measured_changed.emit()

    def record(self, promise: Promise) -> FixRecord | None:
        """How promises of the same fix held on the machine of what is open; None where none was tried there."""
        return self._records.get(promise.proposal.fix)

    def keep_records(self, records: Sequence[FixRecord]) -> None:
        """Let these stand beside the promises of their fixes."""
        self._records = {each.fix: each for each in records}
        self.measured_changed.emit()

    def tick(self, fix: str, on: bool) -> None:
        """Make a fix one of those that are made together, or leave it out."""
        plan = self.plan
        if plan is None or (fix in self.ticked) is on:
            return
        wanted = {*self.ticked, fix} if on else {each for each in self.ticked if each != fix}
        self.ticked = tuple(each.id for each in plan.promises if each.id in wanted)
        self.ticks_changed.emit()
        if not self.ticked:
            self.document.jobs.forget(_SLOT)
            self._take(None)
            return
        ticked = self.ticked

        def work(progress: Progress) -> Prediction:
            from viewer.statistics.what_if import predict

            progress.step(0.0, "replaying the steps")
            return predict(plan, ticked)

        self.document.jobs.ask(
            _SLOT, work, lambda found: self._take(found) if ticked == self.ticked else None
        )

    def _take(self, prediction: Prediction | None) -> None:
        if prediction is not self.prediction:
            self.prediction = prediction
            self.predicted.emit(prediction)

    def as_text(self) -> str:
        """What is ticked as a plan: every fix with its advice, and what they give together."""
        from rules.verdict.promises import worded
        from rules.wording.words import Reader
        from viewer.reports.fixes_report import outcome_text

        plan, trace = self.plan, self.document.trace
        if plan is None or trace is None or self.prediction is None:
            return ""
        chosen, lines = plan.chosen(self.prediction.ids), []
        for number, promise in enumerate(chosen, 1):
            lines.append(f"{number}. {promise.proposal.title}: alone {worded(promise)}")
            lines += [f"   - {advice}" for advice in promise.proposal.remedy.advice_for(Reader.of(trace))]
        return "\n".join(lines) + "\n\n" + outcome_text(plan, self.prediction.outcome, chosen)


def _rank_of(trial: KeptTrial) -> tuple[bool, float]:
    return trial.kind != Kind.CEILING.value, trial.measured[1] if trial.measured is not None else 0.0
