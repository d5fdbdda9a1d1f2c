"""The program as its users have it: the wheel, installed into an environment of its own."""

from __future__ import annotations

import subprocess
import sys
import sysconfig
import venv
from pathlib import Path

from parsers.model.late import dataclass

REPOSITORY = Path(__file__).resolve().parents[2]
BUILD = "import sys; from hatchling.build import build_wheel; build_wheel(sys.argv[1])"
INSTALL = ("install", "--quiet", "--no-deps", "--no-index", "--disable-pip-version-check")

# Whether a second process helps with a file depends on how busy the machine is: a test says which it wants to see.
LOAD = "PRETENDED_LOAD"
PRETENDED_LOAD = f"""import os
if {LOAD!r} in os.environ:
    os.getloadavg = lambda: (float(os.environ[{LOAD!r}]),) * 3
"""


@dataclass(frozen=True, slots=True)
class Installed:
    """An environment that has the wheel, and sees the libraries of this one but not its program."""

    folder: Path
    wheel: Path

    @property
    def programs(self) -> Path:
        return self.folder / "bin"

    @property
    def site(self) -> Path:
        """Where the package lies."""
        return next(self.folder.glob("lib/python*/site-packages"))


def installed_in(folder: Path) -> Installed:
    """What ``install`` made there."""
    return Installed(folder / "environment", next(folder.glob("*.whl")))


def install(folder: Path) -> Installed:
    """Build the wheel of this checkout, and install it below ``folder``."""
    folder.mkdir(parents=True, exist_ok=True)
    subprocess.run(
        [sys.executable, "-c", BUILD, str(folder)], cwd=REPOSITORY, check=True, capture_output=True
    )
    made = installed_in(folder)
    venv.create(made.folder, with_pip=False, symlinks=True)
    pip = [sys.executable, "-m", "pip", "--python", str(made.programs / "python")]
    subprocess.run([*pip, *INSTALL, str(made.wheel)], check=True)
    (made.site / "libraries.pth").write_text(sysconfig.get_path("purelib") + "\n")
    (made.site / "sitecustomize.py").write_text(PRETENDED_LOAD)
    return made
