"""Everything the rules and the window ask about a trace, computed once: steps, window, idle time, budgets, families."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field, replace

import numpy as np

from parsers.model import U8, DerivedValues, Progress, Trace, derived, derived_by
from parsers.model.late import dataclass
from parsers.model.memory import UNTIMED
from parsers.model.names.per_name import distinct
from parsers.model.threads import give_back
from parsers.model.units import how_many, percent
from rules.analysis.arithmetic.intervals import Intervals, length, union
from rules.analysis.idle.attribution import idle_of_device, joined_tables
from rules.analysis.idle.causes import Budget, Cause, DeviceTime, IdleTable, budget_of, busy_parts, idle_parts
from rules.analysis.idle.interruptions import interruptions
from rules.analysis.idle.threads import Threads
from rules.analysis.names.families import Family, KernelClass, classify
from rules.analysis.names.host_language import host_code
from rules.analysis.ranks.groups import with_neighbours
from rules.analysis.steps.analysed_time import AnalysedTime, analysed_time
from rules.analysis.steps.steps import Step, find_steps
from rules.terms import DEFAULTS, Thresholds


@dataclass(frozen=True, eq=False)
class Analysis:
    """Lazy and cached; all times are ns from the trace start, devices are indices into ``Trace.devices``."""

    trace: Trace
    thresholds: Thresholds = DEFAULTS
    is_one_of_many: bool = False  # ranks: idle time is told before and after the recording, too
    derived_values: DerivedValues = field(default_factory=DerivedValues, init=False, repr=False)

    @derived
    def threads(self) -> Threads:
        return Threads.of(self.trace)

    @derived
    def steps(self) -> tuple[Step, ...]:
        """The steps of all ranks, by rank and time; empty where nothing repeats."""
        return find_steps(self.trace, self.thresholds)

    @derived
    def steady_steps(self) -> tuple[Step, ...]:
        """The steps that represent the run: no warm-up."""
        return tuple(step for step in self.steps if step.steady)

    @derived
    def analysed(self) -> AnalysedTime:
        """The analysed time, and what was set aside before it."""
        return analysed_time(self.trace, self.steady_steps)

    @derived
    def window(self) -> tuple[int, int]:
        """The analysed time: the steady steps, else first to last GPU operation, else the whole trace."""
        return self.analysed.start, self.analysed.end

    @derived
    def window_ns(self) -> int:
        return self.window[1] - self.window[0]

    @derived
    def is_timed(self) -> bool:
        """Whether moments and durations mean something: an old memory snapshot states the order of events alone."""
        return len(self.trace.events) > 0 or all(note.kind != UNTIMED for note in self.trace.quality.notes)

    @derived
    def window_text(self) -> str:
        if not self.is_timed:
            return "events in their order, without times"
        if not self.steady_steps:
            if (waited := self.analysed.set_aside) is not None and not waited.before_work:
                return "GPU operations without the beginning, which is left out"
            return "first to last GPU operation" if len(self.trace.gpu_operations) else "whole recording"
        count, first = self.steps_in_window, self.steady_steps[0]
        text = f"{how_many(count, 'steady step')}, found by {_FOUND_BY[first.found_by]}"
        outside = self.work_outside_steps
        each = (1 - outside) * len({step.rank for step in self.steps}) / len(self.steps)
        if outside < max(OUTSIDE, STEPS_OUTSIDE * each):
            return text
        return f"{text}; {percent(outside)} of the GPU's work lies outside of them"

    @derived
    def work_outside_steps(self) -> float:
        """The part of the active GPUs' busy time before the first and after the last step, steady or not."""
        t0, t1 = min(step.start for step in self.steps), max(step.end for step in self.steps)
        times = [self.time(device) for device in self.active_devices]
        whole = sum(length(time.busy) for time in times)
        return 1 - sum(time.within(time.busy, t0, t1) for time in times) / whole if whole else 0.0

    @derived
    def steps_in_window(self) -> int:
        """Steady steps of one rank; 0 where no steps were found."""
        ranks = [step.rank for step in self.steady_steps]
        return max((ranks.count(rank) for rank in set(ranks)), default=0)

    @derived
    def active_devices(self) -> tuple[int, ...]:
        """Devices that the run is about: all that work inside the window at least a twentieth as much as the busiest.

        Where nothing ran inside it, all that ran anything.
        """
        t0, t1 = self.window
        ran = [
            device for device in range(len(self.trace.devices)) if self.span(device)[1] > self.span(device)[0]
        ]
        busy = {device: self.time(device).within(self.time(device).busy, t0, t1) for device in ran}
        least = max(max(busy.values(), default=0) * ACTIVE_SHARE, 1)
        return tuple([device for device in ran if busy[device] >= least] or ran)

    @derived_by
    def span(self, device: int) -> tuple[int, int]:
        """First start to last end of the device's operations; (0, 0) without any."""
        operations = self.trace.operations_of_device(device)
        if not len(operations):
            return 0, 0
        return int(self.trace.events.start[operations[0]]), int(self.trace.events.end[operations].max())

    def busy(self, device: int) -> Intervals:
        """The union of everything that ran on the device."""
        return self.time(device).busy

    def prepare(self, progress: Progress) -> None:
        """Make the costly part of what rules ask for, with a chance to cancel every now and then."""
        if Analysis.idle.kept(self) is None:
            progress.step(0.0, "finding the steps")
            _ = self.window
            progress.step(0.02, "finding the threads")
            _ = self.threads
            Analysis.idle.keep(self, self._attributed(progress.part(0.05, 0.9)))
            give_back(len(self.trace.events))
        if Analysis.classes.kept(self) is None and Analysis.families.kept(self) is None:
            Analysis.classes.keep(self, self._classified(progress.part(0.9, 1.0)))

    @derived
    def idle(self) -> IdleTable:
        """Attributed idle time of all devices: first to last operation, and the window."""
        return self._attributed(Progress())

    def _attributed(self, progress: Progress) -> IdleTable:
        tables = []
        count = max(len(self.trace.devices), 1)
        beyond = self._beyond if self.is_one_of_many else None
        for device in range(len(self.trace.devices)):
            first, last = self.span(device)
            t0, t1 = self.window
            if last > first:
                t0, t1 = min(first, t0), max(last, t1)
            part = progress.part(device / count, (device + 1) / count)
            stopped = self.interruptions(*self.threads.drivers(device)[0])
            inside, self._idle_beyond[device] = idle_of_device(
                self.trace,
                self.threads,
                device,
                (t0, t1),
                self.thresholds,
                part,
                stopped,
                beyond if last > first else None,
            )
            tables.append(inside)
        self.threads.forget_calls()
        table = with_neighbours(self.trace, joined_tables(tables))
        return replace(table, host=host_code(self.trace))

    @derived
    def _beyond(self) -> tuple[int, int]:
        """All of the recording and a step on either side: so far the window of a run of many ranks may reach."""
        further = max((step.duration for step in self.steps), default=0)
        return -further, self.trace.duration + further

    @derived
    def _idle_beyond(self) -> dict[int, IdleTable]:
        return {}

    def idle_beyond(self, device: int) -> Mapping[Cause, Intervals]:
        """Idle time of a device by cause, also outside of the recording, of one of many ranks."""
        _ = self.idle
        return idle_parts(self._idle_beyond[device], device)

    @derived_by
    def interruptions(self, *threads: int) -> Intervals:
        """When something else had the CPU of one of these threads (ns)."""
        found = []
        for thread in threads:
            rank = self.threads.keys[thread][0]
            steps = [each for each in self.steady_steps if each.rank in (rank, None) or rank < 0]
            found.append(interruptions(self.trace, self.threads, thread, steps))
        starts, ends = ([each[part] for each in found] or [np.empty(0, np.int64)] for part in (0, 1))
        return union(np.concatenate(starts), np.concatenate(ends))

    @derived
    def _times(self) -> dict[int, DeviceTime]:
        return {}

    @derived
    def _budgets(self) -> dict[int, Budget]:
        return {}

    def time(self, device: int) -> DeviceTime:
        """The device's time as disjoint intervals by what it did."""
        if device not in self._times:
            self._times[device] = DeviceTime(*busy_parts(self.trace, device), idle_parts(self.idle, device))
        return self._times[device]

    def keep_time(self, device: int, time: DeviceTime) -> None:
        """State what ``time`` is to answer, where it is known already."""
        self._times[device] = time

    def budget(self, device: int, t0: int, t1: int) -> Budget:
        """Where the time of [t0, t1) went on one device."""
        if (t0, t1) != self.window:
            return budget_of(self.time(device), device, t0, t1)
        if device not in self._budgets:
            self._budgets[device] = budget_of(self.time(device), device, t0, t1)
        return self._budgets[device]

    def budgets(self, device: int) -> Budget:
        """Where the window's time went on one device."""
        return self.budget(device, *self.window)

    @derived
    def classes(self) -> tuple[KernelClass, ...]:
        """Kernel class for each string; OTHER for strings that name no GPU operation."""
        return self._classified(Progress())

    def _classified(self, progress: Progress) -> tuple[KernelClass, ...]:
        table = [_NO_KERNEL] * len(self.trace.strings)
        names = distinct(self.trace.events.name[self.trace.gpu_operations]).tolist()
        for number, name in enumerate(names):
            if number % NAMES_AT_ONCE == 0:
                progress.step(number / len(names), "looking at the names of kernels")
            table[name] = classify(self.trace.strings[name])
        return tuple(table)

    @derived
    def families(self) -> tuple[Family, ...]:
        """Kernel family for each string."""
        return tuple(each.family for each in self.classes)

    @derived
    def family_of_string(self) -> U8:
        """The same as a column, to index with ``events.name``."""
        return np.array([int(family) for family in self.families], np.uint8)


# of the GPU's work, and in steps: less is what the host had launched before
OUTSIDE, STEPS_OUTSIDE = (0.1, 2.0)
NAMES_AT_ONCE = 2_000  # between two chances to cancel
ACTIVE_SHARE = 0.05  # of the busiest device's work: a device that does less is not what the run is about
_FOUND_BY = {
    "ProfilerStep": "the profiler's steps",
    "region": "their regions",
    "repetition": "repeating kernels",
}
_NO_KERNEL = KernelClass(Family.OTHER)
