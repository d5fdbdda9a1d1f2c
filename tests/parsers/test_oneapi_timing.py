"""What unitrace and onetrace print: of the GPU, of calls, behind other output, and cut off."""

from __future__ import annotations

from pathlib import Path

import pytest

from parsers import open_trace
from parsers.model import Trace, TraceError
from parsers.model.results import TimeOf
from viewer.cli import main

ONETRACE = """Matrix multiplication, done
=== Device Timing Results: ===

                Total Execution Time (ns):            295236137
Total Device Time for L0 backend (ns):                177147822

== L0 Backend: ==

                    Kernel,       Calls,     Time (ns),  Time (%),     Average (ns),      Min (ns),      Max (ns)
                      GEMM,           4,     172104499,     97.15,         43026124,      42814000,      43484166
zeCommandListAppendMemoryCopy(M2D),   8,       5034831,      2.85,           629353,        286500,        985333

== CL GPU Backend: ==

   Kernel,   Calls,   Time (ns),  Time (%),     Average (ns),      Min (ns),      Max (ns)
     scan,       1,     1000000,    100.00,          1000000,       1000000,       1000000
"""


def opened(folder: Path, text: str) -> Trace:
    (folder / "job.log").write_text(text)
    return open_trace([folder / "job.log"])


def test_kernels_copies_and_calls_have_their_times(fixtures: Path) -> None:
    calls, gpu = open_trace([fixtures / "oneapi" / "unitrace.txt"]).tables
    assert [each.of for table in (calls, gpu) for each in table.totals] == [TimeOf.CALLS, TimeOf.GPU]
    assert gpu.title == "Times of GPU by unitrace, backend L0, of a program that ran for 2.4 s"
    assert gpu.column("Name")[0] == "gemm<float, 3>(Shape, int)[SIMD16 {56; 1; 1} {64; 8; 1}]"
    assert gpu.column("Time") == (330.0, 165.0, 5.0)
    assert calls.column("Max") == (60_000.0, 200_000.0, 9_000.0)


def test_each_backend_of_onetrace_is_a_table_behind_the_programs_output(tmp_path: Path) -> None:
    first, second = opened(tmp_path, ONETRACE).tables
    assert first.column("Name") == ("GEMM", "zeCommandListAppendMemoryCopy(M2D)")
    assert "CL GPU" in second.title
    assert second.rows == (("scan", 1.0, 1.0, 100.0, 1_000.0, 1_000.0),)
    long = "step 1\n" * 40_000 + ONETRACE
    assert len(opened(tmp_path, long).tables) == 2


def test_the_verdict_is_for_intels_gpus(fixtures: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["diagnose", str(fixtures / "oneapi" / "unitrace.txt")]) == 0
    told = capsys.readouterr().out
    assert told.startswith("66 % of the GPU's time is in gemm")
    assert "Nsight" not in told
    assert "nsys" not in told


@pytest.mark.parametrize("lines", [3, 8])
def test_a_summary_that_was_cut_off_before_its_rows_is_refused(lines: int, tmp_path: Path) -> None:
    with pytest.raises(TraceError):
        opened(tmp_path, "\n".join(ONETRACE.splitlines()[:lines]))


def test_a_row_that_was_cut_off_ends_its_table(tmp_path: Path) -> None:
    (table,) = opened(tmp_path, ONETRACE[: ONETRACE.index("2.85")]).tables
    assert table.column("Name") == ("GEMM",)
