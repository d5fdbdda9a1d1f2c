"""Kernels measured from the inside: in which of the parts that their author marked warps spend their time."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from parsers.model.units import percent
from rules.analysis.analysis import Analysis
from rules.analysis.beside.inside_kernels import KernelInside, inside_kernels
from rules.findings.base import Category, Finding, Need, Rule, remedy, rule
from rules.losses.lost_time import evidence_of
from rules.terms.culprit import Culprit, CulpritKind
from rules.wording.headline import Headline
from rules.wording.phrases import listed, shortened

MAX_NAMED = 3  # kernels
MIN_NAMED = 0.01  # of the warps' time
MAX_NAME = 25  # characters, so that two fit into a title
UNEVEN = 1.5  # times the median warp: then the slowest one decides how long the kernel takes
_CODE = """import triton.profiler.language as pl
pl.enable_semantic("triton")

with pl.scope("load"):          # inside the kernel, around each part that is to be told apart
    a = tl.load(a_ptr + offsets)"""


@rule
class InsideKernels(Rule):
    """Information: which part of a kernel its warps spend most time in, and whether they are equally fast."""

    id = "inside-kernels"
    category = Category.WHAT_WAS_RECORDED
    needs = frozenset({Need.INSIDE_KERNELS})
    explanation = f"""
What it found
    A kernel was measured from the inside: its author marked parts of it, and each warp noted when it ran them.

Why it costs time
    It does not. The part that takes most of the warps' time is where a faster kernel has to be made.

How it decides
    Each moment of each warp is assigned to the innermost part it is in; warps of all blocks and launches are added
    up. Parts with at least {percent(MIN_NAMED)} of the time are named. Warps are called uneven if the slowest one
    takes at least {UNEVEN} times as long as the median one.

What to try
    Mark smaller parts inside the largest one, until it is clear which lines it is. Waiting for loads is reduced by
    fetching earlier or by larger tiles, computing by tensor cores or cheaper functions.

When it is wrong
    Compilers move instructions across marks, and a load is waited for where its value is used, not where it stands.
    A first launch fills caches and is slower than others.
"""

    def check(self, analysis: Analysis) -> Iterable[Finding]:
        trace = analysis.trace
        for kernel in inside_kernels(trace)[:MAX_NAMED]:
            if not kernel.whole:
                continue
            longest = kernel.warps[np.argsort(-kernel.times, kind="stable")[:3]]
            yield self.finding(
                analysis,
                headline=_headline(kernel),
                account=_account(kernel),
                remedy=remedy(
                    "Mark smaller parts inside the largest one, to see which of its lines take the time.",
                    *(
                        (
                            "Give all warps the same amount of work: the kernel lasts as long as its slowest one.",
                        )
                        if kernel.slowest >= UNEVEN
                        else ()
                    ),
                    code=_CODE,
                ),
                culprit=Culprit(CulpritKind.KERNEL, shortened(kernel.name, 80)),
                evidence=evidence_of(trace, longest),
                unknown=("What warps wait for in it: Nsight Compute names the stalls of each line.",),
                confidence="medium",
            )


def _headline(kernel: KernelInside) -> Headline:
    part, time = kernel.parts[0]
    share = percent(time / kernel.whole)
    where = f"in {shortened(part, MAX_NAME)}" if part else "in none of the marked parts"
    return Headline(f"{share} of its warps' time is {where}", subject=shortened(kernel.name, MAX_NAME))


def _account(kernel: KernelInside) -> str:
    count = len(kernel.warps)
    named = [(name, time / kernel.whole) for name, time in kernel.parts if time >= MIN_NAMED * kernel.whole]
    parts = listed(
        [f"{shortened(name, MAX_NAME) or 'no marked part'} ({percent(share)})" for name, share in named]
    )
    warps = f"{count:,} warps" if count != 1 else "1 warp"
    on = f"{kernel.units:,} multiprocessors" if kernel.units != 1 else "1 multiprocessor"
    text = f"The time of {warps} on {on} goes to {parts}."
    if kernel.slowest >= UNEVEN:
        text += f" The slowest warp took {kernel.slowest:.1f} times as long as the median one."
    return text
