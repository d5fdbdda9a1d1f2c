"""The part of the capture dialog that says how a program that already runs is recorded: how much, and how often."""

from __future__ import annotations

from dataclasses import replace

from PySide6.QtCore import Signal
from PySide6.QtWidgets import QWidget

from viewer.appearance.boxes import Form
from viewer.appearance.labels import Label
from viewer.capture.form.spins import number, seconds
from viewer.capture.request import CaptureRequest, Tool, Window

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
