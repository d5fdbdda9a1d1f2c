"""Results of benchmarks and summaries open as tables, alone and beside a recording."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import numpy as np
import pytest

from parsers import open_trace
from parsers.csv_tables import CsvTable
from parsers.model import F64, Attribute, CopyKind, EventKind, MemoryKind, Trace, TraceError
from rules import diagnose
from rules.analysis.ranks.collectives import measured_bus_bandwidth
from tests.unusual_recordings import printed_tables
from viewer.cli import main

# The cases lie on either side of these.
MAX_ROWS = 5_000

FIXTURES = Path(__file__).parents[1] / "fixtures"
NVPROF_TRACE = FIXTURES / "results" / "nvprof_gpu_trace.csv"
NCCL = """# nThread 1 nGpus 8 minBytes 8388608 maxBytes 16777216 step: 2(factor)
#
#                                                              out-of-place                       in-place
#       size         count      type   redop    root     time   algbw   busbw #wrong     time   algbw   busbw #wrong
#        (B)    (elements)                               (us)  (GB/s)  (GB/s)            (us)  (GB/s)  (GB/s)
     8388608       2097152     float     sum      -1    97.51   86.03  150.55      0    96.53   86.90  152.08    N/A
    16777216       4194304     float     sum      -1    145.2  115.54  202.20      0    144.6  116.02  203.04      0
# Out of bounds values : 0 OK
# Avg bus bandwidth    : 176.968
"""
COMPARISON = """[------------------- gemm -------------------]
           |  torch.float32  |  torch.bfloat16
1 threads: -----------------------------------
      512  |       32.5      |       19.8
4 threads: -----------------------------------
      512  |       12.5      |        9.8

Times are in microseconds (us).
"""
MEASUREMENT = """<torch.utils.benchmark.utils.common.Measurement object at 0x7f32c0b21550>
gemm: 512
torch.float32
  Median: 32.52 us
  IQR:    4.16 us (29.98 to 34.14)
  6122 measurements, 1 runs per measurement, 1 thread
"""
NSYS = """Time (%),Total Time (ns),Instances,Avg (ns),Med (ns),Min (ns),Max (ns),StdDev (ns),Name
 61.5,1200,3,400.0,400.0,300,500,81.6,"void gemm<float>(float*, int)"
38.5,750,1,750.0,750.0,750,750,,fill
"""
ROCPROF = '"Name","Calls","TotalDurationNs","AverageNs","Percentage"\n"gemm(float*, int) [clone .kd]",3,1200,400,61.5\n'
PERF = """Concurrency,Inferences/Second,Client Send,Server Queue,Server Compute Infer,p50 latency,p99 latency
1,120.5,12,30,8000,8100,9000
4,400,15,90,9000,9500,12000
"""
NVPROF = """==7== NVPROF is profiling process 7, command: ./gemm
==7== Profiling result:
"Time(%)","Time","Calls","Avg","Min","Max","Name"
%,ms,,ms,ms,ms,
61.5,1.2,3,0.4,0.3,0.5,"gemm(float*, int)"
"""
OP_STATISTIC = """OP Type,Core Type,Count,Total Time(us),Min Time(us),Avg Time(us),Max Time(us),Ratio(%)
Mul,AI_VECTOR_CORE,20,260.825,1.26,13.041,160.2,2.9
"""
GENAI_CSV = """Metric,avg,min,max,p99,p95,p90,p75,p50,p25
Time To First Token (ms),16.26,12.39,17.25,17.09,16.68,16.56,16.47,16.38,16.31
Request Throughput (per sec),1.4,,,,,,,,
"""
GENAI_JSON = json.dumps(
    {
        "request_throughput": {"unit": "requests/sec", "avg": 4.46},
        "time_to_first_token": {"unit": "ms", "avg": 18.0, "p50": 17.5, "p99": 30.25},
        "input_config": {"model": ["x"]},
    }
)


def opened(path: Path, text: str) -> Trace:
    path.write_text(text)
    return open_trace([path])


@pytest.mark.parametrize("count", [MAX_ROWS, MAX_ROWS + 1])
def test_rows_that_a_table_does_not_show_are_in_the_account(tmp_path: Path, count: int) -> None:
    layers = [{"name": f"layer {number}", "timeMs": number + 1.0} for number in range(count)]
    trace = opened(tmp_path / "profile.json", json.dumps([{"count": 1}, *layers]))
    assert len(trace.tables[0].rows) == MAX_ROWS
    assert trace.quality.events_read == count
    assert trace.quality.events_kept == MAX_ROWS
    assert trace.quality.quarantined == count - MAX_ROWS


@pytest.mark.parametrize(
    ("text", "title", "columns", "first"),
    [
        (NCCL, "nccl-tests collective, 176.968 GB/s on average, at most 203", 13, 8388608.0),
        (COMPARISON, "torch.utils.benchmark gemm", 4, "512"),
        (MEASUREMENT, "torch.utils.benchmark, measurements", 4, "gemm: 512 torch.float32"),
        (NSYS, "Summary of nsys stats", 9, 61.5),
        (ROCPROF, "Summary of rocprof", 5, "gemm(float*, int) [clone .kd]"),
        (OP_STATISTIC, "Operators", 8, "Mul"),
        (
            (FIXTURES / "results" / "trtexec_profile.json").read_text(),
            "Layers of TensorRT",
            5,
            "block.0 input reformatter 0",
        ),
        (PERF, "Load test of perf_analyzer", 7, 1.0),
        (GENAI_CSV, "Load test of genai-perf", 10, "Time To First Token (ms)"),
        (GENAI_JSON, "Load test of genai-perf", 10, "request_throughput"),
    ],
)
@pytest.mark.parametrize("packed", [False, True])
def test_results_are_known_by_their_content(
    tmp_path: Path, text: str, title: str, columns: int, first: str | float, packed: bool
) -> None:
    path = tmp_path / "something"
    path.write_bytes(gzip.compress(text.encode()) if packed else text.encode())
    trace = open_trace([path])
    (table,) = trace.tables
    assert (table.title, len(table.columns), table.rows[0][0]) == (title, columns, first)
    assert {len(row) for row in table.rows} == {columns}
    assert trace.quality.quarantined == 0


def test_what_mpirun_puts_before_parts_of_lines_is_passed_over(tmp_path: Path) -> None:
    """And rows stand behind what the program printed before them."""
    before = "[1,0]<stdout>:node:7:7 [0] NCCL INFO Bootstrap : Using eth0\n" * 2000
    tagged = "".join(
        f"[1,0]<stdout>:{line[:40]}[1,0]<stdout>:{line[40:]}" for line in NCCL.splitlines(keepends=True)
    )
    assert (
        opened(tmp_path / "tagged.log", before + tagged).tables == opened(tmp_path / "plain.log", NCCL).tables
    )


def test_a_single_size_has_no_most(tmp_path: Path) -> None:
    lines = NCCL.splitlines(keepends=True)
    first = next(place for place, line in enumerate(lines) if line.split()[0].isdigit())
    (table,) = opened(tmp_path / "one.txt", "".join((*lines[: first + 1], lines[-1]))).tables
    assert table.title == "nccl-tests collective, 176.968 GB/s on average"


PRINTED = f"""Generating SQLite file run.sqlite from run.nsys-rep
Processing [run.sqlite] with [/opt/nsys/target/reports/cuda_gpu_kern_sum.py]...
{NSYS}
Processing [run.sqlite] with [/opt/nsys/target/reports/nvtx_sum.py]...
SKIPPED: run.sqlite does not contain NV Tools Extension (NVTX) data.

Processing [run.sqlite] with [/opt/nsys/target/reports/cuda_gpu_mem_size_sum.py]...
Total (MB),Count,Avg (MB),Operation
1.5,3,0.5,[CUDA memcpy Host-to-Device]
2.5,[CUDA memset]
"""


def test_reports_that_nsys_stats_prints_one_after_the_other_are_tables_of_their_own(tmp_path: Path) -> None:
    for text, titles in (
        (PRINTED, ["cuda_gpu_kern_sum of nsys stats", "cuda_gpu_mem_size_sum of nsys stats"]),
        (PRINTED.split("\n", 2)[2], ["Summary of nsys stats", "cuda_gpu_mem_size_sum of nsys stats"]),
        (
            PRINTED.replace("\n", "\r\n"),
            ["cuda_gpu_kern_sum of nsys stats", "cuda_gpu_mem_size_sum of nsys stats"],
        ),
    ):
        trace = opened(tmp_path / "printed.csv", text)
        assert [table.title for table in trace.tables] == titles
        kernels, copies = trace.tables
        assert kernels.column("Name") == ("void gemm<float>(float*, int)", "fill")
        assert kernels.column("Total Time") == (1200, 750)
        assert copies.rows == ((1.5, 3.0, 0.5, "[CUDA memcpy Host-to-Device]"),)
        assert (trace.quality.events_read, trace.quality.events_kept, trace.quality.quarantined) == (4, 3, 1)
    with pytest.raises(TraceError) as refused:
        opened(tmp_path / "printed.csv", PRINTED.split(" 61.5")[0] + "\n\n")
    assert refused.value.hint


@pytest.mark.parametrize(
    ("lacking", "noted"), [("CUDA kernel data", True), ("CUDA memory transfers data", False)]
)
def test_a_report_without_kernels_is_said_to_tell_nothing_of_a_gpu(
    lacking: str, noted: bool, tmp_path: Path
) -> None:
    calls = "Time (%),Total Time (ns),Num Calls,Name\n70.0,4000,3,poll\n\n"
    text = "Processing [run.sqlite] with [/opt/nsys/target/reports/osrt_sum.py]...\n" + calls
    text += f"Processing [run.sqlite] with [/opt/a.py]...\nSKIPPED: run.sqlite does not contain {lacking}.\n"
    notes = {note.kind for note in opened(tmp_path / "printed.csv", text).quality.notes}
    assert ("no-kernels" in notes) is noted


def test_many_small_tables_are_read_together(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    readings: list[int] = []
    numbers = CsvTable.numbers

    def counted(self: CsvTable, name: str) -> F64:
        readings.append(self.length)
        return numbers(self, name)

    monkeypatch.setattr(CsvTable, "numbers", counted)
    trace = opened(tmp_path / "printed.csv", printed_tables(2_000).decode())
    assert {table.rows for table in trace.tables} == {((61.5, 1200.0, "gemm"), (38.5, None, "fill"))}
    assert len(trace.tables) == 2_000
    assert (len(readings), sum(readings)) == (1, 12_000)


def test_a_table_of_many_rows_is_read_a_column_at_a_time(tmp_path: Path) -> None:
    rows = "".join(f"{number},{number * 2},{'x' if number == 69_999 else '1'}\n" for number in range(70_000))
    trace = opened(tmp_path / "long.csv", "Time (%),Total Time (ns),Name\n" + rows)
    (table,) = trace.tables
    assert table.column("Time") == tuple(map(float, range(MAX_ROWS)))
    assert table.column("Total Time") == tuple(map(float, range(0, 2 * MAX_ROWS, 2)))
    assert set(table.column("Name")) == {"1"}


def test_tables_of_genai_perf_follow_one_another(tmp_path: Path) -> None:
    first, second = GENAI_CSV.splitlines(keepends=True)[:2]
    trace = opened(
        tmp_path / "g.csv", f"{first}{second}\nMetric,Value\nRequest Throughput (per sec),1.4\n\nx,y,z\n1,2\n"
    )
    assert [table.title for table in trace.tables] == ["Load test of genai-perf", "Throughput of genai-perf"]
    assert trace.tables[1].rows == (("Request Throughput (per sec)", 1.4),)
    assert (trace.quality.events_read, trace.quality.quarantined) == (4, 2)
    with pytest.raises(TraceError):
        opened(tmp_path / "h.csv", "Metric,Value\nRequest Throughput (per sec),1.4\n")


def test_columns_have_their_units_and_gaps_are_gaps(tmp_path: Path) -> None:
    (table,) = opened(tmp_path / "nsys.csv", NSYS).tables
    assert table.columns[1].title == "Total Time (ns)"
    assert table.column("StdDev") == (81.6, None)
    (table,) = opened(tmp_path / "perf.csv", PERF).tables
    assert {column.name: column.unit for column in table.columns}["p99 latency"] == "us"
    (table,) = opened(tmp_path / "nccl.txt", NCCL).tables
    assert table.column("busbw out of place") == (150.55, 202.2)
    assert table.column("busbw in place") == (152.08, 203.04)
    assert table.column("#wrong in place") == (None, 0.0)
    (table,) = opened(tmp_path / "compare.txt", COMPARISON).tables
    assert table.column("threads") == ("1", "4")
    assert table.column("torch.float32") == (32.5, 12.5)


def test_results_stand_beside_a_recording(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    results = tmp_path / "nccl.txt"
    results.write_text(NCCL)
    recording = FIXTURES / "xprof" / "loader.trace.json.gz"
    trace = open_trace([recording, results])
    assert len(trace.events) > 1000
    assert [table.title[:10] for table in trace.tables] == ["nccl-tests"]
    assert not any("left" in note.kind for note in trace.quality.notes)
    assert main(["diagnose", str(recording), str(results)]) == 0
    assert "16,777,216" in capsys.readouterr().out
    assert main(["diagnose", "--json", str(results)]) == 0
    (table,) = json.loads(capsys.readouterr().out)["tables"]
    assert table["columns"][0] == {"name": "size", "unit": "B"}
    assert table["rows"][0][0] == 8388608.0


def test_results_alone_are_called_results(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "compare.txt"
    path.write_text(COMPARISON)
    assert main(["diagnose", str(path)]) == 0
    out = capsys.readouterr().out
    assert out.startswith("Results without a recording: torch.utils.benchmark gemm")
    assert "2 rows, all kept" in out
    assert "Not checked" not in out


@pytest.mark.parametrize(
    "text",
    [
        NCCL.split("     8388608")[0],
        COMPARISON.split("      512")[0],
        NSYS.splitlines()[0] + "\n",
        '{"inter_token_latency": {"avg": "x"}}',
    ],
)
def test_a_header_alone_is_refused_with_a_hint(tmp_path: Path, text: str) -> None:
    with pytest.raises(TraceError) as refused:
        opened(tmp_path / "empty", text)
    assert refused.value.hint


def test_rows_that_do_not_fit_are_counted_and_very_many_are_cut(tmp_path: Path) -> None:
    trace = opened(tmp_path / "nccl.txt", NCCL.replace("16777216       4194304", "16777216"))
    assert (len(trace.tables[0].rows), trace.quality.quarantined) == (1, 1)
    trace = opened(tmp_path / "many.csv", NSYS + "1,2,3,4,5,6,7,8,k\n" * MAX_ROWS)
    assert (len(trace.tables[0].rows), trace.quality.quarantined) == (MAX_ROWS, 2)


def test_measured_links_are_the_roof_of_the_same_collective_at_a_near_size(tmp_path: Path) -> None:
    trace = opened(tmp_path / "nccl.txt", "# all_reduce_perf -b 8M -e 16M\n" + NCCL)
    assert measured_bus_bandwidth(trace, "allreduce", 9_000_000) == pytest.approx(150.55e9)
    assert measured_bus_bandwidth(trace, "allreduce", 30_000_000) == pytest.approx(202.2e9)
    assert measured_bus_bandwidth(trace, "allreduce", 1_000_000) is None
    assert measured_bus_bandwidth(trace, "allgather", 9_000_000) is None
    unnamed = opened(tmp_path / "unnamed.txt", NCCL)
    assert measured_bus_bandwidth(unnamed, "allreduce", 9_000_000) is None


def test_the_largest_collective_is_held_against_the_measured_links(tmp_path: Path) -> None:
    results = tmp_path / "nccl.txt"
    sizes = "".join(
        f"{1 << power} {1 << power - 2} float sum -1 {1 << power - 20}.0 100.0 175.0 0 9.0 100.0 180.0 0\n"
        for power in range(20, 32)
    )
    results.write_text("# all_reduce_perf\n" + NCCL.split("     8388608")[0] + sizes)
    ranks = sorted((FIXTURES / "ddp").glob("no_overlap.rank*.pt.trace.json.gz"))
    findings = diagnose(open_trace([*ranks, results])).findings
    (told,) = [each.explanation for each in findings if each.rule == "exposed-communication"]
    assert "nccl-tests reached 175 GB/s at this size" in told


def test_a_table_of_gpu_operations_is_a_timeline_without_calls() -> None:
    trace = open_trace([FIXTURES / "results" / "nsys_gpu_trace.csv"])
    operations = trace.gpu_operations
    assert {kind: int((trace.events.kind == kind).sum()) for kind in trace.kinds} == {
        EventKind.KERNEL: 23,
        EventKind.MEMCPY: 1,
        EventKind.MEMSET: 8,
    }
    assert int((trace.events.end - trace.events.start)[operations].sum()) == 5_871_343
    assert [(each.id, each.name) for each in trace.devices] == [(0, "NVIDIA H200")]
    first = operations[:1]
    assert trace.text_attribute(Attribute.GRID_SHAPE, int(first[0])) == "32768,1,1"
    assert trace.attribute(Attribute.REGISTERS, first).tolist() == [34]
    (copy,) = trace.events.of_kind(EventKind.MEMCPY).tolist()
    told = (Attribute.COPY_KIND, Attribute.SOURCE_MEMORY, Attribute.TARGET_MEMORY)
    assert [int(trace.attribute(each, np.array([copy]))[0]) for each in told] == [
        CopyKind.D2D.value,
        MemoryKind.DEVICE.value,
        MemoryKind.DEVICE.value,
    ]
    assert any("nsys export --type sqlite" in each.reason for each in trace.quality.notes)


def test_tables_of_ascend_and_nvprof_are_timelines_in_their_own_units(tmp_path: Path) -> None:
    trace = open_trace([FIXTURES / "results" / "kernel_details.csv"])
    work = trace.gpu_operations
    assert (trace.events.start[work].tolist(), trace.epoch_ns) == ([0, 156_343], 1736405443881410320)
    assert (trace.events.end - trace.events.start)[work].tolist() == [50_621, 6_280]
    assert trace.text_attribute(Attribute.COLLECTIVE, int(work[1])) == "allreduce"
    assert (trace.devices[0].name, trace.quality.quarantined) == ("Ascend NPU", 1)
    assert (
        len(set(trace.events.lane[work].tolist())) == 2
    )  # no stream was stated, and none is told to be shared

    trace = open_trace([NVPROF_TRACE])
    work = trace.gpu_operations
    assert [trace.name(each) for each in work.tolist()] == ["[CUDA memcpy HtoD]", "gemm(float*, int)"]
    assert trace.events.start[work].tolist() == [0, 100_000]
    assert (trace.events.end - trace.events.start)[work].tolist() == [10_500, 20_000]
    assert trace.attribute(Attribute.BYTES, work[:1]).tolist() == [2 << 20]
    assert trace.text_attribute(Attribute.BLOCK_SHAPE, int(work[1])) == "64,1,1"
    assert [trace.lanes[each].stream for each in trace.events.lane[work].tolist()] == [7, 14]
    assert (trace.devices[0].id, trace.devices[0].name) == (1, "GTX 1080")

    (table,) = opened(tmp_path / "summary.csv", NVPROF).tables
    assert (table.title, table.column("Name")[-1]) == ("Summary of nvprof", "gemm(float*, int)")
    with pytest.raises(TraceError, match="no operations"):
        opened(tmp_path / "empty.csv", NVPROF_TRACE.read_text().split("1.500000")[0])


VISUAL = (
    "Name,Start Time(ns),Duration(ns),GridX,GridY,GridZ,BlockX,BlockY,BlockZ,Registers/Thread,Size(bytes),"
)


@pytest.mark.parametrize(("counted", "alone"), [("", False), ("512", True)])
def test_a_table_of_the_visual_profiler_is_a_timeline_and_tells_of_its_counters(
    counted: str, alone: bool, tmp_path: Path
) -> None:
    text = (
        f"{VISUAL}Instructions Executed\n"
        '"Memcpy HtoD [sync]",1000,500,,,,,,,,2000000,\n'
        f'"scale(float*, int)",9000,700,4,2,1,64,1,1,32,,{counted}\n'
        '"memset (0)",12000,10,,,,,,,,64,\n'
    )
    trace = opened(tmp_path / "table.csv", text)
    work = trace.gpu_operations
    assert [trace.name(each) for each in work.tolist()] == [
        "[CUDA memcpy HtoD]",
        "scale(float*, int)",
        "[CUDA memset]",
    ]
    assert trace.events.duration[work].tolist() == [500, 700, 10]
    assert trace.attribute(Attribute.BYTES, work[:1]).tolist() == [2_000_000]
    assert trace.text_attribute(Attribute.GRID_SHAPE, int(work[1])) == "4,2,1"
    assert trace.inputs[0].producer == "Visual Profiler"
    assert trace.quality.kernels_ran_one_by_one is alone


def test_a_table_beside_the_recording_that_it_is_of_is_no_rank(tmp_path: Path) -> None:
    trace = (
        '[{"ph": "X", "cat": "kernel", "name": "k", "ts": 1, "dur": 2, "args": {"device": 0, "stream": 7}}]'
    )
    for folder, beside in (("both", True), ("alone", False)):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "kernel_details.csv").write_bytes(
            (FIXTURES / "results" / "kernel_details.csv").read_bytes()
        )
        if beside:
            (tmp_path / folder / "trace_view.json").write_text(trace)
        opened_folder = open_trace([tmp_path / folder])
        assert (len(opened_folder.inputs), len(opened_folder.gpu_operations)) == (
            (1, 1) if beside else (1, 2)
        )
        left_out = [note.example for note in opened_folder.quality.notes if note.kind == "file-not-read"]
        assert any("kernel_details.csv" in each for each in left_out) is beside


def test_rows_of_gpu_operations_that_cannot_be_are_left_out(tmp_path: Path) -> None:
    header, row, *_ = (FIXTURES / "results" / "nsys_gpu_trace.csv").read_text().splitlines()
    start, _, rest = row.split(",", 2)
    path = tmp_path / "trace.csv"
    path.write_text("\n".join([header, row, f"{start},-5,{rest}", f",7,{rest}", "1,2,3"]) + "\n")
    trace = open_trace([path])
    assert (len(trace.events), trace.quality.events_read, trace.quality.events_kept) == (1, 4, 1)
    path.write_text(f"{header}\n")
    with pytest.raises(TraceError, match="no operations"):
        open_trace([path])


@pytest.mark.parametrize("key", ["id", "arrival", "first", "end", "prompt", "out"])
def test_a_number_that_no_request_has_leaves_its_line_out(tmp_path: Path, key: str) -> None:
    sound = {"id": 1, "arrival": 1000, "first": 2000, "end": 6000, "prompt": 4, "out": 5}
    lines = [sound, sound | {key: -(10**400) if key == "arrival" else 10**400}]
    trace = opened(tmp_path / "log.jsonl", "\n".join(map(json.dumps, lines)))
    assert len(trace.tables[0].rows) == 1
    assert trace.quality.quarantined == 1


def test_a_figure_of_genai_perf_that_is_beyond_any_measure_is_none(tmp_path: Path) -> None:
    metrics = json.loads(GENAI_JSON)
    metrics["time_to_first_token"]["p99"] = 10**400
    trace = opened(tmp_path / "load.json", json.dumps(metrics))
    assert 18.0 in trace.tables[0].rows[1]
    assert 10**400 not in trace.tables[0].rows[1]
