"""What the commands of a window do, and the list of them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from PySide6.QtCore import Qt
from PySide6.QtGui import QActionGroup, QGuiApplication
from PySide6.QtWidgets import QApplication, QFileDialog, QInputDialog, QLineEdit, QMenu

from parsers.model.units import parse_duration
from viewer import theme
from viewer.commands import Command, Commands
from viewer.opening import FILE_FILTER, recent_files, samples
from viewer.palette import Mode
from viewer.preferences import COLOR_MODES, THEMES

if TYPE_CHECKING:
    from viewer.main_window import MainWindow


class WindowActions:
    """Bound to one window."""

    def __init__(self, window: MainWindow) -> None:
        self._window = window
        self._sheet: object = None

    def commands(self) -> list[Command]:
        """Everything the user can do, in the order of the menus."""
        w, t = self._window, self._window.timeline
        steps, diagnosis = w.toolbar.steps, w.diagnosis
        return [
            Command("open", "File", "Open ...", self.open_files, ("Ctrl+O",)),
            Command("open-folder", "File", "Open a folder of ranks ...", self.open_folder, ("Ctrl+Shift+O",)),
            Command("record", "File", "Record a script ...", self.record, ("Ctrl+R",), separated=True),
            Command(
                "compare",
                "File",
                "Compare with another recording ...",
                self.compare,
                ("Ctrl+D",),
                needs_trace=True,
            ),
            Command("new-window", "File", "New window", self.new_window, ("Ctrl+N",), separated=True),
            Command(
                "export-picture",
                "File",
                "Export picture ...",
                self.export_picture,
                ("Ctrl+E",),
                needs_trace=True,
            ),
            Command("close", "File", "Close window", w.close, ("Ctrl+W",), separated=True),
            Command("quit", "File", "Quit", QApplication.quit, ("Ctrl+Q",)),
            Command("palette", "Edit", "Search everything", lambda: self.search(Mode.ALL), ("Ctrl+P",)),
            Command(
                "find",
                "Edit",
                "Find events",
                lambda: self.search(Mode.EVENTS),
                ("Ctrl+F", "/"),
                needs_trace=True,
            ),
            Command(
                "find-next", "Edit", "Next match", lambda: w.searching.move(1), ("F3",), needs_trace=True
            ),
            Command(
                "find-previous",
                "Edit",
                "Previous match",
                lambda: w.searching.move(-1),
                ("Shift+F3",),
                needs_trace=True,
            ),
            Command(
                "filter-lanes", "Edit", "Filter lanes ...", self.filter_lanes, ("Ctrl+L",), needs_trace=True
            ),
            Command(
                "copy-picture",
                "Edit",
                "Copy as picture",
                self.copy_picture,
                (),
                needs_trace=True,
                separated=True,
            ),
            Command(
                "preferences", "Edit", "Preferences ...", self.show_preferences, ("Ctrl+,",), separated=True
            ),
            Command("fit-all", "View", "Whole run", t.fit_all, ("0",), needs_trace=True),
            Command("fit-selection", "View", "Fit the selection", t.fit_selection, ("F",), needs_trace=True),
            Command(
                "show-worst",
                "View",
                "Worst place",
                lambda: w.link.show_first_view("worst"),
                (),
                needs_trace=True,
            ),
            Command("gaps", "View", "Idle gaps", t.set_gaps_visible, ("G",), checked=True, separated=True),
            Command("compact", "View", "Compact lanes", t.set_compact, ("C",), checked=False),
            Command(
                "toggle-diagnosis",
                "View",
                "Diagnosis",
                lambda: self.toggle(w.diagnosis_dock),
                ("F6",),
                separated=True,
            ),
            Command("toggle-panels", "View", "Panels", lambda: self.toggle(w.panels_dock), ("F7",)),
            Command("reset-layout", "View", "Reset the layout", w.reset_layout),
            Command("next-event", "Go", "Next event on the lane", t.next_event, (".",), needs_trace=True),
            Command(
                "previous-event",
                "Go",
                "Previous event on the lane",
                t.previous_event,
                (",",),
                needs_trace=True,
            ),
            Command(
                "next-finding",
                "Go",
                "Next finding",
                lambda: diagnosis.select(1),
                ("N",),
                needs_trace=True,
                separated=True,
            ),
            Command(
                "previous-finding",
                "Go",
                "Previous finding",
                lambda: diagnosis.select(-1),
                ("Shift+N",),
                needs_trace=True,
            ),
            Command(
                "next-evidence",
                "Go",
                "Next place of the finding",
                lambda: diagnosis.walk(1),
                ("E",),
                needs_trace=True,
            ),
            Command(
                "previous-evidence",
                "Go",
                "Previous place of the finding",
                lambda: diagnosis.walk(-1),
                ("Shift+E",),
                needs_trace=True,
            ),
            Command(
                "next-step",
                "Go",
                "Next step",
                lambda: steps.move_by(1),
                ("]",),
                needs_trace=True,
                separated=True,
            ),
            Command(
                "previous-step", "Go", "Previous step", lambda: steps.move_by(-1), ("[",), needs_trace=True
            ),
            Command("all-steps", "Go", "All steps", lambda: w.document.select_step(-1), (), needs_trace=True),
            Command("back", "Go", "Back", t.back, ("Alt+Left",), needs_trace=True, separated=True),
            Command("forward", "Go", "Forward", t.forward, ("Alt+Right",), needs_trace=True),
            Command("go-to", "Go", "Go to time ...", self.go_to_time, ("Ctrl+G",), needs_trace=True),
            Command(
                "deselect", "Go", "Select nothing", self.deselect, ("Esc",), needs_trace=True, hidden=True
            ),
            Command("shortcuts", "Help", "Keyboard and mouse", self.show_shortcuts, ("?", "F1")),
            Command(
                "quality", "Help", "What was read, and what was left out", self.show_quality, needs_trace=True
            ),
            Command("start-page", "Help", "Start page", self.show_start_page),
            Command("about", "Help", "About Stallscope", self.show_about),
        ]

    def fill_menus(self, commands: Commands) -> None:
        """Add what is no plain command: recent files, samples, themes, colours."""
        file_menu = commands.menus["File"]
        self._recent = QMenu("Open recent", file_menu)
        file_menu.insertMenu(commands["record"], self._recent)
        sample_menu = QMenu("Try a sample", file_menu)
        file_menu.insertMenu(commands["record"], sample_menu)
        for sample in samples():
            action = sample_menu.addAction(sample.title)
            action.triggered.connect(lambda _=False, path=sample.path: self._window.open([path]))
        self.fill_recent(commands)
        view = commands.menus["View"]
        view.addSeparator()
        self._choices(view.addMenu("Theme"), THEMES, self._window.preferences.theme, self.set_theme)
        self._choices(
            view.addMenu("Colours tell"),
            COLOR_MODES,
            self._window.preferences.color_mode,
            self.set_color_mode,
        )
        self.set_color_mode(self._window.preferences.color_mode)

    def _choices(self, menu: QMenu, options: dict[str, str], current: str, choose: object) -> None:
        group = QActionGroup(menu)
        for key, text in options.items():
            action = menu.addAction(text)
            action.setCheckable(True)
            action.setChecked(key == current)
            action.setData(key)
            group.addAction(action)
        group.triggered.connect(lambda action: choose(str(action.data())))  # type: ignore[operator]

    def fill_recent(self, commands: Commands) -> None:
        """List the recent files anew."""
        self._recent.clear()
        known = recent_files()
        for recent in known:
            action = self._recent.addAction(recent.name.replace("&", "&&"))
            action.setEnabled(recent.exists)
            paths = [Path(path) for path in recent.paths]
            action.triggered.connect(lambda _=False, paths=paths: self._window.open(paths))
        self._recent.setEnabled(bool(known))

    def open_files(self) -> None:
        """Ask for files; several are ranks of one run."""
        names, _ = QFileDialog.getOpenFileNames(
            self._window, "Open recordings of one run", self._folder(), FILE_FILTER
        )
        self._window.open([Path(name) for name in names])

    def open_folder(self) -> None:
        """Ask for a folder with the ranks of one run."""
        name = QFileDialog.getExistingDirectory(self._window, "Open a folder of ranks", self._folder())
        if name:
            self._window.open([Path(name)])

    def _folder(self) -> str:
        paths = self._window.document.paths
        known = recent_files()
        return str(paths[0].parent) if paths else known[0].folder if known else ""

    def record(self) -> None:
        """Open the dialog that runs a script under a profiler."""
        try:
            from viewer.capture.dialog import CaptureDialog
        except ImportError as error:
            self._window.banner.say("Recording is not part of this installation.", str(error))
            return
        dialog = CaptureDialog(self._window)
        dialog.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        if hasattr(dialog, "recorded"):
            dialog.recorded.connect(lambda paths: self._window.open([Path(path) for path in paths]))
        dialog.open()

    def compare(self) -> None:
        """Ask for another recording and say what changed."""
        from viewer.comparing import compare_with

        names, _ = QFileDialog.getOpenFileNames(self._window, "Compare with", self._folder(), FILE_FILTER)
        if names:
            compare_with(self._window, [Path(name) for name in names])

    def new_window(self) -> None:
        """Open another, empty window."""
        from viewer.app import open_window

        open_window()

    def search(self, mode: Mode) -> None:
        """Put the cursor into the search field."""
        self._window.toolbar.search.start(mode)

    def filter_lanes(self) -> None:
        """Ask for a text; only lanes that contain it stay."""
        text, accepted = QInputDialog.getText(self._window, "Filter lanes", "Show lanes that contain")
        if accepted:
            self._window.timeline.set_lane_filter(text)

    def show_lane(self, lane: int) -> None:
        """Keep only this lane; Ctrl+L with an empty text brings the others back."""
        trace = self._window.document.trace
        if trace is not None:
            self._window.timeline.set_lane_filter(trace.lanes[lane].name)
            self._window.banner.say(
                f"Only lanes named {trace.lanes[lane].name} are shown.", "Ctrl+L shows others again."
            )

    def middle_of_view(self) -> int:
        """The time in the middle of the timeline, ns."""
        t0, t1 = self._window.timeline.visible_interval
        return int(t0 + t1) // 2

    def go_to_time(self) -> None:
        """Ask for a time and show it."""
        text, accepted = QInputDialog.getText(
            self._window, "Go to time", "Time from the start, such as 31.2ms", QLineEdit.EchoMode.Normal
        )
        when = parse_duration(text) if accepted else None
        if when is not None:
            self._window.link.show_moment(when)
        elif accepted and text.strip():
            self._window.banner.say(f"{text!r} is not a time.", "Write it like 31.2ms or 1.5 s.")

    def deselect(self) -> None:
        """Select nothing and clear the marks."""
        self._window.banner.hide()
        self._window.timeline.clear_selection()
        self._window.document.select_area(None)
        self._window.document.select_gap(-1)
        self._window.document.select_event(-1)

    def toggle(self, dock: object) -> None:
        """Show or hide a dock."""
        dock.setVisible(not dock.isVisible())  # type: ignore[attr-defined]

    def set_theme(self, name: str) -> None:
        """Switch between dark, light and the system's choice."""
        self._window.preferences.theme = name
        application = QApplication.instance()
        if isinstance(application, QApplication):
            theme.apply(application, name)

    def set_color_mode(self, mode: str) -> None:
        """What the colours of events tell."""
        self._window.preferences.color_mode = mode
        self._window.timeline.set_colour_mode(mode)

    def export_picture(self) -> None:
        """Ask for a file and write the window as a picture."""
        name, _ = QFileDialog.getSaveFileName(self._window, "Export picture", "stallscope.png", "PNG (*.png)")
        if name and not self._window.grab().save(name):
            self._window.banner.say(f"{Path(name).name} could not be written.", "Choose another place.")

    def copy_picture(self) -> None:
        """Put the window on the clipboard as a picture."""
        QGuiApplication.clipboard().setPixmap(self._window.grab())

    def show_preferences(self) -> None:
        """Open the preferences and apply what was changed."""
        from viewer.preferences import PreferencesDialog

        dialog = PreferencesDialog(self._window.preferences, self._window)
        dialog.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        dialog.accepted.connect(self._apply_preferences)
        dialog.open()

    def _apply_preferences(self) -> None:
        self.set_theme(self._window.preferences.theme)
        self._window.timeline.set_animated(self._window.preferences.animate)
        self.set_color_mode(self._window.preferences.color_mode)
        self.fill_recent(self._window.commands)

    def show_shortcuts(self) -> None:
        """Open the sheet of keys."""
        from viewer.shortcut_sheet import ShortcutSheet

        self._show(ShortcutSheet(self._window.commands, self._window))

    def show_quality(self) -> None:
        """Open the account of what was read."""
        from viewer.quality_dialog import QualityDialog

        trace = self._window.document.trace
        if trace is not None:
            self._show(QualityDialog(trace, self._window))

    def show_about(self) -> None:
        """Say which version this is."""
        from viewer.about import AboutDialog

        self._show(AboutDialog(self._window))

    def _show(self, dialog: object) -> None:
        dialog.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)  # type: ignore[attr-defined]
        dialog.open()  # type: ignore[attr-defined]

    def show_start_page(self) -> None:
        """Close the recording and show the start page."""
        self._window.document.clear()
        self._window.start_page.refresh()
