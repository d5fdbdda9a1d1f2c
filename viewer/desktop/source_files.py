"""Source files that a recording names: where they lie on this machine, and the lines around one of theirs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path, PurePath, PurePosixPath, PureWindowsPath

MAX_BYTES = 4 << 20  # bytes of a file that is shown
AROUND = 4  # lines before and after


def mapped(file: str, folders: Mapping[str, str]) -> str:
    """A recorded path where it lies here, by the longest of the recorded folders that it begins with."""
    for recorded in sorted(folders, key=len, reverse=True):
        base = recorded.rstrip("/\\")
        if file == base or file.startswith((base + "/", base + "\\")):
            rest = file[len(base) :].lstrip("/\\")
            parts = PureWindowsPath(rest).parts if "\\" in rest else PurePosixPath(rest).parts
            return str(PurePath(folders[recorded], *parts))
    return file


def found_here(file: str, folders: Mapping[str, str], beside: Sequence[Path]) -> Path:
    """Where a recorded file lies here: as mapped, or, of a relative path, below one of the folders ``beside``."""
    path = Path(mapped(file, folders))
    if path.is_absolute():
        return path
    candidates = [*(Path(each) / path for each in folders.values()), *(each / path for each in beside)]
    return next((each for each in candidates if each.is_file()), candidates[0] if candidates else path)


def folders_of(text: str) -> dict[str, str]:
    """The map of "RECORDED=HERE" lines; lines without both are left out."""
    pairs = (line.partition("=")[::2] for line in text.splitlines())
    return {recorded.strip(): here.strip() for recorded, here in pairs if recorded.strip() and here.strip()}


def excerpt(file: Path, line: int, beside: Mapping[int, str] | None = None) -> str:
    """The lines around one, numbered, the line itself marked; empty where the file is not here or is no source.

    What is to stand ``beside`` a line stands between its number and its text.
    """
    try:
        if not file.is_file() or file.stat().st_size > MAX_BYTES:
            return ""
        lines = file.read_text("utf-8").splitlines()
    except (OSError, ValueError):
        return ""
    first, last = max(line - AROUND, 1), min(line + AROUND, len(lines))
    shown = range(first, last + 1)
    told = {number: (beside or {}).get(number, "") for number in shown}
    width, room = len(str(last)), max(map(len, told.values()), default=0)
    gap = "  " if room else ""
    return "\n".join(
        f"{'>' if number == line else ' '} {number:>{width}}  {told[number]:>{room}}{gap}{lines[number - 1]}"
        for number in shown
    )
