"""Files the program ships: icons, themes, GPU peaks, sample recordings."""

from __future__ import annotations

from pathlib import Path

_FOLDER = Path(__file__).parent


def path(name: str) -> Path:
    """The file or folder ``name`` ("samples/x.json.gz"), wherever the program was installed."""
    return _FOLDER / name
