"""The diagnosis panel: findings as cards by ceiling, then what is quiet and what was not checked, and why."""

from __future__ import annotations

from typing import TYPE_CHECKING

from PySide6.QtCore import QTimer
from PySide6.QtGui import QAction, QFont, QResizeEvent
from PySide6.QtWidgets import QMenu, QVBoxLayout, QWidget

from parsers.model.units import how_many
from rules.findings.base import Severity, rules
from viewer.appearance import theme
from viewer.appearance.widgets import (
    NO_MARGINS,
    SPRING,
    ElidedLabel,
    Label,
    fill,
    horizontal,
    menu_button,
    scrolling,
    vertical,
)
from viewer.documents.document import Document, Stage
from viewer.panels.findings.check_list import CheckList, Explained, check_name

if TYPE_CHECKING:
    from rules import Diagnosis, Finding
    from rules.fixes.plan import Plan, Promise
    from rules.terms import Thresholds
    from viewer.capture.request import CaptureRequest
    from viewer.panels.findings.finding_card import FindingCard, TextAround

WIDE = 350  # pixels: from here the number of quiet checks fits beside the number of findings
NO_GPU = "Nothing to diagnose: the recording contains no GPU work and no CPU activity."
_SEVERITIES = (Severity.HIGH, Severity.MEDIUM, Severity.LOW, Severity.INFO)


class DiagnosisPanel(QWidget):
    """All findings of a document; the filter keeps severities, categories and ranks."""

    def __init__(self, document: Document) -> None:
        super().__init__()
        self._document = document
        self._severities = set(_SEVERITIES)
        self._category = ""
        self._rank: int | None = None
        self._which = 0
        self.cards: list[FindingCard] = []
        self.text_around: TextAround = lambda _: ("", "")
        self._body_layout: QVBoxLayout | None = None
        self.setAccessibleName("Diagnosis")
        self._wait: Label | None = None  # what is said while there is no diagnosis
        self._count = ElidedLabel("", "secondary", pixels=12)
        self.absent: Label | None = None  # what is no problem
        self._told = ("", "")  # what it says, in short and in full
        self.filter_button = menu_button("Filter ▾", padding="3px 8px")
        self.filter_button.setAutoRaise(True)
        self.filter_button.setToolTip("Show only some severities, categories or ranks")
        top = horizontal(margins=(14, 8, 8, 2))
        self.heading = Label("Diagnosis", pixels=14, weight=QFont.Weight.DemiBold)
        top.addWidget(self.heading)
        top.addSpacing(8)
        fill(top, SPRING, self._count, self.filter_button)
        self._scroll = scrolling()
        fill(vertical(self, NO_MARGINS, 0), top, (self._scroll, 1))
        document.diagnosis_changed.connect(lambda _: self._on_new())
        document.plan_changed.connect(self._tell_plan)
        document.trace_changed.connect(lambda _: self._on_new())
        document.stage_changed.connect(lambda _: self._fill() if not self.cards else None)
        document.finding_changed.connect(self._on_finding)
        document.recorder_changed.connect(lambda _: self._tell_shares())
        theme.changed.connect(self._fill)
        self._fill()

    def _say_count(self) -> None:
        self._count.setText(self._told[self.width() >= WIDE])

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self._say_count()

    def _tell_plan(self, plan: Plan) -> None:
        for card in self.cards:
            card.tell(plan)

    def _tell_shares(self) -> None:
        for card in self.cards:
            card.tell_as(self._document.told(card.finding))

    def _on_new(self) -> None:
        self._severities, self._category, self._rank = set(_SEVERITIES), "", None
        self._fill()
        self._fill_menu()

    def shown_findings(self) -> list[Finding]:
        """Findings that pass the filter, in the order of the cards."""
        diagnosis = self._document.diagnosis
        return [
            finding
            for finding in (diagnosis.findings if diagnosis is not None else ())
            if finding.severity in self._severities
            and (not self._category or finding.category.value == self._category)
            and (self._rank is None or finding.rank in (None, self._rank))
        ]

    def _next_recording(self, finding: Finding) -> tuple[str, CaptureRequest] | None:
        from viewer.capture.next_recording import recording_for

        trace = self._document.trace
        return recording_for(finding, trace) if trace is not None else None

    def _fill(self, _: object = None) -> None:
        diagnosis = self._document.diagnosis
        if diagnosis is None and self._wait is not None:
            self._wait.setText(self._waiting())
            return
        body = QWidget()
        layout = vertical(body, (10, 8, 10, 10), 8)
        self.cards, self._wait = [], None
        if diagnosis is None:
            self._told = ("", "")
            self._wait = Label(self._waiting(), "secondary", wrap=True)
            layout.addWidget(self._wait)
        else:
            from viewer.panels.findings.finding_card import FindingCard

            explained = _explainer(diagnosis.thresholds)
            for finding in self.shown_findings():
                card = FindingCard(
                    finding,
                    explained(finding.rule),
                    self._next_recording,
                    self._document.plan,
                    lambda line: self.text_around(line),
                )
                card.tell_as(self._document.told(finding))
                card.line_wanted.connect(self._document.line_wanted)
                card.sum_wanted.connect(self._explain)
                card.gain_wanted.connect(self._explain_gain)
                card.ticket_wanted.connect(self._document.ticket_wanted)
                card.record_wanted.connect(self._document.recording_wanted)
                card.chosen.connect(self._document.select_finding)
                card.walked.connect(self.walk)
                card.passed.connect(self._pass)
                self.cards.append(card)
                layout.addWidget(card)
            self._fill_rest(diagnosis, layout, explained)
            self._told = _summary(diagnosis, len(self.cards))
        self._say_count()
        layout.addStretch(1)
        self._body_layout = layout
        current = self._document.finding
        for card in [each for each in self.cards if each.finding is current] or self.cards[:1]:
            card.set_current(True)  # before it is laid out: its height is kept from then on
        self._scroll.setWidget(body)
        self.filter_button.setVisible(diagnosis is not None and len(diagnosis.findings) > 1)

    def _waiting(self) -> str:
        if self._document.trace is None:
            return "Open a recording to see what its GPU waits for."
        if self._document.preview:
            return "The findings follow once everything is read. Meanwhile the first events are shown."
        if self._document.stage is Stage.READY:
            return "The analysis was stopped or failed; the timeline is complete."
        return "Analysing what the GPU waits for ..."

    def _explain_gain(self, promise: Promise) -> None:
        from viewer.query.explained import gain_behind

        self._document.question_wanted.emit(gain_behind(promise).question)

    def _explain(self, finding: Finding) -> None:
        from viewer.query.explained import explained

        if self._document.analysis is not None:
            self._document.question_wanted.emit(explained(finding, self._document.analysis))

    def _fill_rest(self, diagnosis: Diagnosis, layout: QVBoxLayout, explained: Explained) -> None:
        from rules.verdict.absent import absent_in_a_line
        from rules.verdict.verdict import lacks_a_gpu, what_lacks_shapes

        trace = self._document.trace
        without_gpu = trace is not None and lacks_a_gpu(trace, diagnosis)
        if not diagnosis.findings:
            layout.addWidget(Label(NO_GPU if without_gpu else _nothing_found(diagnosis), wrap=True))
        analysis = self._document.analysis
        if analysis is not None and (told := absent_in_a_line(analysis, diagnosis)):
            self.absent = Label(told, "secondary", pixels=12, wrap=True)
            self.absent.setContentsMargins(6, 0, 6, 0)
            layout.addWidget(self.absent)
        changed = diagnosis.thresholds.changed()
        if changed:
            self._note(layout, "With changed thresholds", "\n".join(changed))
        if diagnosis.quiet:
            title = f"{how_many(len(diagnosis.quiet), 'check')} found nothing"
            layout.addWidget(CheckList(title, {"": diagnosis.quiet}, explained))
        if diagnosis.crashed:
            self._note(layout, "These checks failed", ", ".join(map(check_name, diagnosis.crashed)))
        by_reason: dict[str, list[str]] = {}
        for name, reason in diagnosis.skipped.items():
            by_reason.setdefault(reason, []).append(name)
        if trace is not None and without_gpu:
            shapes = what_lacks_shapes(trace, diagnosis)
            others = [name for name in diagnosis.skipped if name not in shapes]
            for names, lack in ((shapes, "tensor shapes"), (others, "GPU activity")):
                if names:
                    title = f"{how_many(len(names), 'check')} need {lack}"
                    layout.addWidget(CheckList(title, {"": names}, explained))
        elif by_reason:
            title = f"{how_many(len(diagnosis.skipped), 'check')} could not be made"
            layout.addWidget(CheckList(title, by_reason, explained))

    @staticmethod
    def _note(layout: QVBoxLayout, title: str, text: str) -> None:
        box = fill(
            vertical(margins=(6, 4, 6, 0), spacing=2),
            Label(title, pixels=12, weight=QFont.Weight.DemiBold),
            Label(text, "faint", pixels=12, wrap=True),
        )
        layout.addLayout(box)

    def _on_finding(self, finding: Finding | None) -> None:
        self._which = _longest(finding)
        for card in self.cards:
            card.set_current(card.finding is finding)
            if card.finding is finding:
                QTimer.singleShot(0, card, lambda shown=card: self._reveal(shown))

    def _reveal(self, card: FindingCard) -> None:
        if self._body_layout is not None:
            self._body_layout.activate()
        top = self._scroll.verticalScrollBar().value()
        if not top <= card.y() <= top + self._scroll.viewport().height() - card.height():
            self._scroll.ensureVisible(0, card.y() + card.height(), 0, 12)
            self._scroll.ensureVisible(0, card.y(), 0, 12)

    def walk(self, by: int) -> None:
        """Fly to the next or the previous evidence of the current finding."""
        finding = self._document.finding or (self.cards[0].finding if self.cards else None)
        if finding is not None and finding.evidence:
            if self._document.finding is None:
                self._document.select_finding(finding)
            self._which = (self._which + by) % len(finding.evidence)
            self._document.show_evidence(finding.evidence, self._which)

    def select(self, by: int) -> None:
        """Make the next or the previous card the current one."""
        if self.cards:
            now = next((index for index, card in enumerate(self.cards) if card.is_current), 0)
            self._document.select_finding(self.cards[(now + by) % len(self.cards)].finding)

    def _pass(self, by: int) -> None:
        self.select(by)
        for card in self.cards:
            if card.is_current:
                card.setFocus()

    def set_filter(
        self, severities: set[Severity] | None = None, category: str = "", rank: int | None = None
    ) -> None:
        """Show only findings of these severities, this category and this rank."""
        self._severities = set(_SEVERITIES) if severities is None else severities
        self._category, self._rank = category, rank
        self._fill()
        self._fill_menu()

    def _fill_menu(self) -> None:
        menu = self.filter_button.menu()
        menu.clear()
        diagnosis = self._document.diagnosis
        findings = diagnosis.findings if diagnosis is not None else ()
        self._heading(menu, "Severity")
        for severity in _SEVERITIES:
            count = sum(finding.severity is severity for finding in findings)
            action = self._choice(
                menu, f"{severity.value.capitalize()} ({count})", severity in self._severities
            )
            action.toggled.connect(lambda on, each=severity: self._toggle(each, on))
        self._heading(menu, "Category")
        titles = {finding.category.value: finding.category.label for finding in findings}
        for name, title in [("", "All categories"), *sorted(titles.items())]:
            action = self._choice(menu, title, self._category == name)
            action.triggered.connect(
                lambda _=False, each=name: self.set_filter(self._severities, each, self._rank)
            )
        ranks = sorted({finding.rank for finding in findings if finding.rank is not None})
        if ranks:
            self._heading(menu, "Rank")
            for rank in [None, *ranks]:
                action = self._choice(
                    menu, "All ranks" if rank is None else f"Rank {rank}", self._rank == rank
                )
                action.triggered.connect(
                    lambda _=False, each=rank: self.set_filter(self._severities, self._category, each)
                )

    @staticmethod
    def _heading(menu: QMenu, text: str) -> None:
        """A line that says what the next ones choose; the style draws no text in a menu's own sections."""
        if not menu.isEmpty():
            menu.addSeparator()
        menu.addAction(text).setEnabled(False)

    @staticmethod
    def _choice(menu: QMenu, text: str, checked: bool) -> QAction:
        action = menu.addAction(text)
        action.setCheckable(True)
        action.setChecked(checked)
        return action

    def _toggle(self, severity: Severity, on: bool) -> None:
        chosen = self._severities | {severity} if on else self._severities - {severity}
        self.set_filter(chosen, self._category, self._rank)


def _nothing_found(diagnosis: Diagnosis) -> str:
    if len(diagnosis.skipped) > len(diagnosis.quiet):
        return "Most checks could not run, so this means little. What they need is listed below."
    return "No check found anything worth fixing."


def _longest(finding: Finding | None) -> int:
    if finding is None or not finding.evidence:
        return 0
    return max(
        range(len(finding.evidence)), key=lambda i: finding.evidence[i].end - finding.evidence[i].start
    )


def _summary(diagnosis: Diagnosis, shown: int) -> tuple[str, str]:
    """In short, and in full."""
    total = len(diagnosis.findings)
    found = how_many(total, "finding") if shown == total else f"{shown} of {total} findings"
    return found, f"{found}, {how_many(len(diagnosis.quiet), 'check')} passed"


def _explainer(thresholds: Thresholds) -> Explained:
    """The parts of a rule's explanation; asked for few rules while a list of many is closed."""
    from rules.documentation import explanation_parts

    known = {rule.id: rule for rule in rules()}
    return lambda rule: explanation_parts(known[rule], thresholds) if rule in known else {}
