"""The buttons that take a comparison elsewhere, as a page or as text, and the one that swaps its sides."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from PySide6.QtCore import Signal
from PySide6.QtGui import QGuiApplication
from PySide6.QtWidgets import QFileDialog, QPushButton, QWidget

from viewer.appearance.boxes import horizontal
from viewer.user_data.storage import write_bytes

if TYPE_CHECKING:
    from rules.comparison.compare import Comparison


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
        try:
            write_bytes(path, makers[kind]())
        except OSError as error:
            self.told.emit(f"{path.name} could not be written: {error.strerror or error}")
        else:
            self.told.emit(f"{path.name} was written")
