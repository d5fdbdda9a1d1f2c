"""What a recording costs grows with what is in it, never with the square of that, and never far beyond its size."""

from __future__ import annotations

import contextlib
import time
from pathlib import Path

import pytest

from parsers import open_trace
from parsers.model import TraceError
from parsers.model.builder import MOST_DEVICES
from rules import diagnose
from tests.growing_recordings import MAKERS

TIMES = 4
MOST_GROWTH = 9.0  # four times as much takes four times as long, or sixteen times
LEAST_S = 0.08  # of processor time; what takes less tells more about the machine than about the recording

COUNTS = {
    "unmatched_pairs": 5_000, "buried_pairs": 5_000, "asynchronous_begins": 10_000, "streams": 1_000,
    "threads": 2_000, "processes": 3_000, "distinct_names": 3_000, "long_names": 2_000, "arrows": 2_000,
    "counters": 5_000, "quotes": 300_000, "control_characters": 400_000, "brackets": 400_000, "braces": 100_000,
    "backslashes": 400_000, "zstd_frames": 15_000, "gzip_members": 8_000, "smi_log_of_uuids": 1_500,
    "small_launches": 1_000,
}  # fmt: skip


def cost(path: Path) -> float:
    """Processor time of reading and judging a file, s; what cannot be used is refused, which is a result as well."""
    before = time.process_time()
    with contextlib.suppress(TraceError):
        diagnose(open_trace([path]))
    return time.process_time() - before


@pytest.mark.parametrize(("name", "count"), COUNTS.items())
def test_four_times_as_much_takes_about_four_times_as_long(tmp_path: Path, name: str, count: int) -> None:
    small, large = tmp_path / "small", tmp_path / "large"
    small.write_bytes(MAKERS[name](count))
    large.write_bytes(MAKERS[name](count * TIMES))
    once = cost(small), cost(large)
    if once[1] >= max(once[0], LEAST_S) * MOST_GROWTH:  # once more, for the machine may have been busy
        once = min(once[0], cost(small)), min(once[1], cost(large))
    assert once[1] < max(once[0], LEAST_S) * MOST_GROWTH


@pytest.mark.parametrize(
    ("name", "count", "said"),
    [
        ("devices", MOST_DEVICES + 1, "more than 1,024 GPUs"),
        ("empty_launches", 300_000, "a launch holds nothing"),
        ("small_launches", 20_000, "more than 10,000 launches"),
        ("empty_names", 600_000, "impossibly long"),
        ("empty_sources", 1_000_000, "more than 10,000 pieces of code"),
        ("smi_log_of_uuids", 25_000, "more than 20,000 readings"),
    ],
)
def test_more_of_something_than_any_recording_has_is_refused_with_its_number(
    tmp_path: Path, name: str, count: int, said: str
) -> None:
    path = tmp_path / "run"
    path.write_bytes(MAKERS[name](count))
    with pytest.raises(TraceError, match=said):
        open_trace([path])
