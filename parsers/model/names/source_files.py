"""Whose code a source file holds: the user's own, or that of Python, a library or an extension."""

from __future__ import annotations

import re

_NOT_OWN = re.compile(
    r"[/\\](site|dist)-packages[/\\]|[/\\]lib(64)?[/\\]python\d|[/\\]torch[/\\]|^<|^$|\.(cpp|cc|c|h|cu|cuh|pyx)$"
)


def is_own_file(file: str) -> bool:
    """Whether a file, by its path, is neither of Python nor of a library."""
    return _NOT_OWN.search(file) is None
