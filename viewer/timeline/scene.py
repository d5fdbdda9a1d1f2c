"""What the timeline draws: a recording, its index, and what the analysis said about it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from operator import itemgetter
from typing import TYPE_CHECKING

import numpy as np

from parsers.model import Counter, Trace, derived
from parsers.model.late.dataclass import dataclass
from rules.analysis.idle.causes import Cause
from rules.terms.culprit import CulpritKind
from viewer.timeline.event_colors import COLOR_MODES, EventColors
from viewer.timeline.geometry.derived import Derived
from viewer.timeline.geometry.drawing_index import DrawingIndex
from viewer.timeline.geometry.gaps import Gaps, device_gaps
from viewer.timeline.geometry.picking import entry_at
from viewer.timeline.geometry.step_rows import StepRow, step_rows
from viewer.timeline.geometry.tracks import Track
from viewer.timeline.kinds.base import style_of
from viewer.timeline.memory.stack import MemoryStack, stacks_of

if TYPE_CHECKING:
    from rules.analysis.analysis import Analysis
    from rules.analysis.idle.causes import IdleTable
    from rules.analysis.steps.steps import Step

MIN_BLAMED = 0.03  # of the analysed time


@dataclass(frozen=True, slots=True, eq=False)
class Joined:
    """What the timeline draws of an analysis: gaps by device, and steps by rank."""

    gaps: Mapping[int, Gaps] = field(default_factory=dict)
    step_rows: Mapping[int | None, StepRow] = field(default_factory=dict)
    stacks: Mapping[int, MemoryStack] = field(default_factory=dict)
    blamed: Mapping[str, Cause] = field(default_factory=dict)  # ranges by name


@derived
def joined(analysis: Analysis) -> Joined:
    """Takes a moment when there are many gaps, steps or allocations."""
    return Joined(
        device_gaps(analysis.idle), step_rows(analysis.steps), stacks_of(analysis), blamed_ranges(analysis)
    )


def blamed_ranges(analysis: Analysis) -> dict[str, Cause]:
    """The ranges for which a GPU waits longer than a part of the time that matters, by the reason that is longest."""
    idle = analysis.idle
    pairs, which = np.unique(
        np.stack([idle.culprit.astype(np.int64), idle.cause.astype(np.int64)], axis=1),
        axis=0,
        return_inverse=True,
    )
    spent = np.bincount(which.reshape(-1), idle.end - idle.start, len(pairs))
    least = MIN_BLAMED * analysis.window_ns * max(len(analysis.active_devices), 1)
    return {
        idle.culprits[culprit].name: Cause(cause)
        for (culprit, cause), ns in sorted(
            zip(pairs.tolist(), spent.tolist(), strict=True), key=itemgetter(1)
        )
        if ns >= least and idle.culprits[culprit].kind is CulpritKind.REGION
    }


def joining_size(analysis: Analysis) -> int:
    """How many rows ``joined`` goes through."""
    allocations = sum(len(each.allocations.start) for each in analysis.trace.memory)
    return len(analysis.idle) + len(analysis.steps) + allocations


@dataclass(eq=False)
class Scene:
    """One recording as the timeline sees it."""

    trace: Trace
    index: DrawingIndex
    analysis: Analysis | None = None
    idle: IdleTable | None = None
    gaps: Mapping[int, Gaps] = field(default_factory=dict)
    steps: tuple[Step, ...] = ()
    step_rows: Mapping[int | None, StepRow] = field(default_factory=dict)
    color_mode: str = COLOR_MODES[0]
    derived: Mapping[str, Derived] = field(default_factory=dict)
    stacks: Mapping[int, MemoryStack] = field(default_factory=dict)  # by the counter that they add up to
    blames: bool = True  # whether ranges for which a GPU waits have the colour of the wait
    blamed: Mapping[str, Cause] = field(default_factory=dict)
    colors: EventColors = field(init=False)

    def __post_init__(self) -> None:
        self.forget_colors()

    def counter_of(self, track: Track) -> Counter | None:
        """The curve that a track shows: recorded, or worked out."""
        if track.counter >= 0:
            return self.trace.counters[track.counter]
        made = self.derived.get(track.key) if track.derived else None
        return made.curve if made is not None else None

    def set_analysis(self, analysis: Analysis | None) -> None:
        """Take over the idle table and the steps."""
        self.analysis = analysis
        self.idle = None if analysis is None else analysis.idle
        self.steps = () if analysis is None else analysis.steps
        drawn = Joined() if analysis is None else joined(analysis)
        self.gaps, self.step_rows = drawn.gaps, drawn.step_rows
        self.stacks = drawn.stacks
        if self.blames and self.blamed != drawn.blamed:
            self.blamed = drawn.blamed
            self.forget_colors()

    def set_color_mode(self, mode: str) -> None:
        """One of ``COLOR_MODES``; the first one for anything else."""
        self.color_mode = mode if mode in COLOR_MODES else COLOR_MODES[0]
        self.forget_colors()

    def forget_colors(self) -> None:
        """After a change of theme or mode."""
        self.colors = EventColors(self.trace, self.index, self.color_mode, self.blamed)

    def event_at(self, track: Track, depth: int, when: float, tolerance: float) -> int:
        """The event on a level of a lane at ``when``, else the nearest one within ``tolerance`` ns; -1 for none."""
        row, events = self.index.row(track, depth), self.index.events(track, depth)
        entry = -1 if row is None else entry_at(row, when, tolerance)
        if row is None or entry < 0:
            return -1
        return row.first + entry if events is None else int(events[entry])

    def level_of(self, track: Track, event: int) -> int:
        """The level of a track on which one of its events is drawn."""
        lane, depth = int(self.trace.events.lane[event]), int(self.trace.events.depth[event])
        return self.index.calls[track.lane].level_of(event) if lane == track.calls else depth

    def shown_name(self, lane: int, name: int) -> str:
        """What is written into a box of an event with this name."""
        return style_of(self.trace.lanes[lane].kind).shown(self.trace.strings[name])
