"""What is done once for many requests: computing, and serving several together."""

from __future__ import annotations

import math
from collections.abc import Iterable

import numpy as np

from parsers.model import BOOL, I64, Attribute, CopyKind, Trace
from parsers.model.arrays import distinct_values
from parsers.model.units import percent
from rules.analysis.analysis import Analysis
from rules.analysis.recording.training import is_training
from rules.findings.category import Category
from rules.fixes.base import MIN_GPU_SHARE, Proposal, fix, remedy
from rules.fixes.changes import copies, share_of, unchanged, without_calls
from rules.kernels.recorded_shapes import Shape, single_tensors_in
from rules.losses.owners import place_of
from rules.replay.overlay import Overlay
from rules.replay.replay import Change, Replay
from rules.replay.surroundings import surroundings_of
from rules.wording.words import for_pytorch

MIN_REQUESTS = 3
MIN_ELEMENTS = 1_000_000
MAX_PER_NS = 10.0  # elements: no GPU writes more than 10 TB/s, so what took less time did not make them
MAX_OPERATORS = 20_000  # in a step
MIN_TIMES = 16  # as many elements as what else a request works on

_COMPUTING_CODE = """index = F.normalize(passages, dim=1)      # once, when they are loaded

def answer(question):
    return model(question) @ index.T      # not F.normalize(passages, dim=1) again in each request"""

_SENT = "aten::copy_"
_PRODUCTS = ("mm", "bmm", "mv", "matmul", "addmm", "baddbmm", "linear", "einsum", "_cdist_forward")
_PICKS = ("index_select", "index", "gather", "embedding")
_JOINS = frozenset(f"aten::{name}" for name in (*_PRODUCTS, *_PICKS))


@fix
class ComputeOnce:
    id = "compute-once"
    explanation = """
When it applies
    Nothing is trained, and three or more times, in each step, operators work for at least 5 % of the GPU's time on a
    tensor of a million elements or more, and on nothing else. Nothing in the step can have made it: what ran on the
    GPU before took too little time to write it. All else that the step works on has less than a sixteenth as many
    elements. No operator changes a tensor of its shape in place, and none like it is sent to the GPU. The step works on
    something else first, then joins the data with it, by a product or by picking rows, and nothing reads the data
    behind the last of these. Shapes must be recorded.

What is changed in the replay
    These operators are gone. At least, nothing changes.

What makes it more or less
    Whether the data is the same in each request, which no recording says, and whether there is room for the result.
"""

    def proposals(self, analysis: Analysis, replay: Replay) -> Iterable[Proposal]:
        trace, device = analysis.trace, replay.device
        if len(replay.spans) > 1 or Attribute.INPUT_DIMS not in trace.attributes or is_training(analysis):
            return
        nodes, shape, times = _unchanging(analysis, replay)
        share = share_of(replay, nodes[device.launch])
        steps = len(distinct_values(replay.host.step[nodes]))
        if share < MIN_GPU_SHARE or steps < max(replay.steps - 1, 1) or times * replay.steps < MIN_REQUESTS:
            return
        launched = np.bincount(device.launch, device.duration, minlength=len(replay.host))
        weight = np.where(nodes, launched, 0.0)
        operator = surroundings_of(analysis).whole_operator
        most = trace.name(int(operator[int(weight.argmax())])).removeprefix("aten::")
        place = place_of(analysis, weight)
        size = " x ".join(f"{each:,}" for each in shape)
        yield Proposal(
            title=(
                f"Compute once what no request changes: {percent(share)} of the GPU's time is work on the same "
                f"{size} values again, mostly “{most}”{f' in {place}' if place else ''}"
            ),
            categories=(
                Category.MEMORY_BOUND_KERNELS,
                Category.SLOW_OPERATOR,
                Category.GPU_BOUND,
                Category.RECOMPUTATION,
            ),
            culprit=f"aten::{most}",
            problem="The same data is worked on again in each request",
            remedy=remedy(
                "If this data is the same in each request (an index, a table, weights), compute what follows from it "
                "once, when it is loaded, and keep the result.",
                for_pytorch(
                    "If it changes now and then, compute it again then, or only the rows that changed."
                ),
                code=for_pytorch(_COMPUTING_CODE),
            ),
            expected=without_calls(replay, nodes),
            low=unchanged,
            depends_on="whether this data is the same in each request",
        )


def _unchanging(analysis: Analysis, replay: Replay) -> tuple[BOOL, Shape, int]:
    """The calls that work on kept data alone, as a step in the middle shows them; its shape; how often in a step."""
    trace, host = analysis.trace, replay.host
    operator = surroundings_of(analysis).whole_operator
    dims = np.full(len(host), -1)
    known = operator >= 0
    dims[known] = trace.attribute(Attribute.INPUT_DIMS, operator[known], -1)
    name = np.full(len(host), -1)
    name[known] = trace.events.name[operator[known]]
    key = name.astype(np.int64) * (len(trace.strings) + 1) + dims
    mine = np.flatnonzero(_of_one_request(replay) & known)
    of_operator, first = np.unique(operator[mine], return_index=True)
    mine = mine[np.sort(first)]
    if len(of_operator) > MAX_OPERATORS:
        return np.zeros(len(host), bool), (), 0
    lasts = np.bincount(
        np.searchsorted(of_operator, operator[replay.device.launch]).clip(max=max(len(of_operator) - 1, 0)),
        np.where(np.isin(operator[replay.device.launch], of_operator), replay.device.duration, 0.0),
        minlength=len(of_operator),
    )[np.searchsorted(of_operator, operator[mine])]
    sent = distinct_values(operator[replay.device.launch[copies(replay, CopyKind.H2D)]])
    names = [trace.strings[each] for each in name[mine].tolist()]
    for place in np.flatnonzero(np.isin(operator[mine], sent)).tolist():
        names[place] = _SENT  # this data is the request's
    found, shape = _from_kept(names, _shapes_of_dims(trace, dims[mine]), lasts.tolist())
    keys = set(key[mine[found]].tolist()) - set(key[mine[~found]].tolist())
    chosen = np.array(sorted(keys), np.int64)
    times = int(np.count_nonzero(np.isin(key[mine], chosen))) // max(len(chosen), 1)
    return known & np.isin(key, chosen), shape, times


def _of_one_request(replay: Replay) -> BOOL:
    """The calls of the busiest thread from one step's last wait to that of the next one, in the middle."""
    host = replay.host
    middle = replay.steps // 2
    thread = int(np.bincount(host.thread).argmax())
    waits = np.flatnonzero((replay.waits.target >= 0) & (host.thread == thread))
    ends = [waits[host.step[waits] == each] for each in (middle - 1, middle)]
    if not all(len(each) for each in ends):
        return np.asarray((host.step == middle) & (host.thread == thread))
    place = np.arange(len(host))
    return np.asarray((place > ends[0][-1]) & (place <= ends[1][-1]) & (host.thread == thread))


def _from_kept(names: list[str], shapes: list[list[Shape]], lasts: list[float]) -> tuple[BOOL, Shape]:
    """Which operators of a request, in order, work on a large kept tensor and what follows from it alone."""
    found = np.zeros(len(names), bool)
    written = {inputs[0] for name, inputs in zip(names, shapes, strict=True) if name.endswith("_") and inputs}
    longest, largest = 0.0, 0
    kept: Shape = ()
    for index, (name, inputs, ns) in enumerate(zip(names, shapes, lasts, strict=True)):
        most = max(inputs, key=_elements, default=())
        if not kept:
            there = max(longest * MAX_PER_NS, largest * MIN_TIMES, MIN_ELEMENTS - 1) < _elements(most)
            alone = all(_follows(each, most) for each in inputs) and not name.endswith("_")
            if there and alone and not any(_are_parts(each, most) for each in written):
                kept = most
            else:
                longest = max(longest, ns)
                largest = max([largest, *(_elements(each) for each in inputs if each != most or not there)])
        if kept and inputs and not name.endswith("_"):
            found[index] = all(_follows(each, kept) for each in inputs)
    others = (_elements(each) for inputs in shapes for each in inputs if kept and not _follows(each, kept))
    if max(others, default=0) * MIN_TIMES >= _elements(kept) or not _is_only_read(names, shapes, kept):
        return np.zeros(len(names), bool), ()
    return found, kept


def _is_only_read(names: list[str], shapes: list[list[Shape]], kept: Shape) -> bool:
    """Whether a request works on data of its own, joins it with the kept one, and leaves that alone afterwards.

    What a simulation works on is kept from step to step as well, but each changes it.
    """
    uses = [
        any(each == kept or (_follows(each, kept) and len(each) > 1) for each in inputs) for inputs in shapes
    ]
    own = [bool(inputs) and not any(_follows(each, kept) for each in inputs) for inputs in shapes]
    joins = [
        uses[place] and names[place] in _JOINS and not all(_follows(each, kept) for each in inputs)
        for place, inputs in enumerate(shapes)
    ]
    if not any(joins):
        return False
    return any(own[: joins.index(True)]) and not any(uses[len(joins) - joins[::-1].index(True) :])


def _follows(shape: Shape, kept: Shape) -> bool:
    """Whether a tensor may be made of the kept one alone: its sizes, in any order, or reduced to 1."""
    left = list(kept)
    for each in shape:
        if each in left:
            left.remove(each)
        elif each != 1:
            return False
    return _elements(shape) ** 2 >= _elements(kept)


def _are_parts(written: Shape, kept: Shape) -> bool:
    """Whether a tensor that is written may be the kept one, or a part of it along one of its sizes."""
    return len(written) == len(kept) and sum(a != b for a, b in zip(written, kept, strict=True)) <= 1


def _elements(shape: Shape) -> int:
    return int(math.prod(shape, start=1.0)) if shape else 0


def _shapes_of_dims(trace: Trace, dims: I64) -> list[list[Shape]]:
    """The shapes of the tensors that each operator is given; none where they were not recorded."""
    read = {
        each: single_tensors_in(trace.strings[each]) if each >= 0 else []
        for each in distinct_values(dims).tolist()
    }
    return [read[each] for each in dims.tolist()]


TOGETHER = 16.0  # requests: a batch that serving programs form by default, and at least a quarter of it
FEW, MANY = 4.0, 64.0
EQUALLY = 0.5  # launches of the busiest thread
ALIKE = 0.8  # of the kernels' names: the threads run the same model
MIN_LIMIT = 2.0  # times faster with no host time at all: else the GPU is the limit already


@fix
class BatchRequests:
    id = "batch-requests"
    explanation = """
When it applies
    Several threads of one process run a model without training it, and the CPU is the limit.

What is changed in the replay
    If k requests are served together, the host time becomes a k-th. The GPU's time stays the same.

What makes it more or less
    How many requests are waiting at once, and how much longer a batch takes than one request. The program has to be
    redesigned, so there is a range but no single estimate.
"""

    def proposals(self, analysis: Analysis, replay: Replay) -> Iterable[Proposal]:
        threads = _alike(analysis, replay)
        if threads < 2 or len(replay.spans) > 1 or is_training(analysis):
            return
        if replay.gain([_divided(1e9)]) < MIN_LIMIT:
            return
        yield Proposal(
            title=(
                f"Serve several requests together: {threads} threads take turns, each running the model separately"
            ),
            categories=(Category.LAUNCH_BOUND, Category.HOST_BOUND),
            culprit=f"{threads} threads",
            remedy=remedy(
                "Collect waiting requests into a batch, run the model once, and hand back the answers: one thread "
                "launches, the others only queue.",
                "Servers such as vLLM or Triton Inference Server already do this.",
            ),
            expected=_divided(TOGETHER),
            low=_divided(FEW),
            high=_divided(MANY),
            depends_on=(
                "how many requests wait at the same time: served together, k of them are up to k times faster, but "
                "no faster than the GPU can compute"
            ),
            redesign=True,
        )


def _alike(analysis: Analysis, replay: Replay) -> int:
    """How many threads launch the same kernels about equally often on GPUs that they share.

    A thread for each GPU serves no request of its own: it does one part of the same work.
    """
    trace, device = analysis.trace, replay.device
    owner = analysis.threads.of_events(replay.host.event[device.launch])
    found, counts = np.unique(owner[owner >= 0], return_counts=True)
    busy = found[counts >= EQUALLY * counts.max(initial=0)]
    kernels = [
        set(distinct_values(trace.events.name[device.event[owner == each]]).tolist())
        for each in busy.tolist()
    ]
    if len(kernels) < 2:
        return len(kernels)
    gpus = [_gpus(trace, device.event[owner == each]) for each in busy.tolist()]
    if sum(map(len, gpus)) == len(set.union(*gpus)):
        return 1
    shared = set.intersection(*kernels)
    return len(kernels) if len(shared) >= ALIKE * max(map(len, kernels)) else 1


def _gpus(trace: Trace, operations: I64) -> set[int | None]:
    return {trace.lanes[lane].device for lane in distinct_values(trace.events.lane[operations]).tolist()}


def _divided(times: float) -> Change:
    def change(overlay: Overlay) -> None:
        overlay.gap /= times
        overlay.cost /= times
        overlay.tail /= times
        overlay.waits[:] = False
        overlay.turns = False  # those of small requests leave room for one another

    return change
