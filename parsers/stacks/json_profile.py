"""Profiles of the CPU as JSON, which are decoded at once."""

from __future__ import annotations

from typing import TypeVar

from parsers.files.base import Source
from parsers.files.decoders import from_json_of
from parsers.files.unpacking_limit import require_memory, whole_content
from parsers.model import Progress

T = TypeVar("T")

_MAX_BYTES = 256 << 20  # an hour of 100 samples a second takes 50 MB
_SHORTER = "Record fewer samples."


def decoded_profile(
    source: Source, kind: type[T], counted: bytes, bytes_each: int, what: str, hint: str, progress: Progress
) -> T:
    """The content of a file. ``bytes_each`` is the memory, in bytes, for each time that ``counted`` stands in it.

    Raises ``TraceError`` where it is too large, and ``Malformed``, with ``what`` cannot be read and a hint, where it
    is not of this kind.
    """
    data = whole_content(source, progress, "reading samples", _SHORTER, _MAX_BYTES)
    require_memory(source.path, data.count(counted), bytes_each, _SHORTER)
    return from_json_of(source, data, kind, what, hint)
