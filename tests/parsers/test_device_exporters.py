"""Pages of dcgm-exporter and logs of amd-smi and rocm-smi are counters with the names of other device logs."""

from __future__ import annotations

from pathlib import Path

import pytest

from parsers import open_trace
from parsers.model import Counter, Trace, TraceError
from viewer.cli import main

FIXTURES = Path(__file__).parents[1] / "fixtures" / "smi"
HEADER = (
    "device,Temperature (Sensor junction) (C),Current Socket Graphics Package Power (W),"
    "sclk clock speed:,GPU use (%)\n"
)
ROCM_SMI = f"{HEADER}card0,55.0,310.0,(1700Mhz),97\ncard1,40.0,90.0,(132Mhz),0\n{HEADER}card0,57.0,320.0,(1650Mhz),98\n"


def counters(trace: Trace) -> dict[str, Counter]:
    return {each.name: each for each in trace.counters}


def test_a_log_of_amd_smi_has_a_counter_for_each_gpu_and_column() -> None:
    trace = open_trace([FIXTURES / "amd_smi_monitor.csv"])
    found = counters(trace)
    assert found["GPU 0 SM clock"].value.tolist() == [1455.0, 1441.0]
    assert found["GPU 0 SM clock"].time.tolist() == [0, 1_000_000_000]
    assert found["GPU 1 power"].unit == "W"
    assert found["GPU 0 framebuffer used"].value.tolist() == [65536 * 1024.0**2] * 2
    assert found["GPU 1 GPU utilization"].value.tolist() == [0.0]
    assert trace.epoch_ns == 1_732_250_000 * 1_000_000_000
    assert trace.quality.events_read == trace.quality.events_kept == 4


def test_the_time_of_a_row_that_is_left_out_does_not_matter(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_text((FIXTURES / "amd_smi_monitor.csv").read_text() + "1e300,,1,1,1,1,1,1,1,1,1\n")
    assert counters(open_trace([path]))["GPU 0 power"].time.tolist() == [0, 1_000_000_000]


def test_limits_that_amd_smi_reports_are_told_with_recorders_for_amds_gpus(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "log"
    rows = [f"{1_732_250_000 + second},0,748,92,1300,100,80 %,0,N/A" for second in range(3)]
    path.write_text(
        "\n".join(["timestamp,gpu,power_usage,hotspot_temperature,gfx_clk,gfx,pviol,tviol,hbm_tviol", *rows])
    )
    assert counters(open_trace([path]))["GPU 0 power throttling"].value.tolist() == [80.0] * 3
    assert main(["diagnose", str(path)]) == 0
    told = " ".join(capsys.readouterr().out.split())
    assert "clock 1300 MHz (at most 1300 MHz), slowed by its power limit 80 % of the time" in told
    assert "rocprofv3 --sys-trace" in told
    assert "nsys" not in told


def test_a_log_of_rocm_smi_without_times_is_a_second_apart(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_text(ROCM_SMI)
    trace = open_trace([path])
    found = counters(trace)
    assert found["GPU 0 SM clock"].value.tolist() == [1700.0, 1650.0]
    assert found["GPU 0 power"].time.tolist() == [0, 1_000_000_000]
    assert found["GPU 1 temperature"].value.tolist() == [40.0]
    assert trace.quality.quarantined == 1
    assert trace.epoch_ns is None


def test_pages_of_dcgm_exporter_are_readings_one_after_the_other() -> None:
    found = counters(open_trace([FIXTURES / "dcgm_exporter.prom"]))
    assert found["GPU 0 SM clock"].value.tolist() == [1455.0, 1470.0]
    assert found["GPU 0 SM clock"].time.tolist() == [0, 1_000_000_000]
    assert found["GPU 0 SM active"].value.tolist() == [98.0]
    assert found["GPU 0 XID error"].value.tolist() == [0.0]


def test_metrics_with_times_have_a_wall_clock(tmp_path: Path) -> None:
    path = tmp_path / "metrics"
    readings = ('{gpu="3",x="y"} 40 1732250000500', '{gpu="3"} nan 17', " odd")
    path.write_text("".join(f"DCGM_FI_DEV_GPU_TEMP{each}\n" for each in readings))
    trace = open_trace([path])
    (counter,) = trace.counters
    assert (counter.name, counter.value.tolist()) == ("GPU 3 temperature", [40.0])
    assert trace.epoch_ns == 1_732_250_000_500_000_000
    assert trace.quality.quarantined == 1


@pytest.mark.parametrize("text", [ROCM_SMI.splitlines()[0] + "\n", "# TYPE DCGM_FI_DEV_GPU_TEMP gauge\n"])
def test_a_header_alone_is_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "empty"
    path.write_text(text)
    with pytest.raises(TraceError) as refused:
        open_trace([path])
    assert refused.value.hint
