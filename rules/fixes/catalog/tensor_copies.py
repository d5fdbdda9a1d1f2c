"""Tensors that need not be copied, moved or built anew."""

from __future__ import annotations

import math
from collections.abc import Iterable

import numpy as np

from parsers.model import BOOL, F64, I64, Attribute, CopyKind
from parsers.model.arrays import distinct_values
from parsers.model.names.per_name import named
from parsers.model.units import percent
from rules.analysis.analysis import Analysis
from rules.analysis.arithmetic.intervals import Intervals, union
from rules.analysis.names.operators import aten
from rules.findings.category import Category
from rules.fixes.base import Proposal, fix, remedy
from rules.fixes.changes import (
    MIN_NS,
    copies,
    durations_times,
    less_host_time,
    share_of_own_work,
    together,
    without_calls,
)
from rules.fixes.forms.shared_heads import shared_heads, shifted_spectra
from rules.fixes.forms.written import called_in_order, calls_of, costly_calls
from rules.kernels.recorded_shapes import Shape, Shapes, elements, fitting, tensors_in
from rules.losses.built_constants import MAX_LENGTH, Built, built
from rules.losses.cpu_work import MIN_STEPS
from rules.remedies.costly_forms import BUILT_ONCE
from rules.remedies.remedy import pytorch_remedy
from rules.replay.chance import time_within
from rules.replay.replay import Replay
from rules.replay.surroundings import surroundings_of
from rules.wording.words import for_pytorch

MIN_SHARE = 0.1  # of the GPU's time: less are the concatenations that a model needs
LEFT = 0.1  # of their time, where it is not known how much is new: that is still written

_BUFFERS_CODE = """cache = torch.empty(batch, heads, longest, width, device="cuda", dtype=keys.dtype)   # once

cache[:, :, place] = new_keys                      # each step writes what is new
# instead of cache = torch.cat((cache, new_keys), dim=2)"""


@fix
class WriteInPlace:
    id = "write-in-place"
    explanation = """
When it applies
    More than a tenth of the GPU's time copies tensors into a longer one, as a cache that grows in each step does. Where
    shapes were recorded, only what is a part of another result, or has one as a part, counts.

What is changed in the replay
    Of these kernels' time, the part of the tensors that are new remains, and at least 4 us each; a tenth where the
    shapes do not say how much that is.

What makes it more or less
    How much of the concatenated data is new in each step.
"""

    def proposals(self, analysis: Analysis, replay: Replay) -> Iterable[Proposal]:
        device = replay.device
        joining = named(analysis.trace, device.event, lambda name: "CatArrayBatchedCopy" in name)
        left = _left(analysis, replay, joining)
        joining[joining] = left < 1.0
        share = share_of_own_work(replay, joining)
        if share < MIN_SHARE:
            return
        left = np.maximum(left[left < 1.0], np.minimum(MIN_NS / device.duration[joining], 1.0))
        factors = np.ones(len(device))
        factors[joining] = left
        yield Proposal(
            title=f"Write into one buffer instead of concatenating: {percent(share)} of the GPU's time copies old data",
            categories=(Category.MEMORY_BOUND_KERNELS, Category.ALLOCATOR),
            culprit=analysis.trace.name(int(device.event[np.flatnonzero(joining)[0]])),
            problem="Concatenating copies old data again",
            remedy=remedy(
                "Allocate the longest buffer once, and write only the new data into it.",
                for_pytorch(
                    "For text generation, use a static cache (transformers: cache_implementation='static')."
                ),
                code=for_pytorch(_BUFFERS_CODE),
            ),
            expected=durations_times(joining, factors),
        )


def _left(analysis: Analysis, replay: Replay, joining: BOOL) -> F64:
    """What is new of each concatenation; 1 where nothing of it is old, a tenth where the shapes are not known.

    It copies old data where it takes what another one gives, or gives what another one takes.
    """
    operator = surroundings_of(analysis).whole_operator[replay.device.launch[joining]]
    dims = analysis.trace.attribute(Attribute.INPUT_DIMS, operator, -1)
    if not len(dims) or (operator < 0).any() or (dims < 0).any():
        return np.full(len(dims), LEFT)
    parts = {each: tensors_in(analysis.trace.strings[each]) for each in set(dims.tolist())}
    given = {each: _joined_shape(shapes) for each, shapes in parts.items()}
    wholes = {shape for shape in given.values() if len(shape) > 1}
    grown = {shape for shapes in parts.values() for shape in shapes} & wholes

    def new(each: int) -> float:
        if given[each] not in grown and not grown.intersection(parts[each]):
            return 1.0
        sizes = [math.prod(shape) for shape in parts[each]]
        return 1.0 - max(sizes) / max(sum(sizes), 1)

    return np.array([new(each) for each in dims.tolist()])


def _joined_shape(parts: list[Shape]) -> Shape:
    """The shape of these tensors, one behind the other along the dimension in which they differ, or of equal ones ().

    Tensors of one shape are parts of the same kind, and none of them is older.
    """
    along = [place for place, sizes in enumerate(zip(*parts, strict=False)) if len(set(sizes)) > 1]
    if len(along) != 1 or len({len(each) for each in parts}) > 1:
        return ()
    whole = list(parts[0])
    whole[along[0]] = sum(each[along[0]] for each in parts)
    return tuple(whole)


ONCE = 0.5  # of the attention's time, once it reads each key for all heads that share it

_HEADS_CODE = """out = torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)
# instead of k.repeat_interleave(groups, dim=1) and the same for v
# or, for one new token: q.view(batch, shared, groups, size) with k and v as they are"""


@fix
class ShareKeyHeads:
    id = "share-key-heads"
    explanation = """
When it applies
    At most 16 operators before an attention, or one of its products, a tensor of as many sequences and of the same
    length and size is repeated to the number of its heads: by repeat_interleave or repeat, or by an expand whose result
    is copied. With its gradients that takes at least 5 % of the GPU's time. Shapes must be recorded.

What is changed in the replay
    The copies are gone, and so is what sums up their gradients. An attention with at most 16 queries for a head does
    little but read keys and values: it takes half of its time.

What makes it more or less
    Whether the attention then reads each key once for all heads that share it: half of its time at best, with many
    queries too, and nothing at least.
"""

    def proposals(self, analysis: Analysis, replay: Replay) -> Iterable[Proposal]:
        found = shared_heads(analysis)
        nodes, share = costly_calls(analysis, replay, found.copying)
        if not share:
            return
        gone = without_calls(replay, nodes)
        attending, reading = (
            calls_of(analysis, each)[replay.device.launch] for each in (found.attention, found.reading)
        )
        yield Proposal(
            title=f"Do not repeat keys and values for shared heads: {percent(share)} of the GPU's time copies them",
            categories=(Category.MEMORY_BOUND_KERNELS, Category.SLOW_OPERATOR, Category.LAUNCH_BOUND),
            culprit="copies of keys and values",
            problem="Keys and values are repeated for shared heads",
            remedy=pytorch_remedy(
                "scaled_dot_product_attention(..., enable_gqa=True) takes keys and values with fewer heads than "
                "the queries.",
                "Otherwise group the queries: those that share a key head are rows of one product.",
                code=_HEADS_CODE,
            ),
            expected=together(gone, durations_times(reading, ONCE)),
            low=gone,
            high=together(gone, durations_times(attending, ONCE)),
            depends_on="whether the attention then reads each key only once",
        )


LEFT_AT_MOST = 0.5  # of the shifts

_SPECTRA_CODE = """mask = torch.fft.ifftshift(mask)          # once, before the loop: everything that meets a spectrum
spectrum = torch.fft.fft2(x, norm="ortho") * mask
# not in each call: fftshift(fft2(ifftshift(x)))"""


@fix
class FoldShifts:
    id = "fold-shifts"
    explanation = """
When it applies
    Right before or after Fourier transforms, fftshift, ifftshift or roll move their data, which takes at least 5 % of
    the GPU's time, with the gradients.

What is changed in the replay
    These shifts are gone; at least, half of their time.

What makes it more or less
    What meets a spectrum, such as a mask, has to be shifted once instead. Shifts by other distances than half of the
    size become a factor in the spectrum, and are not free.
"""

    def proposals(self, analysis: Analysis, replay: Replay) -> Iterable[Proposal]:
        nodes, share = costly_calls(analysis, replay, shifted_spectra(analysis))
        if not share:
            return
        yield Proposal(
            title=f"Leave spectra unshifted: {percent(share)} of the GPU's time shifts them by copies (fftshift, roll)",
            categories=(Category.MEMORY_BOUND_KERNELS, Category.SLOW_OPERATOR, Category.LAUNCH_BOUND),
            culprit="fftshift and ifftshift",
            problem="Spectra are shifted for each transform",
            remedy=pytorch_remedy(
                "A transform needs no shift: shift once what a spectrum is multiplied with, such as a mask, and "
                "measured spectra when they are loaded.",
                "An fftshift behind an ifftshift, or the other way round, undoes it: leave out both.",
                code=_SPECTRA_CODE,
            ),
            expected=without_calls(replay, nodes),
            low=durations_times(nodes[replay.device.launch], LEFT_AT_MOST),
        )


FAR = 12  # operators between the copy and the loss: labels are cut, copied and sent meanwhile
NEAR = 3  # operators from the cut to the copy: other dimensions are cut, too, in full
_COPIES = aten("contiguous clone reshape flatten")
_LOSSES = aten("cross_entropy_loss log_softmax nll_loss_nd nll_loss")

_LABELS_CODE = """\
labels = torch.nn.functional.pad(labels[:, 1:], (0, 1), value=-100)      # the last place has no next word
loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1), labels.flatten(), ignore_index=-100)
# not logits[..., :-1, :].contiguous(), which copies all scores, and their gradients once more"""


@fix
class ShiftLabels:
    id = "shift-labels"
    explanation = """
When it applies
    A part of a tensor along its last dimension but one is copied, and at most 12 operators later a loss reads as many
    numbers. That takes at least 5 % of the GPU's time, with its gradients. Shapes must be recorded.

What is changed in the replay
    The copy is gone, and so are those of its gradients.

What makes it more or less
    The loss reads one more position, which is not counted.
"""

    def proposals(self, analysis: Analysis, replay: Replay) -> Iterable[Proposal]:
        nodes, share = costly_calls(analysis, replay, _copied(analysis))
        if not share:
            return
        yield Proposal(
            title=f"Shift the labels, not the scores: {percent(share)} of the GPU's time copies scores for the loss",
            categories=(Category.MEMORY_BOUND_KERNELS, Category.SLOW_OPERATOR),
            culprit="copies of the scores",
            problem="Scores are copied for the loss",
            remedy=pytorch_remedy(
                "Leave out the last position by its label, ignore_index: labels are small, scores have a number "
                "for each word of the vocabulary.",
                code=_LABELS_CODE,
            ),
            expected=without_calls(replay, nodes),
        )


def _copied(analysis: Analysis) -> I64:
    """The operators that cut scores and copy what is left for a loss."""
    trace, found = analysis.trace, [np.empty(0, np.int64)]
    for operators in called_in_order(analysis):
        slices = named(trace, operators, "aten::slice".__eq__)
        losses = np.flatnonzero(named(trace, operators, _LOSSES.__contains__))
        copies = np.flatnonzero(named(trace, operators, _COPIES.__contains__))
        for near in range(1, NEAR + 1):
            mine = copies[copies >= near]
            mine = mine[slices[mine - near]]
            mine = mine[fitting(trace, operators[mine - near], operators[mine], fits=_cuts_a_position)]
            following = np.searchsorted(losses, mine)
            mine, following = mine[following < len(losses)], following[following < len(losses)]
            loss = losses[following]
            near_loss = loss - mine <= FAR
            mine, loss = mine[near_loss], loss[near_loss]
            mine = mine[fitting(trace, operators[mine], operators[loss], fits=_has_as_many)]
            found += [operators[mine], operators[mine - near]]
    return np.concatenate(found)


def _cuts_a_position(sliced: Shapes, copied: Shapes) -> bool:
    whole, part = sliced[0], copied[0]
    return len(whole) == len(part) >= 2 and whole[-1] == part[-1] and whole[-2] - 1 == part[-2]


def _has_as_many(copied: Shapes, loss: Shapes) -> bool:
    return elements(copied[0]) == elements(loss[0]) > 0


@fix
class KeepConstants:
    id = "keep-constants"
    explanation = f"""
When it applies
    In every one of at least two steps, operators build tensors from sizes alone: one that is handed no tensor (arange,
    linspace, full, eye ...), and those that follow and are handed nothing but tensors of the shapes made so far, at
    most {MAX_LENGTH} in a row. Zeros alone do not count, nor do random numbers. Shapes must be recorded.

What is changed in the replay
    These operators are gone, with what they launch and copy.

What makes it more or less
    Whether sizes are the same in each call; else the largest is kept, and a slice of it taken.
"""

    def proposals(self, analysis: Analysis, replay: Replay) -> Iterable[Proposal]:
        host, device = replay.host, replay.device
        operator = surroundings_of(analysis).whole_operator
        nodes = np.zeros(len(host), bool)
        found: dict[int, Built] = {}
        calls = np.flatnonzero(operator >= 0)
        for activity, mine in analysis.threads.by_thread(host.event[calls]):
            made = built(analysis.trace, activity.whole_operators)
            nodes[calls[mine]] = np.isin(operator[calls[mine]], made.operators)
            if len(made.operators):
                found[int(analysis.threads.of_events(made.operators[:1])[0])] = made

        def spans(thread: int) -> Intervals:
            return union(*found[thread].spans) if thread in found else union(*_NONE)

        within = time_within(host, spans)
        steps = distinct_values(host.step[nodes | (within > 0)])
        if len(steps) < max(replay.steps, MIN_STEPS):
            return
        first = next(iter(found.values())).operators[0]
        sent = nodes[device.launch] & copies(replay, CopyKind.H2D)
        yield Proposal(
            title="Build constants once: tables, masks or grids that follow from sizes alone are built in each step",
            categories=_ON_CPU if sent.any() else _ON_GPU,
            culprit=analysis.trace.name(int(first)),
            problem="Constants are built again in each step",
            remedy=BUILT_ONCE,
            expected=together(without_calls(replay, nodes, gaps=0.0), less_host_time(within > 0, within)),
        )


_ON_GPU = Category.LAUNCH_BOUND, Category.SLOW_OPERATOR, Category.MEMORY_BOUND_KERNELS
_ON_CPU = Category.HOST_BOUND, Category.COPY_H2D
_NONE = np.empty(0, np.int64), np.empty(0, np.int64)
