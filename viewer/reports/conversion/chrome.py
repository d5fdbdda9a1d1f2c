"""A recording as Chrome JSON in the words of PyTorch's profiler: one file, or one a rank in a folder or an archive."""

from __future__ import annotations

import gzip
import zipfile
import zlib
from collections.abc import Callable, Iterator, Mapping
from io import BufferedWriter, RawIOBase
from pathlib import Path
from typing import IO, Any, cast

import msgspec
import numpy as np

from parsers.chrome.decode.header import RECORDED_BY
from parsers.files.base import HEAD_BYTES
from parsers.files.source import identify
from parsers.model import Counter, EventKind, Lane, LaneKind, Progress, Trace, TraceError
from parsers.model.arrays import distinct_values
from parsers.model.late import dataclass
from parsers.model.memory import AFTER, BEFORE, Memory
from parsers.model.names.steps import is_profiler_step
from viewer.reports.conversion.chrome_arguments import Arguments
from viewer.user_data.storage import in_one_piece, refuse_recordings

_GPU, _CPU = 1, 0  # c10::DeviceType
_ALLOCATED, _RESERVED = "allocated memory", "reserved memory"


def without_samples(trace: Trace) -> list[Counter]:
    """The counters that ``memory_events`` does not write."""
    return [counter for counter in trace.counters if not counter.name.endswith((_ALLOCATED, _RESERVED))]


def memory_events(trace: Trace, holds: Callable[[int | None], bool]) -> Iterator[dict[str, Any]]:
    """Allocations where they are known, else the totals as they were sampled; ``holds`` chooses ranks."""
    known = set()
    for memory in trace.memory:
        if not len(memory.blocks.address):
            for device in distinct_values(memory.allocations.device).tolist():
                known.add(device)
                if holds(trace.devices[device].rank):
                    yield from _of_allocations(trace, memory, device)
    for counter in trace.counters:
        if (
            counter.name.endswith(_ALLOCATED)
            and counter.device not in known
            and holds(counter.rank if counter.device is None else trace.devices[counter.device].rank)
        ):
            yield from _of_totals(trace, counter)


def _of_allocations(trace: Trace, memory: Memory, device: int) -> Iterator[dict[str, Any]]:
    table = memory.allocations
    mine = table.device == device
    start, end, size, address, thread = (
        column[mine] for column in (table.start, table.end, table.size, table.address, table.thread)
    )
    begun, ended = start != BEFORE, end != AFTER
    time = np.concatenate([start[begun], end[ended]])
    change = np.concatenate([size[begun], -size[ended]])
    order = np.lexsort((change, time))
    held = int(size[~begun].sum()) + np.cumsum(change[order])
    where = np.concatenate([address[begun], address[ended]])[order]
    threads = np.concatenate([thread[begun], thread[ended]])[order]
    reserved = _reserved(trace, device)
    for when, total, bytes_, at, tid in zip(
        time[order].tolist(),
        held.tolist(),
        change[order].tolist(),
        where.tolist(),
        threads.tolist(),
        strict=True,
    ):
        yield _instant(
            when,
            tid,
            {
                "Device Type": _GPU,
                "Device Id": trace.devices[device].id,
                "Addr": at,
                "Bytes": bytes_,
                "Total Allocated": total,
                "Total Reserved": int((reserved.at(when) if reserved is not None else None) or 0),
            },
        )


def _of_totals(trace: Trace, allocated: Counter) -> Iterator[dict[str, Any]]:
    reserved = _reserved(trace, allocated.device)
    number = -1 if allocated.device is None else trace.devices[allocated.device].id
    for when, total in zip(allocated.time.tolist(), allocated.value.tolist(), strict=True):
        yield _instant(
            when,
            -1,
            {
                "Device Type": _CPU if allocated.device is None else _GPU,
                "Device Id": number,
                "Total Allocated": int(total),
                "Total Reserved": int((reserved.at(when) if reserved is not None else None) or 0),
            },
        )


def _reserved(trace: Trace, device: int | None) -> Counter | None:
    return next(
        (each for each in trace.counters if each.device == device and each.name.endswith(_RESERVED)), None
    )


def _instant(when: int, thread: int, arguments: dict[str, Any]) -> dict[str, Any]:
    return {
        "ph": "i",
        "cat": "cpu_instant_event",
        "s": "t",
        "name": "[memory]",
        "pid": 0,
        "tid": thread,
        "ts": when / 1000,
        "args": arguments,
    }


CHUNK = 50_000
_BUFFER = 1 << 16
_CATEGORY: Mapping[int, str] = {
    EventKind.CPU_OP: "cpu_op",
    EventKind.PYTHON: "python_function",
    EventKind.API: "cuda_runtime",
    EventKind.REGION: "user_annotation",
    EventKind.STEP: "profiler_step",
    EventKind.KERNEL: "kernel",
    EventKind.MEMCPY: "gpu_memcpy",
    EventKind.MEMSET: "gpu_memset",
    EventKind.GRAPH: "gpu_graph",
    EventKind.GPU_SYNC: "cuda_sync",
    EventKind.GPU_REGION: "gpu_user_annotation",
    EventKind.OVERHEAD: "overhead",
    EventKind.OS_RUNTIME: "osrt",
    EventKind.SAMPLE: "cpu_sample",
    EventKind.SAMPLED_FRAME: "sampled_frame",
}
_FIRST_EVENT = b""","traceEvents":[
{"ph":"M","name":"process_labels","pid":0,"tid":0,"args":{"labels":"Stallscope export"}}"""
# what lanes add to their thread's name
_ENDINGS = (
    " regions", " Python", " CUDA calls", " HIP calls", " API calls", " samples", " profiler overhead",
)  # fmt: skip


def write_chrome(trace: Trace, out: Path, progress: Progress, all_arguments: bool = False) -> list[str]:
    """Write in one piece or not at all; returns what is left out, as phrases. Raises TraceError and OSError.

    Arguments that analyses read are always written; ``all_arguments`` fetches the others, milliseconds for each event.
    """
    path = trace.inputs[0].path if trace.inputs else "the recording"
    sampled = any(not len(memory.blocks.address) for memory in trace.memory)
    if not (len(trace.events) or without_samples(trace) or sampled):
        raise TraceError(
            path, "It contains no events to write.", "Its tables can be written: --to csv or --to parquet."
        )
    ranks = sorted({lane.rank for lane in trace.lanes if lane.rank is not None})
    if len(ranks) < 2:
        with in_one_piece(out, is_export) as part, _opened(part, out) as file:
            _write(trace, _Part(ranks[0] if ranks else None, True, all_arguments), file, progress)
    elif out.suffix == ".zip":
        with (
            in_one_piece(out, is_export) as part,
            zipfile.ZipFile(part, "w", zipfile.ZIP_DEFLATED) as archive,
        ):
            for number, rank in enumerate(ranks):
                with archive.open(f"rank{rank}.json", "w", force_zip64=True) as file:
                    share = _share(progress, number, len(ranks))
                    _write(trace, _Part(rank, not number, all_arguments), file, share)
    elif not out.suffix or out.is_dir():
        names = [out / f"rank{rank}.json.gz" for rank in ranks]
        for name in names:
            refuse_recordings(name, is_export)
        out.mkdir(parents=True, exist_ok=True)
        for number, (rank, name) in enumerate(zip(ranks, names, strict=True)):
            with in_one_piece(name, is_export) as part, _opened(part, name) as file:
                share = _share(progress, number, len(ranks))
                _write(trace, _Part(rank, not number, all_arguments), file, share)
    else:
        raise TraceError(
            path,
            f"It holds {len(ranks)} ranks, but a file of this format holds one.",
            "Name a folder or a .zip to write a file for each.",
        )
    return _left_out(trace, all_arguments)


def is_export(path: Path) -> bool:
    """Whether a file is what ``write_chrome`` wrote, which it may write again."""
    try:
        source = identify(path)
        if not zipfile.is_zipfile(path):
            return _FIRST_EVENT in source.head
        with zipfile.ZipFile(path) as archive, archive.open(archive.namelist()[0]) as file:
            return _FIRST_EVENT in file.read(HEAD_BYTES)
    except (
        TraceError,
        OSError,
        zipfile.BadZipFile,
        zlib.error,
        IndexError,
        RuntimeError,
        NotImplementedError,
    ):
        return False


def _left_out(trace: Trace, all_arguments: bool) -> list[str]:
    found = []
    if trace.kernels:
        found.append(f"{len(trace.kernels)} kernels with hardware counters (--to csv --table kernels)")
    if trace.quality.kernels_without_times:
        found.append("that its kernels have hardware counters and no times")
    if trace.tables:
        found.append("tables of results (--to csv --table results)")
    if any(len(memory.blocks.address) for memory in trace.memory):
        found.append("the snapshot of the memory")
    if not all_arguments and any(source is not None for source in trace.sources):
        found.append("arguments that no analysis reads (--all-arguments writes them, slowly)")
    return found


@dataclass(frozen=True, slots=True)
class _Part:
    """What goes into one file: a rank; ``everything`` also what belongs to none."""

    rank: int | None
    everything: bool
    all_arguments: bool

    def holds(self, rank: int | None) -> bool:
        return rank == self.rank or (self.everything and rank is None)


def _share(progress: Progress, number: int, count: int) -> Progress:
    return progress.part(number / count, (number + 1) / count)


def _opened(part: Path, out: Path) -> IO[bytes]:
    return cast(IO[bytes], gzip.open(part, "wb")) if out.suffix == ".gz" else part.open("wb")


def _write(trace: Trace, part: _Part, into: IO[bytes], progress: Progress) -> None:
    encode = msgspec.json.Encoder().encode
    header = encode(_header(trace, part))
    with BufferedWriter(cast(RawIOBase, into), _BUFFER) as file:
        file.write(header[:-1] + _FIRST_EVENT)
        for lines in (
            _names(trace, part),
            _events(trace, part, progress),
            memory_events(trace, part.holds),
            _counters(trace, part),
        ):
            for line in lines:
                file.write(b",\n" + encode(line))
        file.write(b"\n]}\n")


def _header(trace: Trace, part: _Part) -> dict[str, Any]:
    """What PyTorch's profiler says outside of its events."""
    header: dict[str, Any] = {"schemaVersion": 1, "displayTimeUnit": "ms"}
    if recorders := {each.producer for each in trace.inputs if each.producer}:
        header[RECORDED_BY] = ", ".join(sorted(recorders))
    for name in ("with_stack", "profile_memory", "record_shapes"):
        if (stated := getattr(trace.capture, name)) is not None:
            header[name] = int(stated)
    if trace.epoch_ns:
        header["baseTimeNanoseconds"] = trace.epoch_ns
    if part.rank is not None:
        known = next((rank for rank in trace.ranks if rank.rank == part.rank), None)
        header["distributedInfo"] = {"rank": part.rank}
        if known is not None and known.world_size:
            header["distributedInfo"]["world_size"] = known.world_size
        if known is not None and known.host:
            header["host_name"] = known.host
    header["deviceProperties"] = [
        {
            "id": device.id,
            "name": device.name,
            **({"totalGlobalMem": device.memory_bytes} if device.memory_bytes else {}),
            **({"numSms": device.sm_count} if device.sm_count else {}),
            **(
                dict(zip(("computeMajor", "computeMinor"), device.compute_capability, strict=True))
                if device.compute_capability
                else {}
            ),
        }
        for device in trace.devices
        if part.holds(device.rank)
    ]
    return header


def _place(trace: Trace, lane: Lane) -> tuple[int | str, int | str]:
    """Process and thread, or device and stream; a lane without one is told apart by its name."""
    if lane.device is not None and lane.kind is not LaneKind.MEMORY:
        return trace.devices[lane.device].id, lane.name if lane.stream is None else lane.stream
    process = lane.process_name if lane.process is None else lane.process
    if lane.kind is LaneKind.STEPS and lane.thread is None:
        return process, process
    return process, lane.name if lane.thread is None else lane.thread


def _names(trace: Trace, part: _Part) -> Iterator[dict[str, Any]]:
    processes: dict[int | str, str] = {}
    threads: dict[tuple[int | str, int | str], str] = {}
    for lane in sorted(trace.lanes, key=lambda each: each.kind):
        if lane.device is None and part.holds(lane.rank):
            place = _place(trace, lane)
            processes.setdefault(place[0], lane.process_name)
            name = lane.name
            for ending in _ENDINGS:
                name = name.removesuffix(ending)
            if lane.kind is not LaneKind.STEPS and name:
                threads.setdefault(place, name)
    for process, name in processes.items():
        if name:
            yield {"ph": "M", "name": "process_name", "pid": process, "tid": 0, "args": {"name": name}}
    for (process, thread), name in threads.items():
        yield {"ph": "M", "name": "thread_name", "pid": process, "tid": thread, "args": {"name": name}}


def _events(trace: Trace, part: _Part, progress: Progress) -> Iterator[dict[str, Any]]:
    events = trace.events
    places = [_place(trace, lane) for lane in trace.lanes]
    on_gpu = [lane.device is not None and lane.kind is not LaneKind.MEMORY for lane in trace.lanes]
    mine = np.array([part.holds(lane.rank) for lane in trace.lanes] or [False])
    arguments = Arguments(trace, part.all_arguments)
    for first in range(0, len(events), CHUNK):
        progress.step(first / len(events), "writing")
        chosen = np.arange(first, min(first + CHUNK, len(events)), dtype=np.int64)
        chosen = chosen[mine[events.lane[chosen]]]
        stated = arguments.of(chosen)
        for index, lane, kind, name, start, end in zip(
            chosen.tolist(),
            events.lane[chosen].tolist(),
            events.kind[chosen].tolist(),
            events.name[chosen].tolist(),
            events.start[chosen].tolist(),
            events.end[chosen].tolist(),
            strict=True,
        ):
            first_id, second_id = places[lane]
            own = stated.get(index, {})
            if on_gpu[lane]:
                own = {"device": first_id, "stream": second_id} | own
            line: dict[str, Any] = {
                "ph": "X",
                "cat": _category(kind, trace.strings[name]),
                "name": trace.strings[name],
                "pid": first_id,
                "tid": second_id,
                "ts": start / 1000,
                "dur": (end - start) / 1000,
                "args": own,
            }
            if kind == EventKind.MARK:
                line |= {"ph": "i", "s": "t"}
                del line["dur"]
            yield line


def _category(kind: int, name: str) -> str:
    own = kind == EventKind.STEP and is_profiler_step(name)
    return "user_annotation" if own else _CATEGORY.get(kind, "other")


def _counters(trace: Trace, part: _Part) -> Iterator[Mapping[str, Any]]:
    """Counters that are no samples of the allocator; the process says which GPU they are of."""
    for number, counter in enumerate(without_samples(trace)):
        device = trace.devices[counter.device] if counter.device is not None else None
        if not part.holds(counter.rank if device is None else device.rank):
            continue
        process = f"counter {number}" if device is None else f"GPU {device.id}"
        yield {"ph": "M", "name": "process_name", "pid": process, "tid": 0, "args": {"name": process}}
        name = f"{counter.name} [{counter.unit}]" if counter.unit else counter.name
        for time, value in zip(counter.time.tolist(), counter.value.tolist(), strict=True):
            yield {"ph": "C", "name": name, "pid": process, "ts": time / 1000, "args": {"value": value}}
