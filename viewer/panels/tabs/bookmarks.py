"""The bookmarks tab: places the user keeps, with notes."""

from __future__ import annotations

import os
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from PySide6.QtCore import Qt, QTimer, Signal
from PySide6.QtGui import QAction
from PySide6.QtWidgets import QInputDialog, QLabel, QPushButton, QWidget

from viewer.appearance.widgets import horizontal
from viewer.documents.document import Document
from viewer.panels.panel import Panel, tab
from viewer.user_data.storage import SessionError

if TYPE_CHECKING:
    from parsers.model import Trace
    from viewer.panels.tables.table_view import TableView
    from viewer.user_data.session import Bookmark, Session

_MAX_LABEL_LENGTH = 200
_TITLE, _NOTE = 0, 3  # columns


@tab
class BookmarksPanel(Panel):
    """Reads and writes the session of the open recording; ``changed`` after every change."""

    title = "Bookmarks"
    order = 110
    changed = Signal()
    failed = Signal(str)
    written = Signal()  # a note or a title, to its end or given up

    def __init__(self, document: Document, parent: QWidget | None = None) -> None:
        super().__init__(document, parent)
        self.session: Session | None = None
        self.bookmarks: list[Bookmark] = []
        self._shown: tuple[Trace | None, list[Bookmark]] = (None, [])
        self._new = -1
        document.trace_changed.connect(self._on_trace)

    @cached_property
    def table(self) -> TableView:
        """The places; made when they are first looked at, which in a new window nobody does."""
        from viewer.panels.tables.table_model import Column, Show
        from viewer.panels.tables.table_view import TableView

        columns = (
            Column("title", "Place", stretch=True, editable=True),
            Column("at", "Start (ms)", Show.FIGURE, "Since the first event of the recording", order="start"),
            Column("length", "Length", Show.TIME, "Of the stretch, as recorded; 0 for a moment"),
            Column("note", "Note", stretch=True, editable=True),
        )
        table = TableView(columns, "Bookmarks")
        self.tables = (table,)
        table.chosen.connect(self._show)
        row = horizontal(margins=(10, 4, 10, 6), spacing=6)
        for text, slot in (
            ("Edit the note", self.edit_note),
            ("Rename", self.rename),
            ("Remove", self.remove),
        ):
            button = QPushButton(text)
            button.clicked.connect(slot)
            row.addWidget(button)
        row.addStretch(1)
        table.rows.edited.connect(self._take_text)
        table.itemDelegate().closeEditor.connect(lambda _: QTimer.singleShot(0, self, self.written.emit))
        table.doubleClicked.connect(lambda index: self._edit(index.column()))
        delete = QAction("Remove", table)
        delete.setShortcut(Qt.Key.Key_Delete)
        delete.setShortcutContext(Qt.ShortcutContext.WidgetShortcut)
        delete.triggered.connect(self.remove)
        table.addAction(delete)
        self.column.addWidget(table, 1)
        self.column.addLayout(row)
        return table

    def has_data(self) -> bool:
        return self.document.trace is not None and bool(self.bookmarks)

    def _on_trace(self, trace: object) -> None:
        if self.session is not None and self._recordings_of(self.session) != self.document.paths:
            self.session.close()
            self.session = None
        if trace is not None and self.session is None and self.document.paths:
            self.use(self._session_of(self.document.paths))
        elif trace is None:
            self._shown = (None, [])
            self._keep([])

    def _session_of(self, paths: Sequence[Path]) -> Session:
        """The user's own, unless it holds no notes and somebody put one with notes beside the recording."""
        from viewer.user_data.session import Session, session_path, shared_session

        own = Session(session_path(paths), paths)
        try:
            shared = None if own.bookmarks() else shared_session(paths)
            if shared is None:
                return own
            return Session(shared) if os.access(shared, os.W_OK) else Session(shared).copy_to(own.path)
        except SessionError:
            return own  # which says what is wrong with it as soon as it is read

    def _recordings_of(self, session: Session) -> tuple[Path, ...]:
        try:
            return session.recordings
        except SessionError as error:
            self.failed.emit(str(error))
            return ()

    def use(self, session: Session) -> None:
        self.session = session
        self._read()

    def _read(self) -> None:
        marks: list[Bookmark] = []
        try:
            marks = self.session.bookmarks() if self.session is not None else []
            if self.session is not None and self.session.left_out:
                self.failed.emit(
                    f"{self.session.left_out:,} rows of {self.session.path.name} are not bookmarks."
                )
        except SessionError as error:
            self.failed.emit(str(error))
        self._keep(marks)
        self.invalidate()

    def _keep(self, marks: list[Bookmark]) -> None:
        if marks != self.bookmarks:
            self.bookmarks = marks
            self.changed.emit()

    def refresh(self) -> None:
        """Fill the table, unless it shows these bookmarks of this trace: a note may be being typed into it."""
        if self._shown[0] is self.document.trace and self._shown[1] == self.bookmarks:
            return
        import pandas as pd

        self._shown = self.document.trace, list(self.bookmarks)
        rows = [
            (mark.title, f"{mark.start / 1e6:,.3f}", mark.end - mark.start, mark.note, mark.start)
            for mark in self.bookmarks
        ]
        self.table.set_frame(pd.DataFrame(rows, columns=["title", "at", "length", "note", "start"]))

    def add(self, view: tuple[int, int]) -> None:
        """Keep what is selected: an event, a gap, an area; else what is visible."""
        if self.session is None:
            return
        start, end, title, event = self._selected(view)
        known = {mark.id for mark in self.bookmarks}
        self._do(lambda session: session.add(start, end, title, "", event))
        self._new = next((mark.id for mark in self.bookmarks if mark.id not in known), -1)

    def note_the_new_one(self) -> None:
        """Let the note of the bookmark that was added last be typed; the panel must be visible."""
        place = next((place for place, mark in enumerate(self.bookmarks) if mark.id == self._new), -1)
        if place >= 0 and self.table.rows.frame is not None:
            self.table.select_frame_row(place)
            self.edit_note()

    def _selected(self, view: tuple[int, int]) -> tuple[int, int, str, int]:
        from viewer.statistics.event_facts import KIND_NAMES, called

        document = self.document
        trace, analysis = document.trace, document.analysis
        if document.area is not None:
            return document.area.start, document.area.end, "selected area", -1
        if trace is not None and document.selected_event >= 0:
            event = document.selected_event
            start, end = int(trace.events.start[event]), int(trace.events.end[event])
            return start, end, called(trace, event)[:200] or KIND_NAMES[trace.events.kind[event]], event
        if analysis is not None and document.selected_gap >= 0:
            row = document.selected_gap
            title = f"idle: {analysis.idle.culprit_of(row).text}"
            return int(analysis.idle.start[row]), int(analysis.idle.end[row]), title, -1
        return view[0], view[1], "view", -1

    def _current(self) -> Bookmark | None:
        index = self.table.currentIndex()
        return self.bookmarks[self.table.rows.frame_row(index.row())] if index.isValid() else None

    def edit_note(self) -> None:
        self._edit(_NOTE)

    def rename(self) -> None:
        """Let the title of the current bookmark be typed into its row."""
        self._edit(_TITLE)

    def _edit(self, column: int) -> None:
        mark, row = self._current(), self.table.currentIndex().row()
        if mark is None:
            return
        if column == _NOTE and "\n" in mark.note:
            self._edit_lines(mark)
        else:
            self.table.edit(self.table.rows.index(row, column if column == _TITLE else _NOTE))

    def _edit_lines(self, mark: Bookmark) -> None:
        """A note of several lines has no room in a row."""
        dialog = QInputDialog(self)
        dialog.setWindowTitle("Note")
        dialog.setOption(QInputDialog.InputDialogOption.UsePlainTextEditForTextInput)
        dialog.setLabelText(mark.title[:_MAX_LABEL_LENGTH])
        dialog.setTextValue(mark.note)
        for label in dialog.findChildren(QLabel):  # a title may come from a stranger's file
            label.setTextFormat(Qt.TextFormat.PlainText)
        if dialog.exec() == QInputDialog.DialogCode.Accepted:
            self._do(lambda session: session.change(mark.id, note=dialog.textValue()))

    def _take_text(self, place: int, key: str, text: str) -> None:
        if place >= len(self.bookmarks):
            return  # of a recording that was closed while it was typed
        mark = self.bookmarks[place]
        if key == "note" and text != mark.note:
            self._do(lambda session: session.change(mark.id, note=text))
        elif key == "title" and text.strip() and text.strip() != mark.title:
            self._do(lambda session: session.change(mark.id, title=text.strip()))

    def remove(self) -> None:
        mark = self._current()
        if mark is not None:
            self._do(lambda session: session.remove(mark.id))

    def _do(self, change: object) -> None:
        try:
            change(self.session)  # type: ignore[operator]
        except SessionError as error:
            self.failed.emit(str(error))
        self._read()

    def _show(self, row: int) -> None:
        from rules.findings.base import Evidence

        mark, trace = self.bookmarks[row], self.document.trace
        if trace is None:
            return
        if 0 <= mark.event < len(trace.events) and int(trace.events.start[mark.event]) == mark.start:
            self.document.show_event(mark.event)
        else:
            self.document.show_evidence([Evidence(-1, mark.start, mark.end, mark.title)])
