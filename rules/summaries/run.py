"""The run of many ranks, joined from their summaries: rows of devices, the analysed time, budgets, steps."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from parsers.model import BOOL, F64, I64, Progress, Quality
from rules.analysis.facts.device_time import Budget
from rules.analysis.idle.causes import Cause
from rules.analysis.ranks.collectives import CollectiveColumns
from rules.analysis.ranks.stages import stages_among
from rules.summaries.meetings import Meetings, meetings_of, messages_of
from rules.summaries.rank_summary import Placed, Row
from rules.summaries.states import (
    COMMUNICATION,
    COMPUTE,
    COPIES,
    FIRST_IDLE,
    OTHER,
    PARTS,
    RESIDUAL,
    DeviceStates,
)
from rules.thresholds import DEFAULTS, Thresholds


@dataclass(frozen=True, eq=False)
class ManyRanks:
    """Members stand in the order of their ranks. All times are ns from the run's start."""

    members: tuple[Placed, ...]
    unread: tuple[tuple[str, str], ...] = ()  # files that could not be used, and why
    quality: Quality = field(default_factory=Quality)
    thresholds: Thresholds = DEFAULTS

    @cached_property
    def rows(self) -> tuple[Row, ...]:
        """Every device that worked, by rank."""
        found = [
            (number, device, placed.rank)
            for number, placed in enumerate(self.members)
            for device in range(len(placed.summary.words.devices))
        ]
        nodes = self._nodes(found)
        return tuple(Row(*each, node) for each, node in zip(found, nodes, strict=True))

    def _nodes(self, rows: Sequence[tuple[int, int, int | None]]) -> list[str]:
        """The host that each row states; else which of equal runs of device numbers its rank lies in."""
        words = [self.members[member].summary.words for member, _, _ in rows]
        hosts = [each.rank.host if each.rank is not None else "" for each in words]
        if len(set(hosts)) > 1 and all(hosts):
            return hosts
        ids = [each.devices[device].id for each, (_, device, _) in zip(words, rows, strict=True)]
        here = max(ids, default=0) + 1
        ranks = [rank for _, _, rank in rows]
        if (
            here < 2
            or len(rows) <= here
            or any(rank is None or rank % here != id for rank, id in zip(ranks, ids, strict=True))
        ):
            return [""] * len(rows)
        return [f"node {rank // here}" for rank in ranks if rank is not None]

    def name(self, row: int) -> str:
        """ "rank 12", or "rank 12 GPU 3" where one has several."""
        found = self.rows[row]
        words = self.members[found.member].summary.words
        rank = f"rank {found.rank}" if found.rank is not None else ""
        gpu = f"GPU {words.devices[found.device].id}" if len(words.devices) > 1 or not rank else ""
        return " ".join(each for each in (rank, gpu) if each)

    @cached_property
    def steps_of_member(self) -> tuple[tuple[I64, I64, BOOL], ...]:
        """Starts, ends, and whether they are steady, of each member's steps."""
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
                int(np.median([start.min() for start, _ in steady])),
                int(np.median([end.max() for _, end in steady])),
            )
        spans = [
            (first + placed.shift, last + placed.shift)
            for placed in self.members
            for first, last in placed.summary.words.span
        ]
        if not spans:
            return 0, 0
        return min(first for first, _ in spans), max(last for _, last in spans)

    @property
    def window_ns(self) -> int:
        return self.window[1] - self.window[0]

    @cached_property
    def steps_in_window(self) -> int:
        """Steady steps of one member; 0 where none were found."""
        return max((int(kept.sum()) for _, _, kept in self.steps_of_member), default=0)

    @cached_property
    def parts(self) -> I64:
        """(rows, PARTS): ns of each part of the budget inside the window."""
        t0, t1 = self.window
        found = np.zeros((len(self.rows), PARTS), np.int64)
        for number, row in enumerate(self.rows):
            placed = self.members[row.member]
            span = np.array([t0 - placed.shift]), np.array([t1 - placed.shift])
            found[number] = self.states(number).within(*span)[0]
        found[:, FIRST_IDLE + Cause.UNKNOWN] += found[:, RESIDUAL]  # before and after what was recorded
        found[:, RESIDUAL] = 0
        return found

    @cached_property
    def collectives(self) -> CollectiveColumns | None:
        """All collectives, where any passes work on from one rank to another; else None."""
        return messages_of(self.members, self.rows)

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

    @cached_property
    def step_numbers(self) -> I64:
        """The numbers of the steps that most ranks have, as counted on each rank, warm-up left out."""
        counts: dict[int, int] = {}
        for _, _, steady in self.steps_of_member:
            for number in np.flatnonzero(steady).tolist():
                counts[number] = counts.get(number, 0) + 1
        most = max(counts.values(), default=0)
        return np.array(sorted(number for number, count in counts.items() if 2 * count >= most), np.int64)

    @cached_property
    def step_names(self) -> tuple[str, ...]:
        """What the first rank that has it calls each of ``step_numbers``."""
        found = {}
        for number in self.step_numbers.tolist():
            for placed in self.members:
                if number < len(placed.summary.words.step_names):
                    found[number] = placed.summary.words.step_names[number]
                    break
        return tuple(found.get(number, str(number)) for number in self.step_numbers.tolist())

    @cached_property
    def by_step(self) -> I64:
        """(rows, steps, PARTS): ns of each part in each step; nothing where a rank lacks the step."""
        numbers = self.step_numbers
        found = np.zeros((len(self.rows), len(numbers), PARTS), np.int64)
        for index, row in enumerate(self.rows):
            placed = self.members[row.member]
            start, end, _ = self.steps_of_member[row.member]
            has = numbers[numbers < len(start)]
            states = self.states(index)
            found[index, : len(has)] = states.within(start[has] - placed.shift, end[has] - placed.shift)
        return found

    def reading(self, which: str) -> F64:
        """(rows, steps) of one of ``READINGS`` or "blocks"; not a number where it was not counted."""
        numbers = self.step_numbers
        found = np.full((len(self.rows), len(numbers)), np.nan)
        for index, row in enumerate(self.rows):
            column = self.members[row.member].summary.columns.get(f"{row.device}.{which}")
            if column is not None:
                has = numbers[numbers < len(column)]
                found[index, : len(has)] = column[has]
        return found

    @cached_property
    def meetings(self) -> Meetings:
        return self.matched(Progress())

    def matched(self, progress: Progress) -> Meetings:
        """The same, with a chance to cancel every now and then."""
        return meetings_of(self.members, self.rows, self.window, progress)
