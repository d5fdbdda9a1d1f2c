"""Loops over items whose rounds can be done together: which they are, and which belong to one list of items."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import pairwise

import numpy as np

from parsers.model import BOOL, Attribute, CopyKind, derived_by
from parsers.model.arrays import median_of
from parsers.model.events import of_kinds
from parsers.model.names.calls import Call
from parsers.model.names.per_name import named
from rules.analysis.analysis import Analysis
from rules.analysis.names.families import Family
from rules.fixes.backward import autograd_functions
from rules.fixes.changes import copies, counts_rows, of_nodes, optimizer_calls
from rules.fixes.loops.branching import branching_loops
from rules.fixes.loops.counted_rows import with_other_rounds
from rules.fixes.loops.independent_rounds import independent_rounds, networks, picks_rows
from rules.fixes.loops.items import carry_a_state, in_chunks
from rules.replay.loops import MIN_TIMES, Loop, loops_of, short_loops_of, uneven_loops_of
from rules.replay.replay import Replay
from rules.replay.surroundings import surroundings_of

ONE_VALUE = 8  # bytes: any two single values are as large as one another


def carry_through_the_cpu(replay: Replay, loops: Sequence[Loop]) -> bool:
    """Whether between any two rounds of all loops, what is sent next is as large as what was read back, several values.

    Then each round needs the one before, as where the next centre is the point farthest from those before.
    """
    device = replay.device
    read = copies(replay, CopyKind.D2H)
    either = np.flatnonzero(read | copies(replay, CopyKind.H2D))
    either = either[np.argsort(device.launch[either], kind="stable")]
    size = replay.analysis.trace.attribute(Attribute.BYTES, device.event[either])
    node, read = device.launch[either], read[either]
    carried = read[:-1] & ~read[1:] & (size[:-1] == size[1:]) & (size[:-1] > ONE_VALUE)
    edges = np.searchsorted(node, [(loop.first, loop.last) for loop in loops])
    return all(
        np.count_nonzero(carried[first : max(last - 1, first)]) >= loop.times - 1
        for loop, (first, last) in zip(loops, edges.tolist(), strict=True)
    )


def picks_what_was_found(replay: Replay, loops: Sequence[Loop]) -> list[bool]:
    """For each loop, whether its rounds begin by picking rows, and end by finding what is largest or smallest.

    What is found is then used by the next round only, as where the next centre is the point farthest from those before.
    """
    picks, finds = (
        of_nodes(replay, named(replay.analysis.trace, replay.device.event, each))
        for each in (picks_rows, lambda name: "ArgMax" in name or "ArgMin" in name)
    )
    found = []
    for loop in loops:
        body = slice(loop.first, loop.first + loop.body)
        picked = np.flatnonzero(picks[body])
        found.append(bool(len(picked)) and bool(finds[body][-1]) and not finds[body][: picked[-1]].any())
    return found


NEAR = 4  # calls between a loop and the one that reads its results back
MOSTLY_SILENT = 0.3  # of the time between calls: such a loop is work on the CPU
LONG_PAUSE = 3.0  # times the usual time before the same call of a round
MIN_GROUPS, MIN_IN_GROUP = 3, 4
MIN_IN_STRETCH = 4  # loops in each step: fewer are one after the other for the same items
MANY_ROUNDS = 16  # shorter loops with nearly as many rounds may be others
IN_TIME, OUT_OF_TIME = 0.8, 0.1  # of the rounds that begin a group have a long pause, and of the others
_FILL = "FillFunctor"
_WAYS_OF_THE_MODEL = (Family.NORMALISATION, Family.ATTENTION, Family.CONVOLUTION, Family.COLLECTIVE)
_PRODUCTS = (Family.GEMM, Family.TRITON)


def item_loops(analysis: Analysis, replay: Replay) -> tuple[Loop, ...]:
    """Loops whose rounds can be independent, outside of optimizers, which a fix of their own joins.

    Of a loop whose rounds form groups, each group is told as a loop. What one operator repeats is no loop of the
    program: sorting does so for each row. Loops whose time is work on the CPU are none of these.
    """
    return _independent(analysis, replay)[False]


def working_loops(analysis: Analysis, replay: Replay) -> tuple[Loop, ...]:
    """Such loops whose time is work on the CPU that needs nothing from the GPU: rounds send, and read nothing back."""
    sends, reads = (of_nodes(replay, copies(replay, kind)) for kind in (CopyKind.H2D, CopyKind.D2H))
    return tuple(
        loop
        for loop in _independent(analysis, replay)[True]
        if sends[loop.first : loop.first + loop.body].any() and not reads[loop.first : loop.last].any()
    )


@derived_by
def _independent(analysis: Analysis, replay: Replay) -> dict[bool, tuple[Loop, ...]]:
    """The loops whose rounds can be independent, by whether their time is work on the CPU."""
    host = replay.host
    of_model, products = of_the_model(replay)
    around = surroundings_of(analysis)
    operator = around.whole_operator
    optimizer = optimizer_calls(analysis)
    counting = counts_rows(replay)
    branching = branching_loops(analysis, replay)
    loops = [*loops_of(analysis), *_over_counted_rows(analysis, counting)]
    loops = [*branching, *(each for each in loops if not _is_inside(each, branching))]
    independent = {loop.times for loop in loops if counting[loop.first : loop.last].any()}
    independent |= independent_rounds(analysis, replay, loops, products)
    of_items = networks(analysis, replay, loops)
    multiplying = [each for each in loops if (of_model | products)[each.first : each.last].any()]
    of_items |= in_chunks(analysis, replay, multiplying, of_model)
    found: dict[bool, list[Loop]] = {False: [], True: []}
    carried = picks_what_was_found(replay, loops)
    other = of_model | products | optimizer | (autograd_functions(analysis) >= 0)
    again = _of_states(replay, [loop for loop, carries in zip(loops, carried, strict=True) if carries])
    found[False] += [each for each in again if not other[each.first : each.last].any()]
    for loop, carries in zip(loops, carried, strict=True):
        body = slice(loop.first, loop.first + loop.body)
        if operator[loop.first] >= 0 and operator[loop.first] == operator[loop.last - 1]:
            continue
        is_model = of_model[body].any() and of_items.isdisjoint((loop.times, loop.times + 1))
        if (
            carries
            or is_model
            or optimizer[body].any()
            or _only_copies(replay, loop, CopyKind.D2H, CopyKind.H2D)
        ):
            continue
        pauses = around.silent_ns[loop.first + 1 : loop.last].sum()
        works = bool(pauses > MOSTLY_SILENT * host.gap[loop.first + 1 : loop.last].sum())
        if not products[body].any() or {loop.times, loop.times + 1} & (independent | of_items):
            found[works].append(loop)
        elif not works:
            found[works] += _groups(replay, loop)
    uneven = [each for each in uneven_loops_of(analysis) if not other[each.first : each.last].any()]
    uneven = [each for each in uneven if not any(_is_inside(each, loops) for loops in found.values())]
    uneven = _without_a_state(analysis, replay, uneven)
    found = {
        works: [each for each in loops if not _is_inside(each, uneven)] for works, loops in found.items()
    }
    found[False] = with_other_rounds(analysis, replay, [*found[False], *uneven])
    return {works: tuple(_without_a_state(analysis, replay, each)) for works, each in found.items()}


def _of_states(replay: Replay, loops: Sequence[Loop]) -> list[Loop]:
    """Loops whose rounds are loops that hand a state on, each of them one that was filled anew.

    As many calls lie between any two of them, fewer than one of them makes.
    """
    host = replay.host
    fills = of_nodes(replay, named(replay.analysis.trace, replay.device.event, lambda name: _FILL in name))
    runs: dict[tuple[int, ...], list[Loop]] = {}
    for loop in loops:
        runs.setdefault((int(host.step[loop.first]), loop.kind, loop.times), []).append(loop)
    found = []
    for first, *others in runs.values():
        apart = {after.first - loop.first for loop, after in pairwise([first, *others])}
        anew = all(fills[loop.last : after.first].any() for loop, after in pairwise([first, *others]))
        body = min(apart, default=0)
        if (
            len(others) >= MIN_TIMES - 1
            and len(apart) == 1
            and body < 2 * (first.last - first.first)
            and anew
        ):
            found.append(replace(first, last=others[-1].last, body=body, times=len(others) + 1))
    return found


def _without_a_state(analysis: Analysis, replay: Replay, loops: Sequence[Loop]) -> list[Loop]:
    carried = carry_a_state(analysis, replay, loops)
    return [loop for loop, carries in zip(loops, carried, strict=True) if not carries]


def _is_inside(loop: Loop, others: Sequence[Loop]) -> bool:
    return any(each.first <= loop.first and loop.last <= each.last for each in others)


def _over_counted_rows(analysis: Analysis, counting: BOOL) -> list[Loop]:
    """Short loops that count the rows of each item, as those over a few experts do; no layers do so."""
    if not counting.any():
        return []
    return [each for each in short_loops_of(analysis) if counting[each.first : each.first + each.body].any()]


def later_rounds(replay: Replay, loops: Iterable[Loop]) -> BOOL:
    """The calls of all rounds but the first of each loop that does everything."""
    found = np.zeros(len(replay.host), bool)
    for loop in loops:
        found[loop.first : loop.first + loop.skipped] = True
        found[loop.first + loop.body : loop.last] = True
    return found


def in_loops(analysis: Analysis, replay: Replay, *, of_products: bool = False) -> BOOL:
    """Which host nodes are the rounds of loops that can be joined, or of those that multiply matrices and do more."""
    found = np.zeros(len(replay.host), bool)
    _, products = of_the_model(replay)
    for loop in item_loops(analysis, replay):
        if not of_products or (loop.body > 1 and products[loop.first : loop.first + loop.body].any()):
            found[loop.first : loop.last] = True
    return found


def of_the_model(replay: Replay) -> tuple[BOOL, BOOL]:
    """Which host nodes launch layers of a model or communicate, and which multiply matrices."""
    device, analysis = replay.device, replay.analysis
    family = analysis.family_of_string[analysis.trace.events.name[device.event]]
    layers = of_nodes(replay, of_kinds(family, *_WAYS_OF_THE_MODEL) | (device.meeting >= 0))
    return layers, of_nodes(replay, of_kinds(family, *_PRODUCTS))


def missing_rounds(times: int) -> int:
    """How many rounds fewer than its list has items a loop may have.

    Where a step is thought to begin inside a loop, it has one round less; its backward pass may have a first and a last
    round of their own.
    """
    return 2 if times >= MANY_ROUNDS else 1


def of_one_list(loops: Sequence[Loop]) -> list[list[Loop]]:
    """Loops that belong together: as many rounds, the same calls in each round, or one begins where the other ends.

    The last go over several lists of items, as columns of a table are of several types, for one result.
    """
    by_times: dict[int, list[Loop]] = {}
    for loop in sorted(loops, key=lambda each: -each.times):
        longer = range(loop.times + 1, loop.times + missing_rounds(loop.times) + 1)
        by_times.setdefault(next((each for each in longer if each in by_times), loop.times), []).append(loop)
    found: list[tuple[set[int], list[Loop]]] = []
    for _, alike in sorted(by_times.items()):
        kinds = {loop.kind for loop in alike}
        joined = [each for each in found if each[0] & kinds or _touch(each[1], alike)]
        found = [each for each in found if each not in joined]
        together = [loop for _, others in joined for loop in others]
        found.append((kinds.union(*(others for others, _ in joined)), [*together, *alike]))
    return [each for _, each in found]


def _touch(some: Sequence[Loop], others: Sequence[Loop]) -> bool:
    """Whether no call lies between a loop of one list and one of the other."""
    ends, begins = ({getattr(loop, edge) for loop in some} for edge in ("last", "first"))
    return any(loop.first in ends or loop.last in begins for loop in others)


def by_stretch(analysis: Analysis, replay: Replay, loops: Sequence[Loop]) -> list[list[Loop]]:
    """Loops of one list that lie in stretches of their own, one behind the other in each step, with other calls.

    Several loops over as many items are one cause where they alternate, where a stretch is no loop of such loops, or
    where they are passes forward and backward.
    """
    backward = autograd_functions(analysis) >= 0
    if any(backward[loop.first : loop.last].any() for loop in loops):
        return [list(loops)]
    of_step: dict[int, list[Loop]] = {}
    for loop in sorted(loops, key=lambda each: each.first):
        of_step.setdefault(int(replay.host.step[loop.first]), []).append(loop)
    stretches = [_stretches(mine) for mine in of_step.values()]
    kinds = {tuple(sorted({loop.kind for loop in each})): None for mine in stretches for each in mine}
    fewest = min(len(each) for mine in stretches for each in mine)
    if fewest < MIN_IN_STRETCH or any(len(mine) != len(kinds) for mine in stretches):
        return [list(loops)]
    return [[loop for loop in loops if loop.kind in mine] for mine in kinds]


def _stretches(loops: Sequence[Loop]) -> list[list[Loop]]:
    """The loops of one step, in order, cut where none of a kind lies on both sides."""
    last = {loop.kind: place for place, loop in enumerate(loops)}
    found: list[list[Loop]] = []
    reach = -1
    for place, loop in enumerate(loops):
        if place > reach:
            found.append([])
        found[-1].append(loop)
        reach = max(reach, last[loop.kind])
    return found


def reading_their_results(analysis: Analysis, replay: Replay, loops: Sequence[Loop]) -> list[Loop]:
    """Loops that read values back one by one, right behind one of these and as often, give or take one round."""
    last = np.sort([each.last for each in loops])
    times = np.array([each.times for each in sorted(loops, key=lambda each: each.last)])
    found = []
    for each in loops_of(analysis):
        place = int(np.searchsorted(last, each.first, side="right")) - 1
        behind = place >= 0 and each.first - last[place] <= NEAR and abs(each.times - times[place]) <= 1
        if behind and _only_copies(replay, each, CopyKind.D2H):
            found.append(each)
    return found


def _only_copies(replay: Replay, loop: Loop, *kinds: CopyKind) -> bool:
    """Whether a round does nothing but read values back, or send them: such copies have fixes of their own."""
    body = slice(loop.first, loop.first + loop.body)
    copied = np.logical_or.reduce([of_nodes(replay, copies(replay, kind))[body] for kind in kinds])
    return bool((copied | (replay.host.call[body] == Call.SYNCHRONIZE)).all())


def _groups(replay: Replay, loop: Loop) -> list[Loop]:
    """The groups of a loop's rounds, where the CPU does something of its own before every so many of them only.

    Each round sends its input and reads its result back. What comes of the results is made between two groups, so
    within one no round needs the round before.
    """
    rounds = slice(loop.first, loop.last)
    if loop.last - loop.first != loop.times * loop.body:
        return []
    body = slice(loop.first, loop.first + loop.body)
    if not all(of_nodes(replay, copies(replay, kind))[body].any() for kind in (CopyKind.H2D, CopyKind.D2H)):
        return []
    gaps = replay.usual.gap[rounds].reshape(loop.times, loop.body)
    usual = median_of(gaps, axis=0)
    place = int(np.maximum(gaps - LONG_PAUSE * usual, 0.0).sum(axis=0).argmax())
    long = gaps[:, place] > LONG_PAUSE * usual[place]
    apart = np.diff(np.flatnonzero(long))
    if not len(apart):
        return []
    size = int(np.bincount(apart).argmax())
    first = int(np.bincount(np.flatnonzero(long) % size).argmax())
    begins = np.zeros(loop.times, bool)
    begins[first::size] = True
    regular = long[begins].mean() >= IN_TIME and long[~begins].mean() <= OUT_OF_TIME
    if size < MIN_IN_GROUP or begins.sum() < MIN_GROUPS or not regular:
        return []
    starts = loop.first + np.flatnonzero(begins) * loop.body + place
    whole = starts[starts + size * loop.body <= loop.last]
    return [replace(loop, first=start, last=start + size * loop.body, times=size) for start in whole.tolist()]
