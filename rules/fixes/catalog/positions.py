"""Work on positions of texts that need not be: padding, and all tokens so far again for each new one."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator

import numpy as np

from parsers.model import F64, I64, Attribute, EventKind, derived
from parsers.model.arrays import rows_by
from parsers.model.late import dataclass
from parsers.model.names.per_name import named
from parsers.model.units import percent
from rules.analysis.analysis import Analysis
from rules.analysis.names.families import Family
from rules.analysis.names.operators import aten
from rules.analysis.recording.training import is_training
from rules.findings.category import Category
from rules.fixes.backward import autograd_functions
from rules.fixes.base import Proposal, fix
from rules.fixes.changes import MIN_NS, durations_times, host_time_times, together
from rules.fixes.forms.gathered_rows import reading_weights_ns
from rules.fixes.forms.written import called_in_order, costly_calls, left_of
from rules.kernels.recorded_shapes import Shape, inputs_of_event, tensors_by_dims
from rules.remedies.remedy import pytorch_remedy, remedy
from rules.replay.replay import Replay
from rules.wording.words import for_pytorch

MIN_LONGER = 1.5  # times the length before: less is a round number, or a few texts that are longer
NEAR = 12  # operators from padding to looking the rows up
_PADS = frozenset({"aten::pad", "aten::constant_pad_nd"})
_LOOKS_UP = "aten::embedding"


@dataclass(frozen=True, slots=True, eq=False)
class PaddedTexts:
    """Operators on padded texts, by event, and the part of their positions that there were before."""

    operators: I64
    left: F64
    before: int = 0  # the longest text of the batch that was padded most, and the length that it got
    length: int = 0


def padded_texts(analysis: Analysis) -> PaddedTexts:
    """What works on ids that were padded to more than they were, up to the next batch. Shapes must be recorded."""
    trace = analysis.trace
    found: list[I64] = []
    left: list[F64] = []
    worst = (1.0, 0, 0)
    if Attribute.INPUT_DIMS in trace.attributes:
        for called in called_in_order(analysis):
            pads = np.flatnonzero(named(trace, called, _PADS.__contains__))
            looks = np.flatnonzero(named(trace, called, _LOOKS_UP.__eq__))
            dims = trace.attribute(Attribute.INPUT_DIMS, called, -1)
            shapes = tensors_by_dims(trace, dims if len(pads) else dims[:0])
            for place, end in zip(pads.tolist(), [*pads[1:].tolist(), len(called)], strict=False):
                near = looks[slice(*np.searchsorted(looks, (place + 1, min(place + NEAR + 1, end))))]
                before = _only(inputs_of_event(trace, int(called[place])))
                ids = [shapes[each][1] for each in dims[near].tolist() if len(shapes[each]) > 1]
                lengths = [each[1] for each in ids if len(each) == len(before) == 2 and each[0] == before[0]]
                if not lengths or lengths[0] < MIN_LONGER * before[1]:
                    continue
                mine = np.arange(near[0], end)
                longer = [
                    each
                    for each, taken in shapes.items()
                    if any(lengths[0] in one[:-1] or one == ids[0] for one in taken)
                ]
                mine = called[mine[np.isin(dims[mine], longer)]]
                part = before[1] / lengths[0]
                found.append(mine)
                left.append(np.full(len(mine), part))
                worst = min(worst, (part, before[1], lengths[0]))
    operators, parts = np.concatenate([np.empty(0, np.int64), *found]), np.concatenate([np.empty(0), *left])
    order = np.argsort(operators)
    return PaddedTexts(operators[order], parts[order], *worst[1:])


def _only(inputs: list[list[int]]) -> Shape:
    return tuple(inputs[0]) if inputs else ()


PAD_TO_LONGEST = remedy(
    "Pad each batch to its own longest text, rounded up to a multiple of 8, and sort texts by length, so that those of "
    "a batch are about as long.",
    for_pytorch(
        'In transformers: padding="longest" (or padding=True) and pad_to_multiple_of=8, in place of '
        'padding="max_length".'
    ),
    "Where a compiled model or a CUDA graph needs fixed lengths, a few of them, such as 64, 128 and 256, will do.",
    code=for_pytorch("""longest = max(len(each) for each in batch)
length = -(-longest // 8) * 8                 # instead of the most that the model takes"""),
)


MIN_POWER = 0.7  # shorter texts fill a GPU less: at least, the time shrinks as this power of their length


@fix
class PadToLongest:
    id = "pad-to-longest"
    explanation = """
When it applies
    Ids of texts are padded (aten::pad) to at least 1.5 times the length that the longest of their batch has, and rows
    of a table are looked up by them. What has as many positions, up to the next batch, takes at least 5 % of the GPU's
    time. Shapes must be recorded.

What is changed in the replay
    All of that takes as much less time as there are fewer positions.

What makes it more or less
    How well shorter texts fill the GPU. Attention gains more, as its work grows with the square of the length, and
    batches of texts that are about as long gain more than this.
"""

    def proposals(self, analysis: Analysis, replay: Replay) -> Iterable[Proposal]:
        found = padded_texts(analysis)
        _, share = costly_calls(analysis, replay, found.operators)
        if not share:
            return
        yield Proposal(
            title=(
                f"Pad texts to the longest of their batch: {percent(share)} of the GPU's time works on "
                f"{found.length:,} positions, of which {found.before:,} can hold anything"
            ),
            categories=(Category.RECOMPUTATION, Category.GPU_BOUND),
            culprit="padding",
            problem="Texts are padded far beyond the longest of their batch",
            remedy=PAD_TO_LONGEST,
            expected=durations_times(*left_of(analysis, replay, found.operators, found.left)),
            low=durations_times(*left_of(analysis, replay, found.operators, found.left**MIN_POWER)),
            depends_on="how well shorter texts fill the GPU",
        )


MIN_PASSES = 4  # in a row, each over one position more than the one before
MIN_POSITIONS = 16  # of the first: a few are computed as quickly as one
_ATTENTION = "aten::scaled_dot_product_attention"
_SOFTMAX = frozenset({"aten::softmax", "aten::_softmax"})
_ROW_BY_BLOCK = "vectorized_gather_kernel"
MIN_THREADS = 8  # for each position, of a kernel that works on what a layer knows of it
_RECURRENT = aten("lstm gru rnn_tanh rnn_relu")


@dataclass(frozen=True, slots=True, eq=False)
class GrowingSequences:
    """Operators that work on all positions so far, in passes that add one: which, and on how many positions each."""

    operators: I64
    positions: I64
    recurrent: bool  # a state is carried, not keys and values


@derived
def growing_sequences(analysis: Analysis) -> GrowingSequences:
    """The passes of a program without gradients whose attention has a query for each position that it reads.

    Where there are none, those whose recurrent layers go through all positions. The first pass of each sequence, which
    has to compute all of them, is not among them. Shapes must be recorded.
    """
    found: list[tuple[I64, int]] = []
    recurrent = False
    if Attribute.INPUT_DIMS in analysis.trace.attributes and not (autograd_functions(analysis) >= 0).any():
        threads = list(called_in_order(analysis))
        found = [each for called in threads for each in _of_thread(analysis, called, recurrent=False)]
        if recurrent := not found:
            found = [each for called in threads for each in _of_thread(analysis, called, recurrent=True)]
    elif EventKind.CPU_OP not in analysis.trace.kinds and not is_training(analysis):
        found = [each for stream in _kernels_in_order(analysis) for each in _of_stream(analysis, stream)]
    nothing = np.empty(0, np.int64)
    return GrowingSequences(
        np.concatenate([nothing, *(mine for mine, _ in found)]),
        np.concatenate([nothing, *(np.full(len(mine), count) for mine, count in found)]),
        recurrent and bool(found),
    )


def _kernels_in_order(analysis: Analysis) -> Iterator[I64]:
    events = analysis.trace.events
    kernels = events.by_start(events.of_kind(EventKind.KERNEL))
    for _, rows in rows_by(events.lane[kernels]):
        yield kernels[rows]


def _of_stream(analysis: Analysis, kernels: I64) -> Iterator[tuple[I64, int]]:
    """The same of the kernels of a stream: a pass begins with rows that are looked up, a block for each position.

    As many more of them as there are sequences are looked up in the next pass. All between the first and the last
    large kernel that grows with it works on all positions; attention must be among it.
    """
    trace = analysis.trace
    grid, block = (trace.attribute(each, kernels, 0) for each in (Attribute.GRID, Attribute.BLOCK))
    begins = np.flatnonzero(named(trace, kernels, lambda name: _ROW_BY_BLOCK in name))
    if len(begins) < MIN_PASSES:
        return
    rows = grid[begins]
    more = np.diff(rows)
    sequences = int(np.bincount(more[more > 0]).argmax()) if (more > 0).any() else 0
    if not sequences:
        return
    length, even = rows // sequences, rows % sequences == 0
    grows = np.append(False, (more == sequences) & even[1:] & (length[1:] > MIN_POSITIONS))
    often = np.bincount(np.cumsum(~grows))[np.cumsum(~grows)]
    launch = np.unique(np.stack((trace.events.name[kernels], grid)), axis=1, return_inverse=True)[1].ravel()
    attends = analysis.family_of_string[trace.events.name[kernels]] == Family.ATTENTION
    for at in np.flatnonzero(grows & (often >= MIN_PASSES)).tolist():
        first, last = int(begins[at]), int(begins[at + 1]) if at + 1 < len(begins) else len(kernels)
        others = ~np.isin(launch[first:last], launch[int(begins[at - 1]) : first])
        changed = np.flatnonzero(
            others & (grid[first:last] * block[first:last] >= MIN_THREADS * int(rows[at]))
        )
        if len(changed) and attends[first : first + int(changed[-1])].any():
            yield kernels[first + int(changed[0]) : first + int(changed[-1]) + 1], int(length[at])


def _of_thread(analysis: Analysis, called: I64, recurrent: bool) -> Iterator[tuple[I64, int]]:
    """The operators of each pass that has one position more than the pass before, and how many it has."""
    trace = analysis.trace
    dims = trace.attribute(Attribute.INPUT_DIMS, called, -1)
    shapes = tensors_by_dims(trace, dims)
    wanted = named(trace, called, _RECURRENT.__contains__ if recurrent else _is_attention)
    places = np.flatnonzero(wanted)
    read = [shapes[each] for each in dims[places].tolist()]
    pairs = _steps_of_time(read) if recurrent else list(map(_positions, read))
    count, others = np.array(pairs, np.int64).reshape(-1, 2).T
    places, others, count = (each[count >= MIN_POSITIONS] for each in (places, others, count))
    if not len(places):
        return
    begins = np.flatnonzero(np.append(True, np.diff(count) != 0))
    length = count[begins]
    grows = np.append(False, np.diff(length) == 1)
    run = np.cumsum(~grows)
    often = np.bincount(run)[run]
    for at in np.flatnonzero(grows & (often >= MIN_PASSES)).tolist():
        ends = int(places[begins[at + 1]]) if at + 1 < len(begins) else len(called)
        mine = slice(int(places[begins[at] - 1]) + 1, ends)
        rows, sequences = int(length[at]), int(others[begins[at]])
        alike = [key for key, inputs in shapes.items() if _works_on(inputs, rows, sequences)]
        yield called[mine][np.isin(dims[mine], alike)], rows


def _is_attention(name: str) -> bool:
    return name == _ATTENTION or name in _SOFTMAX


def _steps_of_time(read: list[list[Shape]]) -> list[tuple[int, int]]:
    """How many steps of time recurrent layers go through, of how many sequences: the size that differs is time."""
    first = [inputs[0] if inputs and len(inputs[0]) == 3 else (0, 0, 0) for inputs in read]
    time = int(len({each[1] for each in first}) > 1)
    return [(each[time], each[1 - time]) for each in first]


def _positions(inputs: list[Shape]) -> tuple[int, int]:
    """How many positions an attention has as queries and as keys, of how many sequences; (0, 0) where not as many."""
    first = inputs[0] if inputs else ()
    if len(first) < 3:
        return 0, 0
    keys = inputs[1][-2] if len(inputs) > 1 and len(inputs[1]) == len(first) else first[-1]
    return (first[-2], first[0]) if first[-2] == keys else (0, 0)


def _works_on(inputs: list[Shape], rows: int, sequences: int) -> bool:
    """Whether a tensor has so many positions, one sequence beside the other or one after another."""
    return any(
        each[:-1].count(rows) or (len(each) > 1 and math.prod(each[:-1]) == rows * sequences)
        for each in inputs
    )


_KEEP = (
    "Keep the keys and values of earlier tokens: {} of the GPU's time computes all of them again for each new one",
    "passes over all tokens so far",
    "All tokens so far are computed again for each new one",
    pytorch_remedy(
        "Keep each layer's keys and values, and send only the new token through the model: use_cache=True in "
        "transformers; in a model of your own, a cache that attention appends to.",
        "Allocate the cache for the longest text once and write into it (StaticCache in transformers), so that "
        "nothing is copied and a CUDA graph can replay each token.",
        code="""output = model(prompt, use_cache=True)
for _ in range(length):
    token = pick(output.logits[:, -1:])                  # the new token alone goes through the model
    output = model(token, past_key_values=output.past_key_values, use_cache=True)""",
    ),
)
_CARRY = (
    "Carry the state of the recurrent layers: {} of the GPU's time goes through all steps so far for each new one",
    "recurrent layers over all steps so far",
    "All steps so far are computed again for each new one",
    pytorch_remedy(
        "Keep the state that the layer returns, and give it the new step alone.",
        code="""output, state = lstm(history)
for _ in range(horizon):
    new = predict(output[:, -1:])
    output, state = lstm(new, state)                     # not lstm(torch.cat([history, new], 1))""",
    ),
)


JOINS = 2  # calls more for each attention: its keys and its values are joined to the earlier ones
# how a framework keeps them, and what its masks take, is in no recording: transformers' generate of a Llama of 12
# layers takes the CPU so many times as long for a token
KEEPING_HOST_AT_MOST = 2.0


@fix
class KeepKeysAndValues:
    id = "keep-keys-and-values"
    explanation = f"""
When it applies
    No gradients are computed, and at least {MIN_PASSES} passes in a row have an attention with a query for each
    position: at least {MIN_POSITIONS}, and one more in each pass. Where there is no such attention, the same goes for
    recurrent layers. What works on all of these positions takes at least 5 % of the GPU's time. Shapes must be
    recorded, or kernels alone: then each pass looks up one row more of a table for each sequence.

What is changed in the replay
    In each pass but the first of these, the time on the GPU of what works on all positions is divided by how many there
    are. A product still takes as long as reading its weights, and no kernel becomes shorter than 4 us. Where keys and
    values are kept, each attention takes {JOINS} calls more than now, and these passes take the CPU at most
    {KEEPING_HOST_AT_MOST:.0f} times as long; a state costs nothing to carry, and a recording of kernels alone says how
    long the CPU takes.

What makes it more or less
    How long the CPU takes to launch a pass, which stays, and how keys and values are kept: joining them to the earlier
    ones copies them for each token, a buffer that is long enough from the start does not.
"""

    def proposals(self, analysis: Analysis, replay: Replay) -> Iterable[Proposal]:
        found = growing_sequences(analysis)
        nodes, share = costly_calls(analysis, replay, found.operators)
        if not share:
            return
        weights = reading_weights_ns(analysis.trace, replay, found.operators)
        least = np.maximum(weights, MIN_NS)
        left = durations_times(*left_of(analysis, replay, found.operators, 1.0 / found.positions, least))
        title, culprit, problem, what = _CARRY if found.recurrent else _KEEP
        told = found.recurrent or EventKind.CPU_OP not in analysis.trace.kinds
        attentions = int(np.count_nonzero(named(analysis.trace, found.operators, _is_attention)))
        keeping = 1.0 + JOINS * attentions / max(int(np.count_nonzero(nodes)), 1)
        yield Proposal(
            title=title.format(percent(share)),
            categories=(Category.RECOMPUTATION, Category.GPU_BOUND),
            culprit=culprit,
            problem=problem,
            remedy=what,
            expected=left if told else together(left, host_time_times(nodes, keeping)),
            low=None if told else together(left, host_time_times(nodes, max(keeping, KEEPING_HOST_AT_MOST))),
            depends_on="" if told else "how much time keeping keys and values takes the CPU",
        )
