"""Per-kernel hardware metrics, as Nsight Compute measures them."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import field, replace
from itertools import chain

from parsers.model.late import dataclass

MetricValue = float | int | str
Dim3 = tuple[int, int, int]


# the last: rocprof
_TIMES = ("gpu__time_duration.sum", "gpu__time_duration.avg", "gpu__time_active.sum", "DurationNs")


@dataclass(frozen=True, slots=True)
class RuleResult:
    """A verdict that the recording tool itself stored beside the metrics."""

    rule: str
    section: str
    kind: str  # "optimization", "warning", "ok", "info" or "error"
    text: str
    speedup_percent: float | None = None
    speedup_is_global: bool | None = None


@dataclass(frozen=True, slots=True)
class SourcePlace:
    """A line of the program; ``inlined_at`` is the place of the call where it was inlined, -1 where it was not."""

    file: str
    line: int
    inlined_at: int = -1


@dataclass(frozen=True, slots=True)
class KernelSource:
    """The instructions of a kernel in the order of the program, as equal columns.

    ``address`` counts bytes from the first one, -1 where it is not known; ``text`` is empty where nobody disassembled
    them. ``samples`` are of the warps that were there, ``stalls`` the samples by what they waited for, ``executed``
    counts warps. ``place`` numbers ``places``, -1 where the line is not known; ``files`` has the lines of those source
    files that the recording holds.
    """

    address: tuple[int, ...]
    text: tuple[str, ...]
    samples: tuple[int, ...]
    executed: tuple[int, ...]
    stalls: Mapping[str, tuple[int, ...]]
    place: tuple[int, ...] = ()
    places: tuple[SourcePlace, ...] = ()
    files: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    def with_text_of(self, page: KernelSource) -> KernelSource:
        """The same with disassembled instructions, where a page has those of the same code."""
        return replace(self, text=page.text) if page.address == self.address else self


@dataclass(frozen=True, slots=True, eq=False, weakref_slot=True)
class KernelProfile:
    """One profiled launch.

    ``metrics`` maps a metric's own name to its value in base units (ns, byte, cycle, percent, per second);
    ``instances`` maps it to (key, value) pairs where the report has them per opcode, block size and the like.
    """

    id: str
    name: str
    grid: Dim3
    block: Dim3
    device: int | None
    compute_capability: tuple[int, int] | None
    context: int | None
    stream: int | None
    process: int | None
    process_name: str
    metrics: Mapping[str, MetricValue]
    units: Mapping[str, str] = field(default_factory=dict)
    instances: Mapping[str, tuple[tuple[int | str, float], ...]] = field(default_factory=dict)
    rule_results: tuple[RuleResult, ...] = ()
    device_name: str | None = None
    invocations: int = 1
    source: KernelSource | None = None

    def number(self, metric: str) -> float | None:
        """A metric as float; None when it was not collected or is no finite number."""
        value = self.metrics.get(metric)
        if isinstance(value, (int, float)) and math.isfinite(value):
            return float(value)
        return None

    @property
    def duration_ns(self) -> float | None:
        """The kernel's time under the profiler, which is not wall time: clocks and caches were changed.

        From cycles and clock rate where the time itself was not collected.
        """
        for metric in _TIMES:
            if (time := self.number(metric)) is not None:
                return time
        for unit in ("gpc", "sm", "smsp"):
            rate = self.number(f"{unit}__cycles_elapsed.avg.per_second")
            cycles = self.number(f"{unit}__cycles_elapsed.max") or self.number(f"{unit}__cycles_elapsed.avg")
            if rate and cycles is not None:
                return cycles / rate * 1e9
        return None


def distinct_kernels(reports: Sequence[Sequence[KernelProfile]]) -> tuple[KernelProfile, ...]:
    """The launches of several reports in one list; ids that an earlier report has used get its number: "0@2".

    Source pages belong to the launches of their kernel, where those are among the reports: in their order where there
    are as many, else the last one to all.
    """
    pages: dict[str, list[KernelSource]] = {}
    measured = Counter(each.name for report in reports for each in report if each.metrics)
    for each in chain.from_iterable(reports):
        if each.source is not None and not each.metrics:
            pages.setdefault(each.name, []).append(each.source)
    met: Counter[str] = Counter()
    joined: list[list[KernelProfile]] = []
    for report in reports:
        joined.append([])
        for each in report:
            if each.metrics and (found := pages.get(each.name)):
                page = found[met[each.name]] if len(found) == measured[each.name] else found[-1]
                met[each.name] += 1
                each = replace(each, source=page if each.source is None else each.source.with_text_of(page))
            if each.metrics or not measured[each.name]:
                joined[-1].append(each)
    used: set[str] = set()
    kernels: list[KernelProfile] = []
    for number, report in enumerate(joined, 1):
        kernels += [
            replace(kernel, id=f"{kernel.id}@{number}") if kernel.id in used else kernel for kernel in report
        ]
        used |= {kernel.id for kernel in report}
    return tuple(kernels)
