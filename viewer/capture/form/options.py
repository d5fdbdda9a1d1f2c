"""The part of the capture dialog that says how to record: the tool, which steps, and the extras of each tool."""

from __future__ import annotations

from dataclasses import replace

from PySide6.QtCore import Qt, Signal
from PySide6.QtGui import QPalette
from PySide6.QtWidgets import (
    QButtonGroup,
    QCheckBox,
    QComboBox,
    QDoubleSpinBox,
    QLineEdit,
    QSizePolicy,
    QSpinBox,
    QStackedWidget,
    QToolButton,
    QWidget,
)

from viewer.appearance import theme
from viewer.appearance.widgets import NO_MARGINS, Form, Label, beside, fill, horizontal, tooltip, vertical
from viewer.capture.request import CaptureRequest, NcuOptions, NsysOptions, Tool, TorchOptions, Window
from viewer.capture.tools import ToolFound


def number(least: int, most: int) -> QSpinBox:
    """A whole number within bounds."""
    spin = QSpinBox()
    spin.setRange(least, most)
    spin.setFixedWidth(72)
    spin.setAlignment(Qt.AlignmentFlag.AlignHCenter)
    return spin


def seconds(least: float, most: float) -> QDoubleSpinBox:
    """Whole seconds within bounds."""
    spin = QDoubleSpinBox()
    spin.setRange(least, most)
    spin.setDecimals(0)
    spin.setSuffix(" s")
    spin.setFixedWidth(80)
    spin.setAlignment(Qt.AlignmentFlag.AlignHCenter)
    return spin


MAX_STEPS = 1000


class AttachingForm(QWidget):
    """Fields for the steps, their repetitions and the wait; ``changed`` on every edit."""

    changed = Signal()

    def __init__(self) -> None:
        super().__init__()
        self._base = Window()
        self.steps = number(1, MAX_STEPS)
        self.times = number(1, MAX_STEPS)
        self.wait = seconds(1, 86_400)
        form = Form(self)
        form.add("Steps", self.steps, Label("in each of"), self.times, Label("recordings"))
        form.add("Wait at most", self.wait, Label("for the program to answer", "secondary"))
        for spin in (self.steps, self.times, self.wait):
            spin.valueChanged.connect(self.changed)
        self.show_request(CaptureRequest())

    def apply_to(self, request: CaptureRequest) -> CaptureRequest:
        """The request with this form's options; only the PyTorch profiler can be asked from outside."""
        window = replace(
            self._base, active=self.steps.value(), repeat=self.times.value(), time_limit_s=self.wait.value()
        )
        return replace(request, tool=Tool.TORCH, window=window)

    def show_request(self, request: CaptureRequest) -> None:
        self._base = request.window
        self.steps.setValue(request.window.active)
        self.times.setValue(request.window.repeat)
        self.wait.setValue(request.window.time_limit_s)


ABOUT = {
    Tool.TORCH: "Every operator and kernel of a few steps, and the Python that launched them. Needs only torch.",
    Tool.NSYS: "Kernels, copies and CUDA calls of the whole process, with the least overhead.",
    Tool.NCU: "Hardware counters of single kernels: why one kernel is slow. Replays each kernel many times.",
}
STEPS = {
    "detected automatically": "auto",
    "optimizer steps": "optimizer",
    "DataLoader batches": "dataloader",
    "calls of the model": "forward",
    "backward passes": "backward",
    "a named region": "region",
    "none: the whole run": "whole",
}
RANGES = {
    "the steps below": "steps",
    "a time": "time",
    "an NVTX range": "nvtx",
    "cudaProfilerStart in the program": "api",
}
SETS = {"basic": "basic", "detailed": "detailed", "roofline": "roofline", "full (slow)": "full"}


class OptionsForm(QWidget):
    """Fields for the tool and its options; ``changed`` on every edit."""

    changed = Signal()

    def __init__(self) -> None:
        super().__init__()
        self._base = CaptureRequest()
        self.tools = QButtonGroup(self)
        self.note = Label("", "secondary", wrap=True)
        self._pages = QStackedWidget()
        self._found: dict[Tool, ToolFound] = {}
        self._make_torch()
        self._make_nsys()
        self._make_ncu()
        self._make_window()
        self._lay_out()
        self.show_request(CaptureRequest())

    @property
    def tool(self) -> Tool:
        return list(Tool)[max(self.tools.checkedId(), 0)]

    def apply_to(self, request: CaptureRequest) -> CaptureRequest:
        """The request with this form's options; what the form does not show stays as it was."""
        window = replace(
            self._base.window,
            steps=list(STEPS.values())[self.steps.currentIndex()],
            region=self.region.text().strip(),
            skip_first=self.skip_first.value(),
            warmup=self.warmup.value(),
            active=self.active.value(),
            time_limit_s=self.time_limit.value(),
            delay_s=self.delay.value(),
            phases=self.phases.isChecked(),
            modules=self.modules.isChecked(),
            keep_running=self.keep_running.isChecked(),
        )
        traces = tuple(word.strip() for word in self.traces.text().split(",") if word.strip())
        return replace(
            request,
            tool=self.tool,
            window=window,
            torch=TorchOptions(self.shapes.isChecked(), self.stacks.isChecked(), self.memory.isChecked()),
            nsys=NsysOptions(
                traces,
                list(RANGES.values())[self.nsys_range.currentIndex()],
                self.duration.value(),
                self.nvtx_range.text().strip(),
                "node" if self.graph_nodes.isChecked() else "graph",
                self.python_sampling.isChecked(),
                self.gpu_metrics.isChecked(),
            ),
            ncu=NcuOptions(
                list(SETS.values())[self.section_set.currentIndex()],
                self.kernel_name.text().strip(),
                self._base.ncu.kernel_name_base,
                self.launch_skip.value(),
                self.launch_count.value(),
                self.keep_clocks.isChecked(),
                "steps" if self.ncu_steps.isChecked() else "whole",
                self._base.ncu.source,
            ),
        )

    def show_request(self, request: CaptureRequest) -> None:
        self._base = request
        window, nsys, ncu, torch = request.window, request.nsys, request.ncu, request.torch
        self.tools.button(list(Tool).index(request.tool)).setChecked(True)
        self.steps.setCurrentIndex(_index(STEPS, window.steps))
        self.region.setText(window.region)
        for spin, value in (
            (self.skip_first, window.skip_first),
            (self.warmup, window.warmup),
            (self.active, window.active),
        ):
            spin.setValue(value)
        self.time_limit.setValue(window.time_limit_s)
        self.delay.setValue(window.delay_s)
        self.shapes.setChecked(torch.shapes)
        self.stacks.setChecked(torch.stacks)
        self.memory.setChecked(torch.memory)
        self.phases.setChecked(window.phases)
        self.modules.setChecked(window.modules)
        self.keep_running.setChecked(window.keep_running)
        self.traces.setText(",".join(nsys.traces))
        self.nsys_range.setCurrentIndex(_index(RANGES, nsys.range))
        self.duration.setValue(nsys.duration_s)
        self.nvtx_range.setText(nsys.nvtx_range)
        self.graph_nodes.setChecked(nsys.graph_mode == "node")
        self.python_sampling.setChecked(nsys.python_sampling)
        self.gpu_metrics.setChecked(nsys.gpu_metrics)
        self.section_set.setCurrentIndex(_index(SETS, ncu.section_set))
        self.kernel_name.setText(ncu.kernel_name)
        self.launch_skip.setValue(ncu.launch_skip)
        self.launch_count.setValue(ncu.launch_count)
        self.keep_clocks.setChecked(ncu.keep_clocks)
        self.ncu_steps.setChecked(ncu.range == "steps")
        self._follow()

    def show_tools(self, found: dict[Tool, ToolFound]) -> None:
        self._found = found
        self._follow()

    def _make_torch(self) -> None:
        self.shapes = self._check("Shapes", "input shapes of every operator: needed to judge matrix sizes")
        self.stacks = self._check("Stacks", "Python stacks: says which line; slows Python down")
        self.memory = self._check("Memory", "every allocation and a snapshot: slower steps, larger files")
        page = QWidget()
        Form(page).add("Also record", self.shapes, self.stacks, self.memory)
        self._pages.addWidget(page)

    def _make_nsys(self) -> None:
        self.nsys_range = self._combo(list(RANGES))
        self.duration = seconds(1, 3600)
        self.duration.valueChanged.connect(self._edited)
        self.nvtx_range = self._line("message@domain")
        self.traces = self._line("cuda,nvtx")
        self.graph_nodes = self._check(
            "CUDA graphs node by node", "shows the kernels inside a graph; slows graphs down"
        )
        self.python_sampling = self._check("Python sampling", "which Python code runs while the GPU waits")
        self.gpu_metrics = self._check("GPU metrics", "needs the permission to read hardware counters")
        page = QWidget()
        form = Form(page)
        form.add("Record", self.nsys_range, self.duration, self.nvtx_range)
        form.add("Trace", self.traces)
        form.add("Also record", self.graph_nodes, self.python_sampling, self.gpu_metrics)
        self._pages.addWidget(page)

    def _make_ncu(self) -> None:
        self.section_set = self._combo(list(SETS))
        self.kernel_name = self._line("any kernel; a function name, or regex:EXPRESSION")
        self.launch_skip = self._spin(0, 1_000_000)
        self.launch_count = self._spin(0, 100_000)
        self.launch_count.setSpecialValueText("all")
        self.keep_clocks = self._check("Don't lock the clocks", "times as in production, but less steady")
        self.ncu_steps = self._check("Only in the recorded steps", "skips the warm-up; needs a Python script")
        page = QWidget()
        form = Form(page)
        form.add("Kernel", self.kernel_name)
        form.add(
            "Launches",
            Label("skip"),
            self.launch_skip,
            Label("profile"),
            self.launch_count,
            Label("set"),
            self.section_set,
        )
        form.add("", self.ncu_steps, self.keep_clocks)
        self._pages.addWidget(page)

    def _make_window(self) -> None:
        self.steps = self._combo(list(STEPS))
        self.region = self._line("name of the region that begins a step")
        self.skip_first, self.warmup, self.active = (
            self._spin(0, 1_000_000),
            self._spin(0, 10_000),
            self._spin(1, 100_000),
        )
        self.time_limit = seconds(1, 3600)
        self.delay = seconds(0, 86_400)
        for spin in (self.time_limit, self.delay):
            spin.valueChanged.connect(self._edited)
        self.phases = self._check("Name the phases", "ranges for data, forward, backward and optimizer")
        self.modules = self._check(
            "Name every module", "a range for each module call: more detail, more overhead"
        )
        self.keep_running = self._check(
            "Keep the script running", "after recording ends; otherwise it is stopped"
        )

    def _lay_out(self) -> None:
        column = vertical(self, NO_MARGINS, 8)
        buttons = horizontal(spacing=8)
        for position, tool in enumerate(Tool):
            button = QToolButton()
            button.setText(tool.title)
            button.setCheckable(True)
            button.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)
            self.tools.addButton(button, position)
            buttons.addWidget(button, 1)
        self.tools.idToggled.connect(lambda _, on: self._edited() if on else None)
        fill(column, buttons, self.note, self._pages)
        form = Form()
        self._step_counts = beside(
            Label("skip"),
            self.skip_first,
            Label("warm up"),
            self.warmup,
            Label("record"),
            self.active,
            Label("steps"),
        )
        self._whole_times = beside(Label("start after"), self.delay)
        form.add("Steps", self.steps, self.region, self._step_counts, self._whole_times)
        form.add("At most", self.time_limit, Label("of recording", "secondary"))
        form.add("Script", self.phases, self.modules, self.keep_running)
        column.addLayout(form)

    def _follow(self) -> None:
        """Show what belongs to the choices made."""
        tool, steps = self.tool, list(STEPS.values())[self.steps.currentIndex()]
        self._pages.setCurrentIndex(list(Tool).index(tool))
        page = self._pages.currentWidget()
        if page is not None:
            self._pages.setFixedHeight(page.sizeHint().height())
        self.region.setVisible(steps == "region")
        self._step_counts.setVisible(steps != "whole")
        self._whole_times.setVisible(steps == "whole")
        span = list(RANGES.values())[self.nsys_range.currentIndex()]
        self.duration.setVisible(span == "time")
        self.nvtx_range.setVisible(span == "nvtx")
        found = self._found.get(tool)
        text = ABOUT[tool]
        if found is not None:
            text += (
                f" {found.problem} {found.fix}"
                if found.problem
                else f" Found: {found.path}, {found.version_text}."
            )
        self.note.setText(text)

    def _edited(self) -> None:
        self._follow()
        self.changed.emit()

    def _check(self, text: str, hint: str) -> QCheckBox:
        box = QCheckBox(text)
        box.setToolTip(tooltip(hint))
        outline = box.palette()
        outline.setColor(QPalette.ColorRole.Window, theme.current().text_secondary)
        box.setPalette(outline)
        box.toggled.connect(self._edited)
        return box

    def _combo(self, items: list[str]) -> QComboBox:
        combo = QComboBox()
        combo.addItems(items)
        combo.currentIndexChanged.connect(self._edited)
        return combo

    def _line(self, placeholder: str) -> QLineEdit:
        line = QLineEdit()
        line.setPlaceholderText(placeholder)
        line.textChanged.connect(self._edited)
        return line

    def _spin(self, least: int, most: int) -> QSpinBox:
        spin = number(least, most)
        spin.valueChanged.connect(self._edited)
        return spin


def _index(table: dict[str, str], value: str) -> int:
    values = list(table.values())
    return values.index(value) if value in values else 0
