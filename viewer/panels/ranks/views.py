"""The views of a run of many ranks in the window, made when the first such run is opened."""

from __future__ import annotations

from typing import TYPE_CHECKING

from PySide6.QtCore import QObject, Qt
from PySide6.QtWidgets import QSplitter, QTabWidget, QWidget

from viewer.documents.document import Document

if TYPE_CHECKING:
    from viewer.panels.ranks.map_view import RankMapView
    from viewer.panels.ranks.side import RanksSide

HEIGHT = 360  # of the map, and of the timelines below, where the window is high enough


class RankViews(QObject):
    """Puts the map above ``below`` and a tab beside the diagnosis while such a run is open."""

    def __init__(self, document: Document, below: QWidget, side: QTabWidget, parent: QWidget) -> None:
        super().__init__(parent)
        self._document, self._side = document, side
        self.map: RankMapView | None = None
        self.panel: RanksSide | None = None
        self.area = QSplitter(Qt.Orientation.Vertical)
        self.area.setChildrenCollapsible(False)
        self.area.addWidget(below)
        document.trace_changed.connect(lambda _: self._follow())

    def _follow(self) -> None:
        if self._document.many is not None and self.map is None:
            self._make()
        if self.panel is None:
            return
        here = self._side.indexOf(self.panel)
        if self.panel.has_data() and here < 0:
            self._side.insertTab(1, self.panel, "Ranks")
            self._side.setCurrentWidget(self.panel)
        elif not self.panel.has_data() and here >= 0:
            self._side.removeTab(here)
            self.panel.setParent(self.area)
            self.panel.hide()
        self._side.tabBar().setVisible(self._side.count() > 1)

    def _make(self) -> None:
        from viewer.panels.ranks.map_view import RankMapView
        from viewer.panels.ranks.side import RanksSide

        self.map = RankMapView(self._document)
        self.panel = RanksSide(self._document)
        self.area.insertWidget(0, self.map)
        self.area.setSizes([HEIGHT, HEIGHT])
        self.panel.rank_chosen.connect(self._select)

    def _select(self, row: int) -> None:
        from viewer.panels.ranks.heat import Cell

        if self.map is not None and self._document.many is not None:
            self.map.heat.select(Cell(row, int(self._document.many.facts.lateness.cost[row].argmax())))
