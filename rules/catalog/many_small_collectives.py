"""Many small collectives, each of which costs its latency."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from parsers.model.units import duration, size
from rules.analysis.analysis import Analysis
from rules.analysis.arithmetic.intervals import clip, intersect, length, pairs, subtract, union
from rules.analysis.ranks.recorded import ranks_of
from rules.findings.base import Category, Finding, Need, Rule, rule
from rules.losses.lost_time import event_evidence
from rules.remedies.communication import JOIN_MESSAGES
from rules.terms.culprit import Culprit, CulpritKind
from rules.terms.thresholds import MIN_SHARE, Unit, threshold
from rules.wording.headline import Headline
from rules.wording.phrases import counted, of_every_step, part_of_step, share, without_stacks
from rules.wording.words import for_pytorch

SMALL_BYTES = threshold(
    "small-collective",
    "a collective counts as small below this many bytes",
    Unit.BYTES,
    1_000_000,
    least=1_000,
    most=1_000_000_000,
    source="below 1 MB, a ring all-reduce over NVLink is limited by latency, not by bandwidth",
)
MANY_A_STEP = threshold(
    "many-collectives",
    "small collectives count as many from this number per step",
    Unit.COUNT,
    20,
    least=1,
    most=100_000,
    source="fewer cost less than reducing one bucket of gradients",
)


@rule
class ManySmallCollectives(Rule):
    """Collectives so small that only their number costs time."""

    id = "many-small-collectives"
    category = Category.COMMUNICATION_LATENCY
    needs = frozenset({Need.GPU_EVENTS, Need.COLLECTIVES})
    explanation = """
What it found
    A step sends many small messages between the GPUs.

Why it costs time
    Every collective costs 10 to 50 us before the first byte moves. Below about 1 MB that latency is most of its
    time, so a hundred small ones take far longer than one large one with the same data.

How it decides
    It counts collectives below {small-collective} whose size was recorded. It fires when there are at least
    {many-collectives} per step and the exposed ones make up at least {least-share} of the step, without the time a
    rank waits for a later one. The ceiling is the time of all but one of them.

What to try
    Combine tensors before sending them: larger DDP buckets (bucket_cap_mb), larger FSDP units, one flattened
    all-reduce, torch.distributed._coalescing_manager.

When it is wrong
    If each message depends on the result of the previous one, they cannot be combined.
"""

    def check(self, analysis: Analysis) -> Iterable[Finding]:
        trace = analysis.trace
        ranks = ranks_of(analysis)
        columns = ranks.run.columns
        t0, t1 = analysis.window
        for device in analysis.active_devices:
            small = (
                (columns.device == device)
                & (columns.bytes > 0)
                & (columns.bytes < analysis.thresholds[SMALL_BYTES])
            )
            small &= (columns.start >= t0) & (columns.start < t1)
            count = int(small.sum())
            if count < analysis.thresholds[MANY_A_STEP] * max(analysis.steps_in_window, 1):
                continue
            covered = union(columns.start[small], columns.end[small])
            exposed = clip(intersect(covered, analysis.time(device).communication), t0, t1)
            exposed = subtract(exposed, ranks.exposed_waits(ranks.run.row_of(device)))
            ceiling = int(length(exposed) * (1 - 1 / count))
            if share(analysis, ceiling) < analysis.thresholds[MIN_SHARE]:
                continue
            typical = int(np.median(columns.bytes[small]))
            yield self.finding(
                analysis,
                headline=Headline(
                    "Many small messages between GPUs", of_every_step(analysis, share(analysis, ceiling))
                ),
                account=(
                    f"{counted(analysis, count, 'collective')} of {size(typical)} each (median), "
                    f"{duration(float(np.median((columns.end - columns.start)[small])))} each, are exposed for "
                    f"{part_of_step(analysis, length(exposed))}. Most of that is latency, not transfer."
                ),
                remedy=JOIN_MESSAGES,
                ceiling_ns=ceiling,
                culprit=Culprit(CulpritKind.COLLECTIVE, str(np.array(columns.collective)[small][0])),
                device=device,
                evidence=event_evidence(trace, columns.event[small]),
                intervals=pairs(exposed),
                unknown=(
                    without_stacks(
                        trace, for_pytorch("Which code sends them: record with stacks (with_stack=True).")
                    ),
                ),
            )
            return
