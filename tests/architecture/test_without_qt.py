"""Everything but the window imports and works where neither Qt nor torch is installed."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

BLOCK_QT_AND_TORCH = """
import importlib.abc, sys

class Absent(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in {"PySide6", "shiboken6", "pyqtgraph", "torch"}:
            raise ModuleNotFoundError(f"No module named {name!r} (blocked by this test)", name=name)

sys.meta_path.insert(0, Absent())
"""

IMPORT_ALL_THAT_NEEDS_NO_QT = """
import importlib, pkgutil

def names(package):
    yield package
    folder = importlib.import_module(package).__path__
    for module in pkgutil.walk_packages(folder, package + "."):
        yield module.name

def present(name):
    return importlib.util.find_spec(name) is not None

expected = [name for package in ("parsers", "rules", "resources") for name in names(package)]
expected += ["viewer", "viewer.cli", "viewer.loading.serve", "viewer.loading.process"]
rooms = ("commands", "terminal", "capture", "timeline.geometry", "timeline.kinds")
for package in (f"viewer.{room}" for room in rooms):
    if present(package):
        expected += [name for name in names(package) if ".form" not in name and "__main__" not in name]
for name in expected:
    importlib.import_module(name)
print(len(expected))
"""


def run_without_qt(repository: Path, program: str) -> subprocess.CompletedProcess[str]:
    """Run a program text in a Python of its own, in which Qt and torch cannot be imported."""
    return subprocess.run(
        [sys.executable, "-c", BLOCK_QT_AND_TORCH + program],
        cwd=repository,
        env=dict(os.environ),
        capture_output=True,
        text=True,
    )


def test_the_block_works(repository: Path) -> None:
    result = run_without_qt(repository, "import PySide6.QtCore")
    assert result.returncode != 0
    assert "blocked by this test" in result.stderr


def test_all_but_the_window_imports_without_qt_and_torch(repository: Path) -> None:
    result = run_without_qt(repository, IMPORT_ALL_THAT_NEEDS_NO_QT)
    assert result.returncode == 0, result.stderr
    source_files = [f for p in ("parsers", "rules", "resources") for f in (repository / p).rglob("*.py")]
    assert int(result.stdout) >= len(source_files), "some module was not found by the walk"


def test_self_check_and_diagnose_run_without_qt_and_torch(repository: Path) -> None:
    samples = sorted((repository / "resources" / "samples").glob("*.json.gz"))
    assert samples, "the bundled recordings are missing"
    for arguments in (["self-check"], ["diagnose", str(samples[0])]):
        program = f"""
import sys
from viewer.cli import main
sys.argv = ["stallscope", *{arguments!r}]
sys.exit(main())
"""
        result = run_without_qt(repository, program)
        assert result.returncode == 0, result.stderr
        assert result.stdout.strip()
