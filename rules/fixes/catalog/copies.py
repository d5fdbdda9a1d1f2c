"""Copies between the host and the GPU that are avoided, hidden or joined."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from parsers.model import BOOL, F64, Attribute, CopyKind, EventKind, MemoryKind
from parsers.model.arrays import among
from parsers.model.events import of_kinds
from parsers.model.names.calls import WORK_CALLS
from parsers.model.units import duration, size
from rules.analysis.analysis import Analysis
from rules.analysis.gpu.copies import worst_copies
from rules.analysis.stretches.python_values import MAX_APART_NS, MIN_TIMES
from rules.findings.category import Category
from rules.fixes.base import Proposal, Remedy, fix, remedy
from rules.fixes.changes import (
    copies,
    less_host_time,
    most_per_step,
    of_nodes,
    per_step,
    smaller,
    together,
    until_next_work,
    without_calls,
    without_waiting,
)
from rules.fixes.copies_in_a_row import copies_in_a_row
from rules.fixes.host_phases import MIN_APART, READ_PER_NS, left_of_unknown, on_copied_data, own_work
from rules.fixes.interrupted import python_rows
from rules.fixes.round_trips import round_trips
from rules.kernels.gpu_peaks import peaks_of
from rules.remedies.copies import ROWS_ON_GPU, less_from_gpu, less_to_gpu
from rules.remedies.host_work import ROWS_AT_ONCE
from rules.replay.overlay import Overlay
from rules.replay.replay import Change, Replay
from rules.replay.surroundings import surroundings_of
from rules.terms import MAJORITY
from rules.wording.words import for_native, for_pytorch

LARGE_BYTES = 65_536
LARGE_NS = 50_000.0
LONG_NS = 250_000.0  # between two calls: operators that launch something are over sooner
TOGETHER = 16  # cores that go through data at once, at most
PINNED_SHARE = 0.84  # of the link's rate, which large copies reach in page-locked memory on an H200
_COMPUTING = (EventKind.KERNEL, EventKind.GRAPH)
_TO_GPU = ("non-blocking", "pin-memory")
_TO_HOST = ("pinned-read-backs", "no-read-backs")


@fix
class CopyLess:
    id = "copy-less"
    switches = (*_TO_GPU, *_TO_HOST)
    explanation = """
When it applies
    Copies of more than 64 kB or 50 us between host and GPU, in a program that computes on the GPU.

What is changed in the replay
    They are gone; for copies to the host, so is the host's work on the data up to the next call, and where that
    copies the result back to the GPU, that copy and the freeing after it. Where no operators were recorded, a
    fortieth of the host's work on more than 1 MB remains for the GPU, or a twentieth at most. What is copied back is no
    more than what came; what the next step begins with is, where there was time to go through it. Work before a copy
    to the GPU that only puts its data together is gone, too: going through them once, at 10 GB/s, takes four fifths of
    it or more.

What makes it more or less
    Whether all of the data is needed: the least is what the same copies into page-locked memory leave, at 0.84 of the
    link's rate, which large ones reach on an H200, and all work before copies to the GPU. Host memory that receives
    pageable copies is also faulted in and freed, which disappears with the copy. Where going through data from the GPU
    once takes a fifth to four fifths of the host's work, the rest may need none of it: at least, that stays.
"""

    def proposals(self, analysis: Analysis, replay: Replay) -> Iterable[Proposal]:
        """One for each direction."""
        if not of_kinds(analysis.trace.events.kind[replay.device.event], *_COMPUTING).any():
            return
        for kind in (CopyKind.D2H, CopyKind.H2D):
            large = copies(replay, kind) & ~round_trips(analysis).copies[replay.device.launch]
            amount = analysis.trace.attribute(Attribute.BYTES, replay.device.event)
            large &= (amount > LARGE_BYTES) | (replay.device.duration > LARGE_NS)
            if large.any():
                yield _proposal(analysis, replay, kind, large)


def _proposal(analysis: Analysis, replay: Replay, kind: CopyKind, large: BOOL) -> Proposal:
    nodes = of_nodes(replay, large)
    after = until_next_work(replay, nodes)
    if kind is CopyKind.D2H:  # what is copied back right behind it was only calculated with on the host
        back = after & _copied_back(replay, nodes)
        nodes |= back
        after |= until_next_work(replay, back)
    around = surroundings_of(analysis)
    gap = replay.host.gap
    calculated = np.where(around.operators_ns > MAJORITY * np.maximum(gap, LONG_NS), around.operators_ns, 0.0)
    silent = np.maximum(around.silent_ns, calculated)
    handled = np.where(after, np.maximum(silent - around.input_ns, 0.0), 0.0)
    if replay.is_annotated:
        # what the next step begins with, to copy it there, is no work on what this one copied
        early = replay.of_step_before
        makes = of_nodes(replay, copies(replay, CopyKind.H2D)) & (
            handled * np.minimum(early, 1 - early) >= LONG_NS
        )
        handled *= np.where(makes, early, 1.0)
    worked = handled if kind is CopyKind.D2H else put_together(replay, nodes)
    left, most_left = left_of_unknown(replay, nodes)
    on_data = on_copied_data(replay, nodes, float(worked.sum()))
    worked, least = (1 - left) * worked, (1 - most_left) * worked
    amount = int(analysis.trace.attribute(Attribute.BYTES, replay.device.event)[large].sum())
    each = per_step(replay, float(amount))
    milliseconds = per_step(replay, float(replay.device.duration[large].sum())) / 1e6
    on_it = per_step(replay, float(worked.sum()))
    handles = (
        (f", and the CPU works {duration(on_it)} on it" if on_it > milliseconds * 1e6 else "")
        if kind is CopyKind.D2H
        else (f", put together by {duration(on_it)} of CPU work" if on_it else "")
    )
    direction = "to the host" if kind is CopyKind.D2H else "to the GPU"
    return Proposal(
        fix=CopyLess.id,
        key=kind.name,
        title=f"Copy less {direction}: {size(int(each))} take {duration(milliseconds * 1e6)} {replay.in_step}{handles}",
        categories=(Category.COPY_D2H if kind is CopyKind.D2H else Category.COPY_H2D,),
        culprit=analysis.trace.name(int(replay.device.event[np.flatnonzero(large)[0]])),
        remedy=_remedy(analysis, kind, each).and_then(
            *([ROWS_ON_GPU] if kind is CopyKind.H2D and on_it else [])
        ),
        switches=_TO_HOST if kind is CopyKind.D2H else _TO_GPU,
        expected=together(without_calls(replay, nodes, 0.0), _shorter(worked)),
        low=smaller(
            replay,
            _at_least(analysis, replay, nodes, large, _shorter(least)),
            together(without_calls(replay, nodes, 0.0), _shorter((on_data or 1.0) * least)),
        )
        if kind is CopyKind.D2H or most_left
        else _at_least(analysis, replay, nodes, large, _shorter(np.zeros(len(nodes))))
        if worked.any()
        else None,
        depends_on="whether the host needs all of the data"
        if kind is CopyKind.D2H
        else "whether the data can stay on the GPU, where nothing has to be put together"
        if worked.any()
        else "",
    )


def _copied_back(replay: Replay, nodes: BOOL) -> BOOL:
    """The copies to the GPU of no more than what these calls copied to the host right before.

    The next input is none of them: it is larger, or a step begins with it, without time to work on the data.
    """
    host, device = replay.host, replay.device
    amount = np.bincount(
        device.launch, replay.analysis.trace.attribute(Attribute.BYTES, device.event), len(host)
    )
    work = np.flatnonzero(of_kinds(host.call, *WORK_CALLS))
    before, after = work[:-1], work[1:]
    row = np.cumsum(np.append(True, nodes[after] != nodes[before])[: len(work)])
    came = np.bincount(row, amount[work])[row[:-1]]
    ended = host.end.copy()
    np.maximum.at(ended, device.launch, device.end)
    worked = TOGETHER * READ_PER_NS * (host.start[after] - ended[before]) >= amount[after]
    back = after[(amount[after] <= came) & (worked | (host.step[after] == host.step[before]))]
    return of_nodes(replay, copies(replay, CopyKind.H2D)) & among(np.arange(len(host)), back)


def _at_least(analysis: Analysis, replay: Replay, nodes: BOOL, large: BOOL, worked: Change) -> Change:
    """Copies into pageable memory stay as large as they are, but go into page-locked memory; the others are gone."""
    trace, events = analysis.trace, replay.device.event
    pageable = large & (trace.attribute(Attribute.TARGET_MEMORY, events) == MemoryKind.PAGEABLE.value)
    peaks = peaks_of(trace.devices[int(replay.device.device[large][0])].name)
    if peaks is None or not peaks.link_bandwidth or not pageable.any():
        return together(without_calls(replay, nodes, 0.0), worked)
    gone = nodes.copy()
    gone[replay.device.launch[pageable]] = False
    needed = trace.attribute(Attribute.BYTES, events) / (PINNED_SHARE * peaks.link_bandwidth) * 1e9

    def page_locked(overlay: Overlay) -> None:
        overlay.duration[pageable] = np.minimum(overlay.duration, needed)[pageable]

    return together(without_calls(replay, gone, 0.0), page_locked, worked)


def put_together(replay: Replay, nodes: BOOL) -> F64:
    """The work before each of some copies to the GPU (ns) that takes no longer than going through their data does.

    Copies of one size are judged together: a single one may come late by chance.
    """
    amount = replay.analysis.trace.attribute(Attribute.BYTES, replay.device.event)
    sent = np.bincount(replay.device.launch, amount, len(nodes))
    own = np.where(nodes, own_work(replay, surroundings_of(replay.analysis)), 0.0)
    _, size_of = np.unique(sent, return_inverse=True)
    whole, worked = (np.bincount(size_of, np.where(own > 0, each, 0.0)) for each in (sent, own))
    return np.where(((1 - MIN_APART) * worked <= whole / READ_PER_NS)[size_of], own, 0.0)


def _remedy(analysis: Analysis, kind: CopyKind, each: float) -> Remedy:
    found = worst_copies(analysis, kind)
    if found is None:
        return Remedy()
    if kind is CopyKind.D2H:
        return less_from_gpu(analysis.trace, found)
    return less_to_gpu(analysis.trace, found, bytes_a_step=each)


def _shorter(ns: F64) -> Change:
    return less_host_time(ns > 0, ns)


_CODE = """rows = torch.from_numpy(np.stack(rows)).to("cuda")
# instead of
rows = torch.stack([torch.tensor(row, device="cuda") for row in rows])"""


@fix
class CopyTogether:
    id = "copy-together"
    explanation = """
When it applies
    Sixteen or more copies of at most 64 kB go to the GPU in a row, with nothing launched in between.

What is changed in the replay
    Only the first one remains. The others are gone, along with the time before them and the waits for them.

What makes it more or less
    What it costs to assemble the pieces on the CPU, and what happens between two copies: reading or computing a piece
    must still be done.
"""

    def proposals(self, analysis: Analysis, replay: Replay) -> Iterable[Proposal]:
        row = copies_in_a_row(replay, CopyKind.H2D)
        if not row.any():
            return
        launched = np.count_nonzero(row[replay.device.launch])
        often = per_step(replay, float(launched)) + 1
        host = replay.host
        taken = per_step(replay, float((host.gap + host.cost)[row].sum()))
        yield Proposal(
            title=(
                f"Send {often:,.0f} small copies as one: separately they take {duration(taken)} {replay.in_step}"
            ),
            categories=(Category.COPY_H2D, Category.HOST_BOUND, Category.SYNCHRONIZATION),
            culprit="small copies to the GPU",
            remedy=remedy(
                for_pytorch(
                    "Build one array or tensor on the CPU, and copy it once: torch.stack before .to('cuda')."
                ),
                for_native("Put the pieces side by side into one pinned buffer, and send it once."),
                code=for_pytorch(_CODE),
            ),
            expected=together(without_calls(replay, row), without_waiting(row)),
            low=together(without_calls(replay, row, 0.5), without_waiting(row)),
            depends_on="what the CPU does between two copies",
        )


@fix
class RowsAtOnce:
    id = "rows-at-once"
    explanation = f"""
When it applies
    torch.tensor() is called at least {MIN_TIMES} times in a row on a thread that launches work, with nothing in between
    but what moves and joins its results, and never {duration(MAX_APART_NS)} or more of anything else.

What is changed in the replay
    All of the time before the next call of which they are more than half is gone; elsewhere, their own time.

What makes it more or less
    What Python does around such rows remains at most, where they are not picked by index but only built at once.
"""

    def proposals(self, analysis: Analysis, replay: Replay) -> Iterable[Proposal]:
        part, gap = python_rows(analysis), replay.usual.gap
        made = part > 0
        if not made.any():
            return
        gone = np.where(part >= MAJORITY, gap, part * gap)
        yield Proposal(
            title=f"Build each batch in one call: {duration(most_per_step(replay, gone))} {replay.in_step} goes into "
            "tensors made one by one from Python values",
            categories=(Category.HOST_BOUND, Category.INPUT_BOUND),
            culprit="torch.tensor",
            problem="Batches are built from Python values one at a time",
            remedy=ROWS_AT_ONCE,
            expected=less_host_time(made, gone),
            low=less_host_time(made, part * gap),
            depends_on="what Python still does for each row",
        )
