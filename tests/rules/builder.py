"""Builds traces of a few events for the tests of the diagnosis; all times are in microseconds."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import field, replace
from typing import Any

import numpy as np

from parsers.model import (
    Attribute,
    Capture,
    CollectiveState,
    CopyKind,
    Counter,
    Device,
    EventKind,
    Lane,
    LaneKind,
    MemoryKind,
    Trace,
)
from parsers.model.builder import TraceBuilder
from parsers.model.late import dataclass
from rules import Finding, diagnose
from rules.findings.base import Category
from rules.kernels.operator_roofs import NUMBERS

MAIN, AUTOGRAD, PREFETCH = 100, 101, 102
PROCESS = 100
LAUNCH_US = 5.0


def ns(us: float) -> int:
    """Microseconds as integer nanoseconds."""
    return round(us * 1000)


@dataclass
class TinyTrace:
    """Collects events; ``shift`` moves all that follow, to repeat a step."""

    shift: float = 0.0
    rank: int | None = None
    capability: tuple[int, int] | None = (9, 0)
    gpu: str = "Test GPU"
    _into: TraceBuilder = field(
        default_factory=lambda: TraceBuilder(capture=Capture(has_cpu_events=True, has_api_calls=True))
    )
    _lanes: dict[tuple[object, ...], int] = field(default_factory=dict)
    _handed: int = 0
    _events: list[tuple[int, int, int, int, int]] = field(default_factory=list)
    _links: list[tuple[int, int]] = field(default_factory=list)
    _stated: dict[Attribute, list[tuple[int, int]]] = field(default_factory=dict)
    _asked: dict[int, dict[str, list[str]]] = field(default_factory=dict)

    @property
    def builder(self) -> TraceBuilder:
        """What makes the trace; it has all events so far."""
        if self._events:
            start, end, name, lane, kind = map(np.array, zip(*self._events, strict=True))
            numbers = range(self._handed, self._handed + len(self._events))
            rows = np.array([each if each in self._asked else -1 for each in numbers])
            self._into.add(start, end, name, lane, kind, source_row=rows)
            self._handed += len(self._events)
        if self._links:
            self._into.link(*map(np.array, zip(*self._links, strict=True)))
        for which, stated in self._stated.items():
            self._into.attribute(which, *map(np.array, zip(*stated, strict=True)))
        self._events, self._links, self._stated = [], [], {}
        return self._into

    def _lane(
        self, kind: LaneKind, thread: int | None, device: int | None = None, stream: int | None = None
    ) -> int:
        which = kind, self.rank, thread, device, stream
        if which not in self._lanes:
            name = f"{kind.name} {thread if thread is not None else stream}"
            process = None if device is not None else PROCESS + 1000 * (self.rank or 0)
            self._lanes[which] = self._into.lane(Lane(kind, name, self.rank, process, thread, device, stream))
        return self._lanes[which]

    def _state(self, which: Attribute, event: int, value: int | str) -> None:
        stored = self._into.string(value) if isinstance(value, str) else value
        self._stated.setdefault(which, []).append((event, stored))

    def add(self, start: float, end: float, name: str, lane: int, kind: EventKind) -> int:
        """One event; returns its number."""
        times = ns(start + self.shift), ns(end + self.shift)
        self._events.append((*times, self._into.string(name), lane, int(kind)))
        return self._handed + len(self._events) - 1

    def step(self, start: float, end: float, name: str, thread: int | None = None) -> int:
        return self.add(start, end, name, self._lane(LaneKind.STEPS, thread), EventKind.STEP)

    def region(self, start: float, end: float, name: str, thread: int = MAIN) -> int:
        return self.add(start, end, name, self._lane(LaneKind.REGION, thread), EventKind.REGION)

    def op(self, start: float, end: float, name: str, thread: int = MAIN) -> int:
        return self.add(start, end, name, self._lane(LaneKind.CPU_THREAD, thread), EventKind.CPU_OP)

    def frame(self, start: float, end: float, name: str, thread: int = MAIN) -> int:
        return self.add(start, end, name, self._lane(LaneKind.PYTHON, thread), EventKind.PYTHON)

    def call(self, start: float, end: float, name: str, thread: int = MAIN) -> int:
        return self.add(start, end, name, self._lane(LaneKind.CUDA_API, thread), EventKind.API)

    def sleep(self, start: float, end: float, name: str = "clock_nanosleep", thread: int = MAIN) -> int:
        """A call of the operating system."""
        return self.add(start, end, name, self._lane(LaneKind.OS_RUNTIME, thread), EventKind.OS_RUNTIME)

    def on_processor(self, start: float, end: float, thread: int = MAIN) -> int:
        return self.add(start, end, "CPU 3", self._lane(LaneKind.OTHER, thread), EventKind.OTHER)

    def overhead(self, start: float, end: float) -> int:
        lane = self._lane(LaneKind.OVERHEAD, 0)
        return self.add(start, end, "CUPTI buffer flush", lane, EventKind.OVERHEAD)

    def operation(
        self,
        start: float,
        end: float,
        name: str,
        launch: float | None = None,
        *,
        stream: int = 7,
        thread: int = MAIN,
        kind: EventKind = EventKind.KERNEL,
        call: str = "",
        launch_us: float = LAUNCH_US,
        device: int = 0,
        **attributes: int | str,
    ) -> int:
        """A GPU operation; with ``launch``, also the call that launched it at that time."""
        index = self._into.known_device(self.rank, device)
        if index is None:
            index = self._into.device(
                Device(device, self.gpu, self.rank, 80_000_000_000, 132, self.capability, 3.35e12)
            )
        lane = self._lane(LaneKind.GPU_STREAM, None, index, stream)
        number = self.add(start, end, name, lane, kind)
        if launch is not None:
            usual = {EventKind.MEMCPY: "cudaMemcpyAsync", EventKind.MEMSET: "cudaMemsetAsync"}
            made = self.call(launch, launch + launch_us, call or usual.get(kind, "cudaLaunchKernel"), thread)
            self._links.append((number, made))
        for which, value in attributes.items():
            self._state(Attribute[which.upper()], number, value)
        return number

    def copy(
        self,
        start: float,
        end: float,
        direction: str,
        launch: float | None = None,
        *,
        pageable: bool = False,
        unified: bool = False,
        **more: Any,
    ) -> int:
        """A host-to-device ("HtoD") or device-to-host ("DtoH") copy, or a move of ``unified`` memory."""
        host = MemoryKind.PAGEABLE if pageable else MemoryKind.PINNED
        kind = {"HtoD": CopyKind.H2D, "DtoH": CopyKind.D2H, "DtoD": CopyKind.D2D}[direction]
        ends = (host, MemoryKind.DEVICE) if kind is CopyKind.H2D else (MemoryKind.DEVICE, host)
        words = [each.name.capitalize() for each in ends]
        more.setdefault("bytes", round((end - start) * 20_000))
        return self.operation(
            start,
            end,
            f"Memcpy {direction}" + (", unified memory" if unified else f" ({words[0]} -> {words[1]})"),
            launch,
            kind=EventKind.MEMCPY,
            copy_kind=kind.value,
            source_memory=ends[0].value,
            target_memory=ends[1].value,
            **more,
        )

    def kernels(
        self,
        start: float,
        count: int,
        each: float,
        every: float,
        name: str = "void vectorized_elementwise_kernel<4>",
        **more: Any,
    ) -> None:
        """``count`` kernels of ``each`` us, launched every ``every`` us; each starts 6 us after its launch."""
        for index in range(count):
            launch = start + index * every
            self.operation(launch + 6, launch + 6 + each, name, launch, **more)

    def graph(self, start: float, count: int, each: float, every: float, name: str = "gemm") -> None:
        """One launch of a CUDA graph of ``count`` kernels of ``each`` us, one every ``every`` us."""
        made = self.call(start, start + LAUNCH_US, "cudaGraphLaunch")
        at = [start + 6 + index * every for index in range(count)]
        nodes = [self.operation(one, one + each, name, graph_node=1) for one in at]
        self.builder.link(np.array(nodes), np.full(count, made))

    def collective(
        self, start: float, end: float, launch: float | None = None, *, size: int = 33_000_000, **more: Any
    ) -> int:
        more = {"stream": 20, "collective": "allreduce", "group_size": 4} | more
        return self.operation(
            start,
            end,
            "ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)",
            launch,
            message_bytes=size,
            group="0",
            **more,
        )

    def called(
        self,
        start: float,
        collective: str = "all_reduce",
        sequence: int = 1,
        *,
        waits: float = 0.0,
        elements: int = 1000,
        dtype: str = "Float",
        group: str = "default_pg (group 0)",
        place: str = "/home/me/train.py:21",
        peers: str = "",
    ) -> int:
        """A collective as a flight recorder kept it: ended, or since so many us waiting for its end."""
        state = CollectiveState.SCHEDULED if waits else CollectiveState.COMPLETED
        lane = self._into.lane(Lane(LaneKind.FLIGHT_RECORDER, group, self.rank))
        number = self.add(start, start + waits, collective, lane, EventKind.OTHER)
        stated = {
            Attribute.COLLECTIVE: collective,
            Attribute.COLLECTIVE_SEQUENCE: sequence,
            Attribute.COLLECTIVE_STATE: state.value,
            Attribute.GROUP: group,
            Attribute.SENT_ELEMENTS: elements,
            Attribute.RECEIVED_ELEMENTS: elements,
            Attribute.MESSAGE_DTYPE: dtype,
            Attribute.PEERS: peers,
            Attribute.CALLED_FROM: place,
        }
        for which, value in stated.items():
            self._state(which, number, value)
        return number

    def counter(self, name: str, unit: str, samples: list[tuple[float, float]]) -> None:
        times = np.array([ns(time) for time, _ in samples], np.int64)
        self.builder.counters.append(
            Counter(name, unit, times, np.array([value for _, value in samples]), self.rank, 0)
        )

    def shapes(
        self, event: int, dims: list[list[int]], dtypes: list[str], asked: list[str] | None = None
    ) -> None:
        """Recorded input shapes and types of an operator, and numbers that it was handed, as text."""
        if asked is not None:
            self._asked[event] = {NUMBERS: asked}
        for which, value in ((Attribute.INPUT_DIMS, dims), (Attribute.INPUT_TYPES, dtypes)):
            self._state(which, event, json.dumps(value))

    def capture(self, **stated: object) -> None:
        self.builder.capture = replace(self.builder.capture, **stated)

    def arguments(self, source_row: int) -> dict[str, list[str]]:
        """What was stated with shapes, as a file has it."""
        return self._asked.get(source_row, {})

    def build(self) -> Trace:
        if self._asked:
            self.builder.sources.append(self)
        return self.builder.build()


def steps(
    count: int, length: float, body: Any, *, name: str = "ProfilerStep#{}", into: TinyTrace | None = None
) -> TinyTrace:
    """A trace of ``count`` equal steps; ``body(trace, index)`` adds what one step does, from time 0 on."""
    trace = into or TinyTrace()
    for index in range(count):
        trace.shift = index * length
        trace.step(0, length, name.format(index + 1))
        body(trace, index)
    trace.shift = 0.0
    return trace


def repeated(body: Callable[[TinyTrace, float], None], operator: str = "", times: int = 6) -> Trace:
    """A program that does the same every 2 ms; an ``operator`` such as "aten::mm" says whose program it is."""
    trace = TinyTrace()
    for number in range(times):
        body(trace, 2000.0 * number)
    if operator:
        trace.op(0, 1, operator)
    return trace.build()


def found(trace: Trace, category: Category) -> Finding:
    """The first finding of a category."""
    return next(each for each in diagnose(trace).findings if each.category is category)
