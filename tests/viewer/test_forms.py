"""Dialogs share one grid: words at one left edge, what they ask for at another, in every dialog the same."""

from __future__ import annotations

from collections.abc import Iterator

from PySide6.QtCore import QPoint
from PySide6.QtWidgets import QFormLayout, QWidget
from pytestqt.qtbot import QtBot

from viewer.appearance.widgets import Form

from .every_window import WINDOWS, opened


def edges(window: QWidget, role: QFormLayout.ItemRole) -> Iterator[int]:
    """Where the words or the fields of every row that can be seen begin, px."""
    for form in window.findChildren(Form):
        for row in range(form.rowCount()):
            item, has_words = form.itemAt(row, role), form.itemAt(row, QFormLayout.ItemRole.LabelRole)
            if item is not None and has_words is not None and has_words.widget().isVisible():
                yield form.parentWidget().mapTo(window, QPoint(item.geometry().left(), 0)).x()


def test_words_and_fields_begin_where_they_do_in_every_other_dialog(qtbot: QtBot) -> None:
    words, fields = set(), set()
    for name in ("record", "preferences"):
        with opened(WINDOWS[name]()) as window:
            words |= set(edges(window, QFormLayout.ItemRole.LabelRole))
            fields |= set(edges(window, QFormLayout.ItemRole.FieldRole))
    assert len(words) == 1
    assert len(fields) == 1
    assert min(words) < min(fields)
