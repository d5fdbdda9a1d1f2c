"""The list of everything the user can do in a window, with menus and keys."""

from __future__ import annotations

from dataclasses import replace
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
    menus = {
        "File": [
            Command("open", "Open ...", acts.open_files, "Ctrl+O", always=True),
            Command(
                "open-folder", "Open a folder of ranks ...", acts.open_folder, "Ctrl+Shift+O", always=True
            ),
            Command("open-address", "Open from another machine ...", acts.open_address, always=True),
            Command(
                "record", "Record a script ...", acts.recording.record, "Ctrl+R", always=True, separated=True
            ),
            Command("attach", "Attach to a running program ...", acts.recording.attach, always=True),
            Command("record-again", "Record again and compare ...", acts.recording.again, "Ctrl+Shift+R"),
            Command("compare", "Compare with another recording ...", acts.compare, "Ctrl+D"),
            Command(
                "new-window", "New window", acts.new_window_wanted.emit, "Ctrl+N", always=True, separated=True
            ),
            Command("export-picture", "Export picture ...", acts.export_picture, "Ctrl+E"),
            Command("export-report", "Export report ...", acts.export_report, "Ctrl+Shift+E"),
            Command("export-ticket", "Export the finding as a ticket ...", acts.export_ticket),
            Command("save-session", "Save bookmarks and notes as ...", acts.save_session),
            Command("close", "Close window", w.window.close, "Ctrl+W", always=True, separated=True),
            Command("quit", "Quit", QApplication.quit, "Ctrl+Q", always=True),
        ],
        "Edit": [
            Command("palette", "Search everything", lambda: acts.search(Mode.ALL), "Ctrl+P", always=True),
            Command("find", "Find events", lambda: acts.search(Mode.EVENTS), "Ctrl+F /"),
            Command("find-next", "Next match", lambda: w.searching.move(1), "F3"),
            Command("find-previous", "Previous match", lambda: w.searching.move(-1), "Shift+F3"),
            Command("undo", "Undo lane change", t.lane_history.undo, "Ctrl+Z"),
            Command("redo", "Redo lane change", t.lane_history.redo, "Ctrl+Shift+Z"),
            Command("filter-lanes", "Filter lanes ...", t.filter_bar.start, "Ctrl+L"),
            Command("copy-picture", "Copy as picture", acts.copy_picture, separated=True),
            Command("copy-link", "Copy a command that opens this moment", acts.copy_link),
            Command("export-table", "Export the table as CSV ...", acts.export_table),
            Command("copy-diagnosis", "Copy the diagnosis", acts.copy_diagnosis),
            Command("ask", "Ask in SQL", acts.ask, "Ctrl+Shift+F", separated=True),
            Command(
                "preferences", "Preferences ...", acts.show_preferences, "Ctrl+,", always=True, separated=True
            ),
        ],
        "View": [
            Command("fit-all", "Whole run", t.fit_all, "0"),
            Command("fit-selection", "Zoom to selection", t.fit_selection, "F"),
            Command("show-worst", "Worst place", lambda: w.link.show_first_view("worst")),
            Command("overview-zoom", "Zoom the overview to the view", t.overview.toggle_zoom, "Z"),
            Command("gaps", "Idle gaps", t.set_gaps_visible, "G", always=True, checked=True, separated=True),
            Command("compact", "Compact lanes", t.state.set_compact, "C", always=True, checked=False),
            Command(
                "calls-inside",
                "API calls inside operators",
                t.set_calls_inside,
                "U",
                always=True,
                checked=True,
            ),
            Command("legend", "Colour legend", t.set_legend_visible, "L", always=True, checked=False),
            Command(
                "ghosts",
                "Predicted steps",
                w.predicted.set_ghosts_visible,
                "Shift+G",
                always=True,
                checked=True,
            ),
            Command(
                "path", "Critical path", w.predicted.set_path_visible, "Shift+C", always=True, checked=False
            ),
            Command(
                "toggle-diagnosis",
                "Diagnosis",
                lambda: acts.toggle(w.diagnosis_dock),
                "F6",
                always=True,
                separated=True,
            ),
            Command("what-if", "What if: fixes and their gains", acts.show_fixes, "I"),
            Command("toggle-panels", "Panels", lambda: acts.toggle(w.panels_dock), "F7", always=True),
            Command("next-tab", "Next tab", lambda: w.panels.walk(1), "Ctrl+PgDown"),
            Command("previous-tab", "Previous tab", lambda: w.panels.walk(-1), "Ctrl+PgUp"),
            Command("reset-layout", "Reset the layout", acts.layout_wanted.emit, always=True),
        ],
        "Go": [
            Command("next-event", "Next event on the lane", t.next_event, "."),
            Command("previous-event", "Previous event on the lane", t.previous_event, ","),
            Command("linked-event", "From an operation to its launch, and back", t.linked_event, "B"),
            Command("next-finding", "Next finding", lambda: diagnosis.select(1), "N", separated=True),
            Command("previous-finding", "Previous finding", lambda: diagnosis.select(-1), "Shift+N"),
            Command("next-evidence", "Next place in this finding", lambda: diagnosis.walk(1), "E"),
            Command(
                "previous-evidence", "Previous place in this finding", lambda: diagnosis.walk(-1), "Shift+E"
            ),
            Command("open-line", "Open the finding's line in the editor", acts.open_line, "F4"),
            Command("next-step", "Next step", lambda: steps.move_by(1), "]", separated=True),
            Command("previous-step", "Previous step", lambda: steps.move_by(-1), "["),
            Command("all-steps", "All steps", lambda: w.document.select_step(-1)),
            Command("back", "Previous view", t.state.back, "Alt+Left", separated=True),
            Command("forward", "Next view", t.state.forward, "Alt+Right"),
            Command("measure", "Measure the selection", t.measure_selection, "M", separated=True),
            Command("bookmark", "Bookmark this place", acts.bookmark, "Ctrl+B"),
            Command("go-to", "Go to time ...", acts.go_to_time, "Ctrl+G"),
            Command("deselect", "Clear the selection", acts.deselect, "Esc", hidden=True),
        ],
        "Help": [
            Command("shortcuts", "Keyboard and mouse", acts.show_shortcuts, "? F1", always=True),
            Command("quality", "What was read and what was left out", acts.show_quality),
            Command("start-page", "Start page", acts.show_start_page, always=True),
            Command("about", "About Stallscope", acts.show_about, always=True),
        ],
    }
    return [replace(command, menu=menu) for menu, commands in menus.items() for command in commands]
