"""What happens when the program itself fails: a log file, and a dialog with a report that can be copied."""

from __future__ import annotations

import logging
import platform
import sys
import traceback
from types import TracebackType

from PySide6.QtGui import QFont, QGuiApplication
from PySide6.QtWidgets import QApplication, QDialog, QDialogButtonBox, QPlainTextEdit

from viewer.appearance.widgets import Label, fill, vertical

_LOG = logging.getLogger(__name__)
_shown: list[QDialog] = []


def report_of(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> str:
    """The text to send: versions and the traceback, no names of the user's files beyond those in it."""
    lines = [f"Python {sys.version.split()[0]} on {platform.platform()}", ""]
    return "\n".join(lines) + "".join(traceback.format_exception(kind, error, trace))


class ProblemDialog(QDialog):
    """Says that the program failed, and hands over the report."""

    def __init__(self, report: str) -> None:
        super().__init__(QApplication.activeWindow())
        self.setWindowTitle("Stallscope failed")
        self.resize(680, 420)
        layout = fill(
            vertical(self, (20, 18, 20, 14), 10),
            Label("Something went wrong in Stallscope.", pixels=14, weight=QFont.Weight.DemiBold),
            Label(
                "Your recording is unchanged and you can keep working. Please send us this report.",
                "secondary",
                wrap=True,
            ),
        )
        text = QPlainTextEdit(report)
        text.setReadOnly(True)
        text.setAccessibleName("Report")
        layout.addWidget(text, 1)
        buttons = QDialogButtonBox(QDialogButtonBox.StandardButton.Close)
        copy = buttons.addButton("Copy the report", QDialogButtonBox.ButtonRole.ActionRole)
        copy.clicked.connect(lambda: QGuiApplication.clipboard().setText(report))
        buttons.rejected.connect(self.reject)
        layout.addWidget(buttons)


def install() -> None:
    """Log to a file, and show unexpected exceptions instead of ending the program."""
    from viewer.user_data.storage import data_folder

    try:
        handler: logging.Handler = logging.FileHandler(
            data_folder() / "stallscope.log", delay=True, encoding="utf-8"
        )
    except OSError:
        handler = logging.StreamHandler()
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(name)s: %(message)s"))
    handler.setLevel(logging.WARNING)
    logging.getLogger().addHandler(handler)

    def show(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
        if issubclass(kind, KeyboardInterrupt):
            QApplication.quit()
            return
        report = report_of(kind, error, trace)
        _LOG.error("%s", report)
        sys.stderr.write(report)
        if not any(dialog.isVisible() for dialog in _shown):
            dialog = ProblemDialog(report)
            _shown[:] = [dialog]
            dialog.open()

    sys.excepthook = show
