"""Memory of a GPU that grows from step to step, is nearly full, or was not enough."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise

import numpy as np

from parsers.model import Counter, Trace
from parsers.model.units import percent, size
from rules.analysis.analysis import Analysis
from rules.analysis.names.software import is_serving_engine
from rules.findings.base import Category, Evidence, Finding, Need, Remedy, Rule, Severity, remedy, rule
from rules.losses.lost_time import any_stream
from rules.memory.account import DeviceMemory, Shortage
from rules.memory.kinds import Kind
from rules.memory.relief import ranks_of, reliefs
from rules.memory.summary import MemorySummary, memory_of
from rules.terms import MAJORITY, NOBODY, Culprit, CulpritKind, SourceLine, Unit, threshold
from rules.wording.memory import given_back_sentence
from rules.wording.words import Headline, Words, listed

USED = 0.02  # of what the full GPU holds: a process that only asks for a GPU leaves less there
_EVENLY = (
    "Give each GPU equally much: DataParallel hands out equally many items, however large they are. "
    "DistributedDataParallel with batches that are made by size fills all GPUs alike."
)
_GROWTH_CODE = """losses.append(loss.item())    # or loss.detach(): the number, not the graph that led to it
del outputs                   # before the next step asks for memory"""


@rule
class MemoryGrowth(Rule):
    id = "memory-growth"
    category = Category.MEMORY_GROWTH
    needs = frozenset({Need.MEMORY})
    explanation = """
What it found
    After each step more memory is allocated than after the step before.

Why it costs time
    The program will run out of memory after a predictable number of steps. Until then the allocator keeps asking the
    driver for more, which stalls the GPU.

How it decides
    From what is allocated when steps end, except the first: every step adds at least 0.5 % of the peak, and the
    smallest addition is at least half of the median one. Two or three additions must agree within 10 %.

What to try
    Keep numbers, not tensors that hold their graph: loss.item() or loss.detach(). Look for lists, caches and
    attributes that collect outputs. With a memory snapshot, the line that allocated what remains is named.

When it is wrong
    A cache that is being filled also grows, and then stops. Steps of increasing length look the same for a while.
"""

    def check(self, analysis: Analysis) -> Iterable[Finding]:
        for summary in memory_of(analysis):
            if summary.growth.per_step:
                yield _finding(self, analysis, summary)


def _finding(growth: Rule, analysis: Analysis, summary: MemorySummary) -> Finding:
    grown, account = summary.growth, summary.account
    text = (
        f"After each step, {size(grown.per_step)} more is allocated than after the previous one: "
        f"{size(grown.after_steps[1])} after the second step, {size(grown.after_steps[-1])} after the last of "
        f"{len(grown.after_steps)}."
    )
    culprit = NOBODY
    if account is not None:
        table = account.memory.allocations
        # The last step's own share may still be in use: what was made before it, and is held, is what stays.
        kept = account.alive(grown.ends[-1]) & (table.start >= grown.ends[0]) & (table.start < grown.ends[-2])
        sites = account.by_site(kept)
        if sites:
            line = sites[0].frame
            at = SourceLine(line.file, line.line, line.function)
            culprit = Culprit(CulpritKind.FRAME, f"{line.function}, {line.file}:{line.line}", at=at)
            text += f" Most of what remains was allocated below {line.function} ({line.file}:{line.line})."
        kinds = account.purposes_among(kept)
        if kinds:
            first = next(iter(kinds))
            total = max(sum(kinds.values()), 1)
            text += f" Of what remains, {percent(kinds[first] / total)} is {first}."
    lane = any_stream(analysis.trace, summary.device)
    memory = analysis.trace.devices[summary.device].memory_bytes
    left = (memory - summary.peak_allocated) // grown.per_step if memory else None
    if left is not None and left >= 0:
        text += f" At this rate the GPU's memory is full after about {left:,} more steps."
    return growth.finding(
        analysis,
        severity=Severity.MEDIUM,
        headline=Headline("Memory grows with every step", f"{size(grown.per_step)} more after each"),
        account=text,
        remedy=remedy(
            "Keep numbers instead of tensors that hold their graph: loss.item(), loss.detach().",
            "Look for anything that collects outputs: lists of losses, caches, attributes of modules, closures of "
            "hooks.",
            code=_GROWTH_CODE,
        ),
        culprit=culprit,
        rank=analysis.trace.devices[summary.device].rank,
        device=summary.device,
        evidence=tuple(
            Evidence(lane, start, end, "a step that leaves more than the previous one")
            for start, end in pairwise(grown.ends[-4:])
        ),
        after_steps=grown.after_steps,
        unknown=() if account is not None else ("Which line keeps it: take a memory snapshot.",),
    )


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

_FULL_CODE = """torch.cuda.memory._record_memory_history()
train_step(batch)
torch.cuda.memory._dump_snapshot("memory.pickle")    # open it beside the trace
# PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True lowers fragmentation"""


@rule
class MemoryNearlyFull(Rule):
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
    30 % more reserved than tensors ever use at once, if half of the device's memory is reserved. A snapshot without a
    history shows both at one moment alone. Serving engines take
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
        account = summary.account if summary is not None else None
        is_moment = account is not None and not account.has_history
        text = (
            "When the snapshot was saved, the program reserved"
            if is_moment
            else "At its peak the program reserves"
        )
        text += (
            f" {size(peak)}, {percent(peak / memory)} of the GPU's {size(memory)}."
            if memory
            else f" {size(peak)}."
        )
        if used is not None and is_moment:
            text += f" Tensors used {size(used)} of it."
        elif used is not None:
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
                code=_FULL_CODE,
            ),
            culprit=Culprit(CulpritKind.COUNTER, reserved.name),
            device=device,
            evidence=(_moment(trace, device, when, reserved.name),),
            unknown=()
            if account is not None and account.memory.frames
            else ("Whether tensors used more of it before: record the history (_record_memory_history).",)
            if is_moment
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


_BEFORE = 20  # the twentieth part of the history before an allocation failed is shown with it
_MIN_HELP_SHARE = 0.1  # of what was asked for; less is not worth saying
_SHORTAGE_CODE = """\
model.gradient_checkpointing_enable()                     # transformers; else torch.utils.checkpoint
os.environ["PYTORCH_CUDA_ALLOC_CONF"] = "expandable_segments:True"    # before torch is imported; against fragmentation
# half the micro-batch, twice the gradient accumulation: the same step with half the activations"""


@rule
class OutOfMemory(Rule):
    id = "out-of-memory"
    category = Category.OUT_OF_MEMORY
    needs = frozenset({Need.ALLOCATIONS})
    explanation = f"""
What it found
    The allocator could not get the memory the program requested.

Why it costs time
    The run ends there, or the allocator empties its cache and tries again, which stalls the GPU.

How it decides
    From the snapshot: what was requested, what was held at that moment and by what kind of tensors, what the
    allocator had reserved without using it, and what the device had left. If the unused part would have been enough,
    memory is fragmented; if the device had at least twice what was requested, the process hit its own limit
    (set_per_process_memory_fraction); otherwise the device is full. If the process uses other GPUs as well, each for
    at least {percent(USED)} of what this one holds, and none held half as much, the work is split unevenly.

What to try
    Reduce what holds most: checkpointing or smaller micro-batches for activations, an 8-bit or sharded optimizer for
    its state, expandable segments against fragmentation.

When it is wrong
    A program that catches the error and continues with a smaller batch has already fixed it. Memory of other
    processes on the same GPU is not in the snapshot.
"""

    def check(self, analysis: Analysis) -> Iterable[Finding]:
        for summary in memory_of(analysis):
            if summary.account is not None and summary.shortages:
                yield self._finding(
                    analysis,
                    summary.account,
                    summary.shortages[-1],
                    len(summary.shortages),
                    summary.given_back,
                )

    def _finding(
        self, analysis: Analysis, account: DeviceMemory, last: Shortage, count: int, given_back: int
    ) -> Finding:
        trace, failure = analysis.trace, last.failure
        kinds = account.by_kind(failure.time)
        stack = account.memory.stack(failure.stack)
        own = account.by_site(account.made_below(failure.stack)) if stack else ()
        uneven = _hold_less(analysis, account, last)
        return self.finding(
            analysis,
            severity=Severity.HIGH,
            headline=Headline("Out of memory", f"{size(failure.requested)} requested, {_why(last)}"),
            account=_account(last, kinds, count) + uneven + given_back_sentence(given_back),
            remedy=Remedy(
                (*((_EVENLY,) if uneven else ()), *_remedies(analysis, account, last)), _SHORTAGE_CODE
            ),
            culprit=(
                Culprit(
                    CulpritKind.FRAME,
                    f"{own[0].frame.function}, {own[0].frame.file}:{own[0].frame.line}",
                    at=SourceLine(own[0].frame.file, own[0].frame.line, own[0].frame.function),
                )
                if own
                else NOBODY
            ),
            rank=trace.devices[account.device].rank,
            device=account.device,
            evidence=(
                Evidence(
                    any_stream(trace, account.device),
                    max(failure.time - max(int(account.time[-1] - account.time[0]) // _BEFORE, 1000), 0),
                    failure.time + 1000,
                    "up to the failed allocation",
                ),
            ),
        )


def _hold_less(analysis: Analysis, full: DeviceMemory, last: Shortage) -> str:
    """ " GPU 0 held at most 8.46 GB." of others that the process uses, where none holds half as much; else empty."""
    devices = analysis.trace.devices
    told, most = [], 0
    for each in memory_of(analysis):
        other = each.account
        if other is None or other.device == full.device:
            continue
        if devices[other.device].rank != devices[full.device].rank or not len(other.held):
            continue
        held = int(other.held[other.time <= last.failure.time].max(initial=0))
        if held >= USED * last.allocated:
            told.append(f"GPU {devices[other.device].id} held at most {size(held)}")
            most = max(most, held)
    return f" {listed(told)}: the work is split unevenly." if told and 2 * most <= last.allocated else ""


def _why(last: Shortage) -> str:
    if last.fragmented:
        return "and the free memory is fragmented"
    return "more than the process may have" if last.own_limit else "and the GPU is full"


def _account(last: Shortage, kinds: dict[Kind, int], count: int) -> str:
    failure = last.failure
    held = ", ".join(f"{kind} {size(held)}" for kind, held in kinds.items() if held >= 0.01 * last.allocated)
    text = f"{size(failure.requested)} was requested while {size(last.allocated)} was allocated: {held}. "
    text += f"The allocator had {size(last.reserved)} from the driver, {size(last.unused)} of it unused"
    text += f" (the largest piece {size(last.largest_hole)}). " if last.largest_hole else ". "
    if last.fragmented:
        text += "That would have been enough in one piece: memory is fragmented, not full."
    elif last.own_limit:
        text += (
            f"The device had {size(failure.free or 0)} left, so the process hit its own limit, at about "
            f"{size(last.reserved)}; it is not fragmentation."
        )
    else:
        left = f"The device had {size(failure.free)} left: it" if failure.free is not None else "The device"
        text += f"{left} is truly full; it is not fragmentation."
    return text + (f" {count} allocations failed; this was the last." if count > 1 else "")


def _remedies(analysis: Analysis, account: DeviceMemory, last: Shortage) -> tuple[Words, ...]:
    """What would help, by what holds most, each with an estimate."""
    needed = last.failure.requested
    said: list[str] = []
    if last.fragmented:
        said.append(
            f"PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True makes the fragmented {size(last.unused)} usable."
        )
    elif last.own_limit:
        said.append("Raise the process's own limit: torch.cuda.set_per_process_memory_fraction.")
    said += [
        each.said(needed)
        for each in reliefs(account, last.failure.time, ranks_of(analysis.trace))
        if each.freed >= _MIN_HELP_SHARE * needed
    ]
    return tuple(said) or ("Lower the peak: smaller batches, 16-bit types, sharding.",)
