"""GPU memory is nearly full, or much of what is reserved is not used."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from parsers.model import Counter, Trace
from parsers.model.units import percent, size
from rules.analysis.analysis import Analysis
from rules.analysis.names.software import is_serving_engine
from rules.findings.base import Category, Evidence, Finding, Need, Rule, remedy, rule
from rules.losses.lost_time import any_stream
from rules.memory.relief import ranks_of, reliefs
from rules.memory.summary import MemorySummary, memory_of
from rules.terms.culprit import Culprit, CulpritKind
from rules.terms.shares import MAJORITY
from rules.terms.thresholds import Unit, threshold
from rules.wording.headline import Headline
from rules.wording.memory import given_back_sentence

NEARLY_FULL = threshold(
    "memory-full",
    "memory counts as nearly full from this share of the device's memory",
    Unit.SHARE,
    0.9,
    least=0.3,
    most=0.999,
    source="Kineto's plugin",
)
FRAGMENTED = 0.3  # of the most that is reserved: more than tensors ever use at once
MIN_UNUSED_BYTES = 1_000_000_000
MIN_RELIEF_SHARE = 0.02  # of the peak; less is not worth saying

_CODE = """torch.cuda.memory._record_memory_history()
train_step(batch)
torch.cuda.memory._dump_snapshot("memory.pickle")    # open it beside the trace
# PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True lowers fragmentation"""


@rule
class MemoryNearlyFull(Rule):
    """Peak and fragmentation of GPU memory."""

    id = "memory-nearly-full"
    category = Category.MEMORY_PEAK
    needs = frozenset({Need.MEMORY})
    explanation = """
What it found
    At its peak the program uses nearly all of the GPU's memory, or has reserved much more than its tensors use.

Why it costs time
    When memory is full, the allocator frees its cache and asks the driver again, which stalls the GPU; a little more
    and the program runs out of memory. Reserved but unused memory cannot be used for larger batches.

How it decides
    From the recorded counters: the peak of reserved memory above {memory-full} of the device's, or at least 1 GB and
    30 % more reserved than tensors ever use at once, if half of the device's memory is reserved. Serving engines take
    nearly all of it on purpose, for the KV cache, so nothing is reported for them.

What to try
    Smaller batches with gradient accumulation, activation checkpointing, 16-bit types, sharding (FSDP). Against
    fragmentation: expandable segments, and shapes that stay the same.

When it is wrong
    Other programs on the same GPU are not in these counters. Reserved memory may have been needed before the
    recording began.
"""

    def check(self, analysis: Analysis) -> Iterable[Finding]:
        trace = analysis.trace
        if is_serving_engine(trace):
            return
        for counter in trace.counters:
            name = counter.name.lower()
            if "reserved" not in name or "cpu" in name or not len(counter.value):
                continue
            allocated = _partner(trace, counter)
            found = self._judge(analysis, counter, allocated)
            if found is not None:
                yield found
                return

    def _judge(self, analysis: Analysis, reserved: Counter, allocated: Counter | None) -> Finding | None:
        trace = analysis.trace
        at = int(reserved.value.argmax())
        peak, when = float(reserved.value[at]), int(reserved.time[at])
        device = _device(trace, reserved)
        memory = trace.devices[device].memory_bytes if device is not None else None
        full = bool(memory) and peak > analysis.thresholds[NEARLY_FULL] * float(memory or 1)
        used = float(allocated.value.max()) if allocated is not None and len(allocated.value) else None
        unused = peak - used if used is not None else 0.0
        fragmented = unused >= MIN_UNUSED_BYTES and unused > FRAGMENTED * peak
        fragmented &= not memory or peak >= MAJORITY * memory
        if not full and not fragmented:
            return None
        summary = next((each for each in memory_of(analysis) if each.device == device), None)
        text = f"At its peak the program reserves {size(peak)}"
        text += f", {percent(peak / memory)} of the GPU's {size(memory)}." if memory else "."
        if used is not None:
            text += f" Tensors never use more than {size(used)} of it."
        return self.finding(
            analysis,
            headline=(
                Headline("GPU memory is nearly full", percent(peak / (memory or 1)))
                if full
                else Headline("Reserved memory is not used", size(unused))
            ),
            account=text + given_back_sentence(summary.given_back if summary is not None else 0),
            remedy=remedy(
                *(_helps(trace, summary) if full else ()),
                "Lower the peak: smaller batches with gradient accumulation, activation checkpointing, 16-bit types.",
                "Against fragmentation: PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True and constant shapes.",
                code=_CODE,
            ),
            culprit=Culprit(CulpritKind.COUNTER, reserved.name),
            device=device,
            evidence=(_moment(trace, device, when, reserved.name),),
            unknown=()
            if summary is not None and summary.account is not None and summary.account.memory.frames
            else ("Which tensors fill it: take a memory snapshot.",),
        )


def _helps(trace: Trace, summary: MemorySummary | None) -> tuple[str, ...]:
    """What would free most at the peak, with estimates; nothing where only totals were recorded."""
    if summary is None or summary.account is None:
        return ()
    found = reliefs(summary.account, summary.peak_at, ranks_of(trace))
    return tuple(each.said() for each in found if each.freed >= MIN_RELIEF_SHARE * summary.peak_allocated)


def _device(trace: Trace, counter: Counter) -> int | None:
    if counter.device is not None and 0 <= counter.device < len(trace.devices):
        return counter.device
    return 0 if len(trace.devices) == 1 else None


def _partner(trace: Trace, reserved: Counter) -> Counter | None:
    """The counter of allocated memory that belongs to one of reserved memory."""
    wanted = reserved.name.lower().replace("reserved", "allocated")
    return next(
        (each for each in trace.counters if each.name.lower() == wanted and each.rank == reserved.rank), None
    )


def _moment(trace: Trace, device: int | None, when: int, name: str) -> Evidence:
    lane = any_stream(trace, device) if device is not None else 0
    return Evidence(
        lane, when, int(np.minimum(when + 1000, max(trace.duration, when + 1))), f"peak of {name}"
    )
