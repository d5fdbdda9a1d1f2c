"""The part of the capture dialog that says how to record: the tool, which steps, and the extras of each tool."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any, TypeVar

from PySide6.QtCore import Qt, Signal, SignalInstance
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

Part = TypeVar("Part", Window, TorchOptions, NsysOptions, NcuOptions)
Spin = TypeVar("Spin", QSpinBox, QDoubleSpinBox)


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
        # by the part of a request and the name of an option: what its field says, and how to show a value in it
        self._fields: dict[type, dict[str, tuple[Callable[[], Any], Callable[[Any], None]]]] = {}
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
        return replace(
            request,
            tool=self.tool,
            window=self._read(self._base.window),
            torch=self._read(self._base.torch),
            nsys=self._read(self._base.nsys),
            ncu=self._read(self._base.ncu),
        )

    def _read(self, part: Part) -> Part:
        return replace(part, **{name: value() for name, (value, _) in self._fields[type(part)].items()})

    def show_request(self, request: CaptureRequest) -> None:
        self._base = request
        self.tools.button(list(Tool).index(request.tool)).setChecked(True)
        for part in (request.window, request.torch, request.nsys, request.ncu):
            for name, (_, show) in self._fields[type(part)].items():
                show(getattr(part, name))
        self._follow()

    def show_tools(self, found: dict[Tool, ToolFound]) -> None:
        self._found = found
        self._follow()

    def _make_torch(self) -> None:
        check = partial(self._check, TorchOptions)
        self.shapes = check(
            "shapes", "Shapes", "input shapes of every operator: needed to judge matrix sizes"
        )
        self.stacks = check("stacks", "Stacks", "Python stacks: says which line; slows Python down")
        memory = check("memory", "Memory", "every allocation and a snapshot: slower steps, larger files")
        page = QWidget()
        Form(page).add("Also record", self.shapes, self.stacks, memory)
        self._pages.addWidget(page)

    def _make_nsys(self) -> None:
        check = partial(self._check, NsysOptions)
        self.nsys_range = self._combo(NsysOptions, "range", RANGES)
        self.duration = self._spin(NsysOptions, "duration_s", seconds(1, 3600))
        self.nvtx_range = self._line(NsysOptions, "nvtx_range", "message@domain")
        traces = self._line(NsysOptions, "traces", "cuda,nvtx")
        self._fields[NsysOptions]["traces"] = (
            lambda: tuple(word.strip() for word in traces.text().split(",") if word.strip()),
            lambda names: traces.setText(",".join(names)),
        )
        page = QWidget()
        form = Form(page)
        form.add("Record", self.nsys_range, self.duration, self.nvtx_range)
        form.add("Trace", traces)
        form.add(
            "Also record",
            check(
                "graph_mode",
                "CUDA graphs node by node",
                "shows the kernels inside a graph; slows graphs down",
                "node",
                "graph",
            ),
            check("python_sampling", "Python sampling", "which Python code runs while the GPU waits"),
            check("gpu_metrics", "GPU metrics", "needs the permission to read hardware counters"),
        )
        self._pages.addWidget(page)

    def _make_ncu(self) -> None:
        check, spin = partial(self._check, NcuOptions), partial(self._spin, NcuOptions)
        self.section_set = self._combo(NcuOptions, "section_set", SETS)
        count = spin("launch_count", number(0, 100_000))
        count.setSpecialValueText("all")
        page = QWidget()
        form = Form(page)
        name = self._line(NcuOptions, "kernel_name", "any kernel; a function name, or regex:EXPRESSION")
        form.add("Kernel", name)
        skip = spin("launch_skip", number(0, 1_000_000))
        form.add("Launches", Label("skip"), skip, Label("profile"), count, Label("set"), self.section_set)
        form.add(
            "",
            check(
                "range",
                "Only in the recorded steps",
                "skips the warm-up; needs a Python script",
                "steps",
                "whole",
            ),
            check("keep_clocks", "Don't lock the clocks", "times as in production, but less steady"),
        )
        self._pages.addWidget(page)

    def _make_window(self) -> None:
        check, spin = partial(self._check, Window), partial(self._spin, Window)
        self.steps = self._combo(Window, "steps", STEPS)
        self.region = self._line(Window, "region", "name of the region that begins a step")
        self._step_counts = beside(
            Label("skip"),
            spin("skip_first", number(0, 1_000_000)),
            Label("warm up"),
            spin("warmup", number(0, 10_000)),
            Label("record"),
            spin("active", number(1, 100_000)),
            Label("steps"),
        )
        self._time_limit = spin("time_limit_s", seconds(1, 3600))
        self._whole_times = beside(Label("start after"), spin("delay_s", seconds(0, 86_400)))
        self._of_the_script = (
            check("phases", "Name the phases", "ranges for data, forward, backward and optimizer"),
            check("modules", "Name every module", "a range for each module call: more detail, more overhead"),
            check("keep_running", "Keep the script running", "after recording ends; otherwise it is stopped"),
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
        form.add("Steps", self.steps, self.region, self._step_counts, self._whole_times)
        form.add("At most", self._time_limit, Label("of recording", "secondary"))
        form.add("Script", *self._of_the_script)
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

    def _bind(
        self,
        part: type,
        name: str,
        edited: SignalInstance,
        value: Callable[[], Any],
        show: Callable[[Any], None],
    ) -> None:
        self._fields.setdefault(part, {})[name] = value, show
        edited.connect(self._edited)

    def _check(
        self, part: type, name: str, text: str, hint: str, on: object = True, off: object = False
    ) -> QCheckBox:
        box = QCheckBox(text)
        box.setToolTip(tooltip(hint))
        outline = box.palette()
        outline.setColor(QPalette.ColorRole.Window, theme.current().text_secondary)
        box.setPalette(outline)
        self._bind(
            part,
            name,
            box.toggled,
            lambda: on if box.isChecked() else off,
            lambda told: box.setChecked(told == on),
        )
        return box

    def _combo(self, part: type, name: str, choices: dict[str, str]) -> QComboBox:
        combo, values = QComboBox(), list(choices.values())
        combo.addItems(list(choices))
        self._bind(
            part,
            name,
            combo.currentIndexChanged,
            lambda: values[combo.currentIndex()],
            lambda value: combo.setCurrentIndex(values.index(value) if value in values else 0),
        )
        return combo

    def _line(self, part: type, name: str, placeholder: str) -> QLineEdit:
        line = QLineEdit()
        line.setPlaceholderText(placeholder)
        self._bind(part, name, line.textChanged, lambda: line.text().strip(), line.setText)
        return line

    def _spin(self, part: type, name: str, spin: Spin) -> Spin:
        self._bind(part, name, spin.valueChanged, spin.value, spin.setValue)
        return spin
