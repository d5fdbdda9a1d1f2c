"""The offer that a recording opened beside another one makes: read both as one run, or compare them."""

from __future__ import annotations

from collections.abc import Callable

from PySide6.QtCore import Qt, Signal
from PySide6.QtGui import QKeyEvent, QPainter, QPaintEvent
from PySide6.QtWidgets import QPushButton, QWidget

from parsers.model import Trace
from parsers.model.late import dataclass
from parsers.ranks.joining import complete_each_other, may_join
from viewer.appearance import theme
from viewer.appearance.widgets import ElidedLabel, close_button, horizontal
from viewer.documents.document import Document


@dataclass(frozen=True, slots=True)
class Possible:
    """What can be done with two recordings: read as ranks of one run, shown together, or compared."""

    join: bool
    complete: bool
    compare: bool


def possible(one: Trace, other: Trace) -> Possible:
    """What makes sense for these two."""
    from rules.comparison.related import related

    complete = complete_each_other(one, other)
    return Possible(may_join(one, other), complete, not complete and related(one, other))


class SecondRecordingOffer(QWidget):
    """One line with two buttons, shown once ``document`` is read; gone when one is used or another file is opened."""

    join_wanted = Signal()
    compare_wanted = Signal()

    def __init__(self, document: Document, earlier: str) -> None:
        """``earlier`` is the name of what is open in another window."""
        super().__init__()
        self._document = document
        self.setAccessibleName(f"{earlier} is open in another window")
        layout = horizontal(self, (18, 6, 10, 6), 8)
        layout.addWidget(ElidedLabel(f"{earlier} is open in another window.", "secondary"), 1)
        self.join_button = QPushButton("Add as another rank")
        self.join_button.setToolTip("Open both as one run, on a common clock")
        self.join_button.clicked.connect(self.join_wanted)
        self.compare_button = QPushButton("Compare the two")
        self.compare_button.setToolTip("See what changed between that recording and this one")
        self.compare_button.clicked.connect(self.compare_wanted)
        self.close_button = close_button("Dismiss", self.leave)
        for button in (self.join_button, self.compare_button):
            button.clicked.connect(self.leave)
            layout.addWidget(button)
        layout.addWidget(self.close_button)
        self._read = False
        self._earlier: Callable[[], Trace | None] = lambda: None
        self.hide()
        document.trace_changed.connect(self._on_trace)
        document.failed.connect(self.leave)

    def beside(self, earlier: Callable[[], Trace | None]) -> None:
        """Set who knows the recording of the other window; None once that is gone."""
        self._earlier = earlier

    def _on_trace(self, trace: Trace | None) -> None:
        if self._document.preview:
            return
        one = self._earlier()
        if trace is None or one is None or self._read:
            self.leave()
            return
        self._read = True
        self._document.jobs.ask("offer", lambda _: possible(one, trace), self._show)

    def _show(self, can: Possible) -> None:
        if not (can.join or can.complete or can.compare):
            self.leave()
            return
        if can.complete:
            self.join_button.setText("Show both together")
        self.join_button.setVisible(can.join or can.complete)
        self.compare_button.setVisible(can.compare)
        self.show()

    def leave(self, *_: object) -> None:
        self.hide()
        self.deleteLater()

    def keyPressEvent(self, event: QKeyEvent) -> None:
        if event.key() == Qt.Key.Key_Escape:
            self.leave()
        else:
            super().keyPressEvent(event)

    def paintEvent(self, _: QPaintEvent) -> None:
        painter, colors = QPainter(self), theme.current()
        painter.fillRect(self.rect(), theme.mixed(colors.accent, colors.panel, 0.12))
        painter.fillRect(0, self.height() - 1, self.width(), 1, colors.line)
