"""The set-up script says plainly what is wrong when it cannot go on, and leaves nothing half made."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="the set-up script is for Unix shells")


@pytest.fixture
def checkout(tmp_path: Path, repository: Path) -> Path:
    """A checkout with nothing but what the script reads, and no virtual environment."""
    for name in ("pyproject.toml", "packaging/constraints.txt", "scripts/setup.sh", "scripts/run_sample.sh"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
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
    executable(checkout / ".venv/bin/python", '#!/bin/sh\necho "python $* $QT_QPA_PLATFORM"\n')
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


@pytest.fixture
def pip(checkout: Path) -> Path:
    """An interpreter in .venv that says one thing of every question, and notes what its pip is asked for."""
    asked = checkout / "asked"
    executable(
        checkout / ".venv/bin/python",
        f"""#!/bin/sh
case "$*" in *"pip install"*) ;; -) cat >/dev/null; echo the-key; exit;; *) echo 3.14.0; exit;; esac
echo "$PIP_CONSTRAINT|$PIP_BUILD_CONSTRAINT|$*" >>"{asked}"
case "$PIP_CONSTRAINT" in *constraints.txt) printf '%s\\n' "$PIP_SAYS" >.venv/.pip.log; exit "${{PIP_CODE:-0}}";; esac
exit 0
""",
    )
    return asked


def test_the_tested_versions_are_installed_and_those_the_user_wants_as_well(
    checkout: Path, pip: Path
) -> None:
    result = run(checkout, "scripts/setup.sh", PIP_CONSTRAINT="mine.txt")
    assert result.returncode == 0, result.stderr
    (asked,) = pip.read_text().splitlines()
    assert asked.startswith("mine.txt packaging/constraints.txt|packaging/constraints.txt|")
    assert "--only-binary :all: --editable .[sql]" in asked


def test_versions_that_are_not_there_for_this_python_are_told_and_the_newest_taken(
    checkout: Path, pip: Path
) -> None:
    result = run(checkout, "scripts/setup.sh", PIP_CODE="1")
    assert result.returncode == 0, result.stderr
    assert (
        result.stderr.count("not all tested versions (packaging/constraints.txt) are there for Python 3.14.0")
        == 1
    )
    tested, newest = pip.read_text().splitlines()
    assert tested.startswith("packaging/constraints.txt|")
    assert newest.startswith("||")
    assert "--only-binary" not in newest


def test_an_index_out_of_reach_is_not_asked_for_other_versions(checkout: Path, pip: Path) -> None:
    result = run(checkout, "scripts/setup.sh", PIP_CODE="1", PIP_SAYS="WARNING: Retrying (Retry(total=4))")
    assert result.returncode == 1
    assert "Check the connection" in result.stderr
    assert len(pip.read_text().splitlines()) == 1


@pytest.mark.parametrize("name", ["pyproject.toml", "packaging/constraints.txt", "scripts/setup.sh"])
def test_a_change_of_what_is_installed_is_installed(checkout: Path, name: str) -> None:
    (checkout / ".venv/bin").mkdir(parents=True)
    (checkout / ".venv/bin/python").symlink_to(sys.executable)
    settings = "set -eu; venv=.venv; constraints=packaging/constraints.txt"
    function = "eval \"$(sed -n '/^stamp_key/,/^}/p' scripts/setup.sh)\""
    key = f"{settings}; {function}; stamp_key"
    before = run(checkout, "bash", "-c", key).stdout
    assert len(before.strip()) == 64
    with (checkout / name).open("a") as file:
        file.write("\n")
    assert run(checkout, "bash", "-c", key).stdout not in ("", before)


def test_every_library_that_is_installed_has_a_tested_version(repository: Path) -> None:
    """A library that is asked for and has no tested version would come as it is on the day."""
    project = tomllib.loads((repository / "pyproject.toml").read_text("utf-8"))["project"]
    extras = project["optional-dependencies"]
    asked = project["dependencies"] + [
        each for name in ("sql", "test", "dev", "package", "fuzz") for each in extras[name]
    ]
    pinned = {
        canonicalize_name(Requirement(line).name)
        for line in (repository / "packaging/constraints.txt").read_text("utf-8").splitlines()
        if not line.startswith("#")
    }
    names = {canonicalize_name(Requirement(each).name) for each in asked} - {"stallscope"}
    assert names - pinned == set()


@pytest.mark.skipif(sys.platform != "linux", reason="Debian's packages are for Linux")
def test_a_system_without_python_gets_the_one_of_its_packages(checkout: Path, tmp_path: Path) -> None:
    tools, asked = tmp_path / "tools", tmp_path / "asked"
    tools.mkdir()
    for tool in ("bash", "env", "dirname", "sed", "sh"):
        (tools / tool).symlink_to(shutil.which(tool) or "")
    executable(tools / "apt-get", f'#!/bin/sh\necho "$*" >>"{asked}"\n')
    executable(tools / "id", "#!/bin/sh\necho 0\n")
    result = run(checkout, "scripts/setup.sh", PATH=str(tools), PYTHON="")
    assert result.returncode == 1
    assert "install -y -qq --no-install-recommends python3 python3-venv" in asked.read_text()
    assert "Python 3.11 or newer is needed; python3 here is missing" in result.stderr
