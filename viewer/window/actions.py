"""What the commands of a window do."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from PySide6.QtCore import QBuffer, QObject, QPoint, Qt, Signal
from PySide6.QtGui import QActionGroup, QGuiApplication, QPainter
from PySide6.QtWidgets import QApplication, QDialog, QFileDialog, QInputDialog, QLineEdit, QMenu

from parsers.model.units import duration, parse_duration
from parsers.ranks.rank_choice import LEFT_OUT
from viewer.appearance import theme
from viewer.appearance.widgets import tooltip
from viewer.desktop.file_types import file_filter
from viewer.dialogs.open_address import OpenAddress
from viewer.start.opening import samples
from viewer.user_data.preferences import COLOR_MODES, THEMES
from viewer.user_data.recent import recent_files
from viewer.user_data.storage import is_written
from viewer.window.commands import Commands
from viewer.window.palette import Mode
from viewer.window.recording import WindowRecording

if TYPE_CHECKING:
    from PySide6.QtWidgets import QWidget

    from rules import Finding
    from viewer.dialogs.page_dialog import Keys
    from viewer.query.questions import Question
    from viewer.window.parts import Parts

MAX_OFFERED = 6  # recordings that were opened before


class WindowActions(QObject):
    """Bound to the parts of one window."""

    open_wanted = Signal(object)  # list of Path
    new_window_wanted = Signal()
    layout_wanted = Signal()  # the designed one

    def __init__(self, parts: Parts) -> None:
        super().__init__(parts.window)
        self._parts = parts
        self._commands: Commands | None = None
        self.recording = WindowRecording(parts)
        self.recording.open_wanted.connect(self.open_wanted)
        parts.document.keys_wanted.connect(self.show_keys)

    def fill_menus(self, commands: Commands) -> None:
        """Add what is no plain command: recent files, samples, themes, colours."""
        self._commands = commands
        file_menu = commands.menus["File"]
        self._recent = QMenu("Open recent", file_menu)
        file_menu.insertMenu(commands["record"], self._recent)
        sample_menu = QMenu("Try a sample", file_menu)
        file_menu.insertMenu(commands["record"], sample_menu)
        for sample in samples():
            action = sample_menu.addAction(sample.title)
            action.triggered.connect(lambda _=False, path=sample.path: self.open_wanted.emit([path]))
        self.fill_recent()
        view = commands.menus["View"]
        view.addSeparator()
        self._choices(view.addMenu("Theme"), THEMES, self._parts.preferences.theme, self.set_theme)
        self._choices(
            view.addMenu("Colour by"), COLOR_MODES, self._parts.preferences.color_mode, self.set_color_mode
        )
        self.set_color_mode(self._parts.preferences.color_mode)

    def _choices(self, menu: QMenu, options: dict[str, str], current: str, choose: object) -> None:
        group = QActionGroup(menu)
        for key, text in options.items():
            action = menu.addAction(text)
            action.setCheckable(True)
            action.setChecked(key == current)
            action.setData(key)
            group.addAction(action)
        group.triggered.connect(lambda action: choose(str(action.data())))  # type: ignore[operator]

    def fill_recent(self) -> None:
        self._recent.clear()
        known = recent_files()
        for recent in known:
            action = self._recent.addAction(recent.name.replace("&", "&&"))
            action.setToolTip(tooltip(recent.name))
            action.setEnabled(recent.exists)
            paths = [Path(path) for path in recent.paths]
            action.triggered.connect(lambda _=False, paths=paths: self.open_wanted.emit(paths))
        self._recent.setEnabled(bool(known))

    def open_files(self) -> None:
        """Ask for files; several are ranks of one run."""
        self.open_wanted.emit(self._ask_for_files("Open recordings of one run"))

    def _ask_for_files(self, title: str) -> list[Path]:
        without_endings = QFileDialog.Option.HideNameFilterDetails  # there are dozens
        names, _ = QFileDialog.getOpenFileNames(
            self._parts.window, title, self._folder(), file_filter(), "", without_endings
        )
        return [Path(name) for name in names]

    def open_folder(self) -> None:
        name = QFileDialog.getExistingDirectory(self._parts.window, "Open a folder of ranks", self._folder())
        if name:
            self.open_wanted.emit([Path(name)])

    def open_address(self) -> None:
        dialog = OpenAddress(self._parts.window)
        dialog.open_wanted.connect(self.open_wanted.emit)
        self._show(dialog)

    def _folder(self) -> str:
        paths = self._parts.document.paths
        known = recent_files()
        return str(paths[0].parent) if paths else known[0].folder if known else ""

    def copy_selection(self) -> None:
        from viewer.panels.tabs.selection import SelectionPanel

        for panel in self._parts.panels.panels:
            if isinstance(panel, SelectionPanel) and panel.text:
                QGuiApplication.clipboard().setText(panel.text)

    def offer_comparison(self) -> None:
        """What the open recording may be compared with: a file, what was opened before; a sample with another one."""
        menu = QMenu(self._parts.window)
        menu.addAction("Another file ...", self.compare)
        opened = {str(path) for path in self._parts.document.paths}
        known_samples = {str(each.path) for each in samples()}
        others = [each for each in samples() if opened & known_samples and str(each.path) not in opened]
        listed = opened | known_samples
        known = [each for each in recent_files() if each.exists and not listed & set(map(str, each.paths))]
        offered = [(each.name, [Path(path) for path in each.paths]) for each in known[:MAX_OFFERED]]
        for heading, choices in (
            ("Opened before", offered),
            ("Samples", [(each.title, [each.path]) for each in others]),
        ):
            if choices:
                menu.addSection(heading)
            for name, paths in choices:
                action = menu.addAction(name.replace("&", "&&"))
                action.triggered.connect(lambda _=False, paths=paths: self.compare_with(paths))
        button = self._parts.toolbar.compare
        menu.popup(button.mapToGlobal(button.rect().bottomLeft()))

    def compare(self) -> None:
        """Ask for another recording and say what changed."""
        if paths := self._ask_for_files("Compare with"):
            self.compare_with(paths)

    def compare_with(self, paths: Sequence[Path]) -> None:
        """Say what changed from what is open to this recording."""
        from viewer.comparison.window import compare_with

        compare_with(self._parts.document, list(paths), self._parts.window)

    def tell_left_out(self) -> None:
        """Say which of the opened files are not shown and why; of two recordings, offer to compare them."""
        document, banner = self._parts.document, self._parts.banner
        trace = document.trace
        if trace is None or document.preview:
            return
        note = next((each for each in trace.quality.notes if each.kind == LEFT_OUT), None)
        if note is None:
            return
        left = list(document.left_out)
        if len(document.paths) == 2 and len(left) == note.count == 1:
            banner.say(f"{left[0].name} is not shown: {note.example.rpartition(': ')[2]}.")
            banner.offer("Compare the two", lambda: self.compare_with(left))
        else:
            files = f"{note.count:,} file{'s are' if note.count != 1 else ' is'}"
            banner.say(f"{files} not shown, because they belong to another run.", note.example)

    def search(self, mode: Mode) -> None:
        self._parts.toolbar.search.start(mode)

    def go_to_time(self) -> None:
        text, accepted = QInputDialog.getText(
            self._parts.window, "Go to time", "Time from the start, such as 31.2ms", QLineEdit.EchoMode.Normal
        )
        when = parse_duration(text) if accepted else None
        if when is not None:
            self._parts.link.show_moment(when)
        elif accepted and text.strip():
            self._parts.banner.say(f"{text!r} is not a time.", "Use a format such as 31.2ms or 1.5 s.")

    def deselect(self) -> None:
        """Back to the timeline; who is there already selects nothing and clears the marks."""
        self._parts.banner.hide()
        if self._parts.home.is_elsewhere:
            self._parts.home.go()
            return
        self._parts.timeline.clear_selection()
        self._parts.document.selection.select_area(None)
        self._parts.document.selection.select_gap(-1)
        self._parts.document.select_event(-1)

    def toggle(self, dock: object) -> None:
        dock.setVisible(not dock.isVisible())  # type: ignore[attr-defined]

    def set_theme(self, name: str) -> None:
        self._parts.preferences.theme = name
        application = QApplication.instance()
        if isinstance(application, QApplication):
            theme.apply(application, name)

    def set_color_mode(self, mode: str) -> None:
        self._parts.preferences.color_mode = mode
        self._parts.timeline.set_colour_mode(mode)

    def export_picture(self) -> None:
        """Ask for a file and write the window as PNG, or the timeline as SVG."""
        kinds = "Window as PNG (*.png);;Timeline as SVG (*.svg)"
        name, kind = QFileDialog.getSaveFileName(
            self._parts.window, "Export picture", f"{self._recording_name()}.png", kinds
        )
        if name:
            self.write_picture(Path(name), as_svg="SVG" in kind or name.lower().endswith(".svg"))

    def write_picture(self, path: Path, *, as_svg: bool) -> bool:
        """Write the window as PNG or the timeline as SVG; says so and returns False when that failed."""
        drawn = QBuffer()
        drawn.open(QBuffer.OpenModeFlag.WriteOnly)
        if as_svg:
            self._draw_svg(drawn)
        else:
            self._parts.window.grab().save(drawn, "PNG")
        return self._write(path, bytes(drawn.data().data()))

    def _write(self, path: Path, data: bytes) -> bool:
        banner = self._parts.banner
        done = is_written(path, data, lambda problem: banner.say(problem, "Choose another location."))
        if done:
            banner.told_written(path)
        return done

    def _draw_svg(self, target: QBuffer) -> None:
        from PySide6.QtSvg import QSvgGenerator

        timeline = self._parts.timeline
        generator = QSvgGenerator()
        generator.setOutputDevice(target)
        generator.setSize(timeline.size())
        generator.setViewBox(timeline.rect())
        painter = QPainter(generator)
        timeline.render(painter, QPoint(0, 0))
        painter.end()

    def export_ticket(self, finding: Finding | None = None) -> None:
        """Ask for a file and write a finding as a ticket, with a picture of the timeline beside it."""
        document = self._parts.document
        diagnosis = document.diagnosis
        finding = finding or document.finding or (next(iter(diagnosis.findings), None) if diagnosis else None)
        if finding is None:
            return
        offered = f"{self._recording_name()}-{finding.rule}.md"
        name, _ = QFileDialog.getSaveFileName(
            self._parts.window, "Export the finding as a ticket", offered, "Markdown (*.md)"
        )
        if name:
            self.write_ticket(Path(name if name.endswith(".md") else f"{name}.md"), finding)

    def write_ticket(self, path: Path, finding: Finding) -> None:
        """Write the ticket and ``path`` with another ending, the picture; says so, or that it failed."""
        from viewer.reports.finding_ticket import command_at, finding_ticket

        document, picture = self._parts.document, path.with_suffix(".png")
        assert document.trace is not None
        places = finding.evidence
        longest = max(places, key=lambda place: place.end - place.start, default=None)
        moment = (longest.start + longest.end) / 2 if longest else self._parts.link.middle_of_view()
        text = finding_ticket(
            document.trace,
            document.told(finding),
            document.plan,
            picture=picture.name,
            command=command_at([Path(each.name) for each in document.paths], moment),
            notes=self._notes(),
        )
        if self.write_picture(picture, as_svg=False):
            self._write(path, text.encode())

    def export_report(self) -> None:
        """Ask for a file and write the diagnosis as a page, as PDF or as Markdown."""
        from viewer.dialogs.report_export import ask_for_report
        from viewer.reports.report_files import diagnosis_files

        document = self._parts.document
        trace, diagnosis, analysis = document.trace, document.diagnosis, document.analysis
        if trace is not None and diagnosis is not None and analysis is not None:
            banner = self._parts.banner
            ask_for_report(
                diagnosis_files(trace, diagnosis, analysis, notes=self._notes()),
                f"{self._recording_name()}-diagnosis",
                document.jobs,
                self._parts.window,
                banner.say,
                banner.told_written,
            )

    def _recording_name(self) -> str:
        """The name of what is open without the endings of its format."""
        paths = self._parts.document.paths
        return paths[0].name.split(".")[0] if paths and paths[0].name.split(".")[0] else "stallscope"

    def _notes(self) -> list[str]:
        marks = self._parts.bookmarks.bookmarks
        return [
            f"{mark.title}, at {duration(mark.start)} for {duration(mark.end - mark.start)}"
            + (f": {mark.note}" if mark.note else "")
            for mark in marks
        ]

    def export_table(self) -> None:
        self._parts.panels.export_table()

    def ask(self, question: Question | None = None) -> None:
        from viewer.panels.tabs.query import QueryPanel

        self._parts.panels_dock.show()
        self._parts.panels.show_panel("Query")
        panel = self._parts.panels.tabs.currentWidget()
        if isinstance(panel, QueryPanel):
            panel.editor.setFocus(Qt.FocusReason.ShortcutFocusReason)
            if question is not None:
                panel.ask(question)

    def open_line(self) -> None:
        """Open the line of the current finding, or of the headline's, in the editor."""
        from rules.verdict.verdict import first_problem

        document = self._parts.document
        told = (first_problem(document.diagnosis), *document.diagnosis.findings) if document.diagnosis else ()
        finding = next((each for each in (document.finding, *told) if each is not None), None)
        if finding is None or finding.at is None:
            self._parts.banner.say(
                "This finding names no line of your code.",
                "Record with Stallscope, or with stacks, to learn the lines.",
            )
            return
        document.line_wanted.emit(finding.at)

    def bookmark(self) -> None:
        self._parts.bookmarks.add(self._parts.timeline.visible_interval)
        self._parts.panels_dock.show()
        self._parts.panels_dock.raise_()  # in a narrow window the diagnosis lies before it
        self._parts.panels.filter.clear()
        self._parts.panels.show_panel("Bookmarks")
        self._parts.bookmarks.note_the_new_one()

    def save_session(self) -> None:
        """Ask for a place and go on keeping bookmarks and notes there."""
        from viewer.user_data.session import SUFFIX, SessionError

        session = self._parts.bookmarks.session
        if session is None:
            return
        kinds = f"Stallscope session (*{SUFFIX})"
        name, _ = QFileDialog.getSaveFileName(
            self._parts.window, "Save bookmarks and notes", f"notes{SUFFIX}", kinds
        )
        if name:
            try:
                self._parts.bookmarks.use(session.copy_to(Path(name)))
            except SessionError as error:
                self._parts.banner.say(str(error), "Choose another location.")

    def copy_link(self) -> None:
        """Put the command that shows this moment on the clipboard."""
        from viewer.reports.finding_ticket import command_at

        moment = self._parts.link.middle_of_view()
        QGuiApplication.clipboard().setText(command_at(self._parts.document.paths, moment))

    def copy_diagnosis(self) -> None:
        from viewer.reports.text_report import as_text

        document = self._parts.document
        if document.trace is not None and document.diagnosis is not None and document.analysis is not None:
            QGuiApplication.clipboard().setText(
                as_text(document.trace, document.diagnosis, document.analysis)
            )

    def show_fixes(self) -> None:
        """Bring the fixes forward, with the keyboard on the first of them."""
        fixes, side = self._parts.fixes, self._parts.side
        if side.indexOf(fixes) >= 0:
            self._parts.diagnosis_dock.show()
            self._parts.diagnosis_dock.raise_()
            side.setCurrentWidget(fixes)
            fixes.enter()
        else:
            self._parts.banner.say("What fixes would give is not known.", fixes.lacks)

    def copy_picture(self) -> None:
        QGuiApplication.clipboard().setPixmap(self._parts.window.grab())

    def show_preferences(self) -> None:
        from viewer.dialogs.preferences_dialog import PreferencesDialog

        dialog = PreferencesDialog(self._parts.preferences, self._parts.window)
        dialog.accepted.connect(self._apply_preferences)
        self._show(dialog)

    def _apply_preferences(self) -> None:
        theme.use_letters(int(self._parts.preferences.letters) / 100)
        self.set_theme(self._parts.preferences.theme)
        self._parts.timeline.set_animated(self._parts.preferences.animate)
        self._parts.timeline.gestures.use_wheel(self._parts.preferences.wheel)
        self.set_color_mode(self._parts.preferences.color_mode)
        self._parts.verdict.set_price(self._parts.preferences.cost_per_hour)
        self._parts.document.use_thresholds(self._parts.preferences.thresholds)
        self.fill_recent()

    def show_shortcuts(self) -> None:
        if self._commands is not None:
            self.show_keys(self._commands.with_keys(), self._parts.window, panels=True)

    def show_keys(self, menus: Sequence[Keys], of: QWidget, *, panels: bool = False) -> None:
        """The keys of this window, or of one beside it without panels."""
        from viewer.dialogs.page_dialog import ShortcutSheet

        self._show(ShortcutSheet(menus, of, panels=panels))

    def show_quality(self) -> None:
        from viewer.dialogs.page_dialog import QualityDialog

        trace = self._parts.document.trace
        if trace is not None:
            self._show(QualityDialog(trace, self._parts.window))

    def show_about(self) -> None:
        from viewer.dialogs.page_dialog import AboutDialog

        self._show(AboutDialog(self._parts.window))

    def _show(self, dialog: QDialog) -> None:
        dialog.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        dialog.open()

    def show_start_page(self) -> None:
        self._parts.document.clear()
        self._parts.start_page.refresh()
