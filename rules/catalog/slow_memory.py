"""Kernels reach their tensors more slowly than the memory of any GPU lets them."""

from __future__ import annotations

from collections.abc import Iterable

from parsers.model import I64, EventKind
from parsers.model.events import of_kinds
from parsers.model.late import dataclass
from parsers.model.units import rate
from rules.analysis.analysis import Analysis
from rules.analysis.arithmetic.intervals import Intervals, clip, length, pairs, union
from rules.analysis.gpu.inside_window import operations
from rules.analysis.names.families import Family
from rules.catalog.memory_bound_kernels import SLOWEST_MEMORY, Traffic, pointwise_traffic
from rules.findings.base import Category, Finding, Rule, rule
from rules.losses.lost_time import event_evidence
from rules.remedies.clocks import REACH_MEMORY
from rules.terms import MIN_SHARE, NOBODY
from rules.wording.words import Headline, of_every_step, part_of_step, share

_MOVING = (Family.ELEMENTWISE, Family.COPY_CAST, Family.NORMALISATION, Family.SOFTMAX, Family.REDUCTION)


@dataclass(frozen=True, slots=True)
class _Slowed:
    """Kernels of one device that only move data, their time in the window, and how fast the longest of them are."""

    device: int
    kernels: I64
    busy: Intervals
    traffic: Traffic

    @property
    def lost_ns(self) -> int:
        """What they would not take on the slowest GPU's own memory, or on this one's where its rate is known."""
        own = max(self.traffic.peak, 2 * SLOWEST_MEMORY)
        return round(length(self.busy) * (1 - self.traffic.bandwidth / own))


@rule
class SlowMemory(Rule):
    id = "slow-memory"
    category = Category.SLOW_MEMORY
    explanation = f"""
What it found
    Kernels that only read and write tensors move less than {rate(SLOWEST_MEMORY)}, and no GPU's memory is that slow.

Why it costs time
    Either the tensors are not in the GPU's memory: more was allocated than fits, and the driver keeps the rest on the
    host without saying so, as on Windows. Or the memory's clock is very low, as on a laptop that saves power. Nearly
    every kernel is slower because of it, and what is said of single kernels is said of the slowed GPU.

How it decides
    From the shapes of the operators behind the longest elementwise kernels and copies, if they move 1 MB each or more.
    The ceiling is what kernels that move data would not take at the memory's own rate, or at that of the slowest GPU's
    where it is not known. Below {{least-share}} of the step nothing is reported.

What to try
    Look at the memory clock and at what is allocated while the program runs.

When it is wrong
    Kernels that compute much for each element, and shapes of views, of which less is read.
"""

    def check(self, analysis: Analysis) -> Iterable[Finding]:
        found = (_slowed(analysis, device) for device in analysis.active_devices)
        worst = max((each for each in found if each is not None), key=lambda each: each.lost_ns, default=None)
        if worst is None or share(analysis, worst.lost_ns) < analysis.thresholds[MIN_SHARE]:
            return
        busy, reached = length(worst.busy), rate(worst.traffic.bandwidth)
        yield self.finding(
            analysis,
            headline=Headline(
                f"Kernels reach their tensors at only {reached}",
                of_every_step(analysis, share(analysis, busy)),
            ),
            account=(
                f"Kernels that only move data take {part_of_step(analysis, busy)}. From their shapes, the longest of "
                f"them move {reached}. No GPU's own memory is that slow: these tensors lie in the host's memory, as "
                "when they do not fit, or the memory's clock was very low."
            ),
            remedy=REACH_MEMORY,
            ceiling_ns=worst.lost_ns,
            culprit=NOBODY,
            device=worst.device,
            evidence=event_evidence(analysis.trace, worst.kernels),
            intervals=pairs(worst.busy),
            unknown=("Which of the two it is: log the memory's clock and use beside the recording.",),
            confidence="medium",
        )


def _slowed(analysis: Analysis, device: int) -> _Slowed | None:
    trace = analysis.trace
    kernels = operations(analysis, device, EventKind.KERNEL)
    traffic = pointwise_traffic(analysis, device, kernels)
    if traffic is None or not traffic.is_elsewhere:
        return None
    moving = kernels[of_kinds(analysis.family_of_string[trace.events.name[kernels]], *_MOVING)]
    return _Slowed(device, moving, clip(union(*trace.events.spans(moving)), *analysis.window), traffic)
