"""What screen readers are told about widgets that paint themselves: Qt knows the roles of its own widgets only."""

from __future__ import annotations

from typing import Final

from PySide6.QtCore import QObject
from PySide6.QtGui import QAccessible, QAccessibleInterface
from PySide6.QtWidgets import QAccessibleWidget, QApplication, QScrollArea, QWidget

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
