"""Leading steps that are slower than the rest: how much they add, and what of start-up work they contain."""

from __future__ import annotations

from functools import partial

import numpy as np

from parsers.model import EventKind
from parsers.model.arrays import median_of
from parsers.model.events import of_kinds
from parsers.model.late import dataclass
from parsers.model.names.calls import Call
from parsers.model.names.per_name import judged
from parsers.model.names.steps import numbered
from parsers.model.units import duration
from rules.analysis.analysis import Analysis
from rules.analysis.arithmetic.intervals import durations
from rules.analysis.names.operators import COMPILERS, TORCH_SCRIPT, is_work_of
from rules.analysis.steps.steps import Step
from rules.findings.base import Evidence
from rules.losses.lost_time import any_stream
from rules.terms import MAJORITY
from rules.wording.words import Words, ours

NOTEWORTHY_SHARE = 0.01  # of the slow step
BEYOND_RECORDER = 5.0  # times a steady step: starting a recorder costs less
COMPUTING = 0.8  # of a slow step: then it is the GPU's own work that takes so long
MIN_COMPILE_SHARE = 0.05
MIN_LOADING_SHARE = 0.2
MANY_EVENTS = 20  # of a compiler, however short


@dataclass(frozen=True, slots=True)
class WarmUp:
    """The warm-up of the rank that loses most by it. Times in ns."""

    warm: tuple[Step, ...]
    steady: tuple[Step, ...]
    usual_ns: float  # median steady step
    extra_ns: int  # what the warm-up steps take beyond it
    recorded_ns: int  # the whole recording
    contains: tuple[Words, ...]  # start-up work found in the slowest step
    compilers: tuple[str, ...]  # whose work is among it
    starts_up: bool  # it is the program that starts, not the recording
    works: bool  # neither: the GPU has that much more to compute, as for a long prompt

    @property
    def slowest(self) -> Step:
        return max(self.warm, key=lambda step: step.duration)


def warm_up(analysis: Analysis) -> WarmUp | None:
    """The warm-up steps; None when all steps are steady."""
    best: tuple[int, list[Step], list[Step], float] | None = None
    for rank in sorted({step.rank if step.rank is not None else -1 for step in analysis.steps}):
        steps = [step for step in analysis.steps if (step.rank if step.rank is not None else -1) == rank]
        warm, steady = [step for step in steps if not step.steady], [step for step in steps if step.steady]
        if not warm or not steady:
            continue
        usual = float(median_of([step.duration for step in steady]))
        warm = [step for step in warm if step.start < steady[0].start and step.duration > usual]
        if not warm:
            continue
        extra = int(sum(max(step.duration - usual, 0.0) for step in warm))
        if best is None or extra > best[0]:
            best = (extra, warm, steady, usual)
    if best is None:
        return None
    extra, warm, steady, usual = best
    compilers, contains, one_off = _start_up_work(analysis, max(warm, key=lambda step: step.duration))
    count = numbered(warm[0].name)
    begins_at_zero = count is not None and count[1] == 0
    much_slower = max(step.duration for step in warm) > BEYOND_RECORDER * usual
    works = much_slower and not (one_off or begins_at_zero) and _computes(analysis, warm)
    return WarmUp(
        warm=tuple(warm),
        steady=tuple(steady),
        usual_ns=usual,
        extra_ns=extra,
        recorded_ns=max(analysis.trace.duration, extra),
        contains=contains,
        compilers=compilers,
        starts_up=one_off or begins_at_zero or (much_slower and not works),
        works=works,
    )


def _computes(analysis: Analysis, steps: list[Step]) -> bool:
    """Whether a GPU of their rank computes nearly all the time that they take."""
    taken = sum(step.duration for step in steps)
    times = [
        analysis.time(device)
        for device in analysis.active_devices
        if analysis.trace.devices[device].rank == steps[0].rank
    ]
    computed = [sum(each.within(each.compute, step.start, step.end) for step in steps) for each in times]
    return max(computed, default=0) >= COMPUTING * taken


def _start_up_work(analysis: Analysis, step: Step) -> tuple[tuple[str, ...], tuple[Words, ...], bool]:
    """Whose compiling and what start-up work lies in a step, and whether it proves that the program starts up."""
    trace = analysis.trace
    lanes = np.array([lane.rank == step.rank for lane in trace.lanes], bool)
    inside = (trace.events.start >= step.start) & (trace.events.start < step.end) & lanes[trace.events.lane]
    length = max(step.duration, 1)
    compilers = []
    one_off = False
    cpu = np.flatnonzero(inside & of_kinds(trace.events.kind, *_OF_CPU))
    names = trace.events.name[cpu]
    for compiler, pattern in COMPILERS:
        mine = cpu[judged(names, trace.strings, partial(is_work_of, pattern)) > 0]
        spent = int(durations(trace, mine).max(initial=0))
        if compiler == TORCH_SCRIPT and spent < MAJORITY * length:
            continue  # its calls bear the same name when they are fast
        if spent > NOTEWORTHY_SHARE * length or len(mine) > MANY_EVENTS:
            compilers.append(compiler)
            one_off |= spent > MIN_COMPILE_SHARE * length or len(mine) > MANY_EVENTS
    parts: list[Words] = [f"compilation by {each}" for each in compilers]
    api = np.flatnonzero(inside & (trace.events.kind == EventKind.API))
    calls = analysis.threads.call_class[trace.events.name[api]]
    for call, text in _START_UP_CALLS:
        spent = int(durations(trace, api[calls == call]).sum())
        if spent > NOTEWORTHY_SHARE * length:
            parts.append(text + f" ({duration(spent)})")
        one_off |= call is not Call.ALLOCATE and spent > MIN_LOADING_SHARE * length
    return tuple(compilers), tuple(parts), one_off


_OF_CPU = (EventKind.REGION, EventKind.CPU_OP, EventKind.PYTHON)
_START_UP_CALLS: tuple[tuple[Call, Words], ...] = (
    (Call.ALLOCATE, "memory allocation"),
    (Call.LOAD, "loading of kernels"),
    (Call.GRAPH_BUILD, ours("building of $CUDA graphs")),
)


def step_evidence(analysis: Analysis, steps: tuple[Step, ...]) -> tuple[Evidence, ...]:
    """Steps as evidence: on their annotation's lane, else on a stream of the GPU."""
    trace = analysis.trace
    lane = any_stream(trace, analysis.active_devices[0]) if analysis.active_devices else 0
    return tuple(
        Evidence(
            int(trace.events.lane[step.event]) if step.event >= 0 else lane,
            step.start,
            step.end,
            step.name,
            step.event,
        )
        for step in steps
    )
