"""One open recording and what is selected in it; every panel of a window listens to one document."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING

from PySide6.QtCore import QObject, QTimer, Signal

from parsers.model import Progress, Trace, TraceError
from viewer.jobs import Jobs

if TYPE_CHECKING:
    from rules import Diagnosis, Finding
    from rules.analysis.analysis import Analysis
    from rules.analysis.steps import Step
    from rules.base import Evidence

LOADING = "open"
ANALYSING = "analyse"
KEEPING = "keep"


class Stage(Enum):
    """How far the document is."""

    EMPTY = 0
    LOADING = 1
    ANALYSING = 2
    READY = 3


@dataclass(frozen=True, slots=True)
class Area:
    """A part of the timeline: a span of time (ns) and the lanes it covers; no lanes means all."""

    start: int
    end: int
    lanes: tuple[int, ...] = ()


class Document(QObject):
    """Loads a recording in the background and tells the panels what is there and what is selected."""

    stage_changed = Signal(object)
    trace_changed = Signal(object)  # Trace, or None when the document was emptied
    analysis_changed = Signal(object)
    diagnosis_changed = Signal(object)
    failed = Signal(str, str)  # problem, hint
    step_changed = Signal(int)  # index into steps; -1: all steps
    event_changed = Signal(int)  # -1: none
    event_shown = Signal(int)  # an event to look at, without selecting it
    gap_changed = Signal(int)  # row of the idle table; -1: none
    area_changed = Signal(object)  # Area or None
    finding_changed = Signal(object)  # Finding or None
    recording_wanted = Signal(object)  # CaptureRequest: the recorder is to open with it
    evidence_wanted = Signal(object, int)  # list of Evidence, which of them to fly to

    def __init__(self, jobs: Jobs, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self.jobs = jobs
        self.paths: tuple[Path, ...] = ()
        self.trace: Trace | None = None
        self.analysis: Analysis | None = None
        self.diagnosis: Diagnosis | None = None
        self.stage = Stage.EMPTY
        self.step = -1
        self.selected_event = -1
        self.selected_gap = -1
        self.area: Area | None = None
        self.finding: Finding | None = None
        self._before: tuple[tuple[Path, ...], Stage] = ((), Stage.EMPTY)

    def open(self, paths: Sequence[Path]) -> None:
        """Read these files as one run; what is shown now stays until they are read, or the reading fails."""
        wanted = tuple(Path(path) for path in paths)
        if self.stage is not Stage.LOADING:
            self._before = (self.paths, Stage.EMPTY if self.trace is None else Stage.READY)
        self._enter(Stage.LOADING)

        def read(progress: Progress) -> Trace:
            from parsers import open_trace

            return open_trace(wanted, progress)

        self.jobs.ask(
            LOADING,
            read,
            answer=lambda trace: self.show(trace, wanted),
            failed=lambda error: self._on_failure(error, wanted),
            stopped=self._back,
        )

    def show(self, trace: Trace, paths: Sequence[Path] = ()) -> None:
        """Make ``trace`` the content of this document and start to analyse it."""
        self.paths = tuple(paths)
        self.trace, self.analysis, self.diagnosis = trace, None, None
        self.step, self.selected_event, self.selected_gap, self.area, self.finding = -1, -1, -1, None, None
        self.trace_changed.emit(trace)
        self._analyse(trace)

    def _analyse(self, trace: Trace) -> None:
        self._enter(Stage.ANALYSING)

        def work(progress: Progress) -> tuple[Analysis, Diagnosis]:
            from rules import diagnose
            from rules.analysis.analysis import analyse

            progress.step(0.0, "finding steps and idle time")
            analysis = analyse(trace)
            _ = analysis.steps, analysis.window, analysis.families, analysis.idle
            import viewer.statistics.kernels  # noqa: F401  loads pandas here, before the tables are asked for

            for device in range(len(trace.devices)):
                progress.step(0.4, "finding what each GPU did")
                analysis.time(device)
            return analysis, diagnose(trace, progress.part(0.5, 1.0))

        self.jobs.ask(
            ANALYSING, work, answer=self._on_analysed, failed=self._on_analysis_failure, stopped=self._ready
        )

    def cancel(self) -> None:
        """Stop reading or analysing."""
        self.jobs.cancel(LOADING)
        self.jobs.cancel(ANALYSING)

    def clear(self) -> None:
        """Back to nothing open."""
        self.jobs.forget(LOADING)
        self.jobs.forget(ANALYSING)
        self.paths, self.trace, self.analysis, self.diagnosis = (), None, None, None
        self._enter(Stage.EMPTY)
        self.trace_changed.emit(None)

    @property
    def steps(self) -> tuple[Step, ...]:
        return tuple(self.analysis.steps) if self.analysis is not None else ()

    @property
    def window(self) -> tuple[int, int]:
        """The time (ns) that numbers speak of: the selected step, else the analysed window."""
        steps = self.steps
        if 0 <= self.step < len(steps):
            return steps[self.step].start, steps[self.step].end
        if self.analysis is not None:
            start, end = self.analysis.window
            return start, end
        return 0, self.trace.duration if self.trace is not None else 0

    def select_step(self, index: int) -> None:
        """Make one step the one that numbers speak of; -1 for all."""
        index = index if 0 <= index < len(self.steps) else -1
        if index != self.step:
            self.step = index
            self.step_changed.emit(index)

    def select_event(self, event: int) -> None:
        """Select one event; -1 for none."""
        if event != self.selected_event:
            self.selected_event = event
            if event >= 0:
                self.selected_gap = -1
            self.event_changed.emit(event)

    def select_gap(self, row: int) -> None:
        """Select one row of the idle table; -1 for none."""
        if row != self.selected_gap:
            self.selected_gap = row
            if row >= 0:
                self.selected_event = -1
            self.gap_changed.emit(row)

    def select_area(self, area: Area | None) -> None:
        """Select a span of time on some lanes, or nothing."""
        if area != self.area:
            self.area = area
            self.area_changed.emit(area)

    def select_finding(self, finding: Finding | None, which: int | None = None) -> None:
        """Make a finding the current one and show its longest evidence, or evidence number ``which``."""
        self.finding = finding
        self.finding_changed.emit(finding)
        if finding is not None and finding.evidence:
            self.show_evidence(finding.evidence, which)

    def show_evidence(self, evidence: Sequence[Evidence], which: int | None = None) -> None:
        """Ask the timeline to mark these places and to fly to one: number ``which``, else the longest."""
        places = list(evidence)
        if places:
            longest = max(range(len(places)), key=lambda index: places[index].end - places[index].start)
            self.evidence_wanted.emit(places, longest if which is None else which % len(places))

    def _enter(self, stage: Stage) -> None:
        self.stage = stage
        self.stage_changed.emit(stage)

    def _ready(self) -> None:
        self._enter(Stage.READY)

    def _back(self) -> None:
        self._enter(self._before[1])

    def _on_analysed(self, result: tuple[Analysis, Diagnosis]) -> None:
        self.analysis, diagnosis = result
        self.analysis_changed.emit(self.analysis)
        trace = self.trace

        def show_diagnosis() -> None:  # in a turn of its own, so that the window never stops for long
            if self.trace is trace:
                self.diagnosis = diagnosis
                self.diagnosis_changed.emit(diagnosis)
                self._ready()

        QTimer.singleShot(0, self, show_diagnosis)
        self._keep_for_reopening()

    def _keep_for_reopening(self) -> None:
        """Large recordings go to the cache once everything is on the screen."""
        trace = self.trace
        if trace is None:
            return

        def keep(_: Progress) -> None:
            from parsers import cache

            cache.store(trace)

        self.jobs.ask(KEEPING, keep, answer=lambda _: None)

    def _on_failure(self, error: Exception, paths: tuple[Path, ...]) -> None:
        self._back()
        if isinstance(error, TraceError):
            name = error.path.name
            problem = error.problem if name in error.problem else f"{name}: {error.problem}"
            self.failed.emit(problem, error.hint)
        elif isinstance(error, OSError):
            self.failed.emit(
                f"{paths[0].name}: {error.strerror or error}.", "Check that the file is there and readable."
            )
        elif isinstance(error, MemoryError):
            self.failed.emit(
                f"{paths[0].name} does not fit into memory.", "Open a shorter recording, or fewer ranks."
            )
        else:
            raise error

    def _on_analysis_failure(self, error: Exception) -> None:
        self._ready()
        self.failed.emit("The analysis failed; the timeline is complete.", f"{type(error).__name__}: {error}")
        raise error
