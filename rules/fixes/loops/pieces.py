"""Pieces of a tensor that pass through a network one by one, such as tiles of a picture or documents of a request."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Sequence

import numpy as np

from parsers.model import I64, Attribute, EventKind, derived_by
from parsers.model.arrays import distinct_values, median_of, per_value
from parsers.model.late import dataclass
from parsers.model.names.per_name import named
from rules.analysis.analysis import Analysis
from rules.analysis.names.host_language import is_python
from rules.fixes.backward import autograd_functions
from rules.replay.loops import kinds_of_calls
from rules.replay.replay import Replay
from rules.terms import NEARLY_ALL


@dataclass(frozen=True, slots=True, eq=False)
class Rounds:
    """Where the rounds of a step begin (host nodes), and where the last of them ends (exclusive)."""

    starts: I64
    end: int


def number_of(steps: Sequence[Rounds]) -> str:
    """How many rounds the steps have: "8", or "up to 8"."""
    fewest, most = min(len(each.starts) for each in steps), max(len(each.starts) for each in steps)
    return f"{most}" if fewest == most else f"up to {most}"


def make_the_same_calls(kinds: I64, starts: I64, ends: I64, first: Sequence[float] = ()) -> bool:
    """Whether calls of the same kinds are made between each of these starts and its end (exclusive).

    ``first``: how much of the calls of the first rounds and the usual one of the others have to be the same.
    """
    calls = [np.bincount(kinds[start:end] - kinds.min()) for start, end in zip(starts, ends, strict=True)]
    width = max(map(len, calls))
    counts = np.array([np.pad(each, (0, width - len(each))) for each in calls])
    usual = median_of(counts[min(len(first), len(counts) - 1) :], axis=0)
    same = np.minimum(counts, usual).sum(axis=1)
    least = np.full(len(counts), NEARLY_ALL)
    least[: len(first)] = first
    return not bool((same < least * np.maximum(counts.sum(axis=1), usual.sum())).any())


MIN_PIECES = 4  # in a step: fewer are two views or three scales, and hardly worth the memory
MIN_CALLS = 16  # of a pass: shorter ones are a layer that is given parts
MIN_RATIO = 2  # of elements: a border that is cut off leaves more of the whole
TABLE_DIMENSIONS = 2  # of the weights of an embedding, and of texts as tokens
CONVOLUTION = "aten::convolution"
EMBEDDING = "aten::embedding"
SLICE = "aten::slice"


@derived_by
def pieces_of(analysis: Analysis, replay: Replay) -> tuple[Rounds, ...]:
    """The passes of each step that take a piece each and make the same calls; none where something is trained.

    A piece has as many dimensions as what it is sliced from, as many channels, and at most half of the elements: it is
    some of the pictures, or a part of each, and neither a step through time, nor what a pass before gave. Of tokens it
    is some of the texts, whole: a part of each may be the next step through them.
    """
    if not is_python(analysis.trace) or (autograd_functions(analysis) >= 0).any():
        return ()
    return tuple(_pieces(analysis, replay))


def _pieces(analysis: Analysis, replay: Replay) -> Iterator[Rounds]:
    host, kinds = replay.host, kinds_of_calls(analysis)
    for thread, members in enumerate(replay.host.members):
        begins = _begins(analysis, np.concatenate([analysis.threads.events(each) for each in members]))
        first, last = int(host.first[thread]), int(host.first[thread + 1])
        starts = first + distinct_values(np.searchsorted(host.start[first:last], begins))
        starts = starts[starts < last]
        for step in distinct_values(host.step[starts]).tolist():
            of_step = starts[host.step[starts] == step]
            if len(of_step) < MIN_PIECES:
                continue
            calls = int(median_of(np.diff(of_step)))
            step_end = first + int(np.searchsorted(host.step[first:last], step, side="right"))
            end = min(int(of_step[-1]) + calls, step_end)
            if calls >= MIN_CALLS and make_the_same_calls(kinds, of_step, np.append(of_step[1:], end)):
                yield Rounds(of_step, end)


def _begins(analysis: Analysis, events: I64) -> I64:
    """When each piece that goes into a convolution or an embedding next is sliced from the whole (ns)."""
    trace = analysis.trace
    operators = trace.events.only(events, EventKind.CPU_OP)
    slices = operators[named(trace, operators, SLICE.__eq__)]
    layers = operators[named(trace, operators, (CONVOLUTION, EMBEDDING).__contains__)]
    slices = trace.events.by_start(slices)
    layers = trace.events.by_start(layers)
    following = np.searchsorted(trace.events.start[layers], trace.events.start[slices])
    slices, following = slices[following < len(layers)], following[following < len(layers)]
    whole = trace.attribute(Attribute.INPUT_DIMS, slices, -1)
    piece = trace.attribute(Attribute.INPUT_DIMS, layers, -1)[following]

    def known(pair: list[int]) -> bool:
        return min(pair) >= 0 and _is_piece(*(trace.strings[each] for each in pair))

    mine = np.flatnonzero(per_value(np.column_stack((whole, piece)), known, bool))
    nearest = mine[np.append(np.diff(following[mine]) != 0, True)] if len(mine) else mine
    return np.asarray(trace.events.start[slices[nearest]])


def _is_piece(sliced: str, layer: str) -> bool:
    """Whether the input of a layer can be a piece of a tensor that is sliced, by the shapes of their inputs."""
    try:
        whole, (piece, weight, *_) = json.loads(sliced)[0], json.loads(layer)
        if (
            len(piece) == len(weight) == TABLE_DIMENSIONS
        ):  # of an embedding: the table comes before the tokens
            return len(whole) == len(weight) and whole[1:] == weight[1:] and whole[0] >= MIN_RATIO * weight[0]
        with_channels = len(weight) - 1
        whole = [1] * (len(piece) - len(whole)) + whole
        return bool(
            with_channels >= 2
            and len(whole) == len(piece) >= with_channels
            and whole[-with_channels] == piece[-with_channels]
            and all(part <= of for part, of in zip(piece, whole, strict=True))
            and math.prod(whole) >= MIN_RATIO * math.prod(piece) > 0
        )
    except (ValueError, TypeError, LookupError):
        return False
