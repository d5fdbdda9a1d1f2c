"""The menu entry, file types and icons for an installation by pipx or uv, in the folders of the user."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import resources
from parsers import program_search
from parsers.model import TraceError
from viewer.desktop.file_types import offered_suffixes, opened_suffixes

ICON_SIZES = (16, 22, 24, 32, 48, 64, 128, 256, 512)
_REFRESH_SECONDS = 60.0


def install(launcher: Path | None = None) -> list[str]:
    """Write the files for the program at ``launcher`` (found when None); returns what was done, a sentence a line.

    Raises ``TraceError`` where a desktop keeps such files elsewhere, or they cannot be written.
    """
    data = _data_home()
    launcher = _launcher() if launcher is None else launcher
    try:
        for source, target in _files(data):
            target.parent.mkdir(parents=True, exist_ok=True)
            if target.suffix == ".desktop":
                entry = source.read_text("utf-8")
                target.write_text(_with_launcher(entry, launcher), "utf-8")
            else:
                shutil.copyfile(source, target)
    except OSError as error:
        raise _not_written(data, error) from error
    return [
        f"Stallscope is in the menu of your desktop and starts {launcher}.",
        f"Recordings ({', '.join(f'*{suffix}' for suffix in opened_suffixes())}) open with it; "
        f"it is offered for plain {', '.join(offered_suffixes())} files, which still open in the same program.",
        f"The files are in {data}; stallscope --remove-desktop-files takes them away.",
        *_refresh(data),
    ]


def remove() -> list[str]:
    """Delete what ``install`` wrote; returns what was done."""
    data = _data_home()
    found = [target for _, target in _files(data) if target.exists()]
    try:
        for target in found:
            target.unlink()
    except OSError as error:
        raise _not_written(data, error) from error
    if not found:
        return [f"Nothing of Stallscope was found in {data}."]
    return [f"{len(found)} files were removed from {data}.", *_refresh(data)]


def _files(data: Path) -> Iterator[tuple[Path, Path]]:
    """Each file of the program and its place in a data folder."""
    desktop, icons = resources.path("desktop"), resources.path("icons")
    hicolor = data / "icons" / "hicolor"
    yield desktop / "stallscope.desktop", data / "applications" / "stallscope.desktop"
    yield desktop / "stallscope.xml", data / "mime" / "packages" / "stallscope.xml"
    yield icons / "stallscope.svg", hicolor / "scalable" / "apps" / "stallscope.svg"
    for size in ICON_SIZES:
        yield icons / f"stallscope-{size}.png", hicolor / f"{size}x{size}" / "apps" / "stallscope.png"


def _data_home() -> Path:
    if sys.platform in ("win32", "darwin"):
        raise TraceError(
            "--install-desktop-files",
            "This is for Linux desktops.",
            "On Windows and macOS the installer adds Stallscope to the desktop.",
        )
    named = os.environ.get("XDG_DATA_HOME", "")
    return Path(named) if os.path.isabs(named) else Path.home() / ".local" / "share"


def _launcher() -> Path:
    """The command that a desktop can start without this terminal's PATH or environment."""
    if getattr(sys, "frozen", False):
        return Path(sys.executable)
    beside = Path(sys.executable).parent / "stallscope"
    if beside.exists():
        return beside
    found = program_search.program("stallscope")
    if found is None:
        raise TraceError(
            "--install-desktop-files",
            "The command stallscope is not installed, so a desktop could not start it.",
            "Install it first: pipx install . or uv tool install .",
        )
    return Path(found).absolute()


def _with_launcher(entry: str, launcher: Path) -> str:
    """The desktop entry with an absolute command, quoted as the specification of desktop entries asks."""
    quoted = str(launcher)
    for special in ("\\", '"', "`", "$"):
        quoted = quoted.replace(special, "\\" + special)
    quoted = '"' + quoted.replace("\\", "\\\\").replace("%", "%%") + '"'
    lines = [
        f"Exec={quoted}{line.removeprefix('Exec=stallscope')}" if line.startswith("Exec=stallscope") else line
        for line in entry.splitlines()
    ]
    return "\n".join(lines) + "\n"


def _refresh(data: Path) -> list[str]:
    """Tell the desktop's databases; returns what is left to do where a tool for it is missing."""
    commands = (
        ["update-mime-database", str(data / "mime")],
        ["update-desktop-database", str(data / "applications")],
        ["gtk-update-icon-cache", "--quiet", "--ignore-theme-index", str(data / "icons" / "hicolor")],
    )
    left = []
    for command in commands:
        if program_search.program(command[0]) is None:
            if command[0] != "gtk-update-icon-cache":
                left.append(
                    f"{command[0]} is not installed here: the file types take effect after the next login."
                )
            continue
        try:
            program_search.answer_of(command, _REFRESH_SECONDS)
        except (OSError, subprocess.TimeoutExpired):
            left.append(f"{command[0]} failed: the file types take effect after the next login.")
    return left


def _not_written(data: Path, error: OSError) -> TraceError:
    return TraceError(
        data,
        f"The desktop files could not be changed: {error.strerror or error}.",
        "Check who owns the folder.",
    )
