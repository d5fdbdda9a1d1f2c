"""Clocks that disagree: what is corrected, what is only stated, and which error is said to remain."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from parsers import open_trace
from parsers.chrome.build.device_clock import move_device_clock
from parsers.model import Effect, EventKind, QualityRecorder, Trace
from parsers.ranks.rank_clocks import ClockOffset, Collectives, offset_between
from tests.parsers.chrome.traces import kernel, note, text_of

# The cases lie on either side of these.
SKEW_TO_SPREAD = 8
APART_NS = 1_000_000_000
LATEST_START_NS = 3_600_000_000_000
CLEAR_SKEW_NS = 50_000

BASE = 1_700_000_000_000_000_000
NCCL = "ncclDevKernel_AllReduce_Sum_f32"


@pytest.mark.parametrize(
    ("median_ns", "spread_ns", "clear"),
    [
        (CLEAR_SKEW_NS, 0, False),
        (CLEAR_SKEW_NS + 1, 0, True),
        (-CLEAR_SKEW_NS - 1, 0, True),
        (8 * 50_000, 50_000, False),
        (8 * 50_000 + 1, 50_000, True),
    ],
)
def test_a_skew_is_clear_above_what_collectives_differ_by(
    median_ns: int, spread_ns: int, clear: bool
) -> None:
    assert ClockOffset(median_ns, spread_ns, 20).is_clear_skew is clear
    assert SKEW_TO_SPREAD == 8  # docs/formats.md says eight


@pytest.mark.parametrize(("sooner", "offset"), [(128, 7_000), (129, None)])
@pytest.mark.parametrize("earlier", ["first", "other"])
def test_a_rank_may_have_recorded_some_collectives_before_another_began(
    sooner: int, offset: int | None, earlier: str
) -> None:
    ends = np.cumsum(np.random.default_rng(5).integers(100_000, 900_000, 400)) + 10**9
    every = Collectives(ends, np.arange(400), np.zeros(400, np.int64))
    later = Collectives(ends[sooner:] + 7_000, every.names[sooner:], every.groups[sooner:])
    ranks = (every, later) if earlier == "first" else (later, every)
    found = offset_between(*ranks)
    assert (found and abs(found.median_ns)) == offset


def run_of(folder: Path, late_us: float, wobble_us: float) -> Trace:
    """Two ranks; the second one's collectives end ``late_us`` late, some of them more and some less."""
    for rank in range(2):
        events = [
            kernel(NCCL, 1000 + 1000 * n + rank * (late_us + wobble_us * (n % 3 - 1)), 100, 0, 20)
            for n in range(20)
        ]
        about = {"distributedInfo": {"rank": rank, "world_size": 2}}
        text = text_of(events, schemaVersion=1, baseTimeNanoseconds=BASE, **about)
        (folder / f"{rank}.json").write_text(text)
    trace = open_trace([folder])
    return trace


def test_the_error_of_a_clock_that_stays_is_its_offset_and_its_spread(tmp_path: Path) -> None:
    trace = run_of(tmp_path, 40, 10)
    assert note(trace, "clock-offset") == (1, Effect.NOTED)
    assert [rank.clock_error_ns for rank in trace.ranks] == [0, 50_000]


def test_the_error_of_a_corrected_clock_is_its_spread(tmp_path: Path) -> None:
    trace = run_of(tmp_path, 400, 10)
    assert note(trace, "clock-skew") == (1, Effect.REPAIRED)
    assert [rank.clock_error_ns for rank in trace.ranks] == [0, 10_000]


@pytest.mark.parametrize(
    ("delay", "moved"),
    [(-APART_NS + 1, False), (-APART_NS, True), (LATEST_START_NS - 1, False), (LATEST_START_NS, True)],
)
def test_a_device_clock_moves_only_where_it_cannot_be_of_the_same_time_base(delay: int, moved: bool) -> None:
    calls = np.arange(10, dtype=np.int64) * 1000
    start = np.concatenate([calls, calls + delay])
    kind = np.repeat([EventKind.API, EventKind.KERNEL], 10).astype(np.uint8)
    correlation = np.tile(np.arange(1, 11), 2)
    quality = QualityRecorder()
    move_device_clock(start, kind, np.arange(20), correlation, quality)
    assert (start[10:] == calls).all() == moved
    assert len(quality.quality().notes) == moved
