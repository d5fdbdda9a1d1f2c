"""One rank's recording as some hundred kB: what the whole run is judged from, and what a cache keeps."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from parsers.model import F64, Array, Device, Quality, Rank, TraceInput
from rules.base import Finding
from rules.summaries.states import DeviceStates

Columns = Mapping[str, Array]

READINGS = ("clock", "power", "memory")  # what counters say of a device: MHz, W, bytes


@dataclass(frozen=True, slots=True)
class CollectiveKind:
    """What the collectives of one kind have in common; ``group`` is the process group's name as recorded."""

    collective: str
    group: str
    bytes: int
    group_size: int


@dataclass(frozen=True, slots=True)
class IdleCulprit:
    """For whom one device idled inside the rank's own window."""

    device: int
    cause: int  # Cause
    text: str
    ns: int


@dataclass(frozen=True, slots=True)
class Alone:
    """What a rank itself needs for a step, replayed as if no collective took time (ns).

    ``without_silence``: and if it did not wait for long where nothing of its CPU was recorded, which may be for a late
    rank. ``kernels`` is the time of its compute kernels.
    """

    step_ns: float
    without_silence_ns: float
    kernels_ns: float


@dataclass(frozen=True, slots=True)
class SummaryWords:
    """Everything of a summary that is no column. Times are ns from the start of the rank's own recording."""

    input: TraceInput
    rank: Rank | None
    epoch_ns: int | None
    duration: int
    devices: tuple[Device, ...]  # those that worked
    step_names: tuple[str, ...]
    found_by: str
    window: tuple[int, int]  # the rank's own analysed time
    kinds: tuple[CollectiveKind, ...]
    collective_names: tuple[str, ...]
    culprits: tuple[IdleCulprit, ...]
    findings: tuple[Finding, ...]  # of this rank alone
    outside_ns: tuple[
        int, ...
    ]  # of each finding: what it rests on before the first operation and after the last
    skipped: dict[str, str]
    crashed: dict[str, str]
    quiet: tuple[str, ...]
    quality: Quality
    alone: Alone | None  # where its step can be replayed
    launches: int
    launches_without_operation: int
    lost_records: bool  # so many that nothing else is concluded
    operations: tuple[tuple[int, int], ...]  # GPU operations and kernels of each device
    span: tuple[tuple[int, int], ...]  # of each device: first start, last end


@dataclass(frozen=True, slots=True, eq=False)
class RankSummary:
    """The words, and the columns by name.

    ``step.start``, ``step.end``, ``step.steady``; of collectives ``collective.device``, ``.start``, ``.end``,
    ``.kind`` (into ``kinds``), ``.name`` (into ``collective_names``), ``.sequence`` and ``.step`` (-1: none); of device
    n ``n.edge`` and ``n.part`` (its states), ``n.alone.start`` and ``.end`` (exposed communication), ``n.blocks``
    (blocks of compute kernels a step), and one column a step for each of ``READINGS`` that was counted.
    """

    words: SummaryWords
    columns: Columns

    def states(self, device: int) -> DeviceStates:
        """What a device did over time."""
        return DeviceStates(self.columns[f"{device}.edge"], self.columns[f"{device}.part"])

    def reading(self, device: int, which: str) -> F64 | None:
        """A counter's mean in each step; None where it was not counted."""
        return self.columns.get(f"{device}.{which}")

    @property
    def bytes(self) -> int:
        """How much room the columns take."""
        return sum(column.nbytes for column in self.columns.values())


@dataclass(frozen=True, slots=True)
class Placed:
    """A summary on the run's clock: ``shift`` (ns) is added to its times; ``rank`` is the number it has in the run."""

    summary: RankSummary
    shift: int
    rank: int | None
    clock_error_ns: int | None = None


@dataclass(frozen=True, slots=True)
class Row:
    """One device of one rank."""

    member: int  # index into ``members``
    device: int  # index into the member's devices
    rank: int | None
    node: str  # empty where nothing tells
