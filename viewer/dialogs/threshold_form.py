"""The page of the preferences that shows the thresholds of the rules, and changes them."""

from __future__ import annotations

from collections.abc import Mapping

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QGridLayout, QLineEdit, QPushButton, QScrollArea, QVBoxLayout, QWidget

from rules.thresholds import Threshold, known_thresholds
from viewer.look import theme
from viewer.look.labels import Label, tooltip

FIELD_WIDTH = 96


class ThresholdField(QLineEdit):
    """One value with its unit; what is no value inside the bounds is told and leaves the value as it was."""

    def __init__(self, threshold: Threshold, value: float) -> None:
        super().__init__(threshold.written(value))
        self.threshold = threshold
        self.value = value
        self.setFixedWidth(FIELD_WIDTH)
        self.setAlignment(Qt.AlignmentFlag.AlignRight)
        self.setAccessibleName(_sentence(threshold.meaning))
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
        """Show another value."""
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
        column = QVBoxLayout(body)
        column.setContentsMargins(16, 14, 16, 14)
        column.setSpacing(12)
        column.addWidget(
            Label(
                "What the checks decide by. A diagnosis that was made with other numbers says so; the command line "
                "keeps the defaults.",
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
            grid.addWidget(Label(_sentence(each.meaning), wrap=True), row, 0)
            grid.addWidget(shown, row, 1)
            usual = Label(f"default {each.written(each.default)}", "faint", pixels=theme.SECONDARY_PX)
            grid.addWidget(usual, row, 2)
        grid.setColumnStretch(0, 1)
        column.addLayout(grid)
        self.reset_button = QPushButton("Back to the defaults")
        self.reset_button.clicked.connect(self.reset)
        column.addWidget(self.reset_button, 0, Qt.AlignmentFlag.AlignLeft)
        column.addStretch(1)
        self.setWidget(body)

    def reset(self) -> None:
        """Show the defaults."""
        for each in self.fields.values():
            each.set_value(each.threshold.default)

    def chosen(self) -> dict[str, float]:
        """The values that are not the defaults, by key."""
        return {key: each.value for key, each in self.fields.items() if each.is_changed}


def _sentence(text: str) -> str:
    return text[:1].upper() + text[1:]
