"""Finds GPU streams and API calls in traces of tools that give no categories: XProf, rocprof and the like."""

from __future__ import annotations

import re

import numpy as np

from parsers.chrome.build.lanes import Names
from parsers.chrome.build.quarantine import Table
from parsers.chrome.decode.categories import Where
from parsers.chrome.decode.collect import Columns
from parsers.model import BOOL, I64, Effect, EventKind, LaneKind
from parsers.model.arrays import distinct_values, rows_by
from parsers.model.late import regex
from parsers.model.nesting import depths, parents
from parsers.model.quality import BETWEEN_EVENTS, GPU_OPERATORS, IN_ROWS

_DEVICE_PROCESS = regex(
    r"^(?:\[\d+\] )?(?:/device:|/)?(?:(?:CUDA )?(?:GPU|Device)|CUDA HW|(?P<tpu>TPU))[ :#_(]*(?P<number>\d+)\b|"
    r"^(?P<npu>Ascend Hardware)$|^\[(?P<nvprof>\d+):\d+\] Overview$",  # the latter by nvprof2json
    re.IGNORECASE,
)
_STREAM_PROCESS = regex(r"^/.*/stream:(\d+) Compute$")  # of TensorFlow's timelines
_COPY_OF_STREAMS = regex(r"^/.*/(?:stream:all|memcpy) Compute$")
_EXECUTOR_PROCESS = regex(r"^(?:/job:.* Compute|CPU functions)$")
_EXECUTOR_OF_GPU = regex(r"^/job:.*\bgpu:\d+ Compute$", re.IGNORECASE)
_MXNETS_GPU = regex(r"^gpu/\d+$")  # whose operators are of the CPU by their category
_ROWS = "TensorFlow's timelines draw operators that run at once in rows, which are no threads."
_STARTED_ONLY = "operators of a GPU, as the CPU started them: what the GPU ran was not recorded"
_KERNELS_OF_AUTOGRAD = "CUDA functions"  # a thread for each GPU; its operators are "CPU functions"
_BETWEEN_EVENTS = (
    "GPU times were taken between events around each operator, so they include waiting for its launch: "
    "a GPU that waits for the CPU looks busy"
)
_NPU_COLLECTIVES = regex(r"^(?:Group \d+ Communication|Communication Kernel)$")
_NPU_LIBRARY = "HCCL"  # the process of its collectives
_NPU_COLLECTIVE = "HCCL collective"  # where only the tasks of one are there
FOLLOWS_NS = 50_000  # a collective's next task, which was launched with it
_NPU_WAITS = regex(
    r"^(?:Event|Notify|Write|Profiling)[ _](?:Wait|Record|Reset|Value|(?:En|Dis)able)$", re.IGNORECASE
)
_NPU_TRANSFERS = regex(r"^(?:SDMA|Reduce[ _]Inline)$", re.IGNORECASE)
# what else its channels between devices run; "Other" is what its profiler calls tasks there that it has no name for
_NPU_CHANNEL = regex(r"^(?:Notify[ _]\w+|Memcpy_Async|Reduce_Async\w*|Other)$", re.IGNORECASE)
_NPU_CHANNEL_ONLY = regex(r"^(?:Notify[ _]\w+|Other)$", re.IGNORECASE)
_NPU_MOVES = regex(r"^(?:SDMA|Reduce[ _]Inline|Memcpy_Async|Reduce_Async\w*)$", re.IGNORECASE)
_NPU_TASK = regex(rf"^Notify[ _]\w+$|{_NPU_MOVES.pattern}", re.IGNORECASE)
_COPIES_OF_ROCPROF = "COPY"  # of all its GPUs; which one is not said
_STREAM_THREAD = regex(r"^(?:GPU \d+ )?(?:CUDA )?Stream #?(\d+)", re.IGNORECASE)
# a TPU has no streams; a GPU's streams run what such a thread repeats
_OPS_OF_TPU = regex(r"^(?:Async )?XLA Ops$")
_CALL = regex(r"^(?:(hip|cuda|cu)[A-Z]\w+|AscendCL@acl\w+)$")
_TASK = regex(r"^Dequeue@\w+$")
_KERNEL = regex(
    r"^void .*\)$|^(?:maxwell|volta|turing|ampere|cutlass|nvjet|Cijk|sm\d{2,3})_\w+$|"
    r"^(?:[\w-]+/)*[A-Z]\w*-op\d+$",  # as MindSpore numbers the operators of a graph
    re.DOTALL,
)
# not XLA's "copy_bitcast_fusion", a kernel that does more than to copy
_COPY = regex(r"^(\[(CUDA )?memcpy|Memcpy|Copy(?!\w*_fusion)|hipMemcpy)", re.IGNORECASE)
_FILL = regex(r"^(\[(CUDA )?memset|Memset|Fill)", re.IGNORECASE)


def claim_streams(columns: Columns, names: Names, strings: list[str], table: Table) -> dict[int, int]:
    """Move events of threads that are GPU streams by their names to stream lanes, as kernels and copies.

    Returns the track of the stream that each such thread became, by the track of the thread.
    """
    moved: dict[int, int] = {}
    copying: list[tuple[int, object]] = []
    of_autograd: dict[int, None] = {}
    first = None
    npu = npu_of(names)
    has_streams = any(map(_STREAM_PROCESS.match, names.processes.values()))
    for number, (where, lane, pid, tid) in enumerate(list(columns.tracks)):
        if where is not Where.THREAD or lane is not LaneKind.OTHER:
            continue
        process = names.processes.get(pid) or (pid if isinstance(pid, str) else "")
        if process == _KERNELS_OF_AUTOGRAD:
            its_number = int(tid) if str(tid).isdigit() else 0
            moved[number] = columns.tracks[Where.STREAM, LaneKind.GPU_STREAM, its_number, 0]
            of_autograd[moved[number]] = None
            first = its_number if first is None else first
            continue
        if process == _COPIES_OF_ROCPROF:
            copying.append((number, tid))
        thread = names.threads.get((pid, tid)) or (
            tid if isinstance(tid, str) and not tid.isdigit() else None
        )
        if npu and thread and _NPU_COLLECTIVES.match(thread):
            moved[number] = columns.tracks[Where.STREAM, LaneKind.GPU_STREAM, 0, thread]
        device = _DEVICE_PROCESS.match(process)
        if device is None or (has_streams and _COPY_OF_STREAMS.match(process)):
            continue
        its_number = int(device["number"] or device["nvprof"] or 0)
        first = its_number if first is None else first
        stream = _STREAM_PROCESS.match(process) or (_STREAM_THREAD.match(thread) if thread else None)
        if stream is not None or thread is None:
            queue = int(stream[1]) if stream else tid
            moved[number] = columns.tracks[Where.STREAM, LaneKind.GPU_STREAM, its_number, queue]
        elif device["nvprof"] or (device["tpu"] and _OPS_OF_TPU.match(thread)):
            moved[number] = columns.tracks[Where.STREAM, LaneKind.GPU_STREAM, its_number, thread]
    if first is None:
        moved |= _streams_by_names(columns, names, strings, table)
    for number, tid in copying if first is not None else ():
        moved[number] = columns.tracks[Where.STREAM, LaneKind.GPU_STREAM, first, f"copies {tid}"]
    if not moved:
        return moved
    target = np.arange(len(columns.tracks), dtype=np.int32)
    target[list(moved)] = list(moved.values())
    mine = np.flatnonzero(np.isin(table.track, list(moved)) & (table.kind == EventKind.OTHER))
    kinds = np.array(
        [
            EventKind.MEMCPY
            if _COPY.match(text)
            else EventKind.MEMSET
            if _FILL.match(text)
            else EventKind.KERNEL
            for text in strings
        ],
        np.uint8,
    )
    table.kind[mine] = kinds[table.name[mine]]
    table.track[mine] = target[table.track[mine]]
    if npu:
        _set_waits_aside(columns, strings, table, mine)
    for measured in of_autograd:
        _set_outer_operators_aside(columns, measured, table)
    if of_autograd:
        columns.quality.note(BETWEEN_EVENTS, Effect.NOTED, _BETWEEN_EVENTS)
    return moved


def _set_outer_operators_aside(columns: Columns, stream: int, table: Table) -> None:
    """Operators that call one another are all measured on the GPU: each has the work that those inside it have not.

    What others fill at least half of is a range. The rest of the time of any other is its longest stretch without one.
    """
    mine = np.flatnonzero(table.track == stream)
    end = table.start[mine] + table.duration[mine]
    order = np.lexsort((-end, table.start[mine]))
    mine, end = mine[order], end[order]
    start = table.start[mine]
    around = parents(start, end, depths(start, end))
    inside = np.flatnonzero(around >= 0)
    inside = inside[np.argsort(around[inside], kind="stable")]
    if not len(inside):
        return
    of = around[inside]
    first = np.append(True, of[1:] != of[:-1])
    edges = np.flatnonzero(first)
    last, outer = np.append(edges[1:], len(of)) - 1, of[edges]
    filled = np.add.reduceat(end[inside] - start[inside], edges)
    begins = np.concatenate((np.where(first, start[of], end[np.roll(inside, 1)]), end[inside[last]]))
    free = np.concatenate((start[inside], end[outer])) - begins
    longest = np.lexsort((free, np.concatenate((of, outer))))
    longest = longest[np.cumsum(np.diff(edges, append=len(of)) + 1) - 1]
    _, _, device, queue = list(columns.tracks)[stream]
    is_range = 2 * filled >= end[outer] - start[outer]
    ranges, working = mine[outer[is_range]], mine[outer[~is_range]]
    table.kind[ranges] = EventKind.GPU_REGION
    table.track[ranges] = columns.tracks[Where.STREAM, LaneKind.GPU_REGION, device, queue]
    table.start[working], table.duration[working] = begins[longest[~is_range]], free[longest[~is_range]]


def _set_waits_aside(columns: Columns, strings: list[str], table: Table, mine: I64) -> None:
    """Tasks of Ascend's streams that wait or signal are no work, nor are pieces of collectives that are there whole."""
    tracks = list(columns.tracks)
    whole = any(isinstance(stream, str) and _NPU_COLLECTIVES.match(stream) for *_, stream in tracks)
    waits = _named(strings, _NPU_WAITS)
    if whole:
        waits |= _named(strings, _NPU_TRANSFERS)
    set_aside = waits[table.name[mine]]
    of_channel, only_there = waits | _named(strings, _NPU_CHANNEL), _named(strings, _NPU_CHANNEL_ONLY)
    of_channel |= _named(strings, _NPU_TRANSFERS)
    channels = [
        rows
        for _, rows in rows_by(table.track[mine])
        if of_channel[names := table.name[mine[rows]]].all() and only_there[names].any()
    ]
    for rows in channels:
        set_aside[rows] = True
    if channels and not whole:
        set_aside[_join_tasks(strings, table, mine, np.concatenate(channels))] = False
    waiting = mine[set_aside]
    table.kind[waiting] = EventKind.GPU_SYNC
    aside = np.arange(len(tracks), dtype=np.int32)
    for number in distinct_values(table.track[waiting]).tolist():
        _, _, device, stream = tracks[number]
        aside[number] = columns.tracks[Where.STREAM, LaneKind.OTHER, device, stream]
    table.track[waiting] = aside[table.track[waiting]]


def _join_tasks(strings: list[str], table: Table, mine: I64, rows: I64) -> I64:
    """Which of the rows of ``mine`` become collectives: their tasks follow one another, those that signal included."""
    rows = rows[_named(strings, _NPU_TASK)[table.name[mine[rows]]]]
    if not len(rows):
        return rows
    rows = rows[np.argsort(table.start[mine[rows]], kind="stable")]
    start = table.start[mine[rows]]
    done = np.maximum.accumulate(start + table.duration[mine[rows]])
    edges = np.flatnonzero(np.append(True, start[1:] > done[:-1] + FOLLOWS_NS))
    moves = _named(strings, _NPU_MOVES)[table.name[mine[rows]]]
    edges = edges[np.logical_or.reduceat(moves, edges)]
    ends = np.append(np.flatnonzero(start[1:] > done[:-1] + FOLLOWS_NS), len(rows) - 1)
    first = mine[rows[edges]]
    table.duration[first] = done[ends[np.searchsorted(ends, edges)]] - table.start[first]
    table.name[first], table.kind[first] = len(strings), EventKind.KERNEL
    strings.append(_NPU_COLLECTIVE)
    return np.asarray(rows[edges])


def _named(strings: list[str], pattern: re.Pattern[str]) -> BOOL:
    return np.array([pattern.match(text) is not None for text in strings], bool)


def claim_executors(columns: Columns, names: Names, table: Table) -> None:
    """What TensorFlow's executors did, and the autograd profiler of torch 1 noted, is work of the CPU: operators.

    Those of a GPU whose kernels were not recorded are counted: their times are those of starting its work.
    """
    target = np.arange(len(columns.tracks), dtype=np.int32)
    for_gpus: list[int] = []
    in_rows: list[int] = []
    for number, (where, lane, pid, tid) in enumerate(list(columns.tracks)):
        process = names.processes.get(pid) or (pid if isinstance(pid, str) else "")
        if where is Where.THREAD and _MXNETS_GPU.match(process):
            for_gpus.append(number)
        if where is Where.THREAD and lane is LaneKind.OTHER and _EXECUTOR_PROCESS.match(process):
            target[number] = columns.tracks[Where.THREAD, LaneKind.CPU_THREAD, pid, tid]
            for_gpus += [number] if _EXECUTOR_OF_GPU.match(process) else []
            in_rows += [number] if process.startswith("/job:") else []
    moved = np.flatnonzero(target[table.track] != table.track)
    columns.quality.note(IN_ROWS, Effect.NOTED, _ROWS, count=int(np.isin(table.track[moved], in_rows).sum()))
    started = int(np.isin(table.track, for_gpus).sum())
    if started and not any(where is Where.STREAM for where, *_ in columns.tracks):
        columns.quality.note(GPU_OPERATORS, Effect.NOTED, _STARTED_ONLY, count=started)
    table.kind[moved] = EventKind.CPU_OP
    table.track[moved] = target[table.track[moved]]


def npu_of(names: Names) -> str:
    """What the accelerator is called whose process Ascend's profiler names; empty for others."""
    processes = names.processes.values()
    told = any((named := _DEVICE_PROCESS.match(each)) and named["npu"] for each in processes)
    collectives = _NPU_LIBRARY in processes and any(map(_NPU_COLLECTIVES.match, names.threads.values()))
    return "Ascend NPU" if told or collectives else ""


def tpus_of(names: Names) -> list[int]:
    """The numbers of the TPUs whose processes XProf names."""
    named = (_DEVICE_PROCESS.match(each) for each in names.processes.values())
    return sorted({int(each["number"]) for each in named if each and each["tpu"]})


def _streams_by_names(columns: Columns, names: Names, strings: list[str], table: Table) -> dict[int, int]:
    """Threads of nameless processes in which nothing but kernels and copies happens are streams of one GPU."""
    if (
        any(where is Where.STREAM for where, *_ in columns.tracks)
        or not (table.kind == EventKind.OTHER).all()
    ):
        return {}
    kernel = np.fromiter((_KERNEL.match(text) is not None for text in strings), bool, len(strings))
    work = kernel | np.fromiter(
        (bool(_COPY.match(text) or _FILL.match(text)) for text in strings), bool, len(strings)
    )
    moved: dict[int, int] = {}
    tracks = list(columns.tracks)
    for number, rows in rows_by(table.track):
        where, _, pid, tid = tracks[number]
        mine = table.name[rows]
        if where is Where.THREAD and pid not in names.processes and work[mine].all() and kernel[mine].any():
            moved[number] = columns.tracks[Where.STREAM, LaneKind.GPU_STREAM, 0, tid]
    return moved


def claim_calls(columns: Columns, strings: list[str], table: Table) -> None:
    """Move events that are named like calls of the GPU's API to lanes of such calls.

    Where Ascend's own calls were not recorded, what PyTorch's queue does with each task stands for them.
    """
    named = np.fromiter((_CALL.match(text) is not None for text in strings), bool, len(strings))
    if not named.any():
        named = np.fromiter((_TASK.match(text) is not None for text in strings), bool, len(strings))
    if not named.any():
        return
    mine = np.flatnonzero((table.kind == EventKind.OTHER) & named[table.name])
    tracks = list(columns.tracks)
    target = np.arange(len(tracks), dtype=np.int32)
    for number in distinct_values(table.track[mine]).tolist():
        where, lane, pid, tid = tracks[number]
        if where is Where.THREAD and lane is LaneKind.OTHER:
            target[number] = columns.tracks[Where.THREAD, LaneKind.CUDA_API, pid, tid]
    moved = mine[target[table.track[mine]] != table.track[mine]]
    table.kind[moved] = EventKind.API
    table.track[moved] = target[table.track[moved]]


def threads_of(columns: Columns, claimed: dict[int, int]) -> dict[int, tuple[object, object]]:
    """The recorded process and thread of each track; ``claimed`` tells the stream that a thread became."""
    found: dict[int, tuple[object, object]] = {
        number: (first, second)
        for number, (where, _, first, second) in enumerate(columns.tracks)
        if where is Where.THREAD
    }
    return {**found, **{stream: found[thread] for thread, stream in claimed.items()}}
