"""A profile of kernels without a timeline: which kernels and which scopes take the GPU's time."""

from __future__ import annotations

from collections.abc import Iterable

from parsers.model.units import NS_PER_MS, duration, percent
from rules.analysis.analysis import Analysis
from rules.analysis.beside.kernel_times import KernelTime, KernelTimes, kernel_times
from rules.findings.base import Category, Finding, Need, Rule, remedy, rule
from rules.terms.culprit import Culprit, CulpritKind
from rules.wording.headline import Headline
from rules.wording.phrases import listed, shortened

MAX_NAMED = 3
MIN_NAMED = 0.05  # of the kernels' time
NEAR_THE_LIMIT = 0.8  # of the memory's bandwidth: a kernel as fast as that can only move less
MAX_NAME = 40  # characters
_CODE = """import triton.profiler as proton
proton.start("run", data="trace", hook="triton")  # when each kernel ran, too
...
proton.finalize()"""


@rule
class ProfiledTimes(Rule):
    """Information: where the GPU's time goes, by kernel and by scope."""

    id = "profiled-times"
    category = Category.WHAT_WAS_RECORDED
    needs = frozenset({Need.KERNEL_TIMES})
    explanation = f"""
What it found
    A profile states how long each kernel ran in all, and which scope or line launched it.

Why it costs time
    It may cost nothing. These are the kernels to make faster, if the GPU is what the program waits for.

How it decides
    Times of all launches are added up. Kernels and scopes with at least {percent(MIN_NAMED)} of the time are named.
    Where the program stated the bytes that a kernel moves, they are divided by its time and compared with the
    bandwidth that follows from the memory's clock and width.

What to try
    Make the longest kernel faster. One that reaches {percent(NEAR_THE_LIMIT)} of the memory's bandwidth only becomes
    faster by moving less: by fusion, or with smaller data types.

When it is wrong
    A profile without a timeline shows neither gaps nor waiting: a GPU that is idle most of the time looks the same.
    Kernels of the backward pass start on a thread of its own, outside the scopes around the forward pass.
"""

    def check(self, analysis: Analysis) -> Iterable[Finding]:
        times = kernel_times(analysis.trace)
        if not times.kernels or not times.ms:
            return
        longest = times.kernels[0]
        has_timeline = len(analysis.trace.gpu_operations) > 0
        yield self.finding(
            analysis,
            headline=Headline(
                f"{percent(longest.ms / times.ms)} of the kernels' time is in {shortened(longest.name, MAX_NAME)}",
                names_culprit=True,
            ),
            account=_account(times),
            remedy=remedy(_advice(longest))
            if has_timeline
            else remedy(
                _advice(longest), "Record a timeline as well, to see whether the GPU waits.", code=_CODE
            ),
            culprit=Culprit(CulpritKind.KERNEL, longest.name),
            unknown=()
            if has_timeline
            else ("Whether the GPU was idle between kernels: this requires a timeline.",),
        )


def _advice(longest: KernelTime) -> str:
    if NEAR_THE_LIMIT <= _reached(longest) <= 1:
        return "Let it move less: fuse it with its neighbours, or use a smaller data type."
    return "Profile the longest kernel with Nsight Compute, to see what limits it."


def _reached(kernel: KernelTime) -> float:
    """The part of the memory's bandwidth; above 1, data came from a cache or was not moved."""
    return kernel.moved / kernel.possible if kernel.possible else 0.0


def _account(times: KernelTimes) -> str:
    launches = sum(each.launches for each in times.kernels)
    ran = f"{launches:,.0f} launches" if launches > 1 else "The kernels"
    named = [each for each in times.kernels if each.ms >= MIN_NAMED * times.ms][:MAX_NAMED]
    kernels = listed([f"{shortened(each.name, MAX_NAME)} ({percent(each.ms / times.ms)})" for each in named])
    text = f"{ran} ran for {duration(times.ms * NS_PER_MS)} in all"
    text += f", most of it in {kernels}." if named else "."
    scopes = [(name, ms) for name, ms in times.scopes if ms >= MIN_NAMED * times.ms][:MAX_NAMED]
    if any(name for name, _ in scopes):
        told = [
            f"{shortened(name, MAX_NAME) or 'no scope'} ({percent(ms / times.ms)})" for name, ms in scopes
        ]
        text += f" By scope: {listed(told)}."
    moving = [each for each in times.kernels if 0 < _reached(each) <= 1][:MAX_NAMED]
    if moving:
        rates = [
            f"{shortened(each.name, MAX_NAME)} moves {each.moved:,.0f} GB/s ({percent(_reached(each))} of what the "
            "memory allows)"
            for each in moving
        ]
        text += f" By the bytes that the program states, {listed(rates)}."
    return text
