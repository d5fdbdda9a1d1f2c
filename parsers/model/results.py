"""Tables of results that a tool prints: benchmarks and summaries, beside a recording or in its place."""

from __future__ import annotations

from enum import Enum

from parsers.model.late import dataclass
from parsers.model.quality import Effect, QualityRecorder

Cell = str | float | None
MAX_ROWS = 5_000  # of one table; a summary has some hundreds, and more is a list of events


def rows_shown(quality: QualityRecorder, count: int) -> int:
    """How many of ``count`` rows a table takes; the account gets them all, and a note of those that are left out."""
    shown = min(count, MAX_ROWS)
    quality.read(count)
    quality.keep(shown)
    quality.note(
        "rows-left-out", Effect.QUARANTINED, f"a table shows its first {MAX_ROWS:,} rows", count=count - shown
    )
    return shown


@dataclass(frozen=True, slots=True)
class ResultColumn:
    """One column; ``unit`` as the tool states it, empty where it states none."""

    name: str
    unit: str = ""

    @property
    def title(self) -> str:
        return f"{self.name} ({self.unit})" if self.unit else self.name


def titled(*titles: str) -> tuple[ResultColumn, ...]:
    """Columns by their titles: "Time (ms)" is a name and its unit."""
    parts = (title.removesuffix(")").partition(" (") for title in titles)
    return tuple(ResultColumn(name, unit) for name, _, unit in parts)


class TimeOf(Enum):
    """Whose time the rows of a table add up."""

    GPU = 0
    CPU = 1
    CALLS = 2  # a CPU's, to the library that drives the GPU
    PROGRAM = 3  # by the clock, waiting included


@dataclass(frozen=True, slots=True)
class Totals:
    """That each row of a table states the time of one thing on its own: columns by their places, -1 for none.

    ``share`` is percent of all such time, which may include rows that were not printed; it may stand alone. ``whole``
    is all such time in the unit of ``time``, where that is stated; ``longest`` is what the longest call of a row took.
    With ``kind`` only the rows count that say so in the
    column ``kind[0]``; the rows ``without`` state time that other rows state, too.
    """

    of: TimeOf
    name: int
    time: int
    share: int = -1
    calls: int = -1
    kind: tuple[int, str] | None = None
    whole: float = 0.0
    without: frozenset[int] = frozenset()
    longest: int = -1


class RequestPart(Enum):
    """What the time of a request to a server is made of, by the client's or the server's clock."""

    FIRST_TOKEN = 0  # until it comes
    TOKENS = 1  # from the first one to the last one
    QUEUE = 2
    COMPUTE = 3
    OUTSIDE = 4  # none of the stages that the server states


@dataclass(frozen=True, slots=True)
class LoadTest:
    """A mean request of a load test, or the median one, in ns: its parts; 0 for what is not stated.

    ``token_ns`` is the time from one token to the next one; ``rate`` the requests a second that were asked for,
    infinite where all were sent without a pause; ``at_once`` how many of them ran together at most;
    ``half_first_ns`` when half of the requests have their first token; ``late_ns`` how long the last answers took
    after all requests were sent, at ``rate``.
    """

    parts: tuple[tuple[RequestPart, float], ...]
    token_ns: float = 0.0
    rate: float = 0.0
    at_once: float = 0.0
    half_first_ns: float = 0.0
    late_ns: float = 0.0


@dataclass(frozen=True, slots=True)
class ResultTable:
    """Rows of equal length; numbers are floats in the unit of their column, None where a cell holds nothing.

    ``zero_ns`` is the wall clock (ns since 1970) that the times in it count from, where that is known.
    """

    title: str
    columns: tuple[ResultColumn, ...]
    rows: tuple[tuple[Cell, ...], ...]
    zero_ns: int | None = None
    totals: tuple[Totals, ...] = ()
    load: LoadTest | None = None

    def column(self, name: str) -> tuple[Cell, ...]:
        """The cells of the first column of this name; empty when there is none."""
        place = next((place for place, column in enumerate(self.columns) if column.name == name), None)
        return () if place is None else tuple(row[place] for row in self.rows)


# of a table of the program's own functions, each with the libraries that it calls
OWN_CODE = titled("Own function", "With its libraries (s)", "Share (%)", "Mostly in", "Of it (s)")
REQUEST_LOG_TITLE = "Request log "  # before the name of its file
# of a table with one row a request; times since the first arrival
REQUEST_LOG = titled("id", "arrival (ms)", "first token (ms)", "end (ms)", "prompt (tokens)", "out (tokens)")

KERNEL_TIMES_TITLE = "Kernel times"  # of a profile without a timeline
# one row for each kernel in each scope of the program, the longest first
KERNEL_TIMES = titled(
    "kernel",
    "scope",
    "launches",
    "time (ms)",
    "share (%)",
    "moved (GB/s)",
    "possible (GB/s)",
    "computed (TFLOP/s)",
)

CALLED_BY = " < "  # between an operator's callers, the innermost first
OPERATORS_TITLE = "Operators of the execution trace"
# one row for each operator with inputs of one shape and type, those with most elements first; shapes as JSON
OPERATORS = titled("operator", "called by", "calls", "shapes", "types", "numbers")
COPIES_TITLE = "Copies between devices"
COPIES = titled("from", "to", "copies", "size (MB)")
