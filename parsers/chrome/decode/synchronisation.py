"""What a synchronisation on the device waited for, from the words that Kineto uses."""

from __future__ import annotations

from typing import Any

from parsers.model import SyncKind

_KINDS = {
    "event sync": SyncKind.EVENT,
    "stream wait event": SyncKind.STREAM_WAIT_EVENT,
    "stream sync": SyncKind.STREAM,
    "context sync": SyncKind.CONTEXT,
}


def sync_kind(text: Any) -> SyncKind:
    """The kind of a stated ``cuda_sync_kind``."""
    return _KINDS.get(text.lower(), SyncKind.UNKNOWN) if isinstance(text, str) else SyncKind.UNKNOWN
