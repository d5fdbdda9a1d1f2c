"""The recording itself slows the program down."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from parsers.model import EventKind
from parsers.model.units import percent
from rules.analysis.analysis import Analysis
from rules.analysis.arithmetic.intervals import Intervals, clip, intersect, length, pairs, union
from rules.analysis.idle.causes import Cause
from rules.findings.base import Category, Finding, Rule, Severity, remedy, rule, severity_of
from rules.losses.lost_time import event_evidence
from rules.terms import Unit, reason, threshold
from rules.wording.words import (
    Headline,
    for_jax,
    for_native,
    for_pytorch,
    listed,
    of_every_step,
    ours,
    part_of_step,
    share,
)

NOTABLE_SHARE = threshold(
    "recording-overhead",
    "recording overhead is reported from this share of the analysed time",
    Unit.SHARE,
    0.05,
    least=0.001,
    most=0.5,
    source="nsys-ai; 15 % contaminates a recording",
)
MIN_IDLE_SHARE = 0.05  # stacks and memory only matter where the GPU waits for the CPU
_HOST_CAUSES = (Cause.LAUNCH, Cause.HOST, Cause.INPUT)

_WITHOUT_EXTRAS = (
    "For timing, record again without stacks, memory and shapes, and use this recording to find the cause."
)
_CODE = """with torch.profiler.profile(with_stack=False, profile_memory=False, record_shapes=False) as prof:
    train_step(batch)      # times from this run; stacks and memory from another"""


@rule
class RecordingSlowsHost(Rule):
    id = "recording-slows-host"
    category = Category.RECORDING_OVERHEAD
    explanation = """
What it found
    The profiler takes part of the time it measures.

Why it costs time
    It costs nothing without the profiler, but the numbers here are too high. Python stacks cost about a microsecond
    for every function call, and shapes and memory a little more for every operator.

How it decides
    The recording says how it was made (with_stack, profile_memory), and the profiler records its own work as overhead
    events. It is reported when stacks or memory were recorded and the GPU waits for the CPU at least 5 % of the time,
    or when overhead events cover at least {recording-overhead} of the GPU's idle time in the window.

What to try
    Take times from a recording without stacks, memory and shapes, and use the detailed one to find the cause.

When it is wrong
    If the GPU never waits for the CPU, a slower CPU changes nothing.
"""

    def check(self, analysis: Analysis) -> Iterable[Finding]:
        trace = analysis.trace
        if not analysis.active_devices:
            return
        device = max(analysis.active_devices, key=lambda each: sum(_idle(analysis, each).values()))
        waiting = sum(_idle(analysis, device).values())
        own = _profiler_time(analysis, device)
        options = [
            text
            for text, used in (
                ("Python stacks", trace.capture.with_stack),
                ("memory", trace.capture.profile_memory),
            )
            if used
        ]
        costly = bool(options) and share(analysis, waiting) >= MIN_IDLE_SHARE
        if not costly and share(analysis, length(own)) < analysis.thresholds[NOTABLE_SHARE]:
            return
        frames = trace.events.of_kind(EventKind.PYTHON)
        text = ""
        if options:
            text = (
                f"This was recorded with {listed(options)}, which makes every operator slower"
                + (f" ({len(frames):,} Python calls were recorded)" if len(frames) else "")
                + f". The GPU waits for the CPU {percent(share(analysis, waiting))} of the time; without them it "
                "would be less."
            )
        if length(own):
            text += f" While the profiler itself works, the GPU idles: {part_of_step(analysis, length(own))}."
        yield self.finding(
            analysis,
            severity=severity_of(length(own), analysis.window_ns) if length(own) else Severity.INFO,
            headline=(
                Headline(
                    "The recording slows the CPU",
                    f"{listed(options)} {'were' if trace.capture.with_stack else 'was'} recorded",
                )
                if options
                else Headline(
                    "The profiler itself stalls the GPU",
                    of_every_step(analysis, share(analysis, length(own))),
                )
            ),
            account=text.strip(),
            remedy=remedy(
                for_pytorch(_WITHOUT_EXTRAS),
                for_native(_WITHOUT_EXTRAS),
                for_jax(
                    "For timing, record again without Python frames (ProfileOptions.python_tracer_level = 0), and "
                    "use this recording to find the cause."
                ),
                code=for_pytorch(_CODE),
            ),
            ceiling_ns=length(own),
            culprit=reason(
                "with_stack"
                if trace.capture.with_stack
                else "profile_memory"
                if trace.capture.profile_memory
                else "profiler"
            ),
            device=device,
            evidence=event_evidence(trace, trace.events.of_kind(EventKind.OVERHEAD), 10),
            intervals=pairs(own),
            unknown=(ours("How long the step takes without the profiler: time it with $CUDA events."),),
            confidence="medium",
            of_recording=True,
        )


def _idle(analysis: Analysis, device: int) -> dict[Cause, int]:
    budget = analysis.budgets(device)
    return {cause: budget.idle_ns[cause] for cause in _HOST_CAUSES}


def _profiler_time(analysis: Analysis, device: int) -> Intervals:
    """Idle time of the GPU while the profiler was at work, inside the window."""
    trace = analysis.trace
    rank = trace.devices[device].rank
    events = trace.events.of_kind(EventKind.OVERHEAD)
    mine = np.array([lane.rank == rank for lane in trace.lanes], bool)
    events = events[mine[trace.events.lane[events]]]
    time = analysis.time(device)
    idle = union(
        np.concatenate([time.idle[cause][0] for cause in _HOST_CAUSES]),
        np.concatenate([time.idle[cause][1] for cause in _HOST_CAUSES]),
    )
    overhead = union(*trace.events.spans(events))
    return clip(intersect(overhead, idle), *analysis.window)
