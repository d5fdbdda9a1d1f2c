"""What one process found out about a trace is what another one knows of it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from parsers import open_trace
from rules import Diagnosis
from rules.analysis import analysis as analysis_module
from rules.analysis.analysis import Analysis
from rules.handover import found_out, known
from tests.opened import analysed, diagnosed, opened


@pytest.fixture(scope="session")
def recording(request: pytest.FixtureRequest) -> Path:
    path: Path = request.getfixturevalue("fixtures") / "ddp"
    return path


@pytest.fixture(scope="session")
def both(recording: Path) -> tuple[Analysis, Diagnosis, Analysis, Diagnosis]:
    analysis, diagnosis = analysed(recording), diagnosed(recording)
    return analysis, diagnosis, *known(open_trace([recording]), *found_out(analysis, diagnosis))


def test_the_diagnosis_is_the_same(both: tuple[Analysis, Diagnosis, Analysis, Diagnosis]) -> None:
    _, diagnosis, _, again = both
    assert diagnosis.findings
    assert any(len(finding.intervals) for finding in diagnosis.findings)
    assert again == diagnosis


def test_the_analysis_answers_the_same(both: tuple[Analysis, Diagnosis, Analysis, Diagnosis]) -> None:
    analysis, _, again, _ = both
    assert again.steps == analysis.steps
    assert again.window == analysis.window
    assert again.families == analysis.families
    assert again.active_devices == analysis.active_devices
    for device in range(len(analysis.trace.devices)):
        assert again.budgets(device) == analysis.budgets(device)
    np.testing.assert_array_equal(again.trace.gpu_operations, analysis.trace.gpu_operations)


def test_nothing_is_found_out_again(recording: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    trace, same, whole = opened(recording), open_trace([recording]), analysed(recording)
    plain, columns = found_out(whole, diagnosed(recording))
    for name in ("find_steps", "idle_of_device", "busy_parts", "classify"):
        monkeypatch.delattr(analysis_module, name)
    analysis, _ = known(same, plain, columns)
    assert analysis.idle.culprits == whole.idle.culprits
    assert len(analysis.families) == len(trace.strings)
    assert analysis.budgets(0).window_ns == analysis.window_ns
