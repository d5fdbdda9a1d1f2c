"""The other machine of these tests, and an ssh that knows it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.capture.conftest import pretend_tools, torch_python  # noqa: F401
from tests.remote.far_machine import SSHD, WHY_NOT, FarMachine
from viewer.capture import recording


@pytest.fixture(scope="session")
def far_machine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FarMachine]:
    if SSHD is None:
        pytest.skip(WHY_NOT)
    machine = FarMachine(tmp_path_factory.mktemp("far"))
    yield machine
    machine.close()


@pytest.fixture(autouse=True)
def data_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STALLSCOPE_DATA", str(tmp_path / "data"))
    monkeypatch.setattr(recording, "LEFT_BEHIND_SECONDS", 1.0)


@pytest.fixture
def far(far_machine: FarMachine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[FarMachine]:
    """The other machine, on which nothing of ours is left when the test ends."""
    monkeypatch.setenv("PATH", f"{far_machine.ssh(tmp_path / 'ssh')}{os.pathsep}{os.environ['PATH']}")
    far_machine.wire.is_down = False
    far_machine.wire.cut_after = 0
    yield far_machine
    assert far_machine.left() == []
