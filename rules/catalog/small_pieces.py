"""An array goes through the GPU in pieces so small that starting each copy and kernel takes longer than its work."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from parsers.model import I64, Attribute, CopyKind, EventKind
from parsers.model.units import duration, size
from rules.analysis.analysis import Analysis
from rules.analysis.arithmetic.intervals import durations, length, pairs, subtract
from rules.analysis.gpu.copies import copies_of
from rules.analysis.gpu.inside_window import operations
from rules.catalog.launching_too_slowly import SHORT_KERNEL_NS
from rules.findings.base import Category, Finding, Need, Rule, rule
from rules.losses.lost_time import event_evidence, extent, kernel_culprit
from rules.remedies.copies import LARGER_PIECES
from rules.terms import MAJORITY, NEARLY_ALL
from rules.wording.words import Headline, share

MIN_PIECES = 100
# of a copy: a smaller one is a flag or a parameter, such as whether to go on; a larger one takes its time for its bytes
MIN_BYTES, MAX_BYTES = 1_024, 65_536


@rule
class SmallPieces(Rule):
    id = "small-pieces"
    category = Category.COPY_H2D
    needs = frozenset({Need.GPU_EVENTS})
    explanation = f"""
What it found
    One kernel runs again and again on small pieces of data, each of which is copied to the GPU and back.

Why it costs time
    Starting a copy or a kernel takes some microseconds, however little it has to do. With pieces this small that is
    longer than the work itself, also where several streams are used.

How it decides
    At least {MIN_PIECES} kernels ran, nine tenths of them of one name, shorter than {{short-kernel}} on average; for at
    least half as many each, copies go to the GPU and to the host, of 1 to 64 kB on average. For half of the time or
    more no kernel runs.

What to try
    Larger pieces: a few megabytes for each copy and launch, in a few chunks on two or three streams.

When it is wrong
    If each piece is known only after the one before it was computed.
"""

    def check(self, analysis: Analysis) -> Iterable[Finding]:
        for device in analysis.active_devices[:1]:
            kernels = operations(analysis, device, EventKind.KERNEL)
            ways = [copies_of(analysis, device, way) for way in (CopyKind.H2D, CopyKind.D2H)]
            copied = np.concatenate([each.events for each in ways])
            if not _are_pieces(analysis, kernels, [len(each.events) for each in ways], copied):
                continue
            start, end = analysis.window
            window = np.array([start], np.int64), np.array([end], np.int64)
            lost = subtract(window, analysis.time(device).compute)
            if share(analysis, length(lost)) < MAJORITY:
                continue
            found_in = extent(analysis, lost, device)
            taken = durations(analysis.trace, kernels)
            sent = analysis.trace.attribute(Attribute.BYTES, copied)
            yield self.finding(
                analysis,
                headline=Headline("The work is cut into too small pieces", found_in.share(length(lost))),
                account=f"{len(kernels):,} kernels run {duration(float(taken.mean()))} each on average, and "
                f"{len(copied):,} copies carry {size(int(sent.mean()))} each: starting one takes about as long as what "
                f"it does. No kernel runs for {found_in.part(length(lost))}.",
                remedy=LARGER_PIECES,
                ceiling_ns=length(lost),
                culprit=kernel_culprit(analysis.trace, int(kernels[0])),
                device=device,
                evidence=event_evidence(analysis.trace, copied),
                intervals=pairs(lost),
                unknown=("Whether a piece needs what the one before it computed.",),
                confidence="medium",
            )


def _are_pieces(analysis: Analysis, kernels: I64, ways: list[int], copied: I64) -> bool:
    """Whether one short kernel runs often, and what it works on comes and goes in small copies."""
    if len(kernels) < MIN_PIECES or min(ways) < MAJORITY * len(kernels):
        return False
    trace = analysis.trace
    most = int(np.bincount(trace.events.name[kernels]).max())
    short = durations(trace, kernels).mean() < analysis.thresholds[SHORT_KERNEL_NS]
    small = MIN_BYTES <= trace.attribute(Attribute.BYTES, copied).mean() <= MAX_BYTES
    return bool(most >= NEARLY_ALL * len(kernels) and short and small)
