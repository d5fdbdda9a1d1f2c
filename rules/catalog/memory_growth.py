"""Each step leaves more memory allocated than the one before."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise

from parsers.model.units import percent, size
from rules.analysis.analysis import Analysis
from rules.findings.base import Category, Evidence, Finding, Need, Rule, Severity, remedy, rule
from rules.losses.lost_time import any_stream
from rules.memory.summary import MemorySummary, memory_of
from rules.terms.culprit import NOBODY, Culprit, CulpritKind, SourceLine
from rules.wording.headline import Headline

_CODE = """losses.append(loss.item())    # or loss.detach(): the number, not the graph that led to it
del outputs                   # before the next step asks for memory"""


@rule
class MemoryGrowth(Rule):
    """Speaks when what is held after each step rises steadily."""

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
            code=_CODE,
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
