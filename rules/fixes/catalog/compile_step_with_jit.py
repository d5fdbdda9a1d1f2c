"""Operations of JAX that are dispatched one by one are compiled into one program."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from parsers.model import BOOL, F64, EventKind
from parsers.model.events import of_kinds
from parsers.model.names.per_name import named
from rules.analysis.analysis import Analysis
from rules.analysis.names.families import Family
from rules.findings.category import Category
from rules.fixes.base import Proposal, fix
from rules.fixes.changes import together
from rules.remedies.compiling import JIT_THE_STEP
from rules.replay.overlay import Overlay
from rules.replay.replay import Change, Replay
from rules.replay.surroundings import surroundings_of

MIN_DISPATCHES = 10  # in a step: fewer are a program that is compiled already
DISPATCH_NS = 100_000.0  # one call of a compiled step: docs/predictions.md
# between two dispatches: as long as this Python may do something that cannot be compiled
LONG_NS = 1_000_000.0

_STAYING = (Family.GEMM, Family.CONVOLUTION, Family.ATTENTION, Family.SORT)


@fix
class CompileStepWithJit:
    """A step of JAX without ``jit``."""

    id = "compile-step-with-jit"
    explanation = """
When it applies
    JAX dispatches at least 10 compiled functions in a step, most of them single operations.

What is changed in the replay
    Each run of dispatches between two waits becomes one call: the host time between and inside the others is gone.
    The kernels stay as they are, and so do waits and the work of data loaders. At best XLA fuses all kernels that
    only move memory into the others.

What makes it more or less
    How much XLA fuses. Python code between two operations that takes a millisecond or more may not be compilable:
    then it stays.
"""

    def proposals(self, analysis: Analysis, replay: Replay) -> Iterable[Proposal]:
        count = _dispatches_per_step(analysis)
        if count < MIN_DISPATCHES:
            return
        host, around = replay.host, surroundings_of(analysis)
        dispatched = around.inside(_is_dispatch)
        waits = replay.waits.target >= 0
        edge = np.append(True, (np.diff(host.step) != 0) | (np.diff(host.thread) != 0) | waits[:-1])
        stretch = np.cumsum(edge)
        inside = np.bincount(stretch[dispatched], minlength=int(stretch.max(initial=0)) + 1)[stretch] > 0
        inside &= ~waits
        first = inside & np.append(True, np.diff(stretch) != 0)
        loading = np.minimum(around.input_ns, host.gap)
        foreign = np.where(around.silent_ns >= LONG_NS, np.maximum(around.silent_ns, loading), loading)

        yield Proposal(
            title=f"Compile the step with jax.jit: {count:,.0f} functions are dispatched one by one in it",
            categories=(Category.LAUNCH_BOUND,),
            culprit="operations that JAX dispatches one by one",
            remedy=JIT_THE_STEP,
            expected=_one_call(inside, first, loading),
            high=together(_one_call(inside, first, loading), _fused(analysis, replay, inside)),
            low=_one_call(inside, first, foreign) if (foreign > loading).any() else None,
            depends_on="how much of the Python code between the operations can be compiled too",
        )


def _is_dispatch(name: str) -> bool:
    """JAX's own range around each call of a compiled function; an operation outside of ``jit`` is one, too."""
    return name.startswith("PjitFunction(")


def _dispatches_per_step(analysis: Analysis) -> float:
    """Calls of compiled functions in the window, those inside others left out, for each step of one rank."""
    trace, (t0, t1) = analysis.trace, analysis.window
    events = np.flatnonzero(of_kinds(trace.events.kind, EventKind.REGION, EventKind.CPU_OP))
    events = events[named(trace, events, _is_dispatch)]
    events = events[(trace.events.start[events] >= t0) & (trace.events.start[events] < t1)]
    count = 0
    for lane in np.unique(trace.events.lane[events]).tolist():
        mine = events[trace.events.lane[events] == lane]
        mine = mine[np.lexsort((-trace.events.end[mine], trace.events.start[mine]))]
        before = np.append(t0, np.maximum.accumulate(trace.events.end[mine])[:-1])
        count += int(np.count_nonzero(trace.events.start[mine] >= before))
    return count / max(analysis.steps_in_window, 1)


def _one_call(inside: BOOL, first: BOOL, kept: F64) -> Change:
    def change(overlay: Overlay) -> None:
        overlay.gap[inside] = np.minimum(overlay.gap, kept)[inside]
        overlay.cost[inside] = np.where(first, DISPATCH_NS, 0.0)[inside]

    return change


def _fused(analysis: Analysis, replay: Replay, inside: BOOL) -> Change:
    device = replay.device
    family = analysis.family_of_string[analysis.trace.events.name[device.event]]
    gone = inside[device.launch] & ~of_kinds(family, *_STAYING) & (device.meeting < 0)

    def change(overlay: Overlay) -> None:
        overlay.present[gone] = False

    return change
