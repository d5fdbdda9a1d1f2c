"""Kernels that only convert tensors between memory layouts."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from parsers.model import EventKind
from parsers.model.names.kernels import kernel_name
from rules.analysis.analysis import Analysis
from rules.analysis.arithmetic.durations import durations
from rules.analysis.arithmetic.intervals import clip, intersect, length, pairs, union
from rules.analysis.gpu.inside_window import busiest_device, of_family, operations
from rules.analysis.names.families import Family
from rules.findings.base import Category, Finding, Rule, rule
from rules.losses.lost_time import event_evidence, kernel_culprit
from rules.remedies.kernels import CHANNELS_LAST
from rules.terms.thresholds import MIN_SHARE
from rules.wording.headline import Headline
from rules.wording.phrases import counted, of_every_step, part_of_step, share, shortened


@rule
class LayoutConversion(Rule):
    """Conversions between NCHW and NHWC and other transpositions around convolutions."""

    id = "layout-conversion"
    category = Category.LAYOUT_CONVERSION
    explanation = """
What it found
    The GPU spends time on kernels that only rearrange tensors, such as nchwToNhwcKernel and batched_transpose.

Why it costs time
    Tensor cores want channels last (NHWC). PyTorch's default is channels first (NCHW), so the library converts the
    input and the output of every convolution. That is pure memory traffic.

How it decides
    By kernel name. The ceiling is the time of these kernels. Below {least-share} of the step nothing is reported.

What to try
    Keep the whole model and its input in channels_last, so that nothing needs to be converted.

When it is wrong
    Layers without a channels-last version convert back and forth; then the gain is smaller or negative. Measure.
"""

    def check(self, analysis: Analysis) -> Iterable[Finding]:
        trace = analysis.trace
        found = {
            device: of_family(analysis, operations(analysis, device, EventKind.KERNEL), Family.LAYOUT)
            for device in analysis.active_devices
        }
        worst = busiest_device(analysis, found)
        if worst is None:
            return
        events = found[worst]
        covered = union(*trace.events.spans(events))
        busy = clip(intersect(covered, analysis.time(worst).compute), *analysis.window)
        ceiling = length(busy)
        if share(analysis, ceiling) < analysis.thresholds[MIN_SHARE]:
            return
        longest = int(events[np.argmax(durations(trace, events))])
        yield self.finding(
            analysis,
            headline=Headline(
                "Tensors change layout back and forth", of_every_step(analysis, share(analysis, ceiling))
            ),
            account=(
                f"Tensors are only rearranged in {counted(analysis, len(events), 'kernel')} such as "
                f"{shortened(kernel_name(trace.name(longest)), 70)}: {part_of_step(analysis, ceiling)}."
            ),
            remedy=CHANNELS_LAST,
            ceiling_ns=ceiling,
            culprit=kernel_culprit(trace, longest),
            device=worst,
            evidence=event_evidence(trace, events),
            intervals=pairs(busy),
            unknown=(
                "Which layers cause the conversions: record with shapes and modules (record_shapes=True, "
                "with_modules=True).",
            ),
        )
