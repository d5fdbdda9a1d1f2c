"""Turns what a desktop hands over, a path or a file:// URL, into a path."""

from __future__ import annotations

import socket
from pathlib import Path
from urllib.parse import urlsplit
from urllib.request import url2pathname


def local_path(word: str) -> Path:
    """The file that ``word`` names: a path as it stands, or the path of a URL of a file on this machine."""
    if not word.lower().startswith("file:/") or Path(word).exists():
        return Path(word)
    url = urlsplit(word)
    if url.hostname not in (None, "localhost", socket.gethostname().lower()):
        return Path(word)
    return Path(url2pathname(url.path))
