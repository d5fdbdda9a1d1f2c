"""Keys as this system calls them: what Qt calls Ctrl is Command on a Mac."""

from __future__ import annotations

import sys


def key_names(text: str, platform: str = sys.platform) -> str:
    """``text`` with its keys named as on this system."""
    return text.replace("Ctrl", "Cmd") if platform == "darwin" else text
