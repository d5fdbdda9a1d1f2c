"""What the program keeps, on a full disk, under a clock that jumps, and as a newer version of the program wrote it."""

from __future__ import annotations

import json
import sqlite3
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest

from parsers.model import TraceError
from rules.gates.figures import RunFigures
from rules.terms import Thresholds
from tests.limits import room_in_a_file
from viewer.capture.request import CaptureRequest, Target, Tool
from viewer.capture.storage import History as Runs
from viewer.capture.storage import Presets
from viewer.user_data import own_questions, recent
from viewer.user_data.history import Entry, History, Series
from viewer.user_data.preferences import Preferences
from viewer.user_data.session import Session, SessionError
from viewer.user_data.storage import data_folder, write_text

YEAR_S = 365 * 86_400.0


def figures() -> RunFigures:
    series = np.full(40, 1e6)
    return RunFigures(("a",), ("GPU",), "ProfilerStep", series, series, series * 0, series)


def request(name: str) -> CaptureRequest:
    return CaptureRequest(tool=Tool.TORCH, target=Target(program=f"/{name}.py"))


def a_recent_file(name: str) -> None:
    recent.remember([Path("/recordings") / name], name)


def recent_names() -> list[str]:
    return sorted(each.name for each in recent.recent_files())


def a_question(name: str) -> None:
    own_questions.save_question(name, f"SELECT '{name}'")


def questions() -> list[str]:
    return sorted(own_questions.own_questions())


def a_word_asked(name: str) -> None:
    own_questions.remember_question(name)


def words_asked() -> list[str]:
    return sorted(own_questions.asked_lately())


def a_preset(name: str) -> None:
    Presets().save(name, request(name))


def presets() -> list[str]:
    return sorted(Presets().all())


def a_baseline(name: str) -> None:
    History().keep(Entry(name, (figures(),)))


def baselines() -> list[str]:
    return sorted(each.name for each in History().entries(Series.BASELINE))


def session() -> Session:
    return Session(data_folder() / "sessions" / "run.stallscope", [Path("/recordings/run")])


def a_bookmark(name: str) -> None:
    session().add(1, 2, name)


def bookmarks() -> list[str]:
    return sorted(mark.title for mark in session().bookmarks())


def a_setting(name: str) -> None:
    kept = Preferences()
    kept.thresholds = Thresholds({**kept.thresholds.chosen, name: 7.0})
    kept.flush()


def settings() -> list[str]:
    return sorted(Preferences().thresholds.chosen)


KEPT = [
    (a_recent_file, recent_names),
    (a_question, questions),
    (a_word_asked, words_asked),
    (a_preset, presets),
    (a_baseline, baselines),
    (a_bookmark, bookmarks),
    (a_setting, settings),
]
NAMES = ("idle_share", "launch_share")


@pytest.mark.parametrize(("keep", "kept"), KEPT, ids=[keep.__name__ for keep, _ in KEPT])
@pytest.mark.parametrize("room", [0, 10, 100, 5_000])
def test_a_disk_that_is_full_at_any_byte_costs_nothing_that_was_kept(
    keep: Callable[[str], None], kept: Callable[[], list[str]], room: int, fresh_home: Path
) -> None:
    with room_in_a_file(room), suppress(OSError, TraceError, SessionError):
        keep(NAMES[0])
    assert kept() in ([], [NAMES[0]])
    keep(NAMES[0])
    with room_in_a_file(room), suppress(OSError, TraceError, SessionError):
        keep(NAMES[1])
    assert kept() in ([NAMES[0]], list(NAMES))
    keep(NAMES[1])
    assert set(kept()) == set(NAMES)
    assert [file.name for file in fresh_home.rglob("*") if file.name.endswith((".part", ".lock"))] == []


def test_a_note_of_what_is_open_that_finds_no_room_is_gone_when_the_window_closes() -> None:
    note = recent.OpenNote()
    note.write([Path("/recordings/a")])
    with room_in_a_file(3):
        note.write([Path("/recordings/b")])
    assert len(list((data_folder() / "open").iterdir())) == 1
    note.remove()
    assert list((data_folder() / "open").iterdir()) == []


def changed(path: Path, *statements: str) -> bytes:
    """The file as another version of the program might have written it."""
    with sqlite3.connect(path) as database:
        for statement in statements:
            database.execute(statement)
    database.close()
    return path.read_bytes()


def test_what_the_program_keeps_for_itself_is_replaced_without_asking_what_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("parsers.known_formats.looks_like", lambda _: pytest.fail("every parser was asked"))
    for text in ("[]", "[1]"):
        write_text(tmp_path / "recent.json", text)
    assert (tmp_path / "recent.json").read_text() == "[1]"


def test_a_session_of_a_newer_version_is_read_and_left_as_it_is() -> None:
    a_bookmark("mine")
    newer = "UPDATE stallscope_session SET format = 2", "ALTER TABLE bookmarks ADD COLUMN colour TEXT"
    before = changed(session().path, *newer)
    assert bookmarks() == ["mine"]
    with pytest.raises(SessionError, match="written by a newer Stallscope"):
        a_bookmark("other")
    assert session().path.read_bytes() == before


def test_baselines_of_a_newer_version_are_read_and_left_as_they_are() -> None:
    a_baseline("mine")
    before = changed(
        History().path, "ALTER TABLE kept_runs ADD COLUMN machine TEXT", "CREATE TABLE more (id)"
    )
    assert baselines() == ["mine"]
    with pytest.raises(TraceError, match="does not contain saved runs"):
        a_baseline("other")
    assert History().path.read_bytes() == before


def test_a_file_that_another_process_has_just_made_holds_no_baselines_yet() -> None:
    path = History().path
    path.parent.mkdir(parents=True, exist_ok=True)
    connection = sqlite3.connect(path)
    connection.execute("PRAGMA user_version = 0")
    connection.execute("CREATE TABLE passing (id)")
    connection.execute("DROP TABLE passing")
    connection.close()
    assert path.stat().st_size > 0
    assert baselines() == []
    a_baseline("mine")
    assert baselines() == ["mine"]


def test_what_a_newer_version_knows_of_presets_and_settings_stays() -> None:
    a_preset("mine")
    presets_file = data_folder() / "capture-presets.json"
    stored = json.loads(presets_file.read_text())
    presets_file.write_text(json.dumps({**stored, "newer": {"tool": "torch", "of a later version": [1]}}))
    a_preset("other")
    assert json.loads(presets_file.read_text())["newer"]["of a later version"] == [1]
    a_setting("idle_share")
    file = Path(Preferences()._settings.fileName())
    file.write_text(file.read_text() + "\n[later]\nchoice=new\n\n[General]\ntheme=of a later version\n")
    assert Preferences().theme == "system"
    a_setting("launch_share")
    assert "choice=new" in file.read_text()
    assert settings() == ["idle_share", "launch_share"]


def test_an_entry_of_the_list_that_nobody_understands_costs_no_other() -> None:
    a_recent_file("mine")
    file = data_folder() / "recent.json"
    file.write_text(json.dumps([{"of": "a later version"}, 7, *json.loads(file.read_text())]))
    a_recent_file("other")
    assert recent_names() == ["mine", "other"]


def test_a_clock_that_was_set_back_does_not_cost_the_run_that_begins(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("viewer.capture.storage.KEPT_RUNS", 2)
    now = time.time()
    runs = Runs(tmp_path / "runs")
    for clock in (now + YEAR_S, now + YEAR_S + 60, now):
        monkeypatch.setattr("time.time", lambda clock=clock: clock)
        assert runs.begin(request("train")).folder.is_dir()
