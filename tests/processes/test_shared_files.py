"""A recording that several commands read at once, or that somebody changes while it is read."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.processes.answers import assert_answered, assert_answered_or_refused
from tests.processes.place import Place
from tests.processes.recordings import SMALL, Recordings

MOMENTS = (0.1, 0.25, 0.4, 0.55, 0.7, 0.85)
AT_ONCE = 3


def copied(place: Place, recording: Path) -> Path:
    """One that may be changed."""
    path = place.given / recording.name
    shutil.copy(recording, path)
    place.names.add(path.name)
    return path


def test_several_at_once_answer_as_one_alone(place: Place, recordings: Recordings) -> None:
    same_at_once(recordings.json(SMALL), place)


@pytest.mark.thorough
@pytest.mark.parametrize("kind", ["json", "packed", "archive", "database"])
def test_several_at_once_answer_as_one_alone_about_large_recordings(
    kind: str, place: Place, recordings: Recordings
) -> None:
    same_at_once(getattr(recordings, kind)(), place)


def same_at_once(recording: Path, place: Place) -> None:
    words = ("diagnose", place.give(recording), "--json")
    alone = place.run(*words)
    assert_answered(alone)
    shutil.rmtree(place.cache, ignore_errors=True)
    with ExitStack() as stack:
        running = [stack.enter_context(place.started(*words)) for _ in range(AT_ONCE)]
        done = [each.done() for each in running]
    assert [each.out == alone.out for each in done] == [True] * AT_ONCE, [each.err for each in done]
    again = place.run(*words)
    assert again.out == alone.out


def grow(path: Path) -> None:
    with path.open("ab") as file:
        file.write(b" " * 1_000_000)


def shrink(path: Path) -> None:
    os.truncate(path, path.stat().st_size // 3)


def vanish(path: Path) -> None:
    path.unlink()


def empty(path: Path) -> None:
    os.truncate(path, 0)


def become_another(path: Path) -> None:
    """In its place, and in the same moment."""
    other = path.with_name("other")
    other.write_bytes(b'{"traceEvents": []}')
    other.replace(path)


CHANGES = (grow, shrink, vanish, empty, become_another)
KINDS = ("json", "packed", "archive", "database")


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.thorough
@pytest.mark.timeout(1800)
def test_a_file_that_changes_while_it_is_read(
    kind: str, change: Callable[[Path], None], place: Place, recordings: Recordings
) -> None:
    first = (KINDS.index(kind) + CHANGES.index(change)) % 2
    changed_at(MOMENTS[first::2], getattr(recordings, kind)(), change, place)


@pytest.mark.thorough
def test_a_small_file_that_shrinks_while_it_is_read(place: Place, recordings: Recordings) -> None:
    """By one process; larger ones are read by two."""
    changed_at(MOMENTS[3:4], recordings.json(SMALL), shrink, place)


def changed_at(
    moments: tuple[float, ...], recording: Path, change: Callable[[Path], None], place: Place
) -> None:
    """Whatever is told of it, nothing of it is taken later for the file that is there then."""
    path = copied(place, recording)
    seconds = place.run("diagnose", path, "--json").seconds
    for moment in moments:
        shutil.rmtree(place.cache, ignore_errors=True)
        path.unlink(missing_ok=True)
        shutil.copy(recording, path)
        with place.started("diagnose", path, "--json") as running:
            time.sleep(seconds * moment)
            change(path)
            assert_answered_or_refused(running.done())
        later = place.run("diagnose", path, "--json")
        shutil.rmtree(place.cache, ignore_errors=True)
        anew = place.run("diagnose", path, "--json")
        assert (later.code, later.out, later.err) == (anew.code, anew.out, anew.err), moment
        assert_answered_or_refused(anew)


def test_what_is_read_from_a_pipe_is_read_once(place: Place, recordings: Recordings) -> None:
    path = place.give(recordings.json(SMALL))
    usual = place.run("diagnose", path)
    done = place.run("diagnose", "-", given=path.read_bytes())
    assert_answered(done)
    assert done.out.splitlines()[0] == usual.out.splitlines()[0]
