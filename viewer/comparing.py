"""Compares the open recording with another one and shows what changed."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from PySide6.QtCore import Qt
from PySide6.QtGui import QFont, QFontDatabase
from PySide6.QtWidgets import QDialog, QPlainTextEdit, QVBoxLayout, QWidget

from parsers.model import Progress, TraceError
from viewer.labels import Label

if TYPE_CHECKING:
    from viewer.main_window import MainWindow


def compare_with(window: MainWindow, paths: Sequence[Path]) -> None:
    """Read the other recording in the background, then show the comparison."""
    trace = window.document.trace
    if trace is None:
        return
    name = window.document.paths[0].name if window.document.paths else "this recording"

    def work(progress: Progress) -> Any:
        from parsers import open_trace
        from rules.compare import compare
        from viewer.reports.comparison_report import as_text

        other = open_trace(paths, progress.part(0.0, 0.7))
        progress.step(0.7, "comparing")
        return as_text(compare(trace, other))

    def answer(text: str) -> None:
        dialog = ComparisonDialog(f"{name}  →  {paths[0].name}", text, window)
        dialog.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        dialog.open()

    def failed(error: Exception) -> None:
        if isinstance(error, TraceError):
            window.banner.say(error.problem, error.hint)
        else:
            raise error

    window.jobs.ask("compare", work, answer, failed)


class ComparisonDialog(QDialog):
    """Before and after, as text that can be copied."""

    def __init__(self, title: str, text: str, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setWindowTitle("Comparison")
        self.resize(900, 620)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(20, 16, 20, 16)
        layout.setSpacing(10)
        layout.addWidget(Label(title, pixels=14, weight=QFont.Weight.DemiBold, wrap=True))
        view = QPlainTextEdit(text)
        view.setReadOnly(True)
        font = QFontDatabase.systemFont(QFontDatabase.SystemFont.FixedFont)
        font.setPixelSize(12)
        view.setFont(font)
        layout.addWidget(view, 1)
