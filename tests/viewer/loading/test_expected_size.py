"""Which recordings are worth a process of their own is told by their size and their first bytes."""

from __future__ import annotations

from pathlib import Path

import pytest

from viewer.loading import apart
from viewer.loading.apart import is_large


@pytest.fixture(autouse=True)
def _limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(apart, "LARGE_BYTES", 1200)


@pytest.mark.parametrize(
    ("content", "large"),
    [
        (b"{" * 1199, False),
        (b"{" * 1200, True),
        (b"\x1f\x8b" + b"0" * 97, False),
        (b"\x1f\x8b" + b"0" * 98, True),
        (b"\x28\xb5\x2f\xfd" + b"0" * 96, True),
        (b"PK\x03\x04" + b"0" * 96, True),
    ],
)
def test_packed_files_count_as_what_is_in_them(tmp_path: Path, content: bytes, large: bool) -> None:
    path = tmp_path / "recording"
    path.write_bytes(content)
    assert is_large([path]) is large


def test_files_are_added_up_also_those_of_a_folder(tmp_path: Path) -> None:
    (tmp_path / "deeper").mkdir()
    paths = [tmp_path / "one", tmp_path / "deeper" / "two"]
    for path in paths:
        path.write_bytes(b"{" * 600)
    assert not is_large(paths[:1])
    assert is_large(paths)
    assert is_large([tmp_path])


def test_what_is_not_there_is_not_large(tmp_path: Path) -> None:
    assert not is_large([tmp_path / "absent"])
