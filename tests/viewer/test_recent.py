"""The list of recent files: what is kept of a recording, how it is shown, and how an entry is taken off."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from pathlib import Path

import pytest
from PySide6.QtCore import Qt
from PySide6.QtWidgets import QApplication, QMenu
from pytestqt.qtbot import QtBot

import resources
from parsers.model import Trace
from rules.analysis.analysis import Analysis
from viewer.start.opening import samples
from viewer.start.start_page import RecentTile, RunPicture, shares
from viewer.statistics.run_summary import summarise
from viewer.user_data.recent import COLUMNS, Recent, Summary, forget, recent_files, remember, when
from viewer.window.main_window import MainWindow

from .conftest import MS, STEP, STEPS, wait_until_ready

SAMPLE = resources.path("samples/elementwise_chain.pt.trace.json.gz")
NOW = datetime(2026, 3, 12, 15, 0).timestamp()
DAY = 86_400


def test_a_summary_agrees_with_the_budget_of_the_window(trace: Trace) -> None:
    analysis = Analysis(trace)
    summary = summarise(analysis)
    (row,) = summary.rows
    assert summary.device == "NVIDIA H200"
    assert STEPS * STEP - MS < summary.duration_ns <= STEPS * STEP
    assert all(len(values) == COLUMNS for values in row.values())
    assert all(97 <= sum(column) <= 103 for column in zip(*row.values(), strict=True))
    budget = analysis.budgets(0)
    assert shares(row)["compute"] == pytest.approx(budget.compute_ns / budget.window_ns, abs=0.01)


def test_a_summary_survives_the_file(trace: Trace, tmp_path: Path) -> None:
    summary = summarise(Analysis(trace))
    remember([tmp_path / "a"], "slow", summary)
    assert recent_files()[0].summary == summary
    remember([tmp_path / "a"], "slower")
    assert (recent_files()[0].verdict, recent_files()[0].summary) == ("slower", summary)


@pytest.mark.parametrize(
    "damaged",
    [None, 3, {}, {"opened": "x", "duration_ns": 1, "device": "", "rows": []}]
    + [
        {"opened": 1, "duration_ns": 1, "device": "", "rows": rows}
        for rows in ([3], [{"a": None}], [{"a": ["x"]}])
    ]
    + [{"opened": 1, "duration_ns": float("inf"), "device": "", "rows": []}],
)
def test_a_damaged_summary_is_none(damaged: object) -> None:
    assert Summary.from_data(damaged) is None


@pytest.mark.parametrize(
    ("ago", "said"),
    [
        (0, "today 15:00"),
        (15 * 3600, "today 00:00"),
        (15 * 3600 + 1, "yesterday"),
        (6 * DAY, "6 days ago"),
        (7 * DAY, "5 Mar 2026"),
        (float("inf"), ""),
        (-3 * DAY, "15 Mar 2026"),
    ],
)
def test_the_time_of_opening_is_told_as_people_say_it(ago: float, said: str) -> None:
    assert when(NOW - ago, NOW) == said


def test_one_entry_can_be_forgotten(tmp_path: Path) -> None:
    for name in ("a", "b"):
        remember([tmp_path / name])
    forget(recent_files()[0])
    assert [recent.name for recent in recent_files()] == ["a"]


def test_a_recording_that_was_opened_is_shown_with_its_picture_and_facts(
    empty_window: MainWindow, qtbot: QtBot, tmp_path: Path
) -> None:
    copy = tmp_path / "<b>mine.json.gz"
    copy.write_bytes(SAMPLE.read_bytes())
    empty_window.open([copy])
    wait_until_ready(qtbot, empty_window)
    empty_window.acts.show_start_page()
    (tile,) = empty_window.start_page.recent_tiles
    assert tile.findChild(RunPicture) is not None
    assert tile.accessibleName().startswith("<b>mine.json.gz. ")
    assert "H200" in tile.accessibleName()
    assert "today" in tile.accessibleName()
    assert sorted(each.name for each in tmp_path.glob("*mine*")) == [copy.name]


def test_what_was_left_open_is_shown_once_and_as_it_is_among_the_recent_ones(
    make_window: Callable[..., MainWindow], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for name in ("left", "other"):
        (tmp_path / name).write_text("")
        remember([tmp_path / name], f"the verdict of {name}")
    left = Recent((str(tmp_path / "left"),))
    monkeypatch.setattr("viewer.start.start_page.left_open", lambda: [left])
    window = make_window()
    assert [tile.text() for tile in window.start_page.recent_tiles] == ["other"]
    tiles = [tile for tile in window.start_page.findChildren(RecentTile) if tile.text() == "left"]
    assert ["the verdict of left" in tile.accessibleName() for tile in tiles] == [True]


def test_return_opens_a_recording_when_the_program_has_just_started(
    make_window: Callable[..., MainWindow], qtbot: QtBot
) -> None:
    window = make_window()
    window.activateWindow()
    assert window.focusWidget() is window.start_page.open_button


def test_a_file_that_is_gone_is_marked_and_can_be_removed(
    make_window: Callable[..., MainWindow], qtbot: QtBot, tmp_path: Path
) -> None:
    there = tmp_path / "there"
    there.write_text("")
    remember([there], "fine")
    remember([tmp_path / "gone"], "slow")
    window = make_window()
    gone, kept = window.start_page.recent_tiles
    assert (gone.missing, kept.missing) == (True, False)
    assert "File not found" in gone.accessibleName()
    assert gone.remove_button.isVisible()
    assert not kept.remove_button.isVisible()
    qtbot.mouseClick(gone.remove_button, Qt.MouseButton.LeftButton)
    qtbot.waitUntil(lambda: len(window.start_page.recent_tiles) == 1)
    assert [recent.name for recent in recent_files()] == ["there"]
    assert there.exists()


def test_the_keyboard_alone_removes_entries_and_goes_on_with_the_next(
    make_window: Callable[..., MainWindow], qtbot: QtBot, tmp_path: Path
) -> None:
    for name in ("c", "b", "a"):
        (tmp_path / name).write_text("")
        remember([tmp_path / name])
    window = make_window()

    def names() -> list[str]:
        return [tile.text() for tile in window.start_page.recent_tiles]

    window.start_page.recent_tiles[1].setFocus()
    for left in (["a", "c"], ["a"], []):
        focused = QApplication.focusWidget()
        assert isinstance(focused, RecentTile)
        qtbot.keyClick(focused, Qt.Key.Key_Delete)
        qtbot.waitUntil(lambda left=left: names() == left)  # type: ignore[misc]
        assert sorted(recent.name for recent in recent_files()) == left
    assert window.start_page.open_button.hasFocus()


def test_an_entry_opens_or_leaves_from_its_menu(
    make_window: Callable[..., MainWindow], qtbot: QtBot, tmp_path: Path
) -> None:
    remember([tmp_path / "a"])
    window = make_window()
    (tile,) = window.start_page.recent_tiles
    opened, removed = tile.menu().actions()
    with qtbot.waitSignal(window.start_page.paths_wanted) as wanted:
        opened.trigger()
    assert wanted.args == [[tmp_path / "a"]]
    removed.trigger()
    qtbot.waitUntil(lambda: window.start_page.recent_tiles == [])


@pytest.mark.parametrize("is_sample", [True, False])
def test_a_sample_is_offered_once_and_only_beside_another_one(
    window: MainWindow, is_sample: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = samples()[:2]
    remember([first.path])
    monkeypatch.setattr(window.document, "paths", [second.path] if is_sample else [Path("mine.json")])
    window.acts.offer_comparison()
    menu = window.findChildren(QMenu)[-1]
    offered = [action.text() for action in menu.actions()]
    assert first.path.name not in offered
    assert offered.count(first.title) == is_sample
    assert second.title not in offered
    menu.close()
