"""Logs of nvidia-smi and dcgmi become counters in plain units, on the wall clock where they state it."""

from __future__ import annotations

import gzip
import os
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given
from hypothesis import strategies as st

from parsers import open_trace
from parsers.model import Counter, TraceError, UnknownFormat
from parsers.smi.clock import local_ns, moment_of
from parsers.smi.readings import number
from tests.examples import examples
from tests.parsers.nsys_exports import export, kernel

# The cases lie on either side of these.
NS = 1_000_000_000

DMON = """#Date        Time         gpu    pwr  gtemp     sm    mem   pclk  rxpci     fb
#YYYYMMDD    HH:MM:SS     Idx      W      C      %      %    MHz   MB/s     MB
 20260102    03:04:05       0    100     40     50      5   1980     12    100
 20260102    03:04:05       1    200     41      -      6   1980     13    200
 20260102    03:04:06       0    150     42     60      7   1965     14    300
#Date        Time         gpu    pwr  gtemp     sm    mem   pclk  rxpci     fb
#YYYYMMDD    HH:MM:SS     Idx      W      C      %      %    MHz   MB/s     MB
 20260102    03:04:07       0    160     43     70      8   1950     15    400
"""
DCGM = """#Entity   GPUTL  POWER  TENSO  PCIRX
ID
GPU 0     50     300.5  0.25   1000000
GPU 1     60     N/A    0.5    2000000
GPU 0     70     310.5  0.75   3000000
"""
FIRST = int(datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC).timestamp())


def opened(
    tmp_path: Path, text: str, written: float | None = FIRST + 2, name: str = "log.txt"
) -> dict[str, Counter]:
    path = tmp_path / name
    path.write_text(text)
    if written is not None:
        os.utime(path, (written, written))
    return {counter.name: counter for counter in open_trace([path]).counters}


def test_dmon_columns_become_counters_in_base_units(tmp_path: Path) -> None:
    counters = opened(tmp_path, DMON)
    power = counters["GPU 0 power"]
    assert (power.unit, power.device) == ("W", None)
    assert power.time.tolist() == [0, NS, 2 * NS]
    assert power.value.tolist() == [100, 150, 160]
    assert counters["GPU 0 PCIe received"].value.tolist() == [12e6, 14e6, 15e6]
    assert counters["GPU 0 framebuffer used"].value[0] == 100 * 1024**2
    assert counters["GPU 0 SM utilization"].unit == "%"
    assert "GPU 1 SM utilization" not in counters, "a dash is no reading"
    assert counters["GPU 1 power"].value.tolist() == [200]


@pytest.mark.parametrize("hours", [0, 2, -7, 5.5, 5.75])
def test_the_time_zone_is_told_by_when_the_file_was_last_written(tmp_path: Path, hours: float) -> None:
    path = tmp_path / "log.txt"
    path.write_text(DMON)
    written = FIRST + 2 - hours * 3600
    os.utime(path, (written + 1, written + 1))
    trace = open_trace([path])
    assert trace.epoch_ns == (FIRST - int(hours * 3600)) * NS
    assert [note.kind for note in trace.quality.notes] == ["time zone"]


def test_a_file_that_was_written_at_another_time_is_taken_in_this_computers_zone(tmp_path: Path) -> None:
    path = tmp_path / "log.txt"
    path.write_text(DMON)
    os.utime(path, (FIRST + 400_123, FIRST + 400_123))
    trace = open_trace([path])
    local = datetime(2026, 1, 2, 3, 4, 5).astimezone().timestamp()
    assert trace.epoch_ns == int(local) * NS
    assert [note.kind for note in trace.quality.notes] == ["assumed time zone"]


def test_a_dmon_log_without_a_clock_has_an_axis_of_its_own(tmp_path: Path) -> None:
    text = "# gpu    pwr   sm\n# Idx      W    %\n    0     90    1\n    1     91    2\n    0     92    3\n"
    counters = opened(tmp_path, text)
    assert counters["GPU 0 power"].time.tolist() == [0, NS]
    trace = open_trace([tmp_path / "log.txt"])
    assert trace.epoch_ns is None
    assert [note.kind for note in trace.quality.notes] == ["no date"]


def test_dmon_as_csv_is_read(tmp_path: Path) -> None:
    text = "#gpu, pwr, sm\n#Idx, W, %\n0, 90, 1\n"
    assert opened(tmp_path, text)["GPU 0 power"].value.tolist() == [90]


def test_dcgm_fractions_become_percent(tmp_path: Path) -> None:
    counters = opened(tmp_path, DCGM)
    assert counters["GPU 0 tensor cores active"].value.tolist() == [25, 75]
    assert counters["GPU 0 tensor cores active"].unit == "%"
    assert counters["GPU 1 PCIe received"].value.tolist() == [2e6]
    assert "GPU 1 power" not in counters


def test_query_csv_is_read_with_its_units(tmp_path: Path, fixtures: Path) -> None:
    trace = open_trace([fixtures / "smi" / "query.csv"])
    counters = {counter.name: counter for counter in trace.counters}
    assert counters["GPU 0 power"].value[0] == 90.93
    assert counters["GPU 0 power"].time[1] == 212_000_000
    assert counters["GPU 0 framebuffer used"].unit == "B"
    assert counters["GPU 0 temperature"].unit == "C"
    assert counters["GPU 0 clock limit reasons (bits)"].value[0] == 1
    assert "NVIDIA" not in "".join(counters)
    assert trace.quality.quarantined == 0


def test_a_query_without_a_header_is_told_by_its_units(tmp_path: Path) -> None:
    lines = ["2026/01/02 03:04:05.000, 1, 50 %, 7 %, 100 MiB, 900 MiB, 40, 71.50 W\n"] * 2
    counters = opened(tmp_path, "".join(lines))
    assert {name: float(each.value[0]) for name, each in counters.items()} == {
        "GPU 1 GPU utilization": 50,
        "GPU 1 memory controller utilization": 7,
        "GPU 1 framebuffer used": 100 * 1024**2,
        "GPU 1 power": 71.5,
    }
    with pytest.raises(UnknownFormat):  # which GPU, which share: nothing tells
        opened(tmp_path, lines[0].replace(" %", "").replace(" W", ""))


def test_a_log_that_a_script_wrote_is_read_by_what_its_columns_are_called(tmp_path: Path) -> None:
    text = (
        "timestamp,gpu_id,gpu_util(%),memory_used(MB),memory_total,memory_util(%),Temperature (C),note\n"
        "1740565077.5,1,40,4851.00,46068,10.53,41.0,warm-up\n"
    )
    counters = opened(tmp_path, text)
    assert {name: (float(each.value[0]), each.unit) for name, each in counters.items()} == {
        "GPU 1 GPU utilization": (40, "%"),
        "GPU 1 framebuffer used": (4851 * 1024**2, "B"),
        "GPU 1 framebuffer total": (46068 * 1024**2, "B"),
        "GPU 1 memory util(%)": (10.53, ""),
        "GPU 1 temperature": (41, "C"),
    }
    assert open_trace([tmp_path / "log.txt"]).epoch_ns == 1_740_565_077_500_000_000


def test_a_script_may_state_units_in_names_and_seconds_since_its_start(tmp_path: Path) -> None:
    text = "elapsed_sec,gpu_util_pct,mem_used_mb,temp_c,power_w\n0.25,10,472,29,26.5\n2.5,20,472,30,30\nlate,1,1,1,1\n"
    counters = opened(tmp_path, text)
    assert {name: (float(each.value[1]), each.unit) for name, each in counters.items()} == {
        "GPU 0 GPU utilization": (20, "%"),
        "GPU 0 framebuffer used": (472 * 1024**2, "B"),
        "GPU 0 temperature": (30, "C"),
        "GPU 0 power": (30, "W"),
    }
    assert counters["GPU 0 power"].time.tolist() == [0, 2_250_000_000]
    trace = open_trace([tmp_path / "log.txt"])
    assert trace.quality.quarantined == 1
    assert trace.epoch_ns is None


@pytest.mark.parametrize(
    "header",
    [
        "elapsed_sec,loss,gpu_util_pct",
        "timestamp,gpu_util,user",  # one reading of the GPU is too little to go by
        "time,gpu_util,memory_used",
        "timestamp,cpu_util,memory_used",
        "timestamp,gpu_power_w,gpu_energy_kwh",
        "# gpu wait time: 2.5935 (s)",
    ],
)
def test_other_tables_of_somebodys_are_no_logs_of_gpus(header: str, tmp_path: Path) -> None:
    with pytest.raises(UnknownFormat):
        opened(tmp_path, f"{header}\n1740565077.5,1,2\n")


def test_query_csv_without_index_tells_gpus_by_their_bus(tmp_path: Path) -> None:
    text = (
        "timestamp, pci.bus_id, utilization.gpu [%], clocks_throttle_reasons.hw_slowdown\n"
        "2026/01/02 03:04:05.000, 0000:01:00.0, 5 %, Not Active\n"
        "2026/01/02 03:04:05.000, 0000:02:00.0, [N/A], Active\n"
    )
    counters = opened(tmp_path, text)
    assert counters["GPU 0 GPU utilization"].value.tolist() == [5]
    assert counters["GPU 1 hardware slowdown"].value.tolist() == [1]
    assert "GPU 1 GPU utilization" not in counters


def test_a_log_that_a_script_wrote_tells_gpus_by_its_own_column_and_time_by_iso_8601(tmp_path: Path) -> None:
    path = tmp_path / "log.csv"
    path.write_text(
        "timestamp,gpu,index,power.draw\n"
        "2025-09-08T17:26:50+08:00,0, 0, 74.01\n"
        "2025-09-08T17:26:50+08:00,1, 0, 73.23\n"
        "2025-09-08T17:26:52+08:00,1, 0, 73.5\n"
    )
    trace = open_trace([path])
    counters = {counter.name: counter for counter in trace.counters}
    assert sorted(counters) == ["GPU 0 power", "GPU 1 power"]
    assert np.diff(counters["GPU 1 power"].time).tolist() == [2_000_000_000]
    first = datetime(2025, 9, 8, 9, 26, 50, tzinfo=UTC)
    assert trace.epoch_ns is not None
    assert trace.epoch_ns + int(counters["GPU 0 power"].time[0]) == int(first.timestamp()) * 1_000_000_000
    assert not trace.quality.notes


@pytest.mark.parametrize(
    ("text", "ns", "zoned"),
    [
        ("1970/01/01 00:00:01.5", 1_500_000_000, False),
        ("1970-01-01T01:00:01+01:00", 1_000_000_000, True),
        ("1970-01-01T00:00:01Z", 1_000_000_000, True),
        ("1970-01-01 00:00:01", 1_000_000_000, False),
        ("1970-01-01T00:00:01+99:99", None, False),
        ("Tuesday", None, False),
        ("1762903990", 1_762_903_990 * NS, True),
        ("1762903990.25", 1_762_903_990 * NS + NS // 4, True),
        ("1762903990123", 1_762_903_990 * NS + 123_000_000, True),
        ("1762903990123456789", 1_762_903_990 * NS + 123_456_789, True),
        ("7258118400", None, True),  # the year 2200
        ("12345678", None, False),
        ("01/02/1970 00:00:01", 86_401 * NS, False),
        ("1-2-1970 00:00:01", 86_401 * NS, False),
    ],
)
def test_written_moments(text: str, ns: int | None, zoned: bool) -> None:
    assert moment_of(text) == (ns, zoned)


def stamped(*moments: str) -> str:
    return "timestamp, index, power.draw [W]\n" + "".join(f"{each}, 0, 70 W\n" for each in moments)


def test_a_log_that_counts_seconds_since_1970_is_on_the_wall_clock(tmp_path: Path) -> None:
    path = tmp_path / "log.csv"
    path.write_text(stamped("1762903990", "1762904051"))
    trace = open_trace([path])
    assert trace.epoch_ns == 1_762_903_990 * NS
    assert trace.counters[0].time.tolist() == [0, 61 * NS]
    assert not trace.quality.notes


@pytest.mark.parametrize(
    ("moments", "days", "guessed"),
    [
        (("12-31-2026 00:00:00", "01-01-2027 00:00:00"), 1, False),
        (("31/12/2026 00:00:00", "01/01/2027 00:00:00"), 1, False),
        (("03-11-2026 00:00:00", "03-12-2026 00:00:00"), 1, True),
        (("13-11-2026 00:00:00", "03-12-2026 00:00:00"), 20, False),
    ],
)
def test_a_number_above_12_tells_days_from_months(
    tmp_path: Path, moments: tuple[str, str], days: int, guessed: bool
) -> None:
    power = opened(tmp_path, stamped(*moments))["GPU 0 power"]
    assert np.diff(power.time).tolist() == [days * 86_400 * NS]
    notes = open_trace([tmp_path / "log.txt"]).quality.notes
    assert any(note.kind == "order of dates" for note in notes) is guessed


def test_a_log_whose_lines_do_not_fit_quotes_the_first(tmp_path: Path) -> None:
    with pytest.raises(TraceError, match="line 2: Tuesday, 0, 70 W"):
        opened(tmp_path, stamped("Tuesday"))


def test_a_column_with_the_name_of_the_gpu_is_no_number(tmp_path: Path) -> None:
    text = "timestamp, gpu, index, power.draw [W]\n2026/01/02 03:04:05.000, NVIDIA L4, 3, 30.1 W\n"
    assert list(opened(tmp_path, text)) == ["GPU 3 power"]


def test_the_recorded_logs_open_completely(fixtures: Path) -> None:
    trace = open_trace([fixtures / "smi" / "dmon.txt"])
    lines = [
        line for line in (fixtures / "smi" / "dmon.txt").read_text().splitlines() if not line.startswith("#")
    ]
    assert trace.quality.events_read == trace.quality.events_kept == len(lines)
    assert len(trace.counters) == 21


def test_lines_that_do_not_fit_are_counted_with_their_place(tmp_path: Path) -> None:
    opened(
        tmp_path,
        DMON + "something went wrong\n 20260102    03:04:99       0    1     1     1      1   1     1    1\n",
    )
    quality = open_trace([tmp_path / "log.txt"]).quality
    (note,) = (note for note in quality.notes if note.kind == "unreadable line")
    assert (note.count, note.example) == (2, "line 9: something went wrong")
    assert quality.events_read == quality.events_kept + quality.quarantined == 6


@pytest.mark.parametrize("encoding", ["utf-16", "utf-8-sig"])
def test_a_log_redirected_by_a_windows_shell_is_read(tmp_path: Path, encoding: str) -> None:
    path = tmp_path / "log.txt"
    path.write_bytes(DMON.replace("\n", "\r\n").encode(encoding))
    assert len(open_trace([path]).counters) == 13


def test_a_compressed_log_is_read(tmp_path: Path) -> None:
    path = tmp_path / "log.gz"
    path.write_bytes(gzip.compress(DMON.encode()))
    assert open_trace([path]).counters


def test_a_log_without_readings_is_refused_with_a_hint(tmp_path: Path) -> None:
    with pytest.raises(TraceError, match="no reading") as caught:
        opened(tmp_path, "\n".join(DMON.splitlines()[:2]) + "\n")
    assert "nvidia-smi dmon" in caught.value.hint


@pytest.mark.parametrize("text", ["a,b\n1,2\n", "# a comment about gpu\n", "time,value\n", "GPU 0 is fast\n"])
def test_other_text_is_no_log(tmp_path: Path, text: str) -> None:
    with pytest.raises(UnknownFormat):
        opened(tmp_path, text)


def with_recording(tmp_path: Path, log: str, start: int, length: int, written: float | None = None):  # type: ignore[no-untyped-def]
    recording = export(
        tmp_path / "run.sqlite",
        {
            "CUPTI_ACTIVITY_KIND_KERNEL": [kernel(5, 5 + length)],
            "TARGET_INFO_SESSION_START_TIME": [{"utcEpochNs": start - 5}],
        },
    )
    path = tmp_path / "log.txt"
    path.write_text(log)
    when = FIRST + 2 if written is None else written
    os.utime(path, (when, when))
    return open_trace([recording, path])


def test_a_log_is_cut_to_the_recording_it_is_opened_with(tmp_path: Path) -> None:
    trace = with_recording(tmp_path, DMON, FIRST * NS + NS // 2, NS)
    power = next(counter for counter in trace.counters if counter.name == "GPU 0 power")
    assert power.time.tolist() == [0, NS // 2]
    assert power.value.tolist() == [100, 150]
    assert trace.duration == NS
    assert trace.epoch_ns == FIRST * NS + NS // 2


def test_counters_of_joined_recordings_stay_with_their_gpus(tmp_path: Path) -> None:
    metrics = {
        "GPU_METRICS": [{"timestamp": 5, "typeId": 0, "metricId": 0, "value": 50}],
        "TARGET_INFO_GPU_METRICS": [{"typeId": 0, "metricId": 0, "metricName": "SM Active"}],
        "CUPTI_ACTIVITY_KIND_KERNEL": [kernel(5, 9)],
        "TARGET_INFO_SESSION_START_TIME": [{"utcEpochNs": FIRST * NS}],
    }
    trace = open_trace([export(tmp_path / f"rank{rank}.sqlite", metrics) for rank in (0, 1)])
    assert [(counter.rank, counter.device) for counter in trace.counters] == [(0, 0), (1, 1)]


def test_a_log_of_another_time_is_left_out_and_said_so(tmp_path: Path) -> None:
    trace = with_recording(tmp_path, DMON, (FIRST + 86_400) * NS, NS)
    assert trace.counters == ()
    assert any(note.kind == "log left out" for note in trace.quality.notes)
    assert trace.duration == NS


def test_a_log_in_an_unknown_zone_is_moved_where_it_covers_the_recording(tmp_path: Path) -> None:
    local = int(datetime(2026, 1, 2, 3, 4, 5).astimezone().timestamp())
    trace = with_recording(tmp_path, DMON, (local + 3 * 1800) * NS, NS, written=FIRST + 400_123)
    assert trace.counters[0].value[0] == 100
    assert any("1.5 h later" in note.reason for note in trace.quality.notes)


@pytest.mark.parametrize(
    ("cell", "value"),
    [
        ("97.5 W", 97.5),
        ("0x10", 16),
        (" 5 %", 5),
        ("Active", 1),
        ("Not Active", 0),
        ("[N/A]", None),
        ("-", None),
        ("nan", None),
        ("inf", None),
        ("", None),
    ],
)
def test_numbers_in_cells(cell: str, value: float | None) -> None:
    assert number(cell) == value


@pytest.mark.parametrize(
    ("date", "time", "ns"),
    [
        ("19700102", "00:00:01", 86_401 * NS),
        ("1970/01/02", "00:00:01.5", 86_401 * NS + NS // 2),
        ("19701302", "00:00:01", None),
        ("19700102", "25:00:00", None),
        ("yesterday", "00:00:01", None),
        ("99990101", "00:00:01", None),
    ],
)
def test_written_times(date: str, time: str, ns: int | None) -> None:
    assert local_ns(date, time) == ns


@examples(80, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.text(alphabet="#gpu, 0123456789:-/[]%WN\n\tDateTime.xInf", max_size=300))
def test_any_text_after_a_header_is_read_or_refused(tmp_path: Path, tail: str) -> None:
    path = tmp_path / "log.txt"
    path.write_text(DMON + tail)
    trace = open_trace([path])
    for counter in trace.counters:
        assert (np.diff(counter.time) >= 0).all()
        assert np.isfinite(counter.value).all()


@pytest.mark.parametrize(
    ("date", "readable"), [("1970/01/01", True), ("0026/11/20", False), ("2200/01/01", False)]
)
def test_a_date_that_no_clock_can_hold_is_not_read(date: str, readable: bool) -> None:
    assert (local_ns(date, "00:00:01") is not None) is readable


@pytest.mark.parametrize("cell", ["1e308", "-1e19 W", "0x" + "f" * 400, "nan", "N/A"])
def test_a_number_that_no_gpu_can_have_is_no_reading(cell: str) -> None:
    assert number(cell) is None
