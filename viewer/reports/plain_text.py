"""Text of a recording, made safe for a terminal or a page; no Qt."""

from __future__ import annotations

import re

_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069]")


def safe(text: str) -> str:
    """``text`` without control codes and direction marks, which a recording could use to fool its reader."""
    return _CONTROL.sub("\N{REPLACEMENT CHARACTER}", text)
