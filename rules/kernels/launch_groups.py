"""Launches of the same kernel with the same shape, and the one of them that speaks for all."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from parsers.model import KernelProfile, Trace, derived
from parsers.model.kernels import Dim3
from parsers.model.late import dataclass

MIN_SHARE = 0.002
MAX_GROUPS = 60
FEW_GROUPS = 12
MUCH_FASTER = 1.2  # times: less between two launches may be chance


@dataclass(frozen=True, slots=True, eq=False)
class KernelGroup:
    """All profiled launches of one name, grid and block on one device; or of several grids (see ``together``).

    ``representative`` is a launch after the first, because the first one pays for cold caches and lazy loading;
    of those, the one with the median duration. ``total_ns`` is the sum of all durations under the profiler.
    """

    launches: tuple[KernelProfile, ...]
    representative: KernelProfile
    total_ns: float

    @property
    def name(self) -> str:
        return self.representative.name

    @property
    def count(self) -> int:
        return sum(each.invocations for each in self.launches)

    @property
    def only_first_launch(self) -> bool:
        """Whether all there is to judge by is one single launch, which may be the warm-up."""
        return self.count == 1

    @property
    def grids(self) -> int:
        """How many sizes of grid its launches have: one, unless groups were put together."""
        return len({each.grid for each in self.launches})


Key = tuple[str, Dim3, Dim3, int | None]


def key_of(kernel: KernelProfile) -> Key:
    """What launches of one group have in common."""
    return kernel.name, kernel.grid, kernel.block, kernel.device


def duration_of(kernel: KernelProfile) -> float:
    """Time of a launch, times how many launches it stands for; 0 when unknown."""
    return (kernel.duration_ns or 0.0) * max(kernel.invocations, 1)


def kernel_groups(kernels: Sequence[KernelProfile]) -> list[KernelGroup]:
    """Groups by total time, largest first."""
    found: dict[Key, list[KernelProfile]] = {}
    for kernel in kernels:
        found.setdefault(key_of(kernel), []).append(kernel)
    groups = [
        KernelGroup(tuple(launches), representative_of(launches), sum(map(duration_of, launches)))
        for launches in found.values()
    ]
    return sorted(groups, key=lambda each: -each.total_ns)


def together(groups: Sequence[KernelGroup]) -> KernelGroup:
    """Groups that differ in their grids alone as one, for which the costliest speaks."""
    costliest = max(groups, key=lambda each: each.total_ns)
    launches = tuple(launch for each in groups for launch in each.launches)
    return KernelGroup(launches, costliest.representative, sum(each.total_ns for each in groups))


def groups_of_all_grids(kernels: Sequence[KernelProfile]) -> list[KernelGroup]:
    """Groups whose launches have the name and the block in common, whatever their grids; largest first."""
    found: dict[tuple[str, Dim3, int | None], list[KernelGroup]] = {}
    for each in kernel_groups(kernels):
        launch = each.representative
        found.setdefault((launch.name, launch.block, launch.device), []).append(each)
    return sorted((together(groups) for groups in found.values()), key=lambda each: -each.total_ns)


def representative_of(launches: Sequence[KernelProfile]) -> KernelProfile:
    """The launch of median duration among those after the first; the richest in metrics where durations agree."""
    later = launches[1:] or launches
    most = max(len(each.metrics) for each in later)
    complete = [each for each in later if len(each.metrics) >= 0.9 * most]
    by_time = sorted(complete, key=lambda each: each.duration_ns or 0.0)
    return by_time[(len(by_time) - 1) // 2]


def groups_worth_reading(trace: Trace) -> list[KernelGroup]:
    """The groups that findings speak about: all when they are few, else those that take a share of the time."""
    groups = kernel_groups(trace.kernels)
    if len(groups) <= FEW_GROUPS:
        return groups
    total = sum(each.total_ns for each in groups)
    return [each for each in groups if each.total_ns >= MIN_SHARE * total][:MAX_GROUPS]


@derived
def block_sizes(trace: Trace) -> Mapping[str, set[int]]:
    """The threads of a block with which each kernel was launched."""
    found: dict[str, set[int]] = {}
    for each in trace.kernels:
        found.setdefault(each.name, set()).add(math.prod(each.block))
    return found


@dataclass(frozen=True, slots=True)
class BlockTime:
    """What a launch of a kernel takes in blocks with these sides, in threads."""

    name: str
    sides: tuple[int, ...]
    ns: float


def unlike_blocks(trace: Trace) -> tuple[BlockTime, BlockTime] | None:
    """The fastest and the slowest block of the kernel that takes most time, if one is much faster than the other.

    Only of launches with as many threads in all, which most likely do the same work.
    """
    groups = [each for each in kernel_groups(trace.kernels) if each.representative.duration_ns]
    if not groups:
        return None
    alike = [each for each in groups if (each.name, _threads(each)) == (groups[0].name, _threads(groups[0]))]
    times = sorted(
        (
            BlockTime(each.name, _sides(each.representative.block), each.representative.duration_ns or 0.0)
            for each in alike
        ),
        key=lambda each: each.ns,
    )
    fastest, slowest = times[0], times[-1]
    return (
        (fastest, slowest)
        if slowest.ns >= MUCH_FASTER * fastest.ns and slowest.sides != fastest.sides
        else None
    )


def _threads(group: KernelGroup) -> int:
    return math.prod(group.representative.grid) * math.prod(group.representative.block)


def _sides(block: Dim3) -> tuple[int, ...]:
    return block if block[2] > 1 else block[:2] if block[1] > 1 else block[:1]


def profiled_ns(trace: Trace) -> int:
    """The sum of the durations of all profiled launches, under the profiler."""
    return round(sum(map(duration_of, trace.kernels)))
