"""Values are no longer read back from the GPU, and nothing waits for it in the middle of a step."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from parsers.model import BOOL, Attribute, CopyKind
from parsers.model.names.calls import Call
from parsers.model.units import three_digits
from rules.analysis.analysis import Analysis
from rules.findings.category import Category
from rules.fixes.backward import nan_checks
from rules.fixes.base import Proposal, fix
from rules.fixes.catalog.read_results_later import result_reads
from rules.fixes.changes import copies, together, without_calls, without_waiting
from rules.fixes.compiling import graph_breaks
from rules.fixes.copies_in_a_row import copies_in_a_row
from rules.fixes.counted_rows import COUNTING, SMALL_BYTES, counting_runs
from rules.fixes.reduced_in_turn import reduced_in_turn
from rules.fixes.round_trips import round_trips
from rules.losses.owners import place_of
from rules.remedies.waiting import fewer_waits
from rules.replay.replay import Replay
from rules.replay.surroundings import Surroundings, surroundings_of

COUNTED = "counting rows"


@fix
class RemoveReadBacks:
    """Reading values back, and synchronising, at one kind of place."""

    id = "remove-read-backs"
    switches = ("no-read-backs",)
    explanation = """
When it applies
    Calls that wait for the GPU: a small copy to the host and the synchronisation after it, counting the rows of a
    mask, an explicit synchronisation. Reading the result that ends a request is none of them.

What is changed in the replay
    The copies and waits of one kind of place are gone. Where rows are counted, everything that counts them is gone
    too, and where sixteen or more values are read in a row, so is the time between them. The remaining launches stay.

What makes it more or less
    The launches that no longer have to wait may become the limit; the replay accounts for that. The profiler's cost
    per call decides the rest.
"""

    def proposals(self, analysis: Analysis, replay: Replay) -> Iterable[Proposal]:
        """One for each operator that reads back, one for other waits."""
        around = surroundings_of(analysis)
        elsewhere = round_trips(analysis).calls | nan_checks(analysis) | copies_in_a_row(replay, CopyKind.H2D)
        elsewhere |= result_reads(analysis) | graph_breaks(analysis) | reduced_in_turn(analysis)
        in_a_row = copies_in_a_row(replay, CopyKind.D2H)
        waiting = (replay.waits.target >= 0) & ~elsewhere
        trace, device = analysis.trace, replay.device
        size = trace.attribute(Attribute.BYTES, device.event)
        small = copies(replay, CopyKind.D2H) & (size <= SMALL_BYTES)
        reads = np.zeros(len(replay.host), bool)
        reads[device.launch[small]] = True
        reads &= ~elsewhere
        synchronises = waiting & (replay.host.call == Call.SYNCHRONIZE)
        # a copy and what waits for it are two calls, and one wait
        before_another = np.append(synchronises[1:] & (np.diff(replay.host.thread) == 0), False)
        waits = synchronises | (waiting & ~before_another)
        counting = counting_runs(replay, reads, synchronises)
        last = int(trace.events.start[trace.links.launch].max(initial=0))
        for name, nodes in sorted(_by_place(around, reads | synchronises, counting).items()):
            if (replay.host.start[nodes] > last).all():  # as the profiler itself waits when it stops
                continue
            counts = name in (*COUNTING, COUNTED)
            values = 2 * int((nodes & reads).sum()) >= max(int((nodes & waiting).sum()), 1)
            inside = (counting if name == COUNTED else around.inside(name.__eq__)) if counts else nodes
            gone = without_calls(replay, inside) if counts else without_calls(replay, nodes & reads, 0.0)
            counted = reads if values and not counts else waits
            often = np.count_nonzero(nodes & counted) / max(replay.steps, 1) / len(replay.spans)
            yield Proposal(
                key=name,
                title=_title(
                    name,
                    place_of(analysis, (nodes & counted).astype(np.float64)),
                    counts,
                    values,
                    often,
                    replay.in_step,
                ),
                categories=(Category.SYNCHRONIZATION,),
                culprit=name or "synchronisation",
                remedy=fewer_waits(trace, counts_rows=counts, reads_values=values),
                expected=together(
                    gone, without_waiting(nodes & waiting), without_calls(replay, nodes & in_a_row)
                ),
            )


def _by_place(around: Surroundings, nodes: BOOL, counting: BOOL) -> dict[str, BOOL]:
    """The nodes by the operator that reads back, else by what the calls around them do."""
    trace = around.replay.analysis.trace
    found: dict[str, BOOL] = {}
    event = around.read_back[nodes]
    names = [trace.name(each) if each >= 0 else "" for each in event.tolist()]
    places = np.flatnonzero(nodes)
    for node, name in zip(places.tolist(), names, strict=True):
        if name == "aten::_local_scalar_dense":
            name = "aten::item"
        if not name and counting[node]:
            name = COUNTED
        found.setdefault(name, np.zeros(len(nodes), bool))[node] = True
    return found


def _title(name: str, place: str, counts: bool, reads: bool, often: float, in_step: str) -> str:
    count = f"{often:,.0f}" if often == round(often) else three_digits(often)
    often_said = "once" if count == "1" else f"{count} times"
    times = f"{often_said} {in_step}" if often >= 1 else "now and then"
    where = f" in {place}" if place else ""
    if counts:
        return f"Pick rows without counting them: {name}{where} makes the CPU wait for the GPU {times}"
    if reads:
        what = f"{name or 'a small copy'}{where}"
        return f"Stop reading single values back from the GPU: {what} makes the CPU wait {times}"
    return f"Remove the synchronisations: the CPU stops for the GPU{where} {times}"
