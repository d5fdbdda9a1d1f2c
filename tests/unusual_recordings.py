"""Recordings of other formats than Chrome's whose amount of one thing grows: see ``growing_recordings``."""

from __future__ import annotations

import io
import pickle  # noqa: TID251 - to write what is read as data
import sqlite3
import tarfile
import tempfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from tests.growing_recordings import Make, complete, kernel, launch, trace
from tests.parsers import nsys_exports as nsys
from tests.parsers.protobuf_messages import message
from tests.parsers.snapshots import Snapshot
from tests.parsers.test_ncu_csv import raw_page
from tests.parsers.test_perfetto import BEGIN, COUNTER, annotation, packet, slice_event, thread, track
from tests.parsers.test_perfetto import event as perfetto_event
from tests.parsers.test_xprof import event as xprof_event
from tests.parsers.test_xprof import line, plane, stat

_TIMES = "   time   algbw   busbw #wrong"
NCCL_HEADER = f"#       size         count      type   redop    root  {_TIMES}  {_TIMES}\n"
NCCL_ROW = f"     1048576        262144     float     sum      -1{'    55.30   18.96   18.96      0' * 2}\n"


# --- pickles


def shared_lists(count: int) -> bytes:
    """A snapshot of memory whose blocks all name the same frames, which hold one another over and over."""
    level: list[Any] = [{"name": "f", "filename": "a.py", "line": 1}] * 10
    for _ in range(3):
        level = [level] * 10
    frames = [{"name": "f", "filename": "a.py", "line": 1}] * count
    blocks = [{"size": 512, "state": "active_allocated", "frames": frames}] * count
    segments = [{"device": 0, "address": 4096, "total_size": 1 << 20, "blocks": blocks}] * count
    return pickle.dumps({"segments": segments, "device_traces": [], "deep": level}, 4)


def shared_histories(count: int) -> bytes:
    """A snapshot whose devices all name the same list of the same event."""
    event = {"action": "alloc", "addr": 4096, "size": 512, "time_us": 5, "frames": [], "stream": 0}
    return pickle.dumps({"segments": [], "device_traces": [[event] * count] * 200}, 4)


def distinct_frames(count: int) -> bytes:
    """A snapshot in which each allocation has a stack of its own."""
    snapshot = Snapshot()
    for number in range(count):
        frame = {"name": f"f{number}", "filename": f"/a/{number}.py", "line": number}
        snapshot.event("alloc", 4096 + 512 * number, 512, number, (frame,))
    snapshot.segment(4096, *((512, True) for _ in range(10)))
    return pickle.dumps(snapshot.content(), 4)


# --- printed results


def blank_lines_of_results(count: int) -> bytes:
    """A printed header of nccl-tests and spaces."""
    return (NCCL_HEADER + NCCL_ROW).encode() + b"#" + b" " * count


def header_and_spaces(count: int) -> bytes:
    """A comparison of torch that is hardly more than spaces and dashes."""
    return b"[- a -]\n  threads: -\n[-" + b" " * (count // 2) + b"-" * (count // 2)


def measurements_and_spaces(count: int) -> bytes:
    """A measurement of torch and blank lines without end."""
    head = b"<torch.utils.benchmark.utils.common.Measurement object at 0x7f>\nf()\n  Median: 3.00 us\n"
    return head + b"\n" * (count // 2) + b" " * (count // 2)


def appended_results(count: int) -> bytes:
    """The output of many runs of nccl-tests in one file."""
    return (
        "# nThread 1 nGpus 8\n" + NCCL_HEADER + NCCL_ROW * 3 + "# Out of bounds values : 0 OK\n"
    ).encode() * count


def empty_results(count: int) -> bytes:
    """The headers of runs of nccl-tests, each with blank lines instead of rows."""
    return (NCCL_HEADER.encode() + b"\n" * 150) * count


def printed_tables(count: int) -> bytes:
    """Reports of nsys stats, each behind the remark that it was made, without an empty line between them."""
    return b"==7== done\nTime (%),Total Time (ns),Name\n61.5,1200,gemm\n38.5,-,fill\n" * count


def measurements(count: int) -> bytes:
    head = b"<torch.utils.benchmark.utils.common.Measurement object at 0x7f>\nf()\n  Median: 3.00 us\n\n"
    return head * count


def comparisons(count: int) -> bytes:
    return (
        b"[------ a ------]\n      |  f\n1 threads: ----\n  x   |  3\n\nTimes are in microseconds (us).\n\n"
    ) * count


# --- archives


def archive(files: Iterable[bytes]) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz", compresslevel=1) as packed:
        for number, data in enumerate(files):
            member = tarfile.TarInfo(f"rank{number}.json")
            member.size = len(data)
            packed.addfile(member, io.BytesIO(data))
    return buffer.getvalue()


def small_traces(count: int) -> bytes:
    """A tar of traces with one kernel each."""
    return archive([trace([launch(0, 1), kernel("gemm", 2, 1)])] * count)


# --- databases


def database(
    tables: Mapping[str, Iterable[Mapping[str, Any]]], strings: Mapping[int, str] | None = None
) -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "run.sqlite"
        if strings is not None:
            nsys.export(path, tables, strings)  # type: ignore[arg-type]
        else:
            with sqlite3.connect(path) as connection:
                for name, rows in tables.items():
                    nsys.write_table(connection, name, rows)
            connection.close()
        return path.read_bytes()


def _rpd(
    calls: Iterable[Any], operations: Iterable[Any], strings: Mapping[int, str], **more: Iterable[Any]
) -> bytes:
    listed = [{"id": key, "string": text} for key, text in {1: "", 2: "hipLaunchKernel", **strings}.items()]
    return database({"rocpd_string": listed, "rocpd_api": calls, "rocpd_op": operations, **more})


def rpd_threads(count: int) -> bytes:
    """A database of rocmProfileData with one call on each of many threads."""
    calls = [
        {"id": n, "pid": 7, "tid": n, "start": n * 10, "end": n * 10 + 5, "apiName_id": 2, "args_id": 1}
        for n in range(count)
    ]
    return _rpd(calls, [], {})


def rpd_queues(count: int) -> bytes:
    operations = [
        {
            "id": n,
            "gpuId": 0,
            "queueId": n,
            "start": n * 10,
            "end": n * 10 + 5,
            "description_id": 3,
            "opType_id": 4,
        }
        for n in range(count)
    ]
    return _rpd([], operations, {3: "gemm", 4: "KernelExecution"})


def rpd_names(count: int) -> bytes:
    operations = [
        {
            "id": n,
            "gpuId": 0,
            "queueId": 1,
            "start": n * 10,
            "end": n * 10 + 5,
            "description_id": n + 10,
            "opType_id": 4,
        }
        for n in range(count)
    ]
    return _rpd([], operations, {4: "KernelExecution", **{n + 10: f"gemm_{n}<float>" for n in range(count)}})


def rpd_monitors(count: int) -> bytes:
    rows = [
        {"deviceType": "gpu", "deviceId": n, "monitorType": f"power{n}", "start": n, "end": n, "value": "3"}
        for n in range(count)
    ]
    operations = [
        {
            "id": n,
            "gpuId": n,
            "queueId": 0,
            "start": n * 10,
            "end": n * 10 + 5,
            "description_id": 3,
            "opType_id": 4,
        }
        for n in range(1000)
    ]
    return _rpd([], operations, {3: "gemm", 4: "KernelExecution"}, rocpd_monitor=rows)


def nsys_metrics(count: int) -> bytes:
    """An export of Nsight Systems with metrics of very many names."""
    return database(
        {
            "CUPTI_ACTIVITY_KIND_KERNEL": [nsys.kernel(500, 900, 1)],
            "GPU_METRICS": [{"timestamp": n, "typeId": 0, "metricId": n, "value": 3} for n in range(count)],
            "TARGET_INFO_GPU_METRICS": [
                {"typeId": 0, "metricId": n, "metricName": f"m{n}"} for n in range(count)
            ],
        },
        nsys.STRINGS,
    )


def nsys_metric_types(count: int) -> bytes:
    return database(
        {
            "CUPTI_ACTIVITY_KIND_KERNEL": [nsys.kernel(500, 900, 1)],
            "GPU_METRICS": [{"timestamp": n, "typeId": n, "metricId": 0, "value": 3} for n in range(count)],
        },
        nsys.STRINGS,
    )


def nsys_names(count: int) -> bytes:
    strings = {**nsys.STRINGS, **{n + 10: f"gemm_{n}<float>" for n in range(count)}}
    kernels = [
        nsys.kernel(n * 100 + 50, n * 100 + 90, n + 1, demangledName=n + 10, shortName=n + 10)
        for n in range(count)
    ]
    calls = [nsys.call(n * 100, n * 100 + 10, n + 1) for n in range(count)]
    return database({"CUPTI_ACTIVITY_KIND_KERNEL": kernels, "CUPTI_ACTIVITY_KIND_RUNTIME": calls}, strings)


def nsys_threads(count: int) -> bytes:
    calls = [
        nsys.call(n * 100, n * 100 + 10, n + 1, globalTid=nsys.PROCESS | (n & 0xFFFFFF)) for n in range(count)
    ]
    ranges = [
        nsys.nvtx(n * 100, n * 100 + 50, f"r{n}", globalTid=nsys.PROCESS | (n & 0xFFFFFF))
        for n in range(count)
    ]
    kernels = [nsys.kernel(n * 100 + 50, n * 100 + 90, n + 1) for n in range(count)]
    return database(
        {"CUPTI_ACTIVITY_KIND_KERNEL": kernels, "CUPTI_ACTIVITY_KIND_RUNTIME": calls, "NVTX_EVENTS": ranges},
        nsys.STRINGS,
    )


def nsys_streams(count: int) -> bytes:
    kernels = [nsys.kernel(n * 100 + 50, n * 100 + 90, n + 1, streamId=n) for n in range(count)]
    calls = [nsys.call(n * 100, n * 100 + 10, n + 1) for n in range(count)]
    return database(
        {"CUPTI_ACTIVITY_KIND_KERNEL": kernels, "CUPTI_ACTIVITY_KIND_RUNTIME": calls}, nsys.STRINGS
    )


def nsys_processes(count: int) -> bytes:
    kernels = [
        nsys.kernel(n * 100 + 50, n * 100 + 90, 1, globalPid=nsys.LOCAL | n << 24, contextId=n)
        for n in range(count)
    ]
    calls = [nsys.call(n * 100, n * 100 + 10, 1, globalTid=nsys.LOCAL | n << 24 | 5) for n in range(count)]
    listed = [{"globalPid": nsys.LOCAL | n << 24, "pid": n, "name": f"p{n}"} for n in range(count)]
    return database(
        {"CUPTI_ACTIVITY_KIND_KERNEL": kernels, "CUPTI_ACTIVITY_KIND_RUNTIME": calls, "PROCESSES": listed},
        nsys.STRINGS,
    )


def nsys_domains(count: int) -> bytes:
    ranges = [nsys.nvtx(n * 10, n * 10 + 5, f"r{n}", domainId=n) for n in range(count)]
    pushed = [nsys.nvtx(n * 10, None, f"d{n}", 75, domainId=n) for n in range(count)]
    return database(
        {"CUPTI_ACTIVITY_KIND_KERNEL": [nsys.kernel(500, 900, 1)], "NVTX_EVENTS": ranges + pushed},
        nsys.STRINGS,
    )


# --- protocol buffers


def xplane_names(count: int) -> bytes:
    """An XSpace whose kernels all have names of their own."""
    events = [xprof_event(n + 1, n * 10, 5, stat(1, n + 1)) for n in range(count)]
    names = {n + 1: f"fusion_{n}" for n in range(count)}
    return message(plane("/device:GPU:0", [line("Stream #7(Compute)", *events)], names))


def xplane_named_only(count: int) -> bytes:
    names = {n + 1: f"k{n}" for n in range(count)}
    return message(plane("/device:GPU:0", [line("Stream #7(Compute)", xprof_event(1, 5, 5))], names))


def xplane_lines(count: int) -> bytes:
    lines = [line(f"Stream #{n}(Compute)", xprof_event(1, n * 10, 5), number=n) for n in range(count)]
    return message(plane("/device:GPU:0", lines, {1: "fusion"}))


def xplane_threads(count: int) -> bytes:
    lines = [line(f"python{n}", xprof_event(1, n * 10, 5), number=n) for n in range(count)]
    return message(plane("/host:CPU", lines, {1: "PjitFunction(f)"}))


def xplane_planes(count: int) -> bytes:
    return message(
        *(
            plane(f"/device:GPU:{n}", [line("Stream #7(Compute)", xprof_event(1, n, 5))], {1: "f"})
            for n in range(count)
        )
    )


def xplane_hosts(count: int) -> bytes:
    return message(
        *(plane("/host:CPU", [line("python", xprof_event(1, n, 5))], {1: "f"}) for n in range(count))
    )


def xplane_texts(count: int) -> bytes:
    events = [xprof_event(1, n * 10, 5, stat(2, f"regs:32 grid:{n},2,1 block:128,1,1")) for n in range(count)]
    return message(plane("/device:GPU:0", [line("Stream #7(Compute)", *events)], {1: "fusion"}))


def unclosed_slices(count: int) -> bytes:
    """A trace of Perfetto with slices that never end."""
    return thread(1, "main") + b"".join(perfetto_event(n + 1, BEGIN, 1, "a") for n in range(count))


def perfetto_tracks(count: int) -> bytes:
    return b"".join(
        thread(n + 1, f"t{n}", n + 1)
        + perfetto_event(n + 1, BEGIN, n + 1, "a")
        + perfetto_event(n + 2, 2, n + 1)
        for n in range(count)
    )


def perfetto_parents(count: int) -> bytes:
    """Tracks of which each is the parent of the next."""
    tracks = b"".join(track(n + 1, f"t{n}", (5, n)) for n in range(count))
    return tracks + perfetto_event(1, BEGIN, count, "a") + perfetto_event(3, 2, count)


def perfetto_counters(count: int) -> bytes:
    return b"".join(
        track(n + 1, f"c{n}", (8, b""))
        + packet((8, n + 1), (11, message((9, COUNTER), (11, n + 1), (30, n))))
        for n in range(count)
    ) + perfetto_event(1, BEGIN, 1, "a")


def perfetto_sequences(count: int) -> bytes:
    return b"".join(
        packet((8, n + 1), (11, slice_event(BEGIN, 0, "a")), sequence=n + 1) for n in range(count)
    )


def perfetto_clocks(count: int) -> bytes:
    return b"".join(
        packet((8, n + 1), (58, 64 + n % 64), (11, slice_event(BEGIN, 0, "a")), sequence=n + 1)
        for n in range(count)
    )


def perfetto_snapshots(count: int) -> bytes:
    return b"".join(
        packet((6, message((1, message((1, 6), (2, n)))))) for n in range(count)
    ) + perfetto_event(1, BEGIN, 1, "a")


def perfetto_names(count: int) -> bytes:
    return thread(1, "main") + b"".join(
        perfetto_event(n + 1, BEGIN, 1, f"a{n}", "kernel_dispatch", annotation(f"x{n}", n))
        + perfetto_event(n + 1, 2, 1)
        for n in range(count)
    )


# --- tables


def quotes_in_csv(count: int) -> bytes:
    """A table of rocprof that goes on in quotation marks."""
    return b'"Index","KernelName","gpu-id","queue-id","BeginNs","EndNs"\n0,"a",0,0,1,2\n' + b'"' * count


def rocprof_names(count: int) -> bytes:
    rows = "".join(f'{n},"gemm_{n}",0,0,{n * 10},{n * 10 + 5}\n' for n in range(count))
    return ('"Index","KernelName","gpu-id","queue-id","BeginNs","EndNs"\n' + rows).encode()


def rocprof_queues(count: int) -> bytes:
    rows = "".join(f'{n},"gemm",0,{n},{n * 10},{n * 10 + 5}\n' for n in range(count))
    return ('"Index","KernelName","gpu-id","queue-id","BeginNs","EndNs"\n' + rows).encode()


def csv_columns(count: int) -> bytes:
    """A table of rocprof with very many counters."""
    head = '"Index","KernelName","gpu-id","queue-id","BeginNs","EndNs",' + ",".join(
        f'"C{n}"' for n in range(count)
    )
    return (head + "\n" + '0,"gemm",0,0,1,5,' + ",".join("1" * count) + "\n").encode()


def control_like_records(count: int) -> bytes:
    """Events of Chrome whose names are those of metadata, but which are none."""
    return trace(
        [{"ph": "M", "name": "process_name", "pid": n, "args": {"name": n}} for n in range(count)]
        + [complete("a", 0)]
    )


def ncu_same_launch(count: int) -> bytes:
    """A page of Nsight Compute on which one launch stands again and again."""
    return raw_page([("0", "gemm", "12.5")] * count).encode()


def smi_gpus(count: int) -> bytes:
    rows = "".join(f"    {n % 1000}    50    30\n" for n in range(count))
    return ("# gpu   pwr gtemp\n# Idx     W     C\n" + rows).encode()


MAKERS: dict[str, Make] = {
    each.__name__: each
    for each in list(globals().values())
    if callable(each)
    and getattr(each, "__module__", "") == __name__
    and "count" in getattr(each, "__annotations__", ())
}
