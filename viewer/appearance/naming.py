"""Names as they are written into boxes: on one line, and of Python frames the function first."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

from parsers.model.late import regex
from parsers.model.names.kernels import kernel_name

if TYPE_CHECKING:
    from rules.findings.base import Evidence

_PYTHON = regex(r"^(?P<file>[^()]+)\((?P<line>\d+)\): (?P<what>.+)$")


@lru_cache(maxsize=20_000)
def python_name(name: str) -> str:
    """ "train.py(12): forward" as "forward (train.py:12)"; anything else as it is."""
    found = _PYTHON.match(name)
    if not found:
        return name
    return f"{found['what']} ({found['file'].rsplit('/', 1)[-1]}:{found['line']})"


def plain_name(name: str) -> str:
    """A name on one line."""
    return name if name.isprintable() else " ".join(name.split())


def place_name(evidence: Evidence) -> str:
    """What a place on the timeline is called: a kernel by its own name, a gap by its culprit as it is."""
    return kernel_name(evidence.name) if evidence.event >= 0 else evidence.name
