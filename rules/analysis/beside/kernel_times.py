"""What a profile without a timeline says of kernels: their times, their scopes, and how fast they moved data."""

from __future__ import annotations

from collections import Counter

from parsers.model import Trace, derived
from parsers.model.late import dataclass
from parsers.model.results import KERNEL_TIMES_TITLE, Cell


@dataclass(slots=True)
class KernelTime:
    """One kernel in all scopes; ``moved`` and ``possible`` in GB/s, zero where the profile does not state them."""

    name: str
    ms: float = 0.0
    launches: float = 0.0
    moved_gb: float = 0.0
    moving_ms: float = 0.0
    possible: float = 0.0

    @property
    def moved(self) -> float:
        return self.moved_gb / self.moving_ms * 1e3 if self.moving_ms else 0.0


@dataclass(frozen=True, slots=True)
class KernelTimes:
    """Kernels and scopes with their times in ms, those with most of it first; ``""`` is no scope."""

    kernels: tuple[KernelTime, ...]
    scopes: tuple[tuple[str, float], ...]

    @property
    def ms(self) -> float:
        return sum(each.ms for each in self.kernels)


@derived
def kernel_times(trace: Trace) -> KernelTimes:
    """The profiles of a trace, added up."""
    kernels: dict[str, KernelTime] = {}
    scopes: Counter[str] = Counter()
    for table in trace.tables:
        if table.title != KERNEL_TIMES_TITLE:
            continue
        names = ("kernel", "scope", "launches", "time", "moved", "possible")
        columns = [table.column(name) or (None,) * len(table.rows) for name in names]
        for name, scope, launches, time, moved, possible in zip(*columns, strict=True):
            text, ms = str(name or ""), _number(time)
            kernel = kernels.setdefault(text, KernelTime(text))
            kernel.ms += ms
            kernel.launches += _number(launches)
            kernel.possible = max(kernel.possible, _number(possible))
            if _number(moved):
                kernel.moved_gb += _number(moved) * ms / 1e3
                kernel.moving_ms += ms
            scopes[str(scope or "")] += ms  # type: ignore[assignment]
    by_time = tuple(sorted(kernels.values(), key=lambda each: -each.ms))
    return KernelTimes(by_time, tuple(scopes.most_common()))


def _number(cell: Cell) -> float:
    return cell if isinstance(cell, float) else 0.0
