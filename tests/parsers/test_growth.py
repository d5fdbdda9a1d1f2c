"""What a recording costs grows with what is in it, never with the square of that, and never far beyond its size."""

from __future__ import annotations

import contextlib
import time
from pathlib import Path

import pytest

from parsers import open_trace
from parsers.model import TraceError
from rules import diagnose
from tests import growing_recordings, unusual_recordings

MAKERS = {**growing_recordings.MAKERS, **unusual_recordings.MAKERS}

TIMES = 4
MAX_GROWTH = 9.0  # four times as much takes four times as long, or sixteen times
MIN_SECONDS = 0.08  # of processor time; what takes less tells more about the machine than about the recording

COUNTS = {
    "unmatched_pairs": 5_000, "buried_pairs": 5_000, "asynchronous_begins": 10_000, "streams": 1_000,
    "threads": 2_000, "processes": 3_000, "distinct_names": 3_000, "long_names": 2_000, "arrows": 2_000,
    "counters": 5_000, "quotes": 300_000, "control_characters": 400_000, "brackets": 400_000, "braces": 100_000,
    "backslashes": 400_000, "zstd_frames": 15_000, "gzip_members": 8_000, "smi_log_of_uuids": 1_500,
    "small_launches": 1_000, "header_and_spaces": 12_000, "appended_results": 400, "empty_results": 1_200,
    "printed_tables": 3_000,
    "rpd_threads": 8_000,
    "rpd_queues": 8_000, "nsys_metrics": 2_400, "nsys_streams": 3_000, "xplane_threads": 3_000, "xplane_lines": 3_000,
    "xplane_names": 3_000, "perfetto_tracks": 3_000, "perfetto_counters": 2_400, "perfetto_clocks": 2_000,
    "unclosed_slices": 30_000, "quotes_in_csv": 2_000_000, "rocprof_queues": 5_000, "distinct_frames": 8_000,
    "ncu_same_launch": 2_500,
}  # fmt: skip


def cost(path: Path) -> float:
    """Processor time of reading and judging a file, s; what cannot be used is refused, which is a result as well."""
    before = time.process_time()
    with contextlib.suppress(TraceError):
        diagnose(open_trace([path]))
    return time.process_time() - before


DAILY = (  # one way to grow for each way to read
    "unmatched_pairs", "distinct_names", "brackets", "zstd_frames", "gzip_members", "smi_log_of_uuids",
    "appended_results", "nsys_streams", "xplane_names", "small_launches",
)  # fmt: skip


@pytest.mark.parametrize(
    ("name", "count"),
    [pytest.param(*each, marks=() if each[0] in DAILY else pytest.mark.thorough) for each in COUNTS.items()],
)
def test_four_times_as_much_takes_about_four_times_as_long(tmp_path: Path, name: str, count: int) -> None:
    small, large = tmp_path / "small", tmp_path / "large"
    large.write_bytes(MAKERS[name](count * TIMES))
    of_large = cost(large)
    if of_large < MIN_SECONDS * MAX_GROWTH:  # whatever the small one takes
        return
    small.write_bytes(MAKERS[name](count))
    of_small = cost(small)
    if of_large >= max(of_small, MIN_SECONDS) * MAX_GROWTH:  # once more, for the machine may have been busy
        of_small, of_large = min(of_small, cost(small)), min(of_large, cost(large))
    assert of_large < max(of_small, MIN_SECONDS) * MAX_GROWTH


@pytest.mark.parametrize(
    ("name", "count", "said"),
    [
        ("devices", 257, "more than 256 GPUs"),
        ("empty_launches", 300_000, "a launch is empty"),
        ("small_launches", 20_000, "more than 10,000 launches"),
        ("empty_names", 600_000, "impossibly long"),
        ("empty_sources", 1_000_000, "more than 10,000 pieces of code"),
        ("smi_log_of_uuids", 25_000, "more than 20,000 readings"),
        ("small_traces", 300, "more than 256 files"),
        ("shared_lists", 400, "more than 100,000 blocks"),
        ("shared_histories", 1_000, "more than 100,000 events"),
        ("rpd_threads", 40_001, "more than 40,000 lanes"),
        ("nsys_metrics", 10_001, "more than 10,000 counters"),
        ("comparisons", 20_001, "more than 20,000 tables"),
        ("printed_tables", 20_001, "more than 20,000 tables"),
        ("xplane_hosts", 2_001, "more than 2,000 planes"),
    ],
)
def test_more_of_something_than_any_recording_has_is_refused_with_its_number(
    tmp_path: Path, name: str, count: int, said: str
) -> None:
    path = tmp_path / "run"
    path.write_bytes(MAKERS[name](count))
    with pytest.raises(TraceError, match=said):
        open_trace([path])
