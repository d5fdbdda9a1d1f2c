"""Asks where a report goes and writes it: a self-contained page, PDF or Markdown, by the file's ending."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from PySide6.QtWidgets import QFileDialog, QWidget

from parsers.model import Progress
from viewer.desktop.jobs import Jobs
from viewer.reports.report_files import SUFFIXES, Makers, file_kinds, kind_for
from viewer.user_data.storage import is_written

Say = Callable[[str, str], None]
Written = Callable[[Path], None]


def ask_for_report(
    makers: Makers, name: str, jobs: Jobs, parent: QWidget, say: Say, written: Written = lambda _: None
) -> None:
    """``name`` is the file's name that is offered; ``say`` is told the problem and a hint where it fails."""
    kinds = file_kinds(makers)
    chosen, title = QFileDialog.getSaveFileName(
        parent, "Export report", f"{name}{SUFFIXES['html']}", ";;".join(kinds)
    )
    if chosen:
        write_report(Path(chosen), makers, jobs, say, kinds.get(title, "html"), written)


def write_report(
    path: Path,
    makers: Makers,
    jobs: Jobs,
    say: Say,
    otherwise: str = "html",
    written: Written = lambda _: None,
) -> None:
    """Write the kind that the ending names, else ``otherwise``, whose ending is added where there is none."""
    path, kind = kind_for(path, makers, otherwise)

    def work(progress: Progress) -> bytes:
        progress.step(0.0, "writing the report")
        return makers[kind]()

    def answer(content: bytes) -> None:
        if is_written(path, content, lambda problem: say(problem, "Choose another location.")):
            written(path)

    jobs.ask("report", work, answer)
