"""Text as UTF-8, however it was written: PowerShell writes what programs print as UTF-16."""

from __future__ import annotations

import codecs

_MARKS = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)


def utf8(content: bytes) -> bytes:
    """The same text as UTF-8 where it begins with the mark of UTF-16; all else as it is."""
    return content.decode("utf-16", "replace").encode() if content.startswith(_MARKS) else content


def decoded(content: bytes) -> str:
    """Text that was written as UTF-8 or, with its mark, as UTF-16; what is neither becomes U+FFFD."""
    return utf8(content).decode("utf-8", "replace")
