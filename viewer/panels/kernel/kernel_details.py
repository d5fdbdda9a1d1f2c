"""Everything about one profiled launch: its limits, what its warps wait for, memory, checks, and all metrics."""

from __future__ import annotations

from collections.abc import Callable
from operator import methodcaller

from PySide6.QtGui import QColor, QFont
from PySide6.QtWidgets import QGridLayout, QHBoxLayout, QScrollArea, QTabWidget, QVBoxLayout, QWidget

from parsers.model import KernelProfile
from parsers.model.names.kernels import kernel_name
from parsers.model.units import capital, duration, percent, three_digits
from rules.analysis.idle.causes import Cause
from rules.kernels.checks.compute import instruction_pipes, pipes
from rules.kernels.checks.every import evaluate
from rules.kernels.checks.explanations import report_sections, stall_reasons
from rules.kernels.checks.occupancy import ACHIEVED, LIMITERS, THEORETICAL, limiters, occupancy_verdict
from rules.kernels.checks.speed_of_light import VERDICTS, speed_of_light
from rules.kernels.checks.stalls import LARGE_STALL_SHARE, Stall, label_of, stalls
from viewer.appearance import theme
from viewer.appearance.widgets import (
    NO_MARGINS,
    SPRING,
    ElidedLabel,
    Label,
    empty_out,
    fill,
    horizontal,
    scrolling,
    vertical,
)
from viewer.panels.charts.bar_chart import Bar, BarChart
from viewer.panels.charts.memory_flow import MemoryDiagram
from viewer.panels.kernel.kernel_tables import MetricTable, SourceTable
from viewer.panels.kernel.occupancy_curves import OccupancyCurves
from viewer.statistics.kernel_report import memory_flow

MIN_STALL_SHARE = 0.0005
HARMLESS = frozenset({"selected", "not_selected"})


class KernelDetails(QWidget):
    """Tabs about one launch."""

    def __init__(self) -> None:
        super().__init__()
        self.kernel: KernelProfile | None = None
        self.title = ElidedLabel("", pixels=14, weight=QFont.Weight.DemiBold)
        self.subtitle = ElidedLabel("", "secondary", pixels=12)
        self.tabs = QTabWidget()
        self.tabs.setDocumentMode(True)
        self.tabs.tabBar().setAccessibleName("Details")
        self.tabs.addTab(self._overview(), "Overview")
        self.tabs.addTab(self._waits(), "What warps wait for")
        self._checks = QScrollArea()
        self._checks.setWidgetResizable(True)
        self._checks.setAccessibleName("Checks")
        self._checks.setFrameShape(QScrollArea.Shape.NoFrame)
        self.tabs.addTab(self._checks, "Checks")
        self.occupancies = OccupancyCurves()
        self.tabs.addTab(self.occupancies, "Occupancy")
        self.source = SourceTable()
        self.tabs.addTab(self.source, "Source")
        self.metrics = MetricTable()
        self.tabs.addTab(self.metrics, "All metrics")
        layout = vertical(self, NO_MARGINS, 0)
        head = fill(vertical(margins=(14, 8, 14, 4), spacing=1), self.title, self.subtitle)
        fill(layout, head, (self.tabs, 1))

    def _overview(self) -> QWidget:
        self.light = BarChart("Speed of light")
        self.occupancy = BarChart("Occupancy")
        self.pipes = BarChart("Pipes")
        self._verdict = Label("", "secondary", wrap=True)
        self._occupancy_text = Label("", "secondary", wrap=True, pixels=12)
        self._launch = QGridLayout()
        self._launch.setHorizontalSpacing(14)
        self._launch.setVerticalSpacing(3)
        self._launch.setColumnStretch(1, 1)
        self.memory = MemoryDiagram()
        left, right = QVBoxLayout(), QVBoxLayout()
        for column in (left, right):
            column.setSpacing(6)
        left.addWidget(_heading("Speed of light", "SpeedOfLight"))
        left.addWidget(self.light)
        left.addWidget(self._verdict)
        self._of_memory = _heading("Memory", "MemoryWorkloadAnalysis")
        left.addWidget(self._of_memory)
        left.addWidget(self.memory)
        left.addStretch(1)
        right.addWidget(_heading("Occupancy", "Occupancy"))
        right.addWidget(self.occupancy)
        right.addWidget(self._occupancy_text)
        self._of_pipes = _heading("Busiest pipes", "ComputeWorkloadAnalysis")
        right.addWidget(self._of_pipes)
        right.addWidget(self.pipes)
        right.addWidget(_heading("Launch", "LaunchStats"))
        right.addLayout(self._launch)
        right.addStretch(1)
        return _beside(left, 3, right, 2)

    def _waits(self) -> QWidget:
        self.stalls = BarChart("Stall reasons", selectable=True)
        self.stalls.chosen.connect(self._explain_stall)
        self._stall_name = Label("", weight=QFont.Weight.DemiBold, pixels=14)
        self._stall_text = vertical(spacing=6)
        left, right = QVBoxLayout(), QVBoxLayout()
        note = Label(
            "Cycles between two instructions of a warp, by what it waited for", "secondary", wrap=True
        )
        left.addWidget(note)
        left.addWidget(self.stalls)
        left.addStretch(1)
        right.setSpacing(6)
        right.addWidget(self._stall_name)
        right.addLayout(self._stall_text)
        right.addStretch(1)
        return _beside(left, 1, right, 1)

    def show_kernel(self, kernel: KernelProfile) -> None:
        self.kernel = kernel
        sol = speed_of_light(kernel)
        verdict = VERDICTS[sol.bound] if sol is not None else ""
        self.title.setText(f"{kernel_name(kernel.name)}{': ' if verdict else ''}{verdict}")
        self.title.setToolTip("")
        time = kernel.duration_ns
        facts = [f"launch {kernel.id}", duration(time) if time else "", kernel.device_name or ""]
        self.subtitle.setText(", ".join(fact for fact in facts if fact))
        self._show_limits(kernel)
        self._show_launch(kernel)
        self._show_stalls(kernel)
        self._show_checks(kernel)
        self.occupancies.show_kernel(kernel)
        self.source.show_kernel(kernel)
        self.metrics.show_kernel(kernel)

    def _show_limits(self, kernel: KernelProfile) -> None:
        sol = speed_of_light(kernel)
        flow = memory_flow(kernel)
        bars = []
        if sol is not None:
            bars = [
                Bar(title.lower(), title, share, percent(share), color=methodcaller("family", family))
                for title, share, family in (
                    ("Compute", sol.compute / 100, "gemm"),
                    ("Memory", sol.memory / 100, "copies"),
                )
            ]
            for level in flow.levels[1:]:
                if level.busy_percent is not None:
                    share, text = level.busy_percent / 100, percent(level.busy_percent / 100)
                    bars.append(
                        Bar(
                            level.name, f"   {level.name}", share, text, color=methodcaller("family", "other")
                        )
                    )
        self.light.show_bars(bars)
        first = next((each.text for each in evaluate(kernel) if each.rule == "SOLBottleneck"), "")
        self._verdict.setText(first or "The report has no speed-of-light section.")
        self.memory.show_flow(flow if flow.measured else None)
        self._of_memory.setVisible(flow.measured)
        self.memory.setVisible(flow.measured)
        used = [pipe for pipe in [*pipes(kernel), *instruction_pipes(kernel)] if pipe.percent >= 0.5]
        used.sort(key=lambda pipe: -pipe.percent)
        self._of_pipes.setVisible(bool(used))
        self.pipes.setVisible(bool(used))
        self.pipes.show_bars(
            [Bar(pipe.name, pipe.shown, pipe.percent / 100, f"{pipe.percent:.0f} %") for pipe in used[:5]]
        )

    def _show_launch(self, kernel: KernelProfile) -> None:
        theoretical, achieved = kernel.number(THEORETICAL), kernel.number(ACHIEVED)
        bars = []
        if achieved is not None:
            mark = theoretical / 100 if theoretical is not None else -1.0
            tip = "The mark shows what the launch allows"
            bars.append(Bar("achieved", "Achieved", achieved / 100, f"{achieved:.0f} %", tip, mark=mark))
        if theoretical is not None:
            bars.append(Bar("theoretical", "Theoretical", theoretical / 100, f"{theoretical:.0f} %"))
        self.occupancy.show_bars(bars)
        self._occupancy_text.setText(occupancy_verdict(kernel).text)
        empty_out(self._launch)
        for row, (label, text) in enumerate(launch_facts(kernel)):
            self._launch.addWidget(Label(label, "secondary", pixels=12), row, 0)
            self._launch.addWidget(Label(text, pixels=12, wrap=True), row, 1)

    def _show_stalls(self, kernel: KernelProfile) -> None:
        found = [stall for stall in stalls(kernel) if stall.share >= MIN_STALL_SHARE]
        bars = [
            Bar(
                stall.reason,
                label_of(stall.reason),
                stall.share,
                percent(stall.share),
                f"{three_digits(stall.cycles)} cycles per instruction",
                _stall_color(stall),
            )
            for stall in found
        ]
        first = next((stall for stall in found if stall.reason not in HARMLESS), None)
        self.stalls.show_bars(bars, first.reason if first is not None else "")
        self._explain_stall(first.reason if first is not None else "")

    def _explain_stall(self, reason: str) -> None:
        empty_out(self._stall_text)
        explanation = stall_reasons().get(reason)
        self._stall_name.setText(capital(label_of(reason)) if reason else "")
        if explanation is None:
            text = "No explanation." if reason else "The report does not say what warps wait for."
            self._stall_text.addWidget(Label(text, "secondary", wrap=True))
            return
        for heading, text in (
            ("", explanation.meaning),
            ("Why it costs time", explanation.cost),
            ("What usually helps", explanation.fix),
            ("When it does not matter", explanation.harmless),
        ):
            if heading:
                self._stall_text.addWidget(Label(heading, weight=QFont.Weight.DemiBold, pixels=12))
            self._stall_text.addWidget(Label(text, "secondary", wrap=True, selectable=True))

    def _show_checks(self, kernel: KernelProfile) -> None:
        body = QWidget()
        column = vertical(body, (14, 10, 14, 10), 8)
        results = sorted(evaluate(kernel), key=lambda each: (not each.fired, -(each.speedup_percent or 0.0)))
        for result in results:
            section = report_sections().get(result.section)
            title = section.label if section is not None else result.section
            gain = ""
            if result.fired and result.speedup_percent:
                scope = "of the kernel" if result.speedup_is_global else "of this part"
                gain = f"up to {result.speedup_percent:.0f} % {scope}"
            top = QHBoxLayout()
            mark = "●" if result.fired else "○"
            fill(
                top,
                Label(
                    f"{mark}  {title}", weight=QFont.Weight.DemiBold if result.fired else QFont.Weight.Normal
                ),
                SPRING,
                Label(gain, "secondary", pixels=12),
            )
            column.addLayout(top)
            text = Label(result.text, "secondary" if result.fired else "faint", wrap=True, selectable=True)
            text.setContentsMargins(18, 0, 0, 4)
            column.addWidget(text)
        if not results:
            column.addWidget(Label("The report has too few metrics for any check.", "secondary"))
        column.addStretch(1)
        self._checks.setWidget(body)


def launch_facts(kernel: KernelProfile) -> list[tuple[str, str]]:
    """Grid, block, registers, shared memory, waves, and what limits the blocks on an SM."""

    def number(metric: str, unit: str = "") -> str:
        value = kernel.number(metric)
        return "" if value is None else f"{_count(value)}{unit}"

    def bytes_of(metric: str) -> str:
        value = kernel.number(metric)
        return "" if value is None else f"{value / 1024:.3g} KiB"

    grid, block = ("  ×  ".join(f"{each:,}" for each in shape) for shape in (kernel.grid, kernel.block))
    limits = ", ".join(
        f"{name} {_count(value)}"
        for metric, name in LIMITERS.items()
        if (value := kernel.number(metric)) is not None
    )
    facts = [
        ("Grid", grid),
        ("Block", block),
        ("Waves per SM", number("launch__waves_per_multiprocessor")),
        ("Registers", number("launch__registers_per_thread", " per thread")),
        ("Shared memory", bytes_of("launch__shared_mem_per_block")),
        ("Occupancy limited by", ", ".join(limiters(kernel))),
        ("Blocks per SM", limits),
    ]
    return [(label, text) for label, text in facts if text]


def _count(value: float) -> str:
    return f"{value:,.0f}" if float(value).is_integer() else three_digits(value)


def _heading(text: str, section: str) -> Label:
    label = Label(text, weight=QFont.Weight.DemiBold)
    explanation = report_sections().get(section)
    if explanation is not None:
        label.setToolTip(f"{explanation.meaning} {explanation.cost}")
    label.setContentsMargins(0, 4, 0, 0)
    return label


def _beside(left: QVBoxLayout, width: int, right: QVBoxLayout, other: int) -> QScrollArea:
    """Two columns that share the room in proportion to these widths."""
    body = QWidget()
    fill(horizontal(body, (14, 10, 14, 10), 28), (left, width), (right, other))
    return scrolling(body)


def _stall_color(stall: Stall) -> Callable[[theme.Theme], QColor] | None:
    if stall.reason in HARMLESS:
        return methodcaller("family", "other")
    return methodcaller("cause", Cause.HOST) if stall.share > LARGE_STALL_SHARE else None
