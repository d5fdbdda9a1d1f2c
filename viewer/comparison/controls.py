"""The controls of the comparison window: its menu bar, its buttons, and the line above the timelines."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path, PurePath
from typing import TYPE_CHECKING

from PySide6.QtCore import QCoreApplication, QEvent, Qt, Signal
from PySide6.QtGui import QAction, QGuiApplication, QKeySequence, QResizeEvent
from PySide6.QtWidgets import (
    QAbstractButton,
    QButtonGroup,
    QComboBox,
    QFileDialog,
    QMenu,
    QMenuBar,
    QPushButton,
    QSizePolicy,
    QToolButton,
    QWidget,
)

from parsers.model import Trace
from viewer.appearance.widgets import SPRING, Label, fill, horizontal, menu_button, tooltip
from viewer.user_data.storage import is_written

if TYPE_CHECKING:
    from rules.comparison.compare import Comparison


class ControlBar(QWidget):
    """Emits what somebody chooses; setting something here tells nobody."""

    anchor_chosen = Signal(str)
    steps_chosen = Signal(int, int)  # place among the steps of either side
    rank_chosen = Signal(int)  # place among the offered ranks
    length_chosen = Signal(bool)  # True: same length
    linked = Signal(bool)
    all_lanes = Signal(bool)

    def __init__(self) -> None:
        super().__init__()
        self.anchor, self.rank = QComboBox(), QComboBox()
        self.steps = QComboBox(), QComboBox()
        for box, name in (
            (self.anchor, "Aligned at"),
            (self.rank, "Rank"),
            (self.steps[0], "Step before"),
            (self.steps[1], "Step after"),
        ):
            box.setAccessibleName(name)
            box.setSizeAdjustPolicy(QComboBox.SizeAdjustPolicy.AdjustToContents)
            box.setSizePolicy(QSizePolicy.Policy.Maximum, QSizePolicy.Policy.Fixed)
        self.scale, self.length = _toggle("same scale"), _toggle("same length")
        self.length.setToolTip(tooltip("Draw both steps at the same length, stretching one of them (T)"))
        self.scale.setToolTip(tooltip("Use the same time scale on both sides (T)"))
        group = QButtonGroup(self)
        for button in (self.scale, self.length):
            group.addButton(button)
        self.scale.setChecked(True)
        self.lanes = _toggle("all lanes")
        self.lanes.setToolTip(tooltip("Also show CPU lanes and counters"))
        self.link = _toggle("linked")
        self.link.setChecked(True)
        self.link.setToolTip(tooltip("Keep zoom, position and cursor in sync (Shift+L)"))
        self.menu = menu_button("View ▾")
        self._toggles = self.scale, self.length, self.lanes, self.link
        for button in self._toggles:
            action = self.menu.menu().addAction(button.text())
            action.setCheckable(True)
            action.setChecked(button.isChecked())
            button.toggled.connect(action.setChecked)
            action.triggered.connect(button.click)
        self._rank_label = Label("Rank", "secondary", pixels=12)
        layout = horizontal(self, (14, 5, 12, 5), 6)
        self._anchor_label = Label("Aligned at", "secondary", pixels=12)
        self._step_label = Label("Step", "secondary", pixels=12)
        fill(layout, self._anchor_label, self.anchor)
        layout.addSpacing(6)
        fill(layout, self._rank_label, self.rank, self._step_label, self.steps[0], self.steps[1])
        layout.addSpacing(6)
        fill(layout, self.scale, self.length, self.lanes, SPRING, self.link, self.menu)
        self.anchor.activated.connect(lambda _: self.anchor_chosen.emit(self.anchor.currentText()))
        self.rank.activated.connect(self.rank_chosen)
        for box in self.steps:
            box.activated.connect(
                lambda _: self.steps_chosen.emit(self.steps[0].currentIndex(), self.steps[1].currentIndex())
            )
        self.length.toggled.connect(self.length_chosen)
        self.link.toggled.connect(self.linked)
        self.lanes.toggled.connect(self.all_lanes)
        self.offer_ranks(())

    def offer_anchors(self, anchors: Sequence[str], chosen: str) -> None:
        _fill(self.anchor, anchors, chosen)

    def offer_steps(self, side: int, names: Sequence[str], chosen: str) -> None:
        _fill(self.steps[side], names, chosen)
        self.steps[side].setEnabled(len(names) > 1)

    def offer_ranks(self, names: Sequence[str]) -> None:
        """The ranks of both, the worst first; nothing to choose among fewer than two."""
        _fill(self.rank, names, names[0] if names else "")
        self.rank.setVisible(len(names) > 1)
        self._fit()

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self._fit()

    def _fit(self) -> None:
        """Leave out what the boxes say by themselves, then put the buttons into a menu, where there is not room."""
        several = not self.rank.isHidden()
        for labelled, apart in ((True, True), (False, True), (False, False)):
            self._rank_label.setVisible(labelled and several)
            self._anchor_label.setVisible(labelled)
            self._step_label.setVisible(labelled)
            for button in self._toggles:
                button.setVisible(apart)
            self.menu.setVisible(not apart)
            if self.sizeHint().width() <= self.width():
                return

    def toggle_length(self) -> None:
        (self.scale if self.length.isChecked() else self.length).setChecked(True)


def _toggle(text: str) -> QToolButton:
    button = QToolButton()
    button.setText(text)
    button.setAccessibleName(text)
    button.setCheckable(True)
    button.setStyleSheet("padding-left: 10px; padding-right: 10px;")
    return button


def _fill(box: QComboBox, names: Sequence[str], chosen: str) -> None:
    box.blockSignals(True)
    box.clear()
    box.addItems(list(names))
    QCoreApplication.sendEvent(box, QEvent(QEvent.Type.StyleChange))  # else its least width stays what it was
    box.setCurrentIndex(max(list(names).index(chosen), 0) if chosen in names else 0)
    box.blockSignals(False)


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


def keys_of(menus: Sequence[QMenu]) -> list[tuple[str, list[tuple[str, str]]]]:
    """Each menu with the keys, as the platform writes them, and the text of its entries that have some."""
    native = QKeySequence.SequenceFormat.NativeText
    told = {
        menu.title().removeprefix("&"): [
            (each.shortcut().toString(native), each.text().rstrip(" ."))
            for each in menu.actions()
            if not each.shortcut().isEmpty()
        ]
        for menu in menus
    }
    return [(title, rows) for title, rows in told.items() if rows]


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


class PageButtons(QWidget):
    """Grey until there is a result; ``told`` says what became of a page."""

    told = Signal(str)

    def __init__(self) -> None:
        super().__init__()
        self._result: Comparison | None = None
        row = horizontal(self, (0, 3, 10, 3), 8)
        self.export = QPushButton("Export page")
        self.copy = QPushButton("Copy as text")
        self.swap = QPushButton("Swap")
        self.swap.setAccessibleName("Swap before and after")
        self.swap.setToolTip("Swap before and after (X)")
        self.export.clicked.connect(self._export)
        self.copy.clicked.connect(self._copy)
        for button in (self.export, self.copy, self.swap):
            button.setProperty("chip", True)  # low enough for a line of tabs
            button.setEnabled(False)
            row.addWidget(button)

    def show_result(self, result: Comparison) -> None:
        """What is taken elsewhere from now on."""
        self._result = result
        for button in (self.export, self.copy, self.swap):
            button.setEnabled(True)

    def _copy(self) -> None:
        from viewer.reports.comparison_blocks import as_text

        if self._result is not None:
            QGuiApplication.clipboard().setText(as_text(self._result))

    def _export(self) -> None:
        from viewer.reports.report_files import comparison_files, file_kinds

        assert self._result is not None
        kinds = file_kinds(comparison_files(self._result))
        name, title = QFileDialog.getSaveFileName(self, "Export page", "comparison.html", ";;".join(kinds))
        if name:
            self.export_to(Path(name), kinds.get(title, "html"))

    def export_to(self, path: Path, otherwise: str = "html") -> None:
        """Write the kind of page that the ending names, else ``otherwise``; says what the system refuses."""
        from viewer.reports.report_files import comparison_files, kind_for

        assert self._result is not None
        makers = comparison_files(self._result)
        path, kind = kind_for(path, makers, otherwise)
        if is_written(path, makers[kind](), self.told.emit):
            self.told.emit(f"{path.name} was written")
