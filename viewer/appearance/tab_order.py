"""What keyboards and screen readers need: roles of widgets that paint themselves, and the way of Tab in a window."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from PySide6.QtCore import QEvent, QObject, QPoint, QRect, Qt
from PySide6.QtGui import QAccessible, QAccessibleInterface, QPainter, QPaintEvent, QRegion
from PySide6.QtWidgets import (
    QAbstractButton,
    QAbstractScrollArea,
    QAccessibleWidget,
    QApplication,
    QComboBox,
    QFrame,
    QLineEdit,
    QScrollArea,
    QTabBar,
    QWidget,
)
from shiboken6 import isValid

from viewer.appearance import theme

CHART: Final = QAccessible.Role.Chart
LIST_ITEM: Final = QAccessible.Role.ListItem
PANE: Final = QAccessible.Role.Pane
_KNOWN: Final = "knows our roles"


def tell_roles(app: QApplication) -> None:
    """From now on a widget's class may say its ``accessible_role``."""
    if not app.property(_KNOWN):
        app.setProperty(_KNOWN, True)
        QAccessible.installFactory(_interface)


def _interface(_: str, widget: QObject) -> QAccessibleInterface | None:
    if not isinstance(widget, QWidget):
        return None
    role = getattr(type(widget), "accessible_role", PANE if isinstance(widget, QScrollArea) else None)
    return QAccessibleWidget(widget, role) if role is not None else None


RING = 2  # pixels
_SHOW_IT_THEMSELVES = (QAbstractButton, QComboBox, QFrame, QLineEdit, QTabBar)


class TabOrder:
    """Moves the focus of a window, and marks where it went until it goes on."""

    def __init__(self, window: QWidget) -> None:
        self.ring = FocusRing(window)

    def step(self, sections: Sequence[QWidget], forward: bool) -> bool:
        """Give the focus to the next or the previous widget; whether there was any."""
        order, focus = widgets_in_order(sections), QApplication.focusWidget()
        if not order:
            return False
        place = 0 if forward else -1
        if focus in order:
            place = (order.index(focus) + (1 if forward else -1)) % len(order)
        chosen = order[place]
        chosen.setFocus(Qt.FocusReason.TabFocusReason if forward else Qt.FocusReason.BacktabFocusReason)
        _reveal(chosen)
        self.ring.show_around(chosen)
        return True


class FocusRing(QWidget):
    """A frame around a widget that does not show by itself that it has the focus."""

    def __init__(self, window: QWidget) -> None:
        super().__init__(window)
        self._window = window
        self._around: QWidget | None = None
        self.setAttribute(Qt.WidgetAttribute.WA_TransparentForMouseEvents)
        self.hide()
        QApplication.instance().focusChanged.connect(self._on_focus)  # type: ignore[union-attr]

    def show_around(self, widget: QWidget) -> None:
        """Appear, unless the widget has a frame of its own; disappear when the focus or the size changes."""
        if isinstance(widget, _SHOW_IT_THEMSELVES) and not isinstance(widget, QAbstractScrollArea):
            return
        widget.installEventFilter(self)
        self._around = widget
        self.setGeometry(QRect(widget.mapTo(self._window, QPoint(0, 0)), widget.size()))
        inner = self.rect().adjusted(RING, RING, -RING, -RING)
        self.setMask(QRegion(self.rect()) - QRegion(inner))
        self.show()
        self.raise_()

    def _on_focus(self, *_: object) -> None:
        if self._around is not None and isValid(self._around):
            self._around.removeEventFilter(self)
        self._around = None
        self.hide()

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        if event.type() in (QEvent.Type.Resize, QEvent.Type.Move, QEvent.Type.Hide):
            self.hide()
        return super().eventFilter(watched, event)

    def paintEvent(self, _: QPaintEvent) -> None:
        QPainter(self).fillRect(self.rect(), theme.current().accent)


def widgets_in_order(sections: Sequence[QWidget]) -> list[QWidget]:
    """What Tab can reach: section by section, inside a section row by row."""
    return [widget for section in sections for widget in _of(section)]


def _of(section: QWidget) -> list[QWidget]:
    """Row by row from the top, each from left to right; what contains another widget comes before it."""
    reachable = [each for each in (section, *section.findChildren(QWidget)) if _takes_tab(each)]
    places = {widget: _place(widget, section) for widget in reachable}
    ordered: list[QWidget] = []
    row: list[QWidget] = []
    for widget in sorted(reachable, key=lambda each: (places[each].y(), places[each].x())):
        if row and not _are_beside(row[0], widget, places):
            ordered += sorted(row, key=lambda each: places[each].x())
            row = []
        row.append(widget)
    return ordered + sorted(row, key=lambda each: places[each].x())


def _place(widget: QWidget, section: QWidget) -> QPoint:
    """Where a widget is in a section whose scrolled parts are at their beginning."""
    place = QPoint(0, 0)
    while widget is not section and (parent := widget.parentWidget()) is not None:
        if not isinstance(parent.parentWidget(), QScrollArea):
            place += widget.pos()
        widget = parent
    return place


def _are_beside(first: QWidget, widget: QWidget, places: Mapping[QWidget, QPoint]) -> bool:
    middle = places[widget].y() + widget.height() // 2
    return not first.isAncestorOf(widget) and middle < places[first].y() + first.height()


def _takes_tab(widget: QWidget) -> bool:
    return (
        bool(widget.focusPolicy() & Qt.FocusPolicy.TabFocus)
        and widget.isVisible()
        and widget.isEnabled()
        and widget.focusProxy() is None
    )


def _reveal(widget: QWidget) -> None:
    parent = widget.parentWidget()
    while parent is not None:
        if isinstance(parent, QScrollArea):
            parent.ensureWidgetVisible(widget)
        parent = parent.parentWidget()
