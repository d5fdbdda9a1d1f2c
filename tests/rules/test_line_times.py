"""For how much of the analysed time each line of a file was running: on any thread, once where it calls itself."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from parsers import open_trace
from parsers.model import EventKind, Lane, LaneKind, Trace
from parsers.model.builder import TraceBuilder
from rules.analysis.analysis import Analysis
from rules.source_lines import line_shares

MS = 1_000_000
FEED = Path(__file__).parents[1] / "fixtures" / "stacks" / "feed.chrome.json"


def recorded(*frames: tuple[int, str, int, int], kind: EventKind = EventKind.SAMPLED_FRAME) -> Trace:
    """Frames as thread, name, first and last ms; both threads have an operator of all 100 ms."""
    builder = TraceBuilder()
    for thread in (1, 2):
        lane = builder.lane(Lane(LaneKind.CPU_THREAD, f"Thread {thread}", process=1, thread=thread))
        whole = np.array([0, 50], np.int64) * MS
        builder.add(whole, whole + 50 * MS, builder.string("aten::mm"), lane, EventKind.CPU_OP)
        own = builder.lane(Lane(LaneKind.PYTHON, f"Python {thread}", process=1, thread=thread))
        for its, name, first, last in frames:
            if its == thread:
                start, end = np.array([[first], [last]], np.int64) * MS
                builder.add(start, end, builder.string(name), own, kind)
    builder.quality.read(4 + len(frames))
    return builder.build()


@pytest.mark.parametrize("kind", [EventKind.SAMPLED_FRAME, EventKind.PYTHON])
def test_a_line_has_the_time_of_what_it_calls_and_a_file_only_its_own(kind: EventKind) -> None:
    trace = recorded(
        (1, "/run/train.py(3): main", 0, 80), (1, "/run/train.py(9): load", 10, 30), (1, "/run/net.py(9): f", 40, 60),
        kind=kind,
    )  # fmt: skip
    analysis = Analysis(trace)
    assert line_shares(analysis, "/run/train.py") == pytest.approx({3: 0.8, 9: 0.2})
    assert line_shares(analysis, "/run/net.py") == pytest.approx({9: 0.2})
    assert line_shares(analysis, "/run/none.py") == {}


def test_two_threads_at_a_line_or_a_line_inside_itself_count_once() -> None:
    trace = recorded(
        (1, "/run/train.py(3): f", 0, 40), (1, "/run/train.py(3): f", 10, 20), (2, "/run/train.py(3): f", 30, 60)
    )  # fmt: skip
    assert line_shares(Analysis(trace), "/run/train.py") == pytest.approx({3: 0.6})


def test_the_sampled_program_spends_its_time_where_its_source_says() -> None:
    source = (FEED.parent / "feed.py").read_text().splitlines()
    shares = line_shares(Analysis(open_trace([FEED])), "/tmp/cpu/feed.py")
    costly = [source[line - 1] for line, share in shares.items() if share > 0.5]
    assert any("zlib.compress" in line for line in costly)
    assert any("json.loads" in line for line in costly)
    assert all(0 < share <= 1 for share in shares.values())
