"""What the benchmarks measure is a real recording, and the floor reads all of it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path

import pytest

from tests.benchmarks import floor, kineto_like, processes, window_loading
from tests.benchmarks.published import PAGE, Table
from tests.processes.recordings import Recordings


def test_the_written_recording_is_valid_and_has_the_stated_number_of_events(tmp_path: Path) -> None:
    path = tmp_path / "made.pt.trace.json"
    written = kineto_like.write(path, 5_000)
    entries = json.loads(path.read_bytes())["traceEvents"]
    assert written == len(entries) >= 5_000
    launches = {entry["args"]["correlation"] for entry in entries if entry.get("cat") == "cuda_runtime"}
    kernels = {entry["args"]["correlation"] for entry in entries if entry.get("cat") == "kernel"}
    assert launches == kernels


def test_the_floor_reads_every_event_across_chunks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "made.pt.trace.json"
    written = kineto_like.write(path, 5_000)
    monkeypatch.setattr(floor, "BYTES_AT_ONCE", 10_007)
    assert floor.scan(path) == written


def test_pauses_are_counted_between_beats() -> None:
    beats = [(0.0, 0.0), (0.005, 0.001), (0.105, 0.002), (0.110, 0.006)]
    assert window_loading.longest_pause(beats) == pytest.approx((0.1, 0.004))
    assert window_loading.longest_pause(beats[:1]) == (0.0, 0.0)


@pytest.mark.thorough
def test_a_window_that_opens_a_recording_is_watched_to_its_diagnosis(tmp_path: Path) -> None:
    path = tmp_path / "made.pt.trace.json"
    kineto_like.write(path, 5_000)
    taken = window_loading.measure(path)
    assert taken.events > 2_000
    assert 0 < taken.first_lanes <= taken.all_lanes <= taken.diagnosis
    assert taken.longest >= taken.own_work > 0


def test_a_table_takes_the_place_of_the_one_of_its_name(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    page = tmp_path / "page.md"
    page.write_text("before\n<!-- BEGIN a -->\nold\n<!-- END a -->\nafter\n")
    table = Table("a", ", by night", "work", "taken")
    table.row("reading", r"\1 s")
    table.publish(page)
    rows = "| work | taken |\n| --- | --- |\n| reading | \\1 s |\n"
    assert page.read_text().startswith("before\n<!-- BEGIN a -->\n")
    assert page.read_text().endswith(f", by night:\n\n{rows}\n<!-- END a -->\nafter\n")
    assert capsys.readouterr().out.endswith(rows), "as it was printed"
    with pytest.raises(ValueError, match="no place for b"):
        Table("b", "", "work").publish(page)


def test_the_page_has_a_place_for_each_table() -> None:
    page = PAGE.read_text("utf-8")
    for name in ("asked", "ranks", "processes, a processor free", "processes, all processors busy"):
        assert page.count(f"<!-- BEGIN {name} -->\n") == page.count(f"<!-- END {name} -->") == 1


TINY = processes.Sizes(events=5_000, many_events=0, rows=2_000, ranks=8, operators=3)


@pytest.mark.thorough
def test_every_command_is_measured_as_a_process_of_the_wheel_and_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(processes, "SHORT", TINY)
    monkeypatch.setattr(processes, "busy", nullcontext)
    assert processes.report(tmp_path, is_short=True)[1] == 0
    printed = capsys.readouterr().out
    for command in ("diagnose, JSON", "diagnose, gz", "diagnose, SQLite", "diagnose, ranks", "query, SQLite"):
        assert printed.count(command) == 2, "with a processor free, and with all of them busy"
    assert "\n0 faults" in printed


@pytest.mark.thorough
def test_a_command_that_fails_makes_the_measurement_fail(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def read(recordings: Recordings, sizes: processes.Sizes) -> Iterator[processes.Recording]:
        yield processes.Recording(
            "query", recordings.packed(sizes.events), before=("query",), after=("SELECT",)
        )

    monkeypatch.setattr(processes, "SHORT", TINY)
    monkeypatch.setattr(processes, "_read", read)
    monkeypatch.setattr(processes, "busy", nullcontext)
    faults = processes.report(tmp_path, is_short=True)[1]
    assert faults == 4, "the first time and again, with a processor free and with all of them busy"
    assert "FAULT: query: exit code 2" in capsys.readouterr().out
