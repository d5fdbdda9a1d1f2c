"""The clock of a device log: local times without a time zone, and how they become UTC."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path

NS = 1_000_000_000
_YEARS = range(1970, 2200)  # what int64 ns since 1970 can hold, and a log can be of
_DATE = re.compile(r"(\d{4})[/-]?(\d{2})[/-]?(\d{2})$")
_TIME = re.compile(r"(\d{1,2}):(\d{2}):(\d{2})(?:[.,](\d{1,9}))?$")
_LARGEST_OFFSET = timedelta(hours=14)
_QUARTER = timedelta(minutes=15)
_CLOSE = timedelta(seconds=10)


def local_ns(date: str, time: str) -> int | None:
    """ns since 1970-01-01 of a written date and time, taken as if it were UTC; None when it cannot be read."""
    day, clock = _DATE.match(date.strip()), _TIME.match(time.strip())
    if clock is None or (date and day is None):
        return None
    year, month, of_month = (int(part) for part in day.groups()) if day else (1970, 1, 1)
    if year not in _YEARS:
        return None
    try:
        moment = datetime(year, month, of_month, int(clock[1]), int(clock[2]), int(clock[3]), tzinfo=UTC)
    except ValueError:
        return None
    fraction = int((clock[4] or "0").ljust(9, "0"))
    return int(moment.timestamp()) * NS + fraction


def zone_of(path: Path, last_local_ns: int) -> tuple[timezone, bool]:
    """The time zone of a log that ends at a local time, and whether it could be told.

    A log is last written when its last line is; so a file that still has its time of writing tells the zone,
    which is a multiple of 15 minutes. Otherwise this computer's own zone is assumed.
    """
    last = datetime.fromtimestamp(last_local_ns // NS, UTC)
    try:
        written = datetime.fromtimestamp(path.stat().st_mtime, UTC)
    except (OSError, OverflowError, ValueError):
        written = datetime.fromtimestamp(0, UTC)
    offset = last - written
    whole = round(offset / _QUARTER) * _QUARTER
    if abs(whole) <= _LARGEST_OFFSET and abs(offset - whole) <= _CLOSE:
        return timezone(whole), True
    try:
        local = last.replace(tzinfo=None).astimezone().utcoffset() or timedelta(0)
    except (OSError, OverflowError, ValueError):
        local = timedelta(0)
    return timezone(local), False
