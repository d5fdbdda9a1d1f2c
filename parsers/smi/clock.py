"""The clock of a device log: local times without a time zone, and how they become UTC."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path

from parsers.model.late import regex
from parsers.model.units import NS_PER_S

_YEARS = range(1970, 2200)  # what int64 ns since 1970 can hold, and a log can be of
_DATE = regex(r"(?P<year>\d{4})[/-]?(?P<month>\d{2})[/-]?(?P<day>\d{2})$")
_DATE_YEAR_LAST = {
    False: regex(r"(?P<month>\d{1,2})[/.-](?P<day>\d{1,2})[/.-](?P<year>\d{4})$"),
    True: regex(r"(?P<day>\d{1,2})[/.-](?P<month>\d{1,2})[/.-](?P<year>\d{4})$"),
}
_YEAR_LAST = regex(r"(?<![\d/.-])(\d{1,2})[/.-](\d{1,2})[/.-]\d{4}(?![\d/.-])")
_SINCE_1970 = regex(r"(\d{9,19})(?:[.,](\d{1,9}))?$")
_DIGITS_OF_SECONDS = 10  # of today's moments in seconds since 1970; three more each for ms, us and ns
_TIME = regex(r"(\d{1,2}):(\d{2}):(\d{2})(?:[.,](\d{1,9}))?$")
_MOMENT = regex(r"(\S+?)(?:T|\s+)(\S+?)\s*(Z|[+-]\d{2}:?\d{2})?$")
_MONTHS = 12
_LATEST_NS = int(datetime(_YEARS.stop, 1, 1, tzinfo=UTC).timestamp()) * NS_PER_S
_MAX_OFFSET = timedelta(hours=14)
_QUARTER = timedelta(minutes=15)
_CLOSE = timedelta(seconds=10)


def day_comes_first(text: str) -> bool | None:
    """Whether dates that end with the year begin with the day: 13 and more is no month; None where nothing tells."""
    dates = [(int(first), int(second)) for first, second in _YEAR_LAST.findall(text)]
    if any(first > _MONTHS >= second for first, second in dates):
        return True
    return False if any(second > _MONTHS >= first for first, second in dates) else None


def local_ns(date: str, time: str, day_first: bool = False) -> int | None:
    """ns since 1970-01-01 of a written date and time, taken as if it were UTC; None when it cannot be read.

    ``day_first`` says how a date that ends with the year begins.
    """
    day = _DATE.match(date.strip()) or _DATE_YEAR_LAST[day_first].match(date.strip())
    clock = _TIME.match(time.strip())
    if clock is None or (date and day is None):
        return None
    year, month, of_month = (int(day[part]) for part in ("year", "month", "day")) if day else (1970, 1, 1)
    if year not in _YEARS:
        return None
    try:
        moment = datetime(year, month, of_month, int(clock[1]), int(clock[2]), int(clock[3]), tzinfo=UTC)
    except ValueError:
        return None
    fraction = int((clock[4] or "0").ljust(9, "0"))
    return int(moment.timestamp()) * NS_PER_S + fraction


def moment_of(text: str, day_first: bool = False) -> tuple[int | None, bool]:
    """ns since 1970-01-01 of a written moment, and whether it states its time zone and so is UTC.

    "2026/01/03 15:36:53.507" is local; "2026-01-03T15:36:53+08:00" (ISO 8601) and "1767425813.507", which counts s, ms,
    us or ns since 1970, are not. None when it cannot be read.
    """
    if (counted := _SINCE_1970.match(text.strip())) is not None:
        return _since_1970(counted[1], counted[2] or ""), True
    found = _MOMENT.match(text.strip())
    if found is None or (local := local_ns(found[1], found[2], day_first)) is None:
        return None, False
    if found[3] is None:
        return local, False
    hours, minutes = (int(found[3][1:3]), int(found[3][-2:])) if found[3] != "Z" else (0, 0)
    offset = timedelta(hours=hours, minutes=minutes)
    if offset > _MAX_OFFSET:
        return None, False
    return local - (-1 if found[3][0] == "-" else 1) * int(offset.total_seconds()) * NS_PER_S, True


def _since_1970(whole: str, fraction: str) -> int | None:
    """ns of a count of s, ms, us or ns, told apart by its length."""
    finer = max(len(whole) - _DIGITS_OF_SECONDS + 2, 0) // 3
    digits = 9 - 3 * finer
    if digits < 0:
        return None
    ns = int(whole) * 10**digits + int((fraction + "0" * 9)[:digits] or 0)
    return ns if ns < _LATEST_NS else None


def zone_of(path: Path, last_local_ns: int) -> tuple[timezone, bool]:
    """The time zone of a log that ends at a local time, and whether it could be told.

    A log is last written when its last line is; so a file that still has its time of writing tells the zone,
    which is a multiple of 15 minutes. Otherwise this computer's own zone is assumed.
    """
    last = datetime.fromtimestamp(last_local_ns // NS_PER_S, UTC)
    try:
        written = datetime.fromtimestamp(path.stat().st_mtime, UTC)
    except (OSError, OverflowError, ValueError):
        written = datetime.fromtimestamp(0, UTC)
    offset = last - written
    whole = round(offset / _QUARTER) * _QUARTER
    if abs(whole) <= _MAX_OFFSET and abs(offset - whole) <= _CLOSE:
        return timezone(whole), True
    try:
        local = last.replace(tzinfo=None).astimezone().utcoffset() or timedelta(0)
    except (OSError, OverflowError, ValueError):
        local = timedelta(0)
    return timezone(local), False
