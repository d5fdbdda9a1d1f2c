"""A thin bar in a card: which part of a step a finding costs."""

from __future__ import annotations

from PySide6.QtCore import QRectF, Qt
from PySide6.QtGui import QColor, QPainter, QPaintEvent
from PySide6.QtWidgets import QWidget

from parsers.model.units import percent
from rules import Finding
from rules.causes import OTHER_BASIS
from rules.wording.headline import Part
from viewer.appearance import theme

MIN_WIDTH = 32  # pixels: of a shorter one nobody could tell a part


def share_in_words(finding: Finding) -> str:
    """ "57 % of every step", where the title leaves it out; and how much it is with what it delays, if that is more."""
    amount = finding.headline.amount
    return str(amount) if isinstance(amount, Part) and amount.is_of_a_step else ""


def _shares(finding: Finding) -> tuple[float, float]:
    """The part of a step that the words beside the bar tell, and that with what it delays."""
    amount = finding.headline.amount
    if isinstance(amount, Part):
        return amount.share, amount.with_delays
    return finding.share, finding.cost if finding.cost >= finding.share + OTHER_BASIS else 0.0


class ShareBar(QWidget):
    """The part of a step that is the finding's own time; paler, what it delays."""

    def __init__(self, finding: Finding, color: QColor) -> None:
        super().__init__()
        self._color = color
        self.setFixedHeight(5)
        self.show_finding(finding)

    def show_finding(self, finding: Finding) -> None:
        """The same finding in a step with the recorder, or without."""
        own, with_delays = _shares(finding)
        self.share = min(max(own, 0.0), 1.0)
        self.with_delays = min(max(with_delays, self.share), 1.0)
        self.setAccessibleName(f"{percent(self.with_delays)} of the time")
        self.update()

    def paintEvent(self, _: QPaintEvent) -> None:
        if self.width() < MIN_WIDTH:
            return
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        painter.setPen(Qt.PenStyle.NoPen)
        colors = theme.current()
        pale = theme.mixed(self._color, colors.panel, 0.5)
        for share, color in ((1.0, colors.strip), (self.with_delays, pale), (self.share, self._color)):
            if share > 0:
                painter.setBrush(color)
                painter.drawRoundedRect(QRectF(0, 0.5, max(self.width() * share, 4.0), 4), 2, 2)
