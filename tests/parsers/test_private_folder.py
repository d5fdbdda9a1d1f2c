"""Nothing that was unpacked outlives its owner for long, and nobody else's folder is touched."""

from __future__ import annotations

import subprocess
import sys
import tempfile
import weakref
from pathlib import Path

import pytest

from parsers.files.private_folder import PREFIX, PrivateFolder, clear_abandoned


@pytest.fixture(autouse=True)
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder for what is temporary, here and in processes that are started."""
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setenv("TMPDIR", str(folder))
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    return folder


def test_it_goes_with_its_object_and_whatever_is_in_it(temporary: Path) -> None:
    folder = PrivateFolder()
    (folder.path / "deep").mkdir()
    (folder.path / "deep" / "unpacked").write_bytes(b"1")
    assert folder.path.stat().st_mode & 0o777 == 0o700
    del folder
    assert not list(temporary.iterdir())


def test_all_can_be_removed_while_they_are_held(temporary: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        PrivateFolder, "_all", weakref.WeakSet()
    )  # other tests of this process hold some, too
    held = [PrivateFolder(), PrivateFolder()]
    PrivateFolder.remove_all()
    assert list(temporary.iterdir()) == []
    del held


def test_what_a_killed_process_left_goes_at_the_next_start(temporary: Path, repository: Path) -> None:
    code = (
        f"import sys; sys.path.insert(0, {str(repository)!r})\n"
        "from parsers.files.private_folder import PrivateFolder\n"
        "folder = PrivateFolder(); (folder.path / 'unpacked').write_bytes(b'1')\n"
        "print(folder.path, flush=True); sys.stdin.read()"
    )
    mine = PrivateFolder()
    with subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as other:
        assert other.stdout is not None
        left = Path(other.stdout.readline().strip())
        clear_abandoned()
        assert (left / "unpacked").exists(), "its owner lives"
        other.kill()
        other.wait()
        assert (left / "unpacked").exists()
    clear_abandoned()
    assert list(temporary.iterdir()) == [mine.path]


def test_what_carries_no_owner_or_is_a_link_stays(temporary: Path, tmp_path: Path) -> None:
    (temporary / f"{PREFIX}without").mkdir()
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "owner").write_bytes(b"")
    (temporary / f"{PREFIX}link").symlink_to(elsewhere)
    (temporary / "stallscope").mkdir()
    (temporary / "stallscope" / "owner").write_bytes(b"")
    clear_abandoned()
    assert len(list(temporary.iterdir())) == 3
    assert (elsewhere / "owner").exists()
