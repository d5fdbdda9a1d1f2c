"""What the export says about the machine and the processes: GPUs, names, ranks, clocks, and warnings."""

from __future__ import annotations

import math
import re
from dataclasses import replace
from typing import Any

from parsers.model import AUTOGRAD, Device, Effect, Lane, LaneKind, Rank, TraceInput
from parsers.model.late import regex
from parsers.nsys.reading import PAGE_FAULT_STREAM, UNKNOWN, LaneKey, Reading, process_id, thread_id
from parsers.sqlite.database import Database
from parsers.sqlite.guarded import quote

_ALL_STREAMS = 0xFFFFFFFF
_MPI_RANK = regex(r"^MPI Rank (\d+)$")
_WARNING, _ERROR = 2, 3
_PROCESSES_AT_ONCE = 500
_SUFFIX = {
    LaneKind.REGION: "regions",
    LaneKind.CUDA_API: "CUDA calls",
    LaneKind.OS_RUNTIME: "system calls",
    LaneKind.SAMPLES: "samples",
    LaneKind.OVERHEAD: "profiler overhead",
    LaneKind.OTHER: "on processors",
}
_GPU_COLUMNS = (
    "id", "name", "cuDevice", "totalMemory", "memoryBandwidth", "smCount", "computeMajor", "computeMinor",
    "uuid",
)  # fmt: skip


def producer_of(database: Database) -> str:
    """Such as "Nsight Systems 2025.3.2"; without a version where the export does not state it."""
    for name in ("META_DATA_EXPORT", "EXPORT_META_DATA"):
        for key, value in database.few(name, "name", "value"):
            if key == "EXPORT_PRODUCT_VERSION" and value:
                return f"Nsight Systems {'.'.join(str(value).split('.')[:3])}"
    return "Nsight Systems"


def epoch_of(database: Database) -> int | None:
    """Wall clock (UTC ns) of the export's time zero; None where it is not stated."""
    for name in ("META_DATA_EXPORT", "EXPORT_META_DATA"):
        for key, value in database.few(name, "name", "value"):
            if key == "EXPORT_PARAM_TIME_NORMALIZE" and str(value).lower() in {"true", "1"}:
                return 0
    for (epoch,) in database.few("TARGET_INFO_SESSION_START_TIME", "utcEpochNs"):
        if isinstance(epoch, int) and epoch > 0:
            return epoch
    return None


def note_warnings(reading: Reading) -> None:
    """What the profiler itself warned of, by its own words."""
    for severity, text in reading.database.few("DIAGNOSTIC_EVENT", "severity", "text"):
        if severity in (_WARNING, _ERROR) and isinstance(text, str):
            words = "warned" if severity == _WARNING else "reported an error"
            first = text.strip().split("\n")[0][:160]
            reading.builder.quality.note(
                f"profiler: {first[:60]}", Effect.NOTED, f"The profiler {words}: {first}"
            )


class Machine:
    """GPUs by the numbers that the processes know them by."""

    def __init__(self, database: Database) -> None:
        self._gpus: dict[int, dict[str, Any]] = {}
        for row in database.few("TARGET_INFO_GPU", *_GPU_COLUMNS):
            gpu = dict(zip(_GPU_COLUMNS, row, strict=True))
            if isinstance(gpu["id"], int):
                self._gpus[gpu["id"]] = gpu
        self._gpus = self._gpus or _gpus_of_2021(database)
        self._by_process: dict[tuple[Any, Any], int] = {
            (pid, number): gpu
            for gpu, number, pid in database.few("TARGET_INFO_CUDA_DEVICE", "gpuId", "cudaId", "pid")
            if isinstance(gpu, int)
        }
        self._by_driver: dict[int, int] = {
            gpu["cuDevice"]: number for number, gpu in self._gpus.items() if isinstance(gpu["cuDevice"], int)
        }

    def gpu_number(self, process: int, device: int) -> int:
        """The machine's number of the GPU that a process calls ``device``."""
        known = self._by_process.get((process_id(process), device))
        if known is not None:
            return known
        return self._by_driver.get(device, device)

    def device(self, process: int, number: int, rank: int | None) -> Device:
        """The GPU that a process calls ``number``."""
        gpu = self._gpus.get(self.gpu_number(process, number), {})

        def positive(column: str) -> int | None:
            value = gpu.get(column)
            return int(value) if isinstance(value, (int, float)) and 0 < value < math.inf else None

        major, minor = gpu.get("computeMajor"), gpu.get("computeMinor")
        bandwidth = positive("memoryBandwidth")
        return Device(
            number,
            str(gpu.get("name") or ""),
            rank,
            memory_bytes=positive("totalMemory"),
            sm_count=positive("smCount"),
            compute_capability=(major, minor) if isinstance(major, int) and isinstance(minor, int) else None,
            memory_bandwidth=None if bandwidth is None else float(bandwidth),
            uuid=str(gpu.get("uuid") or ""),
        )


# What the details were called, by what they are called today; the bandwidth in kB/s.
_COLUMNS_OF_2021 = {
    "name": "name",
    "totalMemory": "globalMemorySize",
    "smCount": "numMultiprocessors",
    "memoryBandwidth": "globalMemoryBandwidth",
    "computeMajor": "computeCapabilityMajor",
    "computeMinor": "computeCapabilityMinor",
}


def _gpus_of_2021(database: Database) -> dict[int, dict[str, Any]]:
    """GPUs by their numbers, of exports in which a table of its own holds their details."""
    found: dict[int, dict[str, Any]] = {}
    for number, name in database.few("TARGET_INFO_GPU", "deviceId", "name"):
        if isinstance(number, int):
            found[number] = {"id": number, "name": name, "cuDevice": number}
    for number, *details in database.few("TARGET_INFO_CUDA_GPU", "deviceId", *_COLUMNS_OF_2021.values()):
        if not isinstance(number, int):
            continue
        gpu = dict(zip(_COLUMNS_OF_2021, details, strict=True))
        if isinstance(gpu["memoryBandwidth"], int):
            gpu["memoryBandwidth"] *= 1000
        found[number] = {"id": number, "cuDevice": number, **gpu}
    return found


def ranks_of(reading: Reading, machine: Machine, busy: set[int]) -> dict[int, int]:
    """Rank by globalPid: for two or more processes that used a GPU; or the rank that MPI itself stated.

    ``busy`` holds the processes with GPU work. Without a stated rank they are numbered by GPU, then by process.
    """
    stated = {
        thread & ~0xFFFFFF: int(match[1])
        for thread, name in reading.thread_names.items()
        if (match := _MPI_RANK.match(name))
    }
    stated = stated or _mpi_ranks(reading.database) or reading.stated_ranks
    if stated and set(stated) >= busy and len(set(stated.values())) == len(stated):
        return stated
    if len(busy) < 2:
        return {}

    first: dict[int, int] = {}
    for lane in reading.lanes:
        if lane.kind is LaneKind.GPU_STREAM:
            number = machine.gpu_number(lane.process, lane.device)
            first[lane.process] = min(number, first.get(lane.process, number))
    ordered = sorted(busy, key=lambda process: (first.get(process, 0), process))
    return {process: rank for rank, process in enumerate(ordered)}


def _mpi_ranks(database: Database) -> dict[int, int]:
    rows = database.few("MPI_RANKS", "globalTid", "rank")
    return {
        thread & ~0xFFFFFF: rank for thread, rank in rows if isinstance(thread, int) and isinstance(rank, int)
    }


def name_lanes(reading: Reading, machine: Machine, ranks: dict[int, int]) -> None:
    """Give every lane of the builder its name, rank and device."""
    reading.lanes = _in_one_place(reading.lanes)
    processes = _process_names(reading)
    threads = _thread_names(reading)
    used = {(lane.process, lane.device) for lane in reading.lanes if lane.device > UNKNOWN}
    devices = {
        (process, number): reading.builder.device(machine.device(process, number, ranks.get(process)))
        for process, number in sorted(used, key=lambda each: (ranks.get(each[0], -1), each[1], each[0]))
    }
    for index, key in enumerate(reading.lanes):
        rank = ranks.get(key.process)
        process = process_id(key.process) if key.process > UNKNOWN else None
        text = processes.get(key.process, "")
        if key.device > UNKNOWN:
            lane = _gpu_lane(key, rank, process, devices[key.process, key.device], text)
        else:
            thread = None if key.kind is LaneKind.STEPS else thread_id(key.thread)
            name = _thread_text(key, threads.get(key.thread, ""), text)
            lane = Lane(key.kind, name, rank=rank, process=process, thread=thread, process_name=text)
        reading.builder.lanes[index] = lane


def _in_one_place(lanes: list[LaneKey]) -> list[LaneKey]:
    """Lanes without a process get the only one there is; waits get the GPU on which their process works.

    CUPTI states device 0 for synchronisations of processes that work on another one.
    """
    processes = {lane.process for lane in lanes} - {UNKNOWN}
    sole = processes.pop() if len(processes) == 1 else UNKNOWN
    working: dict[int, set[int]] = {}
    for lane in lanes:
        if lane.kind is LaneKind.GPU_STREAM:
            working.setdefault(lane.process, set()).add(lane.device)
    placed = []
    for lane in lanes:
        devices = working.get(lane.process, set())
        waits = lane.kind is LaneKind.OTHER and lane.thread == UNKNOWN and lane.stream != PAGE_FAULT_STREAM
        if waits and len(devices) == 1 and lane.device not in devices:
            lane = replace(lane, device=next(iter(devices)))
        placed.append(replace(lane, process=sole) if lane.process == UNKNOWN else lane)
    return placed


def _gpu_lane(key: LaneKey, rank: int | None, process: int | None, device: int, text: str) -> Lane:
    faults = key.stream == PAGE_FAULT_STREAM
    everywhere = faults or key.stream == _ALL_STREAMS
    name = f"GPU {key.device}" if everywhere else f"GPU {key.device} stream {key.stream}"
    return Lane(
        key.kind,
        f"{name} page faults" if faults else f"{name} waits" if key.kind is LaneKind.OTHER else name,
        rank=rank,
        process=process,
        device=device,
        stream=None if everywhere else key.stream,
        process_name=text,
    )


def _thread_text(key: LaneKey, name: str, process: str) -> str:
    """A lane of a thread: "Main thread CUDA calls"; steps are those of their process."""
    if key.kind is LaneKind.STEPS:
        return "Steps"
    number = thread_id(key.thread)
    generic = name in ("", process)
    if name.startswith("pt_autograd"):
        thread = f"{AUTOGRAD} {number}"
    elif generic and number == process_id(key.thread):
        thread = "Main thread"
    else:
        thread = f"Thread {number}" if generic else f"{name} ({number})"
    return f"{thread} {_SUFFIX[key.kind]}" if key.kind in _SUFFIX else thread


def _process_names(reading: Reading) -> dict[int, str]:
    """Names of the processes that have lanes, and of no others of the machine."""
    shown = sorted({key.process for key in reading.lanes})
    table = reading.database.table("PROCESSES")
    if table is None or not {"globalPid", "name"} <= table.columns.keys():
        return {}
    found: dict[int, str] = {}
    for first in range(0, len(shown), _PROCESSES_AT_ONCE):
        chosen = ", ".join(map(str, shown[first : first + _PROCESSES_AT_ONCE]))
        sql = f"SELECT globalPid, name FROM {quote(table.name)} WHERE globalPid IN ({chosen})"
        for process, name in reading.optional_rows(sql):
            if isinstance(process, int):
                found.setdefault(process, re.split(r"[/\\]", str(name or "").strip())[-1])
    return found


def _thread_names(reading: Reading) -> dict[int, str]:
    """Names of the threads that have lanes; the one a program gave by NVTX comes first."""
    shown = {key.thread for key in reading.lanes if key.thread > UNKNOWN}
    ids = {
        thread: name
        for thread, name in reading.database.few("ThreadNames", "globalTid", "nameId")
        if thread in shown and isinstance(name, int)
    }
    texts = reading.strings_of(ids.values())
    named = {thread: texts[name] for thread, name in ids.items() if name in texts}
    return {**named, **{thread: name for thread, name in reading.thread_names.items() if thread in shown}}


def describe_run(reading: Reading, ranks: dict[int, int], path: str, format_name: str) -> None:
    """State the input, its clock and its ranks."""
    builder = reading.builder
    builder.epoch_ns = epoch_of(reading.database)
    sole = next(iter(ranks.values())) if len(ranks) == 1 else None
    builder.inputs.append(TraceInput(path, format_name, producer_of(reading.database), sole))
    world = len(ranks) if len(ranks) > 1 else None
    builder.ranks += [Rank(rank, world) for rank in sorted(ranks.values())]


def describe_capture(reading: Reading, opaque_graphs: bool) -> None:
    """State what was recorded."""
    kinds = {lane.kind for lane in reading.lanes}
    reading.builder.capture = replace(
        reading.builder.capture,
        has_cpu_events=bool(kinds & {LaneKind.CPU_THREAD, LaneKind.REGION, LaneKind.STEPS}),
        has_api_calls=LaneKind.CUDA_API in kinds,
        graph_mode_opaque=opaque_graphs,
    )
