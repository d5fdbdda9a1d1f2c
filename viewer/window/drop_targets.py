"""Where a file that is dragged over a window with a recording can be dropped, and what happens with it there."""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum
from pathlib import Path

from PySide6.QtCore import QMimeData, QPointF, QRectF, Qt, Signal
from PySide6.QtGui import QFont, QPainter, QPaintEvent, QPen
from PySide6.QtWidgets import QWidget

from parsers.model.late import regex
from parsers.ranks.joining import goes_beside, may_grow
from viewer.appearance import theme
from viewer.documents.document import Document, Stage

MARGIN, BETWEEN, MAX_HEIGHT = 40, 20, 220  # px
VEIL = 0.86
_DIGITS = regex(r"\d+")


class Target(Enum):
    """What to do with the file: what it is called, and what comes of it."""

    OPEN = "Open in a new window", "The open recording stays as it is"
    JOIN = "Add as another rank", "Opens both as one run, on a common clock"
    ADD = "Add to this one", "Timelines, counters and logs of a run are shown together"
    COMPARE = "Compare with this one", "See what changed between the two"

    def __init__(self, title: str, told: str) -> None:
        self.title, self.told = title, told


def local_files(data: QMimeData) -> list[Path]:
    """The files that are dragged."""
    return [Path(url.toLocalFile()) for url in data.urls() if url.isLocalFile()]


def likely(opened: Sequence[Path], dragged: Sequence[Path], targets: Sequence[Target]) -> Target:
    """What somebody who drags these files over those probably wants: to compare, or to add what belongs to them."""

    def pattern(path: Path) -> str:
        return _DIGITS.sub("#", path.name)

    differ = {path.name for path in opened}.isdisjoint(path.name for path in dragged)
    alike = {pattern(path) for path in opened} == {pattern(path) for path in dragged}
    if Target.ADD in targets:
        return Target.ADD
    if Target.JOIN in targets and alike and differ:
        return Target.JOIN
    return Target.COMPARE if Target.COMPARE in targets else Target.OPEN


class DropTargets(QWidget):
    """Lies over the window while files are dragged; the one under the mouse is lit, at first the likely one."""

    open_here_wanted = Signal(object)  # paths
    open_wanted = Signal(object)
    join_wanted = Signal(object)
    compare_wanted = Signal(object)

    def __init__(self, document: Document, window: QWidget) -> None:
        super().__init__(window)
        self._document, self._window = document, window
        self.targets: tuple[Target, ...] = ()
        self.lit = Target.OPEN
        self.setAttribute(Qt.WidgetAttribute.WA_TransparentForMouseEvents)
        self.hide()

    def begin(self, paths: Sequence[Path]) -> None:
        """Offer what can be done with these files; a session, and a file over an empty window, is just opened."""
        from viewer.user_data.session import is_session

        trace = self._document.trace
        self.targets = ()
        if self._document.stage is Stage.EMPTY or trace is None or any(map(is_session, paths)):
            return
        whole = not self._document.preview
        adds = whole and all(goes_beside(trace, path) for path in paths)
        can = {
            Target.OPEN: True,
            Target.JOIN: whole and not adds and may_grow(trace),
            Target.ADD: adds,
            Target.COMPARE: whole and not adds,
        }
        self.targets = tuple(target for target in Target if can[target])
        self.lit = likely(self._document.paths, paths, self.targets)
        self.setGeometry(self._window.rect())
        self.raise_()
        self.show()

    def move_to(self, at: QPointF) -> None:
        under = next((target for target, box in self._boxes() if box.contains(at)), None)
        if under is not None and under is not self.lit:
            self.lit = under
            self.update()

    def drop(self, paths: Sequence[Path], at: QPointF) -> None:
        """The files were let go here."""
        if not paths:
            return
        if not self.isVisible():
            self.begin(paths)
        self.move_to(at)
        self.hide()
        wanted = {
            Target.OPEN: self.open_wanted,
            Target.JOIN: self.join_wanted,
            Target.ADD: self.join_wanted,
            Target.COMPARE: self.compare_wanted,
        }
        (wanted[self.lit] if self.targets else self.open_here_wanted).emit(tuple(paths))

    def _boxes(self) -> list[tuple[Target, QRectF]]:
        count = len(self.targets)
        width = (self.width() - 2 * MARGIN - (count - 1) * BETWEEN) / max(count, 1)
        height = min(MAX_HEIGHT, self.height() - 2 * MARGIN)
        top = (self.height() - height) / 2
        return [
            (target, QRectF(MARGIN + number * (width + BETWEEN), top, width, height))
            for number, target in enumerate(self.targets)
        ]

    def paintEvent(self, _: QPaintEvent) -> None:
        painter, colors = QPainter(self), theme.current()
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        painter.setOpacity(VEIL)
        painter.fillRect(self.rect(), colors.window)
        painter.setOpacity(1.0)
        for target, box in self._boxes():
            is_lit = target is self.lit
            painter.setPen(QPen(colors.accent if is_lit else colors.text_secondary, 2, Qt.PenStyle.DashLine))
            painter.setBrush(theme.mixed(colors.accent, colors.panel, 0.16) if is_lit else colors.panel)
            painter.drawRoundedRect(box, 10, 10)
            painter.setPen(colors.text)
            painter.setFont(theme.font(16, QFont.Weight.DemiBold))
            above, below = (
                box.adjusted(8, 0, -8, -box.height() / 2),
                box.adjusted(8, box.height() / 2 + 6, -8, 0),
            )
            painter.drawText(
                above, int(Qt.AlignmentFlag.AlignHCenter | Qt.AlignmentFlag.AlignBottom), target.title
            )
            painter.setPen(colors.text_secondary)
            painter.setFont(theme.font(13))
            flags = Qt.AlignmentFlag.AlignHCenter | Qt.AlignmentFlag.AlignTop | Qt.TextFlag.TextWordWrap
            painter.drawText(below, int(flags), target.told)
