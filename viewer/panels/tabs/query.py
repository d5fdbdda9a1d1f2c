"""The query tab: any question to the recording, ready-made or in SQL, answered on the timeline."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

from PySide6.QtCore import QPoint, Qt
from PySide6.QtGui import QAction
from PySide6.QtWidgets import QFileDialog, QInputDialog, QMenu, QPushButton, QSplitter, QWidget

from parsers.model import Progress, TraceError
from rules.findings.base import Evidence
from viewer.appearance.key_names import key_names
from viewer.appearance.widgets import NO_MARGINS, ElidedLabel, fill, horizontal, menu_button, vertical
from viewer.loading.questions import ENDINGS, all_rows, costliest_condition, first_rows, how_many
from viewer.loading.recording_process import asked
from viewer.panels.panel import Panel, tab
from viewer.panels.query.answer import Answer
from viewer.panels.query.editor import Editor
from viewer.panels.query.question_list import WIDTH, QuestionList
from viewer.panels.tables.table_model import Column
from viewer.query.errors import QueryError
from viewer.query.questions import OWN, Question, questions
from viewer.user_data import own_questions
from viewer.user_data.storage import write_pieces

if TYPE_CHECKING:
    import pandas as pd

    from viewer.query.overlay import Overlay
    from viewer.query.result import Result

SLOT, COUNTING = "query", "count questions"
MAX_COUNTED = 1_000_000  # events: of larger recordings a question's rows are counted when it is asked
DESCRIBED = (
    Column("table", "Table"),
    Column("column", "Column"),
    Column("unit", "Unit"),
    Column("about", "Meaning", stretch=True),
)
MIN_LIST, MIN_ANSWER = 200, 160  # pixels: of a question one can tell which it is
LIST_SHARE, TEXT_SHARE = 0.42, 0.38  # of the tab, and of what is left
_INVITATION = "Pick a question on the left or write your own. The answer also appears on the timeline."


@tab
class QueryPanel(Panel):
    """Questions at the left, the text in the middle, the answer at the right."""

    title = "Query"
    order = 107

    def build(self) -> None:
        self.list = QuestionList()
        self.list.chosen.connect(self.ask)
        self.list.removed.connect(self._remove)
        self.editor = Editor()
        self.editor.run_wanted.connect(self.run)
        self.editor.stop_wanted.connect(self.stop)
        self.editor.help_wanted.connect(self.describe)
        self.editor.setContextMenuPolicy(Qt.ContextMenuPolicy.CustomContextMenu)
        self.editor.customContextMenuRequested.connect(self._menu)
        self.answer = Answer()
        self.answer.chosen.connect(self._fly)
        self.answer.keep_wanted.connect(self.keep)
        self.answer.replaced.connect(self._on_table)
        self.answer.say(_INVITATION)
        self._title = ""
        self._result: Result | None = None
        self._kept: tuple[Overlay, ...] = ()
        self._for_reading = False  # whether the answer is to be read next, as nobody typed the question
        self._split = QSplitter(Qt.Orientation.Horizontal)
        for widget in (self.list, self._middle(), self.answer):
            self._split.addWidget(widget)
        self.list.setMinimumWidth(MIN_LIST)
        self.answer.setMinimumWidth(MIN_ANSWER)
        self._split.setChildrenCollapsible(False)
        self._by_user = False  # whether somebody moved what parts them
        self._split.splitterMoved.connect(self._keep_split)
        self.column.addWidget(self._split)
        self.document.trace_changed.connect(self._start_anew)
        self._list_questions()

    def fit(self) -> None:
        """The answer has most of the room: its names need more than the text of a question does."""
        if not self._by_user:
            listed = max(min(WIDTH, round(LIST_SHARE * self.width())), MIN_LIST)
            typed = round(TEXT_SHARE * (self.width() - listed))
            self._split.setSizes([listed, typed, max(self.width() - listed - typed, 0)])

    def _keep_split(self) -> None:
        self._by_user = True

    def _middle(self) -> QWidget:
        self.run_button = QPushButton(key_names("Run   Ctrl+↵"))
        self.run_button.setProperty("primary", True)
        self.run_button.clicked.connect(self._run_or_stop)
        more = menu_button("More ▾")
        self.history = QMenu("Asked before", more.menu())
        more.menu().addMenu(self.history)
        self.history.aboutToShow.connect(self._fill_history)
        for text, explained, slot in (
            ("Tables", "Describes every table and column (F1)", self.describe),
            (
                "Save ...",
                "Saves the question under a title; it is a text file that can be shared",
                self._ask_title,
            ),
            ("Export ...", "Writes all rows of the answer as CSV, JSON or Parquet", self._export),
        ):
            more.menu().addAction(text, slot).setToolTip(explained)
        more.menu().setToolTipsVisible(True)
        self.said = ElidedLabel("", "secondary", pixels=12)
        row = horizontal(margins=(8, 4, 8, 5), spacing=6)
        row.addWidget(self.run_button)
        row.addWidget(more)
        row.addWidget(self.said, 1)
        middle = QWidget()
        fill(vertical(middle, NO_MARGINS, 0), (self.editor, 1), row)
        return middle

    def has_data(self) -> bool:
        return self.document.trace is not None and self.document.analysis is not None

    def refresh(self) -> None:
        self.editor.know(self.document.trace)
        self._count_rows()

    def _start_anew(self, _: object) -> None:
        """Another recording: what was typed stays, answers go."""
        self.document.jobs.forget(COUNTING)
        self.document.jobs.forget(SLOT)
        self._set_running(False)
        self._result, self._kept = None, ()
        self.answer.say(_INVITATION)
        self.said.setText("")
        self._list_questions()
        self.document.show_overlays(())

    def _list_questions(self) -> None:
        own = {
            f"own {title}": Question(f"own {title}", title, OWN, sql)
            for title, sql in own_questions.own_questions().items()
        }
        self.list.show_questions({**questions(), **own})

    def _count_rows(self) -> None:
        """Say at each question how many rows it gives here, or what was not recorded for it."""
        analysis, trace = self.document.analysis, self.document.trace
        if analysis is None or trace is None or len(trace.events) > MAX_COUNTED:
            return

        def work(progress: Progress) -> dict[str, tuple[str, bool]]:
            found = {}
            for index, name in enumerate(questions()):
                progress.step(index / len(questions()), "counting")
                try:
                    told = json.loads(asked(analysis).answer(how_many, progress, name=name))
                    found[name] = told["missing"] or f"{told['rows']:,}", not told["missing"]
                except (QueryError, TraceError) as error:
                    found[name] = error.problem, False
            return found

        def answer(found: dict[str, tuple[str, bool]]) -> None:
            for id, (text, answered) in found.items():
                self.list.say(id, text, answered=answered)

        self.document.jobs.ask(COUNTING, work, answer, in_turn=True)

    def ask(self, question: Question) -> None:
        """Put a question into the editor and answer it; what was typed there stays in the history."""
        typed = self.editor.sql.strip()
        if typed and typed != question.sql:
            own_questions.remember_question(typed)
        self.editor.put(question.sql)
        self.run(question.title)

    def run(self, title: str = "") -> None:
        analysis, sql = self.document.analysis, self.editor.sql
        if analysis is None or not sql.strip():
            return
        self._title = title or _title_of(sql)
        self._for_reading = bool(title)
        self._set_running(True)
        self.said.setText("asking ...")

        def work(progress: Progress) -> tuple[Result, tuple[str, int] | None]:
            from viewer.query.result import unpacked

            process = asked(analysis)
            result = unpacked(process.answer(first_rows, progress, sql=sql))
            if result.rows:
                return result, None
            return result, json.loads(process.answer(costliest_condition, progress, sql=sql))

        own_questions.remember_question(sql.strip())
        self.document.jobs.ask(SLOT, work, self._show, self._fail, self._stopped)

    def stop(self) -> None:
        self.document.jobs.cancel(SLOT)

    def _run_or_stop(self) -> None:
        if self.editor.running:
            self.stop()
        else:
            self.run()

    def _set_running(self, running: bool) -> None:
        self.editor.running = running
        self.run_button.setText("Stop   Esc" if running else key_names("Run   Ctrl+↵"))

    def _show(self, found: tuple[Result, tuple[str, int] | None]) -> None:
        result, condition = found
        self._set_running(False)
        self._result = result
        self.said.setText("")
        if result.rows:
            self.answer.show_result(result)
            if self._for_reading and self.editor.hasFocus() and self.answer.table is not None:
                self.answer.table.setFocus(Qt.FocusReason.OtherFocusReason)
        else:
            without = "" if condition is None else f" Without {condition[0]} there would be {condition[1]:,}."
            self.answer.say(f"No rows.{without}")
        self._show_overlays()

    def _fail(self, error: Exception) -> None:
        self._set_running(False)
        self.said.setText("")
        if not isinstance(error, QueryError | TraceError):
            raise error
        self._result = None
        self.answer.say(f"{error.problem} {error.hint}".strip())
        if isinstance(error, QueryError) and error.place >= 0:
            self.editor.mark_mistake(error.place, len(error.word))
        self._show_overlays()

    def _stopped(self) -> None:
        self._set_running(False)
        self.said.setText("stopped")

    def _overlay(self) -> Overlay | None:
        from viewer.query.overlay import overlay_of

        trace = self.document.trace
        if trace is None or self._result is None:
            return None
        overlay = overlay_of(trace, self._result.frame, self._title, len(self._kept))
        return overlay if len(overlay) else None

    def _show_overlays(self) -> None:
        now = self._overlay()
        self.document.show_overlays((*self._kept, *(() if now is None else (now,))))

    def keep(self) -> None:
        """Let the lane of this answer stay beside those of later ones."""
        now = self._overlay()
        if now is not None:
            self._kept = (*self._kept, now)
            self.said.setText(f"kept as lane Query {now.number + 1}")
            self._result = None
            self._show_overlays()

    def _fly(self, row: int) -> None:
        from viewer.query.overlay import places_of_rows
        from viewer.statistics.budget_intervals import gpu_lane_of

        trace, result = self.document.trace, self._result
        if trace is None or result is None or not 0 <= row < len(result.frame):
            return
        one = result.frame.iloc[row : row + 1]
        start, end, event = (int(column[0]) for column in places_of_rows(trace, one))
        if event >= 0:
            lane, name = int(trace.events.lane[event]), trace.name(event)
            self.document.show_evidence([Evidence(lane, start, end, name, event)])
        elif start >= 0:
            self.document.show_evidence([Evidence(max(gpu_lane_of(trace, 0), 0), start, end, self._title)])

    def _on_table(self) -> None:
        self.tables = (self.answer.table,) if self.answer.table is not None else ()
        self.tables_shown.emit()

    def describe(self) -> None:
        """Every table and column with its meaning, those of the question first."""
        import pandas as pd

        from viewer.query.completion import columns_of, table_names

        words = set(self.editor.sql.lower().replace(",", " ").split())
        rows = []
        for name, about in sorted(table_names().items(), key=lambda item: item[0] not in words):
            rows.append((name, "", "", about))
            rows += [(name, column.name, column.unit, column.about) for column in columns_of(name)]
        frame: pd.DataFrame = pd.DataFrame(rows, columns=[column.key for column in DESCRIBED], dtype=object)
        self._result = None
        self.answer.show_frame(DESCRIBED, frame, f"{len(table_names())} tables and views")

    def _fill_history(self) -> None:
        self.history.clear()
        for sql in own_questions.asked_lately():
            action = QAction(" ".join(sql.split())[:90].replace("&", "&&"), self.history)
            action.triggered.connect(lambda _=False, sql=sql: self.editor.put(sql))
            self.history.addAction(action)
        if self.history.isEmpty():
            self.history.addAction("Nothing was asked yet").setEnabled(False)

    def _ask_title(self) -> None:
        if not self.editor.sql.strip():
            return
        dialog = QInputDialog(self)
        dialog.setWindowTitle("Save as a question")
        dialog.setLabelText("Title")
        dialog.setTextValue(_title_of(self.editor.sql))
        dialog.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        dialog.textValueSelected.connect(self.save)
        dialog.open()

    def save(self, title: str) -> None:
        """Keep what is typed as a question of one's own."""
        try:
            kept = own_questions.save_question(title, self.editor.sql)
        except OSError as error:
            self.said.setText(f"It could not be saved: {error.strerror or error}.")
            return
        self.said.setText(f"saved as {kept}")
        self._list_questions()
        self._count_rows()

    def _remove(self, title: str) -> None:
        own_questions.remove_question(title)
        self._list_questions()
        self._count_rows()

    def _export(self) -> None:
        name, _ = QFileDialog.getSaveFileName(
            self, "Export all rows", "answer.csv", "CSV (*.csv);;JSON (*.json);;Parquet (*.parquet)"
        )
        if name:
            self.export_to(Path(name))

    def export_to(self, out: Path) -> None:
        """Write all rows of what is typed; the ending of the file says how."""
        analysis, sql = self.document.analysis, self.editor.sql
        if analysis is None or not sql.strip():
            return

        if out.suffix.lower() not in ENDINGS:
            self.said.setText(f"The ending of the file says its format: use {', '.join(ENDINGS)}.")
            return

        def work(progress: Progress) -> str:
            try:
                pieces = asked(analysis).pieces(all_rows, progress, sql=sql, ending=out.suffix.lower())
                write_pieces(out, pieces)
            except OSError as error:
                return f"{out.name} could not be written: {error.strerror or error}"
            return f"All rows are in {out.name}"

        self._set_running(True)

        def done(text: str) -> None:
            self._set_running(False)
            self.said.setText(text)

        self.document.jobs.ask(SLOT, work, done, self._fail, self._stopped)

    def _menu(self, where: QPoint) -> None:
        """The usual menu, and what is selected on the timeline as conditions."""
        menu = self.editor.createStandardContextMenu()
        menu.addSeparator()
        for text, condition in self.conditions():
            action = menu.addAction(text)
            action.triggered.connect(lambda _=False, text=condition: self.editor.insertPlainText(text))
        menu.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        menu.popup(self.editor.viewport().mapToGlobal(where))

    def conditions(self) -> list[tuple[str, str]]:
        """What is selected on the timeline, as conditions of a question: its time, its lane, its name."""
        trace, area, event = self.document.trace, self.document.area, self.document.selected_event
        found = []
        if area is not None:
            inside = f"start_ns >= {area.start} AND start_ns < {area.end}"
            found.append(("Insert the selected time as a condition", inside))
            if area.lanes:
                lanes = ", ".join(map(str, area.lanes))
                found.append(("Insert the selected lanes as a condition", f"lane IN ({lanes})"))
        if trace is not None and event >= 0:
            name = trace.name(event).replace("'", "''")
            found.append(("Insert the name of the selected event as a condition", f"name = '{name}'"))
            found.append(
                ("Insert the lane of the selected event as a condition", f"lane = {trace.events.lane[event]}")
            )
        return found


def _title_of(sql: str) -> str:
    """The remark in the first line, otherwise the first words."""
    first = sql.strip().splitlines()[0] if sql.strip() else ""
    return first.removeprefix("--").strip()[:60] if first.startswith("--") else " ".join(sql.split())[:40]
