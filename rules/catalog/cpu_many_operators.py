"""Programs on the CPU alone that call too many operators: small ones, loops, a tensor for each row."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from parsers.model import I64, derived_by
from parsers.model.arrays import median_of
from parsers.model.units import duration, percent
from rules.analysis.analysis import Analysis
from rules.analysis.arithmetic.intervals import clip, union
from rules.analysis.arithmetic.rounds import Rounds
from rules.analysis.cpu.cpu_time import TRIVIAL_PERCENTILE, CpuTime
from rules.analysis.idle.threads import READ_BACKS
from rules.analysis.stretches.python_values import MAX_APART_NS, FromPython, from_python
from rules.analysis.stretches.python_values import MIN_TIMES as MIN_MADE
from rules.findings.base import Category, Evidence, Finding, rule
from rules.losses.at_once import FASTEST_READ, LARGE_BYTES, MAX_OF_A_CORE
from rules.losses.cpu_loops import (
    CELL,
    MIN_TIMES,
    MIN_TIMES_ALIKE,
    ItemLoops,
    are_batches,
    in_optimizer,
    item_loops,
    looked_into,
    loop_of,
    walks_on_with_a_state,
)
from rules.losses.cpu_work import (
    MAX_NAMED,
    MIN_SEEN,
    MIN_SHARE,
    MIN_STEPS,
    CpuRule,
    line_or_operator,
    longest_of,
    unknown_lines,
)
from rules.losses.lost_time import evidence_of
from rules.losses.pauses import few_of_steps
from rules.losses.rounds_apart import MIN_APART
from rules.remedies.cpu_work import (
    ITEMS_TOGETHER,
    STEPS_IN_ONE_LAYER,
    VALUES_TOGETHER,
    WEIGHTS_TOGETHER,
    fewer_calls,
)
from rules.remedies.host_work import ROWS_AT_ONCE
from rules.remedies.remedy import Remedy
from rules.terms import MAJORITY
from rules.wording.words import counted, listed


@derived_by
def time_steps(analysis: Analysis, time: CpuTime) -> ItemLoops:
    """Loops that call a cell once in each round, or walk along an inner side with a state, and their backward passes.

    What their operators compute stays, the weights that each step reads among it.
    """
    looked = looked_into(analysis, time)
    found: list[Rounds] = []
    free = np.ones(len(looked.operators), bool)
    for backward in (False, True):
        forward = tuple(found)
        for each in looked.rounds:
            at = slice(each.first, each.first + each.length)
            if not free[at].all() or not (looked.backward[at] == backward).all():
                continue
            if backward:
                goes = any(MAJORITY * of.times <= each.times <= of.times + 1 for of in forward)
            else:
                goes = _goes_through_time(time, each, looked.operators)
            if goes:
                free[at] = False
                found.append(each)
    return ItemLoops(
        tuple(loop_of(time, each, looked.operators, each.times, own_weights=True) for each in found),
        looked.looked_ns,
        len(looked.steps),
        len(looked.operators),
        time.slowed,
    )


def _goes_through_time(time: CpuTime, rounds: Rounds, operators: I64) -> bool:
    body = operators[rounds.first : rounds.first + rounds.body].tolist()
    cells = any(CELL.match(time.trace.name(each)) for each in body)
    if rounds.times < MIN_TIMES or not (cells or walks_on_with_a_state(time, rounds, operators)):
        return False
    return not are_batches(time, rounds, operators)


MIN_OPERATORS = 100
MANY_READ_BACKS = 0.25  # of the calls


@derived_by
def _from_python(analysis: Analysis, time: CpuTime) -> FromPython:
    return from_python(analysis.trace, time.operators)


@rule
class CpuSmallOperators(CpuRule):
    id = "cpu-small-operators"
    category = Category.LAUNCH_BOUND
    explanation = f"""
What it found
    Only the CPU was recorded, and much of a step is the cost of calling operators, not their computation.

Why it costs time
    Each call passes through Python, PyTorch's dispatcher and autograd, which takes a few microseconds however small
    its tensors are.

How it decides
    For each outermost operator it counts as much time as the shortest {TRIVIAL_PERCENTILE} % of them last, and the
    short times between two of them, less the profiler's overhead, with its part of what interrupts them. Below
    {percent(MIN_SHARE)} of the step nothing is reported, nor below {percent(MIN_SEEN)} without that part, nor with
    fewer than {MIN_OPERATORS} operators or {MIN_STEPS} steps.

What to try
    Work on larger tensors, fuse operators with torch.compile, use fused optimizers, and read many values at once.

When it is wrong
    Python stacks slow the code between operators down by more than is subtracted.
"""

    def of_steps(self, time: CpuTime) -> Iterable[Finding]:
        if len(time.operators) < MIN_OPERATORS:
            return
        trace, steps = time.trace, time.steps
        names, counts = np.unique(trace.events.name[time.operators], return_counts=True)
        order = np.argsort(-counts, kind="stable")[:MAX_NAMED]
        called = {trace.strings[names[each]]: counts[each] / steps for each in order.tolist()}
        most = listed([f"{name} ({count:,.0f})" for name, count in called.items() if count >= 1])
        reads = counts[[trace.strings[name] in READ_BACKS for name in names.tolist()]].sum()
        reads_values = reads >= MANY_READ_BACKS * len(time.operators)
        loops = item_loops(time.analysis, time), time_steps(time.analysis, time)
        if not reads_values and sum(each.of_operators for each in loops) >= MAJORITY:
            return  # the loop is told instead
        if not reads_values and _from_python(time.analysis, time).calls >= MAJORITY * len(time.operators):
            return  # so is how their tensors are made
        overhead_ns = time.overhead_ns(in_full=reads_values)
        if overhead_ns < time.step_ns * max(MIN_SHARE, MIN_SEEN * time.slowed):
            return
        mostly_optimizer = int(in_optimizer(time).sum()) >= MAJORITY * len(time.operators)
        took = float(median_of(trace.events.duration[time.operators]))
        example = time.operators[trace.events.name[time.operators] == names[order[0]]][:1]
        rest_ns = (time.step_ns - overhead_ns) / steps
        yield self.lost(
            time,
            overhead_ns,
            "Values are read one at a time" if reads_values else "Calling many small operators",
            account=(
                f"{counted(time.analysis, len(time.operators), 'operator')} are called one after another; the median "
                f"takes {duration(took)}. A step takes {duration(time.step_ns / steps)}, and without the cost of "
                f"the calls {duration(rest_ns)}. Called most often: {most}."
            ),
            remedy=VALUES_TOGETHER if reads_values else fewer_calls(in_optimizer=mostly_optimizer),
            culprit=line_or_operator(time, next(iter(called)), time.calling),
            evidence=evidence_of(trace, example),
            unknown=unknown_lines(time.trace, "call them"),
        )


MIN_TOLD = 0.1  # of a loop's time: less computing makes no difference
REMAINS = 0.03  # of what calling the later rounds takes: computing all items at once takes longer than one


class _CpuLoop(CpuRule):
    """Loops of the same operators, of which a part of the step is lost to calling them."""

    category = Category.LAUNCH_BOUND

    def told(
        self, time: CpuTime, found: ItemLoops, part: float, what: str, at_once: str, remedy: Remedy
    ) -> Finding:
        trace, loop = time.trace, found.loops[0]
        times, body = max(each.times for each in found.loops), len(loop.operators) // loop.times
        names = list(dict.fromkeys(trace.name(each) for each in loop.operators[:body].tolist()))
        within = union(
            np.array([each.start for each in found.loops]), np.array([each.end for each in found.loops])
        )
        step_ns, operators = time.step_ns / time.steps, sum(len(each.operators) for each in found.loops)
        few = few_of_steps(time, within)[0] if found.steps >= time.steps else 0
        return self.lost(
            time,
            round(part * time.step_ns),
            f"{times:,} {what} are computed one at a time",
            took=found.share * time.step_ns,
            few=few,
            account=(
                f"{operators / max(found.steps, 1):,.0f} operators a step belong to loops of {times:,} rounds, which "
                f"take {duration(found.share * step_ns)} of the {duration(step_ns)} of a step. A round calls {body} "
                f"operators, such as {listed(names[:MAX_NAMED])}. "
                + (
                    f"They compute for {duration(found.computes * step_ns)} of that, which takes as long at once. "
                    if found.computes >= MIN_TOLD * found.share
                    else ""
                )
                + f"{at_once}, a step would take {duration(step_ns * (1 - part))} at best"
                + (" on average." if few else ".")
            ),
            remedy=remedy,
            culprit=line_or_operator(time, names[0], within),
            evidence=tuple(
                Evidence(
                    int(trace.events.lane[each.operators[0]]), each.start, each.end, f"{each.times} rounds"
                )
                for each in found.loops[:MAX_NAMED]
            ),
            unknown=unknown_lines(trace, "is the loop"),
            confidence="medium",
        )


@rule
class CpuItemLoop(_CpuLoop):
    id = "cpu-item-loop"
    explanation = f"""
What it found
    Only the CPU was recorded, and within a step the same operators are called again and again, each time for another
    item: a sample, a request, a row, a head of attention, an expert.

Why it costs time
    Each call takes a few microseconds however small its tensors are, and a product with one row reads as many weights
    as a product with hundreds of them.

How it decides
    The same operators follow one another at least {MIN_TIMES} times where each time a row is picked, a value is read or
    the rows of one class are picked by a mask (x[y == c]), or a tensor was taken apart just before, or at least
    {MIN_TIMES_ALIKE} times where each time a layer is called, or {MIN_TIMES} where its weights have one size and its
    data grow and shrink from round to round. Rounds that pick two rows may differ by half of their operators. Layers
    whose weights each get their own gradients count from {MIN_APART} on, and only where no product takes what the round
    before can have made, by the sizes of all tensors, or each round takes its column of a table, as experts are
    weighed; what their optimizer does is then counted, too. Not counted are optimizers, rounds that load a batch or
    call an optimizer (unless frames show that each trains a model of its own), layers that take what the one before
    made, and steps through time: a cell that each round calls once, rows of an inner side whose results go nowhere, a
    backward pass that ends with less. The time of all rounds but the first is counted, and that of the backward pass.
    What their operators compute stays as far as it takes as long at once: to read and write at {FASTEST_READ / 1e9:.0f}
    GB/s and to multiply at {MAX_OF_A_CORE / 1e9:.0f} GFLOP/s, more for items of nearly {LARGE_BYTES >> 10} KiB and for
    products of many rows. Weights and gradients that items share are read and written once. Of the rest
    {percent(REMAINS)} is taken to remain. If less than {percent(MIN_SHARE)} of the step can go, nothing is reported,
    nor if fewer than {MIN_STEPS} steps were found.

What to try
    Stack the items into one tensor and call the model once: torch.stack, padding, torch.vmap. Stack weights as well:
    one tensor for all heads or experts.

When it is wrong
    If each round needs the result of the round before, as steps through time do.
"""

    def of_steps(self, time: CpuTime) -> Iterable[Finding]:
        found = item_loops(time.analysis, time)
        part = (1 - REMAINS) * (found.share - found.computes)
        if part >= MIN_SHARE:
            remedy = WEIGHTS_TOGETHER if found.loops[0].own_weights else ITEMS_TOGETHER
            yield self.told(time, found, part, "items", "For all items at once", remedy)


@rule
class CpuTimeSteps(_CpuLoop):
    id = "cpu-time-steps"
    explanation = f"""
What it found
    Only the CPU was recorded, and a recurrent network goes through time in a loop of Python: each step calls the same
    operators with the state that the step before left.

Why it costs time
    Each call takes a few microseconds, in the forward and in the backward pass, and the products with the inputs, which
    need no state, are small ones for each time step.

How it decides
    The same operators follow one another at least {MIN_TIMES} times, and each time a cell of a recurrent network is
    called (lstm_cell, gru_cell ...), or the next row along an inner side is picked and the same product takes what it
    led to the round before. What their operators compute stays, with reading the weights in each step. If less than
    {percent(MIN_SHARE)} of the step can go, nothing is reported, nor if fewer than {MIN_STEPS} steps were found.

What to try
    A layer that goes through all time steps itself: nn.LSTM or nn.RNN (on a CPU, nn.GRU gains little). For other cells,
    compute what needs no state for all steps before the loop, and torch.compile the rest.

When it is wrong
    If something between two steps decides what the next one is given, as where a model answers token by token.
"""

    def of_steps(self, time: CpuTime) -> Iterable[Finding]:
        found = time_steps(time.analysis, time)
        part = found.share - found.computes
        if part >= MIN_SHARE:
            yield self.told(
                time, found, part, "time steps", "In one layer for all of them", STEPS_IN_ONE_LAYER
            )


@rule
class CpuPythonValues(CpuRule):
    id = "cpu-python-values"
    explanation = f"""
What it found
    Only the CPU was recorded, and much of a step makes tensors from numbers or short lists of Python, one after
    another, as torch.stack([torch.tensor(row) for row in rows]) does.

Why it costs time
    Each torch.tensor() takes a few microseconds, and joining thousands of small tensors as long again. One tensor
    made of all rows takes one call.

How it decides
    torch.tensor() is called at least {MIN_MADE} times in a row, with nothing in between but what moves and joins its
    results, and never {duration(MAX_APART_NS)} or more of anything else. All of that time is counted, less the
    profiler's overhead. Below {percent(MIN_SHARE)} of the step nothing is reported, nor if fewer than {MIN_STEPS} steps
    were found.

What to try
    Keep the data in arrays or tensors and pick a batch by index, or make one tensor of all rows.

When it is wrong
    If each value is computed by Python code that takes most of this time: that code stays.
"""

    def of_steps(self, time: CpuTime) -> Iterable[Finding]:
        found = _from_python(time.analysis, time)
        within = clip(found.spans, *time.window)
        lost = min(round(time.without_recorder(within) * time.slowed), time.step_ns)
        if lost < MIN_SHARE * time.step_ns:
            return
        steps, step_ns = time.steps, time.step_ns / time.steps
        yield self.lost(
            time,
            lost,
            "Tensors are built from Python values one at a time",
            account=f"torch.tensor() is called {found.made / steps:,.0f} times a step, each time for a number or a "
            f"few, and the results are joined. That takes {duration(lost / steps)} of the {duration(step_ns)} of a "
            f"step. Built all at once, a step would take {duration(step_ns - lost / steps)} at best.",
            remedy=ROWS_AT_ONCE,
            culprit=line_or_operator(time, "torch.tensor", within),
            evidence=longest_of(time, within, "tensors built one at a time"),
            unknown=unknown_lines(time.trace, "builds them"),
        )
