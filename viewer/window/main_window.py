"""The main window: puts the toolbar, the verdict, the timeline and the panels together."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from PySide6.QtCore import Qt, Signal
from PySide6.QtGui import (
    QCloseEvent,
    QDragEnterEvent,
    QDragLeaveEvent,
    QDragMoveEvent,
    QDropEvent,
    QMouseEvent,
    QResizeEvent,
    QShowEvent,
)
from PySide6.QtWidgets import QApplication, QMainWindow, QMenuBar, QStackedWidget, QTabWidget, QWidget

from parsers.files.fetched import address_of
from parsers.model import Progress, Trace
from viewer.appearance.home_focus import HomeFocus
from viewer.appearance.tab_order import TabOrder
from viewer.appearance.widgets import NO_MARGINS, HorizontalLine, vertical
from viewer.desktop.jobs import Jobs
from viewer.documents.document import Document, Stage
from viewer.documents.what_if import WhatIf
from viewer.panels.dock import BottomPanels
from viewer.panels.findings.diagnosis import DiagnosisPanel
from viewer.panels.fixes.what_if import WhatIfPanel
from viewer.panels.ranks.views import RankViews
from viewer.panels.tabs.bookmarks import BookmarksPanel
from viewer.start.start_page import StartPage
from viewer.timeline.view import TimelineView
from viewer.user_data.preferences import Preferences
from viewer.user_data.recent import OpenNote, Summary, remember
from viewer.user_data.storage import SessionError
from viewer.window.actions import WindowActions
from viewer.window.banner import Banner
from viewer.window.command_list import window_commands
from viewer.window.commands import Commands
from viewer.window.docks import Docks
from viewer.window.drop_targets import DropTargets, local_files
from viewer.window.lanes_above import PanelLanes, PredictedLanes
from viewer.window.opening_lines import SourceLines
from viewer.window.parts import Parts
from viewer.window.prediction_strip import PredictionStrip
from viewer.window.searching import Searching
from viewer.window.status import StatusBar
from viewer.window.timeline_link import TimelineLink
from viewer.window.toolbar import ToolBar
from viewer.window.trials import WindowTrials
from viewer.window.verdict import VerdictStrip

if TYPE_CHECKING:
    from rules import Diagnosis
    from rules.analysis.analysis import Analysis
    from viewer.panels.kernel.kernel_report import KernelReport

FIRST_SIZE = (1440, 900)
MIN_SIZE = (720, 480)
SUMMARISING = "summarise"
ARRANGED_BY_HAND = ("pinned", "hidden", "heights", "order")


class MainWindow(QMainWindow):
    """One recording and everything around it."""

    new_window_wanted = Signal()
    open_beside_wanted = Signal(object)  # paths to open in a window of their own
    closed = Signal(object)

    def __init__(self, preferences: Preferences | None = None) -> None:
        super().__init__()
        self.preferences = preferences or Preferences()
        self.setWindowTitle("Stallscope")
        self.setAcceptDrops(True)
        self.setMinimumSize(*MIN_SIZE)
        self.resize(*FIRST_SIZE)
        self._note = OpenNote()
        self._with_map: object = None  # the run of many ranks whose map is shown
        self.jobs = Jobs(self)
        self.document = Document(self.jobs, self)
        self.document.use_thresholds(self.preferences.thresholds)
        # Each part is made inside its place: moved there later, it and all in it would be styled once more.
        top = QWidget(self)
        self.setMenuWidget(top)
        self.menu_bar = QMenuBar(top)
        self.toolbar = ToolBar(self.document, self, top)
        self.verdict = VerdictStrip(self.document, top)
        self.verdict.set_price(self.preferences.cost_per_hour)
        self.what_if = WhatIf(self.document)
        self.prediction = PredictionStrip(self.what_if, top)
        self._fill_top(top)
        middle = QWidget(self)
        self.setCentralWidget(middle)
        self._middle = column = vertical(middle, NO_MARGINS, 0)
        self.banner = Banner(middle)
        column.addWidget(self.banner)
        self.pages = QStackedWidget()
        self.side = QTabWidget()
        self.ranks = RankViews(self.document, self.pages, self.side, self)
        column.addWidget(self.ranks.area, 1)
        self.start_page = StartPage(self.pages)
        self.pages.addWidget(self.start_page)
        self.timeline = TimelineView(self.pages, jobs=self.jobs, selection=self.document.selection)
        self.pages.addWidget(self.timeline)
        self.kernel_report: KernelReport | None = None
        self.diagnosis = DiagnosisPanel(self.document)
        self.fixes = WhatIfPanel(self.what_if, self)
        self.side.setDocumentMode(True)
        self.side.tabBar().setAccessibleName("Diagnosis and fixes")
        self.side.addTab(self.diagnosis, "Diagnosis")
        self.side.tabBar().hide()
        self.bookmarks = BookmarksPanel(self.document)
        self.panels = BottomPanels(self.document, (self.bookmarks,))
        self.docks = Docks(self, self.preferences, self.side, self.panels, self.timeline)
        self.diagnosis_dock, self.panels_dock = self.docks.diagnosis, self.docks.panels
        self.status = StatusBar(self.document)
        self.setStatusBar(self.status)
        self.link = TimelineLink(self.document, self.timeline, self.status, self.preferences)
        self.searching = Searching(
            self.toolbar.search,
            self.document,
            self.link.show_lane,
            self.link.start_of_view,
            self.panels,
            self.banner.say,
        )
        self.home = HomeFocus(self, self.pages.currentWidget)
        self.drops = DropTargets(self.document, self)
        self.predicted = PredictedLanes(self.what_if, self.timeline, self.link)
        self.panel_lanes = PanelLanes(self.document, self.timeline)
        parts = Parts(
            window=self,
            preferences=self.preferences,
            document=self.document,
            toolbar=self.toolbar,
            banner=self.banner,
            verdict=self.verdict,
            timeline=self.timeline,
            start_page=self.start_page,
            diagnosis=self.diagnosis,
            fixes=self.fixes,
            side=self.side,
            bookmarks=self.bookmarks,
            panels=self.panels,
            diagnosis_dock=self.diagnosis_dock,
            panels_dock=self.panels_dock,
            link=self.link,
            searching=self.searching,
            home=self.home,
            predicted=self.predicted,
        )
        self.acts = WindowActions(parts)
        self.trials = WindowTrials(parts, self.what_if, self.acts.recording)
        self.commands = self.searching.commands = Commands(
            self, self.menu_bar, window_commands(parts, self.acts)
        )
        self.acts.fill_menus(self.commands)
        self.tab_order = TabOrder(self)
        self._connect()
        self.docks.restore()
        self._show_pages()

    def _fill_top(self, top: QWidget) -> None:
        column = vertical(top, NO_MARGINS, 0)
        for widget in (
            self.menu_bar,
            self.toolbar,
            HorizontalLine(),
            self.verdict,
            self.prediction,
            HorizontalLine(),
        ):
            column.addWidget(widget)

    def _connect(self) -> None:
        document, acts = self.document, self.acts
        for source in (self.toolbar, self.start_page):
            source.open_wanted.connect(acts.open_files)
            source.record_wanted.connect(acts.recording.record)
        acts.open_wanted.connect(self.open)
        acts.recording.open_beside_wanted.connect(self.open_beside_wanted)
        self.drops.open_here_wanted.connect(self.open)
        self.drops.open_wanted.connect(self.open_beside_wanted)
        self.drops.join_wanted.connect(lambda paths: self.open([*document.paths, *paths]))
        self.drops.compare_wanted.connect(acts.compare_with)
        acts.new_window_wanted.connect(self.new_window_wanted)
        acts.layout_wanted.connect(self.reset_layout)
        self.toolbar.compare_wanted.connect(acts.offer_comparison)
        self.timeline.copy_wanted.connect(acts.copy_selection)
        self.toolbar.search.left.connect(self.home.go)
        self.toolbar.steps.box.activated.connect(lambda _: self.home.go())
        self.start_page.folder_wanted.connect(acts.open_folder)
        self.start_page.paths_wanted.connect(self.open)
        self.start_page.recent_removed.connect(acts.fill_recent)
        self.status.quality_wanted.connect(acts.show_quality)
        self.bookmarks.changed.connect(lambda: self.panels.update_tabs())
        self.bookmarks.changed.connect(lambda: self.timeline.state.set_bookmarks(self.bookmarks.bookmarks))
        self.bookmarks.written.connect(self.home.go)
        self.bookmarks.failed.connect(
            lambda problem: self.banner.say(problem, "The recording itself is not affected.")
        )
        self.timeline.ready.connect(self._restore_arrangement)
        self.timeline.rank_followed.connect(self.toolbar.steps.follow)
        self.what_if.plan_changed.connect(self._show_fixes)
        document.diagnosis_changed.connect(lambda _: self._show_fixes())
        self.what_if.predicted.connect(self._swap_verdict)
        self.verdict.pointed_at.connect(self.timeline.overview.light)
        document.finding_changed.connect(lambda _: self.side.setCurrentWidget(self.diagnosis))
        document.failed.connect(self._on_failure)
        document.stage_changed.connect(lambda _: self._show_pages())
        document.request_lanes_changed.connect(self.docks.fit_height)
        self.panels.fill_wanted.connect(lambda: self.docks.fill(not self.docks.filled))
        document.trace_changed.connect(lambda _: self.docks.fill(False))
        # the headline grows
        document.plan_changed.connect(self.docks.fit_height, Qt.ConnectionType.QueuedConnection)
        document.trace_changed.connect(lambda _: self._on_trace())
        document.trace_changed.connect(lambda _: self._show_heading())
        document.diagnosis_changed.connect(self._on_diagnosis)
        document.recording_wanted.connect(self.acts.recording.record)
        document.ticket_wanted.connect(self.acts.export_ticket)
        document.question_wanted.connect(self.acts.ask)
        self.source_lines = SourceLines(document, self.preferences, self.banner.say)
        self.diagnosis.text_around = self.source_lines.text_around
        document.event_changed.connect(lambda event: self._show_selection(event >= 0))
        document.gap_changed.connect(lambda row: self._show_selection(row >= 0))
        document.area_changed.connect(lambda area: self._show_selection(area is not None))

    def open(self, paths: Sequence[Path], at: int | None = None) -> None:
        """Open files as one run; ``at`` is a moment to show (ns from the start)."""
        if not paths:
            return
        from viewer.user_data.session import is_session

        self._keep_arrangement()
        self.banner.hide()
        self.link.wanted_moment = at
        if len(paths) == 1 and is_session(paths[0]):
            self._open_session(paths[0])
        else:
            self.document.open(paths)

    def show_offer(self, offer: QWidget) -> None:
        self._middle.insertWidget(0, offer)

    def _swap_verdict(self, prediction: object) -> None:
        """What is predicted stands where the verdict is while fixes are ticked."""
        self.verdict.setVisible(prediction is None and self.document.trace is not None)

    def _keep_height(self) -> None:
        """Both strips are equally high, so that nothing moves under the mouse that ticks a fix."""
        fixes = self.fixes.has_data()
        height = max(self.verdict.sizeHint().height(), self.prediction.sizeHint().height()) if fixes else 0
        self.verdict.setMinimumHeight(height)
        self.prediction.setFixedHeight(max(height, self.prediction.minimumSizeHint().height()))

    def _show_fixes(self) -> None:
        here = self.side.indexOf(self.fixes)
        if self.fixes.has_data() and here < 0:
            self.side.addTab(self.fixes, "What if")
        elif not self.fixes.has_data() and here >= 0:
            self.side.removeTab(here)
        self._show_heading()
        self._keep_height()

    def _show_heading(self) -> None:
        """A tab says what a heading would."""
        several = self.side.count() > 1
        self.side.tabBar().setVisible(several)
        self.diagnosis.heading.setVisible(not several)

    def _keep_arrangement(self) -> None:
        arrangement = self.timeline.arrangement() if self.document.trace is not None else {}
        session = self.bookmarks.session
        if session is not None and any(arrangement.get(part) for part in ARRANGED_BY_HAND):
            try:
                session.keep("lanes", arrangement)
            except SessionError as error:
                self.banner.say(str(error), "The lane arrangement was not saved.")

    def _restore_arrangement(self) -> None:
        session = self.bookmarks.session
        kept = session.kept("lanes") if session is not None else {}
        if kept:
            self.timeline.set_arrangement(kept)

    def _open_session(self, path: Path) -> None:
        from viewer.user_data.session import Session

        try:
            session = Session(path)
            recordings = session.recordings
        except SessionError as error:
            self.banner.say(str(error), "Open the recording itself.")
            return
        missing = next((each for each in recordings if not (each.exists() or address_of(each))), None)
        if missing is not None:
            self.banner.say(f"{missing} no longer exists.", f"{path.name} belongs to it.")
            return
        self.bookmarks.use(session)
        self.document.open(recordings)

    def _show_selection(self, something: bool) -> None:
        focus = QApplication.focusWidget()
        in_a_table = focus is not None and self.panels.isAncestorOf(focus)
        if something and not in_a_table:
            self.panels.show_panel("Selection")

    def _on_trace(self) -> None:
        paths = self.document.paths
        more = f" and {len(paths) - 1} more" if len(paths) > 1 else ""
        self.setWindowTitle(f"{paths[0].name}{more} - Stallscope" if paths else "Stallscope")
        if paths and self.preferences.keep_recent:
            self._note.write(paths)
        else:
            self._note.remove()
        self._show_pages()
        self.acts.tell_left_out()
        if (page := self.pages.currentWidget()) is not None:
            page.setFocus()

    def _show_pages(self) -> None:
        trace = self.document.trace
        has_trace = trace is not None
        report = has_trace and self._is_kernel_report(trace)
        if report:
            self.pages.setCurrentWidget(self._kernel_report())
        else:
            self.pages.setCurrentWidget(self.timeline if has_trace else self.start_page)
        of_results = trace is not None and trace.is_of_results
        self.pages.setHidden(of_results)
        self.diagnosis_dock.setVisible(has_trace and not of_results)
        if self.document.many is None:
            self.panels_dock.setVisible(has_trace and not report)
        elif self.document.many.facts is not self._with_map:
            self.panels_dock.hide()  # the map needs the room; F7 shows them
        self.docks.give_room(of_results)
        self.docks.fit_height()
        self._with_map = self.document.many.facts if self.document.many is not None else None
        self.commands.set_trace_open(has_trace)
        for compare in (self.toolbar.compare, self.commands["compare"]):
            compare.setEnabled(has_trace and not self.document.preview)

    @staticmethod
    def _is_kernel_report(trace: Trace | None) -> bool:
        return trace is not None and bool(trace.kernels) and not len(trace.events)

    def _kernel_report(self) -> QWidget:
        if self.kernel_report is None:
            from viewer.panels.kernel.kernel_report import KernelReport

            self.kernel_report = KernelReport(self.document)
            self.pages.addWidget(self.kernel_report)
        return self.kernel_report

    def _on_diagnosis(self, diagnosis: Diagnosis) -> None:
        from rules.verdict.verdict import verdict

        analysis = self.document.analysis
        if analysis is not None and self.document.paths and self.preferences.keep_recent:
            self._remember(analysis, verdict(analysis, diagnosis))

    def _remember(self, analysis: Analysis, said: str) -> None:
        """Put the recording on the list of recent files, and its small picture as soon as that is made."""
        paths = self.document.paths
        remember(paths, said)
        self.acts.fill_recent()

        def summarise(_: Progress) -> Summary:
            from viewer.statistics.run_summary import summarise

            return summarise(analysis)

        self.jobs.ask(
            SUMMARISING, summarise, answer=lambda summary: remember(paths, said, summary), in_turn=True
        )

    def _on_failure(self, problem: str, hint: str) -> None:
        self.banner.say(problem, hint)
        self._show_pages()

    def mousePressEvent(self, event: QMouseEvent) -> None:
        self.home.go()
        super().mousePressEvent(event)

    def focusNextPrevChild(self, forward: bool) -> bool:
        shown = self.pages.currentWidget()
        sections = (self.toolbar, self.banner, self.verdict, shown, self.side, self.panels, self.status)
        return self.tab_order.step([each for each in sections if each is not None], forward)

    def dragEnterEvent(self, event: QDragEnterEvent) -> None:
        if paths := local_files(event.mimeData()):
            self.drops.begin(paths)
            event.acceptProposedAction()

    def dragMoveEvent(self, event: QDragMoveEvent) -> None:
        self.drops.move_to(event.position())
        event.acceptProposedAction()

    def dragLeaveEvent(self, _: QDragLeaveEvent) -> None:
        self.drops.hide()

    def dropEvent(self, event: QDropEvent) -> None:
        self.drops.drop(local_files(event.mimeData()), event.position())

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self._keep_height()
        self.docks.fit_width()
        self.docks.fit_height()

    def reset_layout(self) -> None:
        self.docks.forget()
        self._show_pages()
        self.docks.reset_sizes()

    def showEvent(self, event: QShowEvent) -> None:
        super().showEvent(event)
        self.docks.fit_first_screen()

    def closeEvent(self, event: QCloseEvent) -> None:
        self._note.remove()
        self._keep_arrangement()
        if self.document.stage is not Stage.EMPTY and self.document.trace is not None:
            self.docks.keep()
        self.trials.end_now()
        self.jobs.close()
        super().closeEvent(event)
        self.closed.emit(self)
