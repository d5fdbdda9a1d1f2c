"""Of a program that is not Python the window never says that its GPU waits for Python."""

from __future__ import annotations

import numpy as np
import pytest
from pytestqt.qtbot import QtBot

from parsers.model import Device, EventKind, Lane, LaneKind, Trace
from parsers.model.builder import TraceBuilder
from rules import diagnose
from rules.analysis.analysis import Analysis
from rules.analysis.idle.causes import Cause
from rules.handover import found_out, known
from viewer.reports.diagnosis_report import as_html
from viewer.reports.text_report import as_text
from viewer.statistics.event_facts import facts_of_gap
from viewer.timeline.hover import gap_text
from viewer.timeline.legend import entries
from viewer.window.main_window import MainWindow

from .conftest import MS, US, wait_until_ready


@pytest.fixture
def native() -> Trace:
    """24 kernels of a C++ program, 10 ms of silence after each."""
    builder = TraceBuilder()
    device = builder.device(Device(0, "NVIDIA H200"))
    main = {"process": 1, "thread": 1, "process_name": "solver"}
    calls = builder.lane(Lane(LaneKind.CUDA_API, "solver calls", **main))
    stream = builder.lane(Lane(LaneKind.GPU_STREAM, "GPU 0 stream 7", device=device, stream=7))
    launched = np.arange(24) * 11 * MS
    called = builder.add(
        launched, launched + 10 * US, builder.string("cudaLaunchKernel"), calls, EventKind.API
    )
    kernels = builder.add(
        launched + 20 * US, launched + MS, builder.string("step_kernel(float*)"), stream, EventKind.KERNEL
    )
    builder.link(kernels, called)
    return builder.build()


def test_reports_speak_of_the_cpu(native: Trace) -> None:
    diagnosis, analysis = diagnose(native), Analysis(native)
    text = as_text(native, diagnosis, analysis)
    assert "waiting for the CPU" in text
    assert "Python" not in text
    assert "waiting for Python" not in as_html(native, diagnosis, analysis)


def test_the_window_speaks_of_the_cpu(empty_window: MainWindow, native: Trace, qtbot: QtBot) -> None:
    empty_window.document.show(native)
    wait_until_ready(qtbot, empty_window)
    (bar,) = empty_window.verdict.bars
    labels = {button.part.key: button.part.label for button in bar.buttons}
    assert labels["host-bound"] == "waiting for the CPU"
    assert next(each for each in bar.buttons if each.part.key == "host-bound").shown_name(40) == "CPU"
    scene, analysis = empty_window.timeline.state.scene, empty_window.document.analysis
    assert scene is not None
    assert analysis is not None
    row = int(np.flatnonzero(analysis.idle.cause == Cause.HOST)[0])
    assert gap_text(scene, row)[0] == "Waiting for the CPU"
    assert {fact.label: fact.text for fact in facts_of_gap(analysis, row)}["Cause"] == labels["host-bound"]
    assert "waiting for the CPU" in [entry.label for entry in entries(scene)["Idle GPU"]]


def test_another_process_that_analyses_it_says_so_too(native: Trace) -> None:
    found, columns = found_out(Analysis(native), diagnose(native))
    analysis, _ = known(native, found, columns)
    assert analysis.idle.label(Cause.HOST) == "waiting for the CPU"


def test_a_python_program_waits_for_python(trace: Trace) -> None:
    assert Analysis(trace).idle.label(Cause.HOST) == "waiting for Python"
