"""The least that reading a JSON recording can cost here: decode its events into typed records, and drop them."""

from __future__ import annotations

from pathlib import Path

import msgspec

BYTES_AT_ONCE = 8 << 20
BOUNDARY = b"\n  },\n  {"


class Event(msgspec.Struct):
    """What every reader has to look at."""

    ph: str
    name: str = ""
    cat: str = ""
    ts: float = 0.0
    dur: float = 0.0
    args: msgspec.Raw = msgspec.Raw(b"")


def scan(path: Path) -> int:
    """The number of events, decoded chunk by chunk from a recording of ``kineto_like``."""
    decode = msgspec.json.Decoder(list[Event]).decode
    count = 0
    with path.open("rb") as file:
        rest = file.read(BYTES_AT_ONCE)
        rest = rest[rest.index(b'"traceEvents": [') + len(b'"traceEvents": [') :]
        while more := file.read(BYTES_AT_ONCE):
            rest += more
            cut = rest.rindex(BOUNDARY) + len(b"\n  }")
            count += len(decode(b"[" + rest[:cut] + b"]"))
            rest = rest[cut + 1 :]
    return count + len(decode(b"[" + rest[: rest.rindex(b"]") + 1]))
