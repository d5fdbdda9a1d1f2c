"""One open recording and what is selected in it; every panel of a window listens to one document."""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING

from PySide6.QtCore import QObject, QTimer, Signal

from parsers.model import SYSTEM_ERRORS, Progress, Trace, TraceError, refused_by_system
from parsers.model.late import dataclass
from parsers.ranks.rank_choice import LEFT_OUT
from rules.terms import DEFAULTS, Thresholds
from viewer.desktop.jobs import Jobs
from viewer.loading.loader import Opened, analysis_of, opened, opened_ranks
from viewer.timeline.selection import Area, Moment, Selection

if TYPE_CHECKING:
    from rules import Diagnosis, Finding
    from rules.analysis.analysis import Analysis
    from rules.analysis.steps.steps import Step
    from rules.findings.base import Evidence
    from rules.fixes.plan import Plan
    from viewer.loading.ranks.opened import ManyRanksOpened
    from viewer.query.overlay import Overlay
    from viewer.timeline.geometry.derived import Derived

LOADING = "open"
ANALYSING = "analyse"
PREDICTING = "predict"
BETWEEN_MS = 20  # between showing the analysis and the diagnosis


class Stage(Enum):
    """How far the document is."""

    EMPTY = 0
    LOADING = 1
    ANALYSING = 2
    READY = 3


@dataclass(slots=True)
class Content:
    """What was open before, to go back to."""

    paths: tuple[Path, ...] = ()
    trace: Trace | None = None
    analysis: Analysis | None = None
    diagnosis: Diagnosis | None = None
    many: ManyRanksOpened | None = None


class Document(QObject):
    """Loads a recording in the background and tells the panels what is there and what is selected."""

    stage_changed = Signal(object)
    trace_changed = Signal(object)  # Trace, or None when the document was emptied
    analysis_changed = Signal(object)
    diagnosis_changed = Signal(object)
    plan_changed = Signal(object)  # Plan: what fixes would give
    failed = Signal(str, str)  # problem, hint
    step_changed = Signal(int)  # index into steps; -1: all steps
    step_shown = Signal(int)  # the same where the timeline is to go there
    event_revealed = Signal(int)  # selected elsewhere than on the timeline, which is to move it into view
    event_shown = Signal(int)  # an event to look at, without selecting it
    finding_changed = Signal(object)  # Finding or None
    recorder_changed = Signal(bool)  # whether shares are of a step with the recorder in it
    overlays_changed = Signal()  # the answers to questions that the timeline shows as lanes
    request_lanes_changed = Signal()
    request_chosen = Signal(int)  # on the timeline
    recording_wanted = Signal(object)  # CaptureRequest: the recorder is to open with it
    question_wanted = Signal(object)  # Question: to be asked in SQL
    keys_wanted = Signal(object, object)  # of a window beside it: menus with their keys, and the window
    ticket_wanted = Signal(object)  # Finding: to be written down for others
    line_wanted = Signal(object)  # SourceLine: to be opened in an editor
    evidence_wanted = Signal(object, int)  # list of Evidence, which of them to fly to

    def __init__(self, jobs: Jobs, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self.jobs = jobs
        self.paths: tuple[Path, ...] = ()
        self.trace: Trace | None = None
        self.analysis: Analysis | None = None
        self.diagnosis: Diagnosis | None = None
        self.plan: Plan | None = None
        self.many: ManyRanksOpened | None = None  # of which ``trace`` holds the ranks that are compared
        self.stage = Stage.EMPTY
        self.step = -1
        self.selection = Selection(self)
        self.event_changed, self.gap_changed = self.selection.event_changed, self.selection.gap_changed
        self.area_changed, self.moment_changed = self.selection.area_changed, self.selection.moment_changed
        self.finding: Finding | None = None
        self.with_recorder = False
        self.overlays: tuple[Overlay, ...] = ()
        self.request_lanes: tuple[Derived, ...] = ()
        self.thresholds = DEFAULTS  # what the rules decide by
        self.preview = False  # whether ``trace`` is only the beginning of what is being read
        self._before = Content()
        self._load: object = None
        self._read: Opened | None = None  # what was read last, for another analysis

    def open(self, paths: Sequence[Path]) -> None:
        """Read these files as one run; what is shown now stays until they are read, or the reading fails."""
        wanted = tuple(Path(path) for path in paths)
        if self.stage is not Stage.LOADING:
            self._before = Content(self.paths, self.trace, self.analysis, self.diagnosis, self.many)
        self._load = load = object()
        thresholds = self.thresholds
        self._enter(Stage.LOADING)

        show_first = self.jobs.on_gui_thread(lambda trace: self._show_first(load, wanted, trace))
        self.jobs.ask(
            LOADING,
            lambda progress: opened(wanted, progress, show_first, thresholds),
            answer=lambda read: self._take(read, wanted),
            failed=lambda error: self._on_failure(error, wanted),
            stopped=self._back,
        )

    def _show_first(self, load: object, paths: tuple[Path, ...], trace: Trace) -> None:
        """Let the lanes of the first events be looked at; nothing is concluded from them."""
        if load is self._load and self.jobs.is_running(LOADING):
            self.preview = True
            self._replace(trace, paths)

    def show(self, trace: Trace, paths: Sequence[Path] = ()) -> None:
        """Make ``trace`` the content of this document and start to analyse it."""
        self._enter(Stage.LOADING)
        self._take(Opened(trace), tuple(paths))

    def look_at_rank(self, row: int) -> None:
        """Read one rank of a run of many in full, beside the slowest and a typical one."""
        self._compare(row, pinned=False)

    def pin_rank(self, row: int) -> None:
        """Read one more rank of a run of many in full."""
        self._compare(row, pinned=True)

    def _compare(self, row: int, pinned: bool) -> None:
        if self.many is None or row in self.many.compared or self.stage is Stage.LOADING:
            return
        many, paths, thresholds = self.many.comparing(row, pinned), self.paths, self.thresholds
        self._before = Content(self.paths, self.trace, self.analysis, self.diagnosis, self.many)
        self._enter(Stage.LOADING)
        self.jobs.ask(
            LOADING,
            lambda progress: opened_ranks(many, progress, thresholds),
            answer=lambda read: self._take(read, paths),
            failed=lambda error: self._on_failure(error, paths),
            stopped=self._back,
        )

    def _take(self, read: Opened, paths: tuple[Path, ...]) -> None:
        self.preview = False
        self._replace(read.trace, paths, read.many)
        self._before = Content()
        self._read = read
        self._analyse(read)

    def _analyse(self, read: Opened) -> None:
        self._enter(Stage.ANALYSING)
        thresholds = self.thresholds

        def work(progress: Progress) -> tuple[Analysis, Diagnosis]:
            return analysis_of(read, progress, thresholds)

        self.jobs.ask(
            ANALYSING, work, answer=self._on_analysed, failed=self._on_analysis_failure, stopped=self._ready
        )

    def _replace(
        self, trace: Trace | None, paths: tuple[Path, ...], many: ManyRanksOpened | None = None
    ) -> None:
        """Another trace, of which nothing is known yet."""
        self.paths, self.many = paths, many
        self.trace, self.analysis, self.diagnosis, self.plan = trace, None, None, None
        self.jobs.forget(PREDICTING)
        self.selection.clear()
        self.step, self.finding, self.request_lanes = -1, None, ()
        self.with_recorder = False
        self.trace_changed.emit(trace)

    def use_thresholds(self, thresholds: Thresholds) -> None:
        """Let the rules decide by other numbers from now on; what is open is analysed anew."""
        if thresholds == self.thresholds:
            return
        self.thresholds = thresholds
        if self.trace is not None and self.stage in (Stage.ANALYSING, Stage.READY):
            read = self._read
            self._analyse(read if read is not None and read.trace is self.trace else Opened(self.trace))

    @property
    def left_out(self) -> tuple[Path, ...]:
        """The opened files that are not shown, because they are of another run."""
        trace = self.trace
        if trace is None or self.preview or not any(each.kind == LEFT_OUT for each in trace.quality.notes):
            return ()
        shown = {each.path for each in trace.inputs}
        return tuple(path for path in self.paths if str(path) not in shown)

    def cancel(self) -> None:
        self.jobs.cancel(LOADING)
        self.jobs.cancel(ANALYSING)

    def clear(self) -> None:
        self.jobs.forget(LOADING)
        self.jobs.forget(ANALYSING)
        self.preview = False
        self._read = None
        self._enter(Stage.EMPTY)
        self._replace(None, ())

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

    @property
    def selected_event(self) -> int:
        """The selected event; -1 for none."""
        return self.selection.selected

    @property
    def selected_gap(self) -> int:
        """The selected row of the idle table; -1 for none, and while an event is selected."""
        return self.selection.gap if self.selection.selected < 0 else -1

    @property
    def area(self) -> Area | None:
        return self.selection.area

    def select_step(self, index: int, show: bool = True) -> None:
        """Make one step the one that numbers speak of, -1 for all, and ``show`` it on the timeline."""
        index = index if 0 <= index < len(self.steps) else -1
        if index != self.step:
            self.step = index
            self.step_changed.emit(index)
            if show:
                self.step_shown.emit(index)

    def select_event(self, event: int) -> None:
        """Select one event and move it into view on the timeline; -1 for none."""
        if event != self.selected_event:
            self.selection.select_event(event)
            self.event_revealed.emit(event)

    def show_event(self, event: int) -> None:
        """Select an event where it is asked for by name; one that is selected already comes into view again."""
        if event == self.selected_event:
            self.select_event(-1)
        self.select_event(event)

    def visit_peak(self, following: bool = False) -> None:
        """Look at the fullest moment of the GPU one looks at, else of the fullest GPU; or at its next peak."""
        from rules.memory.summary import memory_of

        known = {each.device: each.account for each in memory_of(self.analysis)} if self.analysis else {}
        accounts = {device: account for device, account in known.items() if account is not None}
        if not accounts:
            return
        moment = self.selection.moment
        fullest = max(accounts, key=lambda device: accounts[device].peak)
        device = moment.device if moment and moment.device in accounts else fullest
        when = accounts[device].peak_at
        if following and moment is not None:
            peaks = accounts[device].peaks().tolist()
            when = next((each for each in peaks if each > moment.when), peaks[0])
        self.selection.choose_moment(Moment(device, when))

    def show_overlays(self, overlays: Sequence[Overlay]) -> None:
        """Show the rows of these answers on the timeline, in place of others."""
        if tuple(overlays) != self.overlays:
            self.overlays = tuple(overlays)
            self.overlays_changed.emit()

    def show_request_lanes(self, lanes: Sequence[Derived]) -> None:
        """Show what the requests of a serving engine did on the timeline; nothing where there are none."""
        if tuple(lanes) != self.request_lanes:
            self.request_lanes = tuple(lanes)
            self.request_lanes_changed.emit()

    def show_recorder(self, on: bool) -> None:
        """Let all shares be those of a step with the recorder in it, or without."""
        if on is not self.with_recorder:
            self.with_recorder = on
            self.recorder_changed.emit(on)

    def told(self, finding: Finding) -> Finding:
        """A finding with its share of the step that is shown."""
        if not self.with_recorder or self.diagnosis is None:
            return finding
        from rules.causes import with_recorder

        return with_recorder(finding, self.diagnosis.step_times)

    def select_finding(self, finding: Finding | None, which: int | None = None) -> None:
        """Make a finding the current one and show its longest evidence, or evidence number ``which``."""
        self.finding = finding
        self.finding_changed.emit(finding)
        if finding is not None and finding.evidence:
            self.show_evidence(finding.evidence, which)

    def return_to_finding(self, finding: Finding) -> None:
        """Make a finding the current one whose places are marked already."""
        if finding is not self.finding:
            self.finding = finding
            self.finding_changed.emit(finding)

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
        if self.stage is Stage.ANALYSING:
            self._enter(Stage.READY)

    def _back(self) -> None:
        """To what was open before; its timeline stayed, unless the first events of the other were shown."""
        before, self._before = self._before, Content()
        if self.preview:
            self.preview = False
            self._replace(before.trace, before.paths, before.many)
            self.analysis, self.diagnosis = before.analysis, before.diagnosis
            if self.analysis is not None:
                self.analysis_changed.emit(self.analysis)
            if self.diagnosis is not None:
                self.diagnosis_changed.emit(self.diagnosis)
                if self.analysis is not None:
                    self._predict(self.analysis)
        self._enter(Stage.EMPTY if self.trace is None else Stage.READY)

    def _on_analysed(self, result: tuple[Analysis, Diagnosis]) -> None:
        analysis, diagnosis = result
        if analysis.trace is not self.trace:  # meanwhile another one is being read
            if analysis.trace is self._before.trace:
                self._before.analysis, self._before.diagnosis = analysis, diagnosis
            return
        self.analysis, self.diagnosis, self.plan = analysis, None, None  # the old may have other thresholds
        self.analysis_changed.emit(self.analysis)

        def show_diagnosis() -> None:  # later, so that the window is painted and answers in between
            if self.analysis is analysis:
                self.diagnosis = diagnosis
                self.diagnosis_changed.emit(diagnosis)
                self._ready()
                self._predict(analysis)

        QTimer.singleShot(BETWEEN_MS, self, show_diagnosis)

    def _predict(self, analysis: Analysis) -> None:
        """Find out what fixes would give, once the diagnosis is on the screen."""

        def work(progress: Progress) -> Plan:
            from rules.fixes.plan import make_plan, plan_of

            if plan_of.kept(analysis) is None:
                plan_of.keep(analysis, make_plan(analysis, progress))
            return plan_of(analysis)

        def answer(plan: Plan) -> None:
            if self.analysis is analysis:
                self.plan = plan
                self.plan_changed.emit(plan)

        self.jobs.ask(PREDICTING, work, answer)

    def _on_failure(self, error: Exception, paths: tuple[Path, ...]) -> None:
        self._back()
        if isinstance(error, SYSTEM_ERRORS):
            error = refused_by_system(error, paths[0])
        if not isinstance(error, TraceError):
            raise error
        name = error.path.name
        problem = error.problem if name in error.problem else f"{name}: {error.problem}"
        self.failed.emit(problem, error.hint)

    def _on_analysis_failure(self, error: Exception) -> None:
        self._ready()
        why = error.problem if isinstance(error, TraceError) else f"{type(error).__name__}: {error}"
        self.failed.emit("The analysis failed; the timeline is complete.", why)
        if not isinstance(error, TraceError):
            raise error
