"""What the timeline draws: a recording, its index, and what the analysis said about it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
from PySide6.QtGui import QColor

from parsers.model import Trace
from rules.analysis.analysis import Analysis
from rules.analysis.idle.causes import Cause, IdleTable
from rules.analysis.steps.steps import Step
from viewer.timeline.event_colors import COLOR_MODES, EventColors
from viewer.timeline.geometry.drawing_index import DrawingIndex
from viewer.timeline.geometry.gaps import Gaps, device_gaps
from viewer.timeline.geometry.step_rows import StepRow, step_rows
from viewer.timeline.kinds.base import style_of

_KEPT_AS = "_joined"
CULPRIT_SHARE = 0.03  # of all idle time: a region that causes more is painted in the colour of its cause


@dataclass(frozen=True, slots=True, eq=False)
class Joined:
    """What the timeline draws of an analysis: gaps by device, steps by rank, and who causes most idle time."""

    gaps: Mapping[int, Gaps] = field(default_factory=dict)
    step_rows: Mapping[int | None, StepRow] = field(default_factory=dict)
    culprits: Mapping[str, Cause] = field(default_factory=dict)

    @staticmethod
    def of(analysis: Analysis) -> Joined:
        """Takes a moment when there are many gaps or steps; kept with the analysis."""
        found = Joined.kept(analysis)
        if found is None:
            rows, culprits = step_rows(analysis.steps), heavy_culprits(analysis.idle)
            found = vars(analysis)[_KEPT_AS] = Joined(device_gaps(analysis.idle), rows, culprits)
        return found

    @staticmethod
    def kept(analysis: Analysis) -> Joined | None:
        """What ``of`` has made before, if it has."""
        found = vars(analysis).get(_KEPT_AS)
        return found if isinstance(found, Joined) else None


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
    culprits: Mapping[str, Cause] = field(default_factory=dict)
    color_mode: str = COLOR_MODES[0]
    colors: EventColors = field(init=False)

    def __post_init__(self) -> None:
        self.forget_colors()

    def set_analysis(self, analysis: Analysis | None, joined: Joined | None = None) -> None:
        """Take over the idle table, the steps and the culprits; ``joined`` where it is known already."""
        self.analysis = analysis
        if analysis is None:
            self.idle, self.steps, joined = None, (), Joined()
        else:
            self.idle, self.steps = analysis.idle, tuple(analysis.steps)
            joined = joined or Joined.of(analysis)
        self.gaps, self.culprits, self.step_rows = joined.gaps, joined.culprits, joined.step_rows
        self.forget_colors()

    def set_color_mode(self, mode: str) -> None:
        """One of ``COLOR_MODES``; the first one for anything else."""
        self.color_mode = mode if mode in COLOR_MODES else COLOR_MODES[0]
        self.forget_colors()

    def forget_colors(self) -> None:
        """After a change of theme, mode or analysis."""
        self.colors = EventColors(self.trace, self.index, self.color_mode, self.culprits)

    def color_of(self, event: int) -> QColor:
        """The colour of one event."""
        lane, depth = int(self.trace.events.lane[event]), int(self.trace.events.depth[event])
        row = self.index.rows[lane][depth]
        kind = int(self.colors.classes(lane, row, np.array([event - row.first]))[0])
        return self.colors.palette(lane, depth)[kind]

    def shown_name(self, lane: int, name: int) -> str:
        """What is written into a box of an event with this name."""
        return style_of(self.trace.lanes[lane].kind).shown(self.trace.strings[name])


def heavy_culprits(idle: IdleTable) -> dict[str, Cause]:
    """The names behind at least ``CULPRIT_SHARE`` of all idle time, with the cause that they cost most under."""
    if not len(idle):
        return {}
    weight = (idle.end - idle.start).astype(np.float64)
    total = np.zeros((len(idle.culprits), len(Cause)))
    np.add.at(total, (idle.culprit, idle.cause), weight)
    heavy = np.flatnonzero(total.sum(axis=1) >= CULPRIT_SHARE * weight.sum())
    return {
        idle.culprits[index]: Cause(int(total[index].argmax()))
        for index in heavy.tolist()
        if int(total[index].argmax()) in (Cause.INPUT, Cause.HOST, Cause.SYNCHRONIZATION, Cause.ALLOCATOR)
    }
