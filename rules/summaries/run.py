"""The run of many ranks, joined from their summaries: rows of devices, the analysed time, budgets, steps."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import field
from functools import cached_property

import numpy as np

from parsers.model import BOOL, F64, I64, ProcessGroup, Quality
from parsers.model.arrays import median_of
from parsers.model.late import dataclass
from rules.analysis.arithmetic.intervals import Intervals
from rules.analysis.idle.causes import Budget, Cause
from rules.analysis.ranks.collectives import CollectiveColumns, CollectiveKind
from rules.analysis.ranks.groups import RECEIVE, SEND, stages_among
from rules.analysis.ranks.meetings import Entries
from rules.analysis.ranks.run import (
    COMMUNICATION,
    COMPUTE,
    COPIES,
    FIRST_IDLE,
    OTHER,
    RESIDUAL,
    DeviceStates,
    IdleCulprit,
    KernelTally,
    Row,
    RunOfRanks,
    nodes_of,
)
from rules.summaries.rank_summary import Placed, SummaryWords
from rules.terms import DEFAULTS, Thresholds


@dataclass(frozen=True, eq=False)
class ManyRanks(RunOfRanks):
    """Members stand in the order of their ranks. All times are ns from the run's start."""

    members: tuple[Placed, ...]
    unread: tuple[tuple[str, str], ...] = ()  # files that could not be used, and why
    quality: Quality = field(default_factory=Quality)
    thresholds: Thresholds = DEFAULTS

    @cached_property
    def rows(self) -> tuple[Row, ...]:
        """Every device that worked, by rank."""
        places = [
            (number, device)
            for number, placed in enumerate(self.members)
            for device in range(len(placed.summary.words.devices))
        ]
        ranks = [self.members[member].rank for member, _ in places]
        words = [self.members[member].summary.words for member, _ in places]
        nodes = nodes_of(
            [each.rank.host if each.rank is not None else "" for each in words],
            ranks,
            [each.devices[device].id for each, (_, device) in zip(words, places, strict=True)],
        )
        return tuple(Row(*place, rank, node) for place, rank, node in zip(places, ranks, nodes, strict=True))

    def name(self, row: int) -> str:
        """ "rank 12", or "rank 12 GPU 3" where one has several."""
        found = self.rows[row]
        words = self.members[found.member].summary.words
        rank = f"rank {found.rank}" if found.rank is not None else ""
        gpu = f"GPU {words.devices[found.device].id}" if len(words.devices) > 1 or not rank else ""
        return " ".join(each for each in (rank, gpu) if each)

    @cached_property
    def steps_of_member(self) -> tuple[tuple[I64, I64, BOOL], ...]:
        """As ``steps_of`` its rows."""
        return tuple(
            (
                placed.summary.columns["step.start"] + placed.shift,
                placed.summary.columns["step.end"] + placed.shift,
                placed.summary.columns["step.steady"].astype(bool),
            )
            for placed in self.members
        )

    @cached_property
    def window(self) -> tuple[int, int]:
        """The median of the members' first steady starts to that of their last steady ends, as of a full reading."""
        steady = [(start[kept], end[kept]) for start, end, kept in self.steps_of_member if kept.any()]
        if steady:
            return (
                int(median_of([start.min() for start, _ in steady])),
                int(median_of([end.max() for _, end in steady])),
            )
        spans = [
            (first + placed.shift, last + placed.shift)
            for placed in self.members
            for first, last in placed.summary.words.span
        ]
        if not spans:
            return 0, 0
        return min(first for first, _ in spans), max(last for _, last in spans)

    def gpu(self, row: int) -> int:
        found = self.rows[row]
        return self._words(row).devices[found.device].id

    def groups(self, row: int) -> tuple[ProcessGroup, ...]:
        stated = self._words(row).rank
        return stated.groups if stated is not None else ()

    @property
    def world_size(self) -> int:
        stated = (placed.summary.words.rank for placed in self.members)
        return max((each.world_size or 0 for each in stated if each is not None), default=0)

    def _words(self, row: int) -> SummaryWords:
        return self.members[self.rows[row].member].summary.words

    def steps_of(self, row: int) -> tuple[I64, I64, BOOL]:
        return self.steps_of_member[self.rows[row].member]

    def names_of_steps(self, row: int) -> tuple[str, ...]:
        return self._words(row).step_names

    def time_within(self, row: int, start: I64, end: I64) -> I64:
        shift = self.members[self.rows[row].member].shift
        return self.states(row).within(start - shift, end - shift)

    def alone(self, row: int) -> Intervals:
        found = self.rows[row]
        placed = self.members[found.member]
        start, end = (placed.summary.columns[f"{found.device}.alone.{side}"] for side in ("start", "end"))
        return start + placed.shift, end + placed.shift

    def reading_of(self, row: int, which: str) -> F64 | I64 | None:
        found = self.rows[row]
        return self.members[found.member].summary.columns.get(f"{found.device}.{which}")

    def kernels(self, row: int) -> KernelTally:
        found = self.rows[row]
        return self.members[found.member].summary.kernels(found.device)

    def culprits(self, row: int) -> Iterable[IdleCulprit]:
        return (each for each in self._words(row).culprits if each.device == self.rows[row].device)

    def entries(self) -> Entries:
        first_row = {row.member: number for number, row in reversed(list(enumerate(self.rows)))}
        return Entries.of(
            self._collectives_of(self.members[member], row) for member, row in sorted(first_row.items())
        )

    @staticmethod
    def _collectives_of(
        placed: Placed, first_row: int
    ) -> tuple[tuple[CollectiveKind, ...], dict[str, tuple[int, ...]], list[I64]]:
        words, own = placed.summary.words, placed.summary.columns
        kept = np.flatnonzero(own["collective.device"] >= 0)
        row, start, end, kind, sequence, step = (
            own[f"collective.{which}"][kept].astype(np.int64)
            for which in ("device", "start", "end", "kind", "sequence", "step")
        )
        stated = words.rank.groups if words.rank else ()
        members = {group.name: group.ranks for group in stated}
        return (
            words.kinds,
            members,
            [row + first_row, start + placed.shift, end + placed.shift, kind, sequence, step],
        )

    @cached_property
    def collectives(self) -> CollectiveColumns | None:
        """All collectives, where any passes work on from one rank to another; else None."""
        words = (placed.summary.words for placed in self.members)
        if not any(kind.collective in (SEND, RECEIVE) for each in words for kind in each.kinds):
            return None
        found = self.entries()
        order = np.argsort(found.start, kind="stable")
        kinds = [found.kinds[each] for each in found.kind[order].tolist()]
        return CollectiveColumns(
            event=order,
            start=found.start[order],
            end=found.end[order],
            device=found.row[order],
            collective=tuple(kind.collective for kind in kinds),
            group=tuple(kind.group for kind in kinds),
            bytes=np.array([kind.bytes for kind in kinds], np.int64),
            group_size=np.array([kind.group_size for kind in kinds], np.int64),
            sequence=found.sequence[order],
        )

    @cached_property
    def stages(self) -> tuple[int, ...]:
        """The rows that are stages of a pipeline, in the order in which work reaches them."""
        return () if self.collectives is None else stages_among(self.collectives)

    def states(self, row: int) -> DeviceStates:
        """What a row did over time, on its member's clock; a stage waits for the others before and after its work."""
        found = self.rows[row]
        summary = self.members[found.member].summary
        states = summary.states(found.device)
        if row not in self.stages:
            return states
        t0, t1 = (each - self.members[found.member].shift for each in self.window)
        return states.idle_outside(summary.words.span[found.device], (t0, t1), Cause.NEIGHBOURS)

    def busy_ns(self, row: int) -> int:
        """The union of everything that ran on a row's device, inside its span."""
        found = self.rows[row]
        summary = self.members[found.member].summary
        first, last = summary.words.span[found.device]
        parts = summary.states(found.device).within(np.array([first]), np.array([last]))[0]
        return int(parts[[COMPUTE, COMMUNICATION, COPIES, OTHER]].sum())

    def budget(self, row: int) -> Budget:
        parts = self.parts[row].tolist()
        return Budget(
            row,
            *self.window,
            compute_ns=parts[COMPUTE],
            exposed_communication_ns=parts[COMMUNICATION],
            exposed_copy_ns=parts[COPIES],
            other_ns=parts[OTHER],
            idle_ns={cause: parts[FIRST_IDLE + cause] for cause in Cause},
            residual_ns=parts[RESIDUAL],
        )
