"""Logs of xpu-smi and npu-smi: devices, units and clocks, and lines that fit no header."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from parsers import open_trace
from parsers.model import Counter, Trace, TraceError
from viewer.cli import main

S = 1_000_000_000
XPU = "Timestamp, DeviceId, GPU Utilization (%), GPU Memory Used (MiB)\n"
NPU = "NpuID(Idx)  ChipId(Idx) Pwr(W)      Temp(C)     AI Core(%)\n"


def opened(folder: Path, text: str) -> Trace:
    (folder / "job.log").write_text(text)
    return open_trace([folder / "job.log"])


def counter(trace: Trace, name: str) -> Counter:
    return next(each for each in trace.counters if each.name == name)


def test_what_xpu_smi_dumps_is_a_counter_for_each_device_and_column(
    fixtures: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = fixtures / "smi" / "xpu_smi_dump.csv"
    trace = open_trace([path])
    assert counter(trace, "GPU 0 GPU utilization").value.tolist() == [88.0, 92.0]
    assert counter(trace, "GPU 0 framebuffer used").value.tolist() == [33554.0 * 1048576] * 2
    assert np.diff(counter(trace, "GPU 1 power").time).tolist() == [S]
    assert "GPU 1 GPU utilization" not in {each.name for each in trace.counters}
    assert main(["diagnose", str(path)]) == 0
    said = capsys.readouterr().out
    assert said.startswith("A log of 2 GPUs without a timeline, busy 90 % of the time\n")
    assert "nsys" not in said


def test_what_npu_smi_watches_is_of_npus_a_second_apart(
    fixtures: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = fixtures / "smi" / "npu_smi_watch.txt"
    assert counter(open_trace([path]), "NPU 2 power").time.tolist() == [0, S]
    assert main(["diagnose", str(path)]) == 0
    assert (
        "NPU 2 over 1.00 s: busy 40 % of the time (at most 81 %), 140 W (at most 190 W)"
        in capsys.readouterr().out
    )


@pytest.mark.parametrize(("chips", "numbers"), [((0, 0), {0, 1}), ((0, 1), {0, 1, 2, 3})])
def test_chips_of_several_cards_are_counted_through(
    chips: tuple[int, int], numbers: set[int], tmp_path: Path
) -> None:
    rows = "".join(f"{card}  {chip}  90.0  40  {card + chip}\n" for card in (0, 1) for chip in chips)
    found = {each.name for each in opened(tmp_path, NPU + rows).counters}
    assert found >= {f"NPU {number} power" for number in numbers}
    assert f"NPU {max(numbers) + 1} power" not in found


def test_dates_with_a_zone_are_moments(tmp_path: Path) -> None:
    rows = "".join(f"2024-01-15T10:00:0{second}.000Z, 0, 50.0, 1.0\n" for second in (0, 1))
    trace = opened(tmp_path, XPU + rows)
    assert trace.epoch_ns == 1_705_312_800 * S
    assert np.diff(counter(trace, "GPU 0 GPU utilization").time).tolist() == [S]


def test_lines_that_do_not_fit_are_counted(tmp_path: Path) -> None:
    text = (
        XPU
        + "06:14:46.000, 0, 1.0, 2.0\nSegmentation fault\n06:14:47.000, x, 1.0, 2.0\nnoon, 0, 1, 2\n"
        + XPU
    )
    trace = opened(tmp_path, text + "06:14:48.000, 0, 3.0, 2.0\n")
    assert counter(trace, "GPU 0 GPU utilization").value.tolist() == [1.0, 3.0]
    assert trace.quality.quarantined == 3


@given(
    st.lists(
        st.sampled_from([XPU, NPU, "06:14:46.000, 0, 1.0, 2.0\n", "2  0  90.1  34  0\n", "1 2 3\n", ",,,\n"])
    )
)
def test_any_lines_are_read_or_refused(tmp_path_factory: pytest.TempPathFactory, lines: list[str]) -> None:
    try:
        opened(tmp_path_factory.mktemp("logs"), XPU + "".join(lines))
    except TraceError:
        return
