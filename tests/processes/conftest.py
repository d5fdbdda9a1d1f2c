"""A place for every test, and what is asserted after every test: that nothing is left behind."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.processes.installed import Installed
from tests.processes.place import Place, kill, processes_with
from tests.processes.recordings import Recordings
from tests.shared_folder import SharedFolder

MAX_BYTES = 1 << 30  # of memory, of a command and all its helpers together
PATIENCE_S = 600  # whatever has no end is told by the place, with what it was doing


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """A test here starts many processes, and on a busy machine each takes long."""
    here = os.path.dirname(__file__) + os.sep
    for item in items:  # of all folders
        if str(item.path).startswith(here) and item.get_closest_marker("timeout") is None:
            item.add_marker(pytest.mark.timeout(PATIENCE_S))


@pytest.fixture(scope="session")
def recordings(shared_folder: SharedFolder) -> Recordings:
    return Recordings(shared_folder)


@pytest.fixture
def place(tmp_path: Path, installed: Installed, request: pytest.FixtureRequest) -> Iterator[Place]:
    """Where commands run; after the test nothing may be left in it that nobody asked for."""
    made = Place(tmp_path / "place", installed)
    yield made
    try:
        left = made.left()
    finally:
        kill(processes_with(made.mark))
        shutil.rmtree(made.root, ignore_errors=True)  # hundreds of megabytes
    assert left == []
    allowed = request.node.get_closest_marker("memory")
    assert made.peak < (allowed.args[0] if allowed else MAX_BYTES)
