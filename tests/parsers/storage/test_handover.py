"""A trace that one process wrote is the same for another one that maps it."""

from __future__ import annotations

import shutil
import zipfile
from dataclasses import replace
from pathlib import Path

import pytest

from parsers import open_trace
from parsers.model import Trace
from parsers.storage import cache
from parsers.storage.handover import CannotHandOver, hand_over, take_over
from tests.examples import one_of
from tests.parsers.traces import assert_same

RECORDINGS = (
    "torch/memory_stack.pt.trace.json.gz",
    "nsys/decode_graph.sqlite.gz",
    "ncu/kernels.ncu-rep.gz",
    "smi/query.csv",
    "ddp",
)


@pytest.mark.parametrize("name", one_of(3, RECORDINGS))
def test_a_trace_comes_over_with_all_that_can_be_seen_of_it(
    fixtures: Path, tmp_path: Path, name: str
) -> None:
    trace = open_trace([fixtures / name])
    assert_same(trace, take_over(hand_over(trace, tmp_path)))


def test_a_large_trace_comes_over_through_the_cache(
    fixtures: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cache, "MIN_EVENTS", 1)
    path = fixtures / RECORDINGS[0]
    handed = hand_over(open_trace([path]), tmp_path)
    assert Path(handed.file).parent == cache.folder()
    assert not list(tmp_path.iterdir())
    assert_same(open_trace([path]), take_over(handed))


def test_arguments_of_an_unpacked_archive_come_from_where_it_was_unpacked(
    fixtures: Path, tmp_path: Path
) -> None:
    archive = tmp_path / "ranks.zip"
    with zipfile.ZipFile(archive, "w") as file:
        for path in sorted((fixtures / "ddp").iterdir())[:2]:
            file.write(path, path.name)
    trace = open_trace([archive])
    assert_same(trace, take_over(hand_over(trace, tmp_path)))


def test_a_file_that_was_replaced_has_no_arguments(fixtures: Path, tmp_path: Path) -> None:
    path = tmp_path / "run.json.gz"
    shutil.copyfile(fixtures / RECORDINGS[0], path)
    handed = hand_over(open_trace([path]), tmp_path)
    shutil.copyfile(fixtures / "torch/decode_graph.pt.trace.json.gz", path)
    trace = take_over(handed)
    assert all(trace.arguments(event) == {} for event in range(0, len(trace.events), 1000))


def test_no_room_is_said(fixtures: Path, tmp_path: Path) -> None:
    trace = open_trace([fixtures / RECORDINGS[0]])
    with pytest.raises(CannotHandOver, match="could not be written"):
        hand_over(trace, tmp_path / "gone")


def test_a_cache_that_cannot_be_written_is_done_without(
    fixtures: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "cache").write_text("a file where the folder should be")
    monkeypatch.setattr(cache, "folder", lambda: tmp_path / "cache" / "traces")
    monkeypatch.setattr(cache, "MIN_EVENTS", 1)
    path, folder = fixtures / RECORDINGS[0], tmp_path / "private"
    folder.mkdir()
    trace = open_trace([path])
    handed = hand_over(trace, folder)
    assert Path(handed.file).parent.parent == folder
    assert_same(trace, take_over(handed))


def test_arguments_that_only_this_process_can_fetch_are_not_handed_over(
    fixtures: Path, tmp_path: Path
) -> None:
    class OfThisProcess:
        def arguments(self, source_row: int) -> dict[str, object]:
            return {}

    trace: Trace = replace(open_trace([fixtures / RECORDINGS[0]]), sources=(OfThisProcess(),))
    with pytest.raises(CannotHandOver, match="arguments"):
        hand_over(trace, tmp_path)


def test_a_packed_database_that_is_opened_again_keeps_its_arguments(fixtures: Path) -> None:
    path = fixtures / "nsys/decode_graph.sqlite.gz"
    first, again = open_trace([path]), open_trace([path])
    assert first.arguments(0) == again.arguments(0) != {}
