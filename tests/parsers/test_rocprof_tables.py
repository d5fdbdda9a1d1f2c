"""Tables of rocprof, rocprofv3 and rocprofiler-compute open as events or profiles, those of one process together."""

from __future__ import annotations

import gzip
import sqlite3
from pathlib import Path

import numpy as np
import pytest

from parsers import open_trace
from parsers.model import Attribute, CopyKind, EventKind, LaneKind, Trace, TraceError
from tests.parsers.nsys_exports import write_table
from viewer.cli import main

KERNEL_TRACE = """"Kind","Agent_Id","Queue_Id","Stream_Id","Thread_Id","Dispatch_Id","Kernel_Id","Kernel_Name",\
"Correlation_Id","Start_Timestamp","End_Timestamp","LDS_Block_Size","Scratch_Size","VGPR_Count","Accum_VGPR_Count",\
"SGPR_Count","Workgroup_Size_X","Workgroup_Size_Y","Workgroup_Size_Z","Grid_Size_X","Grid_Size_Y","Grid_Size_Z"
"KERNEL_DISPATCH","Agent 4",1,2,77,1,5,"void add<float>(float*, int)",11,1000,1500,0,0,8,0,16,64,1,1,1024,2,1
"KERNEL_DISPATCH","Agent 4",1,2,77,2,5,"void add<float>(float*, int)",13,2500,2600,0,0,8,0,16,64,1,1,1024,2,1
"""
API_TRACE = """"Domain","Function","Process_Id","Thread_Id","Correlation_Id","Start_Timestamp","End_Timestamp"
"HIP_RUNTIME_API","hipLaunchKernel",77,77,11,900,950
"HIP_RUNTIME_API","hipMemcpy",77,77,12,1600,2300
"HIP_RUNTIME_API","hipLaunchKernel",77,77,13,2350,2400
"""
MARKERS = """"Domain","Function","Process_Id","Thread_Id","Correlation_Id","Start_Timestamp","End_Timestamp"
"MARKER_CORE_API","train_step",77,77,10,800,2700
"""
COPIES = """"Kind","Direction","Stream_Id","Source_Agent_Id","Destination_Agent_Id","Correlation_Id","Start_Timestamp",\
"End_Timestamp"
"MEMORY_COPY","MEMORY_COPY_DEVICE_TO_HOST",2,"Agent 4","Agent 0",12,1700,2200
"""
ROCPROF = """"Index","KernelName","gpu-id","queue-id","queue-index","pid","tid","grd","wgr","lds","scr","arch_vgpr",\
"accum_vgpr","sgpr","wave_size","sig","obj","DispatchNs","BeginNs","EndNs","CompleteNs","DurationNs"
0,"laplacian(double*, int) [clone .kd]",8,0,0,9,9,1024,256,0,0,16,0,32,64,"0x0","0x7f",5,10,30,31,20
1,"fill.kd",8,0,1,9,9,256,256,0,0,16,0,32,64,"0x0","0x7f",5,40,50,51,10
"""
TIMED = (("gemm", "41551790928449.25", "41551790928750.5"), ("fill", "41551790928800", "41551790928900"))
COUNTERS = """Dispatch_ID,GPU_ID,Queue_ID,PID,TID,Grid_Size,Workgroup_Size,LDS_Per_Workgroup,Scratch_Per_Workitem,\
Arch_VGPR,Accum_VGPR,SGPR,Wave_Size,Kernel_Name,Start_Timestamp,End_Timestamp,Correlation_ID,SQ_WAVES,TCC_HIT_sum
0,2,0,9,9,4096,256,0,0,16,0,32,64,"gemm(float*)",100,400,0,64,123.5
1,2,0,9,9,4096,256,0,0,16,0,32,64,"gemm(float*)",500,700,0,64,N/A
"""
LONG_COUNTERS = """"Correlation_Id","Dispatch_Id","Agent_Id","Queue_Id","Process_Id","Thread_Id","Grid_Size",\
"Kernel_Id","Kernel_Name","Workgroup_Size","LDS_Block_Size","Scratch_Size","VGPR_Count","SGPR_Count","Counter_Name",\
"Counter_Value","Start_Timestamp","End_Timestamp"
1,1,8,1,9,9,8192,9,"norm",256,0,0,12,32,"OccupancyPercent",1.5,1000,1200
1,1,8,1,9,9,8192,9,"norm",256,0,0,12,32,"SQ_WAVES",32,1000,1200
2,2,8,1,9,9,8192,9,"norm",256,0,0,12,32,"SQ_WAVES",64,1300,1400
"""


def named(trace: Trace, kind: EventKind) -> list[str]:
    return [trace.name(event) for event in trace.events.of_kind(kind)]


def written(folder: Path, **tables: str) -> Path:
    folder.mkdir(exist_ok=True)
    for name, text in tables.items():
        (folder / f"{name}.csv").write_text(text)
    return folder


def test_tables_of_one_process_are_one_recording(tmp_path: Path) -> None:
    folder = written(
        tmp_path / "run",
        **{
            "77_kernel_trace": KERNEL_TRACE,
            "77_hip_api_trace": API_TRACE,
            "77_marker_api_trace": MARKERS,
            "77_memory_copy_trace": COPIES,
        },
    )
    trace = open_trace([folder])
    assert trace.ranks == ()
    assert named(trace, EventKind.KERNEL) == ["void add<float>(float*, int)"] * 2
    assert named(trace, EventKind.MEMCPY) == ["Memcpy DtoH"]
    assert named(trace, EventKind.REGION) == ["train_step"]
    launches = trace.links.launch_of(trace.gpu_operations)
    assert [trace.name(launch) for launch in launches] == ["hipLaunchKernel", "hipMemcpy", "hipLaunchKernel"]
    assert {trace.lanes[lane].device for lane in trace.events.lane[trace.gpu_operations]} == {0}
    assert [device.id for device in trace.devices] == [4]


def test_tables_of_two_processes_are_two_recordings(tmp_path: Path) -> None:
    folder = written(
        tmp_path / "run",
        **{
            "77_kernel_trace": KERNEL_TRACE,
            "77_hip_api_trace": API_TRACE,
            "88_kernel_trace": KERNEL_TRACE,
            "88_hip_api_trace": API_TRACE.replace(",77,77,", ",88,88,"),
        },
    )
    trace = open_trace([folder])
    assert [rank.rank for rank in trace.ranks] == [0, 1]
    assert np.all(trace.links.launch_of(trace.gpu_operations) >= 0)


def test_sizes_are_in_blocks_whether_axes_or_products_are_stated(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text(KERNEL_TRACE)
    (tmp_path / "b.csv").write_text(ROCPROF)
    trace = open_trace([tmp_path / "a.csv"])
    assert trace.text_attribute(Attribute.GRID_SHAPE, int(trace.gpu_operations[0])) == "16,2,1"
    trace = open_trace([tmp_path / "b.csv"])
    assert trace.attribute(Attribute.GRID, trace.gpu_operations).tolist() == [4, 1]
    assert trace.attribute(Attribute.BLOCK, trace.gpu_operations).tolist() == [256, 256]


@pytest.mark.parametrize("packed", [False, True])
def test_a_table_of_rocprof_is_known_by_its_columns(tmp_path: Path, packed: bool) -> None:
    path = tmp_path / "something"
    path.write_bytes(gzip.compress(ROCPROF.encode()) if packed else ROCPROF.encode())
    trace = open_trace([path])
    assert named(trace, EventKind.KERNEL) == ["laplacian(double*, int)", "fill"]
    assert trace.events.duration.tolist() == [20, 10]
    assert (trace.lanes[0].kind, trace.devices[0].id) == (LaneKind.GPU_STREAM, 8)
    assert trace.quality.events_read == trace.quality.events_kept == 2


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (COUNTERS, [{"SQ_WAVES": 64.0, "TCC_HIT_sum": 123.5}, {"SQ_WAVES": 64.0}]),
        (LONG_COUNTERS, [{"OccupancyPercent": 1.5, "SQ_WAVES": 32.0}, {"SQ_WAVES": 64.0}]),
    ],
)
def test_tables_with_counters_are_profiles_and_no_timeline(
    tmp_path: Path, text: str, expected: list[dict[str, float]]
) -> None:
    path = tmp_path / "pmc_perf.csv"
    path.write_text(text)
    trace = open_trace([path])
    assert len(trace.events) == 0
    assert [
        {name: value for name, value in each.metrics.items() if name != "DurationNs"}
        for each in trace.kernels
    ] == expected
    assert all(each.duration_ns for each in trace.kernels)


def test_rows_that_are_cut_or_of_other_types_are_counted(tmp_path: Path) -> None:
    path = tmp_path / "odd.csv"
    rows = ROCPROF.encode().splitlines()
    odd = rows[1].replace(b",10,30,", b",soon,30,")
    foreign = rows[2].replace(b"fill.kd", b"f\xfcll.kd")
    path.write_bytes(b"\n".join([*rows, odd, b"7,sh\xffrt", foreign, rows[2][:60]]))
    trace = open_trace([path])
    assert named(trace, EventKind.KERNEL) == ["laplacian(double*, int)", "fill", "f\ufffdll"]
    assert (trace.quality.quarantined, trace.quality.events_read) == (3, 6)


def test_a_table_that_ends_within_quotes_is_cut(tmp_path: Path) -> None:
    path = tmp_path / "cut.csv"
    path.write_text(ROCPROF + '3,"laplac')
    trace = open_trace([path])
    assert len(trace.events) == 2
    assert trace.quality.quarantined == 1


def test_a_header_alone_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "empty.csv"
    path.write_text(ROCPROF.splitlines()[0] + "\n")
    with pytest.raises(TraceError, match="no event"):
        open_trace([path])


BARRIER = '{number},"<barrier packet>",8,0,{number},9,9,0,0,0,0,0,0,0,64,"0x0","0x7f",5,30,90,91,60\n'


def test_barrier_packets_are_no_work_of_the_gpu(tmp_path: Path) -> None:
    path = tmp_path / "results.csv"
    path.write_text(ROCPROF + BARRIER.format(number=2) + BARRIER.format(number=3))
    trace = open_trace([path])
    assert named(trace, EventKind.KERNEL) == ["laplacian(double*, int)", "fill"]
    assert trace.attribute(Attribute.GRID, trace.gpu_operations).tolist() == [4, 1]
    assert (trace.quality.quarantined, trace.quality.events_read) == (2, 4)
    path.write_text(ROCPROF.splitlines()[0] + "\n" + BARRIER.format(number=0))
    with pytest.raises(TraceError, match="no event"):
        open_trace([path])


UNTIMED = "Index,KernelName,gpu-id,queue-id,pid,tid,grd,wgr,lds,scr,vgpr,sgpr,fbar,sig,obj"


@pytest.mark.parametrize(
    ("kernels", "told"),
    [
        (
            ("fill", "gemm", "gemm"),
            "A list of 3 dispatches of 2 kernels, 2 of them of gemm, without times or",
        ),
        (("gemm",), "A list of 1 dispatch of 1 kernel, without times or counters (rocprofv3 --kernel-trace"),
    ],
)
def test_a_list_of_dispatches_is_told_as_that(
    kernels: tuple[str, ...], told: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The size of a barrier (fbar) is no counter."""
    path = tmp_path / "dispatches.csv"
    rows = (
        f'{number},"{name}.kd",0,0,9,9,1024,256,0,0,8,16,4672,0x7f,0x7f'
        for number, name in enumerate(kernels)
    )
    path.write_text("\n".join([UNTIMED, *rows, ""]))
    assert main(["diagnose", str(path)]) == 0
    said = capsys.readouterr().out
    assert said.startswith(told)
    assert "no counters were recorded" in said
    assert "AMD" not in said


def test_dispatches_with_times_and_no_counters_are_a_timeline(tmp_path: Path) -> None:
    path = tmp_path / "dispatches.csv"
    path.write_text(f'{UNTIMED},BeginNs,EndNs\n0,"gemm.kd",0,0,9,9,1024,256,0,0,8,16,4672,0x7f,0x7f,10,40\n')
    trace = open_trace([path])
    assert not trace.kernels
    assert trace.events.duration.tolist() == [30]


def results_db(path: Path) -> Path:
    with sqlite3.connect(path) as connection:
        common = {"pid": 9, "tid": 9}
        write_table(
            connection,
            "OPS",
            [
                {
                    "BeginNs": 100,
                    "EndNs": 180,
                    "dev-id": 0,
                    "queue-id": 1,
                    "Name": "gemm.kd",
                    **common,
                    "Index": 3,
                }
            ],
        )
        write_table(
            connection,
            "COPY",
            [
                {
                    "BeginNs": 200, "EndNs": 260, "dev-id": 0, "queue-id": 0, "Name": "CopyHostToDevice", **common,
                    "Index": 4,
                }
            ],
        )  # fmt: skip
        calls = [("hipLaunchKernel", 90, 95, 3), ("hipMemcpy", 190, 270, 4)]
        write_table(
            connection,
            "HIP",
            [
                {"BeginNs": start, "EndNs": end, **common, "Name": name, "args": "()", "Index": index}
                for name, start, end, index in calls
            ],
        )
        write_table(
            connection, "rocTX", [{"BeginNs": 80, "EndNs": 300, **common, "Name": "step", "Index": 1}]
        )
    connection.close()
    return path


def test_a_database_of_rocprof_has_calls_copies_ranges_and_links(tmp_path: Path) -> None:
    trace = open_trace([results_db(tmp_path / "results.db")])
    assert named(trace, EventKind.KERNEL) == ["gemm"]
    assert named(trace, EventKind.MEMCPY) == ["Memcpy HtoD"]
    assert named(trace, EventKind.REGION) == ["step"]
    launches = [trace.name(each) for each in trace.links.launch_of(trace.gpu_operations)]
    assert sorted(launches) == ["hipLaunchKernel", "hipMemcpy"]
    copies = trace.events.of_kind(EventKind.MEMCPY)
    assert trace.attribute(Attribute.COPY_KIND, copies).tolist() == [CopyKind.H2D.value]


def test_barrier_packets_in_a_database_are_no_work_either(tmp_path: Path) -> None:
    path = results_db(tmp_path / "results.db")
    with sqlite3.connect(path) as connection:
        connection.execute("INSERT INTO OPS VALUES (300, 900, 0, 1, '<barrier packet>', 9, 9, 5)")
    connection.close()
    trace = open_trace([path])
    assert named(trace, EventKind.KERNEL) == ["gemm"]
    assert {note.kind: note.count for note in trace.quality.notes}["no-work"] == 1


@pytest.mark.parametrize(
    ("name", "said", "moved"),
    [
        ("hipMemcpy", "( dst(0x7f) src(0x7e) sizeBytes(4000) kind(1))", 4000),
        ("hipMemcpy", "()", -1),
        ("hipFree", "( sizeBytes(4000))", -1),
    ],
)
def test_a_copy_has_the_size_that_its_call_asked_for(
    name: str, said: str, moved: int, tmp_path: Path
) -> None:
    path = results_db(tmp_path / "results.db")
    with sqlite3.connect(path) as connection:
        connection.execute('UPDATE HIP SET "Name" = ?, args = ? WHERE "Index" = 4', (name, said))
    connection.close()
    trace = open_trace([path])
    copies = np.flatnonzero(trace.events.kind == EventKind.MEMCPY)
    assert trace.attribute(Attribute.BYTES, copies, -1).tolist() == [moved]


def test_a_database_whose_calls_have_the_number_of_a_picture_as_process_links_them(tmp_path: Path) -> None:
    """rocprof numbers the rows of its picture in pid, and states the process of operations beside it."""
    path = results_db(tmp_path / "results.db")
    with sqlite3.connect(path) as connection:
        connection.execute("UPDATE HIP SET pid = 2")
        for table in ("OPS", "COPY"):
            connection.execute(f'ALTER TABLE {table} ADD COLUMN "proc-id" INTEGER DEFAULT 216796')
    connection.close()
    trace = open_trace([path])
    launches = [trace.name(each) for each in trace.links.launch_of(trace.gpu_operations)]
    assert sorted(launches) == ["hipLaunchKernel", "hipMemcpy"]


def test_calls_of_two_processes_are_not_those_of_a_third(tmp_path: Path) -> None:
    path = results_db(tmp_path / "results.db")
    with sqlite3.connect(path) as connection:
        connection.execute('UPDATE HIP SET pid = 1000 + "Index"')
        for table in ("OPS", "COPY"):
            connection.execute(f'ALTER TABLE {table} ADD COLUMN "proc-id" INTEGER DEFAULT 216796')
    connection.close()
    assert len(open_trace([path]).links.operation) == 0


def hipprof_db(path: Path, second: bool = False) -> Path:
    """hipprof's names: of kernels by number in a table, of calls before the arguments, of copies as commands."""
    processes = (9, 10) if second else (9,)
    tables: dict[str, list[dict[str, int | str]]] = {"OPS": [], "COPY": [], "HIP": [], "STR_TABLE": []}
    for at, pid in enumerate(processes):
        common = {"dev_id": 2, "queue_id": "9", "pid": pid, "tid": 0}
        tables["OPS"].append({"BeginNs": 100, "EndNs": 180, "Name": "1", "_Index": 3, **common})
        for number, kind in enumerate((4596, 4595, 4597, 4615, 77)):
            start = 200 + 100 * number
            tables["COPY"].append(
                {"BeginNs": start, "EndNs": start + 60, "Kind": kind, "_Index": 4 + number, **common}
            )
        for index, name, said in (
            (3, 67, "hipLaunchKernel(function_address=0x2b, stream=0)"),
            (4, 157, "hipMemcpy(dst=0x7f, src=0x7e, sizeBytes=4000, kind=1)"),
        ):
            row = {"BeginNs": 90 * index, "EndNs": 90 * index + 5, "pid": pid, "tid": pid, "Name": name}
            tables["HIP"].append({**row, "args": said, "_Index": index})
        tables["STR_TABLE"].append({"PID": pid, "STR_ID": 1, "STR_NAME": ("gemm", "conv")[at]})
    with sqlite3.connect(path) as connection:
        for name, rows in tables.items():
            write_table(connection, name, rows)
    connection.close()
    return path


def test_a_database_of_hipprof_has_the_names_that_its_numbers_stand_for(tmp_path: Path) -> None:
    trace = open_trace([hipprof_db(tmp_path / "hip-prof-9.db")])
    assert named(trace, EventKind.KERNEL) == ["gemm"]
    assert named(trace, EventKind.API) == ["hipLaunchKernel", "hipMemcpy"]
    assert named(trace, EventKind.MEMCPY) == ["Memcpy HtoD", "Memcpy DtoH", "Memcpy DtoD", "77"]
    assert named(trace, EventKind.MEMSET) == ["Memset (Device)"]
    copies = trace.events.of_kind(EventKind.MEMCPY)
    kinds = [CopyKind.H2D, CopyKind.D2H, CopyKind.D2D, CopyKind.UNKNOWN]
    assert trace.attribute(Attribute.COPY_KIND, copies).tolist() == [each.value for each in kinds]
    assert trace.attribute(Attribute.BYTES, copies, -1).tolist() == [4000, -1, -1, -1]
    assert [device.id for device in trace.devices] == [2]
    assert trace.inputs[0].producer == "hipprof"


def test_each_process_of_hipprof_numbers_its_kernels_itself(tmp_path: Path) -> None:
    trace = open_trace([hipprof_db(tmp_path / "hip-prof-9.db", second=True)])
    assert sorted(named(trace, EventKind.KERNEL)) == ["conv", "gemm"]


def test_a_database_of_rocprof_without_hip_calls_has_its_dispatches(tmp_path: Path) -> None:
    """As rocprof --hsa-trace writes it: calls of HSA, and dispatches in a table called A."""
    path = tmp_path / "results.db"
    row = {"BeginNs": 100, "EndNs": 180, "pid": 9, "tid": 9, "Index": 0}
    with sqlite3.connect(path) as connection:
        write_table(connection, "HSA", [{**row, "Name": "hsa_dispatch", "args": "()"}])
        write_table(connection, "COPY", [{**row, "Name": "CopyHostToDevice", "dev-id": 0, "queue-id": 0}])
        write_table(connection, "A", [{**row, "KernelName": "gemm.kd", "gpu-id": 1, "queue-id": 0}])
    connection.close()
    trace = open_trace([path])
    assert named(trace, EventKind.KERNEL) == ["gemm"]
    assert named(trace, EventKind.API) == ["hsa_dispatch"]


def test_the_longest_of_profiled_kernels_is_named_though_its_times_are_means(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "pmc_perf.csv"
    rows = (f"{number},0,{name},{start},{end},5" for number, (name, start, end) in enumerate(TIMED))
    path.write_text(
        "Dispatch_ID,Grid_Size,Kernel_Name,Start_Timestamp,End_Timestamp,SQ_WAVES\n" + "\n".join(rows)
    )
    assert [each.duration_ns for each in open_trace([path]).kernels] == [301.0, 100.0]
    assert main(["diagnose", str(path)]) == 0
    assert capsys.readouterr().out.startswith(
        "2 profiled kernels, 75 % of their time in gemm: AMD's counters"
    )


@pytest.mark.parametrize(
    ("busy", "told"), [(99.6, "memory unit 100 % busy, "), (50.0, "memory unit 50 % busy, "), (100.5, "")]
)
def test_what_amds_derived_counters_say_of_the_longest_kernel_is_told(
    busy: float, told: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "pmc_perf.csv"
    rows = (
        f'{number},0,"void {name}<int>(float*)",{start},{end},{busy},81.6'
        for number, (name, start, end) in enumerate(TIMED)
    )
    header = "Dispatch_ID,Grid_Size,Kernel_Name,Start_Timestamp,End_Timestamp,MemUnitBusy,OccupancyPercent\n"
    path.write_text(header + "\n".join(rows))
    assert main(["diagnose", str(path)]) == 0
    said = capsys.readouterr().out.partition(": ")[0]
    assert said == f"2 profiled kernels, 75 % of their time in gemm ({told}82 % occupancy)"


def test_counters_of_any_name_are_of_amds_gpus(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "counters.csv"
    path.write_text(COUNTERS.replace("SQ_WAVES", "FETCH_SIZE").replace("TCC_HIT_sum", "WRITE_SIZE"))
    assert main(["diagnose", str(path)]) == 0
    told = capsys.readouterr().out
    assert "only Nsight Compute's are judged" in told
    assert "--section" not in told


@pytest.mark.parametrize(
    "name", ["amd_HPCTrainingExamples__results.csv", "amd_HPCTrainingExamples__examples__results.db"]
)
def test_a_real_table_and_its_database_tell_the_same(shared_data: Path, name: str) -> None:
    path = shared_data / "public" / "rocm" / name
    if not path.exists():
        pytest.skip("needs the public recordings")
    trace = open_trace([path])
    assert len(trace.events) == 1004
    assert trace.quality.quarantined == 0
    assert int(trace.events.duration.sum()) == 2_610_787_312
    assert "laplacian_kernel" in trace.name(1)
