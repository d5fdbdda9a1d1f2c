"""Summaries and metrics as nvprof prints them for people become tables."""

from __future__ import annotations

from pathlib import Path

import pytest

from parsers import open_trace
from parsers.model import Attribute, CopyKind, EventKind, Trace, TraceError, UnknownFormat
from parsers.model.results import TimeOf
from parsers.nvprof_text import OF_PAGES

SUMMARY = """==297== NVPROF is profiling process 297, command: ./nbody
4096 Bodies: average 0.036 Billion Interactions / second
==297== Profiling application: ./nbody
==297== Profiling result:
            Type  Time(%)      Time     Calls       Avg       Min       Max  Name
 GPU activities:   75.00%  3.0000ms        10  300.00us  290.00us  310.00us  integrate(Body*, float, int)
                   25.00%  1.0000ms         2  500.00us  400ns     1.2s  [CUDA memcpy HtoD]
      API calls:  100.00%  160.34ms         1  160.34ms  160.34ms  160.34ms  cudaMallocManaged

==297== Unified Memory profiling result:
Total CPU Page faults: 2
"""
METRICS = """==7== Metric result:
Invocations                 Metric Name            Metric Description         Min         Max         Avg
Device "Tesla V100-PCIE-32GB (0)"
    Kernel: gemm(float*, int)
         18               inst_per_warp          Instructions per warp   42.000000   44.000000   43.000000
         18          dram_utilization       Device Memory Utilization     Low (3)     Mid (5)     Low (3)
    Kernel: relu(float*)
          1       gld_throughput          Global Load Throughput  12.5GB/s  12.5GB/s  12.5GB/s
==7== Warning: One or more metrics can't be profiled.
"""


def opened(tmp_path: Path, text: str) -> Trace:
    path = tmp_path / "nvprof.txt"
    path.write_text(text)
    return open_trace([path])


def test_a_summary_is_a_table_with_times_in_one_unit(tmp_path: Path) -> None:
    trace = opened(tmp_path, SUMMARY)
    (table,) = trace.tables
    assert table.title == "Summary of nvprof"
    assert table.column("Type") == ("GPU activities", "GPU activities", "API calls")
    assert [row[2] for row in table.rows] == [3000.0, 1000.0, 160340.0]
    assert table.column("Min") == (290.0, 0.4, 160340.0)
    assert table.column("Max") == (310.0, 1_200_000.0, 160340.0)
    assert {column.name: column.unit for column in table.columns}["Avg"] == "us"
    assert table.column("Name") == ("integrate(Body*, float, int)", "[CUDA memcpy HtoD]", "cudaMallocManaged")
    assert trace.inputs[0].producer == "nvprof"


def test_pages_of_unified_memory_are_a_table_beside_the_summary(tmp_path: Path) -> None:
    pages = """Device "Tesla T4 (0)"
   Count  Avg Size  Min Size  Max Size  Total Size  Total Time  Name
       3  82.000KB  4.0000KB  2.0000MB  246.0000KB  48.33489ms  Host To Device
     382         -         -         -           -  72.01177ms  Gpu page fault groups
       2         -         -         -           -           -  Remote mapping
"""
    text = SUMMARY.replace("Total CPU", f"{pages}Total CPU")
    summary, table = opened(tmp_path, text).tables
    assert (summary.title, table.title) == ("Summary of nvprof", "Unified memory of nvprof")
    assert [each.title for each in table.columns] == list(OF_PAGES)
    assert table.rows == (
        ("Host To Device", 3.0, 82.0 * 1024, 246.0 * 1024, 48_334.89),
        ("Gpu page fault groups", 382.0, None, None, 72_011.77),
    )


def test_summaries_of_several_programs_in_one_file_are_tables_of_their_own(tmp_path: Path) -> None:
    older = SUMMARY.replace("            Type  Time(%)", "Time(%)").replace(" GPU activities:", "")
    trace = opened(tmp_path, f"notes of mine\n{older}\n{SUMMARY}")
    assert [len(table.column("Name")) for table in trace.tables] == [3, 3]
    assert trace.tables[0].column("Type") == ("GPU activities", "GPU activities", "API calls")


def test_the_remark_above_a_table_without_types_says_whose_time_it_is(tmp_path: Path) -> None:
    calls = """==297== API calls:
Time(%)      Time     Calls       Avg       Min       Max  Name
100.00%  160.34ms         1  160.34ms  160.34ms  160.34ms  cudaMalloc
"""
    (table,) = opened(tmp_path, calls).tables
    assert (table.column("Type"), [each.of for each in table.totals]) == (
        ("API calls",),
        [TimeOf.GPU, TimeOf.CALLS],
    )


def test_metrics_name_the_kernel_that_they_are_of(tmp_path: Path) -> None:
    (table,) = opened(tmp_path, METRICS).tables
    assert table.title == "Metrics of nvprof"
    assert table.column("Kernel") == ("gemm(float*, int)", "gemm(float*, int)", "relu(float*)")
    assert table.column("Invocations") == (18.0, 18.0, 1.0)
    assert table.column("Metric Description")[1] == "Device Memory Utilization"
    assert table.column("Avg") == ("43.000000", "Low (3)", "12.5GB/s")


@pytest.mark.parametrize(
    "text",
    [
        "Usage: nvprof [options] [CUDA-application]\n  -s,  --print-summary  Print a summary, Time(%) and all.\n",
        SUMMARY.replace("Time(%)      Time     Calls", "Time(%)      Time     Count"),
        METRICS.replace("Invocations ", "Count "),
    ],
)
def test_other_texts_are_none_of_nvprofs_tables(text: str, tmp_path: Path) -> None:
    with pytest.raises(UnknownFormat):
        opened(tmp_path, text)


def test_what_is_no_row_ends_a_table_and_is_counted(tmp_path: Path) -> None:
    row = METRICS.splitlines()[4]
    trace = opened(tmp_path, METRICS.replace(row, f"{row}\nnot a row of it\n{row}"))
    assert len(trace.tables[0].column("Kernel")) == 1
    assert trace.quality.quarantined >= 1


OPERATIONS = (
    *(
        "Start  Duration",
        "Grid Size  Block Size",
        "Regs*  SSMem*  DSMem*",
        "Size  Throughput  SrcMemType  DstMemType",
    ),
    *("Device   Context    Stream  Name",),
)
KERNEL = (
    *(
        "360.75ms  1.8560us",
        "(8 4 1)    (64 2 1)",
        "16    224B  1.5KB",
        "-           -           -           -",
    ),
    *("GeForce GTX 106         1        14  gemm(float*, int) [105]",),
)
COPY = (
    *(
        "1.36131s  196.23us",
        "-           -",
        "-       -       -",
        "1.0000MB  4.9767GB/s    Pageable      Device",
    ),
    *("GeForce GTX 106         1         7  [CUDA memcpy HtoD]",),
)


def operations(*rows: tuple[str, ...]) -> str:
    """What --print-gpu-trace prints, below what the program does."""
    return "\n".join(
        [
            "==28684== NVPROF is profiling process 28684, command: ./gemm",
            "10 rounds",
            "==28684== Profiling result:",
            *("   " + "  ".join(row) for row in (OPERATIONS, *rows)),
            "",
            "Regs: Number of registers used per CUDA thread.",
        ]
    )


def test_the_printed_table_of_gpu_operations_is_a_timeline(tmp_path: Path) -> None:
    trace = opened(tmp_path, operations(KERNEL, COPY))
    names = [trace.strings[index] for index in trace.events.name]
    lengths = (trace.events.end - trace.events.start).tolist()
    assert dict(zip(names, lengths, strict=True)) == {
        "gemm(float*, int)": 1_856,
        "[CUDA memcpy HtoD]": 196_230,
    }
    assert int(trace.events.start.max() - trace.events.start.min()) == 1_000_560_000


def test_a_printed_header_without_operations_is_refused(tmp_path: Path) -> None:
    with pytest.raises(TraceError):
        opened(tmp_path, operations())


@pytest.mark.parametrize(("megabytes", "read"), [(250, True), (260, False)])
def test_a_long_printed_table_is_read_up_to_a_limit(tmp_path: Path, megabytes: int, read: bool) -> None:
    path = tmp_path / "long.txt"
    path.write_text(operations(KERNEL, COPY))
    with path.open("r+b") as file:
        file.seek(megabytes << 20)
        file.write(b"\n")
    if read:
        assert len(open_trace([path]).events) == 2
        return
    with pytest.raises(TraceError, match="larger than 256 MB"):
        open_trace([path])


def of_pages(name: str, duration: str = "2.0000us", size: str = "64.000KB") -> tuple[str, ...]:
    return (
        *(f"1.36131s  {duration}", "-           -", "-       -       -"),
        *("GeForce GTX 106         -         -", f"{size}    0x7f8cc0000000  {name}"),
    )


PAGES = (
    *("Start  Duration", "Grid Size  Block Size", "Regs*  SSMem*  DSMem*"),
    *("Device   Context    Stream", "Unified Memory  Virtual Address  Name"),
)


def test_page_faults_are_no_work_and_pages_that_move_are_copies(tmp_path: Path) -> None:
    rows = (
        PAGES,
        of_pages("[Unified Memory GPU page faults]", size="3"),
        of_pages("[Unified Memory CPU page faults]", "-", "PC 0x4034d6"),
        of_pages("[Unified Memory Memcpy HtoD]"),
    )
    text = "\n".join("   " + "  ".join(row) for row in rows)
    trace = opened(tmp_path, f"==7== Warning: 2 records have invalid timestamps.\n{text}")
    work = trace.gpu_operations
    assert [trace.name(each) for each in work.tolist()] == ["[Unified Memory Memcpy HtoD]"]
    assert trace.events.kind[work].tolist() == [EventKind.MEMCPY.value]
    assert trace.attribute(Attribute.BYTES, work).tolist() == [64 << 10]
    assert trace.attribute(Attribute.COPY_KIND, work).tolist() == [CopyKind.H2D.value]
    told = {note.kind: (note.count, note.reason) for note in trace.quality.notes}
    assert told["no-work"][0] == 2
    assert (1, "The profiler warned: 2 records have invalid timestamps.") in told.values()
