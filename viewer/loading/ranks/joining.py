"""Joins the summaries of many ranks into one run: which of them belong together, and how their clocks lie."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from parsers.model import Progress, Quality, QualityRecorder
from parsers.model.quality import Effect
from parsers.runs.rank_choice import Member, members_of_one_run
from parsers.runs.rank_clocks import Collectives, aligned
from rules.summaries.placed import Placed
from rules.summaries.rank_summary import RankSummary
from rules.summaries.run import ManyRanks
from rules.thresholds import DEFAULTS, Thresholds


def joined(
    summaries: Sequence[RankSummary],
    unread: Sequence[tuple[str, str]] = (),
    thresholds: Thresholds = DEFAULTS,
    progress: Progress | None = None,
) -> ManyRanks:
    """The run of these ranks, on one clock as ``parsers.runs.merge`` would place them; others are named as unread."""
    progress = progress or Progress()
    working = [each for each in summaries if each.words.devices]
    without = [
        (each.words.input.path, "it holds no GPU work") for each in summaries if not each.words.devices
    ]
    chosen = members_of_one_run([_member(each) for each in working])
    without += [(working[index].words.input.path, reason) for index, reason in chosen.left_out]
    kept = [working[index] for index in chosen.kept]
    ranks = [
        own.words.input.rank if given is None else given for own, given in zip(kept, chosen.rank, strict=True)
    ]
    epochs = [each.words.epoch_ns for each in kept]
    known = [epoch for epoch in epochs if epoch is not None]
    zero = min(known, default=0)
    shifts = [epoch - zero if epoch is not None and len(known) == len(kept) else 0 for epoch in epochs]
    numbers: dict[str, int] = {}
    shared = _shared_groups(kept)
    clocks = aligned(
        [_collectives(each, shift, numbers, shared) for each, shift in zip(kept, shifts, strict=True)],
        ranks,
        progress.part(0.0, 0.5),
    )
    shifts = [shift + more for shift, more in zip(shifts, clocks.corrections, strict=True)]
    earliest = min(shifts, default=0)
    members = [
        Placed(each, shift - earliest, rank, error)
        for each, shift, rank, error in zip(kept, shifts, ranks, clocks.errors, strict=True)
    ]
    order = sorted(range(len(members)), key=lambda index: (_number(members[index]), index))
    notes = QualityRecorder()
    for note in clocks.notes:
        notes.note(note.kind, note.effect, note.reason, note.example, note.count)
    for path, reason in (*without, *unread):
        notes.note("left-out", Effect.NOTED, "files that are not part of this run", f"{path}: {reason}")
    return ManyRanks(
        members=tuple(members[index] for index in order),
        unread=(*without, *unread),
        quality=Quality.merged([*(each.words.quality for each in kept), notes.quality()]),
        thresholds=thresholds,
    )


def _member(summary: RankSummary) -> Member:
    words = summary.words
    return Member(
        path=words.input.path,
        rank=words.input.rank,
        world_size=words.rank.world_size if words.rank is not None else None,
        span=None if words.epoch_ns is None else (words.epoch_ns, words.epoch_ns + words.duration),
    )


def _shared_groups(summaries: Sequence[RankSummary]) -> frozenset[str]:
    """The process groups that all ranks belong to: only these end on all of them together."""
    groups = [frozenset(kind.group for kind in each.words.kinds) for each in summaries if each.words.kinds]
    return frozenset.intersection(*groups) if groups else frozenset()


def _collectives(
    summary: RankSummary, shift: int, numbers: dict[str, int], shared: frozenset[str]
) -> Collectives:
    words, own = summary.words, summary.columns
    codes = np.array([numbers.setdefault(name, len(numbers)) for name in words.collective_names], np.int64)
    taken = np.array([kind.group in shared for kind in words.kinds], bool)[own["collective.kind"]]
    return Collectives(own["collective.end"][taken] + shift, codes[own["collective.name"][taken]])


def _number(placed: Placed) -> int:
    return placed.rank if placed.rank is not None else 1 << 31
