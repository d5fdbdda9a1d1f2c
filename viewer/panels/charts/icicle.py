"""An icicle graph: callers above, callees below, equal calls added up."""

from __future__ import annotations

import numpy as np
from PySide6.QtCore import QEvent, QRectF, QSize, Qt, Signal
from PySide6.QtGui import QHelpEvent, QKeyEvent, QMouseEvent, QPainter, QPaintEvent, QPen
from PySide6.QtWidgets import QToolTip, QWidget

from parsers.model import Trace
from parsers.model.units import duration, how_many, percent
from viewer.appearance import theme
from viewer.appearance.naming import plain_name, python_name
from viewer.appearance.tab_order import CHART
from viewer.appearance.widgets import tooltip
from viewer.statistics.call_tree import ROOT, CallTree
from viewer.timeline.scene import EventColors

ROW_HEIGHT = 20
MIN_WIDTH, MIN_FOR_TEXT = 0.7, 34


class IcicleView(QWidget):
    """Callers above, callees below, as wide as their time; a click makes a call the whole width."""

    accessible_role = CHART

    chosen = Signal(int)  # the longest event of the clicked call
    focused = Signal(int)  # node, ROOT for everything

    def __init__(self) -> None:
        super().__init__()
        self.tree: CallTree | None = None
        self._trace: Trace | None = None
        self._colors: EventColors | None = None
        self.focus_node = ROOT
        self._marked = ROOT
        self.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        self.setAccessibleName("Icicle graph")

    def show_tree(self, trace: Trace, tree: CallTree, colors: EventColors) -> None:
        """``colors``: those of the timeline, of which each box has that of its longest call."""
        self._trace, self.tree, self._colors = trace, tree, colors
        self.focus_on(ROOT)

    def focus_on(self, node: int) -> None:
        """Give a node the whole width; ROOT for all."""
        self.focus_node = node
        depths = int(self.tree.depth.max()) + 1 if self.tree is not None and len(self.tree) else 1
        self.setMinimumHeight(depths * ROW_HEIGHT + 4)
        self.focused.emit(node)
        self.update()

    def sizeHint(self) -> QSize:
        return QSize(400, self.minimumHeight())

    def _span(self) -> tuple[float, float]:
        tree = self.tree
        assert tree is not None
        if self.focus_node == ROOT:
            return 0.0, float(max(tree.whole, 1))
        left = float(tree.left[self.focus_node])
        return left, left + float(max(tree.total[self.focus_node], 1))

    def boxes(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Nodes wide enough to be seen, and their left edge and width in pixels."""
        tree = self.tree
        assert tree is not None
        low, high = self._span()
        scale = self.width() / (high - low)
        left = np.clip((tree.left - low) * scale, 0, self.width())
        right = np.clip((tree.left + tree.total - low) * scale, 0, self.width())
        seen = np.flatnonzero(right - left >= MIN_WIDTH)
        return seen, left[seen], (right - left)[seen]

    def paintEvent(self, event: QPaintEvent) -> None:
        if self.tree is None or self._colors is None or not len(self.tree):
            return
        painter, colors = QPainter(self), theme.current()
        painter.setFont(theme.font(theme.SECONDARY_PX))
        metrics = painter.fontMetrics()
        for node, left, width in zip(*(each.tolist() for each in self.boxes()), strict=True):
            box = QRectF(
                left, float(self.tree.depth[node]) * ROW_HEIGHT + 1, max(width - 0.8, 0.6), ROW_HEIGHT - 1
            )
            if not box.intersects(QRectF(event.rect())):
                continue
            fill = self._colors.of_event(int(self.tree.longest[node]))
            painter.fillRect(box, fill)
            if node == self._marked:
                painter.setPen(QPen(colors.text, 1.4))
                painter.drawRect(box.adjusted(0.7, 0.7, -0.7, -0.7))
            if width >= MIN_FOR_TEXT:
                painter.setPen(theme.text_on(fill))
                text = metrics.elidedText(self._name(node), Qt.TextElideMode.ElideRight, int(width) - 8)
                painter.drawText(box.adjusted(4, 0, -2, 0), Qt.AlignmentFlag.AlignVCenter, text)

    def _name(self, node: int) -> str:
        assert self.tree is not None
        assert self._trace is not None
        return python_name(plain_name(self._trace.strings[int(self.tree.name[node])]))

    def node_at(self, x: float, y: float) -> int:
        """The node under a point; ROOT where there is none."""
        if self.tree is None or not len(self.tree):
            return ROOT
        nodes, left, width = self.boxes()
        here = (self.tree.depth[nodes] == int(y // ROW_HEIGHT)) & (left <= x) & (x < left + width)
        found = np.flatnonzero(here)
        return int(nodes[found[0]]) if len(found) else ROOT

    def describe(self, node: int) -> str:
        """Name, time, share and calls of a node."""
        tree = self.tree
        assert tree is not None
        share = percent(float(tree.total[node]) / max(tree.whole, 1))
        calls = int(tree.count[node])
        return (
            f"{self._name(node)}\n{duration(int(tree.total[node]))} ({share}), itself {duration(int(tree.own[node]))}, "
            f"{how_many(calls, 'call')}"
        )

    def event(self, event: QEvent) -> bool:
        if isinstance(event, QHelpEvent):
            node = self.node_at(event.pos().x(), event.pos().y())
            if node != ROOT:
                QToolTip.showText(event.globalPos(), tooltip(self.describe(node)), self)
            else:
                QToolTip.hideText()
            return True
        return super().event(event)

    def mouseReleaseEvent(self, event: QMouseEvent) -> None:
        node = self.node_at(event.position().x(), event.position().y())
        if node == ROOT:
            return
        self._marked = node
        if event.modifiers() & Qt.KeyboardModifier.ControlModifier or node == self.focus_node:
            assert self.tree is not None
            self.chosen.emit(int(self.tree.longest[node]))
            self.update()
        else:
            self.focus_on(node)

    def keyPressEvent(self, event: QKeyEvent) -> None:
        if event.key() in (Qt.Key.Key_Backspace, Qt.Key.Key_Up) and self.focus_node != ROOT:
            assert self.tree is not None
            self.focus_on(int(self.tree.parent[self.focus_node]))
        else:
            super().keyPressEvent(event)
