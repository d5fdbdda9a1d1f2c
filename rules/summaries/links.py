"""How fast each group of ranks communicates, and which groups are slower than others that send the same."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from parsers.model.arrays import I64
from rules.analysis.ranks.collectives import bus_factor, whole_message
from rules.summaries.groups import NODE, dimensions_of
from rules.summaries.run import ManyRanks

SLOW = 0.7  # times the median bus bandwidth of groups that send the same
ALIKE_GROUPS = 3  # so many are compared at least
LEAST_MEETINGS = 3  # of one group: a single slow transfer is no slow link
LEAST_BYTES = 64 << 10  # smaller messages take as long as the latency, whatever the link


@dataclass(frozen=True, slots=True, eq=False)
class GroupSpeed:
    """One kind of collective in one group of ``rows``; speeds in bytes per second, ``usual`` over the like groups."""

    collective: str
    bytes: int
    rows: I64
    meetings: int
    transfer_ns: int  # median
    bus_bandwidth: float
    usual: float

    @property
    def is_slow(self) -> bool:
        """Whether it is clearly slower than groups that send the same."""
        return 0 < self.bus_bandwidth < SLOW * self.usual

    @property
    def lost_ns(self) -> int:
        """What its slowness takes in the window."""
        if not self.usual:
            return 0
        return int(self.transfer_ns * self.meetings * max(1 - self.bus_bandwidth / self.usual, 0.0))


@dataclass(frozen=True, slots=True, eq=False)
class SlowLink:
    """Groups that are slow and what they share: a node, a pair of ranks, or only their own members."""

    name: str
    rows: I64
    speed: GroupSpeed  # the costliest of them
    groups: int


def speeds_of(run: ManyRanks) -> tuple[GroupSpeed, ...]:
    """Every group and kind of collective with known sizes inside the window."""
    meetings = run.meetings
    if not len(meetings.row):
        return ()
    kind = meetings.kind[meetings.first[:-1]]
    inside = meetings.in_window
    found: list[tuple[tuple[str, int, int], I64, int, int, float]] = []
    order = np.flatnonzero(inside)
    order = order[np.argsort(kind[order], kind="stable")]
    numbers, begins = np.unique(kind[order], return_index=True)
    for number, members in zip(numbers.tolist(), np.split(order, begins[1:]), strict=True):
        about = meetings.kinds[number]
        if about.bytes < LEAST_BYTES or len(members) < LEAST_MEETINGS:
            continue
        first = int(members[0])
        rows = meetings.row[meetings.first[first] : meetings.first[first + 1]]
        ranks = about.group_size or len(rows)
        transfer = int(np.median(meetings.transfer[members]))
        if transfer <= 0:
            continue
        speed = whole_message(about.collective, about.bytes, ranks) / transfer * 1e9
        like = (about.collective, about.bytes, ranks)
        found.append((like, rows, len(members), transfer, speed * bus_factor(about.collective, ranks)))
    by_like: dict[tuple[str, int, int], list[float]] = {}
    for like, *_, speed in found:
        by_like.setdefault(like, []).append(speed)
    usual = {
        like: float(np.median(speeds)) if len(speeds) >= ALIKE_GROUPS else 0.0
        for like, speeds in by_like.items()
    }
    return tuple(
        GroupSpeed(like[0], like[1], rows, count, transfer, speed, usual[like])
        for like, rows, count, transfer, speed in found
    )


def slow_links(run: ManyRanks, speeds: tuple[GroupSpeed, ...]) -> tuple[SlowLink, ...]:
    """Slow groups joined by what they share, the costliest first."""
    slow = sorted((each for each in speeds if each.is_slow), key=lambda each: -each.lost_ns)
    node = next((each for each in dimensions_of(run) if each.kind == NODE), None)
    found: dict[str, list[GroupSpeed]] = {}
    for each in slow:
        found.setdefault(_name(run, each.rows, node.label if node is not None else None, slow), []).append(
            each
        )
    return tuple(
        SlowLink(name, np.unique(np.concatenate([each.rows for each in speeds])), speeds[0], len(speeds))
        for name, speeds in found.items()
    )


def _name(run: ManyRanks, rows: I64, node: I64 | None, slow: list[GroupSpeed]) -> str:
    """The node that all slow groups touch where there is exactly one, or the ranks themselves."""
    if node is not None:
        nodes = np.unique(node[rows])
        if len(nodes) == 1:
            return f"inside {run.rows[int(rows[0])].node}"
        shared = set(nodes.tolist())
        for each in slow:
            shared &= set(node[each.rows].tolist())
        if len(shared) == 1 and len(slow) > 1:
            one = int(next(iter(shared)))
            return f"from and to {run.rows[int(np.flatnonzero(node == one)[0])].node}"
    if len(rows) == 2:
        return f"between {run.name(int(rows[0]))} and {run.name(int(rows[1]))}"
    return f"among the {len(rows)} ranks from {run.name(int(rows[0]))} to {run.name(int(rows[-1]))}"
