"""Recordings that begin well and hold nothing: every format refuses them with a hint, none calls them complete."""

from __future__ import annotations

import gzip
import json
import pickle  # noqa: TID251 - to write what must never be unpickled
import sqlite3
import tempfile
from pathlib import Path
from typing import Any

import pytest

from parsers import open_trace
from parsers.files.base import parser_of, parsers
from parsers.files.source import identify
from parsers.model import TraceError
from tests.parsers import nvprof_databases, test_chakra_trace
from tests.parsers.protobuf_messages import message
from tests.parsers.test_ncu_report import report
from viewer.cli import main

FIXTURES = Path(__file__).parents[1] / "fixtures"
DESCRIBES = (
    "StringIds",
    "ENUM",
    "META",
    "EXPORT",
    "TARGET_INFO",
    "rocpd_string",
    "rocpd_metadata",
    "rocpd_info",
    "StringTable",
    "CUPTI_ACTIVITY_KIND_DEVICE",
)


def headed(name: str, lines: int = 1) -> bytes:
    """The first lines of a fixture."""
    return b"".join((FIXTURES / name).read_bytes().splitlines(keepends=True)[:lines])


def unpacked(name: str) -> bytes:
    """A packed fixture."""
    return gzip.decompress((FIXTURES / name).read_bytes())


def of_nvprof() -> bytes:
    """A database of nvprof."""
    with tempfile.TemporaryDirectory() as folder:
        return nvprof_databases.write(Path(folder) / "run.nvvp").read_bytes()


def emptied(database: bytes) -> bytes:
    """A database whose tables are all there, without rows except for those that describe the recording."""
    connection = sqlite3.connect(":memory:")
    connection.deserialize(database)
    listed = connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall()
    for (table,) in listed:
        if not table.startswith(("sqlite_", *DESCRIBES)):
            connection.execute(f'DELETE FROM "{table}"')
    connection.commit()
    return bytes(connection.serialize())


def without_records(name: str) -> bytes:
    """JSON of rocprofv3 with all its lists of records, and nothing in them."""
    stated: dict[str, Any] = json.loads((FIXTURES / name).read_bytes())
    for process in stated["rocprofiler-sdk-tool"]:
        for records in (process.get("buffer_records", {}), process.get("callback_records", {})):
            for kind in records:
                records[kind] = []
    return json.dumps(stated).encode()


def commented(name: str) -> bytes:
    """Only the lines of a printed table that are no rows."""
    lines = (FIXTURES / name).read_bytes().splitlines(keepends=True)
    return b"".join(line for line in lines if line.startswith(b"#"))


SNAPSHOT = {"segments": [], "device_traces": [], "allocator_settings": {}}
HOLLOW = [
    ("chrome", b'{"traceEvents": []}'),
    (
        "chrome",
        b'{"schemaVersion": 1, "traceEvents": [{"ph": "M", "pid": 1, "name": "process_name", "args": {}}]}',
    ),
    (
        "chrome",
        b'{"traceEvents": [{"ph": "s", "id": 1, "pid": 1, "tid": 1, "ts": 1, "name": "a", "cat": "b"}]}',
    ),
    ("nsys-sqlite", emptied(unpacked("nsys/healthy_loader.sqlite.gz"))),
    ("nvprof", emptied(of_nvprof())),
    ("rocpd", emptied(unpacked("rocm/rocprofv3.db.gz"))),
    ("rpd", emptied(unpacked("rocm/rocm_profile_data.rpd.gz"))),
    ("rocprof-db", emptied(unpacked("rocm/rocprof_results.db.gz"))),
    ("rocprofv3-json", without_records("rocm/rocprofv3.json")),
    ("rocprof-csv", headed("rocm/kernel_trace.csv")),
    ("rocprof-csv", headed("rocm/hip_api_trace.csv")),
    ("rocprof-csv", headed("rocm/rocprof_results.csv")),
    ("rocprof-csv", headed("rocm/rocprofiler_compute_pmc_perf.csv")),
    ("perfetto", b"".join(message((1, message((8, each), (10, 1)))) for each in range(5))),
    ("xplane", message((1, message((1, 1), (2, b"/device:GPU:0"))), (1, message((1, 2), (2, b"/host:CPU"))))),
    ("ncu-csv", headed("ncu/kernels.live_metrics.csv", 4)),
    ("ncu-report", report()),
    ("smi-log", headed("smi/dmon.txt", 2)),
    ("smi-log", headed("smi/query.csv")),
    ("amd-smi-log", headed("smi/amd_smi_monitor.csv")),
    ("dcgm-exporter", b"# HELP DCGM_FI_DEV_SM_CLOCK SM clock\n# TYPE DCGM_FI_DEV_SM_CLOCK gauge\n"),
    ("nsys-gpu-table", headed("results/nsys_gpu_trace.csv")),
    ("ascend-gpu-table", headed("results/kernel_details.csv")),
    ("nvprof-gpu-table", headed("results/nvprof_gpu_trace.csv", 4)),
    ("trtexec-profile", b'[ { "count" : 3 } ]'),
    ("result-csv", headed("results/nsys_stats.csv")),
    ("result-csv", headed("results/perf_analyzer.csv")),
    ("benchmark-text", commented("results/nccl_tests.txt")),
    ("bench-serving", b'{"completed": null, "request_throughput": 1e999}'),
    ("printed-serving", b"== Serving Benchmark Result ==\n"),
    (
        "jax-memory",
        b"\n\x04\x08\x01\x10\x02\n\x04\x08\x03\x10\x04\x12\x00" + b"2\x0ballocations2\x05space2\x04kind",
    ),
    ("trtllm-bench", b'{"request_info": {"num_requests": 1}, "performance": {}}'),
    ("printed-trtllm-bench", b"= PERFORMANCE OVERVIEW\n====\n====\n"),
    ("trtexec-text", b"[I] === Performance summary ===\n[I] Throughput: 0 qps\n"),
    (
        "llama-bench",
        b'[{"build_commit": "a", "model_type": "llama", "n_prompt": 1, "n_gen": 0, "avg_ts": null}]',
    ),
    (
        "engine-log",
        b"Decode batch. #running-req: 1, #token: 0, token usage: 0.0, gen throughput (token/s): 0.0, #queue-req: 0\n"
        * 3,
    ),
    ("locust", b"Type,Name,Request Count,Failure Count,Average Response Time,Requests/s\n"),
    ("genai-perf", b'{"time_to_first_token": {"unit": "ms", "avg": null}}'),
    ("request-log", b'{"id": 1, "arrival": null, "first": 1, "end": 2, "out": 1}\n'),
    ("flight-recorder", pickle.dumps({"version": "2.10", "pg_config": {}, "entries": []}, 2)),
    ("flight-recorder", b'{"entries": [], "pg_config": {}, "version": "2.10"}'),
    (
        "triton-server-trace",
        b'[{"id": 1, "model_name": "a"}, {"id": 1, "timestamps": [{"name": "REQUEST_START", "ns": 5}]}]',
    ),
    (
        "proton-trace",
        b'{"displayTimeUnit":"us","traceEvents":[{"args":{"call_stack":["ROOT","k"]},"name":"k","ph":"M"}]}',
    ),
    (
        "proton-inside",
        b'{"displayTimeUnit":"ns","traceEvents":[{"name":"k","ph":"X","pid":"k Core1 CTA2","tid":"warp 0","ts":-1}]}',
    ),
    ("proton-tree", b'[{"frame": {"name": "ROOT"}, "children": [], "metrics": {"time (ns)": 0}}]'),
    ("torch-compiler-log", headed("compiler/torch_trace.log", 20)),
    (
        "speedscope",
        b'{"$schema": "https://www.speedscope.app/file-format-schema.json", "profiles": [], "shared": {"frames": []}}',
    ),
    ("collapsed-stacks", b"main;load 0\n"),
    ("pyinstrument", b'{"start_time": 1.0,"duration": 1.0,"sample_count": 0,"root_frame": null}'),
    ("flame-graph", b"<svg><!--Flame graph stack visualization.--></svg>"),
    ("perf-script", b"python 8 100.000000: 1 cpu-clock:\n"),
    ("perf-report", b"# Overhead  Command  Symbol\n# ........  .......  ......\n#\n"),
    ("python-profile", b"   ncalls  tottime  percall  cumtime  percall filename:lineno(function)\n"),
    ("python-profile", b"{(\x03\0\0\0z\x04a.pyi\x01\0\0\0z\x01f(\x05\0\0\0"),
    ("scalene", b'{"alloc_samples": 0, "files": {}}'),
    ("line-profile", b"Line #      Hits         Time  Per Hit   % Time  Line Contents\n"),
    ("lightning-report", b"|  Action  |  Mean duration (s)  |  Total time (s)  |\n"),
    ("lightning-report", b"Profile stats for: step\n         0 function calls\n"),
    ("deepspeed-log", b"----- DeepSpeed Flops Profiler -----\n"),
    ("inductor-bandwidth", b"TRITON KERNELS BANDWIDTH INFO (/tmp/a.py)\n"),
    ("nccl-log", b"node:7:8 [0] NCCL INFO Bootstrap : Using eth0:10.0.0.1<0>"),
    (
        "kernel-parts",
        b'{"traceEvents":[{"name":"SM 0","ph":"M","pid":0},{"name":"x","tid":"warp 0","ph":"B"}]}',
    ),
    ("other-monitors", headed("smi/xpu_smi_dump.csv")),
    ("training-log", b"iter 1: loss 2.5, time 0.00ms\n" * 3),
    ("oneapi-timing", b"=== Device Timing Summary ===\n\n== L0 Backend ==\n"),
    ("gprof", b"  %   cumulative\n time   seconds   seconds    calls  us/call  us/call  name\n"),
    ("perf-stat", b" Performance counter stats for 'ls':\n"),
    ("smi-topology", b"\tGPU0\tGPU1\tCPU Affinity\n"),
    ("py-spy-trace", b'[{"cat": "py-spy", "name": "load", "ph": "E", "ts": 1}]'),
    ("execution-trace", b'{"schema": "1.1.1-chakra.0.0.4", "pid": 5, "nodes": []}'),
    ("chakra-trace", test_chakra_trace.written()),
    ("firefox-profile", b'{"meta": {"preprocessedProfileVersion": 57}, "threads": []}'),
    ("memory-snapshot", pickle.dumps(SNAPSHOT)),
    ("memory-snapshot", json.dumps(SNAPSHOT).encode()),
]


def test_every_format_has_a_hollow_file_here() -> None:
    converted_elsewhere = {"nsys-report"}
    assert {each.format for each in parsers() if each.title} - converted_elsewhere == {
        name for name, _ in HOLLOW
    }


@pytest.mark.parametrize(
    ("format", "content"), HOLLOW, ids=[f"{name}-{place}" for place, (name, _) in enumerate(HOLLOW)]
)
def test_a_recording_of_nothing_is_refused_with_a_hint(
    format: str, content: bytes, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "recording"
    file.write_bytes(content)
    parser = parser_of(identify(file))
    assert parser is not None
    assert parser.format == format
    with pytest.raises(TraceError) as refused:
        open_trace([file])
    assert refused.value.problem
    assert refused.value.hint
    assert main(["diagnose", str(file)]) == 2
    said = capsys.readouterr()
    assert "all kept" not in said.out
    assert "nsys export" not in said.err or format == "nsys-sqlite"
    assert "the file that the profiler wrote" not in said.err
