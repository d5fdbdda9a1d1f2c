"""What idle GPUs cost follows from their idle time and a price; without a price nothing is said."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from parsers.model import Trace
from rules.analysis.analysis import Analysis
from rules.analysis.gpu.cost import idle_cost, money
from tests.opened import diagnosed
from tests.rules.builder import TinyTrace
from viewer.cli import main

FIXTURE = Path(__file__).parents[1] / "fixtures" / "xprof" / "loader.trace.json.gz"


def half_idle(steps: int) -> Trace:
    trace = TinyTrace()
    for number in range(steps):
        trace.shift = number * 1000.0
        trace.step(0, 1000, f"ProfilerStep#{number}")
        trace.operation(0, 500, "sm90_gemm", 0)
    return trace.build()


def test_half_of_an_hour_of_one_gpu_costs_half_its_price() -> None:
    analysis = Analysis(half_idle(6))
    cost = idle_cost(analysis, 3.0)
    assert cost is not None
    assert (cost.gpus, cost.idle, cost.money_per_hour) == (1, pytest.approx(0.5), pytest.approx(1.5))
    assert cost.per_1000_steps == pytest.approx(1000 * 500e-6 / 3600, rel=0.01)
    assert "0.5 of 1 GPU-hours are idle (50 %): 1.50 at 3.00 a GPU-hour" in cost.text


def test_nothing_is_said_without_gpu_work() -> None:
    trace = TinyTrace()
    trace.region(0, 10, "load")
    assert idle_cost(Analysis(trace.build()), 3.0) is None


@pytest.mark.parametrize(
    ("amount", "text"), [(0.0, "0.00"), (0.004, "0.004"), (12.345, "12.35"), (1234.5, "1,234.50")]
)
def test_money_keeps_what_is_small(amount: float, text: str) -> None:
    assert money(amount) == text


def test_the_command_line_tells_cost_only_with_a_price(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["diagnose", "--json", str(FIXTURE)]) == 0
    assert "cost" not in json.loads(capsys.readouterr().out)
    assert main(["diagnose", "--json", "--cost-per-hour", "2.5", str(FIXTURE)]) == 0
    cost = json.loads(capsys.readouterr().out)["cost"]
    assert cost["idle_cost_per_hour"] == pytest.approx(2.5 * cost["idle_gpu_hours_per_hour"])
    assert main(["diagnose", "--cost-per-hour", "2.5", str(FIXTURE)]) == 0
    assert "at 2.50 a GPU-hour" in capsys.readouterr().out


@pytest.mark.parametrize("price", ["free", "-1", "0", "nan", "inf"])
def test_a_price_that_is_none_is_refused(price: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as refused:
        main(["diagnose", f"--cost-per-hour={price}", str(FIXTURE)])
    assert refused.value.code == 2
    assert "not a price per hour" in capsys.readouterr().err


@pytest.fixture
def zone_of_the_recorder(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """nvidia-smi writes the local time of its machine, which was that of Greenwich."""
    with monkeypatch.context() as patch:
        patch.setenv("TZ", "UTC")
        time.tzset()
        yield
    time.tzset()


@pytest.mark.usefixtures("zone_of_the_recorder")
@pytest.mark.parametrize("log", ["power.query.csv", "power.dmon.txt"])
def test_a_real_gpu_at_its_power_limit_is_told_first(shared_data: Path, log: str) -> None:
    folder = shared_data / "real"
    first = diagnosed(folder / "power.pt.trace.json.gz", folder / log).findings[0]
    assert first.rule == "throttling"
    assert "of 1980 MHz because of its power limit" in first.explanation


def test_the_same_recording_without_a_log_says_that_clocks_are_missing(shared_data: Path) -> None:
    diagnosis = diagnosed(shared_data / "real" / "power.pt.trace.json.gz")
    assert "no clocks were logged" in diagnosis.skipped["throttling"]
