"""A run of several ranks as all that judges it needs: rows of devices, the analysed time, parts of steps, meetings."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from functools import cached_property

import numpy as np

from parsers.model import BOOL, F64, I64, U8, ProcessGroup, Progress
from parsers.model.arrays import distinct_values
from parsers.model.late import dataclass
from rules.analysis.arithmetic.intervals import Intervals
from rules.analysis.idle.causes import Cause, DeviceTime
from rules.analysis.ranks.meetings import Entries, Meetings, meetings_of
from rules.terms import Thresholds

RESIDUAL, COMPUTE, COMMUNICATION, COPIES, OTHER = range(5)
FIRST_IDLE = OTHER + 1  # then one for each ``Cause``
PARTS = FIRST_IDLE + len(Cause)
MAX_PIECES = 24_000  # 9 bytes each


def parts_of(time: DeviceTime) -> dict[int, Intervals]:
    """What a device did, by part of the budget."""
    return {
        COMPUTE: time.compute,
        COMMUNICATION: time.communication,
        COPIES: time.copies,
        OTHER: time.other,
        **{FIRST_IDLE + cause: intervals for cause, intervals in time.idle.items()},
    }


@dataclass(frozen=True, slots=True, eq=False)
class DeviceStates:
    """``edge`` (n + 1, ascending ns) bounds n pieces of one ``part`` each; nothing is known outside of them."""

    edge: I64
    part: U8

    @staticmethod
    def of(time: DeviceTime) -> DeviceStates:
        """The states of a device; moments inside its pieces that belong to no part are the residual."""
        parts = parts_of(time)
        start = np.concatenate([each[0] for each in parts.values()])
        end = np.concatenate([each[1] for each in parts.values()])
        part = np.concatenate([np.full(len(each[0]), number) for number, each in parts.items()])
        order = np.argsort(start, kind="stable")
        start, end, part = start[order], end[order], part[order]
        if not len(start):
            return DeviceStates(np.zeros(1, np.int64), np.empty(0, np.uint8))
        edge = np.empty(2 * len(start), np.int64)
        edge[0::2], edge[1::2] = start, end
        label = np.full(2 * len(start) - 1, RESIDUAL, np.uint8)
        label[0::2] = part
        kept = np.flatnonzero(np.diff(edge) > 0)
        return DeviceStates(np.append(edge[kept], edge[-1]), label[kept])

    def within(self, start: I64, end: I64) -> I64:
        """(spans, PARTS): ns of each part inside each [start, end); what is outside of the pieces is residual."""
        before, until = np.split(self._until(np.concatenate((start, end))), 2)
        found: I64 = until - before
        found[:, RESIDUAL] += np.maximum(end - start, 0) - found.sum(axis=1)
        return found

    def coarse(self, edges: I64, most: int = MAX_PIECES) -> DeviceStates:
        """The same with at most about ``most`` pieces: exact between any two of ``edges`` and of an even grid."""
        if len(self.part) <= most:
            return self
        cells = max(most // PARTS - len(edges), 1)
        inside = edges[(edges > self.edge[0]) & (edges < self.edge[-1])]
        grid = np.linspace(self.edge[0], self.edge[-1], cells + 1).astype(np.int64)
        bounds = distinct_values(np.concatenate((grid, inside)))
        lengths = self.within(bounds[:-1], bounds[1:])
        edge = np.append(self.edge[0], self.edge[0] + np.cumsum(lengths.ravel()))
        part = np.tile(np.arange(PARTS, dtype=np.uint8), len(lengths))
        kept = np.flatnonzero(np.diff(edge) > 0)
        return DeviceStates(np.append(edge[kept], edge[-1]), part[kept])

    def idle_outside(self, span: tuple[int, int], window: tuple[int, int], cause: Cause) -> DeviceStates:
        """The same, where idle time before and after ``span`` is for one cause, and known in all of ``window``."""
        reason = np.uint8(FIRST_IDLE + cause)
        before, after = min(window[0], int(self.edge[0])), max(window[1], int(self.edge[-1]))
        outside = (self.part >= FIRST_IDLE) & ((self.edge[1:] <= span[0]) | (self.edge[:-1] >= span[1]))
        return DeviceStates(
            np.concatenate(([before], self.edge, [after])),
            np.concatenate(([reason], np.where(outside, reason, self.part), [reason])).astype(np.uint8),
        )

    def intervals(self, part: int) -> Intervals:
        here = np.flatnonzero(self.part == part)
        return self.edge[here], self.edge[here + 1]

    def _until(self, times: I64) -> I64:
        """(times, PARTS): ns of each part before each time."""
        if not len(self.part):
            return np.zeros((len(times), PARTS), np.int64)
        at = np.clip(times, self.edge[0], self.edge[-1])
        piece = np.clip(np.searchsorted(self.edge, at, side="right") - 1, 0, len(self.part) - 1)
        asked = np.zeros(len(self.part), np.int64)
        asked[piece] = 1
        asked_so_far = np.cumsum(asked)  # what lies between two of these is only added up
        whole = np.zeros((int(asked_so_far[-1]) + 1, PARTS), np.int64)
        np.add.at(whole.reshape(-1), asked_so_far * PARTS + self.part, np.diff(self.edge))
        found: I64 = np.cumsum(whole, axis=0)[asked_so_far[piece] - 1]
        found[np.arange(len(at)), self.part[piece]] += at - self.edge[piece]
        return found


@dataclass(frozen=True, slots=True)
class Row:
    """One device of one rank."""

    member: int  # the rank's place in the run
    device: int  # index into the devices of what was read: of the rank's summary, or of the trace
    rank: int | None
    node: str  # empty where nothing tells


def nodes_of(hosts: Sequence[str], ranks: Sequence[int | None], gpus: Sequence[int]) -> list[str]:
    """The host that each row states; else which of equal runs of GPU numbers its rank lies in."""
    if len(set(hosts)) > 1 and all(hosts):
        return list(hosts)
    of_node = max(gpus, default=0) + 1
    placed = [
        rank for rank, gpu in zip(ranks, gpus, strict=True) if rank is not None and rank % of_node == gpu
    ]
    if of_node < 2 or not of_node < len(ranks) == len(placed):
        return [""] * len(ranks)
    return [f"node {rank // of_node}" for rank in placed]


@dataclass(frozen=True, slots=True)
class IdleCulprit:
    """For whom one device idled inside the analysed time."""

    device: int
    cause: int  # Cause
    text: str
    ns: int


@dataclass(frozen=True, slots=True, eq=False)
class KernelTally:
    """For each name of a compute kernel, by a number that is the same on every rank: count, ns and blocks."""

    name: I64  # ascending
    count: I64
    time: I64
    blocks: I64


class RunOfRanks(ABC):
    """Rows stand in the order of their ranks. All times are ns from the run's start."""

    thresholds: Thresholds

    @property
    @abstractmethod
    def rows(self) -> tuple[Row, ...]:
        """Every device that worked."""

    @abstractmethod
    def name(self, row: int) -> str:
        """ "rank 12", or with its GPU where one has several."""

    @abstractmethod
    def gpu(self, row: int) -> int:
        """The number that the row's device has on its machine."""

    @abstractmethod
    def groups(self, row: int) -> tuple[ProcessGroup, ...]:
        """The process groups that the row's rank states."""

    @property
    @abstractmethod
    def world_size(self) -> int:
        """How many ranks the recordings state; 0 where they do not."""

    @property
    @abstractmethod
    def window(self) -> tuple[int, int]:
        """The analysed time."""

    @abstractmethod
    def steps_of(self, row: int) -> tuple[I64, I64, BOOL]:
        """Starts, ends, and whether they are steady, of the row's steps."""

    @abstractmethod
    def names_of_steps(self, row: int) -> tuple[str, ...]: ...

    @abstractmethod
    def time_within(self, row: int, start: I64, end: I64) -> I64:
        """(spans, PARTS): ns of each part of the budget inside each [start, end)."""

    @abstractmethod
    def alone(self, row: int) -> Intervals:
        """Exposed communication."""

    @abstractmethod
    def entries(self) -> Entries:
        """All collectives."""

    @abstractmethod
    def reading_of(self, row: int, which: str) -> F64 | I64 | None:
        """A counter's mean in each step, or "blocks" of compute kernels; None where it was not counted."""

    @abstractmethod
    def kernels(self, row: int) -> KernelTally:
        """The compute kernels of the analysed time."""

    @abstractmethod
    def culprits(self, row: int) -> Iterable[IdleCulprit]:
        """For whom the row idles most, by cause."""

    @property
    def window_ns(self) -> int:
        return self.window[1] - self.window[0]

    @cached_property
    def steps_in_window(self) -> int:
        """Steady steps of one rank; 0 where none were found."""
        return max((int(self.steps_of(row)[2].sum()) for row in range(len(self.rows))), default=0)

    @cached_property
    def parts(self) -> I64:
        """(rows, PARTS): ns of each part of the budget inside the window."""
        t0, t1 = (np.array([edge]) for edge in self.window)
        found = np.zeros((len(self.rows), PARTS), np.int64)
        for row in range(len(found)):
            found[row] = self.time_within(row, t0, t1)[0]
        found[:, FIRST_IDLE + Cause.UNKNOWN] += found[:, RESIDUAL]  # before and after what was recorded
        found[:, RESIDUAL] = 0
        return found

    @cached_property
    def step_numbers(self) -> I64:
        """The numbers of the steps that most ranks have, as counted on each rank, warm-up left out."""
        steady = [np.flatnonzero(self.steps_of(row)[2]) for row in range(len(self.rows))]
        counts = np.bincount(np.concatenate(steady) if steady else np.empty(0, np.int64))
        return np.flatnonzero((counts > 0) & (2 * counts >= counts.max(initial=0)))

    @cached_property
    def step_names(self) -> tuple[str, ...]:
        """What the first rank that has it calls each of ``step_numbers``."""
        found: dict[int, str] = {}
        for row in range(len(self.rows)):
            if len(found) == len(self.step_numbers):
                break
            names = self.names_of_steps(row)
            for number in self.step_numbers[self.step_numbers < len(names)].tolist():
                found.setdefault(number, names[number])
        return tuple(found.get(number, str(number)) for number in self.step_numbers.tolist())

    @cached_property
    def by_step(self) -> I64:
        """(rows, steps, PARTS): ns of each part in each step; nothing where a rank lacks the step."""
        numbers = self.step_numbers
        found = np.zeros((len(self.rows), len(numbers), PARTS), np.int64)
        for row in range(len(found)):
            start, end, _ = self.steps_of(row)
            has = numbers[numbers < len(start)]
            found[row, : len(has)] = self.time_within(row, start[has], end[has])
        return found

    def reading(self, which: str) -> F64:
        """(rows, steps) of ``reading_of``; not a number where it was not counted."""
        numbers = self.step_numbers
        found = np.full((len(self.rows), len(numbers)), np.nan)
        for row in range(len(found)):
            column = self.reading_of(row, which)
            if column is not None:
                has = numbers[numbers < len(column)]
                found[row, : len(has)] = column[has]
        return found

    @cached_property
    def meetings(self) -> Meetings:
        return self.matched(Progress())

    def matched(self, progress: Progress) -> Meetings:
        """The same, with a chance to cancel every now and then."""
        return meetings_of(self.entries(), len(self.rows), self.alone, self.window, progress)
