"""The wheel adds one package to an environment, and everything works from there."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from tests.processes.installed import Installed

PROGRAM = """
import importlib.util, sys
from pathlib import Path

for name in ("viewer", "parsers", "rules", "resources"):
    assert importlib.util.find_spec(name) is None, name
import stallscope

assert Path(stallscope.__file__).is_relative_to(sys.prefix), stallscope.__file__
from stallscope.viewer.cli import main

sample, picture = sys.argv[1:]
assert main(["self-check"]) == 0
assert main(["diagnose", sample]) == 0
assert main(["query", sample, "cuda_gpu_kern_sum"]) == 0
run = stallscope.open(sample)
assert len(run.kernels) and run.diagnose().findings
import stallscope.viewer.screenshot as screenshot

assert screenshot.main([sample, "--out", picture, "--size", "900x600", "--scale", "1"]) == 0
"""


@pytest.mark.skipif(sys.platform == "win32", reason="an environment has other folders there")
def test_the_wheel_is_one_package_from_which_everything_runs(
    installed: Installed, repository: Path, tmp_path: Path
) -> None:
    names = {name.partition("/")[0] for name in zipfile.ZipFile(installed.wheel).namelist()}
    assert sorted(name for name in names if not name.endswith(".dist-info")) == ["stallscope"]
    bare = {name: text for name, text in os.environ.items() if not name.startswith("PYTHON")}
    sample = repository / "resources/samples/elementwise_chain.pt.trace.json.gz"
    picture = tmp_path / "window.png"
    python = installed.programs / "python"
    done = subprocess.run(
        [python, "-c", PROGRAM, sample, picture], cwd=tmp_path, env=bare, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr[-2000:]
    assert picture.stat().st_size > 5_000
    version = subprocess.run(
        [installed.programs / "stallscope", "--version"],
        cwd=tmp_path,
        env=bare,
        capture_output=True,
        text=True,
    )
    assert version.stdout.startswith("stallscope 0")
    runner = installed.site / "stallscope/viewer/capture/torch_runner"
    help_text = subprocess.run(
        [python, runner, "--help"], cwd=tmp_path, env=bare, capture_output=True, text=True
    )
    assert help_text.returncode == 0
    assert "usage" in help_text.stdout.lower()


def test_an_import_that_cannot_be_moved_is_refused(repository: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(repository / "packaging")
    from one_package import with_one_package  # type: ignore[import-not-found]

    moved = with_one_package(
        "import resources\nfrom viewer import app\nimport rules.findings.base as base\n"
        "def f():\n    from parsers.model import (\n        Trace,\n    )\n\n'from viewer import x'\n",
        "a.py",
    )
    assert moved == (
        "from stallscope import resources\nfrom stallscope.viewer import app\n"
        "import stallscope.rules.findings.base as base\n"
        "def f():\n    from stallscope.parsers.model import (\n        Trace,\n    )\n\n'from viewer import x'\n"
    )
    with pytest.raises(ValueError, match=r"a\.py:1"):
        with_one_package("import viewer.cli\n", "a.py")
