"""A long analysis says what it is at, and can be stopped there."""

from __future__ import annotations

import pytest

from parsers.model import Cancelled, Progress
from rules.analysis import analysis as analysis_module
from rules.analysis.analysis import Analysis
from tests.rules.builder import TinyTrace


def test_looking_at_very_many_kernel_names_can_be_stopped_in_between(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(analysis_module, "NAMES_AT_ONCE", 10)
    trace = TinyTrace()
    for number in range(35):
        trace.operation(10 * number, 10 * number + 5, f"kernel_{number}", None)
    analysis = Analysis(trace.build())
    said: list[str] = []

    def listen(_: float, doing: str) -> None:
        said.append(doing)
        if said.count("looking at the names of kernels") == 2:
            progress.cancel()

    progress = Progress(listen)
    with pytest.raises(Cancelled):
        analysis.prepare(progress)
    assert said.count("looking at the names of kernels") == 2
    assert len(analysis.classes) == len(analysis.trace.strings)
