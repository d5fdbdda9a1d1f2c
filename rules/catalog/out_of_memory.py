"""An allocation failed: what was asked for, what held the rest, and which limit was met."""

from __future__ import annotations

from collections.abc import Iterable

from parsers.model.units import size
from rules.analysis.analysis import Analysis
from rules.findings.base import Category, Evidence, Finding, Need, Remedy, Rule, Severity, rule
from rules.losses.lost_time import any_stream
from rules.memory.account import DeviceMemory, Shortage
from rules.memory.kinds import Kind
from rules.memory.relief import ranks_of, reliefs
from rules.memory.summary import memory_of
from rules.terms.culprit import NOBODY, Culprit, CulpritKind, SourceLine
from rules.wording.headline import Headline
from rules.wording.memory import given_back_sentence
from rules.wording.words import Words

_BEFORE = 20  # the twentieth part of the history before an allocation failed is shown with it
_MIN_HELP_SHARE = 0.1  # of what was asked for; less is not worth saying
_CODE = """model.gradient_checkpointing_enable()                     # transformers; else torch.utils.checkpoint
os.environ["PYTORCH_CUDA_ALLOC_CONF"] = "expandable_segments:True"    # before torch is imported; against fragmentation
# half the micro-batch, twice the gradient accumulation: the same step with half the activations"""


@rule
class OutOfMemory(Rule):
    """Speaks of every allocation that the snapshot says failed."""

    id = "out-of-memory"
    category = Category.OUT_OF_MEMORY
    needs = frozenset({Need.ALLOCATIONS})
    explanation = """
What it found
    The allocator could not get the memory the program requested.

Why it costs time
    The run ends there, or the allocator empties its cache and tries again, which stalls the GPU.

How it decides
    From the snapshot: what was requested, what was held at that moment and by what kind of tensors, what the
    allocator had reserved without using it, and what the device had left. If the unused part would have been enough,
    memory is fragmented; if the device had at least twice what was requested, the process hit its own limit
    (set_per_process_memory_fraction); otherwise the device is full.

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
        return self.finding(
            analysis,
            severity=Severity.HIGH,
            headline=Headline("Out of memory", f"{size(failure.requested)} requested, {_why(last)}"),
            account=_account(last, kinds, count) + given_back_sentence(given_back),
            remedy=Remedy(_remedies(analysis, account, last), _CODE),
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
