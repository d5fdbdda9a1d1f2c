"""The flame tab: an icicle graph of the selected area, or of the step, with equal calls added up."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
from PySide6.QtCore import QEvent, QRectF, QSize, Qt, Signal
from PySide6.QtGui import QHelpEvent, QKeyEvent, QMouseEvent, QPainter, QPaintEvent, QPen
from PySide6.QtWidgets import QComboBox, QHBoxLayout, QPushButton, QScrollArea, QToolTip, QWidget

from parsers.model import LaneKind, Trace
from parsers.model.units import duration, percent
from viewer.document import Document
from viewer.look import theme
from viewer.look.labels import ElidedLabel, tooltip
from viewer.panels.panel import Panel
from viewer.statistics.call_tree import ROOT, CallTree, call_tree
from viewer.timeline.geometry.naming import plain_name, python_name

ROW_HEIGHT = 20
LEAST_WIDTH, LEAST_FOR_TEXT = 0.7, 34
KINDS = {"Operators": LaneKind.CPU_THREAD, "Python": LaneKind.PYTHON, "Regions": LaneKind.REGION}


class IcicleView(QWidget):
    """Callers above, callees below, as wide as their time; a click makes a call the whole width."""

    chosen = Signal(int)  # the longest event of the clicked call
    focused = Signal(int)  # node, ROOT for everything

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.tree: CallTree | None = None
        self._trace: Trace | None = None
        self.focus_node = ROOT
        self._marked = ROOT
        self.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        self.setAccessibleName("Icicle graph")

    def show_tree(self, trace: Trace, tree: CallTree) -> None:
        """Show another tree, all of it."""
        self._trace, self.tree = trace, tree
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
        seen = np.flatnonzero(right - left >= LEAST_WIDTH)
        return seen, left[seen], (right - left)[seen]

    def paintEvent(self, event: QPaintEvent) -> None:
        if self.tree is None or self._trace is None or not len(self.tree):
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
            fill = theme.mixed(colors.named(int(self.tree.name[node])), colors.panel, 0.72)
            painter.fillRect(box, fill)
            if node == self._marked:
                painter.setPen(QPen(colors.text, 1.4))
                painter.drawRect(box.adjusted(0.7, 0.7, -0.7, -0.7))
            if width >= LEAST_FOR_TEXT:
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
            f"{calls:,} call{'s' * (calls != 1)}"
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


class FlamePanel(Panel):
    """Follows the selected area, else the selected step; every CPU thread counts."""

    title: ClassVar[str] = "Flame"

    def __init__(self, document: Document, parent: QWidget | None = None) -> None:
        super().__init__(document, parent)
        self.view = IcicleView()
        self.view.chosen.connect(document.select_event)
        self.view.focused.connect(self._say)
        self.kind = QComboBox()
        self.kind.setAccessibleName("What to add up")
        self.kind.currentIndexChanged.connect(lambda _: self.refresh())
        self._text = ElidedLabel("", "secondary", pixels=12)
        everything = QPushButton("Show all")
        everything.clicked.connect(lambda: self.view.focus_on(ROOT))
        top = QHBoxLayout()
        top.setContentsMargins(14, 5, 10, 4)
        top.setSpacing(8)
        top.addWidget(self._text, 1)
        top.addWidget(everything)
        top.addWidget(self.kind)
        scroll = QScrollArea()
        scroll.setWidgetResizable(True)
        scroll.setFrameShape(QScrollArea.Shape.NoFrame)
        scroll.setWidget(self.view)
        scroll.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        self.column.addLayout(top)
        self.column.addWidget(scroll, 1)
        document.area_changed.connect(self.invalidate)

    def _lanes(self, kind: LaneKind) -> list[int]:
        trace = self.document.trace
        lanes = (
            [] if trace is None else [index for index, lane in enumerate(trace.lanes) if lane.kind is kind]
        )
        area = self.document.area
        chosen = [lane for lane in lanes if area is None or not area.lanes or lane in area.lanes]
        return chosen or lanes

    def has_data(self) -> bool:
        return any(self._lanes(kind) for kind in (LaneKind.CPU_THREAD, LaneKind.PYTHON))

    def refresh(self) -> None:
        trace, area = self.document.trace, self.document.area
        if trace is None:
            return
        names = [name for name, kind in KINDS.items() if self._lanes(kind)]
        if [self.kind.itemText(index) for index in range(self.kind.count())] != names:
            blocked = self.kind.blockSignals(True)
            self.kind.clear()
            self.kind.addItems(names)
            self.kind.blockSignals(blocked)
        lanes = self._lanes(KINDS[self.kind.currentText()]) if names else []
        t0, t1 = (area.start, area.end) if area is not None else self.document.window
        self.compute(lambda: (trace, call_tree(trace, lanes, t0, t1)), self._show)

    def _show(self, result: tuple[Trace, CallTree]) -> None:
        self.view.show_tree(*result)

    def _say(self, node: int) -> None:
        tree = self.view.tree
        if tree is None or not len(tree):
            self._text.setText("Nothing ran here.")
        elif node == ROOT:
            self._text.setText(
                f"{duration(tree.whole)} in all. Click a call to widen it, Ctrl-click to see its longest."
            )
        else:
            self._text.setText(self.view.describe(node))
