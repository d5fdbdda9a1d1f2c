"""What a benchmark of collectives that was opened beside the recording measured: the roof of this machine's links."""

from __future__ import annotations

import re

from parsers.model import Trace

_TITLE = re.compile(r"nccl-tests ([\w ]+?)(?:,|$)")
_GIGA = 1e9
_FURTHEST = 4.0  # times larger or smaller: sizes further apart than that do not compare


def measured_bus_bandwidth(trace: Trace, collective: str, size: int) -> float | None:
    """Bus bandwidth in bytes per second that nccl-tests reached at the nearest size; None where it tried none near.

    ``collective`` is a name such as "allreduce"; a table that does not say which it measured is not used.
    """
    wanted = collective.replace("_", "").replace(" ", "").lower()
    for table in trace.tables:
        title = _TITLE.match(table.title)
        if size <= 0 or title is None or title[1].replace(" ", "") != wanted:
            continue
        found = [
            (max(tried / size, size / tried), reached)
            for tried, reached in zip(table.column("size"), table.column("busbw out of place"), strict=True)
            if isinstance(tried, float) and isinstance(reached, float) and tried > 0
        ]
        distance, reached = min(found, default=(_FURTHEST * 2, 0.0))
        if distance <= _FURTHEST:
            return reached * _GIGA
    return None
