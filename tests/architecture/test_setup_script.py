"""The set-up script says plainly what is wrong when it cannot go on, and leaves nothing half made."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="the set-up script is for Unix shells")


@pytest.fixture
def checkout(tmp_path: Path, repository: Path) -> Path:
    """A checkout with nothing but what the script reads, and no virtual environment."""
    (tmp_path / "scripts").mkdir()
    for name in ("pyproject.toml", "scripts/setup.sh", "scripts/run_sample.sh"):
        shutil.copy(repository / name, tmp_path / name)
    return tmp_path


def run(checkout: Path, *command: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run a script of the checkout with some variables set."""
    return subprocess.run(
        command, cwd=checkout, env={**os.environ, **environment}, capture_output=True, text=True
    )


def executable(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(0o755)


def test_a_python_that_is_too_old_is_named_with_its_version(checkout: Path, tmp_path: Path) -> None:
    old = tmp_path / "old" / "python3"
    executable(old, '#!/bin/sh\ncase "$*" in *sys.exit*) exit 1;; esac\necho 3.9.2\n')
    result = run(checkout, "scripts/setup.sh", PYTHON=str(old))
    assert result.returncode == 1
    assert "Python 3.11 or newer is needed" in result.stderr
    assert "is 3.9.2" in result.stderr
    assert not (checkout / ".venv").exists()


def test_an_unknown_extra_is_refused(checkout: Path) -> None:
    result = run(checkout, "scripts/setup.sh", "everything")
    assert result.returncode == 1
    assert "unknown extra 'everything'" in result.stderr


def test_without_a_display_the_sample_is_diagnosed_and_painted(checkout: Path) -> None:
    executable(
        checkout / ".venv/bin/python",
        '#!/bin/sh\necho "python $* $QT_QPA_PLATFORM"\n',
    )
    executable(checkout / ".venv/bin/stallscope", '#!/bin/sh\necho "stallscope $*"\n')
    result = run(checkout, "scripts/run_sample.sh", "some.json", DISPLAY="", WAYLAND_DISPLAY="")
    assert result.returncode == 0, result.stderr
    assert "No display here" in result.stdout
    assert "stallscope diagnose some.json" in result.stdout
    assert "python -m viewer.screenshot some.json --out stallscope-sample.png offscreen" in result.stdout


def test_with_a_display_the_window_opens(checkout: Path) -> None:
    executable(checkout / ".venv/bin/python", '#!/bin/sh\necho "python $*"\n')
    result = run(checkout, "scripts/run_sample.sh", "some.json", DISPLAY=":7", QT_QPA_PLATFORM="")
    assert result.stdout == "python -m viewer some.json\n"


def test_a_display_that_qt_cannot_reach_counts_as_none(checkout: Path) -> None:
    executable(checkout / ".venv/bin/python", '#!/bin/sh\n[ "$1" != -c ] || kill -ABRT $$\n')
    executable(checkout / ".venv/bin/stallscope", '#!/bin/sh\necho "stallscope $*"\n')
    result = run(checkout, "scripts/run_sample.sh", "some.json", DISPLAY=":7", QT_QPA_PLATFORM="")
    assert result.returncode == 0, result.stderr
    assert "No display here" in result.stdout


@pytest.mark.skipif(sys.platform != "linux", reason="Debian's packages are for Linux")
def test_a_screen_for_the_tests_is_installed_with_the_test_tools_only(checkout: Path, tmp_path: Path) -> None:
    tools, asked = tmp_path / "tools", tmp_path / "asked"
    tools.mkdir()
    for folder in ("/usr/bin", "/bin"):
        for tool in Path(folder).iterdir():
            if tool.name not in ("Xvfb", "xdotool", "apt-get", "id") and not (tools / tool.name).is_symlink():
                (tools / tool.name).symlink_to(tool)
    executable(tools / "apt-get", f'#!/bin/sh\necho "$*" >>"{asked}"\n')
    executable(tools / "id", "#!/bin/sh\necho 0\n")
    executable(checkout / ".venv/bin/python", "#!/bin/sh\necho the-key\n")
    for stamp in ("program", "test"):
        (checkout / f".venv/.installed-{stamp}").write_text("the-key\n")

    assert run(checkout, "scripts/setup.sh", PATH=str(tools)).returncode == 0
    assert not asked.exists() or "xvfb" not in asked.read_text()
    assert run(checkout, "scripts/setup.sh", "test", PATH=str(tools)).returncode == 0
    assert "install -y -qq --no-install-recommends xvfb xdotool" in asked.read_text()
