"""A phase of the step in which the CPU does something of its own while the GPU waits: moved off the path."""

from __future__ import annotations

from collections.abc import Iterable
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from parsers.model import CopyKind
from rules.analysis.analysis import Analysis
from rules.analysis.names.calls import WORK_CALLS
from rules.category import Category
from rules.culprit import Culprit, CulpritKind
from rules.fixes.base import Proposal, fix
from rules.fixes.changes import (
    copies,
    less_host_time,
    of_nodes,
    per_step,
    together,
    without_calls,
    without_waiting,
)
from rules.replay.replay import Replay
from rules.replay.surroundings import Surroundings, surroundings_of
from rules.wording.host_work import advice_by_name
from rules.wording.phrases import shortened

I64 = npt.NDArray[np.int64]
BOOL = npt.NDArray[np.bool_]

LONG_NS = 250_000.0  # host time before a call that no launching explains
LEAST_SILENT = 0.3  # of a phase: where it is less, the waits between are no part of it
FEW_LAUNCHES = 20  # between two long gaps or waits of one phase
LONG_COPY_NS = (
    1_000_000  # longer copies are a fault of their own where they take more time than the host's work
)

_ADVICE = (
    "Move it to the GPU where it can run there, do it less often, or hand it to another thread or process and go on "
    "with the next step.",
)


@fix
class MoveHostPhase:
    """Long stretches of host work, with the waits between them."""

    id: ClassVar[str] = "move-host-phase"
    explanation: ClassVar[str] = """
When it applies
    The CPU does something of its own for at least 250 us: numpy, a simulator, serialising, printing. Long stretches
    and blocking waits with fewer than 20 launches between them are one phase.

What is changed in the replay
    The stretches in which nothing was recorded are gone, and so are the waits and small copies between them.
    Everything that was launched in the phase is still launched.

What makes it more or less
    Whether the work can move at all. If it only becomes half as long, half of the gain is left.
"""

    def proposals(self, analysis: Analysis, replay: Replay) -> Iterable[Proposal]:
        """One for each place whose work is long."""
        around = surroundings_of(analysis)
        silent = np.where(
            replay.host.gap >= LONG_NS, np.maximum(around.silent_ns - around.input_ns, 0.0), 0.0
        )
        silent[silent < LONG_NS] = 0.0
        phases = _phases(replay, silent)
        for name, nodes in sorted(_places(around, silent, phases).items()):
            yield _proposal(analysis, replay, name, nodes, silent)


def _phases(replay: Replay, silent: npt.NDArray[np.float64]) -> I64:
    """The number of the phase of each long gap, or wait near one; -1 for other nodes."""
    host = replay.host
    long = silent > 0
    work = np.cumsum(np.isin(host.call, WORK_CALLS))
    anchors = np.flatnonzero(long | replay.waits.bound)
    found = np.full(len(host), -1, np.int64)
    if not len(anchors):
        return found
    apart = (np.diff(work[anchors]) >= FEW_LAUNCHES) | (np.diff(host.thread[anchors]) != 0)
    number = np.concatenate(([0], np.cumsum(apart)))
    passed = np.cumsum(host.gap + host.cost)
    edges = np.flatnonzero(np.append(True, np.diff(number) > 0))
    extent = (
        passed[anchors[np.append(edges[1:], len(anchors)) - 1]]
        - passed[anchors[edges]]
        + silent[anchors[edges]]
    )
    own = np.bincount(number, silent[anchors])
    mainly = own >= LEAST_SILENT * extent
    found[anchors] = np.where((own > 0)[number] & (mainly[number] | long[anchors]), number, -1)
    return found


def _places(around: Surroundings, silent: npt.NDArray[np.float64], phases: I64) -> dict[str, BOOL]:
    """Nodes of the phases by the name of the place where most of a phase's time passes."""
    found: dict[str, BOOL] = {}
    longest: dict[int, int] = {}
    for node in np.flatnonzero(phases >= 0).tolist():
        phase = int(phases[node])
        if silent[node] > silent[longest.get(phase, node)] or phase not in longest:
            longest[phase] = node
    for phase, node in longest.items():
        name = around.place(node)
        found[name] = found.get(name, np.zeros(len(phases), bool)) | (phases == phase)
    return found


def _proposal(
    analysis: Analysis, replay: Replay, name: str, nodes: BOOL, silent: npt.NDArray[np.float64]
) -> Proposal:
    to_host = copies(replay, CopyKind.D2H)
    large = of_nodes(replay, to_host & (replay.device.duration >= LONG_COPY_NS)) & nodes
    if replay.host.cost[large].sum() > silent[nodes].sum():
        to_host &= replay.device.duration < LONG_COPY_NS
    waits = nodes & (replay.waits.target >= 0)
    copied = waits & of_nodes(replay, to_host)
    gone = together(
        less_host_time(nodes, silent),
        without_calls(replay, copied, 0.0),
        without_waiting(waits & ~large | copied),
    )
    categories = [Category.HOST_BOUND]
    if copied.any():
        categories.append(Category.COPY_D2H)
    elif waits.any():
        categories.append(Category.SYNCHRONIZATION)
    milliseconds = per_step(replay, float(silent[nodes].sum())) / 1e6
    what = f"the work of {shortened(name)}" if name else f"what {analysis.idle.host} does"
    return Proposal(
        fix=MoveHostPhase.id,
        key=name,
        title=f"Take {what} off the path: {milliseconds:.3g} ms of CPU work in a step, outside any operator",
        categories=tuple(categories),
        culprit=name or f"{analysis.idle.host} outside any region",
        advice=advice_by_name(Culprit(CulpritKind.REGION, name)) or _ADVICE,
        expected=gone,
        depends_on="how much of this work can run beside the GPU, or on it",
    )
