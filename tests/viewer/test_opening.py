"""What is known before any window: the display, the samples, the recent files."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from viewer.start.opening import has_display, samples
from viewer.user_data.recent import RECENT_LIMIT, OpenNote, forget_recent, left_open, recent_files, remember
from viewer.user_data.storage import data_folder


@pytest.mark.parametrize(
    ("environment", "platform", "expected"),
    [
        ({}, "linux", False),
        ({"DISPLAY": ":0"}, "linux", True),
        ({"DISPLAY": ""}, "linux", False),
        ({"WAYLAND_DISPLAY": "wayland-0"}, "linux", True),
        ({"QT_QPA_PLATFORM": "offscreen"}, "linux", True),
        ({}, "darwin", True),
        ({}, "win32", True),
    ],
)
def test_a_display_is_needed_on_linux_only(
    environment: dict[str, str], platform: str, expected: bool
) -> None:
    assert has_display(environment, platform) is expected


def test_every_listed_sample_is_there_and_has_its_story() -> None:
    found = samples()
    assert len(found) == 9
    assert all(sample.path.exists() and sample.story and sample.title for sample in found)
    assert sum(file.stat().st_size for sample in found for file in _files(sample.path)) < 6_000_000


def _files(path: Path) -> list[Path]:
    return [path] if path.is_file() else list(path.iterdir())


def test_the_newest_file_comes_first_and_only_once(tmp_path: Path) -> None:
    for name in ("a", "b", "a"):
        remember([tmp_path / name], f"verdict of {name}")
    assert [(recent.name, recent.verdict) for recent in recent_files()] == [
        ("a", "verdict of a"),
        ("b", "verdict of b"),
    ]
    assert not recent_files()[0].exists


def test_the_list_has_an_end(tmp_path: Path) -> None:
    for number in range(RECENT_LIMIT + 3):
        remember([tmp_path / str(number)])
    assert len(recent_files()) == RECENT_LIMIT


def test_ranks_opened_together_are_one_entry(tmp_path: Path) -> None:
    remember([tmp_path / "rank0.json", tmp_path / "rank1.json"])
    assert recent_files()[0].name == "rank0.json and 1 more"


def test_samples_are_remembered_like_other_files() -> None:
    sample = samples()[0].path
    remember([sample])
    assert [(recent.name, recent.exists) for recent in recent_files()] == [(sample.name, True)]


def test_the_list_can_be_emptied(tmp_path: Path) -> None:
    remember([tmp_path / "a"])
    forget_recent()
    assert recent_files() == []


@pytest.mark.parametrize("content", ["", "{", "[1]", '[{"paths": []}]', '{"a": 1}', "null"])
def test_a_damaged_list_is_empty(content: str) -> None:
    (data_folder() / "recent.json").write_text(content)
    assert recent_files() == []


def test_what_an_ended_program_left_open_is_told_once(tmp_path: Path) -> None:
    recording = tmp_path / "run.json"
    recording.write_text("{}")
    ended = subprocess.run(
        [sys.executable, "-c", "import os; print(os.getpid())"], capture_output=True, text=True
    )
    folder = data_folder() / "open"
    folder.mkdir()
    (folder / f"{ended.stdout.strip()}-1.json").write_text(json.dumps([str(recording)]))
    assert [recent.paths for recent in left_open()] == [(str(recording),)]
    assert left_open() == []


def test_what_a_running_program_shows_is_not_left_open(tmp_path: Path) -> None:
    recording = tmp_path / "run.json"
    recording.write_text("{}")
    note = OpenNote()
    note.write([recording])
    (data_folder() / "open" / f"{os.getppid()}-1.json").write_text(json.dumps([str(recording)]))
    assert left_open() == []
    note.remove()
    assert len(list((data_folder() / "open").iterdir())) == 1


@pytest.mark.parametrize("content", ["", "{", "[]", "3"])
def test_a_damaged_note_is_no_problem(content: str) -> None:
    folder = data_folder() / "open"
    folder.mkdir()
    (folder / "999999999-1.json").write_text(content)
    (folder / "no number.json").write_text(content)
    assert left_open() == []
