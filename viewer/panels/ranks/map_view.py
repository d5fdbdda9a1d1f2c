"""The map of ranks with its controls above and the scale of its colours below."""

from __future__ import annotations

import numpy as np
from PySide6.QtCore import QRectF, Qt
from PySide6.QtGui import QPainter, QPaintEvent
from PySide6.QtWidgets import QButtonGroup, QPushButton, QWidget

from parsers.model.arrays import I64
from rules.summaries import page
from viewer.appearance import theme
from viewer.appearance.widgets import NO_MARGINS, SPRING, ElidedLabel, Label, fill, horizontal, vertical
from viewer.documents.document import Document
from viewer.panels.ranks.heat import Cell, RankHeat
from viewer.panels.ranks.painting import Callout, shades
from viewer.statistics.rank_map import Measure, Order, RankMap


class Scale(QWidget):
    """The colours and the values they stand for."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._marks: tuple[str, ...] = ()
        self._reversed = False
        self.setFixedSize(260, 34)

    def show_scale(self, marks: tuple[str, ...], reversed_: bool) -> None:
        """Values at equal distances; ``reversed_`` where the first is the brightest."""
        self._marks, self._reversed = marks, reversed_
        self.setAccessibleName(f"Scale from {marks[0]} to {marks[-1]}" if marks else "Scale")
        self.update()

    def paintEvent(self, _: QPaintEvent) -> None:
        painter, colors = QPainter(self), theme.current()
        listed = shades(colors)[:-1]
        listed = listed[::-1] if self._reversed else listed
        for x in range(self.width()):
            painter.fillRect(QRectF(x, 4, 1, 9), listed[x * len(listed) // self.width()])
        painter.setFont(theme.font(10))
        painter.setPen(colors.text_secondary)
        for number, mark in enumerate(self._marks):
            at = number / max(len(self._marks) - 1, 1)
            side = (Qt.AlignmentFlag.AlignLeft, Qt.AlignmentFlag.AlignHCenter, Qt.AlignmentFlag.AlignRight)
            left = at * (self.width() - 80)
            flag = side[0] if not number else side[2] if number == len(self._marks) - 1 else side[1]
            painter.drawText(QRectF(left, 15, 80, 16), flag, mark)


class RankMapView(QWidget):
    """Listens to a document; hidden unless a run of many ranks is open."""

    def __init__(self, document: Document) -> None:
        super().__init__()
        self._document = document
        self._map: RankMap | None = None
        self.setAccessibleName("Map of ranks")
        self.heat = RankHeat()
        self.about = ElidedLabel("", "secondary", pixels=12)
        self.meaning = Label("", "secondary", pixels=12)
        self.selected = Label("", "secondary", pixels=12)
        self.scale = Scale()
        self.measures = self._chips([each.key for each in Measure])
        self.orders = self._chips([each.value for each in Order])
        above = horizontal(margins=(14, 8, 14, 4), spacing=6)
        for title, group in (("Show", self.measures), ("Sort by", self.orders)):
            above.addWidget(Label(title, "secondary", pixels=12))
            for button in group.buttons():
                above.addWidget(button)
            above.addSpacing(14)
        above.addWidget(self.about, 1)
        below = horizontal(margins=(14, 2, 14, 4), spacing=12)
        self.shown = Label("", pixels=12)
        for widget in (self.shown, self.scale, self.meaning):
            below.addWidget(widget)
        fill(below, SPRING, self.selected)
        fill(vertical(self, NO_MARGINS, 0), above, (self.heat, 1), below)
        self.measures.idClicked.connect(lambda _: self._change())
        self.orders.idClicked.connect(lambda _: self._change())
        self.heat.selected.connect(self._say_selected)
        self.heat.rank_wanted.connect(document.look_at_rank)
        self.heat.pin_wanted.connect(document.pin_rank)
        self.heat.filtered.connect(lambda _: self._say_about())
        self.heat.block_selected.connect(self._say_block)
        document.trace_changed.connect(lambda _: self._on_trace())
        self._on_trace()

    def _chips(self, names: list[str]) -> QButtonGroup:
        group = QButtonGroup(self)
        for number, name in enumerate(names):
            button = QPushButton(name)
            button.setCheckable(True)
            button.setProperty("chip", True)
            button.setFocusPolicy(Qt.FocusPolicy.TabFocus)
            button.setChecked(not number)
            group.addButton(button, number)
        return group

    @property
    def measure(self) -> Measure:
        return list(Measure)[max(self.measures.checkedId(), 0)]

    @property
    def order(self) -> Order:
        return list(Order)[max(self.orders.checkedId(), 0)]

    def _on_trace(self) -> None:
        many = self._document.many
        if many is None:
            self._map = None
            self.heat.show_map(None)
            self.hide()
            return
        self.heat.compared = many.compared
        if self._map is None or self._map.facts is not many.facts:
            self._map = RankMap(many.facts)
            facts = many.facts
            self.heat.show_map(
                self._map,
                [
                    Callout(title, why, pattern.rows, pattern.course.steps)
                    for (title, why), pattern in zip(page.patterns(facts), facts.patterns, strict=True)
                ],
            )
            for number, each in enumerate(Measure):
                button = self.measures.button(number)
                button.setVisible(each in self._map.measures)
            self.orders.button(1).setVisible(bool(facts.run.rows[0].node))
            self.measures.button(0).setChecked(True)
            self._change()
        self._say_about()
        self.heat.update()
        self.setVisible(self._map.steps > 0)

    def _change(self) -> None:
        found = self._map
        if found is None or self.measure not in found.measures:
            return
        self.heat.show_measure(self.measure, self.order)
        low, high = found.scale(self.measure)
        marks = tuple(self.measure.said(low + (high - low) * part / 2) for part in range(3))
        self.shown.setText(self.measure.key.capitalize())
        self.scale.show_scale(marks, self.measure.low_is_worse)
        self.meaning.setText(self.measure.meaning)
        self._say_about()

    def _say_about(self) -> None:
        many, several = self._document.many, self.heat.rows_a_pixel
        if many is None:
            return
        run = many.facts.run
        kept = {many.facts.slowest: "slowest", many.facts.typical: "typical"}
        full = ", ".join(run.name(row) + (f" ({kept[row]})" if row in kept else "") for row in many.compared)
        told = [f"one row of pixels is {several} ranks: the worst of them"] if several > 1 else []
        told.append(f"{len(run.rows):,} ranks as summaries, in full below: {full}")
        self.about.setText("; ".join(told))

    def _say_selected(self, cell: Cell | None) -> None:
        self.selected.setText(self.heat.said(cell) + "; Enter opens it" if cell is not None else "")

    def _say_block(self, rows: I64, steps: I64) -> None:
        if self._map is None or not len(rows):
            self._say_selected(self.heat.cell)
            return
        block = self._map.values(self.measure)[np.ix_(rows, steps)]
        self.selected.setText(
            f"{len(rows):,} ranks, {len(steps):,} steps: median {self.measure.said(float(np.nanmedian(block)))}, "
            f"most {self.measure.said(float(np.nanmax(block)))}"
        )
