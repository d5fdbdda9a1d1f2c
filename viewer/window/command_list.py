"""The list of everything the user can do in a window, with menus and keys."""

from __future__ import annotations

from typing import TYPE_CHECKING

from PySide6.QtWidgets import QApplication

from viewer.window.commands import Command
from viewer.window.palette import Mode

if TYPE_CHECKING:
    from viewer.window.actions import WindowActions
    from viewer.window.parts import Parts


def window_commands(parts: Parts, acts: WindowActions) -> list[Command]:
    """All commands in the order of the menus."""
    w, t = parts, parts.timeline
    steps, diagnosis = w.toolbar.steps, w.diagnosis
    return [
        Command("open", "File", "Open ...", acts.open_files, ("Ctrl+O",)),
        Command("open-folder", "File", "Open a folder of ranks ...", acts.open_folder, ("Ctrl+Shift+O",)),
        Command("record", "File", "Record a script ...", acts.recording.record, ("Ctrl+R",), separated=True),
        Command(
            "record-again",
            "File",
            "Record again and compare ...",
            acts.recording.again,
            ("Ctrl+Shift+R",),
            needs_trace=True,
        ),
        Command(
            "compare",
            "File",
            "Compare with another recording ...",
            acts.compare,
            ("Ctrl+D",),
            needs_trace=True,
        ),
        Command("new-window", "File", "New window", acts.new_window_wanted.emit, ("Ctrl+N",), separated=True),
        Command(
            "export-picture",
            "File",
            "Export picture ...",
            acts.export_picture,
            ("Ctrl+E",),
            needs_trace=True,
        ),
        Command(
            "export-report",
            "File",
            "Export report ...",
            acts.export_report,
            ("Ctrl+Shift+E",),
            needs_trace=True,
        ),
        Command(
            "save-session", "File", "Save bookmarks and notes as ...", acts.save_session, (), needs_trace=True
        ),
        Command("close", "File", "Close window", w.window.close, ("Ctrl+W",), separated=True),
        Command("quit", "File", "Quit", QApplication.quit, ("Ctrl+Q",)),
        Command("palette", "Edit", "Search everything", lambda: acts.search(Mode.ALL), ("Ctrl+P",)),
        Command(
            "find",
            "Edit",
            "Find events",
            lambda: acts.search(Mode.EVENTS),
            ("Ctrl+F", "/"),
            needs_trace=True,
        ),
        Command("find-next", "Edit", "Next match", lambda: w.searching.move(1), ("F3",), needs_trace=True),
        Command(
            "find-previous",
            "Edit",
            "Previous match",
            lambda: w.searching.move(-1),
            ("Shift+F3",),
            needs_trace=True,
        ),
        Command("undo", "Edit", "Undo (lanes)", t.lane_history.undo, ("Ctrl+Z",), needs_trace=True),
        Command("redo", "Edit", "Redo (lanes)", t.lane_history.redo, ("Ctrl+Shift+Z",), needs_trace=True),
        Command(
            "filter-lanes", "Edit", "Filter lanes ...", t.filter_bar.start, ("Ctrl+L",), needs_trace=True
        ),
        Command(
            "copy-picture",
            "Edit",
            "Copy as picture",
            acts.copy_picture,
            (),
            needs_trace=True,
            separated=True,
        ),
        Command("copy-link", "Edit", "Copy a link to this moment", acts.copy_link, (), needs_trace=True),
        Command(
            "export-table",
            "Edit",
            "Export the table as CSV ...",
            acts.export_table,
            (),
            needs_trace=True,
        ),
        Command("copy-diagnosis", "Edit", "Copy the diagnosis", acts.copy_diagnosis, (), needs_trace=True),
        Command(
            "ask",
            "Edit",
            "Ask in SQL",
            acts.ask,
            ("Ctrl+Shift+F",),
            needs_trace=True,
            separated=True,
        ),
        Command("preferences", "Edit", "Preferences ...", acts.show_preferences, ("Ctrl+,",), separated=True),
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
        Command(
            "overview-zoom",
            "View",
            "Overview of what is around the view",
            t.overview.toggle_zoom,
            ("Z",),
            needs_trace=True,
        ),
        Command("gaps", "View", "Idle gaps", t.set_gaps_visible, ("G",), checked=True, separated=True),
        Command("compact", "View", "Compact lanes", t.set_compact, ("C",), checked=False),
        Command(
            "calls-inside", "View", "API calls inside operators", t.set_calls_inside, ("U",), checked=True
        ),
        Command("legend", "View", "Legend of the colours", t.set_legend_visible, ("L",), checked=False),
        Command(
            "ghosts", "View", "Predicted steps", w.predicted.set_ghosts_visible, ("Shift+G",), checked=True
        ),
        Command("path", "View", "Critical path", w.predicted.set_path_visible, ("Shift+C",), checked=False),
        Command(
            "toggle-diagnosis",
            "View",
            "Diagnosis",
            lambda: acts.toggle(w.diagnosis_dock),
            ("F6",),
            separated=True,
        ),
        Command("toggle-panels", "View", "Panels", lambda: acts.toggle(w.panels_dock), ("F7",)),
        Command("next-tab", "View", "Next tab", lambda: w.panels.walk(1), ("Ctrl+PgDown",), needs_trace=True),
        Command(
            "previous-tab",
            "View",
            "Previous tab",
            lambda: w.panels.walk(-1),
            ("Ctrl+PgUp",),
            needs_trace=True,
        ),
        Command("reset-layout", "View", "Reset the layout", acts.layout_wanted.emit),
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
        Command("previous-step", "Go", "Previous step", lambda: steps.move_by(-1), ("[",), needs_trace=True),
        Command("all-steps", "Go", "All steps", lambda: w.document.select_step(-1), (), needs_trace=True),
        Command(
            "back",
            "Go",
            "Back to the view before",
            t.back,
            ("Alt+Left",),
            needs_trace=True,
            separated=True,
        ),
        Command("forward", "Go", "Forward", t.forward, ("Alt+Right",), needs_trace=True),
        Command(
            "measure",
            "Go",
            "Measure the selection",
            t.measure_selection,
            ("M",),
            needs_trace=True,
            separated=True,
        ),
        Command(
            "bookmark",
            "Go",
            "Bookmark this place",
            acts.bookmark,
            ("Ctrl+B",),
            needs_trace=True,
        ),
        Command("go-to", "Go", "Go to time ...", acts.go_to_time, ("Ctrl+G",), needs_trace=True),
        Command("deselect", "Go", "Select nothing", acts.deselect, ("Esc",), needs_trace=True, hidden=True),
        Command("shortcuts", "Help", "Keyboard and mouse", acts.show_shortcuts, ("?", "F1")),
        Command(
            "quality", "Help", "What was read, and what was left out", acts.show_quality, needs_trace=True
        ),
        Command("start-page", "Help", "Start page", acts.show_start_page),
        Command("about", "Help", "About Stallscope", acts.show_about),
    ]
