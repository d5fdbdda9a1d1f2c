"""The first recorded steps are warm-up and do not represent the run."""

from __future__ import annotations

from collections.abc import Iterable
from typing import ClassVar

import numpy as np

from parsers.model import EventKind, Trace
from parsers.model.units import duration, percent, three_digits
from rules.analysis.analysis import Analysis, analyse
from rules.analysis.calls import Call
from rules.analysis.idle_time import any_stream
from rules.analysis.phrases import listed
from rules.analysis.steps import Step
from rules.base import Category, Evidence, Finding, Need, rule, severity_of

LEAST_SHARE = 0.01

_CODE = """schedule = torch.profiler.schedule(wait=5, warmup=2, active=5)   # skip compilation and first allocations
with torch.profiler.profile(schedule=schedule, on_trace_ready=torch.profiler.tensorboard_trace_handler("trace")) as prof:
    for batch in loader:
        train_step(batch)
        prof.step()"""
_COMPILING = ("dynamo", "inductor", "compile", "CompiledFxGraph", "cudagraph", "autotune")


@rule
class WarmUpInRecording:
    """Leading steps much slower than the later ones."""

    id: ClassVar[str] = "warm-up-in-recording"
    category: ClassVar[Category] = Category.WARM_UP
    needs: ClassVar[frozenset[Need]] = frozenset({Need.GPU_EVENTS})
    explanation: ClassVar[str] = """
What it found
    The first steps of the recording take much longer than the later ones.

Why it costs time
    Compilation, loading of kernels, choosing of algorithms, first allocations: they happen once. In a recording they
    hide the steps that matter.

How it decides
    A leading step that takes more than 1.5 times the median of the later half is warm-up. All other findings are
    computed on the steady steps alone. The ceiling here is the extra time of the warm-up steps, against the whole
    recording.

What to try
    Record later steps. If start-up time itself matters: cache compiled code, compile fewer variants, mark dynamic
    shapes.

When it is wrong
    When steps differ by design, for instance with sequence lengths that shrink.
"""

    def check(self, trace: Trace) -> Iterable[Finding]:
        analysis = analyse(trace)
        best: tuple[int, int, list[Step], list[Step]] | None = None
        for rank in {step.rank for step in analysis.steps}:
            steps = [step for step in analysis.steps if step.rank == rank]
            warm, steady = [step for step in steps if not step.steady], [step for step in steps if step.steady]
            if not warm or not steady:
                continue
            usual = float(np.median([step.duration for step in steady]))
            extra = int(sum(max(step.duration - usual, 0) for step in warm))
            if best is None or extra > best[0]:
                best = (extra, max(step.end for step in steps) - min(step.start for step in steps), warm, steady)
        if best is None or best[0] < LEAST_SHARE * best[1]:
            return
        extra, whole, warm, steady = best
        usual = float(np.median([step.duration for step in steady]))
        slowest = max(warm, key=lambda step: step.duration)
        yield Finding(
            rule=self.id,
            category=self.category,
            severity=severity_of(extra, whole),
            title=f"Warm-up is in the recording: {percent(extra / whole)} of it",
            explanation=(
                f"{len(warm)} of {len(warm) + len(steady)} steps {'is' if len(warm) == 1 else 'are'} warm-up: {slowest.name} takes "
                f"{duration(slowest.duration)}, {three_digits(slowest.duration / max(usual, 1))} times a steady step "
                f"({duration(usual)}). All other findings look at the steady steps only.{_contains(analysis, slowest)}"
            ),
            advice=(
                "Record later steps: torch.profiler.schedule(wait=5, warmup=2, active=5).",
                "If start-up itself is too slow, keep compiled code between runs (TORCHINDUCTOR_FX_GRAPH_CACHE=1) and avoid recompilation.",
            ),
            ceiling_ns=extra,
            window_ns=whole,
            culprit=slowest.name,
            rank=slowest.rank,
            evidence=_evidence(trace, warm),
            intervals=tuple((step.start, step.end) for step in warm),
            code=_CODE,
            cannot_tell="Whether later steps would be slow again, for instance by recompiling for new shapes: record a longer run.",
        )


def _evidence(trace: Trace, warm: list[Step]) -> tuple[Evidence, ...]:
    lane = any_stream(trace, 0)
    return tuple(
        Evidence(
            int(trace.events.lane[step.event]) if step.event >= 0 else lane, step.start, step.end, step.name, step.event
        )
        for step in warm
    )


def _contains(analysis: Analysis, step: Step) -> str:
    """What of known start-up work lies in a step, as a sentence."""
    trace = analysis.trace
    parts = []
    inside = (trace.events.start >= step.start) & (trace.events.start < step.end)
    named = np.array([any(word in text for word in _COMPILING) for text in trace.strings], bool)
    cpu = np.isin(trace.events.kind, (EventKind.REGION, EventKind.CPU_OP, EventKind.PYTHON))
    if (inside & cpu & named[trace.events.name]).any():
        parts.append("compilation by torch.compile")
    api = inside & (trace.events.kind == EventKind.API)
    calls = analysis.threads.call_class[trace.events.name[api]]
    time = trace.events.duration[api]
    for classes, text in (((Call.ALLOCATE,), "memory allocation"), ((Call.LOAD,), "loading of kernels"), ((Call.GRAPH_BUILD,), "building of CUDA graphs")):
        spent = int(time[np.isin(calls, classes)].sum())
        if spent > 0.01 * step.duration:
            parts.append(f"{text} ({duration(spent)})")
    return f" It contains {listed(parts)}." if parts else ""
