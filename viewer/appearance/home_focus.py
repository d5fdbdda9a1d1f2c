"""Where the keyboard goes: letters that nobody types reach the timeline, and a click elsewhere gives the focus back."""

from __future__ import annotations

from collections.abc import Callable

from PySide6.QtCore import QEvent, QObject, Qt, QTimer
from PySide6.QtGui import QKeyEvent
from PySide6.QtWidgets import (
    QAbstractItemView,
    QAbstractSpinBox,
    QApplication,
    QComboBox,
    QLineEdit,
    QPlainTextEdit,
    QTextEdit,
    QWidget,
)
from shiboken6 import isValid

_TYPED_INTO = (QLineEdit, QTextEdit, QPlainTextEdit, QAbstractSpinBox)
_WALKED_THROUGH = (QAbstractItemView, QComboBox)


class HomeFocus(QObject):
    """Keeps the keys of one widget, the home, alive while another part of the window has the focus.

    A click elsewhere gives the focus back, unless what was clicked is typed into or walked through with keys; letters
    that nobody types or claims reach the home in any case, and so does the focus of what disappears.
    """

    def __init__(self, window: QWidget, home: Callable[[], QWidget | None]) -> None:
        super().__init__(window)
        self._window, self._home = window, home
        self._watched: QWidget | None = None
        QApplication.instance().focusChanged.connect(self._on_focus)  # type: ignore[union-attr]

    def go(self) -> None:
        home = self._home()
        if home is not None and home.isVisible():
            home.setFocus(Qt.FocusReason.OtherFocusReason)

    @property
    def is_elsewhere(self) -> bool:
        if not isValid(self._window):  # the window is being deleted, part by part
            return False
        home, focus = self._home(), QApplication.focusWidget()
        if home is None or focus is None or focus is self._window or focus.window() is not self._window:
            return False
        return isinstance(focus, _TYPED_INTO) or (focus is not home and not home.isAncestorOf(focus))

    def _on_focus(self, _: QWidget | None, now: QWidget | None) -> None:
        if self._watched is not None and isValid(self._watched):
            self._watched.removeEventFilter(self)
        self._watched = now if self.is_elsewhere and not isinstance(now, _TYPED_INTO) else None
        if self._watched is not None:
            self._watched.installEventFilter(self)
        if now is None and isValid(self._window) and self._window.isActiveWindow():
            QTimer.singleShot(0, self, self._go_if_nowhere)

    def _go_if_nowhere(self) -> None:
        """What had the focus is gone, as a link is that leads to other links."""
        if isValid(self._window) and self._window.isActiveWindow() and QApplication.focusWidget() is None:
            self.go()

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        if isinstance(event, QKeyEvent) and event.type() is QEvent.Type.KeyPress:
            home = self._home()
            if home is None or not home.isVisible() or not _is_letter(event):
                return False
            if not isinstance(watched, QWidget) or not _claims(watched, event):
                QApplication.sendEvent(home, event)
                return event.isAccepted()
        elif event.type() is QEvent.Type.MouseButtonRelease:
            QTimer.singleShot(0, self, self._go_unless_typing)  # the click itself comes first
        return False

    def _go_unless_typing(self) -> None:
        focus = QApplication.focusWidget()
        down = QKeyEvent(QEvent.Type.KeyPress, Qt.Key.Key_Down, Qt.KeyboardModifier.NoModifier)
        if (
            focus is not None
            and self.is_elsewhere
            and not isinstance(focus, (*_TYPED_INTO, *_WALKED_THROUGH))
            and not _claims(focus, down)
        ):
            self.go()


def _claims(widget: QWidget, event: QKeyEvent) -> bool:
    """Whether a widget acts on a key itself, as it says when it is asked to override shortcuts."""
    asked = QKeyEvent(QEvent.Type.ShortcutOverride, event.key(), event.modifiers(), event.text())
    asked.ignore()
    QApplication.sendEvent(widget, asked)
    return asked.isAccepted()


def _is_letter(event: QKeyEvent) -> bool:
    others = (
        Qt.KeyboardModifier.ControlModifier
        | Qt.KeyboardModifier.AltModifier
        | Qt.KeyboardModifier.MetaModifier
    )
    return (
        event.text().strip().isprintable() and bool(event.text().strip()) and not event.modifiers() & others
    )
