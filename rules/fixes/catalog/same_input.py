"""A part of a model that runs again for each token, or each round, on an input that nobody has touched."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import pairwise

import numpy as np

from parsers.model import I64, Attribute, CopyKind, Trace
from parsers.model.arrays import numbered_rows, rows_by
from parsers.model.late import dataclass, regex
from parsers.model.names.per_name import named
from rules.analysis.analysis import Analysis
from rules.analysis.names.operators import aten
from rules.findings.category import Category
from rules.fixes.backward import autograd_functions
from rules.fixes.base import Proposal, fix
from rules.fixes.changes import copies, without_calls
from rules.fixes.forms.written import called_in_order, costly_calls, of_steps
from rules.kernels.operator_work import PRODUCTS
from rules.kernels.recorded_shapes import elements, inputs_of_events
from rules.remedies.remedy import pytorch_remedy
from rules.replay.replay import Replay

MIN_TIMES = 6  # that more and more is worked on in between: fewer may be chance
MIN_OPERATORS, MIN_PRODUCTS = 16, 4  # of the part: fewer are a layer
_BEGINS = aten("embedding conv1d conv2d conv3d")
_PRODUCTS = frozenset(f"aten::{name}" for name in PRODUCTS) | aten("linear matmul conv1d conv2d conv3d")
_TAKES = regex(
    r"aten::(slice|select|narrow|index\w*|unbind|split\w*|chunk|gather|masked_select|rand\w*|random_|multinomial)$"
)
_CODE = """encoded = model.get_encoder()(input_ids)       # once, before the loop
for _ in range(tokens):
    output = model(encoder_outputs=encoded, decoder_input_ids=tokens_so_far)"""


@dataclass(frozen=True, slots=True)
class Again:
    """The operators of all rounds but the first, and how many rounds the steps have that have most."""

    operators: I64
    times: int


@fix
class RunOnceOnSameInput:
    id = "run-once-on-same-input"
    explanation = f"""
When it applies
    Nothing is trained, and in a step the same {MIN_OPERATORS} or more operators with {MIN_PRODUCTS} or more products
    run {MIN_TIMES} or more times on tensors of the same sizes, from an embedding or a convolution on. What is worked on
    in between becomes more with each time, as a text does that grows, and none of it sends, draws or picks what could
    be another input: they run on the same one. Shapes must be recorded.

What is changed in the replay
    All but the first time is gone, for at least 5 % of the GPU's time.

What makes it more or less
    Whether the input is the same, which no recording says for certain.
"""

    def proposals(self, analysis: Analysis, replay: Replay) -> Iterable[Proposal]:
        if Attribute.INPUT_DIMS not in analysis.trace.attributes or (autograd_functions(analysis) >= 0).any():
            return
        found = _again(analysis, replay)
        nodes, share = costly_calls(analysis, replay, found.operators)
        if not share:
            return
        yield Proposal(
            title=f"Run a part of the model once: it runs {found.times} times {replay.in_step} on the same input",
            categories=(Category.RECOMPUTATION, Category.SLOW_OPERATOR, Category.GPU_BOUND),
            culprit=analysis.trace.name(int(found.operators[0])),
            problem=f"A part of the model runs {found.times} times on the same input",
            remedy=pytorch_remedy(
                "Keep what it returns, and hand it to what needs it: encode a text or a picture once, before the loop "
                "that generates, and not for each token.",
                code=_CODE,
            ),
            expected=without_calls(replay, nodes),
            depends_on="whether its input is the same each time",
        )


def _again(analysis: Analysis, replay: Replay) -> Again:
    found, times = [np.empty(0, np.int64)], 0
    sends = replay.device.event[copies(replay, CopyKind.H2D)]
    for operators in called_in_order(analysis):
        for mine in of_steps(analysis, replay, operators):
            for starts, count in _parts(analysis, mine, sends):
                found.append(mine[(starts[1:, None] + np.arange(count)).reshape(-1)])
                times = max(times, len(starts))
    return Again(np.concatenate(found), times)


def _parts(analysis: Analysis, operators: I64, sends: I64) -> Iterator[tuple[I64, int]]:
    """Where such a part begins each time, among the operators of a step, and how many operators it has."""
    trace = analysis.trace
    key = numbered_rows(trace.events.name[operators], trace.attribute(Attribute.INPUT_DIMS, operators, -1))
    begins = np.flatnonzero(named(trace, operators, _BEGINS.__contains__))
    product = named(trace, operators, _PRODUCTS.__contains__)
    behind = 0
    for _, rows in sorted(rows_by(key[begins]), key=lambda each: int(each[1][0])):
        starts = begins[rows]
        if len(starts) < MIN_TIMES or starts[0] < behind:
            continue
        count = _common(key, starts)
        apart = np.diff(starts)
        if count < MIN_OPERATORS or count >= apart.min() or product[starts[0] :][:count].sum() < MIN_PRODUCTS:
            continue
        gaps = [operators[first + count : last] for first, last in pairwise(starts.tolist())]
        if _grow(analysis, gaps) and not _other_input(analysis, int(operators[starts[0]]), gaps, sends):
            behind = int(starts[-1]) + count
            yield starts, count


def _common(key: I64, starts: I64) -> int:
    """How many operators are the same behind each of these."""
    length = int(min(np.diff(starts).min(), len(key) - starts[-1]))
    same = np.ones(length, bool)
    for start in starts[1:].tolist():
        same &= key[start : start + length] == key[starts[0] : starts[0] + length]
    return length if same.all() else int(np.argmin(same))


def _grow(analysis: Analysis, gaps: list[I64]) -> bool:
    """Whether more is worked on each time but the first, when what is kept for all of them is made."""
    amounts = [sum(map(sum, _sizes(analysis.trace, gap))) for gap in gaps[1:]]
    return bool((np.diff(amounts) > 0).all())


def _sizes(trace: Trace, operators: I64) -> list[list[int]]:
    """How many elements each tensor has that an operator is given, but for those in lists."""
    return [
        [elements(each) for each in shapes if all(isinstance(side, int) for side in each)]
        for shapes in inputs_of_events(trace, operators)
    ]


def _other_input(analysis: Analysis, first: int, gaps: list[I64], sends: I64) -> bool:
    """Whether something between two times sends, draws or picks as much as the part begins with."""
    trace, table = analysis.trace, analysis.trace.events
    (given,) = _sizes(trace, np.array([first]))
    is_embedding = trace.name(first) == "aten::embedding"
    size = given[1] if is_embedding and len(given) > 1 else given[0]
    between = np.concatenate(gaps)
    takes = between[named(trace, between, _TAKES.match)]
    types = trace.attribute(Attribute.INPUT_TYPES, takes, -1)
    for sizes, kind in zip(_sizes(trace, takes), types.tolist(), strict=True):
        whole = "long" in trace.strings[kind] or "int" in trace.strings[kind] if kind >= 0 else True
        if whole == is_embedding and sizes and sizes[0] > size:
            return True
    sent = trace.attribute(Attribute.BYTES, sends)
    low, high = table.start[between].min(), table.end[between].max()
    inside = (table.start[sends] >= low) & (table.start[sends] <= high)
    return bool((inside & (sent >= size)).any())
