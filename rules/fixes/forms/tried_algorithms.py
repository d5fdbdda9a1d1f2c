"""Convolutions for which a library runs every algorithm it has, to find the quickest for a new shape."""

from __future__ import annotations

import numpy as np

from parsers.model import BOOL, F64, I64, derived
from parsers.model.arrays import distinct_values
from parsers.model.events import of_kinds
from parsers.model.late import dataclass, regex
from parsers.model.names.calls import WORK_CALLS, Call
from parsers.model.names.per_name import named
from rules.analysis.analysis import Analysis
from rules.replay.replay import replay_of
from rules.replay.surroundings import surroundings_of

MIN_TRIED = 2  # algorithms, each timed with an event that the CPU waits for
MIN_STEPS = 2  # in which it happens: a single one may be the first
_CONVOLUTIONS = regex(r"aten::((cudnn|miopen)_\w*conv\w*|convolution_backward)$")
_FREES = regex(r"Free")
_TWO_RESULTS = regex(r"aten::convolution_backward$")  # each with a search of its own


@dataclass(frozen=True, slots=True, eq=False)
class TriedAlgorithms:
    """Operators that try algorithms, and of each host node whether and how much of the time before it does (ns).

    ``prepared_ns`` is the part of ``before_ns`` that passes before the first run: finding out what could be tried.
    ``allocates`` are the calls that give back what the trials took, and that take memory anew in the same steps: behind
    its search PyTorch empties the cache of memory.
    """

    operators: I64
    nodes: BOOL
    before_ns: F64
    prepared_ns: F64
    allocates: BOOL
    tried: int


@derived
def tried_algorithms(analysis: Analysis) -> TriedAlgorithms:
    """What choosing takes; the run with the chosen algorithm stays, the last one of each operator.

    One that computes two gradients chooses twice: the first run that was timed stands for the other one's.
    """
    replay = replay_of(analysis)
    host, trace = replay.host, analysis.trace
    nodes, before, prepared = np.zeros(len(host), bool), np.zeros(len(host)), np.zeros(len(host))
    operator = surroundings_of(analysis).around(_CONVOLUTIONS.match)
    synchronises = host.call == Call.SYNCHRONIZE
    timed = (operator >= 0) & synchronises & named(trace, host.event, lambda name: "EventSync" in name)
    operators, tried = np.unique(operator[timed], return_counts=True)
    operators = operators[tried >= MIN_TRIED]
    mine = np.isin(operator, operators)
    if len(distinct_values(host.step[mine])) < MIN_STEPS:
        return TriedAlgorithms(operators[:0], nodes, before, prepared, nodes, 0)
    works = of_kinds(host.call, *WORK_CALLS)
    begin, _ = trace.events.spans(operators)
    for place, each in enumerate(operators.tolist()):
        inside = np.flatnonzero(operator == each)
        last = int(inside[timed[inside]][-1])
        gone = inside[inside <= last]
        nodes[gone] = True
        before[gone] = np.minimum(host.gap[gone], host.start[gone] - begin[place])
        first_run = gone[np.argmax(works[gone])]
        prepared[gone[gone <= first_run]] = before[gone[gone <= first_run]]
        if _TWO_RESULTS.match(trace.name(each)):
            first = int(gone[np.argmax(timed[gone])])
            waited = gone[(gone < first) & synchronises[gone]]
            nodes[gone[(gone > (waited[-1] if len(waited) else -1)) & (gone < first)]] = False
    allocates = host.call == Call.ALLOCATE
    frees = allocates & mine & named(trace, host.event, _FREES.search)
    allocates &= np.isin(host.step, distinct_values(host.step[frees]))
    return TriedAlgorithms(
        operators, nodes, before, prepared, allocates, int(tried[tried >= MIN_TRIED].sum())
    )
