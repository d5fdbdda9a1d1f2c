"""Files the program ships: icons, themes, GPU peaks, sample recordings."""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path


def path(name: str) -> Path:
    """The file or folder ``name`` ("samples/x.json.gz"), wherever the program was installed."""
    return Path(str(files(__name__).joinpath(name)))
