"""What can be opened, and where: is there a display, the formats that are read, the bundled samples."""

from __future__ import annotations

import json
import os
import sys
import tomllib
from collections.abc import Mapping
from functools import cache
from pathlib import Path

import resources
from parsers.model.late import dataclass


def has_display(environment: Mapping[str, str] | None = None, platform: str = sys.platform) -> bool:
    """Whether a window can be opened: on Linux, a display server or an explicit Qt platform is named."""
    environment = os.environ if environment is None else environment
    if not platform.startswith("linux"):
        return True
    return any(environment.get(name) for name in ("DISPLAY", "WAYLAND_DISPLAY", "QT_QPA_PLATFORM"))


@cache
def formats() -> tuple[tuple[str, str], ...]:
    """Each recorder whose files are read, and which of them; as the parsers said when the program was built."""
    listed = json.loads(resources.path("formats.json").read_text("utf-8"))
    return tuple((each["recorder"], each["files"]) for each in listed)


@dataclass(frozen=True, slots=True)
class Sample:
    """A bundled recording; ``path`` is a file, or a folder of ranks."""

    path: Path
    title: str
    story: str
    kind: str


def samples() -> list[Sample]:
    """The bundled recordings that are there, in the order of ``samples.toml``."""
    return [sample for sample in _listed_samples() if sample.path.exists()]


@cache
def _listed_samples() -> tuple[Sample, ...]:
    folder = resources.path("samples")
    try:
        listed = tomllib.loads((folder / "samples.toml").read_text("utf-8"))["sample"]
    except OSError:
        return ()
    return tuple(Sample(folder / each["path"], each["title"], each["story"], each["kind"]) for each in listed)
