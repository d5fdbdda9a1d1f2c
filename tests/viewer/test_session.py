"""Sessions: bookmarks, notes and lane arrangements survive, and damaged files are said to be damaged."""

from __future__ import annotations

from pathlib import Path

import pytest

from viewer.kept.session import Session, SessionError, is_session, session_path
from viewer.kept.storage import data_folder


@pytest.fixture
def recording(tmp_path: Path) -> Path:
    path = tmp_path / "run.json"
    path.write_text("{}")
    return path


def test_bookmarks_come_back_by_time_with_their_notes(recording: Path) -> None:
    session = Session(session_path([recording]), [recording])
    late = session.add(900, 1000, "late")
    session.add(100, 200, "early", event=7)
    session.change(late.id, note="look here")
    session.close()
    again = Session(session_path([recording]), [recording]).bookmarks()
    assert [(mark.title, mark.start, mark.end, mark.note, mark.event) for mark in again] == [
        ("early", 100, 200, "", 7),
        ("late", 900, 1000, "look here", -1),
    ]


def test_a_removed_bookmark_is_gone(recording: Path) -> None:
    session = Session(session_path([recording]), [recording])
    session.remove(session.add(1, 2, "a").id)
    assert session.bookmarks() == []


def test_nothing_is_written_before_something_is_kept(recording: Path) -> None:
    session = Session(session_path([recording]), [recording])
    assert session.bookmarks() == []
    assert session.kept("lanes") == {}
    assert not session.path.exists()
    assert [path.name for path in recording.parent.iterdir()] == ["run.json"]


def test_the_session_lies_in_the_data_folder_and_the_order_of_ranks_does_not_matter(tmp_path: Path) -> None:
    ranks = [tmp_path / "rank0.json", tmp_path / "rank1.json"]
    assert session_path(ranks) == session_path(ranks[::-1])
    assert session_path(ranks) != session_path(ranks[:1])
    assert session_path(ranks).is_relative_to(data_folder())


def test_the_arrangement_of_lanes_is_kept(recording: Path) -> None:
    session = Session(session_path([recording]), [recording])
    session.keep("lanes", {"pinned": ["a"]})
    session.keep("lanes", {"pinned": ["b"], "compact": True})
    assert Session(session.path).kept("lanes") == {"pinned": ["b"], "compact": True}


def test_a_copy_knows_its_recordings_and_is_recognised_by_content(recording: Path, tmp_path: Path) -> None:
    session = Session(session_path([recording]), [recording])
    session.add(1, 2, "a")
    copy = session.copy_to(tmp_path / "notes.anything")
    assert is_session(copy.path)
    assert Session(copy.path).recordings == (recording,)
    assert [mark.title for mark in copy.bookmarks()] == ["a"]


@pytest.mark.parametrize("content", [b"", b"{}", b"SQLite format 3\x00 and then rubbish"])
def test_other_files_are_no_sessions(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "x.stallscope"
    path.write_bytes(content)
    assert not is_session(path)


def test_a_damaged_session_is_one_plain_sentence(recording: Path) -> None:
    path = session_path([recording])
    path.parent.mkdir(parents=True)
    path.write_bytes(b"this is no database, and long enough to be looked at" * 40)
    with pytest.raises(SessionError, match="cannot be used as a session"):
        Session(path, [recording]).bookmarks()
