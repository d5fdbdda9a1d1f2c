"""The line below the window: what was read, and where the mouse is."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from pytestqt.qtbot import QtBot

from viewer.window.main_window import MainWindow

from .conftest import wait_until_ready


@pytest.mark.parametrize(
    ("when", "told"), [(9_999_000_000, "cursor 9,999.000 ms"), (10_000_000_000, "cursor 10.000000 s")]
)
def test_the_status_bar_tells_the_cursor_in_the_unit_of_a_long_ruler(
    window: MainWindow, when: int, told: str
) -> None:
    window.status.set_cursor(when)
    assert window.status.times.text().startswith(told)


def test_what_was_read_is_counted_as_people_do(
    empty_window: MainWindow, qtbot: QtBot, tmp_path: Path
) -> None:
    event = {"ph": "X", "cat": "kernel", "name": "alone", "pid": 0, "tid": 7, "ts": 1000, "dur": 50}
    alone = tmp_path / "alone.json"
    alone.write_text(json.dumps({"schemaVersion": 1, "traceEvents": [{**event, "args": {"stream": 7}}]}))
    empty_window.open([alone])
    wait_until_ready(qtbot, empty_window)
    assert empty_window.status.badge.text() == "1 event, all kept"
