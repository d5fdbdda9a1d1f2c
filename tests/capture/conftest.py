"""A data folder of its own for each capture test, pretended tools on PATH, and interpreters that have torch."""

from __future__ import annotations

import os
import shlex
import sys
from pathlib import Path

import pytest

from tests.capture.pretend import PretendTools
from viewer.capture import recording
from viewer.capture.interpreters import probe


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
def torch_python() -> str:
    """The interpreter that records: the one named by TORCH_PYTHON, else this one; skipped where it has no torch."""
    named = os.environ.get("TORCH_PYTHON")
    python = named or sys.executable
    problem = probe(python).problem
    if problem and named:
        pytest.fail(f"TORCH_PYTHON: {problem}")
    if problem:
        pytest.skip("recording needs torch: name an interpreter that has it in TORCH_PYTHON")
    return python


@pytest.fixture(scope="session")
def pretended_torch_python(tmp_path_factory: pytest.TempPathFactory) -> str:
    """An interpreter whose torch is an empty module: enough for whatever happens before torch is used."""
    folder = tmp_path_factory.mktemp("pretended")
    (folder / "torch").mkdir()
    (folder / "torch" / "__init__.py").touch()
    python = folder / "python"
    python.write_text(
        f'#!/bin/sh\nPYTHONPATH={shlex.quote(str(folder))} exec {shlex.quote(sys.executable)} "$@"\n'
    )
    python.chmod(0o755)
    return str(python)
