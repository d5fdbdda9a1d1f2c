"""Texts that are padded to one length, far beyond the longest of their batch: work on positions that hold nothing."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from parsers.model import F64, I64, Attribute
from parsers.model.arrays import distinct_values
from parsers.model.late import dataclass
from parsers.model.names.per_name import named
from parsers.model.units import percent
from rules.analysis.analysis import Analysis
from rules.findings.category import Category
from rules.fixes.base import Proposal, fix
from rules.fixes.changes import MIN_NS, durations_times
from rules.fixes.forms.written import called_in_order, costly_calls
from rules.kernels.recorded_shapes import Shape, inputs_of_event, tensors_in
from rules.remedies.remedy import remedy
from rules.replay.origins import called_operators
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
            shapes = {
                each: tensors_in(trace.strings[each]) if each >= 0 else []
                for each in (distinct_values(dims).tolist() if len(pads) else [])
            }
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
        found, device = padded_texts(analysis), replay.device
        nodes, share = costly_calls(analysis, replay, found.operators)
        if not share:
            return
        mine = nodes[device.launch]
        left = found.left[np.searchsorted(found.operators, called_operators(analysis)[device.launch[mine]])]
        shortest = np.minimum(MIN_NS / np.maximum(device.duration[mine], 1.0), 1.0)
        least, likely = np.ones(len(device)), np.ones(len(device))
        least[mine], likely[mine] = (np.maximum(left**power, shortest) for power in (MIN_POWER, 1.0))
        yield Proposal(
            title=(
                f"Pad texts to the longest of their batch: {percent(share)} of the GPU's time works on "
                f"{found.length:,} positions, of which {found.before:,} can hold anything"
            ),
            categories=(Category.RECOMPUTATION, Category.GPU_BOUND),
            culprit="padding",
            problem="Texts are padded far beyond the longest of their batch",
            remedy=PAD_TO_LONGEST,
            expected=durations_times(mine, likely),
            low=durations_times(mine, least),
            depends_on="how well shorter texts fill the GPU",
        )
