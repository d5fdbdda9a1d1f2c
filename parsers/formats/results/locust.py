"""Load tests by Locust (--csv): the requests of each address, and the whole test as it went on."""

from __future__ import annotations

import csv
from collections.abc import Iterator, Sequence

from parsers.csv_tables import header_of
from parsers.files.base import Source, parser
from parsers.model import ResultColumn, ResultTable
from parsers.model.late import dataclass, regex
from parsers.model.units import NS_PER_MS, NS_PER_S, duration, percent, three_digits
from parsers.printed_profile import PrintedProfile

_STATISTICS = ("Type", "Name", "Request Count", "Failure Count", "Average Response Time", "Requests/s")
_HISTORY = ("Timestamp", "User Count", "Type", "Name", "Requests/s", "Total Request Count")
_ALL = "Aggregated"
MOST = 0.5  # of the time of all requests
_NUMBER = regex(r"-?\d{1,15}(?:\.\d{1,25})?(?:e[-+]?\d{1,3})?")
_PERCENTILES = ("50%", "90%", "95%", "99%")
_TIMES = ("Average Response Time", "Min Response Time", "Max Response Time", *_PERCENTILES)


@parser
class Locust(PrintedProfile):
    """Recognised by the columns of its two kinds of tables."""

    format = "locust"
    title = "benchmarks"
    files = "CSV of Locust (--csv): statistics, and their history"
    suffixes = (".csv",)
    priority = 46
    producer = "Locust"

    def recognises(self, source: Source) -> bool:
        names = set(header_of(source.head))
        return names.issuperset(_STATISTICS) or names.issuperset(_HISTORY)

    def tables(self, text: str) -> Iterator[ResultTable]:
        lines = csv.reader(text.splitlines())
        names = [name.strip() for name in next(lines, [])]
        rows = [_Row(dict(zip(names, line, strict=True))) for line in lines if len(line) == len(names)]
        yield _history(rows) if set(names).issuperset(_HISTORY) else _statistics(rows)


@dataclass(frozen=True, slots=True)
class _Row:
    """The cells of one line by their columns; what is no number there is none."""

    cells: dict[str, str]

    def number(self, name: str) -> float | None:
        text = self.cells.get(name, "")
        return float(text) if _NUMBER.fullmatch(text) else None

    def numbers(self, names: Sequence[str]) -> tuple[float | None, ...]:
        return tuple(self.number(name) for name in names)

    @property
    def name(self) -> str:
        return " ".join(filter(None, (self.cells.get(part, "").strip() for part in ("Type", "Name"))))


def _statistics(rows: Sequence[_Row]) -> ResultTable:
    """A row for each address, those that took the server most time first, and the whole test last."""
    counts = ("Request Count", "Failure Count", "Requests/s")
    columns = (
        ResultColumn("Request"),
        *(ResultColumn(name) for name in counts),
        *(ResultColumn(name, "ms") for name in _TIMES),
    )
    ordered = sorted(rows, key=lambda row: (row.name == _ALL, -_together_ms(row)))
    table = tuple((row.name, *row.numbers(counts), *row.numbers(_TIMES)) for row in ordered)
    whole = next((row for row in ordered if row.name == _ALL), None)
    if whole is None:
        return ResultTable("Load test by Locust", columns, table)
    title = _title(*whole.numbers((*counts, "Average Response Time", "50%")))
    return ResultTable(f"{title}{_mostly(ordered[0], whole)}", columns, table)


def _together_ms(row: _Row) -> float:
    return (row.number("Request Count") or 0.0) * (row.number("Average Response Time") or 0.0)


def _mostly(first: _Row, whole: _Row) -> str:
    """Which address takes the requests most of their time, where there are several."""
    share = _together_ms(first) / (_together_ms(whole) or 1.0)
    return f"; {percent(share)} of the time goes to {first.name[:80]}" if MOST <= share < 1.0 else ""


def _history(rows: Sequence[_Row]) -> ResultTable:
    """The whole test as it went on, second by second, without the lines before its first answer."""
    whole = [row for row in rows if row.name == _ALL and row.number("Timestamp") is not None]
    begun = whole[0].number("Timestamp") or 0.0 if whole else 0.0
    counted = ("User Count", "Requests/s", "Failures/s")
    columns = (
        ResultColumn("time", "s"),
        *(ResultColumn(name) for name in counted),
        *(ResultColumn(name, "ms") for name in _PERCENTILES),
    )
    answered = [row for row in whole if row.number("Total Request Count")]
    table = tuple(
        ((row.number("Timestamp") or 0.0) - begun, *row.numbers(counted), *row.numbers(_PERCENTILES))
        for row in answered
    )
    if not answered:
        return ResultTable("Load test by Locust", columns, ())
    last = answered[-1]
    passed_s = (last.number("Timestamp") or 0.0) - begun
    count = last.number("Total Request Count") or 0.0
    title = _title(
        count,
        last.number("Total Failure Count"),
        count / passed_s if passed_s > 0 else None,
        *last.numbers(("Total Average Response Time", "Total Median Response Time")),
    )
    users = max(row.number("User Count") or 0.0 for row in answered)
    return ResultTable(
        f"{title}; at most {users:,.0f} users at once, for {duration(passed_s * NS_PER_S)}", columns, table
    )


def _title(
    count: float | None,
    failed: float | None,
    rate: float | None,
    mean_ms: float | None,
    half_ms: float | None,
) -> str:
    told = [
        f"{failed:,.0f} of {count or 0:,.0f} requests failed" if failed else f"{count or 0:,.0f} requests"
    ]
    if rate:
        told.append(f"{three_digits(rate)} a second")
    if mean_ms:
        half = f", {duration(half_ms * NS_PER_MS)} for half of them" if half_ms else ""
        told.append(f"{duration(mean_ms * NS_PER_MS)} each on average{half}")
    return f"Load test by Locust: {', '.join(told)}"
