"""Tints the whole row under the mouse, where Qt's style sheets tint one cell."""

from __future__ import annotations

from PySide6.QtCore import QEvent, QModelIndex, QObject, QPersistentModelIndex
from PySide6.QtGui import QMouseEvent, QPainter
from PySide6.QtWidgets import QAbstractItemView, QStyle, QStyledItemDelegate, QStyleOptionViewItem

Index = QModelIndex | QPersistentModelIndex


class RowDelegate(QStyledItemDelegate):
    """The delegate of one view, whose mouse it follows."""

    def __init__(self, view: QAbstractItemView) -> None:
        super().__init__(view)
        self._hovered = QPersistentModelIndex()
        self._view, self._viewport = view, view.viewport()
        self._viewport.setMouseTracking(True)
        self._viewport.installEventFilter(self)

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        if watched is not self._viewport:
            return super().eventFilter(watched, event)  # an editor's keys
        row: Index = self._hovered
        if isinstance(event, QMouseEvent) and event.type() is QEvent.Type.MouseMove:
            row = self._view.indexAt(event.position().toPoint()).siblingAtColumn(0)
        elif event.type() in (QEvent.Type.Leave, QEvent.Type.Wheel):
            row = QModelIndex()
        if row != self._hovered:
            self._hovered = QPersistentModelIndex(row)
            self._viewport.update()
        return False

    def paint(self, painter: QPainter, option: QStyleOptionViewItem, index: Index) -> None:
        self.tint(option, index)
        super().paint(painter, option, index)

    def tint(self, option: QStyleOptionViewItem, index: Index) -> None:
        """Say that the mouse is over every cell of the row that it is over."""
        over = QStyle.StateFlag.State_MouseOver
        hovered = index.sibling(index.row(), 0) == self._hovered
        option.state = option.state | over if hovered else option.state & ~over
