"""How many cores a recorded program may use: by its affinity and its container's quota, read back from the file."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from tests.parsers.chrome.traces import complete, trace_of
from viewer.capture.torch_runner.stallscope_recorder.machine import KEY, cores, machine


@pytest.mark.parametrize(
    ("quota", "allowed"),
    [("150000 100000", 2), ("1000 100000", 1), ("max 100000", 4), ("900000 100000", 4), ("", 4)],
)
def test_a_program_may_use_no_more_cores_than_its_affinity_and_its_quota(
    quota: str, allowed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 2, 4, 6}, raising=False)
    (tmp_path / "cpu.max").write_text(quota)
    assert cores(str(tmp_path / "cpu.max")) == allowed
    assert cores(str(tmp_path / "missing")) == 4


def test_what_is_noted_is_read_back(tmp_path: Path) -> None:
    noted: dict[str, Any] = json.loads(b"{" + machine().rstrip(b",") + b"}")
    assert noted[KEY]["cores"] >= 1
    trace = trace_of(tmp_path, [complete("aten::mm", 20, 10)], **noted)
    assert trace.capture.cores == noted[KEY]["cores"]


@pytest.mark.parametrize(
    "stated", [None, 4, {"cores": 0}, {"cores": "4"}, {"cores": True}, {"cores": 1 << 40}]
)
def test_what_is_no_number_of_cores_is_left_out(stated: Any, tmp_path: Path) -> None:
    trace = trace_of(tmp_path, [complete("aten::mm", 20, 10)], schemaVersion=1, **{KEY: stated})
    assert (trace.capture.cores, trace.capture.threads) == (None, None)
