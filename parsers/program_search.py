"""Finds a program on PATH and nowhere else, and asks one.

Windows looks into the current folder first, and that may be where somebody unpacked a stranger's files.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Sequence


def program(name: str, path: str | None = None) -> str | None:
    """The program's full path; None where no folder of PATH, or of ``path``, has it."""
    if os.name != "nt":
        return shutil.which(name, path=path)
    folders = os.environ.get("PATH", "") if path is None else path
    return found_in(folders.split(os.pathsep), name, os.environ.get("PATHEXT", ".EXE;.BAT;.CMD").split(";"))


def answer_of(words: Sequence[str], seconds: float) -> subprocess.CompletedProcess[str]:
    """What a program that is given nothing to read says; raises ``OSError`` and ``TimeoutExpired``."""
    return subprocess.run(
        words,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        encoding="utf-8",
        errors="replace",
        timeout=seconds,
        check=False,
    )


def found_in(folders: list[str], name: str, endings: list[str]) -> str | None:
    """The first file of that name with one of these endings; folders that are not absolute are passed over."""
    names = [name] if os.path.splitext(name)[1].upper() in map(str.upper, endings) else []
    names += [f"{name}{ending}" for ending in endings]
    for folder in folders:
        for each in names if os.path.isabs(folder) else ():
            candidate = os.path.join(folder, each)
            if os.path.isfile(candidate):
                return candidate
    return None
