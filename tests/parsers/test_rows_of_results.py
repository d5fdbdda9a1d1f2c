"""Rows of results that have fewer or more cells than their header keep their place where their cells can be told."""

from __future__ import annotations

from pathlib import Path

import pytest

from parsers import open_trace
from parsers.model import Trace, TraceError

ALLTOALL = """#       size         count    type   redop     time   algbw   busbw  error     time   algbw   busbw  error
#        (B)    (elements)                     (us)  (GB/s)  (GB/s)            (us)  (GB/s)  (GB/s)
          64             2   float            86.83    0.25    0.50    N/A    85.77    0.25    0.50    N/A
         128             4   float            86.02    0.50    1.00    N/A    85.30    0.50    1.00    N/A
"""
UNQUOTED = """"Name","Calls","TotalDurationNs","AverageNs","Percentage"
void launch<Atomic, 1024u>(Atomic const*),1,535519,535519,32.4
plain,1,10720,10720,0.65
void launch<Scatter, 64u>(int, int),2,161120,80560,9.7
torn,1
void launch<Torn, 64u>(int,2,x,80560,9.7
last,6,0,0,0
"""
NSYS = """Time (%),Total Time (ns),Instances,Avg (ns),Med (ns),Min (ns),Max (ns),StdDev (ns),Name
61.5,1200,3,400.0,400.0,300,500,81.6,"void gemm<float>(float*, int)"
38.5,750,1,750.0,750.0,750,750,,fill
"""


def written(path: Path, text: str) -> Trace:
    path.write_text(text)
    return open_trace([path])


def test_nccl_tests_of_a_collective_that_reduces_nothing_leave_its_column_empty(tmp_path: Path) -> None:
    trace = written(tmp_path / "alltoall.txt", ALLTOALL)
    (table,) = trace.tables
    assert trace.quality.quarantined == 0
    assert [row[:5] for row in table.rows] == [(64, 2, "float", None, 86.83), (128, 4, "float", None, 86.02)]


def test_rows_whose_unquoted_name_holds_commas_are_put_back_at_their_places(tmp_path: Path) -> None:
    trace = written(tmp_path / "results.stats.csv", UNQUOTED)
    (table,) = trace.tables
    assert [(row[0], row[2]) for row in table.rows] == [
        ("void launch<Atomic, 1024u>(Atomic const*)", 535519),
        ("plain", 10720),
        ("void launch<Scatter, 64u>(int, int)", 161120),
        ("last", 0),
    ]
    assert trace.quality.quarantined == 2


def test_without_a_name_in_front_a_row_with_too_many_cells_stays_out(tmp_path: Path) -> None:
    text = NSYS + '1,2,3,4,5,6,7,8,"a",9\n'
    trace = written(tmp_path / "stats.csv", text)
    assert (len(trace.tables[0].rows), trace.quality.quarantined) == (2, 1)


def test_rows_that_end_with_an_unquoted_name_are_whole_where_all_else_is_a_number(tmp_path: Path) -> None:
    head = "Time(%),Time,Calls,Avg,Min,Max,Name\n60.5%,3ms,1,3ms,3ms,3ms,red(float*, int)\n"
    (table,) = written(tmp_path / "nvprof.csv", f"{head}1%,2us,1,2us,2us,2us,plain\n").tables
    assert table.column("Name") == ("red(float*, int)", "plain")
    other = written(tmp_path / "other.csv", f"{head}1%,2us,many,2us,2us,2us,black(float*, int)\n")
    assert other.quality.quarantined == 1


def test_rows_of_nccl_tests_into_which_nccl_logs_are_whole(fixtures: Path, tmp_path: Path) -> None:
    log = "node7:64904:64921 [1] NCCL INFO AllReduce: opCount 0\n"
    plain = (fixtures / "results" / "nccl_tests.txt").read_text()
    parted = plain.replace("  -1    ", f"  -1{log}{log}    ").replace(
        " 150.55      0", f" 150.55      0{log}"
    )
    assert parted.count("NCCL INFO") > 4
    (tmp_path / "job.log").write_text(log + parted)
    (whole,) = open_trace([fixtures / "results" / "nccl_tests.txt"]).tables
    (table,) = open_trace([tmp_path / "job.log"]).tables
    assert table.rows == whole.rows


FOR_PEOPLE = """loss 2.3
Generating '/tmp/nsys-report.qdstrm'
[1/3] [==========50%          ] report.sqlite
[2/3] Executing 'cuda_api_sum' stats report

 Time (%)  Total Time (ns)  Num Calls  Avg (ns)        Name
 --------  ---------------  ---------  --------  ----------------
     61.5        1,234,567          3  411522.3  cudaLaunchKernel
     38.5          700,000          1  700000.0  cudaMalloc

[3/3] Executing 'cuda_gpu_kern_sum' stats report

 Time (%)  Total Time (ns)  Instances            Name
 --------  ---------------  ---------  -----------------------
    100.0           65,536          2  gemm<float>(float*, int)
"""


def test_tables_that_nsys_prints_behind_a_programs_output_are_read(tmp_path: Path) -> None:
    path = tmp_path / "run.log"
    path.write_text(FOR_PEOPLE)
    calls, kernels = open_trace([path]).tables
    assert (calls.title, kernels.title) == ("cuda_api_sum of nsys stats", "cuda_gpu_kern_sum of nsys stats")
    assert [row[1] for row in calls.rows] == [1_234_567, 700_000]
    assert kernels.rows[0][-1] == "gemm<float>(float*, int)"
    path.write_text(FOR_PEOPLE.replace("Time (%)", "Share"))
    with pytest.raises(TraceError):
        open_trace([path])
