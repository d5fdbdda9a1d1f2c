"""Values that the host need not read back, or need not wait for."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from parsers.model import BOOL, F64, Attribute, CopyKind, derived
from parsers.model.names.calls import Call
from parsers.model.names.per_name import named
from parsers.model.units import duration, size, three_digits
from rules.analysis.analysis import Analysis
from rules.analysis.recording.training import is_training
from rules.findings.category import Category
from rules.fixes.backward import graph_breaks, nan_checks, optimizers_ns
from rules.fixes.base import Proposal, fix
from rules.fixes.changes import (
    COUNTING,
    SMALL_BYTES,
    copies,
    counting_runs,
    less_host_time,
    of_nodes,
    per_step,
    together,
    unchanged,
    without_calls,
    without_waiting,
)
from rules.fixes.copies_in_a_row import copies_in_a_row
from rules.fixes.reduced_in_turn import reduced_in_turn
from rules.fixes.round_trips import RoundTrips, round_trips
from rules.losses.owners import place_of
from rules.remedies.communication import ON_GPU
from rules.remedies.copies import KEEP_ON_GPU, KEEP_WEIGHTS, OPTIMIZER_ON_GPU
from rules.remedies.engines import directive_advice
from rules.remedies.host_work import by_name
from rules.remedies.remedy import remedy
from rules.remedies.waiting import fewer_waits
from rules.replay.replay import Change, Replay, replay_of
from rules.replay.surroundings import Surroundings, surroundings_of
from rules.terms import Culprit, CulpritKind
from rules.wording.words import for_pytorch, shortened

ONE_VALUE = 8  # bytes: what is read back to decide something is no larger
MIN_STEPS = 3
MAX_BETWEEN = 4  # calls between two copies of the same result: it is prepared for the copy
MAX_BETWEEN_NS = 20_000.0  # on the GPU
MIN_GAIN = 1.03
_DECIDES = ("aten::item", "aten::_local_scalar_dense", "aten::is_nonzero", "aten::equal")

_CODE = """host = torch.empty(results.shape, dtype=results.dtype, pin_memory=True)
host.copy_(results, non_blocking=True)
done = torch.cuda.Event()
done.record()
launch(next_request)          # before this one's results are needed
done.synchronize()            # waits for this request only
answer(host)"""


@fix
class ReadResultsLater:
    id = "read-results-later"
    explanation = """
When it applies
    Nothing is trained, three or more steps each wait at one place only, and read several values there: the result
    leaves the GPU. That cannot be taken away. Operators must be recorded: reading a single value is no result.

What is changed in the replay
    Nothing waits there, as if the next request was launched before. At least, nothing changes.

What makes it more or less
    Whether the next request is there before this one is answered.
"""

    def proposals(self, analysis: Analysis, replay: Replay) -> Iterable[Proposal]:
        nodes = result_reads(analysis)
        waits = nodes & (replay.waits.target >= 0)
        if not waits.any() or replay.gain([without_waiting(waits)]) < MIN_GAIN:
            return
        place = place_of(analysis, nodes.astype(np.float64))
        yield Proposal(
            title=f"Read the results of a request{f' in {place}' if place else ''} while the next one runs",
            categories=(Category.SYNCHRONIZATION,),
            culprit="results",
            remedy=remedy(
                "The results have to leave the GPU: this wait can be hidden behind the next request, not removed.",
                for_pytorch(
                    "Copy them into pinned memory with non_blocking=True, launch the next request, and wait for the "
                    "copy alone (torch.cuda.Event) before they are used."
                ),
                "Where requests come one by one, make the GPU's work of a request shorter instead.",
                code=for_pytorch(_CODE),
            ),
            expected=without_waiting(waits),
            low=unchanged,
            depends_on="if the next request is there before this one is answered",
            redesign=True,
        )


@derived
def result_reads(analysis: Analysis) -> BOOL:
    """The calls that read what a request computed, where each step of a program that trains nothing does so once.

    None where steps wait at several places: the values that are read there decide what comes next.
    """
    replay = replay_of(analysis)
    host, device = replay.host, replay.device
    none = np.zeros(len(host), bool)
    if replay.steps < MIN_STEPS or len(replay.spans) > 1 or is_training(analysis):
        return none
    size = analysis.trace.attribute(Attribute.BYTES, device.event)
    reads = of_nodes(replay, copies(replay, CopyKind.D2H) & (size > ONE_VALUE) & (size <= SMALL_BYTES))
    waits = replay.waits.target >= 0
    around = surroundings_of(analysis)
    operator = around.read_back
    known = np.flatnonzero(waits & (operator >= 0))
    decides = none.copy()
    decides[known] = named(analysis.trace, operator[known], _DECIDES.__contains__)
    at = np.flatnonzero(waits | reads)
    # where no operators were recorded, nobody knows whether the program only hands on what it reads
    if not reads.any() or (decides & waits).any() or (reads & (around.operator < 0)).any():
        return none
    work = np.cumsum(np.bincount(device.launch, device.duration * ~reads[device.launch], minlength=len(host)))
    between = (np.diff(at) > MAX_BETWEEN) | (np.diff(work[at]) > MAX_BETWEEN_NS)
    apart = np.append(True, between | (np.diff(host.thread[at]) != 0))
    group = np.cumsum(apart) - 1
    reading = np.bincount(group, reads[at]) > 0
    # the first and the last step may begin or end in the middle of a group
    if len(reading) > replay.steps + 1 or np.count_nonzero(~reading) > 1:
        return none
    found = none.copy()
    found[at[reading[group]]] = True
    return found


COUNTED = "counting rows"


@fix
class RemoveReadBacks:
    id = "remove-read-backs"
    switches = ("no-read-backs",)
    explanation = """
When it applies
    Calls that wait for the GPU: a small copy to the host and the synchronisation after it, counting the rows of a
    mask, an explicit synchronisation. Reading the result that ends a request is none of them, nor are copies of which
    fewer than half make the CPU wait, unless sixteen or more come in a row.

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
        reads = of_nodes(replay, small) & ~elsewhere
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
            copied, waited = int((nodes & reads).sum()), int((nodes & waiting).sum())
            if 2 * waited < copied and not counts and not (nodes & in_a_row).any():
                continue  # into page-locked memory: the CPU goes on
            values = 2 * copied >= max(waited, 1)
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


ALIKE = 0.5


@fix
class KeepOnGpu:
    id = "keep-on-gpu"
    switches = ("no-read-backs",)
    explanation = """
When it applies
    More than 1 MB per step is copied to the host, operators on the CPU compute on it for more than 1 ms, and copies
    of the same sizes go back before the GPU gets other work; where directives (OpenACC, OpenMP) offload loops, the
    CPU need not compute. Or the CPU works for more than 1 ms inside the backward pass or an optimizer, and copies
    of the same sizes go both ways in each step. Or at least eight copies of at least two sizes go each way in a
    step, as weights do when they are swapped in and out, and gradients when gloo or MPI reduces them on the CPU. Or
    at least 16 copies to the host in a step, of 1 MB together, are each followed by operators that compute on the
    CPU, for more than 1 ms in all and longer than the CPU does anything else, as averages of weights are that stay
    there. Or the CPUs of the ranks reduce what was copied to the host, for more than 1 ms of a step with operators that
    compute on it, and the GPU gets no other work until then.

What is changed in the replay
    The copies in both directions, the waits for them and the host work in between are gone; a twentieth of its
    operators' time stays, a fiftieth for long ones, which is what they take on the GPU. How long a rank waits for the
    others in a collective of the CPUs stays where the GPUs run none.

What makes it more or less
    How fast the GPU does the work: for large operators almost nothing stays. Whether the GPU's memory has room for
    what the host holds, such as an optimizer's state.
"""

    def proposals(self, analysis: Analysis, replay: Replay) -> Iterable[Proposal]:
        trips = round_trips(analysis)
        if not trips.calls.any():
            return
        updates = _updates_parameters(analysis, replay, trips)
        exchanged = trips.exchanged
        name = (
            ""
            if trips.swapped or trips.exchanged or trips.mapped
            else surroundings_of(analysis).place(int(trips.work_ns.argmax()))
        )
        what = (
            "Update the parameters on the GPU"
            if updates
            else "Let NCCL exchange tensors between the GPUs"
            if exchanged
            else "Leave data that does not change on the GPU"
            if trips.swapped
            else "Keep the arrays on the GPU from loop to loop"
            if trips.mapped
            else f"Move the work of {shortened(name)} to the GPU"
            if name
            else "Keep the computation on the GPU"
        )
        named = by_name(Culprit(CulpritKind.REGION, name))
        amount = size(round(per_step(replay, trips.bytes)))
        taken = per_step(replay, float(replay.host.cost[trips.calls].sum() + trips.work_ns.sum()))
        yield Proposal(
            title=(
                f"{what}: {amount} go to the host{'' if exchanged or trips.kept else ' and come back'}, "
                f"{duration(taken)} "
                f"{replay.in_step}"
            ),
            categories=(
                Category.COPY_D2H,
                *(() if trips.kept else (Category.COPY_H2D,)),
                Category.HOST_BOUND,
                Category.SYNCHRONIZATION,
                *((Category.EXPOSED_COMMUNICATION,) if exchanged else ()),
            ),
            culprit="optimizer on the CPU"
            if updates
            else name or ("computed on the host" if trips.kept else "round trip through the host"),
            remedy=OPTIMIZER_ON_GPU
            if updates
            else ON_GPU
            if exchanged
            else KEEP_WEIGHTS
            if trips.swapped
            else remedy(*directive_advice(analysis.trace), *KEEP_ON_GPU.advice)
            if trips.mapped
            else KEEP_ON_GPU.after(*(named.advice if named else ())),
            expected=_without(replay, trips, trips.work_ns),
            high=_without(replay, trips, trips.work_ns + trips.left_ns),
            depends_on="how fast the link between the GPUs is"
            if exchanged
            else "whether the CPU needs the arrays in between"
            if trips.mapped
            else "how fast the GPU does this work, and whether its memory has room for it",
        )


def _without(replay: Replay, trips: RoundTrips, work_ns: F64) -> Change:
    return together(
        without_calls(replay, trips.copies, 0.0),
        without_waiting(trips.calls),
        less_host_time(trips.calls, work_ns),
    )


def _updates_parameters(analysis: Analysis, replay: Replay, trips: RoundTrips) -> bool:
    """Whether most of the work on the host is an optimizer's step."""
    gap = replay.host.gap
    inside = np.minimum(optimizers_ns(analysis), gap)
    return bool(inside[trips.calls].sum() > ALIKE * gap[trips.calls].sum())
