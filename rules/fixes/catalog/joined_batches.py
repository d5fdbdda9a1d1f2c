"""Batches, pieces and samples that pass through a network together, or once, instead of one by one."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np

from parsers.model import BOOL, I64
from parsers.model.arrays import distinct_values, median_of
from parsers.model.units import percent
from rules.analysis.analysis import Analysis
from rules.analysis.names.host_language import is_python
from rules.analysis.ranks.collectives import collective_columns
from rules.analysis.stretches.backward_again import backward_again
from rules.findings.category import Category
from rules.fixes.backward import autograd_functions
from rules.fixes.base import Proposal, fix
from rules.fixes.changes import first_members, optimizer_calls, together, without_calls, without_meetings
from rules.fixes.forms.converted_weights import converts_weights
from rules.fixes.forms.random_passes import random_passes
from rules.fixes.forms.written import costly_calls
from rules.fixes.loops.alike import Rounds, make_the_same_calls, number_of
from rules.fixes.loops.filled import filled, joined
from rules.fixes.loops.pieces import pieces_of
from rules.remedies.launching import LARGER_BATCHES, PIECES_TOGETHER
from rules.remedies.remedy import pytorch_remedy
from rules.replay.loops import kinds_of_calls
from rules.replay.replay import Replay

# calls of a forward or a backward pass: fewer are a loss, or an operator with a gradient of its own
MIN_PASS = 8
# of the calls of the first pair of passes: it has nothing to add its gradients to, as the others have
NOTHING_ADDED = 0.7


@fix
class JoinBatches:
    id = "join-batches"
    explanation = """
When it applies
    In each step of a Python program, two or more forward and backward passes make nine tenths of the same calls (seven
    tenths in the first one, which adds no gradients to others, and in the second one with what lies before it, where a
    program keeps gradients that it adds up itself), and an optimizer updates the parameters behind the last of them
    only. No two backward passes go through the same graph.

What is changed in the replay
    The CPU runs the first pair of passes only. The GPU work of the others remains as far as its blocks fill the GPU,
    without the 1.5 us that each kernel takes to start. Of collectives that each pair runs, the first pair's stay. At
    least, every other pair remains.

What makes it more or less
    Whether the memory has room for a larger batch. Batches that fill the GPU gain nothing.
"""

    def proposals(self, analysis: Analysis, replay: Replay) -> Iterable[Proposal]:
        if not is_python(analysis.trace):
            return
        rounds = list(_rounds(analysis, replay))
        if not rounds or len(backward_again(analysis).apart):  # of outputs, not of batches
            return
        later, other = np.zeros(len(replay.host), bool), np.zeros(len(replay.host), bool)
        for each in rounds:
            edges = [*each.starts.tolist(), each.end]
            later[edges[1] : each.end] = True
            for begin, end in zip(edges[1::2], edges[2::2], strict=False):
                other[begin:end] = True
        fills = filled(replay)
        count = number_of(rounds)
        of_pass = _pass_of_meetings(analysis, replay, rounds)
        yield Proposal(
            title=f"Use one batch instead of {count} small ones: gradients of {count} backward passes are added up",
            categories=(Category.LAUNCH_BOUND,),
            culprit="gradient accumulation",
            remedy=LARGER_BATCHES,
            expected=together(joined(replay, later, fills), without_meetings(replay, of_pass > 0)),
            low=together(joined(replay, other, fills), without_meetings(replay, of_pass % 2 == 1)),
            depends_on="how large a batch fits into memory",
        )


def _pass_of_meetings(analysis: Analysis, replay: Replay, rounds: list[Rounds]) -> I64:
    """Which pair of passes each collective belongs to; 0 where some have none of its kind, such as a last reduction."""
    host = replay.host
    _, first = first_members(replay)
    launch = replay.device.launch[first]
    _, kind = collective_columns(analysis.trace).kinds_of(replay.device.event[first])
    found = np.zeros(len(first), np.int64)
    for each in rounds:
        start = int(each.starts[0])
        of_step = np.flatnonzero(
            (host.thread[launch] == host.thread[start]) & (host.step[launch] == host.step[start])
        )
        for one in distinct_values(kind[of_step]):
            mine = of_step[kind[of_step] == one]
            if len(mine) % len(each.starts) == 0:
                mine = mine[np.argsort(launch[mine], kind="stable")]
                found[mine] = np.arange(len(mine)) // (len(mine) // len(each.starts))
    return found


def _rounds(analysis: Analysis, replay: Replay) -> Iterator[Rounds]:
    """The pairs of passes of each step that are alike, where all steps have some."""
    host = replay.host
    backward, updates = autograd_functions(analysis) >= 0, optimizer_calls(analysis)
    kinds = kinds_of_calls(analysis)
    found = []
    of_step = host.thread * (int(host.step.max(initial=0)) + 1) + host.step
    edges = np.flatnonzero(np.concatenate(([True], np.diff(of_step) != 0, [True])))
    for begin, end in zip(edges[:-1].tolist(), edges[1:].tolist(), strict=True):
        if not backward[begin:end].any():
            continue
        each = _in_step(backward[begin:end], updates[begin:end], kinds[begin:end])
        if each is None:
            return
        found.append(Rounds(each.starts + begin, each.end + begin))
    yield from found


def _in_step(backward: BOOL, updates: BOOL, kinds: I64) -> Rounds | None:
    """The pairs of passes of one step; None where there are fewer than two, they differ, or an update lies between."""
    turns = np.flatnonzero(np.diff(np.concatenate(([False], backward, [False])).astype(np.int8)))
    begins, ends = turns[::2], turns[1::2]
    # What lies between is no forward pass otherwise.
    apart = np.append(True, begins[1:] - ends[:-1] >= MIN_PASS)
    ends = ends[np.append(np.flatnonzero(apart)[1:] - 1, len(ends) - 1)]
    begins = begins[apart]
    behind = np.append(0, ends[:-1])
    first_pass = begins[0] - behind[0]
    if len(begins) < 2 or (ends - begins).min() < MIN_PASS or _updates_between(updates, begins, ends):
        return None
    forward = int(median_of(begins[1:] - behind[1:]))  # what a step begins with is none of it
    forward_of_first = min(first_pass, forward)
    starts = np.append(begins[0] - forward_of_first, behind[1:])
    # Behind the first pass, what adds gradients up by hand keeps them.
    passes = np.maximum(begins - forward_of_first, behind)
    same = make_the_same_calls(kinds, passes, ends, (NOTHING_ADDED,))
    if not same or not make_the_same_calls(kinds, starts, ends, (NOTHING_ADDED, NOTHING_ADDED)):
        return None
    return Rounds(starts, int(ends[-1]))


def _updates_between(updates: BOOL, begins: I64, ends: I64) -> bool:
    """Whether an optimizer updates before the last backward pass; it may call the last forward pass itself."""
    last_forward = updates[ends[-2] : begins[-1]]
    return bool(updates[begins[0] : ends[-2]].any() or (last_forward.any() and not last_forward[-1]))


AT_LEAST = 4  # pieces: so many fit into memory together


@fix
class JoinPieces:
    id = "join-pieces"
    explanation = """
When it applies
    In a step of a Python program without a backward pass, four or more passes make nine tenths of the same calls, at
    least 16 each, and each begins with a slice that goes into a convolution or an embedding: it has as many dimensions
    and channels as what it is sliced from, and at most half of the elements; of texts it has whole ones. The recording
    must have shapes.

What is changed in the replay
    The CPU runs the first pass only, picks the other pieces, and still waits for results where it reads them. The GPU
    work of the other passes remains as far as its blocks fill the GPU, without the 1.5 us that each kernel takes to
    start, but for weights that each pass converts. At least, every fourth pass remains.

What makes it more or less
    Whether the memory has room for more pieces at once. Pieces that fill the GPU gain nothing.
"""

    def proposals(self, analysis: Analysis, replay: Replay) -> Iterable[Proposal]:
        steps = pieces_of(analysis, replay)
        if not steps:
            return
        later, most_of = np.zeros(len(replay.host), bool), np.zeros(len(replay.host), bool)
        for each in steps:
            later[each.starts[0] : each.end] = True
            ends = np.append(each.starts[1:], each.end)
            for begin, end in zip(each.starts[::AT_LEAST], ends[::AT_LEAST], strict=True):
                most_of[begin:end] = True
            most_of[each.starts] = True
            later[each.starts[0] : each.starts[1]] = False
            later[each.starts] = False
        later &= replay.waits.target < 0
        fills = filled(replay)
        again = without_calls(replay, later & converts_weights(analysis, replay))
        count = number_of(steps)
        yield Proposal(
            title=f"Run the model on {count} pieces at once: they pass through it one by one",
            categories=(Category.LAUNCH_BOUND,),
            culprit="pieces one by one",
            problem=f"{count} pieces pass through the model one by one",
            remedy=PIECES_TOGETHER,
            expected=together(joined(replay, later, fills), again),
            low=joined(replay, later & ~most_of, fills),
            depends_on="how many pieces fit into memory together, and whether none needs the one before",
        )


_SAMPLES_CODE = """features = backbone(x)                                          # once
samples = head(features.expand(8, *features.shape))             # each of the 8 draws its own dropout"""


@fix
class RunOnceBeforeDropout:
    id = "run-once-before-dropout"
    explanation = """
When it applies
    In a step without a backward pass, two or more passes call the same operators with the same shapes, one right behind
    the other, with at least 8 operators before their first dropout, which draws. No pass takes a part of a tensor or
    copies one before its first product, and behind its dropout nothing has the shape of what it begins with. The
    repeated part takes at least 5 % of the GPU's time. Shapes must be recorded.

What is changed in the replay
    What comes before the first dropout runs in the first pass only.

What makes it more or less
    Whether each pass reads the same data, which no recording says.
"""

    def proposals(self, analysis: Analysis, replay: Replay) -> Iterable[Proposal]:
        operators, passes = random_passes(analysis, replay)
        nodes, share = costly_calls(analysis, replay, operators)
        if not share:
            return
        yield Proposal(
            title=(
                f"Run what comes before the dropout once: {passes} passes repeat it, {percent(share)} of the GPU's time"
            ),
            categories=(
                Category.RECOMPUTATION,
                Category.GPU_BOUND,
                Category.MEMORY_BOUND_KERNELS,
                Category.LAUNCH_BOUND,
            ),
            culprit="passes that differ in their dropout",
            problem=f"{passes} passes differ only behind their first dropout",
            remedy=pytorch_remedy(
                "Up to the first dropout, each pass over the same data gives the same: keep that result, and "
                "run only the layers behind it again.",
                "Repeat that result with expand, and all samples go through the last layers at once.",
                code=_SAMPLES_CODE,
            ),
            expected=without_calls(replay, nodes),
            depends_on="whether each pass reads the same data",
        )
