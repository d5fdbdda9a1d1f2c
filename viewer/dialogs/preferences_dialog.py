"""The dialog that changes what the window remembers between starts."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from typing import Final

from PySide6.QtCore import Qt
from PySide6.QtWidgets import (
    QCheckBox,
    QComboBox,
    QDialog,
    QDialogButtonBox,
    QDoubleSpinBox,
    QGridLayout,
    QLineEdit,
    QPlainTextEdit,
    QPushButton,
    QScrollArea,
    QTabWidget,
    QWidget,
)

from parsers.model.units import capital
from rules.terms import Threshold, Thresholds, known_thresholds
from viewer.appearance import theme
from viewer.appearance.key_names import key_names
from viewer.appearance.widgets import (
    MARGIN,
    NO_MARGINS,
    SPRING,
    Form,
    HorizontalLine,
    Label,
    fill,
    resize_within_screen,
    scrolling,
    tooltip,
    vertical,
)
from viewer.desktop.editors import EDITORS
from viewer.user_data.preferences import (
    COLOR_MODES,
    FIRST_VIEWS,
    LETTERS,
    MAX_PRICE,
    THEMES,
    WHEELS,
    Preferences,
)

FIELD_WIDTH = 96


class ThresholdField(QLineEdit):
    """One value with its unit; what is no value inside the bounds is told and leaves the value as it was."""

    def __init__(self, threshold: Threshold, value: float) -> None:
        super().__init__(threshold.written(value))
        self.threshold = threshold
        self.value = value
        self.setFixedWidth(FIELD_WIDTH)
        self.setAlignment(Qt.AlignmentFlag.AlignRight)
        self.setAccessibleName(capital(threshold.meaning))
        self.setAccessibleDescription(self.bounds)
        self.setToolTip(tooltip(f"{self.bounds}. {threshold.source}"))
        self.editingFinished.connect(self._take)

    @property
    def bounds(self) -> str:
        written = self.threshold.written
        return f"From {written(self.threshold.least)} to {written(self.threshold.most)}"

    @property
    def is_changed(self) -> bool:
        return self.value != self.threshold.default

    def set_value(self, value: float) -> None:
        self.value = value
        self.setText(self.threshold.written(value))

    def _take(self) -> None:
        if self.text() != self.threshold.written(self.value):  # what is written is rounded
            typed = self.threshold.parsed(self.text())
            self.set_value(self.value if typed is None else typed)


class ThresholdForm(QScrollArea):
    """All thresholds with their defaults and sources, and a button that sets them back."""

    def __init__(self, chosen: Mapping[str, float]) -> None:
        super().__init__()
        self.setWidgetResizable(True)
        self.setFrameShape(QScrollArea.Shape.NoFrame)
        self.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.setAccessibleName("Thresholds")
        self.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        body = QWidget()
        column = vertical(body, (16, 14, 16, 14), 12)
        column.addWidget(
            Label(
                "The values that checks compare against. A diagnosis made with changed values says so; "
                "the command line always uses the defaults.",
                "secondary",
                wrap=True,
            )
        )
        grid = QGridLayout()
        grid.setHorizontalSpacing(16)
        grid.setVerticalSpacing(8)
        self.fields: dict[str, ThresholdField] = {}
        for row, each in enumerate(known_thresholds()):
            shown = self.fields[each.key] = ThresholdField(each, chosen.get(each.key, each.default))
            grid.addWidget(Label(capital(each.meaning), wrap=True), row, 0)
            grid.addWidget(shown, row, 1)
            usual = Label(f"default {each.written(each.default)}", "faint", pixels=theme.SECONDARY_PX)
            grid.addWidget(usual, row, 2)
        grid.setColumnStretch(0, 1)
        column.addLayout(grid)
        self.reset_button = QPushButton("Restore defaults")
        self.reset_button.clicked.connect(self.reset)
        fill(column, (self.reset_button, 0, Qt.AlignmentFlag.AlignLeft), SPRING)
        self.setWidget(body)

    def reset(self) -> None:
        for each in self.fields.values():
            each.set_value(each.threshold.default)

    def chosen(self) -> dict[str, float]:
        """The values that are not the defaults, by key."""
        return {key: each.value for key, each in self.fields.items() if each.is_changed}


DIALOG_SIZE: Final = (640, 690)


class PreferencesDialog(QDialog):
    """Changes preferences when closed with OK."""

    def __init__(self, preferences: Preferences, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setWindowTitle("Preferences")
        self._preferences = preferences
        self.theme = _choice(THEMES, preferences.theme)
        self.letters = _choice(LETTERS, preferences.letters)
        self.color_mode = _choice(COLOR_MODES, preferences.color_mode)
        self.first_view = _choice(FIRST_VIEWS, preferences.first_view)
        self.wheel = _choice(WHEELS, preferences.wheel)
        self.animate = QCheckBox("Animate moves on the timeline")
        self.animate.setChecked(preferences.animate)
        self.keep_recent = QCheckBox("Remember opened files")
        self.keep_recent.setChecked(preferences.keep_recent)
        self.price = QDoubleSpinBox()
        self.price.setRange(0.0, MAX_PRICE)
        self.price.setDecimals(2)
        self.price.setSpecialValueText("not set")
        self.price.setFixedWidth(120)
        self.price.lineEdit().setTextMargins(8, 0, 8, 0)
        self.price.setAlignment(Qt.AlignmentFlag.AlignRight)
        self.price.setValue(preferences.cost_per_hour or 0.0)
        self.editor = QComboBox()
        self.editor.setEditable(True)
        if (typed := self.editor.lineEdit()) is not None:
            typed.setPlaceholderText("found automatically, or: code --goto {file}:{line}")
        self.editor.addItems([*(shlex.join(each.command) for each in EDITORS if each.is_here)])
        self.editor.setCurrentText(preferences.editor)
        self.folders = QPlainTextEdit(preferences.folders)
        self.folders.setPlaceholderText(
            "for recordings made elsewhere, one per line: /home/them/train=/home/me/train"
        )
        self.folders.setTabChangesFocus(True)
        self.folders.setFixedHeight(3 * self.folders.fontMetrics().lineSpacing() + 12)
        forget = QPushButton("Forget recent files")
        forget.clicked.connect(_forget_recent)
        window = QWidget()
        form = Form(window)
        form.setContentsMargins(MARGIN, MARGIN, MARGIN, MARGIN)
        form.heading("Appearance")
        form.add("Theme", self.theme)
        form.add("Text size", self.letters, Label("in windows opened from now on", "secondary"))
        form.add("Colour by", self.color_mode)
        form.add("Motion", self.animate)
        form.heading("Opening a recording")
        form.add("Show first", self.first_view)
        form.add("Recent files", self.keep_recent, forget)
        form.heading("Timeline")
        form.add("Mouse wheel", self.wheel)
        form.heading("Your code")
        form.add("Editor", self.editor)
        form.add("Folders", self.folders)
        form.heading("Costs")
        form.add(
            "A GPU-hour",
            self.price,
            Label("in any currency; findings then say what idle GPUs cost", "secondary"),
        )
        buttons = QDialogButtonBox(
            QDialogButtonBox.StandardButton.Ok | QDialogButtonBox.StandardButton.Cancel
        )
        buttons.setContentsMargins(MARGIN, 8, MARGIN, 12)
        buttons.accepted.connect(self.accept)
        buttons.rejected.connect(self.reject)
        self.threshold_form = ThresholdForm(preferences.thresholds.chosen)
        self.pages = QTabWidget()
        self.pages.addTab(scrolling(window), "Window")
        self.pages.addTab(self.threshold_form, "Thresholds")
        fill(vertical(self, NO_MARGINS, 0), self.pages, HorizontalLine(), buttons)
        resize_within_screen(self, *DIALOG_SIZE)

    def accept(self) -> None:
        chosen = self._preferences
        chosen.theme = str(self.theme.currentData())
        chosen.letters = str(self.letters.currentData())
        chosen.color_mode = str(self.color_mode.currentData())
        chosen.first_view = str(self.first_view.currentData())
        chosen.wheel = str(self.wheel.currentData())
        chosen.animate = self.animate.isChecked()
        chosen.keep_recent = self.keep_recent.isChecked()
        chosen.editor = self.editor.currentText().strip()
        chosen.folders = self.folders.toPlainText().strip()
        chosen.cost_per_hour = self.price.value() or None
        chosen.thresholds = Thresholds(self.threshold_form.chosen())
        chosen.flush()
        super().accept()


def _choice(options: dict[str, str], current: str) -> QComboBox:
    box = QComboBox()
    for key, text in options.items():
        box.addItem(key_names(text), key)
    box.setCurrentIndex(box.findData(current))
    return box


def _forget_recent() -> None:
    from viewer.user_data.recent import forget_recent

    forget_recent()
