"""Idle time is looked at some gaps at a time; how many they are changes nothing."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from parsers.model import Cancelled, Progress
from rules.analysis.analysis import Analysis
from rules.analysis.arithmetic.intervals import clip, length
from rules.analysis.idle import pieces as idle_pieces
from rules.analysis.idle.attribution import idle_of_device
from rules.analysis.idle.causes import Cause, idle_parts
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


@pytest.mark.parametrize(
    ("name", "pieces"), [(RECORDINGS[0], 300), *((name, 1 << 18) for name in RECORDINGS)]
)
def test_of_one_rank_of_many_idle_time_is_that_of_all_the_recording_and_unknown_beyond_it(
    fixtures: Path, name: str, pieces: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(idle_pieces, "PIECES_AT_ONCE", pieces)
    trace = opened(fixtures / name)
    alone, of_many = Analysis(trace), Analysis(trace, is_one_of_many=True)
    for column in set(COLUMNS) - {"culprit"}:
        assert np.array_equal(getattr(of_many.idle, column), getattr(alone.idle, column)), column
    assert list(map(of_many.idle.culprit_of, range(len(of_many.idle)))) == list(
        map(alone.idle.culprit_of, range(len(alone.idle)))
    )
    further = max((step.duration for step in alone.steps), default=0)
    whole = (-further, trace.duration + further)
    recorded = int(trace.events.start.min()), int(trace.events.end.max())
    for device in alone.active_devices:
        stopped = alone.interruptions(*alone.threads.drivers(device)[0])
        longer, _ = idle_of_device(trace, alone.threads, device, whole, alone.thresholds, Progress(), stopped)
        works = alone.span(device)
        expected, found = idle_parts(longer, device), of_many.idle_beyond(device)
        assert min(start[0] for start, _ in found.values() if len(start)) == whole[0]
        assert max(end[-1] for _, end in found.values() if len(end)) == whole[1]
        for cause in Cause:
            assert all(map(np.array_equal, clip(found[cause], *works), clip(expected[cause], *works))), cause
        unknown = found[Cause.UNKNOWN]
        for start, end in ((whole[0], recorded[0]), (recorded[1], whole[1])):
            assert length(clip(unknown, start, end)) == end - start  # nothing was recorded then


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
