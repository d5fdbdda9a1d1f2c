"""Turns of other programs on the same GPU, which stops a program for them, between its kernels or inside them."""

from __future__ import annotations

import numpy as np

from parsers.model import BOOL, F64, I64, Attribute, EventKind, Trace
from parsers.model.arrays import distinct_values, numbered_rows
from parsers.model.late import dataclass
from rules.replay.device import DeviceNodes
from rules.terms import MAJORITY

# a GPU that is shared without MPS gives each program one or two milliseconds at a time, however many there are
MIN_TURN_NS = 1_000_000
# an operation that starts later after all that it is known to wait for is not understood
UNEXPLAINED_NS = 50_000.0
# kernels with the same neighbours: of fewer, none is known to be the odd one
MIN_ALIKE = 4
QUICK_PART = 10  # the quickest tenth of them ran alone
MIN_KERNELS = 3  # different ones: another program stops whatever happens to run


@dataclass(frozen=True, slots=True, eq=False)
class Turns:
    """For each operation, ns that other programs had the GPU: while it waited to start (``waits``), and inside it."""

    waits: F64
    inside: F64

    @property
    def total_ns(self) -> float:
        return float(self.waits.sum() + self.inside.sum())


def turns_of(trace: Trace, device: DeviceNodes) -> Turns:
    """What other programs took; zeros where kernels of the same launch and neighbours take about as long each time.

    Kernels shorter than a turn tell: most of those that are alike run undisturbed, and some take a turn longer. Then
    waits of unknown cause on an idle GPU are theirs, however short: a turn ends where there is nothing to run. Where
    ranks meet, zeros as well: one whose GPU is shared is late, and told as such.
    """
    nothing = np.zeros(len(device))
    if not len(device) or (device.meeting >= 0).any():
        return Turns(nothing, nothing)
    names = trace.events.name[device.event]
    kernels = trace.events.kind[device.event] == EventKind.KERNEL
    kernels &= ~trace.communicates[device.event]
    if len(distinct_values(names[kernels & (device.duration >= MIN_TURN_NS)])) < MIN_KERNELS:
        return Turns(nothing, nothing)  # none of the others takes a turn longer than it usually does
    launch = [trace.attribute(each, device.event) for each in (Attribute.GRID, Attribute.BLOCK)]
    alike, usual = _usual(numbered_rows(device.stream, names, *launch), device.duration)
    longer = np.where(kernels, device.duration - usual, 0.0)
    idle = _idle_before(device)
    stretched = longer >= MIN_TURN_NS
    share = np.bincount(alike, stretched) / np.bincount(alike)
    seldom = stretched & (usual < MIN_TURN_NS) & (share[alike] < MAJORITY)
    if len(distinct_values(names[seldom])) < MIN_KERNELS:
        return Turns(nothing, nothing)
    waits = np.minimum(device.extra, idle)
    return Turns(np.where(waits >= UNEXPLAINED_NS, waits, 0.0), np.where(stretched, longer, 0.0))


def _usual(each: I64, duration: F64) -> tuple[I64, F64]:
    """A number for operations that are alike with both their neighbours, and how long the quick ones of them take.

    ``each`` is the same number for those that are alike by themselves.
    """
    alike = numbered_rows(np.append(-1, each[:-1]), each, np.append(each[1:], -1))
    counts = np.bincount(alike)
    ordered = duration[np.lexsort((duration, alike))]
    quick = ordered[np.cumsum(counts) - counts + (counts - 1) // QUICK_PART]
    return alike, np.where(counts[alike] >= MIN_ALIKE, np.minimum(quick[alike], duration), duration)


def _idle_before(device: DeviceNodes) -> F64:
    """For how long nothing ran on its device when each operation started, ns."""
    found = np.zeros(len(device))
    for number in distinct_values(device.device.astype(np.int64)).tolist():
        mine: BOOL = device.device == number
        order = np.flatnonzero(mine)[np.argsort(device.start[mine], kind="stable")]
        reach = np.maximum.accumulate(device.end[order])
        found[order[1:]] = np.maximum(device.start[order[1:]] - reach[:-1], 0)
    return found
