"""Sessions: bookmarks, notes and lane arrangements survive, and damaged files are said to be damaged."""

from __future__ import annotations

import os
import sqlite3
from pathlib import Path

import pytest

from viewer.user_data.session import Session, SessionError, is_session, session_path, shared_session
from viewer.user_data.storage import data_folder


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


def strangers(path: Path, recording: Path, *statements: str) -> Path:
    """A session with a bookmark, to which somebody did something."""
    session = Session(path, [recording])
    session.add(1, 2, "theirs")
    session.keep("lanes", {"compact": True})
    session.close()
    connection = sqlite3.connect(path)
    for statement in statements:
        connection.execute(statement)
    connection.commit()
    connection.close()
    return path


ENDLESS = "WITH RECURSIVE r(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM r)"


def test_bookmarks_that_are_a_view_are_never_asked(recording: Path, tmp_path: Path) -> None:
    path = strangers(
        tmp_path / "x.stallscope",
        recording,
        "DROP TABLE bookmarks",
        f"CREATE VIEW bookmarks AS {ENDLESS} SELECT n AS id, n AS start, n AS end, n AS title FROM r",
    )
    session = Session(path)
    assert session.recordings == (recording,)
    assert session.bookmarks() == []
    assert session.kept("lanes") == {"compact": True}


def test_what_a_stranger_defined_is_gone_once_something_is_kept(recording: Path, tmp_path: Path) -> None:
    path = strangers(
        tmp_path / "x.stallscope",
        recording,
        "CREATE TRIGGER t AFTER INSERT ON bookmarks BEGIN DELETE FROM bookmarks; END",
    )
    session = Session(path)
    session.add(3, 4, "mine")
    assert [mark.title for mark in session.bookmarks()] == ["theirs", "mine"]
    assert session.recordings == (recording,)
    assert session.kept("lanes") == {"compact": True}
    session.close()
    assert sorted(file.name for file in tmp_path.iterdir()) == ["run.json", "x.stallscope"]


@pytest.mark.parametrize(
    "values", ["'a', 2, 'x', '', -1", "1, NULL, 'x', '', -1", "1, 2, 7, '', -1", "1, 2, 'x', '', 'y'"]
)
def test_a_row_that_is_no_bookmark_is_left_out_and_counted(
    recording: Path, tmp_path: Path, values: str
) -> None:
    path = strangers(
        tmp_path / "x.stallscope",
        recording,
        "DROP TABLE bookmarks",
        "CREATE TABLE bookmarks (id INTEGER PRIMARY KEY, start, end, title, note, event)",
        "INSERT INTO bookmarks VALUES (1, 1, 2, 'theirs', '', -1)",
        f"INSERT INTO bookmarks VALUES (2, {values})",
    )
    session = Session(path)
    assert [mark.title for mark in session.bookmarks()] == ["theirs"]
    assert session.left_out == 1


@pytest.mark.parametrize(
    "stated",
    ["'" + "[" * 100_000 + "'", "'{}'", "'[1]'", "NULL", "x'ff'"],
    ids=["deep", "other", "numbers", "none", "bytes"],
)
def test_a_session_that_names_no_recording_is_one_plain_sentence(
    recording: Path, tmp_path: Path, stated: str
) -> None:
    path = strangers(
        tmp_path / "x.stallscope", recording, f"UPDATE stallscope_session SET recordings = {stated}"
    )
    with pytest.raises(SessionError, match="does not say which recording"):
        _ = Session(path).recordings


@pytest.mark.parametrize("stated", ["'" + "[" * 100_000 + "'", "'[]'", "3"], ids=["deep", "list", "number"])
def test_an_arrangement_that_is_none_is_ignored(recording: Path, tmp_path: Path, stated: str) -> None:
    path = strangers(tmp_path / "x.stallscope", recording, f"UPDATE settings SET value = {stated}")
    assert Session(path).kept("lanes") == {}


def test_a_pipe_is_no_session(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "x.stallscope")
    assert not is_session(tmp_path / "x.stallscope")


def test_asking_whether_a_file_is_a_session_writes_nothing_beside_it(recording: Path, tmp_path: Path) -> None:
    folder = tmp_path / "theirs"
    folder.mkdir()
    path = strangers(folder / "x.stallscope", recording, "PRAGMA journal_mode = WAL")
    os.utime(folder, ns=(0, 0))
    assert is_session(path)
    assert Session(path).bookmarks()
    assert folder.stat().st_mtime_ns == 0


def test_a_folder_that_is_moved_keeps_its_notes_and_names_nobodys_folders(
    recording: Path, tmp_path: Path
) -> None:
    notes = tmp_path / "run" / "notes.stallscope"
    notes.parent.mkdir()
    moved = tmp_path / "elsewhere"
    inside = recording.rename(notes.parent / recording.name)
    session = Session(session_path([inside]), [inside])
    session.add(1, 2, "a")
    session.copy_to(notes).close()
    assert str(tmp_path).encode() not in notes.read_bytes()
    notes.parent.rename(moved)
    assert Session(moved / notes.name).recordings == (moved / inside.name,)
    assert shared_session([moved / inside.name]) == moved / notes.name
    assert shared_session([recording]) is None


def test_a_recording_that_was_moved_beside_its_session_is_found(recording: Path, tmp_path: Path) -> None:
    session = Session(session_path([recording]), [recording])
    session.add(1, 2, "a")
    folder = tmp_path / "shared"
    folder.mkdir()
    copy = session.copy_to(folder / "notes.stallscope")
    recording.rename(folder / recording.name)
    assert Session(copy.path).recordings == (folder / recording.name,)


def test_a_rewritten_session_still_names_its_recordings_from_its_own_place(
    recording: Path, tmp_path: Path
) -> None:
    path = tmp_path / "theirs.stallscope"
    session = Session(path, [recording])
    session.add(1, 2, "a")
    session.close()
    with sqlite3.connect(path) as database:
        database.execute("CREATE TABLE more (id)")
    database.close()
    again = Session(path)
    again.add(3, 4, "b")
    again.close()
    assert again.recordings == (recording,)
    assert str(tmp_path).encode() not in path.read_bytes()
