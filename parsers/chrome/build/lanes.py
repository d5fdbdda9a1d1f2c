"""Names the lanes of a trace: threads, streams and devices, from the recorded metadata."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import field
from typing import Any
from zlib import crc32

from parsers.chrome.decode.categories import Where
from parsers.chrome.decode.collect import Naming, Track
from parsers.chrome.decode.stated import whole_number
from parsers.model import AUTOGRAD, Device, Lane, LaneKind
from parsers.model.arrays import MAX_NUMBER
from parsers.model.builder import TraceBuilder
from parsers.model.late import dataclass, regex

_NUMBERED_THREAD = regex(r"^thread (-?\d+) \((?P<name>.*)\)$")
_STREAM = regex(r"^Stream #?(\d{1,9})\b", re.IGNORECASE)
_THREAD = regex(r"^(?:NVTX|CUDA API|OSRT|NVTX Kernel) Thread (\d{1,9})$")  # nsys2chrome's, one for each table
_CANN, _PYTHON = "CANN", "Python"
_SUFFIX = {
    LaneKind.REGION: "regions",
    LaneKind.PYTHON: "Python",
    LaneKind.SAMPLES: "samples",
    LaneKind.OVERHEAD: "profiler overhead",
}


@dataclass(slots=True)
class Names:
    """What the metadata events say."""

    processes: dict[Any, str] = field(default_factory=dict)
    labels: dict[Any, str] = field(default_factory=dict)
    threads: dict[tuple[Any, Any], str] = field(default_factory=dict)

    @property
    def of_xprof(self) -> bool:
        """Whether the processes are called as JAX and TensorFlow call the machine's parts."""
        return "/host:CPU" in self.processes.values()

    def program(self, pid: Any) -> Any:
        """The process that a process is part of: Ascend's profiler gives the calls of CANN one of their own."""
        if self.processes.get(pid) != _CANN:
            return pid
        found = {str(each): each for each, name in self.processes.items() if name == _PYTHON}
        return next(iter(found.values())) if len(found) == 1 else pid

    @staticmethod
    def of(metadata: Iterable[Naming]) -> Names:
        names = Names()
        for each in metadata:
            if each.what == "process_name":
                # rocprof's events say "6" of 6
                names.processes[each.pid] = names.processes[str(each.pid)] = each.name
            elif each.what == "process_labels":
                names.labels[each.pid] = each.name
            elif each.what == "thread_name":
                known = names.threads.get((each.pid, each.tid), "")
                numbered = _NUMBERED_THREAD.match(each.name)
                name = (numbered["name"] if numbered else each.name).strip()
                if not known or _is_more_telling(name, known, names.processes.get(each.pid, "")):
                    names.threads[each.pid, each.tid] = name
        return names


def _is_more_telling(name: str, known: str, process: str) -> bool:
    return known == process and name != process


@dataclass(slots=True)
class LaneMaker:
    """Turns tracks into lanes of a builder."""

    builder: TraceBuilder
    names: Names
    rank: int | None
    listed: Sequence[Device]  # the devices that the file describes
    autograd: frozenset[tuple[Any, Any]]  # threads that run backward operators
    calls: str = "CUDA calls"  # what lanes of API calls are called
    _described: dict[int, Device] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._described = {each.id: each for each in reversed(self.listed)}

    def lane(self, track: Track) -> int:
        where, kind, first, second = track
        if where is Where.STREAM:
            return self.builder.lane(self._stream_lane(kind, first, second))
        return self.builder.lane(self._thread_lane(kind, first, second))

    def device(self, number: int) -> int:
        """Index of a device of the builder, described as the file describes it."""
        return self.builder.device(self._described.get(number) or Device(number, rank=self.rank))

    def _stream_lane(self, kind: LaneKind, device: Any, stream: Any) -> Lane:
        number = device_number(device)
        named = _STREAM.match(stream) if isinstance(stream, str) else None
        queue = int(named[1]) if named else identity(stream)
        name = f"GPU {number} stream {stream if queue < 0 else queue}"
        if kind is LaneKind.GPU_REGION:
            name += " regions"
        elif kind is LaneKind.OTHER:
            name = f"GPU {number} waits" if queue < 0 else f"{name} waits"
        return Lane(kind, name, self.rank, device=self.device(number), stream=queue)

    def _thread_lane(self, kind: LaneKind, pid: Any, tid: Any) -> Lane:
        pid = self.names.program(pid)
        process = self.names.processes.get(pid) or (
            pid if isinstance(pid, str) and whole_number(pid) is None else ""
        )
        if kind is LaneKind.STEPS:
            return Lane(kind, "Steps", self.rank, identity(pid), process_name=process)
        name = self._thread_name(pid, tid)
        suffix = self.calls if kind is LaneKind.CUDA_API else _SUFFIX.get(kind)
        if suffix is not None:
            name = (
                suffix.capitalize() if identity(pid) < 0 and kind is LaneKind.OVERHEAD else f"{name} {suffix}"
            )
        return Lane(kind, name, self.rank, identity(pid), identity(tid), process_name=process)

    def _thread_name(self, pid: Any, tid: Any) -> str:
        known = self.names.threads.get((pid, tid), "")
        if (pid, tid) in self.autograd:
            return f"{AUTOGRAD} {tid}"
        if isinstance(tid, str) and whole_number(tid) is None:
            return known or tid
        if whole_number(tid) == whole_number(pid) and whole_number(pid):
            return "Main thread"
        generic = not known or known == self.names.processes.get(pid)
        return f"Thread {tid}" if generic else known


def device_number(device: Any) -> int:
    """The number of a device that is stated as 0, "0" or "/device:GPU:0"."""
    number = whole_number(device)
    if number is None:
        found = re.search(r"(\d{1,9})\D*$", str(device))
        number = int(found[1]) if found else 0
    return number


def identity(value: Any) -> int:
    """A process, thread or stream id as a number; texts get a negative one of their own."""
    number = whole_number(value)
    if number is not None and -MAX_NUMBER < number < MAX_NUMBER:
        return number
    if isinstance(value, str) and (named := _THREAD.match(value)):
        return int(named[1])
    return -1 - crc32(repr(value).encode("utf-8", "replace"))
