"""Decides which files belong to one run, and which rank each of them is."""

from __future__ import annotations

import re
from collections import Counter as Tally
from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import PurePath

from parsers.model import Trace
from parsers.model.late import dataclass, regex

_RANK_IN_NAME = regex(r"rank[-_.]?(\d{1,6})(?!\d)", re.IGNORECASE)
LEFT_OUT = "left-out"
"""The kind of the note about files that do not belong to the run."""
NO_RANKS = "recorded at another time, and neither name nor content says which rank it is"
MAX_PAUSE_NS = 3_600 * 1_000_000_000  # files of one run are not recorded further apart


def rank_in_name(name: str) -> int | None:
    """5 for "trace.rank5.json"; None where a file's name does not state its rank."""
    found = _RANK_IN_NAME.search(PurePath(name).name)
    return int(found[1]) if found else None


@dataclass(frozen=True, slots=True)
class Member:
    """What one file says of its place in a run; ``start`` and ``end`` by wall clock (ns), None where it has none."""

    path: str
    rank: int | None
    world_size: int | None
    span: tuple[int, int] | None
    of_several: bool = False  # it holds several ranks already

    @staticmethod
    def of(trace: Trace) -> Member:
        return Member(
            path=trace.inputs[0].path if trace.inputs else "",
            rank=trace.inputs[0].rank if trace.inputs else None,
            world_size=next((rank.world_size for rank in trace.ranks), None),
            span=None if trace.epoch_ns is None else (trace.epoch_ns, trace.epoch_ns + trace.duration),
            of_several=len(trace.ranks) > 1,
        )


@dataclass(frozen=True, slots=True)
class Membership:
    """Which members belong to the run, the rank that each of these gets (None: its own), and why others do not."""

    kept: tuple[int, ...]
    rank: tuple[int | None, ...]
    left_out: tuple[tuple[int, str], ...]


@dataclass(frozen=True, slots=True)
class Choice:
    """The traces of one run, each with a rank of its own and in the order of these, and the files that do not fit,
    with the reason."""

    traces: tuple[Trace, ...]
    left_out: tuple[tuple[str, str], ...]


def choose(traces: Sequence[Trace]) -> Choice:
    """Keep what fits together: one world size, one time, every rank once. Files without events always stay.

    What is recorded beside timelines (``BESIDE_LANES``) is of ranks that may have a timeline as well: of each format of
    it, every rank stays once.
    """
    given: dict[int, int | None] = {}
    left_out: list[tuple[int, str]] = []
    for together in _by_subject(traces):
        found = members_of_one_run([Member.of(traces[index]) for index in together])
        given |= {together[index]: rank for index, rank in zip(found.kept, found.rank, strict=True)}
        left_out += [(together[index], reason) for index, reason in found.left_out]
    left_out += [(index, "recorded at another time than the timelines") for index in _far_from(traces, given)]
    gone = {index for index, _ in left_out}
    kept = [
        trace if (rank := given.get(index)) is None else _renumbered(trace, rank)
        for index, trace in enumerate(traces)
        if index not in gone
    ]
    return Choice(
        tuple(sorted(kept, key=_place)),
        tuple(
            (traces[index].inputs[0].path if traces[index].inputs else "", reason)
            for index, reason in left_out
        ),
    )


def _far_from(traces: Sequence[Trace], kept: Iterable[int]) -> list[int]:
    """The files beside timelines that were recorded so long before or after all of these that both cannot be shown."""
    spans = {index: span for index in kept if (span := Member.of(traces[index]).span) is not None}
    timelines = [span for index, span in spans.items() if not traces[index].stands_beside]
    if not timelines:
        return []
    begin, end = min(start for start, _ in timelines), max(end for _, end in timelines)
    return [
        index
        for index, (first, last) in spans.items()
        if traces[index].stands_beside and max(first - end, begin - last) > MAX_PAUSE_NS
    ]


def _by_subject(traces: Sequence[Trace]) -> list[list[int]]:
    """The files with events that can each be of a rank of its own: timelines, and each format of what stands beside."""
    found: dict[str, list[int]] = {}
    for index, trace in enumerate(traces):
        if len(trace.events):
            subject = trace.inputs[0].format if trace.stands_beside and trace.inputs else ""
            found.setdefault(subject, []).append(index)
    return list(found.values())


def members_of_one_run(members: Sequence[Member]) -> Membership:
    """Which of the files fit together, and which rank each of them is."""
    kept = list(range(len(members)))
    left_out: list[tuple[int, str]] = []
    if len(kept) > 1:
        kept = _of_one_world(members, kept, left_out)
        kept = _of_one_time(members, kept, left_out)
        kept = _each_rank_once(members, kept, left_out)
        kept = _ranks_and_not_runs(members, kept, left_out)
    ranks = _numbers([members[index] for index in kept]) if len(kept) > 1 else [None] * len(kept)
    return Membership(tuple(kept), tuple(ranks), tuple(left_out))


def _of_one_world(members: Sequence[Member], kept: list[int], left_out: list[tuple[int, str]]) -> list[int]:
    tally = Tally(size for index in kept if (size := members[index].world_size) is not None)
    if len(tally) < 2:
        return kept
    size = tally.most_common(1)[0][0]
    left_out += [
        (index, f"recorded in a run of {its} ranks; the others in one of {size}")
        for index in kept
        if (its := members[index].world_size) not in (None, size)
    ]
    return [index for index in kept if members[index].world_size in (None, size)]


def _of_one_time(members: Sequence[Member], kept: list[int], left_out: list[tuple[int, str]]) -> list[int]:
    """The largest group of files without a long pause between them, by wall clock."""
    spans = {index: span for index in kept if (span := members[index].span) is not None}
    if len(spans) < len(kept):
        return kept
    order = sorted(kept, key=lambda index: spans[index])
    groups = [[order[0]]]
    reach = spans[order[0]][1]
    for index in order[1:]:
        if spans[index][0] - reach > MAX_PAUSE_NS:
            groups.append([])
        groups[-1].append(index)
        reach = max(reach, spans[index][1])
    main = set(max(groups, key=lambda group: len(list(group))))
    left_out += [(index, "recorded at another time than the others") for index in kept if index not in main]
    return [index for index in kept if index in main]


def _ranks_and_not_runs(
    members: Sequence[Member], kept: list[int], left_out: list[tuple[int, str]]
) -> list[int]:
    """The first of files that were recorded one after another and of which nothing says that they are ranks."""
    mine = [members[index] for index in kept]
    names = {rank_in_name(member.path) for member in mine}
    told = len({member.rank for member in mine} - {None}) > 1 or len(names) == len(mine) > 1
    several = any(member.of_several or (member.world_size or 1) > 1 for member in mine)
    if told or several or not never_together([member.span for member in mine]):
        return kept
    left_out += [(index, NO_RANKS) for index in kept[1:]]
    return kept[:1]


def never_together(spans: Sequence[tuple[int, int] | None]) -> bool:
    """Whether several recordings were made one after another, with no moment that two of them share."""
    known = sorted(span for span in spans if span is not None)
    if len(known) < max(len(spans), 2):
        return False
    return all(former[1] < later[0] for former, later in pairwise(known))


def _each_rank_once(members: Sequence[Member], kept: list[int], left_out: list[tuple[int, str]]) -> list[int]:
    """Of several files of one rank the first stays, unless no file tells ranks apart."""
    if len({members[index].rank for index in kept} - {None}) < 2:
        return kept
    seen: set[int] = set()
    once = []
    for index in kept:
        rank = members[index].rank
        if rank is not None and rank in seen:
            left_out.append((index, f"another file is of rank {rank} too"))
            continue
        if rank is not None:
            seen.add(rank)
        once.append(index)
    return once


def _numbers(members: Sequence[Member]) -> list[int | None]:
    """A rank for each: the stated one, else the one in its file's name, else the next free; None: leave it be."""
    stated = [member.rank for member in members]
    if len(set(stated)) == len(members) and None not in stated:
        return [None] * len(members)
    if len(set(stated) - {None}) < 2:
        numbers = [rank_in_name(member.path) for member in members]
        all_differ = None not in numbers and len(set(numbers)) == len(members)
        stated = numbers if all_differ else [None] * len(members)
    taken = set(stated)
    free = iter(number for number in range(len(members) * 2) if number not in taken)
    return [
        None if member.of_several else next(free) if rank is None else rank
        for member, rank in zip(members, stated, strict=True)
    ]


def _place(trace: Trace) -> tuple[bool, int]:
    """Files come in the order of a listing, where rank 10 precedes rank 2; those without a rank are last."""
    rank = trace.inputs[0].rank if trace.inputs else None
    return rank is None, rank or 0


def _renumbered(trace: Trace, rank: int) -> Trace:
    return replace(
        trace,
        lanes=tuple(replace(lane, rank=rank) for lane in trace.lanes),
        devices=tuple(replace(device, rank=rank) for device in trace.devices),
        inputs=tuple(replace(each, rank=rank) for each in trace.inputs),
        ranks=tuple(replace(each, rank=rank) for each in trace.ranks[:1]),
        counters=tuple(replace(each, rank=rank) for each in trace.counters),
    )
