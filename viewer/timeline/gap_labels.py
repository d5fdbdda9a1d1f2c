"""The boxes in wide gaps: what the GPU waits for, who is to blame, how long."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from PySide6.QtCore import QRectF, Qt
from PySide6.QtGui import QFont, QPainter, QPen

from parsers.model.late import dataclass
from parsers.model.names.kernels import kernel_name
from parsers.model.units import duration, percent
from rules.analysis.idle.causes import Cause, IdleTable
from viewer.appearance import theme
from viewer.appearance.painted_chart import TextCache
from viewer.timeline.geometry.columns import Columns
from viewer.timeline.geometry.gaps import Gaps, dense_stretches

MAX_BOXES = 40  # boxes on a lane
PADDING = 9.0
MIN_BOX_WIDTH = 56.0  # pixels: narrower gaps say nothing
MIN_CULPRIT_WIDTH = 44.0
MAX_CULPRIT_WIDTH = 220.0
ALL_IDLE = 0.97  # share of a stretch: nothing else is to be seen there
BOX_HEIGHT = 22.0  # pixels of a box with one line
MIN_NOTE_HEIGHT = 15  # pixels below the events
BIN = 16.0  # pixels: stretches of small gaps are found in steps of this


@dataclass(frozen=True, slots=True)
class _Label:
    area: QRectF  # the visible part of the gap
    cause: Cause
    name: str  # of the cause
    culprit: str
    time: str


@dataclass(frozen=True, slots=True)
class _Note:
    area: QRectF
    name: str  # of its cause
    share: str


class GapLabels:
    """Collects the labels of one frame, then draws them over everything else."""

    def __init__(self, bold: QFont, regular: QFont) -> None:
        self._bold, self._regular = TextCache(bold), TextCache(regular)
        self._labels: list[_Label] = []
        self._notes: list[_Note] = []
        self.boxes: list[QRectF] = []  # where something was drawn since the frame began

    def begin(self) -> None:
        self._labels.clear()
        self._notes.clear()

    def collect(
        self,
        idle: IdleTable,
        gaps: Gaps,
        seen: Columns,
        area: QRectF,
        below: float,
        ratio: float,
        step: float,
    ) -> None:
        """Take the gaps of one lane: boxes for wide ones, notes for stretches of many small ones.

        ``area`` is the lane, ``below`` the height left under its events, ``step`` the ns in a column.
        """
        left = np.maximum(seen.left / ratio, 0.0)
        right = np.minimum(seen.right / ratio, area.width())
        roomy = np.flatnonzero(right - left >= MIN_BOX_WIDTH)
        for place in roomy[np.argsort(-(right - left)[roomy])][:MAX_BOXES].tolist():
            gap = int(seen.wide[place])
            rect = QRectF(left[place], area.top(), right[place] - left[place], area.height())
            taken = int(gaps.row.end[gap] - gaps.row.start[gap])
            culprit = idle.culprits[gaps.culprit[gap]].text
            culprit = kernel_name(culprit) if "<" in culprit else culprit
            if gaps.several[gap] and culprit:
                culprit = f"{culprit} and others"
            cause = Cause(int(gaps.row.name[gap]))
            self._labels.append(_Label(rect, cause, idle.label(cause), culprit, duration(taken)))
        causes = gaps.row.name[np.maximum(seen.event, 0)]
        for stretch in dense_stretches(seen, causes, max(round(BIN * ratio), 1), MIN_BOX_WIDTH * ratio):
            left_edge, width = stretch.first / ratio, (stretch.last - stretch.first) / ratio
            cause = Cause(stretch.cause)
            if stretch.share >= ALL_IDLE:
                rect = QRectF(left_edge, area.top(), width, area.height())
                spent = duration(int(stretch.share * (stretch.last - stretch.first) * step))
                inside = seen.event[stretch.first : stretch.last]
                inside = inside[inside >= 0]
                many = np.count_nonzero(gaps.row.name[inside.min() : inside.max() + 1] == stretch.cause)
                time = f"{spent} in {many:,} gaps" if many > 1 else spent
                self._labels.append(_Label(rect, cause, idle.label(cause), "", time))
            elif below >= MIN_NOTE_HEIGHT:
                rect = QRectF(left_edge, area.bottom() - below, width, below - 1)
                self._notes.append(_Note(rect, idle.label(cause), f"{percent(stretch.share)} idle"))

    def draw(self, painter: QPainter, seen: QRectF) -> None:
        """Draw what fits into what is ``seen``: cause, culprit and time; else cause and time; else the time."""
        for note in self._notes:
            if seen.top() <= note.area.top() and note.area.bottom() <= seen.bottom():
                self._draw_note(painter, note)
        for label in self._labels:
            area = label.area.intersected(seen)
            if area.height() >= BOX_HEIGHT:
                self._draw(painter, replace(label, area=area))

    def _draw_note(self, painter: QPainter, note: _Note) -> None:
        text = f"{note.name}, {note.share}"
        width = self._regular.width(text)
        if width + 24 > note.area.width():
            text = note.share
            width = self._regular.width(text)
        if width + 16 > note.area.width():
            return
        colors = theme.current()
        box = _centred(note.area, width + 10, min(note.area.height(), 16))
        self.boxes.append(box)
        painter.setPen(Qt.PenStyle.NoPen)
        painter.setBrush(colors.window)
        painter.drawRoundedRect(box, 3, 3)
        painter.setPen(colors.text)
        painter.setFont(self._regular.font)
        self._regular.draw(
            painter, text, box.left() + 5, round(box.center().y() - self._regular.height / 2), width + 1
        )

    def _draw(self, painter: QPainter, label: _Label) -> None:
        culprit = "" if label.culprit == label.name else label.culprit
        room = label.area.width() - 8 - 2 * PADDING
        first, time = self._bold.width(label.name), self._regular.width(label.time)
        blamed = min(self._regular.width(culprit), MAX_CULPRIT_WIDTH, room - time - 10) if culprit else 0.0
        if blamed < MIN_CULPRIT_WIDTH and blamed < self._regular.width(culprit):
            culprit, blamed = "", 0.0
        second = blamed + (10 if culprit else 0) + time
        if label.area.height() >= 44 and first <= room:
            box = _centred(label.area, max(first, second) + 2 * PADDING, 40)
            self._box(painter, box, label.cause)
            self._title(painter, label.name, box.left() + PADDING, round(box.top() + 4))
            x = box.left() + PADDING
            if culprit:
                self._culprit(painter, culprit, x, round(box.top() + 21), blamed)
                x += blamed + 10
            self._time(painter, label.time, x, round(box.top() + 21))
        elif first + 10 + time <= room:
            blamed = (
                min(self._regular.width(culprit), MAX_CULPRIT_WIDTH, room - first - time - 20)
                if culprit
                else 0.0
            )
            if blamed < MIN_CULPRIT_WIDTH:
                culprit, blamed = "", 0.0
            width = first + 10 + time + (blamed + 10 if culprit else 0)
            box = _centred(label.area, width + 2 * PADDING, BOX_HEIGHT)
            self._box(painter, box, label.cause)
            self._title(painter, label.name, box.left() + PADDING, round(box.top() + 3))
            if culprit:
                self._culprit(
                    painter, culprit, box.left() + PADDING + first + 10, round(box.top() + 4), blamed
                )
            self._time(painter, label.time, box.right() - PADDING - time, round(box.top() + 4))
        elif time <= room + 4:
            box = _centred(label.area, time + 2 * PADDING - 4, 20)
            self._box(painter, box, label.cause)
            self._time(painter, label.time, box.left() + PADDING - 2, round(box.top() + 3))

    def _box(self, painter: QPainter, box: QRectF, cause: Cause) -> None:
        self.boxes.append(box)
        painter.setPen(QPen(theme.current().cause(cause), 1.2))
        painter.setBrush(theme.current().window)
        painter.drawRoundedRect(box, 4, 4)

    def _title(self, painter: QPainter, text: str, x: float, y: float) -> None:
        painter.setPen(theme.current().text)
        painter.setFont(self._bold.font)
        self._bold.draw(painter, text, x, y, self._bold.width(text) + 1)

    def _culprit(self, painter: QPainter, text: str, x: float, y: float, room: float) -> None:
        painter.setPen(theme.current().text_secondary)
        painter.setFont(self._regular.font)
        self._regular.draw(painter, text, x, y, room + 1)

    def _time(self, painter: QPainter, text: str, x: float, y: float) -> None:
        painter.setPen(theme.current().text)
        painter.setFont(self._regular.font)
        self._regular.draw(painter, text, x, y, 200)


def _centred(area: QRectF, width: float, height: float) -> QRectF:
    centre = area.center()
    left, top = round(centre.x() - width / 2), round(centre.y() - height / 2)
    return QRectF(left, top, round(width), round(height))
