"""The CPU threads that drive each GPU: what they called, ran and annotated, and when."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from parsers.model import EventKind, LaneKind, Trace
from rules.analysis.calls import Call, calls_of
from rules.analysis.device_operations import operations_of_device
from rules.analysis.durations import durations
from rules.analysis.innermost import Innermost
from rules.analysis.intervals import Intervals, union
from rules.analysis.names import named
from rules.analysis.regions import RegionRole, is_loader, roles_of

I64 = npt.NDArray[np.int64]
ThreadKey = tuple[int, int, int]  # rank, process, thread; -1 for what was not recorded

READ_BACKS = (
    "aten::item",
    "aten::_local_scalar_dense",
    "aten::is_nonzero",
    "aten::nonzero",
    "aten::nonzero_numpy",
    "aten::masked_select",
    "aten::_unique2",
    "aten::unique_consecutive",
    "aten::unique_dim",
    "aten::equal",
    "aten::tolist",
    "aten::allclose",
)
_OF_THE_PROGRAM = (RegionRole.USER, RegionRole.INPUT, RegionRole.STEP)
MOST_DRIVERS = 32  # threads of one process looked at for one device, those with most launches first


@dataclass(frozen=True, slots=True, eq=False)
class ThreadActivity:
    """One thread's events as step functions of time."""

    key: ThreadKey
    calls: Innermost  # API calls
    running: Intervals  # inside any operator
    operators: Innermost
    regions: Innermost  # ranges of the user's code and of the framework, steps left out
    user_regions: Innermost  # the same without the framework's
    inputs: Innermost  # data loaders and ranges named like one
    read_backs: Innermost  # operators that wait for a value from the GPU
    frames: Innermost  # Python frames, where stacks were recorded

    def edges(self) -> I64:
        """Every moment at which the class of what the thread does may change."""
        return np.concatenate(
            (
                self.calls.edges,
                *self.running,
                self.regions.edges,
                self.user_regions.edges,
                self.inputs.edges,
                self.read_backs.edges,
            )
        )


@dataclass(slots=True, eq=False)
class Threads:
    """All threads of a trace, made on demand; index = position in ``keys``."""

    trace: Trace
    keys: list[ThreadKey] = field(default_factory=list)
    of_lane: I64 = field(default_factory=lambda: np.empty(0, np.int64))
    call_class: npt.NDArray[np.uint8] = field(default_factory=lambda: np.empty(0, np.uint8))
    roles: npt.NDArray[np.uint8] = field(default_factory=lambda: np.empty(0, np.uint8))
    _drivers: dict[int, tuple[list[int], int]] = field(default_factory=dict)
    _made: dict[int, ThreadActivity] = field(default_factory=dict)
    _events: dict[int, I64] = field(default_factory=dict)

    @staticmethod
    def of(trace: Trace) -> Threads:
        index: dict[ThreadKey, int] = {}
        of_lane = np.full(len(trace.lanes), -1, np.int64)
        for number, lane in enumerate(trace.lanes):
            if lane.device is not None or lane.thread is None or lane.kind is LaneKind.OVERHEAD:
                continue
            key = (_known(lane.rank), _known(lane.process), lane.thread)
            of_lane[number] = index.setdefault(key, len(index))
        threads = Threads(trace, list(index), of_lane, calls_of(trace), roles_of(trace))
        owner = of_lane[trace.events.lane]
        order = np.argsort(owner, kind="stable")
        edges = np.searchsorted(owner[order], np.arange(len(index) + 1))
        threads._events = {thread: order[edges[thread] : edges[thread + 1]] for thread in range(len(index))}
        return threads

    def of_events(self, events: I64) -> I64:
        """The thread of each event; -1 where it has none."""
        return self.of_lane[self.trace.events.lane[events]]

    def events(self, thread: int) -> I64:
        """All events of one thread."""
        return self._events[thread]

    def activity(self, thread: int) -> ThreadActivity:
        """What one thread did."""
        if thread not in self._made:
            self._made[thread] = self._activity(thread)
        return self._made[thread]

    def _activity(self, thread: int) -> ThreadActivity:
        trace, events = self.trace, self._events[thread]
        kind, name = trace.events.kind[events], trace.events.name[events]
        api = events[kind == EventKind.API]
        operator = kind == EventKind.CPU_OP
        operators = events[operator]
        region = (kind == EventKind.REGION) & (self.roles[name] != RegionRole.STEP)
        user = region & np.isin(self.roles[name], (RegionRole.USER, RegionRole.INPUT))
        loader_operator = operator & named(trace, events, is_loader)
        inputs = (region & (self.roles[name] == RegionRole.INPUT)) | loader_operator
        read_back = operator & named(trace, events, READ_BACKS.__contains__)
        return ThreadActivity(
            key=self.keys[thread],
            calls=Innermost.of(trace, api),
            running=union(trace.events.start[operators], trace.events.end[operators]),
            operators=Innermost.of(trace, operators),
            regions=Innermost.of(trace, events[region]),
            user_regions=Innermost.of(trace, events[user]),
            inputs=Innermost.of(trace, events[inputs]),
            read_backs=Innermost.of(trace, events[read_back]),
            frames=Innermost.of(trace, events[kind == EventKind.PYTHON]),
        )

    def calls(self, threads: list[int], *classes: Call) -> I64:
        """The API calls of these classes by these threads, as events sorted by start."""
        trace = self.trace
        parts = []
        for thread in threads:
            events = self._events[thread]
            events = events[trace.events.kind[events] == EventKind.API]
            parts.append(events[np.isin(self.call_class[trace.events.name[events]], classes)])
        found = np.concatenate(parts) if parts else np.empty(0, np.int64)
        return found[np.argsort(trace.events.start[found], kind="stable")]

    def drivers(self, device: int) -> tuple[list[int], int]:
        """The threads that launched work on a device, busiest first, and the main thread among or beside them."""
        if device not in self._drivers:
            self._drivers[device] = self._find_drivers(device)
        return self._drivers[device]

    def _find_drivers(self, device: int) -> tuple[list[int], int]:
        """The main thread holds the steps or regions; -1 when no thread launched anything."""
        trace = self.trace
        operations = operations_of_device(trace, device)
        launches = trace.links.launch_of(operations)
        owners = self.of_events(launches[launches >= 0])
        owners = owners[owners >= 0]
        if not len(owners):
            return [], -1
        found, counts = np.unique(owners, return_counts=True)
        drivers = found[np.argsort(-counts, kind="stable")][:MOST_DRIVERS].tolist()
        main = self._main_thread(drivers)
        return (drivers if main in drivers else [*drivers, main]), main

    def _main_thread(self, drivers: list[int]) -> int:
        rank, process, _ = self.keys[drivers[0]]
        same = [index for index, key in enumerate(self.keys) if key[:2] == (rank, process)]

        def weight(thread: int) -> tuple[int, int, int, int]:
            events = self._events[thread]
            kind = self.trace.events.kind[events]
            duration = durations(self.trace, events)
            roles = self.roles[self.trace.events.name[events]]
            return (
                int(duration[kind == EventKind.STEP].sum()),
                int(duration[(kind == EventKind.REGION) & np.isin(roles, _OF_THE_PROGRAM)].sum()),
                int(self.keys[thread][2] == process),
                int(np.count_nonzero(kind == EventKind.API)),
            )

        return max(same, key=weight)


def _known(value: int | None) -> int:
    return -1 if value is None else value
