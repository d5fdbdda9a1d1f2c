"""Beside the diagnosis: the run of many ranks in one sentence, the ten that cost most, its spread, its groups."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np
from PySide6.QtCore import QRectF, Qt, Signal
from PySide6.QtGui import QFont, QFontMetricsF, QGuiApplication, QKeyEvent, QMouseEvent, QPainter, QPaintEvent
from PySide6.QtWidgets import QFrame, QHBoxLayout, QPushButton, QVBoxLayout, QWidget

from parsers.model.arrays import median_of
from parsers.model.units import duration, how_many
from rules.summaries import page
from rules.wording.late_ranks import doing
from viewer.appearance import theme
from viewer.appearance.painted_chart import PaintedChart
from viewer.appearance.tab_order import CHART
from viewer.appearance.widgets import NO_MARGINS, SPRING, Label, elided_inside, fill, scrolling, vertical
from viewer.documents.document import Document

if TYPE_CHECKING:
    from rules.summaries.facts import CostlyRank, ManyRanksDiagnosis
    from viewer.loading.ranks.opened import ManyRanksOpened

HEAD, ROW_HEIGHT = 22, 41
BINS = 44
MAX_UNREAD = 5


class CostlyRanks(QWidget):
    """A line for each; a click selects the rank, Enter or a double click opens it."""

    accessible_role = CHART

    chosen = Signal(int)
    opened = Signal(int)

    def __init__(self, facts: ManyRanksDiagnosis) -> None:
        super().__init__()
        self._facts = facts
        self.current = 0
        self.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        self.setAccessibleName("Costliest ranks")
        self.setFixedHeight(HEAD + ROW_HEIGHT * len(facts.costly))

    def paintEvent(self, _: QPaintEvent) -> None:
        painter, colors = QPainter(self), theme.current()
        painter.setFont(theme.font(theme.SECONDARY_PX))
        painter.setPen(colors.text_secondary)
        for text, left, right, flag in self._columns(("Rank", "Others wait", "Late by", "Latest in")):
            painter.drawText(QRectF(left, 0, right - left, HEAD), flag | Qt.AlignmentFlag.AlignVCenter, text)
        most = max((each.cost_ns for each in self._facts.costly), default=1)
        for number, each in enumerate(self._facts.costly):
            self._paint_row(painter, number, each, most)

    def _columns(
        self, texts: tuple[str, str, str, str]
    ) -> Iterator[tuple[str, float, float, Qt.AlignmentFlag]]:
        wide = float(self.width())
        edges = (10.0, 0.34 * wide, 0.56 * wide, 0.76 * wide, wide - 6)
        for number, text in enumerate(texts):
            flag = Qt.AlignmentFlag.AlignRight if number else Qt.AlignmentFlag.AlignLeft
            yield text, edges[number], edges[number + 1], flag

    def _paint_row(self, painter: QPainter, number: int, each: CostlyRank, most: int) -> None:
        colors, top = theme.current(), HEAD + ROW_HEIGHT * number
        if number == self.current:
            painter.fillRect(QRectF(0, top, self.width(), ROW_HEIGHT), colors.selection)
        steps = how_many(each.latest_in, "step")
        late = duration(each.late_ns) if each.late_ns else "-"
        texts = (self._facts.run.name(each.row), duration(each.cost_ns), late, steps)
        for text, left, right, flag in self._columns(texts):
            is_name = flag == Qt.AlignmentFlag.AlignLeft
            painter.setFont(theme.font(12, weight=QFont.Weight.DemiBold if is_name else QFont.Weight.Normal))
            painter.setPen(colors.text)
            painter.drawText(
                QRectF(left, top + 3, right - left, 18), flag | Qt.AlignmentFlag.AlignVCenter, text
            )
        painter.setFont(theme.font(theme.SECONDARY_PX))
        painter.setPen(colors.text_secondary)
        node = self._facts.run.rows[each.row].node
        text = ", ".join(filter(None, (node, doing(each.reasons))))
        shown = elided_inside(text, QFontMetricsF(painter.font()), self.width() - 20)
        painter.drawText(QRectF(10, top + 20, self.width() - 16, 16), Qt.AlignmentFlag.AlignVCenter, shown)
        painter.fillRect(
            QRectF(10, top + ROW_HEIGHT - 3, (self.width() - 20) * each.cost_ns / max(most, 1), 2),
            colors.error,
        )

    def mouseReleaseEvent(self, event: QMouseEvent) -> None:
        self._go(int((event.position().y() - HEAD) // ROW_HEIGHT))

    def mouseDoubleClickEvent(self, _: QMouseEvent) -> None:
        self.opened.emit(self._facts.costly[self.current].row)

    def keyPressEvent(self, event: QKeyEvent) -> None:
        if event.key() in (Qt.Key.Key_Up, Qt.Key.Key_Down):
            self._go(self.current + (1 if event.key() == Qt.Key.Key_Down else -1))
        elif event.key() in (Qt.Key.Key_Return, Qt.Key.Key_Enter) and self._facts.costly:
            self.opened.emit(self._facts.costly[self.current].row)
        else:
            super().keyPressEvent(event)

    def _go(self, number: int) -> None:
        if 0 <= number < len(self._facts.costly):
            self.current = number
            self.update()
            self.chosen.emit(self._facts.costly[number].row)


class Spread(PaintedChart):
    """How late the ranks are: how many by how much, on a logarithmic scale, so that one is seen beside thousands."""

    margins = (12, 8, 12, 26)
    wanted = (220, 112)
    is_low = True
    is_smooth = False

    def __init__(self, facts: ManyRanksDiagnosis) -> None:
        super().__init__("Lateness of all ranks")
        late = facts.lateness.late
        self._late = median_of(late, axis=1) if late.shape[1] else np.zeros(0)
        self._rows = set(facts.late)

    def is_empty(self) -> bool:
        return not len(self._late)

    def draw(self, painter: QPainter) -> None:
        colors, room = theme.current(), self.room
        low, high = float(self._late.min()), float(self._late.max())
        edges = np.linspace(low, max(high, low + 1), BINS + 1)
        counts, _edges = np.histogram(self._late, edges)
        bad, _edges = np.histogram(self._late[sorted(self._rows)], edges)
        most = np.log1p(counts.max())
        wide = room.width() / BINS
        for number, (count, late) in enumerate(zip(counts.tolist(), bad.tolist(), strict=True)):
            if count:
                height = max(room.height() * np.log1p(count) / most, 3)
                box = QRectF(room.left() + number * wide, room.bottom() - height, max(wide - 1, 1), height)
                painter.fillRect(box, colors.error if late else colors.grey)
        painter.fillRect(QRectF(room.left(), room.bottom(), room.width(), 1), colors.line_strong)
        self.draw_ends(painter, duration(low), duration(high))


class RanksSide(QWidget):
    """Listens to a document; empty unless a run of many ranks is open."""

    rank_chosen = Signal(int)

    def __init__(self, document: Document) -> None:
        super().__init__()
        self._document = document
        self._shown: ManyRanksDiagnosis | None = None
        self.costly: CostlyRanks | None = None
        self.setAccessibleName("Ranks")
        self._scroll = scrolling()
        fill(vertical(self, NO_MARGINS), self._scroll)
        document.trace_changed.connect(lambda _: self._refresh())
        self._refresh()

    def has_data(self) -> bool:
        return self._document.many is not None

    def _refresh(self) -> None:
        many = self._document.many
        if many is not None and self._shown is many.facts:
            return
        self._shown = many.facts if many is not None else None
        body = QWidget()
        if many is not None:
            self._fill(body, many)
        self._scroll.setWidget(body)

    def _fill(self, body: QWidget, many: ManyRanksOpened) -> None:
        facts = many.facts
        run = facts.run
        column = vertical(body, (12, 10, 12, 12), 8)
        box = QFrame()
        box.setObjectName("sentence")
        box.setProperty("late", bool(facts.late))
        fill(
            QVBoxLayout(box),
            Label("Summary", "secondary", pixels=theme.SECONDARY_PX),
            Label(many.sentence, wrap=True, pixels=theme.BODY_PX + 1),
        )
        column.addWidget(box)
        if facts.costly:
            column.addWidget(
                _heading("Ten costliest ranks" if len(facts.costly) == 10 else "Costliest ranks")
            )
            self.costly = CostlyRanks(facts)
            self.costly.chosen.connect(self.rank_chosen)
            self.costly.opened.connect(self._document.look_at_rank)
            column.addWidget(self.costly)
        if run.step_numbers.size:
            fill(column, _heading("Lateness of all ranks, in the median step"), Spread(facts))
        if groups := page.groups(facts):
            column.addWidget(_heading("By node and parallel group"))
            for kind, latest, late in groups:
                column.addWidget(
                    Label(f"{kind}: {latest} is {duration(late)} later than the median", pixels=12, wrap=True)
                )
        further = [*page.links(facts), *page.balance(facts)]
        further += [f"Left out: {path}: {reason}" for path, reason in run.unread[:MAX_UNREAD]]
        if len(run.unread) > MAX_UNREAD:
            further.append(f"and {len(run.unread) - MAX_UNREAD:,} more files were left out")
        for each in further:
            column.addWidget(Label(each, "secondary", pixels=12, wrap=True))
        if following := page.next_steps(facts):
            column.addWidget(_heading("Next steps"))
            for each in following:
                column.addWidget(Label(each, pixels=12, wrap=True))
        buttons = QHBoxLayout()
        copy = QPushButton("Copy summary page")
        copy.clicked.connect(self.copy_page)
        fill(buttons, copy, SPRING)
        fill(column, buttons, SPRING)

    def copy_page(self) -> None:
        """Put the page that the command line prints on the clipboard."""
        from viewer.reports.many_ranks_report import as_text

        many = self._document.many
        if many is not None:
            QGuiApplication.clipboard().setText(as_text(many.facts, many.diagnosis))


def _heading(text: str) -> Label:
    return Label(text, weight=QFont.Weight.DemiBold, pixels=theme.BODY_PX)
