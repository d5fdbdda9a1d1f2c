"""What Nsight Compute prints without --csv says the same as its CSV."""

from __future__ import annotations

import csv
import gzip
import textwrap
from collections.abc import Iterator
from itertools import groupby
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from parsers import open_trace
from parsers.model import KernelProfile, RuleResult, Trace
from tests.examples import any_text
from viewer.cli import main

OLD = """==PROF== Connected to process 14142 (/tmp/a.out)
==PROF== Profiling "add" - 1: 0%....50%....100% - 8 passes
Max error: 0
==PROF== Disconnected from process 14142
[14142] a.out@127.0.0.1
  add(int, float*, float*), 2020-Oct-28 10:36:31, Context 1, Stream 7
    Section: GPU Speed Of Light
    -------------------------------------------------------------------- --------------- ------------------------------
    SOL DRAM                                                                           %                          42.37
    Elapsed Cycles                                                                 cycle                          9,729
    Duration                                                                     usecond                          13.89
    -------------------------------------------------------------------- --------------- ------------------------------
    WRN   This kernel exhibits low compute throughput and memory bandwidth utilization relative to the peak performance
          of this device. Look at Scheduler Statistics.

    Section: Launch Statistics
    -------------------------------------------------------------------- --------------- ------------------------------
    Block Size                                                                                                      256
    Grid Size                                                                                                     4,096
    Registers Per Thread                                                 register/thread                             16
    -------------------------------------------------------------------- --------------- ------------------------------

"""
DURATION = "gpu__time_duration.sum"


def opened(tmp_path: Path, text: str) -> Trace:
    path = tmp_path / "ncu.log"
    path.write_text(text)
    return open_trace([path])


def rows_of(path: Path) -> Iterator[dict[str, str]]:
    with gzip.open(path, "rt", encoding="utf-8") as text:
        yield from csv.DictReader(line for line in text if not line.startswith("=="))


def as_printed(path: Path) -> Iterator[str]:
    """A details page in the layout of the text output."""
    for _, of_kernel in groupby(rows_of(path), key=lambda row: row["ID"]):
        rows = list(of_kernel)
        one = rows[0]
        yield f"[{one['Process ID']}] {one['Process Name'].strip()}@127.0.0.1"
        yield (
            f"  {one['Kernel Name']} {one['Grid Size']}x{one['Block Size']}, Context {one['Context']}, "
            f"Stream {one['Stream']}, Device {one['Device']}, CC {one['CC']}"
        )
        for section, of_section in groupby(
            rows, key=lambda row: (row["Section Name"], bool(row["Metric Name"]))
        ):
            yield from (_table if section[1] else _results)(section[0], list(of_section))
        yield ""


def _table(section: str, rows: list[dict[str, str]]) -> Iterator[str]:
    names = ("Metric Name", "Metric Unit", "Metric Value")
    wide = [max(len(name), *(len(row[name]) for row in rows)) for name in names]
    ruler = "    " + " ".join("-" * each for each in wide)
    yield from (f"    Section: {section}", ruler, _aligned(names, wide), ruler)
    yield from (_aligned([row[name] for name in names], wide) for row in rows)
    yield from (ruler, "")


def _aligned(cells: tuple[str, ...] | list[str], wide: list[int]) -> str:
    label, *rest = [cell.rjust(each) for cell, each in zip(cells, wide, strict=True)]
    return "    " + " ".join((label.strip().ljust(wide[0]), *rest))


def _results(_: str, rows: list[dict[str, str]]) -> Iterator[str]:
    for number, row in enumerate(row for row in rows if row["Rule Name"]):
        if number:
            yield "    ----- " + "-" * 110
        words = row["Rule Description"].split()
        lines = textwrap.wrap(" ".join(words), 110, break_long_words=False, break_on_hyphens=False)
        if row["Estimated Speedup"]:
            local = "Local " * (row["Estimated Speedup Type"] == "local")
            lines.insert(0, f"Est. {local}Speedup: {row['Estimated Speedup']}%")
        yield f"    {row['Rule Type']:<5} {lines[0]:<110}"
        yield from (f"          {line:<110}" for line in lines[1:])


def said(kernel: KernelProfile) -> tuple[object, ...]:
    return (
        kernel.name,
        kernel.grid,
        kernel.block,
        kernel.process,
        kernel.compute_capability,
        kernel.invocations,
        kernel.metrics,
        kernel.units,
    )


def concluded(result: RuleResult) -> tuple[object, ...]:
    text = " ".join(result.text.split())
    return result.kind, text, result.speedup_percent, result.speedup_is_global


def test_a_summary_as_text_says_what_its_csv_says(fixtures: Path) -> None:
    text = open_trace([fixtures / "ncu" / "kernels.summary.txt.gz"])
    table = open_trace([fixtures / "ncu" / "kernels.summary.csv.gz"])
    assert len(text.kernels) == len(table.kernels)
    for one, other in zip(text.kernels, table.kernels, strict=True):
        assert said(one) == said(other)
    assert not text.quality.notes


@pytest.mark.parametrize("recorded", ["kernels", "library", "operators"])
def test_details_as_text_say_what_their_csv_says(tmp_path: Path, fixtures: Path, recorded: str) -> None:
    page = fixtures / "ncu" / f"{recorded}.details.csv.gz"
    text = opened(tmp_path, "\n".join(as_printed(page)))
    table = open_trace([page])
    assert len(text.kernels) == len(table.kernels) > 10
    for one, other in zip(text.kernels, table.kernels, strict=True):
        assert said(one) == said(other)
        assert [concluded(each) for each in one.rule_results] == [
            concluded(each) for each in other.rule_results
        ]
    found = {each.rule for kernel in text.kernels for each in kernel.rule_results}
    stated = {each.rule for kernel in table.kernels for each in kernel.rule_results}
    unnamed = {"SOLBottleneck", "LaunchConfiguration", "PMSamplingData"}
    assert stated - unnamed == found - {"SpeedOfLight", "LaunchStats", "PmSampling"}


def test_a_log_of_2020_is_read_between_what_the_program_printed(tmp_path: Path) -> None:
    trace = opened(tmp_path, OLD)
    (kernel,) = trace.kernels
    assert kernel.name == "add(int, float*, float*)"
    assert (kernel.process, kernel.process_name, kernel.context, kernel.stream) == (14142, "a.out", 1, 7)
    assert kernel.metrics[DURATION] == pytest.approx(13_890)
    assert kernel.block == (256, 1, 1)
    (result,) = kernel.rule_results
    assert (result.kind, result.section) == ("warning", "SpeedOfLight")
    assert result.text.endswith("of this device. Look at Scheduler Statistics.")
    (other,) = (each for each in trace.quality.notes if each.kind == "other-output")
    assert other.count == 1


def test_the_same_kernel_again_is_another_launch(tmp_path: Path) -> None:
    heading = OLD.index("  add(")
    trace = opened(tmp_path, OLD + OLD[heading:].replace("13.89", "27.78"))
    assert [each.metrics[DURATION] for each in trace.kernels] == pytest.approx([13_890, 27_780])


def test_a_line_that_fits_no_column_is_counted_and_not_guessed(tmp_path: Path) -> None:
    text = OLD.replace(
        "    SOL DRAM  ", "    SOL DRAM of everything that has a name far too long for its own column here x"
    )
    trace = opened(tmp_path, text)
    (other,) = (each for each in trace.quality.notes if each.kind == "other-output")
    assert other.count == 2
    assert trace.kernels[0].metrics[DURATION] == pytest.approx(13_890)


LINES = OLD.splitlines()


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.one_of(st.sampled_from(LINES), any_text(90)), max_size=40), st.integers(0, len(LINES)))
def test_lines_in_any_order_lose_no_kernel(tmp_path: Path, lines: list[str], at: int) -> None:
    mixed = [line for line in lines if not line.startswith("==ERROR")]
    trace = opened(tmp_path, "\n".join([*LINES, *mixed[:at], *mixed[at:]]))
    assert trace.kernels[0].name.startswith("add(int")
    assert trace.kernels[0].metrics[DURATION] > 0


FAILED = """==PROF== Profiling "add" - 1: 0%....50%....100% - 8 passes
==ERROR== LaunchFailed
[14142] a.out@127.0.0.1
  add(int, float*, float*), 2020-Oct-28 10:36:31, Context 1, Stream 7
    Section: GPU Speed Of Light
    ---------------------- --------------- ------------------------------
    SOL DRAM                             %                        (!) nan
    ---------------------- --------------- ------------------------------
    ERR   Rule Bottleneck returned an error: Metric launch__waves_per_multiprocessor not found

"""


def test_a_launch_that_failed_has_no_verdict(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """All its metrics are nan, and a rule that could not run has concluded nothing."""
    path = tmp_path / "failed.log"
    path.write_text(FAILED)
    assert main(["diagnose", str(path)]) == 0
    told = capsys.readouterr().out
    assert told.startswith("1 profiled kernel, no verdict: the profiler measured nothing")
    assert "the report lacks counters of throughput" in " ".join(told.split())
    assert "Checked, nothing found" not in told


@pytest.mark.parametrize("between", ["", "[14142] a.out@127.0.0.1\n"])
def test_the_name_of_a_kernel_may_have_a_line_of_its_own(tmp_path: Path, between: str) -> None:
    """As where a long heading was broken; a line of the page itself names nothing."""
    heading = "  add(int, float*, float*), 2020-Oct-28 10:36:31, Context 1, Stream 7"
    broken = f"  add(int, float*, float*) \n{between}  (63, 2, 1)x(16, 4, 1), Context 1, Stream 7"
    (kernel,) = opened(tmp_path, OLD.replace(heading, broken)).kernels
    assert (kernel.name, kernel.grid, kernel.block) == (
        "" if between else "add(int, float*, float*)",
        (63, 2, 1),
        (16, 4, 1),
    )
    assert kernel.duration_ns == pytest.approx(13_890)
