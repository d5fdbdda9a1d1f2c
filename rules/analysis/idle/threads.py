"""The CPU threads that drive each GPU: what they called, ran and annotated, and when."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import field
from functools import cached_property

import numpy as np

from parsers.model import BOOL, I64, U8, EventKind, LaneKind, Progress, Trace
from parsers.model.arrays import rows_by
from parsers.model.events import of_kinds
from parsers.model.late import dataclass, regex
from parsers.model.names.calls import Call, calls_of
from parsers.model.names.per_name import named
from parsers.model.names.steps import engine_step
from rules.analysis.arithmetic.ascending_search import last_not_after
from rules.analysis.arithmetic.innermost import Innermost, outermost
from rules.analysis.arithmetic.intervals import Intervals, durations, measure, union
from rules.analysis.names.regions import RegionRole, is_loader, roles_of
from rules.terms import NEARLY_ALL

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
MAX_DRIVERS = 32  # threads of one process looked at for one device, those with most launches first


@dataclass(frozen=True, eq=False)
class ThreadActivity:
    """One thread's events as step functions of time, each made when it is first asked for."""

    trace: Trace
    roles: U8
    events: I64

    @cached_property
    def calls(self) -> Innermost:
        return self._of(of_kinds(self.kind, EventKind.API))

    @cached_property
    def running(self) -> Intervals:
        """Inside any operator."""
        operators = self.events[self._operator]
        return union(*self.trace.events.spans(operators))

    @cached_property
    def operators(self) -> Innermost:
        return self._of(self._operator)

    @cached_property
    def whole_operators(self) -> I64:
        """The operators of ATen that lie inside no other, by start."""
        events = self.of_kind(EventKind.CPU_OP)
        events = events[named(self.trace, events, lambda name: name.startswith("aten::"))]
        return outermost(self.trace, events)

    @cached_property
    def functions(self) -> Innermost:
        """Python's."""
        return self._of(of_kinds(self.kind, EventKind.PYTHON))

    @cached_property
    def regions(self) -> Innermost:
        """Ranges of the user's code and of the framework, steps left out."""
        return self._of(self._region & ~self._spans_all & ~of_kinds(self._role, RegionRole.STEP))

    @cached_property
    def user_regions(self) -> Innermost:
        """The same without the framework's."""
        users = of_kinds(self._role, RegionRole.USER, RegionRole.INPUT)
        return self._of(self._region & ~self._spans_all & users)

    @cached_property
    def engine_steps(self) -> Innermost:
        """Steps that bear the name that a serving engine or a trainer gives to one."""
        mine = self._region & of_kinds(self._role, RegionRole.STEP)
        return self._of(mine & named(self.trace, self.events, lambda name: engine_step(name) != ""))

    @cached_property
    def inputs(self) -> Innermost:
        """Data loaders and ranges named like one."""
        loader = self._operator & named(self.trace, self.events, is_loader)
        return self._of((self._region & of_kinds(self._role, RegionRole.INPUT)) | loader)

    @cached_property
    def read_backs(self) -> Innermost:
        """Operators that wait for a value from the GPU."""
        return self._of(self._operator & named(self.trace, self.events, READ_BACKS.__contains__))

    def edges(self) -> tuple[I64, ...]:
        """Every moment at which the class of what the thread does may change, as ascending columns."""
        return (
            self.calls.edges,
            *self.running,
            self.regions.edges,
            self.user_regions.edges,
            self.inputs.edges,
            self.read_backs.edges,
        )

    def prepare(self, progress: Progress) -> None:
        """Make all of them, so that a long job can be cancelled between two."""
        parts = (
            "calls",
            "running",
            "operators",
            "regions",
            "user_regions",
            "engine_steps",
            "inputs",
            "read_backs",
        )
        for number, part in enumerate(parts):
            progress.step(number / len(parts), "looking at what the CPU did")
            getattr(self, part)

    def of_kind(self, *kinds: EventKind) -> I64:
        """Its events of these kinds, in table order."""
        return np.asarray(self.events[of_kinds(self.kind, *kinds)])

    def _of(self, chosen: BOOL) -> Innermost:
        return Innermost.of(self.trace, self.events[chosen])

    @cached_property
    def kind(self) -> U8:
        """Of each event."""
        return self.trace.events.kind[self.events]

    @cached_property
    def _role(self) -> U8:
        return self.roles[self.trace.events.name[self.events]]

    @property
    def _operator(self) -> BOOL:
        return of_kinds(self.kind, EventKind.CPU_OP)

    @property
    def _region(self) -> BOOL:
        return of_kinds(self.kind, EventKind.REGION)

    @cached_property
    def _spans_all(self) -> BOOL:
        """What spans nearly all that was recorded names no culprit where operators or frames beneath it do."""
        if not of_kinds(self.kind, EventKind.CPU_OP, EventKind.PYTHON).any():
            return np.zeros(len(self.events), bool)
        operations = self.trace.gpu_operations
        if not len(operations):
            return np.zeros(len(self.events), bool)
        whole = self.trace.events.end[operations].max() - self.trace.events.start[operations].min()
        return np.asarray(durations(self.trace, self.events) >= NEARLY_ALL * whole)


@dataclass(slots=True, eq=False)
class Threads:
    """All threads of a trace, made on demand; index = position in ``keys``."""

    trace: Trace
    keys: list[ThreadKey] = field(default_factory=list)
    of_lane: I64 = field(default_factory=lambda: np.empty(0, np.int64))
    call_class: U8 = field(default_factory=lambda: np.empty(0, np.uint8))
    roles: U8 = field(default_factory=lambda: np.empty(0, np.uint8))
    _drivers: dict[int, tuple[list[int], int]] = field(default_factory=dict)
    _made: dict[int, ThreadActivity] = field(default_factory=dict)
    _events: dict[int, I64] = field(default_factory=dict)
    _calls: dict[int, tuple[I64, U8]] = field(default_factory=dict)

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
        lanes = np.arange(len(trace.lanes) + 1, dtype=trace.events.lane.dtype)
        edges = np.searchsorted(trace.events.lane, lanes)
        lanes_of: list[list[int]] = [[] for _ in index]
        for place in np.flatnonzero(of_lane >= 0).tolist():
            lanes_of[of_lane[place]].append(place)
        for thread, mine in enumerate(lanes_of):
            parts = [np.arange(edges[place], edges[place + 1]) for place in mine]
            threads._events[thread] = np.concatenate(parts)
        return threads

    def of_events(self, events: I64) -> I64:
        """The thread of each event; -1 where it has none."""
        return self.of_lane[self.trace.events.lane[events]]

    def by_thread(self, events: I64) -> Iterator[tuple[ThreadActivity, I64]]:
        """Each thread that some of the events lie on, and the positions of these in ``events``."""
        for thread, positions in rows_by(self.of_events(events)):
            if thread >= 0:
                yield self.activity(thread), positions

    def events(self, thread: int) -> I64:
        return self._events[thread]

    def activity(self, thread: int) -> ThreadActivity:
        if thread not in self._made:
            self._made[thread] = ThreadActivity(self.trace, self.roles, self._events[thread])
        return self._made[thread]

    def forget_calls(self) -> None:
        """Give up who was inside which call when: only idle time is judged by it, and nothing of a thread is larger."""
        for activity in self._made.values():
            vars(activity).pop("calls", None)

    def calls(self, threads: list[int], *classes: Call) -> I64:
        """The API calls of these classes by these threads, as events sorted by start."""
        parts = [np.empty(0, np.int64)]
        for thread in threads:
            calls, classes_of_them = self.noted_calls(thread)
            parts.append(calls[of_kinds(classes_of_them, *classes)])
        if len(threads) == 1:
            return parts[-1]
        return self.trace.events.by_start(np.concatenate(parts))

    def noted_calls(self, thread: int) -> tuple[I64, U8]:
        """The API calls of one thread whose class is not OTHER, by start, and their classes."""
        if thread not in self._calls:
            table, events = self.trace.events, self._events[thread]
            calls = table.only(events, EventKind.API)
            classes = self.call_class[table.name[calls]]
            calls = table.by_start(calls[~of_kinds(classes, Call.OTHER)])
            self._calls[thread] = calls, self.call_class[table.name[calls]]
        return self._calls[thread]

    def drivers(self, device: int) -> tuple[list[int], int]:
        """The threads that launched work on a device, busiest first, and the main thread among or beside them."""
        if device not in self._drivers:
            self._drivers[device] = self._find_drivers(device)
        return self._drivers[device]

    def _find_drivers(self, device: int) -> tuple[list[int], int]:
        """The main thread holds the steps or regions; -1 when no thread launched anything."""
        trace = self.trace
        launches = trace.launches_of_device(device)
        owners = self.of_events(launches[launches >= 0])
        owners = owners[owners >= 0]
        if not len(owners):
            return [], -1
        found, counts = np.unique(owners, return_counts=True)
        drivers = found[np.argsort(-counts, kind="stable")][:MAX_DRIVERS].tolist()
        main = self._main_thread(drivers)
        return (drivers if main in drivers else [*drivers, main]), main

    def _main_thread(self, drivers: list[int]) -> int:
        rank, process, _ = self.keys[drivers[0]]
        same = [index for index, key in enumerate(self.keys) if key[:2] == (rank, process)]
        of_the_program = of_kinds(self.roles, *_OF_THE_PROGRAM)

        def weight(thread: int) -> tuple[int, ...]:
            events, kind = self._events[thread], self.activity(thread).kind

            def of_kind(which: EventKind) -> I64:
                return np.asarray(events[of_kinds(kind, which)])

            regions = of_kind(EventKind.REGION)
            regions = regions[of_the_program[self.trace.events.name[regions]]]
            return (
                int(durations(self.trace, of_kind(EventKind.STEP)).sum()),
                int(durations(self.trace, regions).sum()),
                int(self.keys[thread][2] == process),
                int(durations(self.trace, of_kind(EventKind.PYTHON)).sum()),
                int(np.count_nonzero(of_kinds(kind, EventKind.API))),
            )

        return max(same, key=weight)


def _known(value: int | None) -> int:
    return -1 if value is None else value


MIN_FRAME_SHARE = 0.8
_FOREIGN_FRAME = regex(
    r"^(<built-in|nn\.Module|torch[./\\]|.*[/\\]torch[/\\]|threading\.py|.*[/\\](site|dist)-packages[/\\]torch|"
    r"contextlib\.py|.*[/\\]contextlib\.py|<string>|<frozen|runpy|.*importlib)"
)


def is_users_frame(name: str) -> bool:
    """Whether a frame is neither PyTorch's nor Python's own."""
    return not _FOREIGN_FRAME.match(name)


@dataclass(frozen=True, slots=True, eq=False)
class UserFrames:
    """The user's own frames of one thread, one column of events by start for each depth; none without stacks."""

    trace: Trace
    rows: tuple[tuple[I64, I64], ...]  # events, and their starts

    @staticmethod
    def of(
        threads: Threads,
        thread: int,
        is_own: Callable[[str], bool] = is_users_frame,
        kinds: tuple[EventKind, ...] = (EventKind.PYTHON,),
    ) -> UserFrames:
        """The frames of a thread whose names ``is_own`` accepts: those that are neither PyTorch's nor Python's own."""
        trace, table = threads.trace, threads.trace.events
        events = threads.events(thread)
        frames = events[of_kinds(table.kind[events], *kinds)]
        if not len(frames):
            return UserFrames(trace, ())
        frames = frames[named(trace, frames, is_own)]
        rows = [frames[which] for _, which in rows_by(table.depth[frames])]
        rows = [table.by_start(row) for row in rows]
        return UserFrames(trace, tuple((row, table.start[row]) for row in rows))

    def around(self, start: I64, end: I64) -> I64:
        """The deepest frame around most of each interval; -1 where there is none."""
        table = self.trace.events
        found = np.full(len(start), -1, np.int64)
        for row, starts in self.rows if len(start) else ():
            frame = row[np.maximum(last_not_after(starts, (start + end) // 2), 0)]
            shared = np.minimum(table.end[frame], end) - np.maximum(table.start[frame], start)
            through = shared >= MIN_FRAME_SHARE * (end - start)
            found[through] = frame[through]
        return found

    def holding(self, stretches: Intervals) -> list[int]:
        """From the outermost depth in: a frame of the name that holds most of some stretches, where one does."""
        table, found = self.trace.events, []
        begin, end = stretches
        for row, starts in self.rows if len(begin) else ():
            low = max(int(np.searchsorted(starts, begin[0], side="right")) - 1, 0)
            frames = row[low : int(np.searchsorted(starts, end[-1]))]
            if not len(frames):
                continue
            held = measure(stretches, *table.spans(frames))
            _, first, which = np.unique(table.name[frames], return_index=True, return_inverse=True)
            shared = np.bincount(which, held)
            most = int(shared.argmax())
            if shared[most] >= MIN_FRAME_SHARE * (end - begin).sum():
                found.append(int(frames[first[most]]))
        return found
