"""Why a GPU can be idle: the classes of causes and the table of attributed idle intervals."""

from __future__ import annotations

from enum import IntEnum

from parsers.model.arrays import I32, I64, U8
from parsers.model.late.dataclass import dataclass
from rules.terms.culprit import Culprit


class Cause(IntEnum):
    """Cause of one idle interval; ``key`` is its name in results, ``label`` what the window says."""

    LAUNCH = 0
    INPUT = 1
    HOST = 2
    SYNCHRONIZATION = 3
    ALLOCATOR = 4
    DEPENDENCY = 5
    UNKNOWN = 6
    NEIGHBOURS = 7

    @property
    def key(self) -> str:
        return _KEYS[self]

    @property
    def label(self) -> str:
        return _LABELS[self]


_KEYS = {
    Cause.LAUNCH: "launch-bound",
    Cause.INPUT: "input-bound",
    Cause.HOST: "host-bound",
    Cause.SYNCHRONIZATION: "synchronization",
    Cause.ALLOCATOR: "allocator",
    Cause.DEPENDENCY: "dependency",
    Cause.UNKNOWN: "unknown",
    Cause.NEIGHBOURS: "pipeline-bubble",
}
_LABELS = {
    Cause.LAUNCH: "launching small kernels",
    Cause.INPUT: "waiting for data",
    Cause.HOST: "waiting for Python",
    Cause.SYNCHRONIZATION: "blocked by a synchronisation",
    Cause.ALLOCATOR: "allocating memory",
    Cause.DEPENDENCY: "between queued operations",
    Cause.UNKNOWN: "idle, cause unknown",
    Cause.NEIGHBOURS: "waiting for other pipeline stages",
}


@dataclass(frozen=True, slots=True, eq=False)
class IdleTable:
    """Idle intervals of all devices, one cause each, as equal columns sorted by (device, start).

    A gap whose time several causes share appears as several adjacent rows. Rows of one device never overlap and
    together cover exactly the time in which the device ran nothing, inside the analysed window.
    """

    start: I64  # ns from the trace start
    end: I64
    device: I64  # index into Trace.devices
    cause: U8  # Cause
    culprit: I32  # index into culprits
    event: I64  # the culprit's event in the trace's table; -1 when there is none
    next_operation: I64  # the GPU operation that ended the gap; -1 at the end of the window
    culprits: tuple[Culprit, ...]
    host: str = "Python"  # what the CPU runs: "Python", or "the CPU" where the program is none of Python's

    def __len__(self) -> int:
        return len(self.start)

    def label(self, cause: Cause) -> str:
        """What the window says for a cause in this recording."""
        return f"waiting for {self.host}" if cause is Cause.HOST else cause.label

    def culprit_of(self, row: int) -> Culprit:
        return self.culprits[int(self.culprit[row])]
