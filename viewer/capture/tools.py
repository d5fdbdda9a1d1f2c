"""Finds Nsight Systems, Nsight Compute and their converters on PATH and where they install themselves."""

from __future__ import annotations

import functools
import os
import re
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

from parsers import program_search
from parsers.model.late import dataclass, regex

OLDEST = {"nsys": (2021, 3), "ncu": (2021, 2)}
"""Older versions lack options that the recordings need (the end of a capture range; kernels by name)."""
VERSION_SECONDS = 30.0
_VERSION = regex(r"[Vv]ersion\s+(\d{4}(?:\.\d+)+)")

_PLACES = {
    "nsys": {
        "linux": (
            "/opt/nvidia/nsight-systems/*/bin/nsys",
            "/opt/nvidia/nsight-systems-cli/*/bin/nsys",
            "/usr/local/cuda*/bin/nsys",
            "/opt/nvidia/nsight-systems/*/target-linux-*/nsys",
            "/opt/nvidia/nsight-compute/*/host/target-linux-*/nsys",
        ),
        "darwin": ("/Applications/NVIDIA Nsight Systems.app/Contents/*/nsys",),
        "win32": (
            "C:/Program Files/NVIDIA Corporation/Nsight Systems */target-windows-x64/nsys.exe",
            "C:/Program Files/NVIDIA GPU Computing Toolkit/CUDA/*/bin/nsys.exe",
        ),
    },
    "ncu": {
        "linux": (
            "/opt/nvidia/nsight-compute/*/ncu",
            "/usr/local/cuda*/bin/ncu",
            "/usr/local/cuda*/nsight-compute-*/ncu",
        ),
        "darwin": ("/Applications/NVIDIA Nsight Compute.app/Contents/MacOS/ncu",),
        "win32": (
            "C:/Program Files/NVIDIA Corporation/Nsight Compute */ncu.bat",
            "C:/Program Files/NVIDIA GPU Computing Toolkit/CUDA/*/bin/ncu.exe",
        ),
    },
}


@dataclass(frozen=True, slots=True)
class ToolFound:
    """A tool on this machine; ``version`` is () when it did not say, ``problem`` empty when it is usable."""

    path: str
    version: tuple[int, ...] = ()
    problem: str = ""
    fix: str = ""

    @property
    def version_text(self) -> str:
        return ".".join(str(part) for part in self.version) or "unknown version"


MISSING = {
    "nsys": (
        "Nsight Systems (nsys) is not on this machine.",
        "Install it from developer.nvidia.com/nsight-systems or with the CUDA toolkit, or record with the "
        "PyTorch profiler, which needs nothing else.",
    ),
    "ncu": (
        "Nsight Compute (ncu) is not on this machine.",
        "Install it from developer.nvidia.com/nsight-compute or with the CUDA toolkit; it must run where the GPU is.",
    ),
}


def find(tool: str) -> ToolFound:
    """``nsys`` or ``ncu``: PATH first, then the newest of the usual folders; ``problem`` says why not."""
    on_path = program_search.program(tool)
    path = on_path or next(iter(_installed(tool)), "")
    if not path:
        problem, fix = MISSING[tool]
        return ToolFound("", problem=problem, fix=fix)
    return checked(tool, path)


def checked(tool: str, path: str) -> ToolFound:
    """A tool at a known path, asked for its version."""
    try:
        changed = os.stat(path).st_mtime_ns
    except OSError:
        return ToolFound(path, problem=f"{path} is not there.", fix=MISSING[tool][1])
    return _asked(tool, path, changed)


@functools.lru_cache(maxsize=16)
def _asked(tool: str, path: str, changed_ns: int) -> ToolFound:
    try:
        said = program_search.answer_of([path, "--version"], VERSION_SECONDS)
    except (OSError, subprocess.TimeoutExpired) as error:
        return ToolFound(path, problem=f"{path} could not be started: {error}.", fix="Install it again.")
    match = _VERSION.search(said.stdout + said.stderr)
    if match is None:
        return ToolFound(path)
    version = tuple(int(part) for part in match.group(1).split("."))
    if version[:2] < OLDEST[tool]:
        oldest = ".".join(str(part) for part in OLDEST[tool])
        return ToolFound(
            path,
            version,
            f"{tool} {'.'.join(map(str, version))} is too old for these options.",
            f"Install version {oldest} or newer; recordings of older versions can still be opened.",
        )
    return ToolFound(path, version)


def find_importer(nsys: str) -> str:
    """``QdstrmImporter``, which turns the raw stream of a recording machine into a report; empty when absent."""
    place = Path(nsys).resolve()
    for root in list(place.parents)[:3]:
        for found in sorted(root.glob("host-*/QdstrmImporter*")) + sorted(
            root.glob("linux-desktop-*/QdstrmImporter")
        ):
            if found.is_file() and os.access(found, os.X_OK):
                return str(found)
    return program_search.program("QdstrmImporter") or ""


def _installed(tool: str) -> list[str]:
    patterns: Iterable[str] = _PLACES[tool].get(sys.platform, _PLACES[tool]["linux"])
    found: list[str] = []
    for pattern in patterns:
        anchor = Path(pattern).anchor
        matches = [path for path in Path(anchor).glob(pattern[len(anchor) :]) if os.access(path, os.X_OK)]
        found += [str(path) for path in sorted(matches, key=_version_in_path, reverse=True)]
    return found


def _version_in_path(path: Path) -> tuple[int, ...]:
    numbers = re.findall(r"(?<!\d)\d+(?:\.\d+)+", str(path))
    return tuple(int(part) for part in numbers[0].split(".")) if numbers else ()
