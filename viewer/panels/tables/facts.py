"""Facts as a two-column list; those that lead to another event are links."""

from __future__ import annotations

from collections.abc import Sequence

from PySide6.QtCore import Qt, Signal
from PySide6.QtGui import QFont, QFontMetricsF, QResizeEvent
from PySide6.QtWidgets import QGridLayout, QPushButton, QScrollArea, QSizePolicy, QWidget

from viewer.appearance.widgets import SPRING, ElidedLabel, Label, elided_inside, fill, tooltip, vertical
from viewer.statistics.event_facts import Fact

MAX_LINK_LENGTH = 90


class LinkButton(QPushButton):
    """A link of one line; a ``sentence`` that does not fit tells one amount, or lacks its end, a name its middle."""

    def __init__(self, text: str, *, sentence: bool = False) -> None:
        super().__init__()
        self._whole, self._sentence = text, sentence
        self.setFlat(True)
        self.setProperty("link", "bare")
        self.setCursor(Qt.CursorShape.PointingHandCursor)
        self.setSizePolicy(QSizePolicy.Policy.Ignored, QSizePolicy.Policy.Fixed)
        self._fit()

    def say(self, text: str) -> None:
        """Show another text, shortened like the first."""
        self._whole = text
        self._fit()

    def _fit(self) -> None:
        metrics, room = QFontMetricsF(self.font()), max(self.width(), 60)
        if self._sentence:
            what, colon, amount = self._whole.rpartition(": ")
            fits = metrics.horizontalAdvance(self._whole) <= room
            text = self._whole if fits else f"{what}{colon}{amount.partition(', ')[0]}"
            shown = metrics.elidedText(text, Qt.TextElideMode.ElideRight, room)
        else:
            shown = elided_inside(self._whole, metrics, room)
        self.setText(shown.replace("&", "&&"))

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self._fit()


class FactList(QScrollArea):
    """A title and facts below it; ``event_wanted`` when a link is clicked."""

    event_wanted = Signal(int)

    def __init__(self) -> None:
        super().__init__()
        self.setWidgetResizable(True)
        self.setFrameShape(QScrollArea.Shape.NoFrame)
        self.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.facts: tuple[Fact, ...] = ()
        self.title = ""

    def show_facts(self, title: str, facts: Sequence[Fact]) -> None:
        self.title, self.facts = title, tuple(facts)
        body = QWidget()
        column = vertical(body, (14, 8, 10, 8), 5)
        column.addWidget(
            ElidedLabel(title, pixels=14, weight=QFont.Weight.DemiBold, mode=Qt.TextElideMode.ElideMiddle)
        )
        grid = QGridLayout()
        grid.setHorizontalSpacing(14)
        grid.setVerticalSpacing(3)
        grid.setColumnStretch(1, 1)
        for row, fact in enumerate(facts):
            grid.addWidget(Label(fact.label, "secondary"), row, 0, Qt.AlignmentFlag.AlignTop)
            grid.addWidget(self._value(fact), row, 1)
        fill(column, grid, SPRING)
        self.setWidget(body)
        self._fit_height()

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self._fit_height()

    def _fit_height(self) -> None:
        """As high as the facts are at this width: what Qt guesses for texts that may wrap is higher."""
        body = self.widget()
        layout = body.layout() if body is not None else None
        if body is not None and layout is not None:
            body.setMinimumHeight(layout.totalHeightForWidth(self.viewport().width()))

    def _value(self, fact: Fact) -> QWidget:
        if fact.event < 0:
            return Label(fact.text, wrap=True, selectable=True)
        text = " ".join(fact.text.split())
        shown = text if len(text) <= MAX_LINK_LENGTH else text[:MAX_LINK_LENGTH] + " ..."
        link = LinkButton(shown)
        link.setToolTip(tooltip(f"{fact.whole or fact.text}\nClick to go there"))
        link.setAccessibleName(f"{fact.label}: {shown}")
        link.clicked.connect(lambda: self.event_wanted.emit(fact.event))
        return link
