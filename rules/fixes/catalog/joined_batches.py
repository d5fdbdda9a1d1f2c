"""Batches, pieces and samples that pass through a network together, or once, instead of one by one."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from parsers.model import BOOL, I64, Attribute, EventKind
from parsers.model.arrays import distinct_values, median_of
from parsers.model.late import regex
from parsers.model.names.per_name import named
from parsers.model.units import percent
from rules.analysis.analysis import Analysis
from rules.analysis.arithmetic.innermost import holding
from rules.analysis.arithmetic.rounds import numbers_in_a_row
from rules.analysis.names.host_language import is_python
from rules.analysis.names.operators import DRAWS_FOR_DROPOUT, DROPOUTS, aten
from rules.analysis.ranks.collectives import collective_columns
from rules.analysis.stretches.backward_again import backward_again
from rules.findings.category import Category
from rules.fixes.backward import autograd_functions
from rules.fixes.base import Proposal, fix
from rules.fixes.changes import first_members, optimizer_calls, together, without_calls, without_meetings
from rules.fixes.forms.converted_weights import converts_weights, normalises_weights
from rules.fixes.forms.written import called_in_order, calls_of, costly_calls, of_steps
from rules.fixes.loops.filled import filled, joined, joined_into
from rules.fixes.loops.passes import passes_of_sizes
from rules.fixes.loops.pieces import Rounds, make_the_same_calls, number_of, pieces_of
from rules.kernels.operator_work import PRODUCTS
from rules.kernels.recorded_shapes import inputs_of_events
from rules.remedies.launching import INPUTS_PADDED, LARGER_BATCHES, PIECES_TOGETHER
from rules.remedies.remedy import pytorch_remedy
from rules.replay.loops import kinds_of_calls
from rules.replay.replay import Replay

MIN_AHEAD = 8  # operators of a pass before the first dropout: fewer are a layer
MAX_DROPOUTS = 64  # of a pass
_PRODUCTS = frozenset(f"aten::{name}" for name in PRODUCTS)
_PRODUCT = regex(r"aten::(_?conv\w*|matmul|linear|embedding|einsum)$")
# a next word, or a part of a batch: what a pass begins with is then something else than before
_CHOOSES = aten("argmax max topk sort multinomial categorical")
_TAKES = regex(
    r"aten::(slice|select|narrow|index\w*|unbind|split\w*|chunk|gather|copy_|to|rand\w*|normal_|uniform_|bernoulli_?)$"
)


def random_passes(analysis: Analysis, replay: Replay) -> tuple[I64, I64, int]:
    """The operators of each pass of a step but the first, up to its first dropout and behind that; and how many passes.

    The passes call the same operators with the same shapes, one behind the other; nothing is trained. Nothing is taken
    or copied for a pass before its first product, and nothing that it does behind the first dropout has the shape of
    what it begins with: so it begins with what the one before began with. Shapes must be recorded.
    """
    found, behind, passes = [np.empty(0, np.int64)], [np.empty(0, np.int64)], 0
    if Attribute.INPUT_DIMS in analysis.trace.attributes and not (autograd_functions(analysis) >= 0).any():
        draws = analysis.trace.events.of_kind(EventKind.CPU_OP)
        draws = draws[named(analysis.trace, draws, DRAWS_FOR_DROPOUT.match)]
        for operators in called_in_order(analysis):
            for mine in of_steps(analysis, replay, operators):
                for first, period, times, ahead in _repeated(analysis, mine, draws):
                    again = first + period * np.arange(1, times)[:, None] + np.arange(period)
                    found.append(mine[again[:, :ahead].reshape(-1)])
                    behind.append(mine[again[:, ahead:].reshape(-1)])
                    passes = max(passes, times)
    return np.concatenate(found), np.concatenate(behind), passes


def _repeated(analysis: Analysis, operators: I64, draws: I64) -> Iterator[tuple[int, int, int, int]]:
    """Where the first of such passes begins, how many operators each has, how many there are, and those ahead."""
    trace = analysis.trace
    drops = np.flatnonzero(named(trace, operators, DROPOUTS.match))
    if len(drops) < 2 or len(operators) <= MIN_AHEAD:
        return
    drops = drops[holding(trace, operators[drops], draws)] if len(draws) else drops[:0]
    dims = trace.attribute(Attribute.INPUT_DIMS, operators, -1)
    key = trace.events.name[operators].astype(np.int64) * (len(trace.strings) + 1) + dims
    before = _called_before(key, drops)
    differs: dict[int, I64] = {}  # by how many operators a pass has
    behind = 0  # the last one that was found
    for at, drop in enumerate(drops.tolist()):
        if drop < max(behind, MIN_AHEAD):
            continue
        near = slice(at + 1, at + 1 + MAX_DROPOUTS)
        for other in drops[near][before[near] == before[at]].tolist():
            if (period := other - drop) not in differs:
                differs[period] = np.flatnonzero(key[:-period] != key[period:])
            made = _run(differs[period], len(key), drop, period)
            if made is not None and at and drops[at - 1] >= made[0]:
                break  # another dropout comes before
            if made is not None and _begin_alike(analysis, operators, *made):
                yield made
                first, _, times, _ = made
                behind = first + period * times
                break


def _called_before(key: I64, drops: I64) -> I64:
    """A number for each dropout and the operators before it, as many as a pass has at least: the same for the same.

    Others hardly ever have the same number; of dropouts before which fewer are called it says nothing.
    """
    return numbers_in_a_row(key, MIN_AHEAD + 1, np.maximum(drops - MIN_AHEAD, 0))


def _run(differs: I64, count: int, drop: int, period: int) -> tuple[int, int, int, int] | None:
    """The row of equal passes of which one has its first dropout here; ``differs``: which operators the next one lacks.

    There are ``count`` operators, ``period`` in a pass.
    """
    place = int(np.searchsorted(differs, drop))
    begin = int(differs[place - 1]) + 1 if place else 0
    end = (int(differs[place]) if place < len(differs) else count - period) + period
    times = (end - begin) // period
    first = end - times * period
    ahead = drop - first
    return (first, period, times, ahead) if times >= 2 and MIN_AHEAD <= ahead < period else None


def _begin_alike(analysis: Analysis, operators: I64, first: int, period: int, times: int, ahead: int) -> bool:
    trace = analysis.trace
    mine = operators[first : first + period]
    product = np.flatnonzero(named(trace, mine, lambda name: name in _PRODUCTS or bool(_PRODUCT.match(name))))
    if not len(product) or product[0] >= ahead or named(trace, mine[: product[0]], _TAKES.match).any():
        return False
    if named(trace, mine[ahead:], _CHOOSES.__contains__).any():
        return False
    shapes = inputs_of_events(trace, mine)
    given = next((each[0] for each in shapes if each and each[0]), None)
    return given is not None and not any(given in each for each in shapes[ahead:])


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
    # else nothing says that one update uses them all: they may be layers, or a pipeline's batches
    if not updates.any():
        return
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
    and channels as what it is sliced from, and at most half of the elements; of texts it has whole ones. Or four or
    more passes go through the same four or more layers with nine tenths of the same operators, and what the first layer
    takes has three or more sizes: at least half of the passes take another size than the one before, a quarter of all
    a smaller one, and sizes turn from growing to shrinking, or back, at least twice, unless the CPU sends each input.
    The recording must have shapes.

What is changed in the replay
    The CPU runs the first pass only, picks the other pieces, and still waits for results where it reads them. The GPU
    work of the other passes remains as far as its blocks fill the GPU, without the 1.5 us that each kernel takes to
    start, but for weights that each pass converts or normalises; the kernels of the first pass do it. At least, every
    fourth pass remains, and of inputs of different sizes each takes as long as the largest.

What makes it more or less
    Whether the memory has room for more pieces at once, and how much is padded. Pieces that fill the GPU gain nothing.
"""

    def proposals(self, analysis: Analysis, replay: Replay) -> Iterable[Proposal]:
        if steps := pieces_of(analysis, replay):
            count = number_of(steps)
            yield _of_pieces(
                analysis,
                replay,
                steps,
                title=f"Run the model on {count} pieces at once: they pass through it one by one",
                culprit="pieces one by one",
                problem=f"{count} pieces pass through the model one by one",
                remedy=PIECES_TOGETHER,
                depends_on="how many pieces fit into memory together, and whether none needs the one before",
            )
        elif passes := passes_of_sizes(analysis, replay):
            steps = tuple(each.rounds for each in passes)
            count = number_of(steps)
            yield _of_pieces(
                analysis,
                replay,
                steps,
                max(each.padding for each in passes),
                title=f"Pad {count} inputs to one size and run the model once: they pass through it one by one",
                culprit="inputs one by one",
                problem=f"{count} inputs of different sizes pass through the model one by one",
                remedy=INPUTS_PADDED,
                depends_on="how many inputs fit into memory together, and how much they differ in size",
            )


def _of_pieces(
    analysis: Analysis, replay: Replay, steps: Sequence[Rounds], padding: float = 1.0, **told: Any
) -> Proposal:
    """Passes of these steps become one; at least, a fourth of them remain, over ``padding`` times as much."""
    first, fourth, all_of = (np.zeros(len(replay.host), bool) for _ in range(3))
    for each in steps:
        ends = np.append(each.starts[1:], each.end)
        first[each.starts[0] : ends[0]] = True
        for begin, end in zip(each.starts[::AT_LEAST], ends[::AT_LEAST], strict=True):
            fourth[begin:end] = True
        all_of[each.starts[0] : each.end] = True
    stays = replay.waits.target >= 0
    stays[np.concatenate([each.starts for each in steps])] = True
    fills = filled(replay)
    by_weights = converts_weights(analysis, replay) | normalises_weights(replay)
    later = all_of & ~first & ~stays
    return Proposal(
        categories=(Category.LAUNCH_BOUND,),
        expected=together(
            without_calls(replay, later & by_weights), joined_into(replay, first, later, fills)
        ),
        low=joined_into(replay, fourth, all_of & ~fourth & ~stays, fills * padding),
        **told,
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
    What comes before the first dropout runs in the first pass only. For what lies behind it the CPU makes the calls of
    the first pass only, too, and the GPU's work of the others remains as far as its blocks fill the GPU. At least, each
    pass runs that by itself.

What makes it more or less
    Whether each pass reads the same data, which no recording says, and whether the rest of the passes runs as one.
"""

    def proposals(self, analysis: Analysis, replay: Replay) -> Iterable[Proposal]:
        operators, behind, passes = random_passes(analysis, replay)
        nodes, share = costly_calls(analysis, replay, operators)
        if not share:
            return
        once = without_calls(replay, nodes)
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
            expected=together(once, joined(replay, calls_of(analysis, behind), filled(replay))),
            low=once,
            depends_on="whether the rest of the passes runs as one",
        )
