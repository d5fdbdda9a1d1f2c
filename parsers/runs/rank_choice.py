"""Decides which files belong to one run, and which rank each of them is."""

from __future__ import annotations

import re
from collections import Counter as Tally
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from parsers.model import Trace

_RANK_IN_NAME = re.compile(r"rank[-_.]?(\d{1,6})(?!\d)", re.IGNORECASE)
MOST_PAUSE_NS = 3_600 * 1_000_000_000  # files of one run are not recorded further apart


@dataclass(frozen=True, slots=True)
class Choice:
    """The traces of one run, each with a rank of its own, and the files that do not fit, with the reason."""

    traces: tuple[Trace, ...]
    left_out: tuple[tuple[str, str], ...]


def choose(traces: Sequence[Trace]) -> Choice:
    """Keep what fits together: one world size, one time, every rank once. Files without events always stay."""
    timelines = [trace for trace in traces if len(trace.events)]
    left_out: list[tuple[Trace, str]] = []
    if len(timelines) > 1:
        timelines = _of_one_world(timelines, left_out)
        timelines = _of_one_time(timelines, left_out)
        timelines = _each_rank_once(timelines, left_out)
    if len(timelines) > 1:
        timelines = _numbered(timelines)
    gone = {id(trace) for trace, _ in left_out}
    kept = iter(timelines)
    return Choice(
        tuple(next(kept) if len(trace.events) else trace for trace in traces if id(trace) not in gone),
        tuple((trace.inputs[0].path if trace.inputs else "", reason) for trace, reason in left_out),
    )


def _rank(trace: Trace) -> int | None:
    return trace.inputs[0].rank if trace.inputs else None


def _of_one_world(traces: list[Trace], left_out: list[tuple[Trace, str]]) -> list[Trace]:
    sizes = [next((rank.world_size for rank in trace.ranks), None) for trace in traces]
    tally = Tally(size for size in sizes if size is not None)
    if len(tally) < 2:
        return traces
    size = tally.most_common(1)[0][0]
    kept = []
    for trace, its in zip(traces, sizes, strict=True):
        if its in (None, size):
            kept.append(trace)
        else:
            left_out.append((trace, f"recorded in a run of {its} ranks; the others in one of {size}"))
    return kept


def _of_one_time(traces: list[Trace], left_out: list[tuple[Trace, str]]) -> list[Trace]:
    """The largest group of files without a long pause between them, by wall clock."""
    spans = [
        (trace.epoch_ns, trace.epoch_ns + trace.duration) for trace in traces if trace.epoch_ns is not None
    ]
    if len(spans) < len(traces):
        return traces
    order = sorted(range(len(traces)), key=lambda index: spans[index])
    groups = [[order[0]]]
    reach = spans[order[0]][1]
    for index in order[1:]:
        if spans[index][0] - reach > MOST_PAUSE_NS:
            groups.append([])
        groups[-1].append(index)
        reach = max(reach, spans[index][1])
    main = set(max(groups, key=lambda group: len(list(group))))
    left_out += [
        (trace, "recorded at another time than the others")
        for index, trace in enumerate(traces)
        if index not in main
    ]
    return [trace for index, trace in enumerate(traces) if index in main]


def _each_rank_once(traces: list[Trace], left_out: list[tuple[Trace, str]]) -> list[Trace]:
    """Of several files of one rank the first stays, unless no file tells ranks apart."""
    stated = [_rank(trace) for trace in traces]
    if len(set(stated) - {None}) < 2:
        return traces
    seen: set[int] = set()
    kept = []
    for trace, rank in zip(traces, stated, strict=True):
        if rank is not None and rank in seen:
            left_out.append((trace, f"another file is of rank {rank} too"))
            continue
        if rank is not None:
            seen.add(rank)
        kept.append(trace)
    return kept


def _numbered(traces: list[Trace]) -> list[Trace]:
    """Give every trace a rank of its own: the stated one, else the one in its file's name, else the next free."""
    stated = [_rank(trace) for trace in traces]
    if len(set(stated)) == len(traces) and None not in stated:
        return traces
    if len(set(stated) - {None}) < 2:
        names = [Path(trace.inputs[0].path).name if trace.inputs else "" for trace in traces]
        numbers = [int(found[1]) for found in map(_RANK_IN_NAME.search, names) if found]
        stated = list(numbers) if len(set(numbers)) == len(traces) else [None] * len(traces)
    free = iter(number for number in range(len(traces) * 2) if number not in stated)
    return [
        trace if len(trace.ranks) > 1 else _renumbered(trace, next(free) if rank is None else rank)
        for trace, rank in zip(traces, stated, strict=True)
    ]


def _renumbered(trace: Trace, rank: int) -> Trace:
    return replace(
        trace,
        lanes=tuple(replace(lane, rank=rank) for lane in trace.lanes),
        devices=tuple(replace(device, rank=rank) for device in trace.devices),
        inputs=tuple(replace(each, rank=rank) for each in trace.inputs),
        ranks=tuple(replace(each, rank=rank) for each in trace.ranks[:1]),
        counters=tuple(replace(each, rank=rank) for each in trace.counters),
    )
