"""The dialog that changes what the window remembers between starts."""

from __future__ import annotations

from typing import Final

from PySide6.QtWidgets import (
    QCheckBox,
    QComboBox,
    QDialog,
    QDialogButtonBox,
    QDoubleSpinBox,
    QPushButton,
    QTabWidget,
    QVBoxLayout,
    QWidget,
)

from rules.thresholds import Thresholds
from viewer.dialogs.threshold_form import ThresholdForm
from viewer.kept.preferences import COLOR_MODES, FIRST_VIEWS, HIGHEST_PRICE, THEMES, WHEELS, Preferences
from viewer.look.form import MARGIN, Form
from viewer.look.labels import Label
from viewer.look.separator import HorizontalLine

DIALOG_SIZE: Final = (640, 520)


class PreferencesDialog(QDialog):
    """Changes preferences when closed with OK."""

    def __init__(self, preferences: Preferences, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setWindowTitle("Preferences")
        self._preferences = preferences
        self.theme = _choice(THEMES, preferences.theme)
        self.color_mode = _choice(COLOR_MODES, preferences.color_mode)
        self.first_view = _choice(FIRST_VIEWS, preferences.first_view)
        self.wheel = _choice(WHEELS, preferences.wheel)
        self.animate = QCheckBox("Fly to places instead of jumping")
        self.animate.setChecked(preferences.animate)
        self.keep_recent = QCheckBox("Remember opened files")
        self.keep_recent.setChecked(preferences.keep_recent)
        self.price = QDoubleSpinBox()
        self.price.setRange(0.0, HIGHEST_PRICE)
        self.price.setDecimals(2)
        self.price.setSpecialValueText("not set")
        self.price.setFixedWidth(120)
        self.price.setValue(preferences.cost_per_hour or 0.0)
        forget = QPushButton("Forget recent files")
        forget.clicked.connect(_forget_recent)
        window = QWidget()
        form = Form(window)
        form.setContentsMargins(MARGIN, MARGIN, MARGIN, MARGIN)
        form.heading("Look")
        form.add("Theme", self.theme)
        form.add("Colours tell", self.color_mode)
        form.add("Motion", self.animate)
        form.heading("Opening a recording")
        form.add("Show first", self.first_view)
        form.add("Recent files", self.keep_recent, forget)
        form.heading("Timeline")
        form.add("The wheel", self.wheel)
        form.heading("Costs")
        form.add(
            "A GPU-hour", self.price, Label("in any currency: what idle GPUs cost is told then", "secondary")
        )
        buttons = QDialogButtonBox(
            QDialogButtonBox.StandardButton.Ok | QDialogButtonBox.StandardButton.Cancel
        )
        buttons.setContentsMargins(MARGIN, 8, MARGIN, 12)
        buttons.accepted.connect(self.accept)
        buttons.rejected.connect(self.reject)
        self.threshold_form = ThresholdForm(preferences.thresholds.chosen)
        self.pages = QTabWidget()
        self.pages.addTab(window, "Window")
        self.pages.addTab(self.threshold_form, "Thresholds")
        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.setSpacing(0)
        layout.addWidget(self.pages)
        layout.addWidget(HorizontalLine())
        layout.addWidget(buttons)
        self.resize(*DIALOG_SIZE)

    def accept(self) -> None:
        chosen = self._preferences
        chosen.theme = str(self.theme.currentData())
        chosen.color_mode = str(self.color_mode.currentData())
        chosen.first_view = str(self.first_view.currentData())
        chosen.wheel = str(self.wheel.currentData())
        chosen.animate = self.animate.isChecked()
        chosen.keep_recent = self.keep_recent.isChecked()
        chosen.cost_per_hour = self.price.value() or None
        chosen.thresholds = Thresholds(self.threshold_form.chosen())
        chosen.flush()
        super().accept()


def _choice(options: dict[str, str], current: str) -> QComboBox:
    box = QComboBox()
    for key, text in options.items():
        box.addItem(text, key)
    box.setCurrentIndex(box.findData(current))
    return box


def _forget_recent() -> None:
    from viewer.kept.recent import forget_recent

    forget_recent()
