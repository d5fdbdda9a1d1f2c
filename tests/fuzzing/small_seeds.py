"""Recordings of a few hundred bytes to a few thousand, with something of most that their formats can say."""

from __future__ import annotations

import pickle  # noqa: TID251 - to write what is read as data
import sqlite3
import tempfile
from collections.abc import Callable
from pathlib import Path

from parsers.memory.event_layouts import EVENT_BYTES_AT_ONCE
from tests.parsers import nsys_exports as nsys
from tests.parsers.chrome.traces import complete, kernel, launch, text_of
from tests.parsers.snapshots import FORWARD, OWN, Snapshot
from tests.parsers.test_ncu_csv import raw_page
from tests.parsers.test_ncu_report import double, metric, number, report, result
from tests.parsers.test_perfetto import ROCM
from tests.parsers.test_rocpd import Rocpd
from tests.parsers.test_smi_log import DCGM, DMON
from tests.parsers.test_xprof import gpu_profile

OTHER_PRODUCERS = (
    b'{"traceEvents":[{"ph":"M","pid":2,"name":"process_name","args":{"name":"/device:GPU:0"}},'
    b'{"ph":"M","pid":2,"tid":7,"name":"thread_name","args":{"name":"Stream #13(Compute)"}},'
    b'{"ph":"X","pid":2,"tid":7,"ts":1.5,"dur":2,"name":"fusion","args":{"hlo_op":"fusion.1","correlation_id":"7"}},'
    b'{"ph":"b","cat":"io","id":"0x1","name":"read","pid":1,"tid":1,"ts":2},{"ph":"n","cat":"io","id":"0x1",'
    b'"name":"half","pid":1,"tid":1,"ts":3},{"ph":"e","cat":"io","id":"0x1","name":"read","pid":1,"tid":1,"ts":9},'
    b'{"ph":"B","name":"outer","pid":1,"tid":1,"ts":1},{"ph":"E","pid":1,"tid":1,"ts":8},'
    b'{"ph":"C","name":"queue","pid":1,"ts":4,"args":{"length":3}},{"ph":"i","s":"g","name":"mark","pid":1,"ts":4},'
    b'{"ph":"s","id":1,"pid":1,"tid":1,"ts":2,"name":"flow"},{"ph":"f","bp":"e","id":1,"pid":2,"tid":7,"ts":3}],'
    b'"metadata":{"highres-ticks":true},"displayTimeUnit":"ns"}'
)


def small_seeds() -> dict[str, list[bytes]]:
    """Small recordings by format."""
    return {
        "chrome": [OTHER_PRODUCERS, _of_pytorch().encode()],
        "memory-snapshot": [_snapshot(), _snapshot_of_a_loop()],
        "ncu-csv": [raw_page([("0", "gemm", "12.5"), ("1", "relu", "1,234.5")]).encode()],
        "ncu-report": [_ncu_report()],
        "nsys-sqlite": [_written(_nsys)],
        "perfetto": [b"".join(ROCM)],
        "rocpd": [_written(lambda path: Rocpd(path, times_apart=False))],
        "smi-log": [DMON.encode(), DCGM.encode()],
        "xplane": [gpu_profile()],
    }


def _of_pytorch() -> str:
    events = [
        complete("aten::mm", 105, 40, args={"Input Dims": [[2, 3], [3, 2]], "Sequence number": 3}),
        launch(110, 1),
        kernel("gemm", 120, 30, 1, grid=[4, 2, 1], block=[128, 1, 1]),
        launch(160, 2, "cudaMemcpyAsync"),
        complete("Memcpy HtoD", 165, 9, "gpu_memcpy", pid=0, tid=7, args={"correlation": 2, "bytes": 64, "stream": 7}),
        launch(180, 3, "cudaStreamSynchronize", 20),
        complete("nccl:all_reduce", 200, 30, "gpu_user_annotation", pid=0, tid=9),
        kernel("ncclDevKernel_AllReduce", 201, 20, 4, 9, **{"Collective name": "allreduce", "In msg nelems": 8}),
        launch(200, 4),
        complete("ProfilerStep#1", 100, 130, "user_annotation"),
        complete("train.py(7): main", 100, 200, "python_function", args={"Python id": 1, "Python parent id": None}),
        {"ph": "i", "s": "t", "name": "[memory]", "pid": 1, "tid": 1, "ts": 140, "cat": "cpu_instant_event",
         "args": {"Total Allocated": 64, "Device Id": 0, "Device Type": 1, "Bytes": 64, "Addr": 7}},
    ]  # fmt: skip
    return text_of(
        events,
        schemaVersion=1,
        deviceProperties=[{"id": 0, "name": "NVIDIA H200", "numSms": 132}],
        distributedInfo={"backend": "nccl", "rank": 0, "world_size": 2},
        baseTimeNanoseconds=1_700_000_000_000_000_000,
    )


def _snapshot() -> bytes:
    snapshot = Snapshot()
    snapshot.step(1, 5, 50)
    snapshot.event("alloc", 4096, 512, 10, FORWARD)
    snapshot.event("free_completed", 4096, 512, 20)
    snapshot.event("alloc", 8192, 1024, 30, OWN)
    snapshot.segment(4096, (512, False), (1024, True))
    return pickle.dumps(snapshot.content(), 4)


def _snapshot_of_a_loop() -> bytes:
    """Events that are laid out alike and share their stacks, as torch writes them: they are decoded together."""
    snapshot = Snapshot()
    stacks = list(FORWARD), list(OWN)
    for turn in range(100):
        place, when = 4096 + 1024 * (turn % 2), 10 + 20 * turn
        snapshot.event("alloc", place, 512, when)
        snapshot.event("free_completed", place, 512, when + 10)
    for turn, event in enumerate(snapshot.events):
        event["frames"] = stacks[turn % 3 // 2]
    snapshot.segment(4096, (512, False), (1024, True))
    more = {"user_metadata": " " * EVENT_BYTES_AT_ONCE}  # events near the end of a file are read one by one
    return pickle.dumps(snapshot.content() | more, 4)


def _ncu_report() -> bytes:
    names = (
        "gpu__time_duration.sum",
        "sm__warps_active.avg.pct_of_peak_sustained_active",
        "launch__grid_size",
    )
    one = result(metric(0, double(3, 1000.0)), metric(1, double(3, 50.0)), metric(2, number(5, 8)))
    return report(one, one, names=names)


def _nsys(path: Path) -> None:
    nsys.export(
        path,
        {
            "CUPTI_ACTIVITY_KIND_KERNEL": [nsys.kernel(500, 900, 1), nsys.kernel(1500, 1900, 2)],
            "CUPTI_ACTIVITY_KIND_RUNTIME": [
                nsys.call(100, 200, 1),
                nsys.call(1100, 1200, 2),
                nsys.call(2000, 2100, 3),
            ],
            "CUPTI_ACTIVITY_KIND_MEMCPY": [nsys.copy(2200, 2300, 3)],
            "NVTX_EVENTS": [nsys.nvtx(50, 2500, "step_1"), nsys.nvtx(60, 70, None, textId=2)],
            "TARGET_INFO_GPU": [{"id": 0, "name": "NVIDIA H200", "smCount": 132, "cuDevice": 0}],
        },
    )


def _written(write: Callable[[Path], object]) -> bytes:
    """A database in small pages."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "run"
        write(path)
        with sqlite3.connect(path) as connection:
            connection.execute("PRAGMA page_size = 512")
            connection.execute("VACUUM")
        connection.close()
        return path.read_bytes()
