"""Operators whose kernels reach a small part of the memory's bandwidth, or of the peak of their type."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from parsers.model.names.kernels import kernel_name
from parsers.model.units import duration, operations, percent, rate
from rules.analysis.analysis import Analysis
from rules.analysis.arithmetic.intervals import clip, length, pairs, union
from rules.findings.base import Category, Finding, Need, Rule, rule
from rules.kernels.operator_roofs import MEMORY_ROOF, OperatorRoof, shown_shapes, shown_type
from rules.kernels.slow_operators import lost_ns, slow_operators
from rules.losses.lost_time import event_evidence
from rules.remedies.kernels import faster_operator
from rules.terms import MIN_SHARE, Culprit, CulpritKind
from rules.wording.words import Headline, counted, listed, of_every_step, ours, part_of_step, share, shortened

MAX_NAMED = 3


@rule
class SlowOperators(Rule):
    id = "slow-operators"
    category = Category.SLOW_OPERATOR
    needs = frozenset({Need.GPU_EVENTS, Need.LAUNCH_LINKS, Need.SHAPES})
    explanation = """
What it found
    An operator takes many times as long as the GPU needs to read its inputs and write its output.

Why it costs time
    A kernel may read memory in an order that suits its tensors badly, add to the same addresses again and again, or
    have too little work at once. The GPU is then busy, but neither its memory nor its arithmetic units are.

How it decides
    From the recorded shapes and types it counts operations and bytes, every tensor once, and divides by the time of
    the kernels. The lower of two roofs counts: the memory's bandwidth, or the peak of the type. An operator counts as
    slow below {slow-operator-share} of its roof, if a call at the roof would take at least 2 us. The ceiling is the
    time of all such operators, less what they would take at their roofs. Bytes that come from a cache can make an
    operator seem faster than its roof.

What to try
    Another layout (channels_last), another type, a mode that adds less, a fused kernel, more work at once. On one
    H100, the gradients of a bilinear interpolation took 18.5 ms in bfloat16, 4.4 ms in float32, 4.3 ms in
    channels_last and 1.7 ms in both; those of a nearest-neighbour interpolation 0.1 ms.

When it is wrong
    No kernel reaches its roof: half is typical, and for some operators there is no faster kernel. Kernels that share
    the GPU with others take longer. Products for unaligned data have their own rule.
"""

    def check(self, analysis: Analysis) -> Iterable[Finding]:
        trace = analysis.trace
        found = {device: slow_operators(analysis, device) for device in analysis.active_devices}
        device = max(found, key=lambda each: found[each].lost_ns, default=None)
        if device is None or not found[device].rows:
            return
        slow = found[device]
        kernels = np.concatenate(slow.kernels)
        busy = clip(union(*trace.events.spans(kernels)), *analysis.window)
        ceiling = min(slow.lost_ns, length(busy))
        if share(analysis, ceiling) < analysis.thresholds[MIN_SHARE]:
            return
        worst = slow.rows[0]
        yield self.finding(
            analysis,
            headline=Headline(
                f"{shortened(worst.name.removeprefix('aten::'), 36)} reaches {percent(worst.share)} of its roof",
                of_every_step(analysis, share(analysis, ceiling)),
                names_culprit=True,
            ),
            account=_account(analysis, slow.rows, length(busy)),
            remedy=faster_operator(worst.name),
            ceiling_ns=ceiling,
            culprit=Culprit(CulpritKind.OPERATOR, worst.name, note=shown_shapes(worst.dims)),
            device=device,
            evidence=event_evidence(trace, slow.kernels[0]),
            intervals=pairs(busy),
            unknown=(
                ours(
                    f"What {shortened(kernel_name(trace.name(worst.kernel)), 60)} waits for: profile it with "
                    "$NsightCompute."
                ),
            ),
            confidence="medium",
        )


def _account(analysis: Analysis, rows: tuple[OperatorRoof, ...], busy: int) -> str:
    worst = rows[0]
    steps = max(analysis.steps_in_window, 1)
    reached = rate(worst.rate) if worst.roof == MEMORY_ROOF else operations(worst.rate)
    text = (
        f"{worst.name} of {_described(worst)} is called {_often(analysis, worst)}, "
        f"{duration(worst.ns / worst.calls)} each. Going by its shapes, it does {reached}, {percent(worst.share)} "
        f"of {_roof(worst)}: at the roof it would take {duration(worst.ns * worst.share / worst.calls)}."
    )
    others = [
        f"{row.name} of {_described(row)} ({percent(row.share)}, {duration(lost_ns(row) / steps)})"
        for row in rows[1 : 1 + MAX_NAMED]
    ]
    if others:
        text += (
            f" Also far below it: {listed(others)}; all such operators take {part_of_step(analysis, busy)}."
        )
    return text


def _often(analysis: Analysis, row: OperatorRoof) -> str:
    return counted(analysis, row.calls, "time").replace("1 time ", "once ")


def _described(row: OperatorRoof) -> str:
    parts = (shown_shapes(row.dims), shown_type(row.dtype))
    return " in ".join(part for part in parts if part)


def _roof(row: OperatorRoof) -> str:
    return "the memory's peak" if row.roof == MEMORY_ROOF else f"the peak of {row.roof}"
