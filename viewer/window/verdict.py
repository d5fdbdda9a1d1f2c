"""The verdict strip: one plain sentence, where and how much at most, and the budget of each device below it."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
from PySide6.QtCore import Signal
from PySide6.QtWidgets import QGridLayout, QSizePolicy, QWidget

from parsers.model import Trace
from parsers.model.names.devices import short_device_name
from parsers.model.units import duration, percent
from rules.analysis.idle.causes import Cause
from rules.analysis.names.families import Family
from viewer.appearance import theme
from viewer.appearance.headline import Headline
from viewer.appearance.widgets import Label, scrolling, vertical
from viewer.documents.document import Document, Stage
from viewer.documents.what_if import AWAITED
from viewer.panels.charts.budget_bar import BarKey, BudgetBar, Part
from viewer.timeline.overview import Glow

if TYPE_CHECKING:
    from rules.analysis.analysis import Analysis
    from rules.analysis.idle.causes import IdleTable
    from rules.diagnosis import Diagnosis
    from rules.findings.base import Finding
    from rules.fixes.step_time import StepTime
    from rules.summaries.run import ManyRanks

MAX_ROWS_SHOWN = 4
LARGE = 0.2  # of a recorded step: what the recorder takes is told as well


class VerdictStrip(QWidget):
    """What is slow, where, and how much fixing it can give; listens to a document."""

    pointed_at = Signal(object)  # Glow, or None

    def __init__(self, document: Document, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._document = document
        self._price: float | None = None
        self.setObjectName("verdict")
        self.setAutoFillBackground(True)
        self.headline = Headline()
        self.sentence, self.where = self.headline.sentence, self.headline.where
        self.sentence.clicked.connect(self._show_problem)
        self.headline.without_recorder.toggled.connect(lambda on: document.show_recorder(not on))
        self._bars_area = scrolling()
        self.bars: list[BudgetBar] = []
        self.key = BarKey()
        layout = vertical(self, (14, 9, 14, 9), 6)
        layout.addWidget(self.headline)
        layout.addWidget(self._bars_area)
        layout.addWidget(self.key)
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Minimum)
        document.stage_changed.connect(lambda _: self._say())
        document.diagnosis_changed.connect(lambda _: self._refresh())
        document.plan_changed.connect(lambda _: self._say())
        document.step_changed.connect(lambda _: self._refresh())
        document.recorder_changed.connect(lambda _: self._refresh())
        document.trace_changed.connect(lambda _: self._refresh())
        self._refresh()

    def set_price(self, price: float | None) -> None:
        """What one GPU costs for an hour: then the strip says what idle ones cost."""
        self._price = price
        self._say()

    def _refresh(self) -> None:
        self._say()
        self._fill_bars()

    def _say(self) -> None:
        document = self._document
        trace, analysis, diagnosis = document.trace, document.analysis, document.diagnosis
        self.setVisible(trace is not None)
        if trace is None:
            return
        say = self.headline.say
        if self._document.preview:
            say(
                f"Still reading: showing the first {len(trace.events):,} events",
                "The diagnosis follows once everything is read.",
            )
            return
        if analysis is None or diagnosis is None:
            failed = self._document.stage is Stage.READY
            say("Not analysed" if failed else "Analysing what the GPU waits for ...")
            return
        if document.many is not None:
            say(document.many.sentence.removesuffix("."))
            return
        from rules.analysis.gpu.cost import idle_cost, money
        from rules.verdict.verdict import beside_the_verdict, verdict

        cost = idle_cost(analysis, self._price) if self._price else None
        besides = beside_the_verdict(analysis, diagnosis)
        details = self._details(trace)
        say(
            verdict(analysis, self._told(diagnosis)).removesuffix("."),
            details,
            (
                (f"idle: {money(cost.money_per_hour)} an hour", cost.text) if cost is not None else ("", ""),
                self._recorder_pill(diagnosis),
                ("also", besides if besides != details else ""),
            ),
        )

    def _told(self, diagnosis: Diagnosis) -> Diagnosis:
        """The diagnosis with shares of the step that is shown."""
        return replace(diagnosis, findings=tuple(map(self._document.told, diagnosis.findings)))

    def _details(self, trace: Trace) -> str:
        from rules.analysis.recording.completeness import is_cut, lacks_a_part
        from rules.terms import CulpritKind
        from rules.verdict.promises import first_step, first_step_in_a_line, gain
        from rules.verdict.verdict import COPY_AGAIN, beside_the_verdict, first_problem, of_the_cpu_alone

        analysis, diagnosis = self._document.analysis, self._document.diagnosis
        if analysis is not None and diagnosis is not None and lacks_a_part(trace):
            return beside_the_verdict(analysis, diagnosis)
        if is_cut(trace) and not len(trace.gpu_operations):
            return COPY_AGAIN
        problem = first_problem(diagnosis) if diagnosis is not None else None
        if diagnosis is None or problem is None:
            window = self._document.window
            length = duration(window[1] - window[0])
            if trace.kernels and not len(trace.events):
                return "Here is what limits each of them."
            if diagnosis is not None and (of_the_cpu := of_the_cpu_alone(diagnosis)) is not None:
                return of_the_cpu.explanation
            if trace.is_of_results:
                return "Open them together with a recording of the same run to see where its time goes."
            if not len(trace.gpu_operations):
                return f"{length} without GPU work. Record it, or what the CPU runs, to see more."
            plan = self._document.plan
            sound = first_step(plan, diagnosis) if plan is not None and diagnosis is not None else ""
            return sound or f"{length} analysed. Here is what the GPU does with its time."
        parts = []
        is_named = problem.headline.names_culprit or problem.culprit.kind is CulpritKind.KERNEL
        if problem.culprit.name and not is_named:
            where = "Mostly: " if problem.culprit.kind is CulpritKind.REASON else "In "
            parts.append(f"{where}{problem.culprit.said}.")
        if problem.because:
            parts.append(problem.because)
        plan = self._document.plan
        if problem.of_recording:
            parts.append(f"The recording would take {gain(problem)}.")
        elif problem.kernel is not None and (most := gain(problem)):
            parts.append(f"{most[0].upper()}{most[1:]} if this alone were gone.")
        elif plan is not None:
            parts.append(first_step_in_a_line(plan, diagnosis))
        elif len(trace.links.operation):  # its line is kept free, so that nothing moves when it comes
            parts.append(AWAITED)
        return " ".join(filter(None, parts))

    def _recorder_pill(self, diagnosis: Diagnosis) -> tuple[str, str]:
        """Where the recorder takes much of a step, how much, and what the numbers are therefore of."""
        if (cpu := diagnosis.cpu_recorder_share) > LARGE:
            told = f"The profiler takes {percent(cpu)} of a recorded step; shares are without it."
            return f"profiler: {percent(cpu)} of a step", told
        times = diagnosis.step_times.values()
        most = max(times, key=lambda each: each.recorder_share, default=None)
        if most is not None and most.is_told and self._document.step >= 0:
            whole = "Headline and cards are of a typical step without it."
            return (
                "bar: as recorded",
                f"The bar is of the chosen step as recorded, with the profiler's share. {whole}",
            )
        if most is None or most.recorder_share <= LARGE:
            return "", ""
        basis = "gains" if self._document.with_recorder else "shares and gains"
        share, typical = percent(most.recorder_share), "" if most.is_mean else "typical "
        told = f"The profiler takes {share} of a {typical}recorded step; {basis} are without it."
        return f"profiler: {share} of a {typical}step", told

    def _show_problem(self) -> None:
        from rules.verdict.verdict import first_problem

        diagnosis = self._document.diagnosis
        problem = first_problem(diagnosis) if diagnosis is not None else None
        if problem is not None:
            self._document.select_finding(problem)

    def _fill_bars(self) -> None:
        analysis, trace = self._document.analysis, self._document.trace
        self.bars = []
        body = QWidget()
        grid = QGridLayout(body)
        grid.setContentsMargins(0, 0, 0, 0)
        grid.setHorizontalSpacing(10)
        grid.setVerticalSpacing(4)
        if analysis is not None and trace is not None and trace.devices:
            from rules.verdict.verdict import budget_parts

            t0, t1 = self._document.window
            active = [index for index in range(len(trace.devices)) if len(trace.operations_of_device(index))]
            budgets = [analysis.budget(index, t0, t1) for index in active]
            all_fit = len(budgets) <= MAX_ROWS_SHOWN
            if not all_fit:
                budgets.sort(key=lambda budget: -budget.total_idle_ns)
            thin = len(budgets) > 1
            if self._document.many is not None:
                run = self._document.many.facts.run
                mean = _mean_bar(run, analysis.idle)
                self.bars.append(mean)
                heading = Label(f"{len(run.rows):,} ranks", "secondary", pixels=theme.SECONDARY_PX)
                grid.addWidget(heading, 0, 0)
                grid.addWidget(mean, 0, 1)
            self._offer_recorder()
            for row, budget in enumerate(budgets, len(self.bars)):
                gaps = gaps_by_cause(analysis.idle, budget.device, t0, t1)
                parts = [
                    Part(key, label, ns, gaps.get(key, -1))
                    for key, label, ns in budget_parts(budget, analysis.idle)
                ]
                whole = budget.window_ns
                if (step := self._step_time(budget.device)) is not None:
                    parts, whole = self._parts_of_step(parts, step)
                elif self._document.step < 0 and (steps := analysis.steps_in_window):
                    parts = [replace(part, amount=round(part.amount / steps), a_step=True) for part in parts]
                    whole = round(whole / steps)
                bar = BudgetBar(budget.device, parts, whole, thin=thin)
                bar.chosen.connect(self._show_part)
                bar.pointed_at.connect(self._point_at)
                bar.explain_wanted.connect(self._explain_part)
                self.bars.append(bar)
                if thin:
                    name = Label(
                        short_device_name(trace, budget.device), "secondary", pixels=theme.SECONDARY_PX
                    )
                    name.setToolTip("" if all_fit else "Sorted by idle time, most idle first")
                    grid.addWidget(name, row, 0)
                grid.addWidget(bar, row, 1)
            for row, bar in enumerate([] if budgets else self._memory_bars(analysis), len(self.bars)):
                self.bars.append(bar)
                grid.addWidget(Label("at the peak", "secondary", pixels=theme.SECONDARY_PX), row, 0)
                grid.addWidget(bar, row, 1)
            grid.setColumnStretch(1, 1)
        self._bars_area.setWidget(body)
        shown = min(len(self.bars), MAX_ROWS_SHOWN)
        height = sum(
            max(bar.sizeHint().height(), 16 if len(self.bars) > 1 else 0) for bar in self.bars[:shown]
        )
        self._bars_area.setFixedHeight(height + 4 * max(shown - 1, 0))
        self._bars_area.setVisible(bool(self.bars))
        self.key.show_bars(self.bars)

    def _step_time(self, device: int) -> StepTime | None:
        """The typical step that all shares are of, where the recorder takes a part of it and no step is chosen."""
        diagnosis = self._document.diagnosis
        found = diagnosis.step_times.get(device) if diagnosis is not None else None
        chosen = self._document.step >= 0 or self._document.many is not None
        return found if found is not None and not chosen and found.is_told else None

    def _parts_of_step(self, parts: list[Part], step: StepTime) -> tuple[list[Part], int]:
        """The same parts in a step without the recorder; with it, what it takes is a part of its own."""
        shown = [replace(part, amount=round(step.parts.get(part.key, 0.0)), a_step=True) for part in parts]
        shown = [part for part in shown if part.amount]
        if not self._document.with_recorder:
            return shown, round(step.length_ns)
        recorder = Part("recorder", "profiler", round(step.recorder_ns), a_step=True)
        return [*shown, recorder], round(step.recorded_ns)

    def _offer_recorder(self) -> None:
        """The switch, where the recorder takes a part of a step that can be told."""
        devices = self._document.analysis.active_devices if self._document.analysis is not None else ()
        steps = [step for device in devices if (step := self._step_time(device)) is not None]
        button = self.headline.without_recorder
        button.setVisible(bool(steps))
        button.setChecked(not self._document.with_recorder)
        if steps:
            most = max(steps, key=lambda each: each.recorder_share)
            chance = f" Slow steps make the mean {duration(most.mean_ns)}." if not most.is_mean else ""
            button.setToolTip(
                f"The profiler takes {duration(most.recorder_ns)} ({percent(most.recorder_share)}) of a "
                f"{'' if most.is_mean else 'typical '}recorded step of {duration(most.recorded_ns)}.{chance} "
                "Switch off to see it as a part of its own."
            )

    def _memory_bars(self, analysis: Analysis) -> list[BudgetBar]:
        """What fills the GPUs of a recording that holds memory alone."""
        from rules.memory.summary import memory_of

        bars = []
        for summary in memory_of(analysis) if self._document.diagnosis is not None else ():
            if summary.account is not None:
                held = summary.account.by_kind(summary.peak_at)
                parts = [Part(kind.name, kind.value, amount, memory=kind) for kind, amount in held.items()]
                bars.append(BudgetBar(summary.device, parts, summary.peak_allocated))
                bars[-1].chosen.connect(lambda *_: self._document.visit_peak())
        return bars

    def _show_part(self, device: int, key: str, label: str) -> None:
        """Fly to the place that counts most for a part, and make the finding about it the current one."""
        from viewer.statistics.budget_intervals import foremost, places_of

        analysis, diagnosis = self._document.analysis, self._document.diagnosis
        if analysis is not None:
            t0, t1 = self._document.window
            about = finding_about(diagnosis, key) if diagnosis is not None else None
            if about is not None:
                self._document.return_to_finding(about)
            places = places_of(analysis, device, key, label, t0, t1)
            self._document.show_evidence(places, foremost(places))

    def _explain_part(self, device: int, key: str, label: str) -> None:
        """What a part of the bar adds up; the recorder and the rest are no rows of a table."""
        from viewer.query.explained import is_explained, part_behind

        analysis = self._document.analysis
        if analysis is not None and is_explained(key):
            behind = part_behind(analysis, device, key, label, self._document.window)
            self._document.question_wanted.emit(behind.question)

    def _point_at(self, device: int, part: Part | None) -> None:
        """Let the overview show where a part lies while the mouse is on it."""
        from viewer.statistics.budget_intervals import intervals_of

        analysis = self._document.analysis
        if part is None or analysis is None or device < 0 or part.memory is not None:
            self.pointed_at.emit(None)
            return
        start, end = intervals_of(analysis, device, part.key, *self._document.window)
        count, place = (part.count, "gap") if part.count >= 0 else (len(start), "stretch")
        many = f"{count:,} {place}{'' if count == 1 else 's' if place == 'gap' else 'es'}"
        recorded = " in all, as recorded" if part.a_step else ""
        told = f"{part.label}: {many}, {duration(int((end - start).sum()))}{recorded}"
        self.pointed_at.emit(Glow(start, end, part.key, told))


def finding_about(diagnosis: Diagnosis, key: str) -> Finding | None:
    """The first finding about a part of the budget, by its key."""
    family = {"communication": Family.COLLECTIVE, "copy": Family.COPY}.get(key)
    for finding in diagnosis.findings:
        about = finding.category.about
        if (isinstance(about, Cause) and about.key == key) or (family is not None and about is family):
            return finding
    return None


def _mean_bar(run: ManyRanks, idle: IdleTable) -> BudgetBar:
    """Where the time of all ranks of a run goes, as their mean."""
    from rules.verdict.verdict import budget_parts

    budgets = [run.budget(row) for row in range(len(run.rows))]
    total: dict[tuple[str, str], int] = {}
    for budget in budgets:
        for key, label, ns in budget_parts(budget, idle):
            total[key, label] = total.get((key, label), 0) + ns
    count = max(len(budgets), 1)
    parts = [Part(key, label, ns // count) for (key, label), ns in total.items() if ns // count]
    return BudgetBar(-1, parts, run.window_ns, thin=True)


def gaps_by_cause(idle: IdleTable, device: int, t0: int, t1: int) -> dict[str, int]:
    """How many idle intervals of a device touch [t0, t1), by the key of their cause."""
    first, last = np.searchsorted(idle.device, (device, device + 1)).tolist()
    low = first + int(np.searchsorted(idle.end[first:last], t0, side="right"))
    high = first + int(np.searchsorted(idle.start[first:last], t1, side="left"))
    counts = np.bincount(idle.cause[low : max(low, high)], minlength=len(Cause)).tolist()
    return {cause.key: counts[cause] for cause in Cause}
