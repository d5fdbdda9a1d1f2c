"""A data folder of its own for each capture test, and a place on PATH for pretended tools."""

from __future__ import annotations

import importlib.util
import os
from pathlib import Path

import pytest

from tests.capture.pretend import PretendTools
from viewer.capture import recording


@pytest.fixture(autouse=True)
def data_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(recording, "LEFT_BEHIND_SECONDS", 1.0)
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    folder = tmp_path / "data"
    monkeypatch.setenv("STALLSCOPE_DATA", str(folder))
    return folder


@pytest.fixture
def pretend_tools(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> PretendTools:
    tools = PretendTools(tmp_path / "tools")
    monkeypatch.setenv("PATH", f"{tools.folder}{os.pathsep}{os.environ['PATH']}")
    return tools


@pytest.fixture(scope="session")
def needs_torch() -> None:
    """The test runs a script that imports torch."""
    if importlib.util.find_spec("torch") is None:
        pytest.skip("recording needs torch, which is not installed")
