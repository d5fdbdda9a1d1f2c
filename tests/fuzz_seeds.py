"""What the fuzzing begins with: real recordings by format, and small ones made for formats of which there is none."""

from __future__ import annotations

import gzip
import io
import sqlite3
import tarfile
import tempfile
import zipfile
from pathlib import Path

from resources import path as resource_path
from tests.parsers.nsys_exports import write_table

LONGEST_TEXT = 300_000
FIXTURES = Path(__file__).parent / "fixtures"
ENDINGS = {
    "Chrome JSON": (".json", ".json.gz"),
    "Nsight Systems": (".sqlite", ".sqlite.gz"),
    "ncu CSV": (".csv", ".csv.gz", "summary.txt.gz"),
    "ncu report": (".ncu-rep", ".ncu-rep.gz"),
    "device log": (".txt", "query.csv"),
}
DATABASES = ("Nsight Systems", "ROCm profile data")
WHOLE = (*DATABASES, "ncu report")
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


def seeds() -> dict[str, list[bytes]]:
    """Recordings by format, unpacked; large text ones cut, which damages their end already."""
    found: dict[str, list[bytes]] = {format: [] for format in ENDINGS}
    for root in (FIXTURES, resource_path("samples")):
        for file in sorted(root.rglob("*")):
            format = next((each for each, ends in ENDINGS.items() if file.name.endswith(ends)), None)
            if file.name.endswith("query.csv"):
                format = "device log"
            if file.is_file() and format is not None:
                data = file.read_bytes()
                data = gzip.decompress(data) if data.startswith(b"\x1f\x8b") else data
                found[format].append(data if format in WHOLE else data[:LONGEST_TEXT])
    found["Chrome JSON"].append(OTHER_PRODUCERS)
    found["ROCm profile data"] = [_rpd()]
    ranks = [data[:40_000] for data in found["Chrome JSON"][:3]]
    found["archive"] = [_zip(ranks), _tar(ranks), gzip.compress(_tar([*ranks, found["device log"][0]]))]
    return found


def _rpd() -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "run.rpd"
        connection = sqlite3.connect(path)
        texts = (
            "",
            "hipLaunchKernel",
            "hipMemcpyAsync",
            "gemm",
            "KernelExecution",
            "CopyHostToDevice",
            "UserMarker",
        )
        write_table(
            connection, "rocpd_string", [{"id": n + 1, "string": text} for n, text in enumerate(texts)]
        )
        calls = [
            {"id": n, "pid": 7, "tid": 7 + n % 2, "start": n * 100, "end": n * 100 + 50, "apiName_id": 2 + n % 2,
             "args_id": 1}
            for n in range(200)
        ]  # fmt: skip
        operations = [
            {"id": n, "gpuId": n % 2, "queueId": n % 3, "start": n * 100 + 60, "end": n * 100 + 90,
             "description_id": 4, "opType_id": 5 + n % 2}
            for n in range(200)
        ]  # fmt: skip
        shape = {f"{size}{axis}": 8 for size in ("grid", "workgroup") for axis in "XYZ"}
        write_table(connection, "rocpd_api", calls)
        write_table(connection, "rocpd_op", operations)
        write_table(connection, "rocpd_api_ops", [{"api_id": n, "op_id": n} for n in range(200)])
        write_table(
            connection,
            "rocpd_kernelapi",
            [{"api_ptr_id": n, "kernelName_id": 4, **shape} for n in range(0, 200, 2)],
        )
        write_table(connection, "rocpd_copyapi", [{"api_ptr_id": n, "size": 4096} for n in range(1, 200, 2)])
        monitor = {"deviceType": "gpu", "deviceId": 0, "monitorType": "sclk"}
        write_table(
            connection, "rocpd_monitor", [{**monitor, "start": n * 100, "value": str(n)} for n in range(99)]
        )
        connection.commit()
        connection.close()
        return path.read_bytes()


def _zip(files: list[bytes]) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for number, data in enumerate(files):
            archive.writestr(f"rank{number}.json", data)
    return buffer.getvalue()


def _tar(files: list[bytes]) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        for number, data in enumerate(files):
            member = tarfile.TarInfo(f"rank{number}.json")
            member.size = len(data)
            archive.addfile(member, io.BytesIO(data))
    return buffer.getvalue()
