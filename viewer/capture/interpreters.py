"""Finds the Python interpreters of this machine (virtual environments, conda, pyenv, PATH) and asks what they have."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from parsers import program_search
from parsers.model.late import dataclass

PROBE_SECONDS = 20.0
_PROBE = """
import importlib.util, json, platform, sys
def version(name):
    try:
        from importlib.metadata import version
        return version(name)
    except Exception:
        return "unknown" if importlib.util.find_spec(name) else ""
print(json.dumps({"python": platform.python_version(), "torch": version("torch"), "nvtx": version("nvtx")}))
"""


@dataclass(frozen=True, slots=True)
class Interpreter:
    """A Python found on this machine and where it came from."""

    path: str
    origin: str


@dataclass(frozen=True, slots=True)
class Probe:
    """What an interpreter answered; ``problem`` is empty when it can record."""

    python: str = ""
    torch: str = ""
    nvtx: str = ""
    problem: str = ""
    fix: str = ""


def found_interpreters(folder: Path | None = None) -> list[Interpreter]:
    """Interpreters, those nearest to the script's folder first, each executable once."""
    seen: set[str] = set()
    found: list[Interpreter] = []
    for path, origin in _candidates(folder):
        key = os.path.normcase(os.path.abspath(path))
        if key not in seen and os.path.isfile(path) and os.access(path, os.X_OK):
            seen.add(key)
            found.append(Interpreter(str(path), origin))
    return found


def default_interpreter(folder: Path | None = None) -> str:
    """The interpreter that a person in this folder would mean, ``python3`` when none is found."""
    found = found_interpreters(folder)
    return found[0].path if found else "python3"


def probe(interpreter: str) -> Probe:
    """Ask an interpreter for its version and for torch, without importing torch."""
    try:
        answer = program_search.answer_of([interpreter, "-c", _PROBE], PROBE_SECONDS)
        read = json.loads(answer.stdout.strip().splitlines()[-1])
    except FileNotFoundError:
        return Probe(problem=f"There is no interpreter {interpreter}.", fix="Pick another interpreter.")
    except (OSError, subprocess.TimeoutExpired, json.JSONDecodeError, IndexError):
        return Probe(problem=f"{interpreter} does not run Python code.", fix="Pick another interpreter.")
    python, torch, nvtx = (str(read.get(key, "")) for key in ("python", "torch", "nvtx"))
    if not torch:
        return Probe(
            python,
            problem=f"{interpreter} (Python {python}) has no torch.",
            fix="Pick the environment that the script is usually run in.",
        )
    return Probe(python, torch, nvtx)


def _candidates(folder: Path | None) -> Iterator[tuple[str, str]]:
    executable = "python.exe" if os.name == "nt" else "bin/python"
    in_environment = Path("Scripts/python.exe" if os.name == "nt" else "bin/python")
    if folder is not None:
        for parent in (folder, *folder.parents[:3]):
            for name in (".venv", "venv", "env"):
                yield str(parent / name / in_environment), f"{name} in {parent.name or parent}"
    if os.environ.get("VIRTUAL_ENV"):
        yield str(Path(os.environ["VIRTUAL_ENV"]) / in_environment), "active environment"
    if os.environ.get("CONDA_PREFIX"):
        yield str(Path(os.environ["CONDA_PREFIX"]) / executable), "active conda environment"
    for name in ("python3", "python"):
        path = program_search.program(name)
        if path:
            yield path, "PATH"
    if not getattr(sys, "frozen", False):
        yield sys.executable, "the one Stallscope runs in"
    home = Path(os.path.expanduser("~"))  # as it stands where there is no home
    yield from _conda(home, executable)
    versions = Path(os.environ.get("PYENV_ROOT", home / ".pyenv")) / "versions"
    yield from ((str(path / in_environment), f"pyenv {path.name}") for path in _folders(versions))
    for root in (home / ".virtualenvs", Path(os.environ.get("WORKON_HOME", home / "Envs"))):
        yield from ((str(path / in_environment), f"virtualenv {path.name}") for path in _folders(root))


def _conda(home: Path, executable: str) -> Iterator[tuple[str, str]]:
    try:
        known = (home / ".conda" / "environments.txt").read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError):
        known = []
    for line in known:
        yield str(Path(line.strip()) / executable), f"conda {Path(line.strip()).name}"
    for name in ("miniconda3", "anaconda3", "miniforge3", "mambaforge", "micromamba"):
        for root in (home / name, Path("/opt") / name):
            yield str(root / executable), f"{name} base"
            yield from ((str(path / executable), f"conda {path.name}") for path in _folders(root / "envs"))


def _folders(root: Path) -> list[Path]:
    try:
        return sorted(path for path in root.iterdir() if path.is_dir())
    except OSError:
        return []
