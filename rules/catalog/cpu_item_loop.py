"""A program on the CPU alone that computes one item after another instead of all of them at once."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from parsers.model.units import duration, percent
from rules.analysis.analysis import Analysis
from rules.analysis.cpu.cpu_time import CpuTime
from rules.findings.base import Category, Evidence, Finding, rule
from rules.losses.at_once import FASTEST_READ, LARGE_BYTES, MAX_OF_A_CORE
from rules.losses.cpu_loops import MIN_TIMES, MIN_TIMES_ALIKE, item_loops
from rules.losses.cpu_rule import CpuRule, line_or_operator, unknown_lines
from rules.losses.cpu_work import MAX_NAMED, MIN_SHARE, MIN_STEPS
from rules.remedies.cpu_work import ITEMS_TOGETHER
from rules.wording.phrases import listed

MIN_TOLD = 0.1  # of a loop's time: less computing makes no difference
REMAINS = 0.03  # of what calling the later rounds takes: computing all items at once takes longer than one


@rule
class CpuItemLoop(CpuRule):
    """Loops over the samples of a batch, over single requests, over rows."""

    id = "cpu-item-loop"
    category = Category.LAUNCH_BOUND
    explanation = f"""
What it found
    Only the CPU was recorded, and within a step the same operators are called again and again, each time for another
    item: a sample, a request, a row.

Why it costs time
    Each call takes a few microseconds however small its tensors are, and a product with one row reads as many weights
    as a product with hundreds of them.

How it decides
    The same operators follow one another at least {MIN_TIMES} times where each time a row is picked, a value is read or
    the rows of one class are picked by a mask (x[y == c]), or a tensor was taken apart just before, or at least
    {MIN_TIMES_ALIKE} times where each time a layer is called. Layers whose weights each get their own gradients do not
    count, nor do optimizers, nor rounds that load a batch or call an optimizer, nor steps through time: a cell that
    each round calls once, rows of an inner side whose results go nowhere, a backward pass that ends with less. The time
    of all rounds but the first is counted, and that of the backward pass. What their operators compute stays as far as
    it takes as long at once: to read and write at {FASTEST_READ / 1e9:.0f} GB/s and to multiply at
    {MAX_OF_A_CORE / 1e9:.0f} GFLOP/s, more for items of nearly {LARGE_BYTES >> 10} KiB and for products of many rows.
    Weights and gradients of all items are read and written once. Of the rest {percent(REMAINS)} is taken to remain. If
    less than {percent(MIN_SHARE)} of the step can go, nothing is reported, nor if fewer than {MIN_STEPS} steps were
    found.

What to try
    Stack the items into one tensor and call the model once: torch.stack, padding, torch.vmap.

When it is wrong
    If each round needs the result of the round before, as steps through time do.
"""

    def of_steps(self, analysis: Analysis, time: CpuTime) -> Iterable[Finding]:
        found = item_loops(analysis, time)
        part = (1 - REMAINS) * (found.share - found.computes)
        if part < MIN_SHARE:
            return
        trace, loop = analysis.trace, found.loops[0]
        per_step = max(found.steps, 1)
        times = max(each.times for each in found.loops)
        body = len(loop.operators) // loop.times
        spans = np.array([each.start for each in found.loops]), np.array([each.end for each in found.loops])
        order = np.argsort(spans[0])
        within = spans[0][order], spans[1][order]
        step_ns, took = time.step_ns / time.steps, found.share * time.step_ns / time.steps
        names = dict.fromkeys(trace.name(each) for each in loop.operators[:body].tolist())
        yield self.lost(
            analysis,
            time,
            round(part * time.step_ns),
            f"{times:,} items are computed one at a time",
            took=found.share * time.step_ns,
            account=(
                f"{sum(len(each.operators) for each in found.loops) / per_step:,.0f} operators a step belong to loops "
                f"of {times:,} rounds, which take {duration(took)} of the {duration(step_ns)} of a step. A round "
                f"calls {body} operators, such as {listed(list(names)[:MAX_NAMED])}. "
                + (
                    f"They compute for {duration(found.computes * step_ns)} of that, which takes as long at once. "
                    if found.computes >= MIN_TOLD * found.share
                    else ""
                )
                + f"For all items at once, a step would take {duration(step_ns * (1 - part))} at best."
            ),
            remedy=ITEMS_TOGETHER,
            culprit=line_or_operator(analysis, time, next(iter(names)), within),
            evidence=tuple(
                Evidence(
                    int(trace.events.lane[each.operators[0]]), each.start, each.end, f"{each.times} rounds"
                )
                for each in found.loops[:MAX_NAMED]
            ),
            unknown=unknown_lines(analysis.trace, "is the loop"),
            confidence="medium",
        )
