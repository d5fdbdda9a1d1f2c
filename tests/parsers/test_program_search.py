"""Programs are found on PATH, never in the folder where somebody unpacked a recording."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from parsers.program_search import found_in, program

ENDINGS = [".EXE", ".BAT"]


def executable(folder: Path, name: str) -> Path:
    folder.mkdir(exist_ok=True)
    path = folder / name
    path.write_text("")
    path.chmod(0o700)
    return path


def test_a_program_in_the_current_folder_is_never_taken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    executable(tmp_path, "nsys.EXE")
    executable(tmp_path, "nsys")
    right = executable(tmp_path / "bin", "nsys.EXE")
    monkeypatch.chdir(tmp_path)
    assert found_in([".", "", str(tmp_path / "bin")], "nsys", ENDINGS) == str(right)
    assert found_in(["."], "nsys", ENDINGS) is None
    assert program("nsys", str(tmp_path / "none")) is None


def test_the_first_folder_of_the_path_and_a_stated_ending_win(tmp_path: Path) -> None:
    first, second = executable(tmp_path / "a", "ncu.BAT"), executable(tmp_path / "b", "ncu.EXE")
    folders = [str(first.parent), str(second.parent)]
    assert found_in(folders, "ncu", ENDINGS) == str(first)
    assert found_in(folders, "ncu.EXE", ENDINGS) == str(second)


def test_elsewhere_the_path_is_searched_as_always(tmp_path: Path) -> None:
    if os.name == "nt":
        assert program("cmd")
    else:
        assert program("nsys", str(executable(tmp_path / "bin", "nsys").parent)) == str(
            tmp_path / "bin" / "nsys"
        )
