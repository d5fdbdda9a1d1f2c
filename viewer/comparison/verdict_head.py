"""The head of a comparison: the verdict with its interval, whether the work is the same, and why."""

from __future__ import annotations

from functools import partial

from PySide6.QtGui import QColor, QFont
from PySide6.QtWidgets import QWidget

from rules.comparison.compare import Comparison
from rules.comparison.same_work import Answer
from viewer.appearance import theme
from viewer.appearance.widgets import Label, fill, horizontal, unbroken, vertical
from viewer.comparison.finding_list import Badge

UNITED = "; "


class VerdictHead(QWidget):
    """The verdict at the top of the window, and below it all that is different; nothing is cut off."""

    def __init__(self) -> None:
        super().__init__()
        self.sentence = Label(
            "", pixels=theme.VERDICT_PX + 1, weight=QFont.Weight.DemiBold, wrap=True, selectable=True
        )
        self.reason = Label("", "secondary", pixels=theme.BODY_PX, wrap=True, selectable=True)
        self._badge: Badge | None = None
        self._below = horizontal(spacing=10)
        self._below.addWidget(self.reason, 1)
        fill(vertical(self, (14, 8, 14, 7), 5), self.sentence, self._below)

    @property
    def badge(self) -> str:
        return self._badge.text if self._badge is not None else ""

    def wait(self, text: str) -> None:
        """Say what is being done; there is no verdict yet."""
        self._say(text)

    def show_result(self, result: Comparison) -> None:
        work = result.work
        if work is None:
            self._say(result.headline or result.verdict)
            return
        because = [work.reason, *(each for each in work.differences if each != work.reason)]
        if result.scaling is not None:
            because.insert(0, result.scaling.told())
        self._say(
            result.headline or result.verdict,
            f"same work: {work.answer.value}",
            UNITED.join(because),
            work.answer,
        )

    def _say(self, sentence: str, badge: str = "", reason: str = "", answer: Answer = Answer.YES) -> None:
        self.sentence.setText(unbroken(sentence))
        self.reason.setText(unbroken(reason))
        if self._badge is not None:
            self._below.removeWidget(self._badge)
            self._badge.deleteLater()
            self._badge = None
        if badge:
            self._badge = Badge(badge, partial(_tone, answer))
            self._below.insertWidget(0, self._badge)


def _tone(answer: Answer) -> QColor:
    colors = theme.current()
    return {Answer.YES: colors.good, Answer.NEARLY: colors.accent, Answer.NO: colors.warning}[answer]
