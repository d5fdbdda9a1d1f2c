"""What is said of a GPU's memory: its peak, what filled it, and what each step leaves."""

from __future__ import annotations

from parsers.model.memory import AFTER, BEFORE
from parsers.model.units import duration, percent, size
from rules.analysis.analysis import Analysis
from rules.memory.account import DeviceMemory, Site
from rules.memory.kinds import KINDS, Kind
from rules.memory.summary import MemorySummary
from rules.terms import MAJORITY
from rules.wording.words import short_place, times_said

_MIN_SHARE = 0.01  # of the peak; smaller kinds are not told
MIN_GIVEN_BACK = 10  # times: fewer are of a start, of an evaluation, or of another part of the program


def composition(summary: MemorySummary) -> str:
    """ "activations 1.11 GB, optimizer state 362 MB" at the peak; empty where only totals were recorded."""
    if summary.account is None:
        return ""
    kinds = summary.account.by_kind(summary.peak_at)
    return ", ".join(
        f"{kind} {size(held)}" for kind, held in kinds.items() if held >= _MIN_SHARE * summary.peak_allocated
    )


def peak_sentence(summary: MemorySummary) -> str:
    """One sentence for a recording that holds memory alone."""
    if summary.account is None:
        return f"Memory peaks at {size(summary.peak_allocated)}"
    kinds = summary.account.by_kind(summary.peak_at)
    first = next(iter(kinds), None)
    history = summary.account.has_history
    most = ""
    if first is not None and (history or first is not Kind.OLDER):
        held = kinds[first]
        of_what = "allocated before the recording" if first is Kind.OLDER else str(first)
        made = _made_in(summary.account, summary.peak_at, held) if first is Kind.UNKNOWN else None
        if made is not None:
            held = made.bytes
            of_what = f"allocated in {made.frame.function} ({short_place(made.frame.file)}:{made.frame.line})"
        most = f", {percent(held / summary.peak_allocated)} of it {of_what}"
    if not history:
        reserved = f" of {size(summary.peak_reserved)} reserved" if summary.peak_reserved else ""
        return f"The snapshot shows a single moment: {size(summary.peak_allocated)} in use{reserved}{most}"
    return f"Memory peaks at {size(summary.peak_allocated)}{most}"


def _made_in(account: DeviceMemory, when: int, held: int) -> Site | None:
    """The line that made most of what is of no known kind; None where no line did."""
    table = account.memory.allocations
    told = (table.start != BEFORE) | (table.end == AFTER)  # else the stack is of where it was freed
    unknown = account.alive(when) & told & (account.kind == KINDS.index(Kind.UNKNOWN))
    largest = next(iter(account.by_site(unknown)), None)
    return largest if largest is not None and largest.bytes >= MAJORITY * held else None


def given_back_sentence(times: int) -> str:
    """What it means that the allocator gave memory back; a sentence that follows others, empty for never."""
    if not times:
        return ""
    often = times_said(times)
    return (
        f" The allocator returned reserved memory to the driver {often}: an allocation failed and was retried, or "
        "the program called empty_cache()."
    )


def memory_lines(summary: MemorySummary, analysis: Analysis) -> list[str]:
    """The account of one GPU: a line of its peak, and indented ones of what filled it and what steps leave."""
    device = analysis.trace.devices[summary.device]
    name = f"rank {device.rank}, GPU {device.id}" if device.rank is not None else f"GPU {device.id}"
    reserved = f" of {size(summary.peak_reserved)} reserved" if summary.peak_reserved else ""
    when = f", at {duration(summary.peak_at)}" if analysis.is_timed else ""
    if summary.account is not None and not summary.account.has_history:
        return [f"Memory of {name}: {size(summary.peak_allocated)} allocated{reserved} when it was saved"]
    lines = [f"Memory of {name}: at most {size(summary.peak_allocated)} allocated{reserved}{when}"]
    if filled := composition(summary):
        lines.append(f"  at the peak: {filled}")
    after = summary.growth.after_steps
    if after:
        grows = f", {size(summary.growth.per_step)} more after each" if summary.growth.per_step else ""
        lines.append(f"  after the steps: {size(after[0])} to {size(after[-1])}{grows}")
    if summary.given_back >= MIN_GIVEN_BACK:
        lines.append(
            f"  returned to the driver and requested again {summary.given_back:,} times: the program called "
            "empty_cache(), or allocations failed and were retried"
        )
    return lines
