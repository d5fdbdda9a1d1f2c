"""The list of fixes beside the diagnosis: tick some, see what they give together and what limits then."""

from __future__ import annotations

from typing import TYPE_CHECKING

from PySide6.QtCore import Qt
from PySide6.QtGui import QFont, QGuiApplication
from PySide6.QtWidgets import QPushButton, QWidget

from parsers.model.units import duration, percent
from viewer.appearance.widgets import (
    NO_MARGINS,
    SPRING,
    Label,
    fill,
    horizontal,
    scrolling,
    tooltip,
    unbroken,
    vertical,
)
from viewer.documents.what_if import AWAITED, WhatIf

if TYPE_CHECKING:
    from rules.fixes.plan import Promise
    from viewer.panels.fixes.fix_card import FixCard

INTRODUCTION = (
    "Tick the changes you would make. Their gains are predicted together: they do not simply multiply."
)


class WhatIfPanel(QWidget):
    """A card for each fix, in the order in which they would be done."""

    lacks = "Gains come from replaying GPU work together with its launches: record both."

    def __init__(self, model: WhatIf, parent: QWidget) -> None:
        """``parent`` owns it while it is in no tab: what nobody owns may be taken away by any thread."""
        super().__init__(parent)
        self.hide()
        self._model = model
        self.cards: list[FixCard] = []
        self._filled = True  # with the fixes of a plan
        self.setAccessibleName("What if")
        self._scroll = scrolling()
        self.together = Label("", wrap=True, weight=QFont.Weight.DemiBold)
        self.limit = Label("", "secondary", pixels=12, wrap=True)
        self.next_button = QPushButton("Tick it")
        self.next_button.setToolTip("Adds the next fix to those that are ticked")
        self.next_button.clicked.connect(self._tick_next)
        self.copy_button = QPushButton("Copy as plan")
        self.copy_button.clicked.connect(self.copy_plan)
        self.try_button = QPushButton("Try all")
        self.try_button.setToolTip("Makes each change in your running program and measures the gain")
        self.try_button.clicked.connect(lambda: model.try_wanted.emit(()))
        fill(vertical(self, NO_MARGINS), (self._scroll, 1))
        self._fill()
        model.plan_changed.connect(self._fill)
        model.ticks_changed.connect(self._say)
        model.predicted.connect(lambda _: self._say())
        model.measured_changed.connect(self._show_measured)
        model.document.recorder_changed.connect(lambda _: self._tell_shares())

    def has_data(self) -> bool:
        """Whether there is anything to tick, or a reason why there is not, or it is still being worked out."""
        plan, document = self._model.plan, self._model.document
        if plan is not None:
            return plan.replay.program is not None
        links = document.trace.links.operation if document.trace is not None else ()
        return document.diagnosis is not None and len(links) > 0

    def _fill(self) -> None:
        document, plan = self._model.document, self._model.plan
        if plan is None and not self._filled:
            return
        self._filled = plan is not None
        for kept in (self.together, self.limit, self.next_button, self.copy_button, self.try_button):
            kept.setParent(self)
            kept.hide()
        body = QWidget()
        column = vertical(body, (12, 8, 12, 12), 8)
        self.cards = []
        if plan is not None and document.trace is not None:
            from rules.verdict.promises import about_replay, removed
            from rules.wording.words import Reader
            from viewer.panels.fixes.fix_card import CARD_RIGHT, SCALE_AIR, FixCard, GainScale

            reader, diagnosis = Reader.of(document.trace), document.diagnosis
            if plan.promises:
                head = fill(
                    horizontal(spacing=8),
                    (Label(INTRODUCTION, "secondary", pixels=12, wrap=True), 1),
                    (self.try_button, 0, Qt.AlignmentFlag.AlignTop),
                )
                column.addLayout(head)
                self.try_button.show()
                scale = fill(horizontal(margins=(0, 0, CARD_RIGHT - SCALE_AIR, 0)), SPRING, GainScale())
                column.addLayout(scale)
            for promise in plan.promises:
                gone = removed(promise, diagnosis) if diagnosis is not None else []
                card = FixCard(promise, plan, gone, reader)
                card.ticked.connect(self._model.tick)
                card.passed.connect(self._pass)
                card.finding_wanted.connect(document.select_finding)
                card.sum_wanted.connect(self._explain)
                card.try_wanted.connect(lambda fix: self._model.try_wanted.emit((fix,)))
                self.cards.append(card)
                column.addWidget(card)
            for each in (self.together, self.limit):
                column.addWidget(each)
            foot = fill(horizontal(spacing=8), self.next_button, self.copy_button, SPRING)
            fill(
                column,
                foot,
                Label("How reliable is this?", weight=QFont.Weight.DemiBold, pixels=12),
                Label(about_replay(plan), "secondary", pixels=12, wrap=True),
            )
        else:
            column.addWidget(Label(AWAITED, "secondary", pixels=12, wrap=True))
        column.addStretch(1)
        self._scroll.setWidget(body)
        self._say()
        self._tell_shares()
        self._show_measured()

    def _explain(self, promise: Promise) -> None:
        from viewer.query.explained import gain_behind

        self._model.document.question_wanted.emit(gain_behind(promise).question)

    def _tell_shares(self) -> None:
        for card in self.cards:
            for chip, finding in card.chips:
                told = self._model.document.told(finding)
                chip.say(told.title_in_short)
                chip.setToolTip(tooltip(f"Go to finding: {told.title}"))

    def _show_measured(self) -> None:
        for card in self.cards:
            card.show_measured(self._model.measured(card.promise))
            card.show_record(self._model.record(card.promise))

    def _say(self) -> None:
        prediction, plan = self._model.prediction, self._model.plan
        known = prediction is not None and plan is not None and prediction.ids == self._model.ticked
        for each in (self.together, self.limit, self.next_button, self.copy_button):
            each.setVisible(known and bool(self.cards))
        if not known or prediction is None or plan is None:
            return
        heading, text = self._limit()
        self.together.setText(unbroken(heading))
        self.limit.setText(unbroken(text))
        self.next_button.setVisible(self._next() is not None)

    def _next(self) -> Promise | None:
        """The first fix that is not ticked and of which a gain is predicted."""
        prediction, plan = self._model.prediction, self._model.plan
        ids = prediction.ids if prediction is not None else ()
        promises = plan.promises if plan is not None else ()
        return next((each for each in promises if each.id not in ids and not each.proposal.redesign), None)

    def _tick_next(self) -> None:
        wanted = self._next()
        for card in self.cards:
            if card.promise is wanted:
                card.box.setChecked(True)

    def _limit(self) -> tuple[str, str]:
        """What limits a step then, and what it takes, what else there is, and what would be next."""
        from rules.verdict.promises import worded_shortly
        from viewer.statistics.what_if import bar

        prediction, plan = self._model.prediction, self._model.plan
        if prediction is None or plan is None or not prediction.steps:
            return "", ""
        outcome, count = prediction.outcome, len(prediction.ids)
        (_, label, ns), *rest = sorted(bar(plan, prediction, after=True), key=lambda part: -part[2])
        whole = max(outcome.after_ns, 1.0)
        ticked = {1: "this fix", 2: "both fixes"}.get(count, f"these {count} fixes")
        text = f"{duration(ns)} ({percent(ns / whole)}) of a step of {duration(round(whole))}"
        text += f", which may take {duration(outcome.least_ns)} to {duration(outcome.most_ns)}."
        if rest:
            text += (
                " The rest: "
                + ", ".join(f"{each} {percent(part / whole)}" for _, each, part in rest[:2])
                + "."
            )
        wanted = self._next()
        if wanted is not None:
            text += f" Next: {wanted.proposal.title}, alone {worded_shortly(wanted)}."
        return f"After {ticked}, the limit is {label}", text

    def enter(self) -> None:
        """Put the keyboard on the first fix that is not ticked."""
        if self.cards:
            free = next((card for card in self.cards if not card.box.isChecked()), self.cards[0])
            free.setFocus(Qt.FocusReason.TabFocusReason)
            self._scroll.ensureWidgetVisible(free)

    def _pass(self, by: int) -> None:
        focused = next((index for index, card in enumerate(self.cards) if card.hasFocus()), 0)
        card = self.cards[(focused + by) % len(self.cards)]
        card.setFocus(Qt.FocusReason.TabFocusReason)
        self._scroll.ensureWidgetVisible(card)

    def copy_plan(self) -> None:
        """Put what is ticked on the clipboard as text."""
        QGuiApplication.clipboard().setText(self._model.as_text())
