"""Loops inside a step: the same calls in a row again and again, as a program makes them for each item of a list."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from parsers.model import I64, derived
from parsers.model.arrays import distinct_values
from parsers.model.late import dataclass, regex
from parsers.model.names.calls import Call
from parsers.model.names.per_name import numbers_of
from rules.analysis.analysis import Analysis
from rules.analysis.arithmetic.rounds import rounds_in, uneven_rounds
from rules.analysis.names.families import Family
from rules.replay.replay import replay_of

MIN_TIMES = 8  # fewer in a row are layers of a small model, or chance
MIN_TIMES_OF_SHORT = 3
MAX_BODY_LENGTH = 160  # calls
SHORT = 5  # calls of a round: one that differs is a fifth of them
ALIKE = 0.8  # of what an uneven round and a usual one do: the others do a little more, or less
PRODUCT, BRANCH = -100, -101
_UNEVEN = -2_000_000  # and less: their kinds are those of no other loops
_GENERATED = regex(r"triton_\w+_fused_\w*\d$")  # its number tells it from the others of its graph
_SIZES = regex(r"\d+")
_WAYS = regex(r"(vectorized|unrolled|index|legacy)?_?elementwise_kernel(_with_index)?(<((\(int\))?\d+, )?)?")
_JITTED = regex(r"_vectorized\d+(?=_kernel$)")  # how a kernel that torch compiles at run time reads
_HOW_IT_READS = ", std::array<char"  # behind what it computes


@dataclass(frozen=True, slots=True, eq=False)
class Loop:
    """Host nodes ``first`` to ``last`` (exclusive): what the first ``body`` calls do, ``times`` times.

    Loops of one ``kind`` make the same calls in a round, wherever their first round is thought to begin. Where rounds
    differ, the first ``skipped`` calls are of rounds that did not do everything.
    """

    first: int
    last: int
    body: int
    times: int
    kind: int
    skipped: int = 0


@derived
def loops_of(analysis: Analysis) -> tuple[Loop, ...]:
    """The loops of the replayed steps, by their first call; none where the recording cannot be replayed.

    A round may contain a loop of its own, as layers do that loop over experts; both are told.

    Two calls are the same where they launch kernels of the same name without its numbers, or matrix products: how many
    elements a thread takes, and how large a tile is, follows from an item's size, and how it reads them from where it
    begins; so does whether a reduction needs a memset before it. An elementwise kernel right behind a wait may be one
    of two branches: the value that was waited for says which.
    The backward pass of a loop has one round less in a row: the first one has nothing to add its gradients to.
    """
    found, _ = _nearly_as_long(analysis)
    often = {each.times for each in found}
    return tuple(each for each in found if each.times >= MIN_TIMES or each.times + 1 in often)


def short_loops_of(analysis: Analysis) -> tuple[Loop, ...]:
    """The same with fewer rounds than that, which without a reason of their own are layers, or chance.

    They are of a longer loop's kind where a round of it is one of theirs.
    """
    known = {each.kind for each in loops_of(analysis)}
    _, kinds = _nearly_as_long(analysis)
    found = _repeated(analysis, MIN_TIMES_OF_SHORT, dict(kinds))
    return tuple(
        each if each.kind in known else replace(each, kind=-1 - each.kind)
        for each in found
        if each.times < MIN_TIMES - 1
    )


@derived
def _nearly_as_long(analysis: Analysis) -> tuple[list[Loop], dict[tuple[int, ...], int]]:
    """Loops that may have a round less than there must be, and their kinds by the calls of a round."""
    kinds: dict[tuple[int, ...], int] = {}
    return _repeated(analysis, MIN_TIMES - 1, kinds), kinds


def _repeated(analysis: Analysis, least: int, kinds: dict[tuple[int, ...], int]) -> list[Loop]:
    """Loops of so many rounds at least; ``kinds`` are those known, to which others are added."""
    kept, token, apart = _calls(analysis)
    found = []
    for each in rounds_in(token, apart, least, MAX_BODY_LENGTH):
        begin = int(kept[each.first])
        end = int(kept[each.first + each.times * each.body - 1]) + 1
        body = int(kept[each.first + each.body - 1]) + 1 - begin
        calls = tuple(np.sort(token[each.first : each.first + each.body]).tolist())
        found.append(Loop(begin, end, body, each.times, kinds.setdefault(calls, len(kinds))))
    return sorted(found, key=lambda each: each.first)


@derived
def uneven_loops_of(analysis: Analysis) -> tuple[Loop, ...]:
    """Loops whose rounds differ a little, as where some pictures are flipped, the longest first; they do not overlap.

    A round begins with a call that goes on in the same way in all of them. Their ``body`` is that of the first. Of
    short rounds, none waits or copies more often than the others, as where every tenth looks whether it is done.
    """
    kept, token, apart = _calls(analysis)
    others = np.append(0, np.cumsum((token < 0) & (token > PRODUCT)))
    found = []
    for starts in uneven_rounds(token, apart, MIN_TIMES, MAX_BODY_LENGTH, ALIKE):
        if np.diff(starts).max() <= SHORT and len(distinct_values(np.diff(others[starts[:-1]]))) > 1:
            continue
        begin, second = kept[starts[:2]].tolist()
        end = int(kept[starts[-1] - 1]) + 1
        kind = _UNEVEN - int(token[starts[0]])
        found.append(Loop(begin, end, second - begin, len(starts) - 1, kind))
    return tuple(found)


def _calls(analysis: Analysis) -> tuple[I64, I64, I64]:
    """The host nodes but those that set or allocate memory, their kinds, and in which stretch of one step and thread.

    When memory is allocated follows from what is cached.
    """
    replay = replay_of(analysis)
    if replay.program is None:
        return (np.empty(0, np.int64),) * 3
    host = replay.host
    kept = np.flatnonzero((host.call != Call.MEMSET) & (host.call != Call.ALLOCATE))
    edges = (np.diff(host.thread[kept]) != 0) | (np.diff(host.step[kept]) != 0)
    return kept, kinds_of_calls(analysis)[kept], np.cumsum(np.append(True, edges)[: len(kept)])


@derived
def kinds_of_calls(analysis: Analysis) -> I64:
    """A number for each host node of the replay: the same for calls of which one may stand for the other."""
    replay = replay_of(analysis)
    trace, device = analysis.trace, replay.device
    kinds: dict[str, int] = {}

    def number(name: str) -> int:
        if _GENERATED.match(name):
            return kinds.setdefault(name, len(kinds))
        plain = _SIZES.sub("", _WAYS.sub("elementwise<", _JITTED.sub("", name)).partition(_HOW_IT_READS)[0])
        return kinds.setdefault(plain, len(kinds))

    kernel = numbers_of(trace, device.event, number)
    family = analysis.family_of_string[trace.events.name[device.event]]
    kernel[family == Family.GEMM] = PRODUCT  # libraries choose another kernel for each number of rows
    found = -1 - replay.host.call.astype(np.int64)
    reverse = slice(None, None, -1)  # the first operation of a call that has several
    found[device.launch[reverse]] = kernel[reverse]
    elementwise = np.zeros(len(found), bool)
    elementwise[device.launch] = family == Family.ELEMENTWISE
    behind = np.append(False, (replay.waits.target[:-1] >= 0) & (np.diff(replay.host.thread) == 0))
    found[elementwise & behind] = BRANCH
    return found
