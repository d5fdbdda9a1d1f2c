"""GPU memory is allocated and freed through the driver in steady steps."""

from __future__ import annotations

from collections.abc import Iterable

from parsers.model import Trace
from parsers.model.late.regex import regex
from parsers.model.names.calls import Call
from parsers.model.names.per_name import named
from parsers.model.units import duration
from rules.analysis.analysis import Analysis
from rules.analysis.gpu.inside_window import api_calls, total
from rules.analysis.idle.causes import Cause
from rules.analysis.names.host_language import Audience, program_of
from rules.findings.base import Category, Finding, Need, Rule, rule
from rules.losses.lost_time import IdleTime, idle_finding
from rules.remedies.memory import kept_memory
from rules.terms.culprit import Culprit, CulpritKind
from rules.terms.thresholds import Unit, threshold
from rules.wording.phrases import counted, share, without_stacks
from rules.wording.words import Words, for_jax, for_native, ours

MIN_SHARE = threshold(
    "allocation",
    "allocating inside steps is reported from this share of the analysed time",
    Unit.SHARE,
    0.005,
    least=0.0001,
    most=0.5,
    source="a steady step allocates nothing, so even a little is a sign",
)

MANY_CALLS = 50  # in a step that ask for memory: one for each tensor
AS_MANY = 0.25  # by which the calls that give back may differ


_OF_HOST_MEMORY = regex(r"(cuda|hip|cuMem)\w*Host|cudaMallocHost")


@rule
class AllocationInStep(Rule):
    """Idle time inside cudaMalloc, cudaFree and the like."""

    id = "allocation-in-step"
    category = Category.ALLOCATOR
    needs = frozenset({Need.GPU_EVENTS, Need.LAUNCH_LINKS, Need.API_CALLS})
    explanation = """
What it found
    The program asks the driver for memory, or gives it back, in every step: cudaMalloc, cudaFree, cudaHostAlloc.

Why it costs time
    Each of these calls takes tens of microseconds to milliseconds, and cudaFree waits until the GPU has finished.
    Meanwhile nothing is launched. With a caching allocator they should be rare after the first steps.

How it decides
    It counts the time the GPU idles while the launching thread is inside such a call, and the time after a call that
    waited for the GPU, to the extent that the CPU had been ahead. Only steady steps count: allocating in the first
    steps is normal.

What to try
    Remove torch.cuda.empty_cache() from the loop. Keep shapes the same, or pad them to a few sizes. Use expandable
    segments. Leave some memory free: a full GPU makes the allocator free its cache and start again.

When it is wrong
    If the recording covers only the start of a program, allocation is expected. Recording memory use as well makes
    each of these calls longer: for one program, Nsight Systems with --cuda-memory-usage recorded 1.6 times the
    allocation time that PyTorch's profiler recorded without it.
"""

    def check(self, analysis: Analysis) -> Iterable[Finding]:
        trace = analysis.trace
        waiting = IdleTime(analysis, Cause.ALLOCATOR)
        if share(analysis, waiting.ns) < analysis.thresholds[MIN_SHARE]:
            return
        pinned = _is_of_host_memory(waiting.culprit)
        uncached = _without_cache(analysis, waiting)
        yield idle_finding(
            self,
            waiting,
            what="Allocating memory stalls the GPU",
            account=_explanation(analysis, waiting) + (_CACHE_IS_OFF if uncached else ""),
            remedy=kept_memory(trace, pinned=pinned, uncached=uncached),
            unknown=(
                for_jax("Which arrays: take a memory profile (jax.profiler.save_device_memory_profile)."),
                for_native(ours("Which line allocates: record backtraces ($RecordBacktraces).")),
                _cannot_tell(trace, pinned),
            ),
        )


_CACHE_IS_OFF = (
    " As many calls free memory as allocate it: PyTorch's cache, which does neither, is switched off."
)


def _without_cache(analysis: Analysis, waiting: IdleTime) -> bool:
    """Whether each tensor is a call of its own: many calls a step, half of which ask and half of which give back."""
    if program_of(analysis.trace) is not Audience.PYTORCH:
        return False
    calls = api_calls(analysis, waiting.device, Call.ALLOCATE)
    frees = int(named(analysis.trace, calls, lambda name: "Free" in name).sum())
    asks = len(calls) - frees
    many = asks >= MANY_CALLS * max(analysis.steps_in_window, 1)
    return many and abs(asks - frees) <= AS_MANY * asks


def _is_of_host_memory(culprit: Culprit) -> bool:
    return culprit.kind is CulpritKind.CALL and _OF_HOST_MEMORY.match(culprit.name) is not None


def _cannot_tell(trace: Trace, pinned: bool) -> Words:
    if pinned:
        return without_stacks(trace, "Which tensors are pinned: record with stacks (with_stack=True).")
    tensors = "which tensors are allocated: use torch.cuda.memory._record_memory_history()"
    if any("allocated memory" in counter.name for counter in trace.counters):
        return (
            "How much of these calls is recording overhead, because memory use was recorded as well: record once "
            f"without it. And {tensors}."
        )
    return f"{tensors[0].upper()}{tensors[1:]}, or record with profile_memory=True."


def _explanation(analysis: Analysis, waiting: IdleTime) -> str:
    calls = api_calls(analysis, waiting.device, Call.ALLOCATE)
    what = "Pinned host memory" if _is_of_host_memory(waiting.culprit) else "Memory"
    text = (
        f"{what} is allocated and freed: {counted(analysis, len(calls), 'call')}, "
        f"{duration(total(analysis, calls) / max(len(calls), 1))} each on average. Meanwhile the GPU idles: "
        f"{waiting.part}."
    )
    return f"{text} Where{waiting.on_worst}: {waiting.where(4)}."
