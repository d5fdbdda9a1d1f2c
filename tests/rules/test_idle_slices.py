"""Idle time is looked at some gaps at a time; how many they are changes nothing."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from parsers.model import Cancelled, Progress
from rules.analysis.analysis import Analysis
from rules.analysis.idle import pieces as idle_pieces
from tests.opened import opened

COLUMNS = ("start", "end", "device", "cause", "culprit", "event", "next_operation")
RECORDINGS = (
    "pairs/python_gap.pt.trace.json.gz",
    "pairs/alloc_empty.sqlite.gz",
    "torch/memory_stack.pt.trace.json.gz",
    "nsys/decode_graph.sqlite.gz",
)


@pytest.mark.parametrize(("name", "pieces"), [(RECORDINGS[2], 1), *((name, 300) for name in RECORDINGS)])
def test_idle_time_has_the_same_causes_and_culprits_however_many_gaps_are_looked_at_at_once(
    fixtures: Path, name: str, pieces: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    trace = opened(fixtures / name)
    whole = Analysis(trace).idle
    assert len(whole) > 100
    monkeypatch.setattr(idle_pieces, "PIECES_AT_ONCE", pieces)
    sliced = Analysis(trace).idle
    assert sliced.culprits == whole.culprits
    for column in COLUMNS:
        assert np.array_equal(getattr(sliced, column), getattr(whole, column)), column


def test_a_diagnosis_can_be_stopped_between_any_two_slices(
    fixtures: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(idle_pieces, "PIECES_AT_ONCE", 300)
    trace = opened(fixtures / RECORDINGS[0])
    said: list[float] = []
    progress = Progress(lambda fraction, _: said.append(fraction) if fraction < 0.7 else progress.cancel())
    with pytest.raises(Cancelled):
        Analysis(trace).prepare(progress)
    assert sum(0.5 < fraction < 0.7 for fraction in said) > 3


@pytest.mark.parametrize(
    ("launches", "apart_ns", "pause_ns"),
    [(19, 150_000, 50_000), (20, 150_000, 1_500_000), (20, 250_000, 2_000_000), (20, 1_000, 50_000)],
    ids=[
        "too few to tell",
        "ten times the usual",
        "no more than two milliseconds",
        "no less than was asked for",
    ],
)
def test_a_pause_between_launches_is_their_cost_where_it_is_near_the_usual(
    launches: int, apart_ns: int, pause_ns: int
) -> None:
    launched = np.arange(launches, dtype=np.int64) * apart_ns
    assert idle_pieces._longest_launch_pause(launched, 50_000.0) == pause_ns
