"""The menu bar and the title of the comparison window."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import PurePath

from PySide6.QtCore import Qt
from PySide6.QtGui import QAction, QKeySequence
from PySide6.QtWidgets import QAbstractButton, QMenuBar, QWidget

from parsers.model import Trace

Entry = tuple[
    str, str, Callable[[], object] | QAbstractButton
]  # text, keys, what it does or the button it presses
NS = 10**9


def menu_bar(window: QWidget, menus: Mapping[str, Sequence[Entry]]) -> QMenuBar:
    """The menus with their shortcuts, which work wherever the focus is in ``window``; a button's state is shown."""
    bar = QMenuBar(window)
    for name, entries in menus.items():
        menu = bar.addMenu(f"&{name}")
        for text, keys, does in entries:
            action = QAction(text, window)
            action.setShortcut(QKeySequence(keys))
            action.setShortcutContext(Qt.ShortcutContext.WidgetWithChildrenShortcut)
            if isinstance(does, QAbstractButton):
                action.setCheckable(does.isCheckable())
                action.setChecked(does.isChecked())
                does.toggled.connect(action.setChecked)
                action.triggered.connect(does.click)
                menu.aboutToShow.connect(lambda action=action, does=does: action.setEnabled(does.isEnabled()))
                menu.aboutToHide.connect(lambda action=action: action.setEnabled(True))  # its keys, too
            else:
                action.triggered.connect(lambda _=False, does=does: does())
            window.addAction(action)
            menu.addAction(action)
    return bar


def title_of(before: Trace, after: Trace | None) -> str:
    """Both recordings by name; equal names are told apart by when they were made, else by their folders."""
    if after is None:
        return f"{_name(before)} - Comparison"
    names = [_name(before), _name(after)]
    if names[0] == names[1]:
        made = [_when(each) for each in (before, after)]
        known = all(made) and made[0] != made[1]
        beside = made if known else [str(PurePath(each.inputs[0].path).parent) for each in (before, after)]
        names = [f"{name} ({what})" for name, what in zip(names, beside, strict=True)]
    return f"{names[0]} → {names[1]} - Comparison"


def _name(trace: Trace) -> str:
    if not trace.inputs:
        return "recording"
    more = len(trace.inputs) - 1
    return PurePath(trace.inputs[0].path).name + (f" and {more} more" if more else "")


def _when(trace: Trace) -> str:
    if trace.epoch_ns is None:
        return ""
    return datetime.fromtimestamp(trace.epoch_ns / NS, UTC).astimezone().strftime("%Y-%m-%d %H:%M:%S")
