"""A log of a GPU alone is told by its readings, however few there are."""

from __future__ import annotations

from pathlib import Path

import pytest

from parsers import open_trace
from rules import diagnose
from rules.analysis.analysis import Analysis
from rules.verdict.verdict import verdict

HEADER = "timestamp,gpu_util(%),memory_used(MB),power_draw(W)\n"


@pytest.mark.parametrize(
    ("readings", "told"),
    [
        (1, "A log without a timeline: GPU 0 at a single moment: 40 % busy, 90 W, 5.09 GB of memory in use"),
        (
            3,
            "A log without a timeline: GPU 0 over 2.00 s: busy 40 % of the time (at most 40 %), 90 W (at most 90 W), "
            "at most 5.09 GB of memory in use",
        ),
    ],
)
def test_a_log_says_how_busy_the_gpu_was_and_for_how_long(readings: int, told: str, tmp_path: Path) -> None:
    path = tmp_path / "gpu.csv"
    path.write_text(
        HEADER + "".join(f"{1_740_565_077 + second}.5,40,4851,90\n" for second in range(readings))
    )
    trace = open_trace([path])
    diagnosis = diagnose(trace)
    assert not diagnosis.crashed
    assert verdict(Analysis(trace), diagnosis) == told


@pytest.mark.parametrize(
    ("readings", "apart_s", "told"),
    [
        (9, 61, "GPU 0 at 9 moments within 488 s: 40 % busy on average (at most 40 %)"),
        (9, 60, "GPU 0 over 480 s: busy 40 % of the time (at most 40 %)"),
        (10, 61, "GPU 0 over 549 s: busy 40 % of the time (at most 40 %)"),
    ],
)
def test_a_few_moments_far_apart_say_nothing_of_the_time_between(
    readings: int, apart_s: int, told: str, tmp_path: Path
) -> None:
    path = tmp_path / "gpu.csv"
    rows = [f"{1_740_565_077 + apart_s * number}.5,40,4851,90\n" for number in range(readings)]
    path.write_text(HEADER + "".join(rows))
    trace = open_trace([path])
    assert told in verdict(Analysis(trace), diagnose(trace))


def test_a_log_says_how_much_of_the_memory_was_in_use(tmp_path: Path) -> None:
    path = tmp_path / "gpu.csv"
    rows = [
        f"2026/08/01 03:59:4{second}.361, {used} MiB, 11264 MiB, 50 %"
        for second, used in enumerate((1764, 10549))
    ]
    path.write_text(
        "\n".join(["timestamp, memory.used [MiB], memory.total [MiB], utilization.gpu [%]", *rows, ""])
    )
    trace = open_trace([path])
    assert "at most 11.1 GB of its 11.8 GB of memory in use" in verdict(Analysis(trace), diagnose(trace))


@pytest.mark.parametrize(
    ("seconds", "told"),
    [
        ([0], "A single moment of 2 GPUs without a timeline"),
        ([0, 1], "A log of 2 GPUs without a timeline, busy 40 % of the time"),
        ([0, 90], "A few moments of 2 GPUs without a timeline"),
    ],
)
def test_several_gpus_are_told_by_how_long_they_were_seen(
    seconds: list[int], told: str, tmp_path: Path
) -> None:
    path = tmp_path / "gpu.csv"
    rows = [f"{1_740_565_077 + second}.5,{gpu},40,4851\n" for second in seconds for gpu in (0, 1)]
    path.write_text("timestamp,gpu_id,gpu_util(%),memory_used(MB)\n" + "".join(rows))
    trace = open_trace([path])
    assert verdict(Analysis(trace), diagnose(trace)) == told
