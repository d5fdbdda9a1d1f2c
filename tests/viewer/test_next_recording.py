"""What a recording cannot tell leads to the recorder with the right options."""

from __future__ import annotations

import pytest
from pytestqt.qtbot import QtBot

import resources
from parsers import open_trace
from parsers.model import Trace
from rules import Category, Finding, diagnose
from viewer.capture.next_recording import kernel_recording, recording_for
from viewer.capture.request import CaptureRequest, Tool
from viewer.desktop.jobs import Jobs
from viewer.documents.document import Document
from viewer.panels.findings.diagnosis import DiagnosisPanel
from viewer.panels.tabs.selection import SelectionPanel


def _opened(sample: str) -> Trace:
    return open_trace([resources.path(f"samples/{sample}")])


def _first(trace: Trace, category: Category) -> Finding:
    return next(each for each in diagnose(trace).findings if each.category is category)


@pytest.fixture(scope="session")
def python_in_the_way() -> Trace:
    return _opened("cpu_python.pt.trace.json.gz")


def test_waiting_for_python_asks_for_stacks(python_in_the_way: Trace) -> None:
    offered = recording_for(_first(python_in_the_way, Category.HOST_BOUND), python_in_the_way)
    assert offered is not None
    assert offered[1].tool is Tool.TORCH
    assert offered[1].torch.stacks


def test_memory_bound_kernels_ask_for_the_counters_of_their_longest_kernel() -> None:
    trace = _opened("elementwise_chain.pt.trace.json.gz")
    finding = _first(trace, Category.MEMORY_BOUND_KERNELS)
    offered = recording_for(finding, trace)
    assert offered is not None
    request = offered[1]
    assert request.tool is Tool.NCU
    assert request.ncu.kernel_name in finding.evidence[0].name
    assert not set(request.ncu.kernel_name) & set("<>( :")


def test_the_skip_counts_earlier_launches_of_the_same_kernel(python_in_the_way: Trace) -> None:
    trace = python_in_the_way
    kernels = trace.operations_of_device(0)
    name = trace.events.name[kernels]
    same = kernels[name == name[0]]
    assert [kernel_recording(trace, int(event)).ncu.launch_skip for event in same[:3]] == [0, 1, 2]


def test_nothing_is_offered_that_the_recording_has_already() -> None:
    trace = _opened("cpu_python.pt.trace.json.gz")
    finding = _first(trace, Category.HOST_BOUND)
    object.__setattr__(trace.capture, "with_stack", True)
    assert recording_for(finding, trace) is None


def test_the_card_and_the_selected_kernel_open_the_recorder_set_up_for_them(qtbot: QtBot) -> None:
    trace = _opened("elementwise_chain.pt.trace.json.gz")
    document = Document(Jobs())
    diagnosis, selection = DiagnosisPanel(document), SelectionPanel(document)
    qtbot.addWidget(diagnosis)
    qtbot.addWidget(selection)
    wanted: list[CaptureRequest] = []
    document.recording_wanted.connect(wanted.append)
    with qtbot.waitSignal(document.diagnosis_changed):
        document.show(trace)
    card = next(each for each in diagnosis.cards if each.finding.category is Category.MEMORY_BOUND_KERNELS)
    card.fix_button.click()
    card.record_button.click()
    selection.show()
    document.select_event(int(trace.operations_of_device(0)[1]))
    selection.profile_button.click()
    assert [request.tool for request in wanted] == [Tool.NCU, Tool.NCU]
    document.jobs.close()
