"""One rank's recording as some hundred kB: what the whole run is judged from, and what a cache keeps."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields

from parsers.model import Array, Device, Quality, Rank, TraceInput
from parsers.model.late import dataclass
from rules.analysis.ranks.collectives import CollectiveKind
from rules.analysis.ranks.run import DeviceStates, IdleCulprit, KernelTally
from rules.findings.base import Finding

Columns = Mapping[str, Array]


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
    n ``n.edge`` and ``n.part`` (its states), ``n.alone.start`` and ``.end`` (exposed communication), ``n.kernel.``
    and each field of ``KernelTally``, ``n.blocks`` (blocks of compute kernels a step), and one column a step for each
    of clock, power and memory that was counted.
    """

    words: SummaryWords
    columns: Columns

    def states(self, device: int) -> DeviceStates:
        """What a device did over time."""
        return DeviceStates(self.columns[f"{device}.edge"], self.columns[f"{device}.part"])

    def kernels(self, device: int) -> KernelTally:
        """The compute kernels of the rank's own analysed time."""
        return KernelTally(*(self.columns[f"{device}.kernel.{field.name}"] for field in fields(KernelTally)))

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
