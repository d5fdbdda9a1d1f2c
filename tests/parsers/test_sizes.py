"""Recordings of sizes that nobody expects are read, diagnosed and reported, and no name in a report is endless."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from parsers import open_trace
from parsers.model import Effect, Trace
from rules import diagnose
from rules.analysis.analysis import Analysis
from tests.parsers.chrome.traces import Event, balanced, complete, kernel, launch, note, text_of, trace_of
from tests.parsers.nsys_exports import export
from tests.parsers.nsys_exports import kernel as nsys_kernel
from tests.parsers.test_ncu_csv import raw_page
from viewer.reports.diagnosis_report import as_html
from viewer.reports.interactive.recording import packed_recording
from viewer.reports.json_report import as_json
from viewer.reports.text_report import as_text

# The cases lie on either side of these.
MAX_NAME_LENGTH = 8_192

MILLION = 1_000_000
PROGRAM = re.compile(r"<script>.*?</script>", re.DOTALL)  # of an interactive page, always the same
RECORDING = re.compile(r'(<script type="application/octet-stream"[^>]*>)([^<]*)(</script>)')
MAX_RECORDING_SIZE = 1_000_000  # as text in the page


def training(names: str = "") -> list[Event]:
    """Three steps that wait for Python; ``names`` is put before every name but those of the steps and calls."""
    events = []
    for step in range(3):
        at = step * 1000
        events.append(complete(f"ProfilerStep#{step}", at, 990, "user_annotation"))
        events.append(complete(f"{names}tokenize", at + 860, 120, "user_annotation"))
        events.append(complete(f"{names}train.py(7): loop", at + 1, 980, "python_function"))
        for number in range(8):
            correlation = step * 8 + number + 1
            events.append(complete(f"{names}aten::mm", at + 9 + number * 5, 4))
            events.append(launch(at + 10 + number * 5, correlation))
            events.append(kernel(f"{names}gemm", at + 50 + number * 100, 60, correlation))
    return events


def reports(trace: Trace) -> tuple[str, str, str]:
    """Text, page and JSON of the whole diagnosis; the page without its program and what that draws."""
    diagnosis, analysis = diagnose(trace), Analysis(trace)
    assert diagnosis.crashed == {}
    page, programs = PROGRAM.subn("", as_html(trace, diagnosis, analysis))
    assert programs == 1
    assert [len(data) < MAX_RECORDING_SIZE for _, data, _ in RECORDING.findall(page)] == [True] * bool(
        len(trace.events)
    )
    return (
        as_text(trace, diagnosis, analysis),
        RECORDING.sub(r"\1\3", page),
        json.dumps(as_json(trace, diagnosis, analysis)),
    )


@pytest.mark.parametrize("count", [1_001, pytest.param(10_000, marks=pytest.mark.thorough)])
def test_thousands_of_lanes(tmp_path: Path, count: int) -> None:
    events = training()
    events += [complete("op", number % 2000, 5, tid=1000 + number) for number in range(count)]
    events += [kernel("k", number % 2000, 5, stream=1000 + number) for number in range(count)]
    trace = trace_of(tmp_path, events)
    assert len(trace.lanes) > 2 * count
    assert len(trace.events) == len(events)
    assert all(len(report) < 100_000 for report in reports(trace))


@pytest.mark.parametrize("count", [5_000, pytest.param(200_000, marks=pytest.mark.thorough)])
def test_many_different_names(tmp_path: Path, count: int) -> None:
    path = tmp_path / "names.json"
    head = text_of(training())[:-2].encode()
    with path.open("wb") as file:
        file.write(head)
        file.writelines(
            b',{"ph":"X","cat":"cpu_op","name":"op %d","pid":1,"tid":1,"ts":%d.5,"dur":0.2}' % (each, each)
            for each in range(count)
        )
        file.write(b"]}")
    trace = open_trace([path])
    assert len(trace.strings) > count
    assert balanced(trace)
    assert all(len(report) < 100_000 for report in reports(trace))
    assert len(packed_recording(Analysis(trace), (0, MILLION), 200_000)) <= 200_000


def test_names_of_a_megabyte_are_cut_for_show_and_said_to_be(tmp_path: Path) -> None:
    trace = trace_of(tmp_path, training("n" * MILLION))
    assert note(trace, "name-shortened") == (4, Effect.REPAIRED)
    assert max(map(len, trace.strings)) == MAX_NAME_LENGTH
    assert balanced(trace)
    made = reports(trace)
    assert all(len(report) < 60_000 for report in made)
    said = json.loads(made[2])
    assert said["fixes"]
    for each in [*said["findings"], *said["fixes"]]:
        assert all(len(text) < 1_000 for text in (*each["advice"], each["title"], each["culprit"]))


def test_long_names_that_are_no_names_of_events_stay_whole(tmp_path: Path) -> None:
    dims = [[number, number] for number in range(5000)]
    trace = trace_of(tmp_path, [complete("aten::_foreach_add_", 0, 5, args={"Input Dims": dims})])
    assert json.loads(max(trace.strings, key=len)) == dims
    assert trace.quality.repaired == 0


@pytest.mark.parametrize("category", ["cpu_op", "python_function", "user_annotation", "gpu_user_annotation"])
def test_thousands_of_levels_are_diagnosed(tmp_path: Path, category: str) -> None:
    nested = [
        complete("f", number * 0.01, 2900 - 0.02 * number, category, args={"device": 0, "stream": 9})
        for number in range(4_000)
    ]
    trace = trace_of(tmp_path, training() + nested)
    assert trace.events.depth.max() >= 3_999
    assert all(len(report) < 100_000 for report in reports(trace))


def test_a_name_of_a_megabyte_in_other_formats(tmp_path: Path) -> None:
    strings = {2: "short", 3: "k" * MILLION}
    exported = open_trace(
        [export(tmp_path / "run.sqlite", {"CUPTI_ACTIVITY_KIND_KERNEL": [nsys_kernel(1, 9)]}, strings)]
    )
    (tmp_path / "page.csv").write_text(raw_page([("0", "k" * MILLION, "1.5")]))
    counted = open_trace([tmp_path / "page.csv"])
    for trace in (exported, counted):
        assert all(len(report) < 50_000 for report in reports(trace))
