"""The about box: version, libraries, where the log is."""

from __future__ import annotations

import sys
from importlib.metadata import PackageNotFoundError, version

from PySide6.QtGui import QFont
from PySide6.QtWidgets import QDialog, QWidget

from viewer.kept.storage import data_folder
from viewer.look.boxes import vertical
from viewer.look.labels import Label


class AboutDialog(QDialog):
    """Facts for a bug report."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setWindowTitle("About Stallscope")
        layout = vertical(self, (24, 20, 24, 20), 8)
        self.setMinimumWidth(460)
        layout.addWidget(
            Label(f"Stallscope {_version('stallscope')}", pixels=18, weight=QFont.Weight.DemiBold)
        )
        layout.addWidget(Label("Says what the GPU is waiting for, and what to change.", "secondary"))
        libraries = ", ".join(
            f"{name} {_version(name)}" for name in ("PySide6-Essentials", "numpy", "pandas")
        )
        text = f"Python {sys.version.split()[0]}, {libraries}"
        layout.addWidget(Label(text, "secondary", wrap=True, selectable=True))
        layout.addWidget(
            Label(f"Log and recent files: {data_folder()}", "secondary", wrap=True, selectable=True)
        )


def _version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return "from source"
