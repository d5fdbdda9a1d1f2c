"""Turns a Nsight Systems report into a SQLite database with the user's own nsys, in the program's cache folder."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

from parsers import program_search
from parsers.model import Progress, TraceError
from parsers.sqlite.private_copy import private_copy

_POLL_S = 0.1
_USUAL_GROWTH = 4.0  # a database is about this many times its report
_PLACES = (
    ("/opt/nvidia/nsight-systems", "*/bin/nsys"),
    ("/opt/nvidia/nsight-systems-cli", "*/bin/nsys"),
    ("/usr/local", "cuda*/bin/nsys"),
    ("/usr/lib/nsight-systems", "bin/nsys"),
    ("/Applications", "NVIDIA Nsight Systems.app/Contents/target-*/nsys"),
    ("C:/Program Files/NVIDIA Corporation", "Nsight Systems */target-windows-x64/nsys.exe"),
)


def find_nsys() -> Path | None:
    """The nsys on the search path, or the newest in a usual place; None when there is none."""
    if found := program_search.program("nsys"):
        return Path(found)
    if not sys.platform.startswith(("linux", "win", "darwin")):
        return None
    candidates = [
        file for folder, pattern in _PLACES for file in Path(folder).glob(pattern) if os.access(file, os.X_OK)
    ]
    return max(candidates, key=_version, default=None)


def _version(path: Path) -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d+", str(path)))


def converted(report: Path, nsys: Path, progress: Progress) -> Path:
    """The SQLite database of a report; made once. Raises ``TraceError`` with what nsys said when it fails."""

    def fill(target: Path) -> None:
        output = target.with_suffix(".sqlite")
        try:
            _export(report, nsys, output, progress)
            os.replace(output, target)
        finally:
            for suffix in ("", "-journal", "-wal", "-shm"):
                Path(f"{output}{suffix}").unlink(missing_ok=True)

    return private_copy(report, "exported", fill)


def _export(report: Path, nsys: Path, output: Path, progress: Progress) -> None:
    command = [
        str(nsys),
        "export",
        "--type=sqlite",
        f"--output={output}",
        "--force-overwrite=true",
        str(report.resolve()),
    ]
    expected = max(report.stat().st_size * _USUAL_GROWTH, 1)
    with tempfile.TemporaryFile() as said:
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=said, stderr=subprocess.STDOUT, cwd=output.parent
        )
        try:
            while process.poll() is None:
                size = output.stat().st_size if output.exists() else 0
                progress.step(min(size / expected, 0.95), "converting with nsys")
                try:
                    process.wait(_POLL_S)
                except subprocess.TimeoutExpired:
                    continue
        finally:
            if process.poll() is None:
                process.kill()
                process.wait()
        said.seek(0)
        words = said.read()[-2000:].decode("utf-8", "replace").strip()
    if process.returncode != 0 or not output.exists():
        last = words.splitlines()[-1].strip() if words else f"exit code {process.returncode}"
        raise TraceError(
            report,
            f"nsys could not convert this report: {last[:300]}",
            f"It was made by another version than {nsys}; install that version, or a newer one.",
        )
