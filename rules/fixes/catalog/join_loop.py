"""What a loop does for one item after another is done for all of them at once."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import ClassVar

import numpy as np

from parsers.model import BOOL, F64, Attribute, CopyKind
from parsers.model.late.regex import regex
from parsers.model.names.calls import Call
from rules.analysis.analysis import Analysis
from rules.analysis.names.families import Family
from rules.analysis.names.host_language import is_python
from rules.findings.category import Category
from rules.fixes.base import Proposal, fix
from rules.fixes.catalog.remove_read_backs import counts_rows
from rules.fixes.changes import copies, less_host_time, of_nodes, together, without_calls, without_waiting
from rules.fixes.independent_rounds import independent_rounds
from rules.fixes.optimizers import optimizer_calls
from rules.remedies.launching import joined_loop
from rules.replay.loops import Loop, loops_of
from rules.replay.overlay import Overlay
from rules.replay.replay import Change, Replay
from rules.replay.surroundings import surroundings_of

START_NS = 1_500.0  # of a kernel's time is its start: one kernel for all items starts once
MIN_BODY_LENGTH = 4  # calls for each wait: a loop of fewer only reads values back, which is another fix
MIN_LAUNCHES = 20  # in a step: fewer are not worth the work
_WAYS_OF_THE_MODEL = (Family.NORMALISATION, Family.ATTENTION, Family.CONVOLUTION, Family.COLLECTIVE)
_PARTS = regex(r"autograd::engine::evaluate_function: (Select|Slice|Narrow|Split|Unbind)\w*Backward")
_PRODUCTS = (Family.GEMM, Family.TRITON)


@fix
class JoinLoop:
    """Loops over the items of a batch, over tensors, over tables."""

    id: ClassVar[str] = "join-loop"
    switches: ClassVar[tuple[str, ...]] = ("compile",)
    explanation: ClassVar[str] = """
When it applies
    The same calls repeat eight or more times in a row, with at least 20 launches per step. Loops over lists of
    different lengths are one cause if their iterations make the same calls. Layers of a model depend
    on each other, so bodies with convolutions, attention or normalisation do not count; those with only matrix
    products count where rows are counted for each item, sixteen or more items pick rows and add to others, matrices
    have their own sizes, or each item has its own weights and ends with a different size than it begins with. Loops
    in programs that are not Python usually step through time: each iteration needs the previous one.

What is changed in the replay
    The CPU runs the body once. The GPU work of the other iterations remains, without the 1.5 us that each kernel
    takes to start; at most, only as far as its blocks fill the GPU. Values they read back and wait for are gone, and
    so is the work that assembles the gradients of the parts into one.

What makes it more or less
    Whether all items can have the same shape, and whether an iteration needs the previous one. Work that fills the
    GPU for one item takes as long for all of them. At most, Python between two such loops is gone, too: it puts results
    together that then are one tensor.
"""

    def proposals(self, analysis: Analysis, replay: Replay) -> Iterable[Proposal]:
        """One for each list of items: loops over as many of them, or lines that loop over lists of several lengths."""
        if not is_python(analysis.trace):
            return
        for loops in _of_one_list(_joinable(analysis, replay)):
            later = np.zeros(len(replay.host), bool)
            for loop in loops:
                later[loop.first + loop.body : loop.last] = True
            in_step = np.count_nonzero(later[replay.device.launch]) / max(replay.steps, 1) / len(replay.spans)
            if in_step >= MIN_LAUNCHES:
                yield _proposal(analysis, replay, loops, later, in_step)


def _of_one_list(loops: Sequence[Loop]) -> list[list[Loop]]:
    """Loops that belong together, by their numbers of rounds: as many rounds, or the same calls in each round.

    Where a step is thought to begin inside a loop, it has one round less.
    """
    by_times: dict[int, list[Loop]] = {}
    for loop in sorted(loops, key=lambda each: -each.times):
        cut = loop.times + 1
        by_times.setdefault(cut if cut in by_times else loop.times, []).append(loop)
    found: list[tuple[set[int], list[Loop]]] = []
    for _, alike in sorted(by_times.items()):
        kinds = {loop.kind for loop in alike}
        joined = [each for each in found if each[0] & kinds]
        found = [each for each in found if each not in joined]
        together = [loop for _, others in joined for loop in others]
        found.append((kinds.union(*(others for others, _ in joined)), [*together, *alike]))
    return [each for _, each in found]


def in_loops(analysis: Analysis, replay: Replay) -> BOOL:
    """Which host nodes are the rounds of loops that can be joined."""
    found = np.zeros(len(replay.host), bool)
    for loop in _joinable(analysis, replay):
        found[loop.first : loop.last] = True
    return found


def _joinable(analysis: Analysis, replay: Replay) -> list[Loop]:
    """Loops whose rounds can be independent, outside of optimizers, which a fix of their own joins."""
    host, device = replay.host, replay.device
    family = analysis.family_of_string[analysis.trace.events.name[device.event]]
    of_model = of_nodes(replay, np.isin(family, _WAYS_OF_THE_MODEL) | (device.meeting >= 0))
    products = of_nodes(replay, np.isin(family, _PRODUCTS))
    around = surroundings_of(analysis)
    optimizer = optimizer_calls(analysis)
    counting = counts_rows(replay)
    waits = (replay.waits.target >= 0) & (host.call == Call.SYNCHRONIZE)
    loops = loops_of(analysis)
    independent = {loop.times for loop in loops if counting[loop.first : loop.last].any()}
    independent |= independent_rounds(analysis, replay, loops, products)
    found = []
    for loop in loops:
        body = slice(loop.first, loop.first + loop.body)
        if of_model[body].any() or optimizer[body].any():
            continue
        if products[body].any() and not {loop.times, loop.times + 1} & independent:
            continue
        if loop.body < MIN_BODY_LENGTH * np.count_nonzero(waits[body]):
            continue
        if (
            around.silent_ns[loop.first + 1 : loop.last].sum()
            > 0.3 * host.gap[loop.first + 1 : loop.last].sum()
        ):
            continue
        found.append(loop)
    return found


def _proposal(
    analysis: Analysis, replay: Replay, loops: Sequence[Loop], later: BOOL, launches: float
) -> Proposal:
    device = replay.device
    waits = later & (replay.waits.target >= 0)
    family = analysis.family_of_string[analysis.trace.events.name[device.event[later[device.launch]]]]
    tensors = bool(np.isin(family, (Family.ELEMENTWISE, Family.COPY_CAST)).all())
    categories = [Category.LAUNCH_BOUND]
    if waits.any():
        categories.append(Category.SYNCHRONIZATION)
    if (later & of_nodes(replay, copies(replay, CopyKind.D2H))).any():
        categories.append(Category.COPY_D2H)
    results = less_host_time(_between(replay, loops), replay.host.gap)
    rest = together(without_waiting(waits), without_calls(replay, later & _of_parts(analysis)))
    fewest, most = min(loop.times for loop in loops), max(loop.times for loop in loops)
    if most > fewest + 1:
        items, loop = f"up to {most} items", f"loops of {fewest} to {most} iterations"
    else:
        items, loop = f"{most} items", f"a loop of {most} iterations"
    what = "Update all tensors together" if tensors else f"Process {items} at once"
    return Proposal(
        fix=JoinLoop.id,
        key=str(most),
        title=f"{what}: {loop} make{'' if most > fewest + 1 else 's'} {launches:,.0f} launches {replay.in_step}",
        categories=tuple(categories),
        culprit=loop,
        remedy=joined_loop(tensors=tensors),
        expected=together(_joined(replay, later), rest),
        high=together(_joined(replay, later, as_filled=True), results, rest),
        depends_on="whether all items can be given the same shape",
    )


def _between(replay: Replay, loops: Sequence[Loop]) -> BOOL:
    """The first call after each loop that another of the list follows in its step: results are put together before."""
    found = np.zeros(len(replay.host), bool)
    for loop, after in pairwise(sorted(loops, key=lambda loop: loop.first)):
        if loop.last < after.first and replay.host.step[loop.last] == replay.host.step[after.first]:
            found[loop.last] = True
    return found


def _of_parts(analysis: Analysis) -> BOOL:
    """The calls that put the gradient of one part into that of the whole, which all parts together need not do."""
    return surroundings_of(analysis).inside(lambda name: _PARTS.match(name) is not None)


def _joined(replay: Replay, later: BOOL, as_filled: bool = False) -> Change:
    """The later rounds cost the CPU nothing, and the GPU all but their start, or what their blocks fill of it."""
    started = later[replay.device.launch]
    part = np.where(started, _filled(replay), 1.0) if as_filled else 1.0

    def change(overlay: Overlay) -> None:
        overlay.gap[later] = 0.0
        overlay.cost[later] = 0.0
        overlay.duration[started] -= np.minimum(overlay.duration[started], START_NS)
        overlay.duration *= part

    return change


def _filled(replay: Replay) -> F64:
    """The part of the multiprocessors that the blocks of each operation fill; 1 where it is not known."""
    trace, device = replay.analysis.trace, replay.device
    blocks = trace.attribute(Attribute.GRID, device.event)
    counts = [each.sm_count or 0 for each in trace.devices]
    room = np.array(counts)[np.maximum(trace.lane_device[trace.events.lane[device.event]], 0)]
    known = (blocks > 0) & (room > 0)
    return np.where(known, np.minimum(blocks / np.maximum(room, 1), 1.0), 1.0)
