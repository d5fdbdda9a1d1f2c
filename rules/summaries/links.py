"""Groups of ranks that communicate more slowly than others that send the same."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from parsers.model.arrays import I64, distinct_values, median_of
from parsers.model.late.dataclass import dataclass
from rules.analysis.ranks.groups import NODE, Dimension
from rules.analysis.ranks.late import CollectiveRow
from rules.summaries.run import ManyRanks

SLOW = 0.7  # times the median bus bandwidth of groups that send the same
ALIKE_GROUPS = 3  # so many are compared at least
MIN_MEETINGS = 3  # of one group: a single slow transfer is no slow link
MIN_BYTES = 64 << 10  # smaller messages take as long as the latency, whatever the link


@dataclass(frozen=True, slots=True, eq=False)
class SlowLink:
    """Groups that are slow and what they share: a node, a pair of ranks, or only their own members."""

    name: str
    rows: I64
    speed: CollectiveRow  # the costliest of them
    usual: float  # bus bandwidth of groups that send the same, bytes per second
    groups: int

    @property
    def lost_ns(self) -> int:
        """What its slowness takes in the window."""
        return int(
            self.speed.transfer_ns * self.speed.count * max(1 - self.speed.bus_bandwidth / self.usual, 0.0)
        )


def slow_links(
    run: ManyRanks, dimensions: tuple[Dimension, ...], collectives: tuple[CollectiveRow, ...]
) -> tuple[SlowLink, ...]:
    """Slow groups joined by what they share, the costliest first."""
    timed = [
        each
        for each in collectives
        if each.bytes >= MIN_BYTES and each.count >= MIN_MEETINGS and each.bus_bandwidth
    ]
    alike: dict[tuple[str, int, int], list[float]] = {}
    for each in timed:
        alike.setdefault(_sends(each), []).append(each.bus_bandwidth)
    usual = {
        sends: float(median_of(speeds)) for sends, speeds in alike.items() if len(speeds) >= ALIKE_GROUPS
    }
    slow = [
        SlowLink("", each.rows, each, usual[_sends(each)], 1)
        for each in timed
        if each.bus_bandwidth < SLOW * usual.get(_sends(each), 0.0)
    ]
    slow.sort(key=lambda each: -each.lost_ns)
    node = next((each for each in dimensions if each.kind == NODE), None)
    found: dict[str, list[SlowLink]] = {}
    for link in slow:
        name = _name(run, link.rows, node.label if node is not None else None, slow)
        found.setdefault(name, []).append(link)
    return tuple(
        replace(
            links[0],
            name=name,
            rows=distinct_values(np.concatenate([each.rows for each in links])),
            groups=len(links),
        )
        for name, links in found.items()
    )


def _sends(speed: CollectiveRow) -> tuple[str, int, int]:
    return speed.collective, speed.bytes, speed.ranks


def _name(run: ManyRanks, rows: I64, node: I64 | None, slow: list[SlowLink]) -> str:
    """The node that all slow groups touch where there is exactly one, or the ranks themselves."""
    if node is not None:
        nodes = distinct_values(node[rows])
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
