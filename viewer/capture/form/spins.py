"""Number fields of the capture dialog, all of one width."""

from __future__ import annotations

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QDoubleSpinBox, QSpinBox


def number(least: int, most: int) -> QSpinBox:
    """A whole number within bounds."""
    spin = QSpinBox()
    spin.setRange(least, most)
    spin.setFixedWidth(72)
    spin.setAlignment(Qt.AlignmentFlag.AlignHCenter)
    return spin


def seconds(least: float, most: float) -> QDoubleSpinBox:
    """Whole seconds within bounds."""
    spin = QDoubleSpinBox()
    spin.setRange(least, most)
    spin.setDecimals(0)
    spin.setSuffix(" s")
    spin.setFixedWidth(80)
    spin.setAlignment(Qt.AlignmentFlag.AlignHCenter)
    return spin
