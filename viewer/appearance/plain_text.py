"""Text of a recording, or the name of a file, made safe for a terminal, a page or a spreadsheet; no Qt."""

from __future__ import annotations

from collections.abc import Iterable

from parsers.model.late import regex

_SHOWN_INSTEAD = "\ufffd"
_CONTROL = regex(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")
# wide forms as well, which Excel takes for the others
_FORMULA = regex(r"[\s\ufeff]*[=+\-@|%\uff1d\uff0b\uff0d\uff20]|[\t\n]")


def safe(text: str) -> str:
    """``text`` without control codes, direction marks and halves of characters, which could fool its reader.

    Line feeds and tabs stay.
    """
    return text if text.isprintable() else _CONTROL.sub(_SHOWN_INSTEAD, text)


def one_line(text: str) -> str:
    """``safe`` text that cannot begin another line."""
    return safe(text).replace("\n", " ")


def joined(lines: Iterable[str]) -> str:
    """The lines of a report: whatever a name in one of them holds, it stays one line."""
    return "\n".join(map(one_line, lines)).rstrip() + "\n"


def cell(text: str) -> str:
    """``safe`` text that no spreadsheet takes for a formula: an apostrophe stands before what looks like one."""
    shown = safe(text)
    return f"'{shown}" if _FORMULA.match(shown) else shown
