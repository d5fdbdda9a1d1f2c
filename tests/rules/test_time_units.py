"""A recording whose parts are in different units of time says so first and promises nothing; no sound one does."""

from __future__ import annotations

import gzip
import json
import sqlite3
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from parsers import open_trace
from parsers.model import Counter, Trace, TraceError
from rules import diagnose
from rules.analysis.analysis import Analysis
from rules.analysis.recording.time_units import other_units
from rules.fixes.plan import plan_of
from rules.verdict.promises import first_step
from rules.verdict.verdict import verdict
from tests.benchmarks.generate_nsys import write_export
from tests.examples import one_of
from tests.opened import opened
from tests.rules.builder import TinyTrace

# The cases lie on either side of these.
MIN_EVENTS = 20

FIXTURES = Path(__file__).resolve().parent.parent / "fixtures"
SAID = "Part of this recording is in another unit of time"
KERNELS, CALLS = "CUPTI_ACTIVITY_KIND_KERNEL", "CUPTI_ACTIVITY_KIND_RUNTIME"
COPIES, RANGES = "CUPTI_ACTIVITY_KIND_MEMCPY", "NVTX_EVENTS"
CHOSEN = np.random.default_rng(1).random(50_000) < 0.5
ON_GPU = ("kernel", "gpu_memcpy", "gpu_memset")


def require_said(trace: Trace) -> None:
    analysis = Analysis(trace)
    diagnosis = diagnose(trace)
    assert verdict(analysis, diagnosis).startswith(SAID)
    plan = plan_of(analysis)
    assert plan.promises == ()
    assert first_step(plan, diagnosis) == ""
    assert plan.reason == "parts of the recording are in different units of time"


@pytest.fixture(scope="session")
def export(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_export(tmp_path_factory.mktemp("export") / "run.sqlite", 40_000)


def scaled(factor: float, *tables: str, half: bool = False) -> list[str]:
    set_ = f'start = CAST(start * {factor} AS INTEGER), "end" = CAST("end" * {factor} AS INTEGER)'
    return [
        f"UPDATE {table} SET {set_}"
        + (f" WHERE rowid > (SELECT MAX(rowid) / 2 FROM {table})" if half else "")
        for table in tables
    ]


def longer(factor: float, *tables: str) -> list[str]:
    return [
        f'UPDATE {table} SET "end" = CAST(start + ("end" - start) * {factor} AS INTEGER)' for table in tables
    ]


@pytest.mark.parametrize(
    "changes",
    one_of(
        4,
        [
            scaled(1e-3, KERNELS, COPIES),
            scaled(1e-6, KERNELS, COPIES),
            scaled(1e3, KERNELS, COPIES),
            scaled(1e-3, CALLS),
            scaled(1e3, CALLS),
            scaled(1e-3, RANGES),
            scaled(1e3, RANGES),
            scaled(1e-3, COPIES),
            scaled(1e-3, KERNELS, half=True),
            scaled(1e-3, KERNELS, COPIES, CALLS, RANGES, half=True),
            scaled(1e3, KERNELS, COPIES, CALLS, RANGES, half=True),
            longer(1e-3, KERNELS, COPIES),
            longer(1e3, KERNELS, COPIES),
            longer(1e-3, CALLS),
            longer(1e3, CALLS),
        ],
    ),
    ids=lambda changes: changes[0][:70],
)
def test_columns_of_nsight_systems_in_another_unit_are_told(
    export: Path, tmp_path: Path, changes: list[str]
) -> None:
    path = tmp_path / "mixed.sqlite"
    path.write_bytes(export.read_bytes())
    connection = sqlite3.connect(path)
    for change in changes:
        connection.execute(change)
    connection.commit()
    connection.close()
    require_said(open_trace([path]))


def test_an_export_in_one_unit_is_judged(export: Path) -> None:
    assert other_units(open_trace([export])) == ()


def chrome(
    tmp_path: Path, change: Callable[[int, dict[str, Any]], float], which: str = "memory_stack"
) -> Path:
    """A recording of PyTorch whose times are ``change`` (the place and the event) times as large."""
    whole = json.loads(gzip.decompress((FIXTURES / "torch" / f"{which}.pt.trace.json.gz").read_bytes()))
    first = min(float(each["ts"]) for each in whole["traceEvents"] if each.get("ph") == "X")
    for place, each in enumerate(whole["traceEvents"]):
        if "ts" in each:
            factor = change(place, each)
            each["ts"] = (float(each["ts"]) - first) * factor
            if "dur" in each:
                each["dur"] = float(each["dur"]) * factor
    path = tmp_path / "mixed.json"
    path.write_text(json.dumps(whole))
    return path


@pytest.mark.parametrize("factor", one_of(2, [1e3, 1e-3]))
@pytest.mark.parametrize(
    "which",
    [
        lambda _, each: each.get("cat") in ON_GPU,
        lambda _, each: each.get("cat") not in ON_GPU,
        lambda place, _: bool(CHOSEN[place]),
    ],
    ids=["gpu", "cpu", "half of all events"],
)
def test_events_of_chrome_in_another_unit_are_told(
    tmp_path: Path, factor: float, which: Callable[[int, dict[str, Any]], bool]
) -> None:
    path = chrome(tmp_path, lambda place, each: factor if which(place, each) else 1.0)
    require_said(open_trace([path]))


@pytest.mark.parametrize(("call", "told"), [("__hipPushCallConfiguration", False), ("hipLaunchKernel", True)])
def test_calls_that_only_hand_over_a_configuration_may_be_over_at_once(call: str, told: bool) -> None:
    tiny = TinyTrace()
    for round_ in range(MIN_EVENTS):
        at = 100.0 * round_
        tiny.call(at, at + 0.06, call)
        tiny.operation(at + 10, at + 20, "gemm", at + 1)
    assert bool(other_units(tiny.build())) is told


@pytest.mark.parametrize(("names", "told"), [(2 * MIN_EVENTS, False), (1, True)])
def test_first_launches_load_code_and_are_in_no_other_unit(names: int, told: bool) -> None:
    tiny = TinyTrace()
    for number in range(2 * MIN_EVENTS):
        at = 10_000.0 * number
        takes = 4_000.0 if number % 2 else 4.0
        tiny.operation(at + 9_000, at + 9_010, f"kernel_{number % names}", at, launch_us=takes)
    assert bool(other_units(tiny.build())) is told


@pytest.mark.parametrize(("names", "told"), [(1, False), (6, True)])
def test_one_name_that_most_tasks_bear_does_not_make_two_units(names: int, told: bool) -> None:
    """A recorder may call everything that it does not know by one name, long waits and short copies alike."""
    tiny = TinyTrace()
    for number in range(8 * MIN_EVENTS):
        at = 10_000.0 * number
        vague = number % 8 < 7
        took = (4_000.0 if number % 2 else 4.0) if vague else 300.0
        name = f"Other {number // 8 % names}" if vague else f"kernel_{number // 8 % 2}"
        tiny.operation(at, at + took, name, at - 20)
    assert bool(other_units(tiny.build())) is told


def test_a_recording_that_is_wholly_in_another_place_of_time_is_judged(tmp_path: Path) -> None:
    assert other_units(open_trace([chrome(tmp_path, lambda *_: 1.0)])) == ()


def test_a_rank_in_another_unit_is_told() -> None:
    whole = opened(*(FIXTURES / f"ddp/no_overlap.rank{rank}.pt.trace.json.gz" for rank in range(4)))
    assert other_units(whole) == ()
    last = np.array([lane.rank == 3 for lane in whole.lanes])[whole.events.lane]
    times = {
        which: np.where(last, getattr(whole.events, which) // 1000, getattr(whole.events, which))
        for which in ("start", "end")
    }
    mixed = replace(whole, events=replace(whole.events, **times))
    assert any(each.part == "rank 3" or "kernels" in each.part for each in other_units(mixed))
    require_said(mixed)


@pytest.mark.parametrize(("factor", "told"), [(1, False), (1000, True)])
def test_a_series_of_readings_in_another_unit_is_told(export: Path, factor: int, told: bool) -> None:
    trace = open_trace([export])
    until = int(trace.events.end.max())
    times = np.linspace(0, until, 4 * MIN_EVENTS).astype(np.int64) * factor
    readings = Counter("power", "W", times, np.ones(len(times)), None, 0)
    assert bool(other_units(replace(trace, counters=(readings,)))) is told


def recordings(folder: Path) -> list[list[Path]]:
    """Files of a folder, those of one run together."""
    runs: dict[str, list[Path]] = {}
    for path in sorted(folder.rglob("*")):
        if path.is_file() and path.suffix not in (".md", ".toml", ".py", ".txt"):
            runs.setdefault(str(path).split(".rank")[0] if ".rank" in path.name else str(path), []).append(
                path
            )
    return list(runs.values())


def falsely_told(folder: Path, every: int = 1) -> tuple[int, list[str]]:
    """How many of every so many recordings of a folder can be read, and those that are told to mix units."""
    count, told = 0, []
    for files in recordings(folder)[::every]:
        try:
            trace = opened(*files)  # most of them are read by other tests too
        except TraceError:
            continue
        count += 1
        told += [f"{files[0].name}: {each}" for each in other_units(trace)]
    return count, told


@pytest.mark.parametrize("every", [24, pytest.param(1, marks=pytest.mark.thorough)])
def test_no_recording_among_the_fixtures_is_told_to_mix_units(every: int) -> None:
    count, told = falsely_told(FIXTURES, every)
    assert count > 100 // every
    assert told == []


@pytest.mark.thorough
@pytest.mark.parametrize("folder", ["torch", "ddp", "nsys", "second", "smi", "public", "serve", "real"])
def test_no_sound_recording_is_told_to_mix_units(shared_data: Path, folder: str) -> None:
    if not (shared_data / folder).is_dir():
        pytest.skip(f"there is no {shared_data / folder}")
    count, told = falsely_told(shared_data / folder)
    assert count
    assert told == []
