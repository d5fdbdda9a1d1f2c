"""Places of calls that the recorder noted are read from the file's head, and what is no place is left out."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from parsers import open_trace
from parsers.model.lanes import CallPlace
from parsers.storage import traces
from tests.parsers.chrome.traces import complete, text_of, trace_of

EVENTS = [complete("data", 0, 10, "user_annotation"), complete("aten::mm", 20, 10)]
PLACE = ["data", "/run/train.py", 38, "main", 4]


def test_places_are_read_and_kept(tmp_path: Path) -> None:
    trace = trace_of(tmp_path, EVENTS, schemaVersion=1, stallscopePlaces=[PLACE])
    assert trace.capture.places == (CallPlace("data", "/run/train.py", 38, "main", 4),)
    traces.write(tmp_path / "entry", trace)
    assert traces.read(tmp_path / "entry", ()).capture == trace.capture


@pytest.mark.parametrize(
    "listed",
    [
        None, 7, "data", {"data": 1}, [PLACE[:4]], [[*PLACE, 1]], [["data", "/run/train.py", "38", "main", 4]],
        [["data", "/run/train.py", 0, "main", 4]], [["data", "/run/train.py", 38, "main", 0]],
        [["data", "/run/train.py", True, "main", 4]], [[None, "/run/train.py", 38, "main", 4]],
    ],
)  # fmt: skip
def test_what_is_no_place_is_left_out(tmp_path: Path, listed: Any) -> None:
    trace = trace_of(tmp_path, EVENTS, schemaVersion=1, stallscopePlaces=listed)
    assert trace.capture.places == ()
    assert len(trace.events) == 2


def test_a_file_that_lists_endlessly_many_keeps_a_part_of_them_and_of_their_names(tmp_path: Path) -> None:
    listed = [["n", "f", line, "g", 1] for line in range(1, 1_500)]
    listed[0] = ["n" * 5_000, "f" * 50_000, 1, "g" * 5_000, 1]
    places = trace_of(tmp_path, EVENTS, schemaVersion=1, stallscopePlaces=listed).capture.places
    assert len(places) == 1_000
    assert (len(places[0].name), len(places[0].file), len(places[0].function)) == (200, 4_096, 200)


def test_the_places_of_all_ranks_are_those_of_the_run(tmp_path: Path) -> None:
    for rank in range(2):
        listed = [["data", "/run/train.py", 38 + rank, "main", 4]]
        keys = {
            "schemaVersion": 1,
            "distributedInfo": {"rank": rank, "world_size": 2},
            "stallscopePlaces": listed,
        }
        (tmp_path / f"run.rank{rank}.json").write_text(text_of(EVENTS, **keys))
    trace = open_trace(sorted(tmp_path.glob("*.json")))
    assert [each.line for each in trace.capture.places] == [38, 39]
